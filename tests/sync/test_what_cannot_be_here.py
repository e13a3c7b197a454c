"""Files that one machine cannot hold: listed until they are put right, and nothing is wedged."""

from __future__ import annotations

import shutil

import pytest

from familiar_cli.store.journal.edits import refused_files
from tests.support.instances import Machine, adopt
from tests.support.remotes import HAS_GIT, bare, bare_by_hand

pytestmark = pytest.mark.posix


@pytest.fixture
def hub(tmp_path):
    return bare(tmp_path / "hub.git") if HAS_GIT else bare_by_hand(tmp_path / "hub.git")


@pytest.fixture
def machines(tmp_path, hub):
    """Two that have the same."""
    laptop = Machine(tmp_path / "laptop", "laptop")
    laptop.commit("first", topics__tea="# Tea\n\n- green\n")
    laptop.sync(hub)
    desk = Machine(tmp_path / "desk", "desk", began=laptop.instance.id)
    adopt(desk, hub)
    settle(hub, desk, laptop)
    yield laptop, desk
    for machine in (laptop, desk):
        machine.journal.repository.close()


def put(machine, rel_path: str, content: str | None) -> None:
    """Change a file as a person does, without the program."""
    path = machine.root / "memory" / rel_path
    if content is None:
        path.unlink()
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def settle(hub, *machines) -> None:
    for _ in range(2):
        for machine in machines:
            machine.sync(hub)


def refused(machine) -> dict[str, str]:
    try:
        return refused_files(machine.journal.repository)
    finally:
        machine.journal.repository.close()


@pytest.mark.parametrize("name", ["what: now.md", "CON.md", "topics/nul", "dot./x.md"])
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside other changes"])
def test_a_name_that_cannot_be_there_is_listed_and_put_right_within_two_syncs(
    machines, hub, name, beside
) -> None:
    laptop, desk = machines
    put(laptop, name, "here\n")
    for _ in range(2):
        if beside:
            put(desk, "notes.md", "- theirs\n")
        settle(hub, laptop, desk)
        assert list(refused(desk)) == [name]
        assert refused(laptop) == {}
    put(laptop, name, "more\n")
    settle(hub, laptop, desk)
    assert list(refused(desk)) == [name]
    put(laptop, name, None)
    put(laptop, "topics/right.md", "more\n")
    settle(hub, laptop, desk)
    assert refused(desk) == {}
    assert laptop.files() == desk.files()
    assert desk.files()["topics/right.md"] == "more\n"


def test_a_file_that_grows_too_large_keeps_its_old_version_here_until_it_shrinks(
    machines, hub, monkeypatch
) -> None:
    laptop, desk = machines
    monkeypatch.setattr("familiar_cli.sync.joining.MOST_RECORDED_BYTES", 300_000)
    large = "- more\n" * 50_000
    put(laptop, "topics/tea.md", large)
    settle(hub, laptop, desk)
    assert list(refused(desk)) == ["topics/tea.md"]
    assert "green" in desk.files()["topics/tea.md"]
    put(desk, "notes.md", "- from the desk\n")
    settle(hub, desk, laptop)
    assert laptop.files()["topics/tea.md"] == large
    assert laptop.files()["notes.md"] == "- from the desk\n"
    put(laptop, "topics/tea.md", "# Tea\n")
    settle(hub, laptop, desk)
    assert desk.files() == laptop.files()
    assert refused(desk) == {}


@pytest.mark.posix
def test_what_was_in_the_way_here_and_is_gone_lets_the_file_come(machines, hub) -> None:
    laptop, desk = machines
    (desk.root / "memory" / "lore").symlink_to("topics")
    put(laptop, "lore/bees.md", "# Bees\n")
    settle(hub, laptop, desk)
    assert list(refused(desk)) == ["lore/bees.md"]
    (desk.root / "memory" / "lore").unlink()
    desk.sync(hub)
    assert desk.files() == laptop.files()
    assert refused(desk) == {}
    put(desk, "lore/bees.md", None)
    settle(hub, desk, laptop)
    assert "lore/bees.md" not in laptop.files()


def test_folders_that_were_nested_deeply_and_deleted_end_no_sync(machines, hub, tmp_path) -> None:
    laptop, desk = machines
    put(laptop, "d/" * 110 + "deep.md", "deep\n")
    settle(hub, laptop, desk)
    assert desk.files() == laptop.files()
    shutil.rmtree(laptop.root / "memory" / "d")
    settle(hub, laptop, desk)
    assert desk.files() == laptop.files()
    fresh = bare_by_hand(tmp_path / "fresh.git")
    settle(fresh, laptop, desk)
    assert (fresh / "refs" / "heads" / "memory" / desk.instance.id).exists()


def test_folders_beyond_all_measure_stay_on_their_machine_and_end_no_sync(machines, hub) -> None:
    laptop, desk = machines
    put(laptop, "e/" * 400 + "deep.md", "deep\n")
    put(laptop, "notes.md", "- beside\n")
    settle(hub, laptop, desk)
    assert desk.files()["notes.md"] == "- beside\n"
    assert not any(path.startswith("e/") for path in desk.files())
