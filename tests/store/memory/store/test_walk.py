"""A walk sees every file, in one order, and says what it left out and why."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from familiar_cli.base.errors import FamiliarError
from familiar_cli.store.memory.store.store import MemoryStore

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")


def paths(store, **options) -> list[str]:
    return [entry.rel_path for entry in store.walk(**options).files]


def reasons(store) -> dict[str, str]:
    return {s.rel_path: s.reason for s in store.walk().skipped}


def test_files_come_sorted_by_path(store) -> None:
    names = ["b.md", "a/z.md", "a.md", "a/b/c.md", "Z.md", "é.md", "a-b.md"]
    for name in names:
        store.write_file(name, "x")
    assert paths(store) == sorted(names)
    assert paths(store, rel_path="a") == ["a/b/c.md", "a/z.md"]
    assert paths(store, rel_path="a.md") == ["a.md"]


def test_an_entry_has_size_and_time_of_its_file(store) -> None:
    store.write_file("a.md", "12345")
    os.utime(store.root / "a.md", (1_000_000_000, 1_000_000_000.5))
    (entry,) = store.walk().files
    assert entry.size_bytes == 5
    assert entry.modified.isoformat() == "2001-09-09T01:46:40.500000+00:00"
    assert not entry.is_dir


def test_dotted_names_only_come_when_asked_for(store) -> None:
    store.write_file("a.md", "x")
    store.write_file("self/.original.png", b"x")
    store.write_file(".hidden/b.md", "x")
    assert paths(store) == ["a.md"]
    assert paths(store, hidden=True) == [
        ".gitignore",
        ".hidden/b.md",
        "a.md",
        "self/.original.png",
    ]


def test_the_programs_own_files_never_come(store) -> None:
    store.write_file("a.md", "x")
    for directory in (".index", ".git", "people/.index"):
        (store.root / directory).mkdir(parents=True)
        (store.root / directory / "x.md").touch()
    assert paths(store, hidden=True) == [".gitignore", "a.md"]


@posix
def test_one_unreadable_broken_or_non_utf_8_entry_never_stops_the_walk(store, root) -> None:
    (root / "a.md").write_text("x", encoding="utf-8")
    (root / "broken.md").symlink_to("nowhere.md")
    (root / "out.md").symlink_to("/etc/hosts")
    (root / "alias.md").symlink_to("a.md")
    (root / "loop").symlink_to(".")
    (root / "back\\slash.md").touch()
    (root / "es\x1bcape.md").touch()
    os.mkfifo(root / "pipe.md")
    (root / "z.md").write_text("x", encoding="utf-8")
    assert paths(store) == ["a.md", "z.md"]
    assert reasons(store) == {
        "alias.md": "is a link to 'a.md', which is listed separately",
        "back\\slash.md": "contains a backslash or a control character",
        "broken.md": "is a broken link",
        "es\x1bcape.md": "contains a backslash or a control character",
        "loop": "is a link to '.', which is listed separately",
        "out.md": "is a link that leads outside the memory directory",
        "pipe.md": "is neither a file nor a directory",
    }
    assert [e.rel_path for e in store.list_dir()] == ["a.md", "alias.md", "loop", "pipe.md", "z.md"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs names that are any bytes")
def test_a_name_that_is_not_utf_8_is_told_of(store, root) -> None:
    (Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9.md"))).touch()
    assert paths(store) == []
    assert reasons(store) == {r"caf\xe9.md": "has a name that is not UTF-8"}


@contextmanager
def without_power():
    """Be someone to whom permissions apply, also where tests run as root."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@posix
def test_what_may_not_be_read_is_told_of() -> None:
    base = Path(tempfile.mkdtemp())
    try:
        store = MemoryStore(base / "memory", lock_path=base / "lock")
        for name in ("a.md", "locked/b.md", "secret.md"):
            store.write_file(name, "tea")
        for directory in (base, base / "memory"):
            directory.chmod(0o755)
        (base / "memory" / "a.md").chmod(0o644)
        (base / "memory" / "locked").chmod(0)
        (base / "memory" / "secret.md").chmod(0)
        with without_power():
            assert reasons(store) == {"locked": "cannot be read: Permission denied"}
            found = store.search("tea")
            with pytest.raises(FamiliarError, match="cannot be read: Permission denied"):
                store.read_file("secret.md")
            with pytest.raises(FamiliarError, match="'locked' cannot be read: Permission denied"):
                store.list_dir("locked")
            with pytest.raises(FamiliarError, match="cannot be written to: Permission denied"):
                store.write_file("a.md", "x")
        assert [hit.rel_path for hit in found.hits] == ["a.md"]
        assert {s.rel_path for s in found.skipped} == {"locked", "secret.md"}
        assert store.read_file("a.md") == "tea"
    finally:
        (base / "memory" / "locked").chmod(0o700)
        shutil.rmtree(base)


def test_what_a_hint_says_to_type_finds_the_text(tmp_path) -> None:
    store = MemoryStore(tmp_path)
    store.write_file("a.md", "a (b\\ c\n")
    with pytest.raises(FamiliarError) as caught:
        store.search("(b\\ c")
    (pattern,) = shlex.split((caught.value.hint or "").partition("write ")[2].removesuffix("."))
    assert [hit.line for hit in store.search(pattern).hits] == [1]
