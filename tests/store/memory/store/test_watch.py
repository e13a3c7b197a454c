"""What was listed is listed again as soon as anything may be another."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from familiar_cli.base.errors import NotFoundError
from familiar_cli.store.memory.aliases import Aliases
from familiar_cli.store.memory.relation_index import RelationIndex
from familiar_cli.store.memory.store import watch
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.store.memory.store.walk import list_all

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of changes so")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A memory large enough to be watched, on a disk that counts as local."""
    monkeypatch.setattr(watch, "WORTH_FILES", 2)
    monkeypatch.setattr(watch, "is_local_disk", lambda _: True)
    root = tmp_path.resolve() / "memory"
    for name in ("people/anna.md", "people/bo.md", "notes.md"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("# One\n")
    return root


def trusted(root: Path) -> str:
    """Look until the memory is watched, and return how it looks."""
    for _ in range(3):
        _, digest = watch.list_tree(str(root))
    return digest


def add(root: Path) -> None:
    (root / "people" / "cleo.md").write_text("# Cleo\n")


def edit_in_place(root: Path) -> None:
    path = root / "people" / "bo.md"
    before = path.stat()
    path.write_text("# Two\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def edit_by_rename(root: Path) -> None:
    new = root / "people" / ".bo.md.new"
    new.write_text("# Two\n")
    new.replace(root / "people" / "bo.md")


def delete(root: Path) -> None:
    (root / "notes.md").unlink()


def touch(root: Path) -> None:
    os.utime(root / "notes.md", (1, 1))


def make_a_folder(root: Path) -> None:
    (root / "topics").mkdir()


def move_a_folder(root: Path) -> None:
    (root / "people").rename(root / "folk")


def replace_the_root(root: Path) -> None:
    root.rename(root.with_name("old"))
    root.mkdir()


CHANGES = [
    add,
    edit_in_place,
    edit_by_rename,
    delete,
    touch,
    make_a_folder,
    move_a_folder,
    replace_the_root,
]


def test_what_nobody_touched_is_not_looked_at(root: Path) -> None:
    digest = trusted(root)
    assert watch.is_unchanged(str(root), digest)
    assert watch.is_unchanged(str(root), digest)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen(root: Path, change: Callable[[Path], None]) -> None:
    digest = trusted(root)
    change(root)
    assert not watch.is_unchanged(str(root), digest)
    assert watch.list_tree(str(root))[1] == list_all(str(root)).digest()


@pytest.mark.parametrize("change", CHANGES)
def test_it_is_trusted_again_after_a_change_and_a_further_one_is_seen(
    root: Path, change: Callable[[Path], None]
) -> None:
    trusted(root)
    change(root)
    for name in ("one.md", "two.md"):  # that it stays large enough
        (root / name).write_text("# More\n")
    assert watch.is_unchanged(str(root), trusted(root))
    digest = trusted(root)
    (root / "one.md").write_text("# Changed\n")
    assert not watch.is_unchanged(str(root), digest)


def test_a_change_in_a_new_folder_is_seen(root: Path) -> None:
    trusted(root)
    (root / "topics" / "far").mkdir(parents=True)
    (root / "topics" / "far" / "tea.md").write_text("# Tea\n")
    digest = trusted(root)
    (root / "topics" / "far" / "tea.md").write_text("# Coffee\n")
    assert not watch.is_unchanged(str(root), digest)


def test_what_is_hidden_is_no_change(root: Path) -> None:
    digest = trusted(root)
    (root / ".index").mkdir()
    (root / ".index" / "embeddings.sqlite").write_text("x")
    assert watch.is_unchanged(str(root), digest)


def test_a_file_with_two_names_is_looked_at_each_time(root: Path, tmp_path: Path) -> None:
    os.link(root / "notes.md", tmp_path / "elsewhere.md")
    assert not watch.is_unchanged(str(root), trusted(root))


def test_after_a_while_nothing_is_trusted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = trusted(root)
    monkeypatch.setattr(watch, "TRUSTED_S", 0.0)
    assert not watch.is_unchanged(str(root), digest)


def test_another_digest_than_the_last_one_is_not_trusted(root: Path) -> None:
    trusted(root)
    assert not watch.is_unchanged(str(root), "0" * 32)


def test_a_disk_that_others_write_to_is_not_watched(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "is_local_disk", lambda _: False)
    assert not watch.is_unchanged(str(root), trusted(root))


def test_few_memories_are_watched_at_once(root: Path) -> None:
    digest = trusted(root)
    for number in range(8):
        other = root / f"other-{number}"
        other.mkdir()
        (other / "one.md").write_text("# One\n")
        watch.list_tree(str(other))
    assert not watch.is_unchanged(str(root), digest)


def test_a_small_memory_is_watched_once_it_is_scanned_often(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "WORTH_FILES", 1_000)
    assert not watch.is_unchanged(str(root), trusted(root))
    assert watch.is_unchanged(str(root), trusted(root))


def test_no_number_comes_back_with_a_state_that_looks_the_same(root: Path) -> None:
    trusted(root)
    number = watch.quiet_since(str(root))
    assert number == watch.quiet_since(str(root)) > 0
    edit_in_place(root)
    assert watch.quiet_since(str(root)) == 0
    trusted(root)
    assert watch.quiet_since(str(root)) > number


@pytest.mark.parametrize("kind", [Aliases, RelationIndex])
def test_derived_tables_are_not_brought_up_to_date_while_nothing_changes(
    root: Path, kind: type[Aliases | RelationIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refreshed() -> int:
        """Count the scans of one refresh by a new index."""
        scans: list[int] = []
        with closing(kind(MemoryStore(root))) as pages:
            scan = pages._scan
            monkeypatch.setattr(pages, "_scan", lambda: scans.append(1) or scan())
            pages.refresh(thorough=True)
        return len(scans)

    refreshed()
    trusted(root)
    assert [refreshed(), refreshed(), refreshed()] == [1, 0, 0]
    edit_in_place(root)
    assert refreshed() == 1
    trusted(root)
    assert [refreshed(), refreshed()] == [1, 0]
    (root / ".index" / kind.FILE).unlink()
    assert refreshed() == 1


def test_a_text_is_read_once_while_nothing_changes(root: Path) -> None:
    store = MemoryStore(root)
    trusted(root)
    read = store.reader()
    assert read("people/bo.md") == "# One\n"
    before = store.reader()
    edit_in_place(root)
    assert before("people/bo.md") == "# One\n"  # a task that has begun goes on with it
    assert store.reader()("people/bo.md") == "# Two\n"
    trusted(root)
    assert store.reader()("people/bo.md") == "# Two\n"


def test_the_beginning_of_a_file_and_that_there_is_none_are_remembered_until_a_change(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, hidden = MemoryStore(root), root / ".hidden.md"
    hidden.write_text("# One\n")
    trusted(root)
    asked = ("people/bo.md", "people/cleo.md", ".hidden.md")

    def heads() -> list[str]:
        return [_head_of(store, rel_path) for rel_path in asked]

    assert heads() == ["# One\n", "none", "# One\n"]
    with monkeypatch.context() as patch:
        patch.setattr(store._tree, "read_head", lambda *_: pytest.fail("it was read again"))
        assert [_head_of(store, rel_path) for rel_path in asked[:2]] == ["# One\n", "none"]
    hidden.write_text("# Two\n")  # of which no watch tells
    assert heads() == ["# One\n", "none", "# Two\n"]
    edit_in_place(root)
    add(root)
    assert heads() == ["# Two\n", "# Cleo\n", "# Two\n"]
    trusted(root)
    assert heads() == ["# Two\n", "# Cleo\n", "# Two\n"]


def _head_of(store: MemoryStore, rel_path: str) -> str:
    try:
        return store.read_head(rel_path, 100).text
    except NotFoundError:
        return "none"
