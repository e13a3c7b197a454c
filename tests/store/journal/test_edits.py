"""What people change by hand is committed as theirs, before anything else is."""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing

import pytest

from familiar_cli.base import files
from familiar_cli.base.files import read_plain
from familiar_cli.base.times.clock import now
from familiar_cli.store.journal import edits
from familiar_cli.store.journal.edits import UnseenCommits
from familiar_cli.store.journal.repository import Repository

as_root = hasattr(os, "geteuid") and os.geteuid() == 0


def looked_long_ago(world) -> None:
    """Make the last look at all files lie in the past."""
    os.utime(world.root / "journal.git" / edits.LOOKED_FILE, (1, 1))


def looked_just_now(world) -> None:
    """Make the next look at all files not due yet."""
    (world.root / "journal.git" / edits.LOOKED_FILE).write_text("1000000", encoding="utf-8")


def test_an_edit_comes_before_the_transaction_that_meets_it(world) -> None:
    world.commit("first", a="1\n")
    world.by_hand("a.md", "1\nby hand\n")
    looked_just_now(world)
    world.store.append_file("a.md", "2\n", source="memory_writer")
    assert world.messages()[:2] == ["append a.md", "edited by hand: a.md"]
    assert world.sources()[:2] == ["memory_writer", "human"]
    newest = world.past.log()[0]
    assert world.past.diff(["HEAD~1", "HEAD"]).files[0].diff.endswith(" by hand\n+2\n")
    assert newest.commit.trailers["Bytes-Before"] == "10"


def test_edits_elsewhere_are_found_when_it_is_time_to_look(world) -> None:
    world.commit("first", a="1", b="2", c="3")
    world.by_hand("b.md", "by hand")
    (world.store.root / "c.md").unlink()
    world.by_hand("new/d.md", "new")
    looked_long_ago(world)
    world.store.append_file("a.md", "x")
    assert world.messages()[:2] == ["append a.md", "edited by hand: 3 files"]
    assert [(t.kind, t.rel_path) for t in world.past.log()[1].touched] == [
        ("changed", "b.md"),
        ("deleted", "c.md"),
        ("added", "new/d.md"),
    ]


def test_looking_at_the_past_always_looks_first(world) -> None:
    world.commit("first", a="1")
    looked_just_now(world)
    world.by_hand("a.md", "2")
    assert world.messages() == ["edited by hand: a.md", "first"]
    assert world.messages() == ["edited by hand: a.md", "first"]


def test_mtime_alone_missed_an_edit_within_the_same_second(world) -> None:
    world.commit("first", a="one", b="x")
    path = world.store.root / "a.md"
    world.store.catch_up()
    for text in ("two", "six", "ten"):
        times = path.stat()
        path.write_bytes(text.encode())
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        world.store.catch_up()
        assert world.at_head("a.md") == text.encode()


def test_a_touched_file_is_no_edit(world) -> None:
    world.commit("first", a="1")
    os.utime(world.store.root / "a.md", (10, 10))
    assert world.messages() == ["first"]


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"tree": "x", "files": {"a.md": 3}}', b"\xff"]
)
def test_the_table_of_what_was_seen_can_be_lost(world, damage) -> None:
    world.commit("first", a="1", b="2")
    world.store.catch_up()
    table = world.root / "journal.git" / edits.SEEN_FILE
    assert table.exists()
    table.write_bytes(damage)
    world.by_hand("b.md", "3")
    assert world.messages() == ["edited by hand: b.md", "first"]
    table.unlink()
    assert world.messages() == ["edited by hand: b.md", "first"]


def test_unchanged_files_are_not_read_again(world, monkeypatch) -> None:
    world.commit("first", **{f"f{n}": f"{n}" for n in range(20)})
    for path in world.store.root.rglob("*"):
        os.utime(path, (10, 10))
    monkeypatch.setattr(files, "SETTLED_NS", -1)  # as if the files had been old already
    world.store.catch_up()
    read = []
    monkeypatch.setattr(edits, "object_id", lambda *args: read.append(args) or "x")
    world.store.catch_up()
    assert read == []


@pytest.mark.skipif(as_root or sys.platform == "win32", reason="root may read everything")
def test_an_unreadable_file_keeps_its_last_state_and_is_told(world) -> None:
    world.commit("first", a="1", b="2")
    (world.store.root / "a.md").chmod(0)
    assert world.messages() == ["first"]
    assert any("'a.md' cannot be read" in line for line in world.told)


def test_an_unreadable_file_is_not_a_deleted_one(world, monkeypatch) -> None:
    world.commit("first", d__a="1", b="2")
    world.by_hand("d/a.md", "changed")

    def refuse(path, *args):
        if str(path).endswith("a.md"):
            raise PermissionError(13, "Permission denied")
        return read_plain(path, *args)

    monkeypatch.setattr(edits, "read_plain", refuse)
    assert world.messages() == ["first"]
    assert world.at_head("d/a.md") == b"1"
    assert any("'d/a.md' cannot be read" in line for line in world.told)
    monkeypatch.undo()
    assert world.messages() == ["edited by hand: d/a.md", "first"]


def test_looking_takes_at_most_a_twentieth_of_the_time(world) -> None:
    world.commit("first", a="1")
    repository = world.journal.repository
    edits.note_scan_time(repository, 0.001)
    begun = time.time()
    os.utime(world.root / "journal.git" / edits.LOOKED_FILE, (begun - 0.5, begun - 0.5))
    assert edits.is_scan_due(repository)
    edits.note_scan_time(repository, 1000.0)
    assert not edits.is_scan_due(repository)
    looked_long_ago(world)
    assert edits.is_scan_due(repository)
    (world.root / "journal.git" / edits.LOOKED_FILE).write_text("no number", encoding="utf-8")
    assert edits.is_scan_due(repository)


def test_a_memory_that_was_deleted_by_hand_comes_back(world) -> None:
    world.commit("first", a="1", d__b="2")
    for path in (".gitignore", "a.md", "d/b.md"):
        (world.store.root / path).unlink()
    assert world.messages()[0] == "edited by hand: 3 files"
    world.past.undo(world.past.log()[0].commit.id)
    assert world.store.read_file("d/b.md") == "2"


def test_what_obsidian_keeps_is_neither_recorded_nor_taken_for_deleted(world) -> None:
    world.commit("first", a="1")
    world.by_hand(".obsidian/app.json", "{}")
    world.by_hand(".trash/b.md", "2")
    assert world.messages() == ["first"]
    repository = Repository(world.root / "journal.git")
    with closing(repository):  # as an earlier version recorded it
        made = UnseenCommits(repository, repository.head())
        made.commit("human", "old", [(".obsidian/app.json", b"{}"), ("c.md", b"4")], now())
        made.save()
        repository.set_head(made.head)
    (world.store.root / ".obsidian" / "app.json").write_text("{1}", encoding="utf-8")
    world.by_hand("a.md", "3")
    world.by_hand("c.md", "4")
    assert world.messages() == ["edited by hand: a.md", "old", "first"]
    assert world.past.undo("HEAD~1").result.deleted == ("c.md",)
    assert world.messages()[0].startswith("undo ")
