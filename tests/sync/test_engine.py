"""Machines that share one memory through a remote: what each sync does, and what it never does."""

from __future__ import annotations

import pytest

from familiar_cli.base.errors import (
    AnotherFamiliarError,
    FamiliarError,
    NotFoundError,
    RefusedError,
    RemoteUnreachableError,
)
from tests.support.instances import Machine, adopt
from tests.support.remotes import HAS_GIT, bare, bare_by_hand, git

needs_git = pytest.mark.skipif(not HAS_GIT, reason="there is no git program")


@pytest.fixture
def hub(tmp_path):
    return bare(tmp_path / "hub.git") if HAS_GIT else bare_by_hand(tmp_path / "hub.git")


@pytest.fixture
def laptop(tmp_path):
    machine = Machine(tmp_path / "laptop", "laptop")
    machine.commit("first", topics__tea="# Tea\n\n- green\n- black\n")
    yield machine
    machine.journal.repository.close()


@pytest.fixture
def desk(tmp_path, laptop, hub):
    """A second machine that has what the laptop had."""
    laptop.sync(hub)
    machine = Machine(tmp_path / "desk", "desk", began=laptop.instance.id)
    adopt(machine, hub)
    yield machine
    machine.journal.repository.close()


def test_a_second_machine_begins_with_the_same_files(laptop, desk) -> None:
    assert desk.files() == laptop.files()
    assert desk.messages() == [f"begin on {desk.instance.id}", *laptop.messages()]
    assert desk.instance.began == laptop.instance.id


def test_bullets_of_both_are_kept_and_both_end_the_same(laptop, desk, hub) -> None:
    laptop.by_hand("topics/tea.md", "# Tea\n\n- green\n- black\n- white\n")
    desk.by_hand("topics/tea.md", "# Tea\n\n- green\n- black\n- oolong\n")
    laptop.sync(hub)
    done = desk.sync(hub)
    assert done.pulled == 1
    assert not done.outcome.conflicts
    laptop.sync(hub)
    assert desk.files() == laptop.files()
    text = laptop.files()["topics/tea.md"]
    assert "- white\n" in text
    assert "- oolong\n" in text


def test_nothing_new_changes_nothing_and_makes_no_commit(laptop, desk, hub) -> None:
    desk.commit("more", notes="# Notes\n")
    for machine in (desk, laptop, desk, laptop):
        machine.sync(hub)
    heads = [machine.journal.repository.head() for machine in (laptop, desk)]
    for machine in (laptop, desk, laptop, desk):
        done = machine.sync(hub)
        assert (done.pulled, done.pushed) == (0, 0)
    assert [machine.journal.repository.head() for machine in (laptop, desk)] == heads


def test_a_merge_is_undone_by_its_id_as_one_change_and_by_no_plain_undo(laptop, desk, hub) -> None:
    desk.commit("more", "memory_writer", notes="# Notes\n", topics__tea=None)
    desk.sync(hub)
    laptop.commit("ours", "memory_writer", other="# Other\n")
    before = laptop.files()
    laptop.sync(hub)
    assert laptop.sources()[0] == "sync"
    with pytest.raises(RefusedError, match="other machines"):
        laptop.past.undo("HEAD")
    laptop.past.undo("HEAD", merges=True)
    assert laptop.files() == before
    laptop.past.undo()
    assert "other.md" not in laptop.files()


def test_where_one_side_has_nothing_new_heads_are_forwarded_without_a_merge(
    laptop, desk, hub
) -> None:
    for at, (machine, other) in enumerate(((desk, laptop), (laptop, desk)) * 2):
        machine.commit(f"by {machine.name}", "memory_writer", **{machine.name: f"{at}\n"})
        machine.sync(hub)
        done = other.sync(hub)
        assert done.outcome.written == (f"{machine.name}.md",)
        assert other.journal.repository.head() == machine.journal.repository.head()
        assert not [c for c in other.past.log() if c.commit.merged]
    assert laptop.files() == desk.files()


def test_plain_undo_takes_back_nothing_that_another_machine_did(laptop, desk, hub) -> None:
    desk.commit("theirs", "memory_writer", notes="# Notes\n")
    desk.sync(hub)
    laptop.sync(hub)
    with pytest.raises(NotFoundError):
        laptop.past.undo()
    with pytest.raises(RefusedError, match="other machines"):
        laptop.past.undo("HEAD")
    desk.past.undo()
    assert "notes.md" in laptop.files()
    assert "notes.md" not in desk.files()


@needs_git
def test_git_finds_a_merge_and_nothing_wrong(laptop, desk, hub) -> None:
    desk.commit("theirs", notes="# Notes\n")
    desk.sync(hub)
    laptop.commit("ours", other="# Other\n")
    laptop.sync(hub)
    assert git(hub, "fsck", "--strict", "--full") == ""
    assert git(laptop.root / "journal.git", "fsck", "--strict", "--full") == ""
    parents = git(laptop.root / "journal.git", "log", "-1", "--format=%P", "main").split()
    assert len(parents) == 2
    assert set(git(hub, "branch", "--format=%(refname:short)").split()) == {
        "main",
        f"memory/{laptop.instance.id}",
        f"memory/{desk.instance.id}",
    }


def test_log_and_blame_tell_what_came_by_sync(laptop, desk, hub) -> None:
    desk.commit("theirs", notes="# Notes\n")
    desk.sync(hub)
    laptop.commit("ours", other="# Other\n")
    laptop.sync(hub)
    told = {f"merge {desk.instance.id}", f"begin on {desk.instance.id}", "theirs", "ours", "first"}
    assert set(laptop.messages()) == told
    (line,) = laptop.past.blame("notes.md")
    assert (line.commit.message, line.commit.instance) == ("theirs", desk.instance.id)


def test_a_remote_of_another_familiar_is_refused(laptop, tmp_path, hub) -> None:
    laptop.sync(hub)
    other = Machine(tmp_path / "other", "other")
    other.commit("something else", a="a\n")
    with pytest.raises(AnotherFamiliarError, match="another familiar"):
        other.sync(hub)
    assert not other.journal.repository.objects.has(str(laptop.journal.repository.head()))


def test_a_restored_backup_gets_a_new_id_and_loses_nothing(laptop, tmp_path, hub) -> None:
    import shutil

    laptop.sync(hub)
    laptop.journal.repository.close()
    shutil.copytree(laptop.root, tmp_path / "copy")
    copy = Machine(tmp_path / "copy", "copy")
    assert copy.instance.id == laptop.instance.id
    laptop.commit("on the laptop", a="a\n")
    laptop.sync(hub)
    copy.commit("on the copy", b="b\n")
    done = copy.sync(hub)
    assert copy.instance.id != laptop.instance.id
    assert "in use" in done.notes[0] or "used by another" in done.notes[0]
    laptop.sync(hub)
    assert laptop.files() == copy.files()
    assert {"a.md", "b.md"} <= set(laptop.files())


def test_a_ref_that_moved_back_is_told_and_not_followed(laptop, desk, hub) -> None:
    old = laptop.journal.repository.head()
    laptop.commit("later", a="a\n")
    laptop.sync(hub)
    desk.sync(hub)
    ref = hub / "refs" / "heads" / "memory" / laptop.instance.id
    ref.write_text(f"{old}\n")
    done = desk.sync(hub)
    assert "was rewritten" in done.notes[0]
    assert "a.md" in desk.files()


def test_a_ref_that_vanished_is_told_and_an_empty_remote_empties_nothing(laptop, desk, hub) -> None:
    import shutil

    desk.sync(hub)
    before = laptop.files()
    laptop.sync(hub)
    shutil.rmtree(hub / "refs" / "heads")
    (hub / "refs" / "heads").mkdir()
    done = laptop.sync(hub)
    assert "was deleted" in done.notes[0]
    assert laptop.files() == before
    assert (hub / "refs" / "heads" / "memory" / laptop.instance.id).exists()


def test_a_dry_run_changes_nothing_on_either_side(laptop, desk, hub) -> None:
    desk.commit("theirs", notes="# Notes\n")
    desk.sync(hub)
    laptop.commit("ours", other="# Other\n")
    before, head = laptop.files(), laptop.journal.repository.head()
    refs = sorted(path.read_text() for path in (hub / "refs").rglob("*") if path.is_file())
    done = laptop.sync(hub, dry_run=True)
    assert done.pulled == 2  # what was changed, and that the desk began
    assert done.outcome.written == ("notes.md",)
    assert (laptop.files(), laptop.journal.repository.head()) == (before, head)
    assert refs == sorted(path.read_text() for path in (hub / "refs").rglob("*") if path.is_file())


def test_pull_alone_sends_nothing_and_push_alone_takes_nothing(laptop, desk, hub) -> None:
    desk.commit("theirs", notes="# Notes\n")
    desk.sync(hub)
    laptop.commit("ours", other="# Other\n")
    laptop.sync(hub, pull=False)
    assert "notes.md" not in laptop.files()
    desk.sync(hub, push=False)
    assert "other.md" in desk.files()
    laptop.sync(hub, push=False)
    assert "notes.md" in laptop.files()


def test_a_remote_that_is_gone_is_told_and_nothing_is_lost(laptop, tmp_path) -> None:
    with pytest.raises(RemoteUnreachableError):
        laptop.sync(tmp_path / "none.git")
    assert laptop.messages() == ["first"]


def test_a_file_that_cannot_be_here_stops_no_other_and_stays_there(laptop, desk, hub) -> None:
    if (desk.root / "memory" / "TOPICS").exists():
        pytest.skip("two such names are one here")
    desk.by_hand("con.md", "a name that Windows keeps for itself\n")
    desk.by_hand("good.md", "good\n")
    desk.sync(hub)
    for _ in range(2):
        done = laptop.sync(hub)
        assert "con.md" not in laptop.files()
        assert laptop.files()["good.md"] == "good\n"
        desk.sync(hub)
        assert "con.md" in desk.files()
        laptop.commit("more", more="more\n")
        laptop.by_hand("by-hand.md", "by hand\n")
    assert "con.md" in done.outcome.refused or done.outcome.commits == ()


def test_three_machines_end_the_same_whatever_the_order(laptop, desk, hub, tmp_path) -> None:
    phone = Machine(tmp_path / "phone", "phone", began=laptop.instance.id)
    adopt(phone, hub)
    for n, machine in enumerate((laptop, desk, phone)):
        machine.by_hand("topics/tea.md", machine.files()["topics/tea.md"] + f"- from {n}\n")
        machine.commit(f"own {n}", **{f"own{n}": f"{n}\n"})
    for machine in (phone, laptop, desk, laptop, phone, desk, laptop, phone):
        machine.sync(hub)
    assert laptop.files() == desk.files() == phone.files()
    assert all(f"- from {n}\n" in phone.files()["topics/tea.md"] for n in range(3))
    phone.journal.repository.close()


def test_an_edit_by_hand_in_the_middle_of_a_merge_is_kept(laptop, desk, hub, monkeypatch) -> None:
    desk.by_hand("topics/tea.md", "# Tea\n\n- green\n- black\n- oolong\n")
    desk.sync(hub)
    catch_up, calls = laptop.store.catch_up, []

    def then_edit() -> None:
        catch_up()
        calls.append(1)
        if len(calls) == 1:  # the look before the first merge
            laptop.by_hand("topics/tea.md", "# Tea\n\n- green\n- black\n- mate\n")

    laptop.store.catch_up = then_edit
    laptop.sync(hub)
    text = laptop.files()["topics/tea.md"]
    assert "- mate\n" in text
    assert "- oolong\n" in text


@needs_git
def test_a_clone_shows_the_memory_on_main(laptop, desk, hub, tmp_path) -> None:
    git(tmp_path, "clone", "-q", str(hub), "clone")
    assert (tmp_path / "clone" / "topics" / "tea.md").read_text() == laptop.files()["topics/tea.md"]


def test_a_broken_off_push_is_carried_on(laptop, hub, monkeypatch) -> None:
    from familiar_cli.base.files import SharedDisk

    calls = []

    class Failing(SharedDisk):
        def replace(self, old: str, new: str) -> None:
            if "hub.git" in new and "refs" in new and not calls:
                calls.append(new)
                raise OSError(28, "No space left on device")
            super().replace(old, new)

    monkeypatch.setattr("familiar_cli.sync.git_remotes.SharedDisk", Failing)
    with pytest.raises(FamiliarError, match="No space left"):
        laptop.sync(hub)
    done = laptop.sync(hub)
    assert done.pushed == 1
