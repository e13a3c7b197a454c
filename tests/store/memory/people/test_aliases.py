"""`_aliases.json` and its index say what the files in `people/` say, and cost little to ask."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from threading import Timer

import pytest

from familiar_cli.base import files
from familiar_cli.base.sqlite import IdleConnection
from familiar_cli.store.memory import page_index
from familiar_cli.store.memory.aliases import Aliases, SharedName
from familiar_cli.store.memory.layout import ALIASES_JSON, INDEX_DIR
from familiar_cli.store.memory.store.store import MemoryStore

LONG_AGO = (1e9, 1e9)


@pytest.fixture
def store(tmp_path):
    return MemoryStore(tmp_path / "memory")


@pytest.fixture
def names(store):
    made = Aliases(store)
    yield made
    made.close()


def person(store, slug, *aliases, title="") -> None:
    listed = "".join(f"- {alias}\n" for alias in aliases)
    store.write_file(f"people/{slug}.md", f"# {title or slug}\n\n## Aliases\n\n{listed}")


def age(store, monkeypatch) -> None:
    """Make everything as old as if it had been there for years."""
    for path in [*store.root.rglob("*"), store.root / "people"]:
        os.utime(path, LONG_AGO)
    monkeypatch.setattr(files, "SETTLED_NS", -1)


def found(names, text) -> dict[str, tuple[str, ...]]:
    names.refresh()
    return {named.name: named.slugs for named in names.find(text)}


def test_people_are_found_by_title_and_alias(store, names) -> None:
    person(store, "discord-42", "Nicky", title="Anna Larsson")
    assert found(names, "nicky, Anna Larsson, nicky") == {
        "nicky": ("discord-42",),
        "anna larsson": ("discord-42",),
    }


def test_two_people_of_one_name_are_both_found(store, names) -> None:
    person(store, "discord-42", "Bee")
    person(store, "discord-7", "bee")
    assert found(names, "ask @bee") == {"bee": ("discord-42", "discord-7")}
    assert names.collisions() == [SharedName("bee", ("discord-42", "discord-7"))]


def test_the_file_says_what_the_index_says(store, names) -> None:
    person(store, "discord-42", "Bee", "Mary-Jane", title="Zoë")
    person(store, "discord-7", "bee", title="Mary Jane")
    assert names.publish() == ()
    assert json.loads(store.read_file(ALIASES_JSON)) == {
        "bee": ["discord-42", "discord-7"],
        "mary jane": ["discord-42", "discord-7"],
        "mary-jane": ["discord-42", "discord-7"],
        "zoë": "discord-42",
    }


def test_the_file_is_the_same_bytes_whatever_the_order(store, names, tmp_path) -> None:
    other = MemoryStore(tmp_path / "other")
    for slug in ("a-1", "b-2", "c-3"):
        person(store, slug, "Bee", slug * 2)
    for slug in ("c-3", "a-1", "b-2"):
        person(other, slug, "Bee", slug * 2)
    names.publish()
    Aliases(other).publish()
    assert store.read_bytes(ALIASES_JSON) == other.read_bytes(ALIASES_JSON)


def test_it_is_not_written_again_while_nothing_changes(store, names) -> None:
    person(store, "discord-42", "Nick")
    names.publish()
    before = (store.root / ALIASES_JSON).stat()
    names.publish()
    assert (store.root / ALIASES_JSON).stat() == before


def test_no_people_no_files(store, names) -> None:
    store.write_file("notes.md", "x")
    names.refresh()
    assert names.publish() == ()
    assert names.find("Anna") == []
    assert sorted(path.name for path in store.root.iterdir()) == [".gitignore", "notes.md"]


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"[" * 100_000, b'{"a": {"b": 1}}'])
def test_a_damaged_file_is_made_again(store, names, content) -> None:
    person(store, "discord-42", "Nick")
    names.publish()
    good = store.read_bytes(ALIASES_JSON)
    (store.root / ALIASES_JSON).write_bytes(content)
    notices = names.publish()
    assert store.read_bytes(ALIASES_JSON) == good
    assert [notice for notice in notices if "damaged" in notice] or content.startswith(b'{"a"')


def test_a_name_that_only_the_file_has_is_told_before_it_goes(store, names) -> None:
    person(store, "discord-42", "Nick")
    store.write_file(ALIASES_JSON, json.dumps({"bumble": "discord-42", "x": "nobody-0"}))
    (notice,) = names.publish()
    assert "'bumble'" in notice
    assert "familiar people alias" in notice
    assert "'x'" not in notice


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"x" * 200])
def test_a_damaged_index_comes_back(store, names, content) -> None:
    person(store, "discord-42", "Nicky")
    index = store.root / ".index" / "aliases.sqlite"
    index.parent.mkdir()
    index.write_bytes(content)
    assert found(names, "hey Nicky") == {"nicky": ("discord-42",)}


def test_an_index_of_another_version_is_made_anew(store, names) -> None:
    person(store, "discord-42", "Nicky")
    index = store.root / ".index" / "aliases.sqlite"
    index.parent.mkdir()
    with sqlite3.connect(index) as database:
        database.execute("CREATE TABLE people (x)")
        database.execute("PRAGMA user_version = 99")
    database.close()
    assert found(names, "hey Nicky") == {"nicky": ("discord-42",)}


def test_a_deleted_index_comes_back(store, names) -> None:
    person(store, "discord-42", "Nicky")
    names.publish()
    names.close()
    shutil.rmtree(store.root / ".index")
    assert found(names, "hey Nicky") == {"nicky": ("discord-42",)}


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_memory_that_may_not_be_written_is_searched_all_the_same(store, names) -> None:
    person(store, "discord-42", "Nicky")
    store.root.chmod(0o555)
    try:
        assert found(names, "hey Nicky") == {"nicky": ("discord-42",)}
    finally:
        store.root.chmod(0o755)


def test_files_that_come_change_and_go_are_seen(store, names) -> None:
    person(store, "discord-1", "Nicky")
    person(store, "discord-2", "Bumble")
    assert set(found(names, "Nicky Bumble")) == {"nicky", "bumble"}
    store.delete_file("people/discord-1.md")
    person(store, "discord-2", "Fizz")
    assert set(found(names, "Nicky Bumble Fizz")) == {"fizz"}


def test_whoever_comes_while_another_process_writes_waits_for_it(store, names) -> None:
    person(store, "discord-1", "Nicky")
    found(names, "Nicky")
    person(store, "discord-2", "Bumble")
    path = store.root / INDEX_DIR / Aliases.FILE
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        Timer(0.8, other.rollback).start()
        assert set(found(names, "Nicky Bumble")) == {"nicky", "bumble"}


def test_an_edit_within_the_same_moment_is_seen(store, names) -> None:
    """The same size, the same time: only the content differs."""
    person(store, "discord-1", "Nicky")
    path = store.root / "people" / "discord-1.md"
    status = path.stat()
    found(names, "Nicky")
    path.write_bytes(path.read_bytes().replace(b"Nicky", b"Micky"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert set(found(names, "Nicky Micky")) == {"micky"}


def test_in_a_large_directory_an_edit_in_place_is_seen_by_a_thorough_look(
    store, names, monkeypatch
) -> None:
    monkeypatch.setattr(page_index, "MOST_STATS", 2)
    for number in range(4):
        person(store, f"discord-{number}", f"Nicky{number}")
    age(store, monkeypatch)
    names.refresh()
    path = store.root / "people" / "discord-1.md"
    path.write_bytes(path.read_bytes().replace(b"Nicky1", b"Micky1"))
    assert set(found(names, "Micky1")) == set()
    names.refresh(thorough=True)
    assert set(found(names, "Micky1")) == {"micky1"}


def test_in_a_large_directory_a_file_that_comes_is_seen_at_once(store, names, monkeypatch) -> None:
    monkeypatch.setattr(page_index, "MOST_STATS", 2)
    for number in range(4):
        person(store, f"discord-{number}", f"Nicky{number}")
    age(store, monkeypatch)
    names.refresh()
    person(store, "discord-9", "Bumble")
    assert set(found(names, "Bumble")) == {"bumble"}


def test_in_a_large_directory_no_file_is_looked_at_while_nothing_changes(
    store, names, monkeypatch
) -> None:
    monkeypatch.setattr(page_index, "MOST_STATS", 2)
    for number in range(4):
        person(store, f"discord-{number}", f"Nicky{number}")
    age(store, monkeypatch)
    names.refresh()
    with monkeypatch.context() as during:
        during.setattr(os, "scandir", None)
        assert set(found(names, "Nicky2")) == {"nicky2"}


def test_a_file_that_cannot_be_read_hides_no_other(store, names) -> None:
    person(store, "discord-1", "Nicky")
    (store.root / "people" / "discord-2.md").write_bytes(b"\xff\xfe")
    (store.root / "people" / "dir.md").mkdir()
    assert set(found(names, "Nicky")) == {"nicky"}
    broken = [entry for entry in names.people() if entry.problem]
    assert [entry.slug for entry in broken] == ["discord-2"]
    assert "UTF-8" in broken[0].problem


def test_two_at_once_agree(store, names) -> None:
    person(store, "discord-1", "Nicky")
    other = Aliases(store)
    names.publish()
    assert found(other, "Nicky") == found(names, "Nicky") == {"nicky": ("discord-1",)}
    other.close()


@pytest.mark.skipif(files.ON_WINDOWS, reason="no open file can be deleted there")
def test_the_database_is_kept_between_uses_while_it_is_the_same_file(store, monkeypatch) -> None:
    opened: list[str] = []
    real_open = Aliases._open
    monkeypatch.setattr(
        Aliases, "_open", lambda self, path: opened.append(path) or real_open(self, path)
    )
    idle = IdleConnection()

    def ask() -> dict[str, tuple[str, ...]]:
        with closing(Aliases(store, idle)) as kept:
            return found(kept, "Nicky and Bo")

    person(store, "discord-1", "Nicky")
    ask()  # makes the file
    assert [ask(), ask(), len(opened)] == [{"nicky": ("discord-1",)}] * 2 + [2]
    person(store, "discord-2", "Bo")
    assert "bo" in ask()
    shutil.rmtree(store.root / ".index")
    assert ask() == {"nicky": ("discord-1",), "bo": ("discord-2",)}
    idle.close(for_good=True)
    count = len(opened)
    ask(), ask()
    assert len(opened) == count + 2


def test_ten_thousand_names_fit_in_the_file(store, names) -> None:
    listed = "".join(f"- somebody number {number}\n" for number in range(9000))
    store.write_file("people/discord-1.md", f"## Aliases\n{listed}")
    store.write_file("people/discord-2.md", f"## Aliases\n{listed}")
    names.publish()
    assert len(store.read_bytes(ALIASES_JSON)) > store.limits.max_file_bytes
