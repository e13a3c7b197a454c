"""What is written through the program can be found at once."""

from __future__ import annotations

import pytest

from familiar_cli.base.errors import ConflictError
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.store.search.types import MOST_AT_ONCE, IndexingMemoryStore
from tests.support.embedders import WordEmbedder


@pytest.fixture
def store(world) -> MemoryStore:
    world.put("old.md", "old words")
    world.index.refresh()
    return IndexingMemoryStore(world.store, lambda: world.index)


def words(world) -> list[str]:
    return [body for (body,) in world.rows("SELECT body FROM documents_fts ORDER BY body")]


def test_a_write_reaches_the_words_of_the_index_at_once(world, store) -> None:
    store.write_file("a.md", "tea")
    store.append_file("a.md", " and ale")
    assert words(world) == ["old words", "tea and ale"]


def test_a_large_file_is_left_to_the_next_search(world, store) -> None:
    store.write_file("a.md", "tea")
    with store.transaction("sync", "a large one") as tx:
        tx.write("large.md", f"- {'honey ' * 60}\n" * 800, any_size=True)
    assert words(world) == ["old words", "tea"]
    world.index.refresh()
    assert any("honey" in body for body in words(world))


def test_a_delete_and_a_move_reach_it_too(world, store) -> None:
    store.write_file("a.md", "tea")
    store.move_file("a.md", "b.md")
    store.delete_file("old.md")
    assert world.rows("SELECT rel_path FROM documents") == [("b.md",)]


def test_a_transaction_is_indexed_when_it_is_made_and_not_before(world, store) -> None:
    with store.transaction("human", "two files") as tx:
        tx.write("a.md", "tea")
        tx.write("b.md", "ale")
        assert words(world) == ["old words"]
    assert words(world) == ["ale", "old words", "tea"]
    assert tx.result.written == ("a.md", "b.md")


def test_a_dry_run_changes_nothing(world, store) -> None:
    with store.transaction("human", "try", dry_run=True) as tx:
        tx.write("a.md", "tea")
    assert words(world) == ["old words"]


def test_a_refused_write_is_refused_as_before(store) -> None:
    with pytest.raises(ConflictError):
        store.write_file("old.md", "new", expect="missing")


def test_vectors_wait_for_the_next_who_has_a_model(world, store) -> None:
    world.index.build_if_stale(WordEmbedder())
    store.write_file("a.md", "tea")
    assert world.index.status().waiting == 1


def test_an_index_that_cannot_be_written_fails_no_write(world, store) -> None:
    world.index.clear()
    for path in world.index.directory.iterdir():
        path.unlink()
    world.index.directory.rmdir()
    world.put(".index", "in the way")
    store.write_file("a.md", "tea")
    assert store.read_file("a.md") == "tea"


def test_without_an_index_nothing_is_made(world) -> None:
    IndexingMemoryStore(world.store, lambda: None).write_file("a.md", "tea")
    assert not world.index.directory.exists()


def test_a_listener_hears_what_changed(world) -> None:
    heard: list[tuple[str, ...]] = []
    store = IndexingMemoryStore(world.store, lambda: world.index, heard.append)
    store.write_file("a.md", "tea")
    store.write_file("a.md", "tea")
    assert heard == [("a.md",)]


def test_a_memory_store_tells_what_a_transaction_changed_when_it_is_made(tmp_path) -> None:
    heard = []

    def listen(rel_paths) -> None:
        heard.append((rel_paths, sorted(e.rel_path for e in other.walk().files)))
        other.write_file("from-the-listener.md", "the lock is free")

    store = MemoryStore(tmp_path / "memory", on_change=listen)
    other = MemoryStore(tmp_path / "memory", lock_timeout_s=0)
    with pytest.raises(KeyError), store.transaction("human", "broken off") as tx:
        tx.write("never.md", "x")
        raise KeyError
    with store.transaction("human", "two") as tx:
        tx.write("a.md", "tea")
        tx.write("b.md", "ale")
    assert heard == [(("a.md", "b.md"), ["a.md", "b.md"])]


def test_the_store_inside_stays_as_it_is(world, store) -> None:
    world.store.write_file("a.md", "tea")
    assert words(world) == ["old words"]


def test_it_is_a_memory_store_with_the_inner_ones_limits(world, store) -> None:
    assert isinstance(store, MemoryStore)
    assert (store.root, store.limits) == (world.store.root, world.store.limits)
    assert [e.rel_path for e in store.walk().files] == ["old.md"]


def test_a_change_of_very_many_files_is_left_to_the_next_search(world, store) -> None:
    with store.transaction("sync", "many files") as tx:
        for n in range(MOST_AT_ONCE + 1):
            tx.write(f"{n}.md", f"tea number {n}")
    assert words(world) == ["old words"]
    world.index.refresh()
    assert len(words(world)) == MOST_AT_ONCE + 2
