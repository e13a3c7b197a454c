"""Pull the plug at any moment: a change is there as a whole afterwards, or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from familiar_cli.base.errors import FamiliarError, LockedError
from familiar_cli.base.times import clock
from familiar_cli.store.journal.finish import PendingChange, write_mark
from familiar_cli.store.journal.objects import git_object
from familiar_cli.store.journal.repository import encode_commit, rewrite_tree
from familiar_cli.store.memory.merge.files import conflicts_in
from familiar_cli.store.memory.store.store import PENDING_MARK, hold_lock
from tests.support import dying
from tests.support.cases import IS_NIGHT
from tests.support.journals import World

ROOT = Path(__file__).resolve().parents[3]
KILLS = "50" if IS_NIGHT else "15"
posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows cannot fork")


@pytest.fixture(scope="module")
def quick_dir(tmp_path_factory):
    """A directory in memory where there is one: what a process leaves does not depend on a disk."""
    import shutil
    import tempfile

    where = tempfile.mkdtemp(dir="/dev/shm") if Path("/dev/shm").is_dir() else None
    yield where or str(tmp_path_factory.mktemp("crashes"))
    if where:
        shutil.rmtree(where)


def script(*argv: str) -> dict:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *argv], capture_output=True, text=True, env=env, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@posix
@pytest.mark.parametrize(
    "deaths", [("before known", "full found"), ("torn found", "once known", "gone known")]
)
def test_a_transaction_may_break_off_at_every_step(deaths, quick_dir) -> None:
    stride = "1" if IS_NIGHT else "5"
    found = script(str(ROOT / "tests" / "support" / "dying.py"), quick_dir, stride, *deaths)
    assert {death: one["wrong"] for death, one in found.items()} == {one: [] for one in deaths}
    assert all(one["steps"] > 40 for one in found.values())


@posix
def test_a_writer_killed_at_random_loses_nothing(quick_dir) -> None:
    argv = ["--kills", KILLS, "--seed", "7", "--life", "8", "--dir", quick_dir, "--json"]
    found = script("-m", "benchmarks.kill", *argv)
    bad = ("torn", "lost", "half", "leftovers", "journal_differs", "fsck")
    assert {name: found[name] for name in bad} == dict.fromkeys(bad, 0)
    assert found["kills"] == int(KILLS)
    assert found["finished_by_the_next"] > 0
    assert found["transactions"] > 10


def break_off(world: World, *, done: int = 1) -> str:
    """Leave a change as a crash would: decided, and the first `done` of its two files written."""
    files = {"a.md": b"a 2\n", "b.md": b"b 2\n"}
    base = world.commit("first", a="a 1\n", b="b 1\n", c="c\n")
    commit = world.commit("second", "memory_writer", a="a 2\n", b="b 2\n")
    for path in list(files)[done:]:
        world.by_hand(path, files[path].replace(b"2", b"1"))
    write_mark(world.journal.path, PendingChange(base, commit), dying.Disk())
    return commit


class TestWhoeverComesNextFinishes:
    def test_a_reader_sees_all_of_it(self, world) -> None:
        break_off(world)
        assert world.again().store.read_file("b.md") == "b 2\n"
        assert not world.journal.pending()

    @pytest.mark.parametrize(
        "read",
        [
            lambda s: s.read_bytes("b.md") == b"b 2\n",
            lambda s: s.sha256("b.md") == s.sha256("b.md") and s.read_file("b.md") == "b 2\n",
            lambda s: [h.text for h in s.grep("b 2")] == ["b 2"],
            lambda s: s.glob("*.md") and s.read_bytes("b.md") == b"b 2\n",
            lambda s: s.walk().files and s.exists("b.md") and s.read_bytes("b.md") == b"b 2\n",
            lambda s: s.list_dir() and s.read_bytes("b.md") == b"b 2\n",
        ],
    )
    def test_whatever_is_read_first(self, world, read) -> None:
        break_off(world, done=0)
        assert read(world.again().store)

    def test_a_writer_builds_on_it(self, world) -> None:
        break_off(world, done=0)
        world.again().store.append_file("b.md", "b 3\n")
        assert world.store.read_file("b.md") == "b 2\nb 3\n"
        assert world.store.read_file("a.md") == "a 2\n"

    def test_a_command_does_it(self, world) -> None:
        break_off(world)
        assert world.again().messages() == ["second", "first"]
        assert world.store.read_file("b.md") == "b 2\n"

    def test_also_when_the_branch_had_not_moved_yet(self, world) -> None:
        commit = break_off(world, done=0)
        base = world.journal.repository.commit(commit).parent
        world.journal.repository.set_head(base)
        assert world.again().store.read_file("b.md") == "b 2\n"
        assert world.again().messages() == ["second", "first"]

    def test_what_was_half_written_goes(self, world) -> None:
        break_off(world)
        world.by_hand(".tmp-familiar-1-0123456789ab.new", "b")
        world.by_hand(".tmp-familiar-1-0123456789ab.old", "b 1")
        world.by_hand(".tmp-familiar-sync", "another program's")
        world.again().store.read_file("a.md")
        assert [one.name for one in world.store.root.glob(".tmp*")] == [".tmp-familiar-sync"]

    def test_a_mark_that_a_power_failure_brought_back_changes_nothing(self, world) -> None:
        commit = break_off(world, done=2)
        world.again().store.append_file("c.md", "more\n")
        mark = PendingChange(world.journal.repository.commit(commit).parent, commit)
        write_mark(world.journal.path, mark, dying.Disk())
        assert world.again().store.read_file("c.md") == "c\nmore\n"
        assert world.again().messages() == ["append c.md", "second", "first"]


class TestAPersonsEditWins:
    def test_a_line_typed_after_the_crash_stands_beside_the_interrupted_change(self, world) -> None:
        base = world.commit("first", a="# A\n\n- old\n")
        commit = world.commit("merge desk", "sync", a="# A\n\n- old\n- from the desk\n")
        world.by_hand("a.md", "# A\n\n- old\n- typed\n")
        write_mark(world.journal.path, PendingChange(base, commit), dying.Disk())
        other = world.again()
        other.store.catch_up()
        assert other.store.read_file("a.md") == "# A\n\n- old\n- typed\n- from the desk\n"
        assert other.at_head("a.md") == other.store.read_bytes("a.md")
        change, (file,) = other.past.show("HEAD")
        assert change.commit.source == "human"
        assert [line for line in file.diff.splitlines() if line[0] in "+-"][2:] == ["+- typed"]
        assert any("'a.md' was edited" in line for line in other.told)

    def test_a_clash_keeps_both_versions(self, world) -> None:
        commit = break_off(world)
        world.by_hand("b.md", "by hand\n")
        world.by_hand("c.md", "also by hand\n")
        other = world.again()
        assert other.store.read_file("b.md") == "by hand\n"
        assert other.store.read_file("conflicts/b.md") == "b 2\n"
        (conflict,) = conflicts_in(other.store)
        assert (conflict.path, conflict.theirs) == ("b.md", commit[:10])
        assert any("'b.md' was edited" in line and "conflicts/b.md" in line for line in other.told)
        assert other.messages()[1:] == ["second", "first"]

    def test_dying_while_finishing_asks_no_second_time(self, world) -> None:
        commit = break_off(world)
        world.by_hand("b.md", "by hand\n")
        mark = PendingChange(world.journal.repository.commit(commit).parent, commit)
        for _ in range(3):
            write_mark(world.journal.path, mark, dying.Disk())
            assert world.again().store.read_file("conflicts/b.md") == "b 2\n"
        assert [one.copy for one in conflicts_in(world.store)] == ["conflicts/b.md"]

    def test_what_was_deleted_after_the_crash_keeps_what_the_change_said(self, world) -> None:
        break_off(world)
        (world.store.root / "b.md").unlink()
        other = world.again()
        assert other.store.read_file("b.md") == "b 2\n"
        assert any("'b.md' was deleted" in line for line in other.told)

    def test_what_the_change_deletes_stays_where_a_line_was_typed(self, world) -> None:
        base = world.commit("first", a="- a\n", b="- b\n")
        commit = world.commit("second", "sync", a=None, b=None)
        world.by_hand("a.md", "- a\n- typed\n")
        world.by_hand("b.md", "- b\n")
        write_mark(world.journal.path, PendingChange(base, commit), dying.Disk())
        other = world.again()
        assert other.store.read_file("a.md") == "- a\n- typed\n"
        assert not other.store.exists("b.md")

    @pytest.mark.posix
    def test_also_a_directory_or_a_link_in_the_way(self, world) -> None:
        break_off(world, done=0)
        (world.store.root / "a.md").unlink()
        (world.store.root / "a.md").mkdir()
        (world.store.root / "b.md").unlink()
        (world.store.root / "b.md").symlink_to("c.md")
        other = world.again()
        assert other.store.read_file("c.md") == "c\n"
        assert len(other.told) == 2
        other.store.append_file("c.md", "goes on\n")

    def test_a_branch_moved_by_hand_is_not_guessed_at(self, world) -> None:
        break_off(world)
        world.journal.repository.set_head(None)
        other = world.again()
        other.store.append_file("c.md", "x\n")
        assert any("moved by hand" in line for line in other.told)
        assert list((world.root / "journal.git").glob("familiar-unfinished-*"))
        assert other.messages() == ["append c.md", "the memory as it was found"]


class TestReadingWhileSomeoneWrites:
    def test_a_reader_waits_until_the_change_is_whole(self, world) -> None:
        break_off(world)
        seen = []
        with hold_lock(world.store.lock_path, 1):
            reader = threading.Thread(
                target=lambda: seen.append(world.again().store.read_file("b.md"))
            )
            reader.start()
            time.sleep(0.2)
            assert seen == []
            world.by_hand("b.md", "b 2\n")
            (world.root / "journal.git" / PENDING_MARK).unlink()
            reader.join(5)
        assert seen == ["b 2\n"]

    def test_but_not_for_ever(self, world) -> None:
        break_off(world)
        other = world.again()
        other.store.lock_timeout_s = 0.2
        with (
            hold_lock(world.store.lock_path, 1),
            pytest.raises(LockedError, match="being changed by"),
        ):
            other.store.read_file("b.md")

    def test_a_search_over_several_files_sees_one_state(self, world) -> None:
        world.commit("0", a="0\n", b="0\n")
        stop = threading.Event()

        def write() -> None:
            other = world.again()
            n = 0
            while not stop.is_set():
                n += 1
                other.commit(str(n), a=f"{n}\n", b=f"{n}\n")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(40):
                first, second = world.store.grep(r"^\d+$")
                assert first.text == second.text
        finally:
            stop.set()
            writer.join()


def forged(world: World, base: str, name: str) -> str:
    """Put a commit that makes the file `name` into the journal, as the memory never would."""
    repository = world.journal.repository
    blob = git_object("blob", b"forged\n")
    tree, made = rewrite_tree(repository.tree, repository.tree_of(base), {name: blob.id})
    commit = encode_commit(tree, base, "tool", "forged", at=clock.now(), trailers=())
    repository.objects.write([blob, *made, commit])
    return commit.id


class TestAMarkThatCannotBeUsed:
    @pytest.mark.parametrize("text", ["", "{", "[]", '{"base": null}'])
    def test_is_one_clear_error_for_writers_and_one_warning_for_readers(self, world, text) -> None:
        world.commit("first", a="1")
        (world.root / "journal.git" / PENDING_MARK).write_text(text, encoding="utf-8")
        world = world.again()
        for _ in range(2):
            assert world.store.read_file("a.md") == "1"
            assert world.store.glob("*.md") == ["a.md"]
        assert len(world.told) == 1
        assert "makes no sense" in world.told[0]
        with pytest.raises(FamiliarError, match="makes no sense") as caught:
            world.store.append_file("a.md", "2")
        assert "journal.git" in str(caught.value.hint)

    def test_does_not_hide_the_next_one(self, world) -> None:
        base = world.commit("first", a="1")
        commit = world.commit("second", a="2")
        again = world.again()
        (world.root / "journal.git" / PENDING_MARK).write_text("{", encoding="utf-8")
        assert again.store.read_file("a.md") == "2"
        world.by_hand("a.md", "1")
        write_mark(world.journal.path, PendingChange(base, commit), dying.Disk())
        assert again.store.read_file("a.md") == "2"

    def test_also_when_its_commit_is_missing(self, world) -> None:
        base = world.commit("first", a="1")
        mark = PendingChange(base, "f" * 40)
        write_mark(world.journal.path, mark, dying.Disk())
        with pytest.raises(FamiliarError, match="damaged"):
            world.again().store.append_file("a.md", "2")

    @pytest.mark.parametrize(
        "name",
        ["con.md", "a:b.md", "x.", "sub/aux.md", ".tmp-familiar-1", "a\nb.md", ".git/config"],
    )
    def test_makes_no_name_that_the_memory_refuses(self, world, name) -> None:
        base = world.commit("first", a="1\n")
        mark = PendingChange(base, forged(world, base, name))
        write_mark(world.journal.path, mark, dying.Disk())
        with pytest.raises(FamiliarError, match="damaged"):
            world.again().store.append_file("a.md", "2")
        assert {p.name for p in (world.root / "memory").iterdir()} == {".gitignore", "a.md"}


class TestADamagedJournal:
    def test_stops_writing_but_not_reading(self, world) -> None:
        head = world.commit("first", a="1")
        path = world.root / "journal.git" / "objects" / head[:2] / head[2:]
        path.write_bytes(b"rubbish")
        other = world.again()
        assert other.store.read_file("a.md") == "1"
        with pytest.raises(FamiliarError, match="The journal is damaged"):
            other.store.append_file("a.md", "2")
        assert other.store.read_file("a.md") == "1"

    def test_a_branch_that_names_nothing(self, world) -> None:
        world.commit("first", a="1")
        Path(world.journal.repository.branch_path).write_text("rubbish", encoding="utf-8")
        with pytest.raises(FamiliarError, match="names no commit"):
            world.again().store.append_file("a.md", "2")

    def test_moved_away_a_new_one_begins(self, world) -> None:
        world.commit("first", a="1")
        (world.root / "journal.git").rename(world.root / "old")
        other = world.again()
        other.store.append_file("a.md", "2")
        assert other.messages() == ["append a.md", "the memory as it was found"]
