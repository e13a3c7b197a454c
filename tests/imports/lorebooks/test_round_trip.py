"""A lorebook that went through the memory comes back as it was, every field of it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given

from familiar_cli.imports.export_lorebook import to_json
from familiar_cli.imports.reading import read_book
from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.lorebooks import books, bring, exported, full, through_json, worlds


def through_memory(data, book_format):
    with tempfile.TemporaryDirectory() as directory:
        store = MemoryStore(Path(directory) / "memory")
        bring(store, data)
        return through_json(exported(store, book_format))


def meaning(entry, place):
    """Return an entry with all defaults; no extensions are as good as empty ones."""
    filled = {"displayIndex": place, **full(entry)}
    return {n: value for n, value in filled.items() if n != "extensions" or value}


@given(worlds)
def test_world_info_comes_back_from_memory_as_it_was(data) -> None:
    data = through_json(data)
    back = through_memory(data, "worldinfo")

    assert {n: full(entry) for n, entry in back["entries"].items()} == {
        n: full(entry) for n, entry in data["entries"].items()
    }
    assert back | {"entries": 0} == data | {"entries": 0}


@given(books)
def test_a_v3_book_comes_back_from_memory_as_it_was(data) -> None:
    data = through_json(data)

    assert through_memory(data, "v3") == data


@given(books)
def test_a_cards_book_comes_back_from_memory_as_it_was(data) -> None:
    data = through_json(data)

    assert through_memory(data["data"], "card") == data["data"]


@given(worlds)
def test_world_info_turned_into_v3_and_back_means_the_same(data) -> None:
    data = through_json(data)
    v3 = through_json(to_json(read_book(data, origin="w.json"), "v3"))
    back = through_json(to_json(read_book(v3, origin="w.json"), "worldinfo"))

    assert [meaning(entry, n) for n, entry in enumerate(back["entries"].values())] == [
        meaning(entry, n) for n, entry in enumerate(data["entries"].values())
    ]
    assert back | {"entries": 0} == data | {"entries": 0}


@given(books)
def test_a_v3_book_turned_into_world_info_and_back_keeps_all_it_said(data) -> None:
    data = through_json(data)
    info = through_json(to_json(read_book(data, origin="b.json"), "worldinfo"))
    back = through_json(to_json(read_book(info, origin="b.json"), "v3"))

    for entry, again in zip(data["data"]["entries"], back["data"]["entries"], strict=True):
        said = {name: value for name, value in entry.items() if name != "extensions"}
        assert {name: again.get(name, "absent") for name in said} == said
        inner = {n: v for n, v in entry["extensions"].items() if v is not None}
        assert {name: again["extensions"].get(name, "absent") for name in inner} == inner
