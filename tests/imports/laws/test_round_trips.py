"""Cards and lorebooks go through memory, and through one another's containers, without loss."""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from familiar_cli.base.config.home import FamiliarPaths
from familiar_cli.familiar import Familiar
from familiar_cli.imports.cards import straighten_fields
from familiar_cli.imports.create import create_familiar
from familiar_cli.imports.export_card import CardFormat, current_value, export_card
from familiar_cli.imports.export_lorebook import export_book
from familiar_cli.imports.import_lorebook import import_lorebook
from familiar_cli.imports.reading import read_book, read_card
from familiar_cli.store.memory.pages.front_matter import SELF_FILES, field_markdown
from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.cards import as_json, charx_card, png_card
from tests.support.lorebooks import books, full, texts, through_json, values, worlds

KNOWN_TEXTS = [entry.field for entry in SELF_FILES]
OTHER_TEXTS = ["creator_notes", "creator", "character_version", "nickname"]
once_encoded = texts.filter(
    lambda text: straighten_fields({"creator": text}, [])["creator"] == text
)
"""Texts whose UTF-8 was not encoded a second time; those are mended when they are read."""
FIELDS = dict.fromkeys((*KNOWN_TEXTS, *OTHER_TEXTS), once_encoded)
unknown = st.dictionaries(st.from_regex(r"x_[a-z]{1,8}", fullmatch=True), values, max_size=3)
cards = st.builds(
    lambda data, more, top, book: {
        "spec": "chara_card_v3",
        "spec_version": "3.0",
        "data": {**data, **more, **({"character_book": book["data"]} if book else {})},
        **{f"top_{name}": value for name, value in top.items()},
    },
    st.fixed_dictionaries(
        {
            "name": once_encoded.filter(str.strip),
            "extensions": st.dictionaries(texts, values, max_size=3),
        },
        optional={
            **FIELDS,
            "alternate_greetings": st.lists(texts, max_size=3),
            "group_only_greetings": st.lists(texts, max_size=2),
            "tags": st.lists(texts, max_size=3),
            "source": st.lists(texts, max_size=2),
            "creation_date": st.integers(0, 2**40),
            "creator_notes_multilingual": st.dictionaries(texts, texts, max_size=2),
        },
    ),
    unknown,
    unknown,
    st.none() | books,
)
CONTAINERS = {
    "json": as_json,
    "png": lambda value: png_card(value, "ccv3"),
    "charx": charx_card,
}
law = settings(
    max_examples=settings.default.max_examples * 3 // 5,  # each is a whole familiar
    suppress_health_check=list(HealthCheck),
)


@contextmanager
def home():
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


def init(place: Path, raw: bytes, name: str = "one") -> MemoryStore:
    """Make a familiar of a card's file, as `familiar init` does."""
    card = read_card(raw, origin="card.file")
    create_familiar(place, card, lambda paths: Familiar(paths).memory, familiar_id=name)
    return Familiar(FamiliarPaths(place / name)).memory


def said(value: dict) -> dict:
    """Return the card's own fields, without those that a writer must add and with no text in."""
    empty = ("", [], {}, None)
    return value | {"data": {k: v for k, v in value["data"].items() if v not in empty}}


def exported(store, card_format="json") -> dict:
    made = export_card(store, card_format, default_name="Nobody").content
    card = read_card(made, origin="made.file")
    return {**(card.top_level or {}), **card.raw, "data": card.data}


def without_pictures(value: dict) -> dict:
    return value | {"data": {k: v for k, v in value["data"].items() if k != "assets"}}


@law
@given(cards, st.sampled_from(sorted(CONTAINERS)), st.sampled_from(get_args(CardFormat)))
def test_a_card_comes_back_from_memory_through_every_container(value, came, goes) -> None:
    with home() as place:
        store = init(place, CONTAINERS[came](value))
        back = exported(store, goes)
    assert said(without_pictures(back)) == said(without_pictures(through_json(value)))


@law
@given(cards, st.sampled_from(sorted(CONTAINERS)), st.sampled_from(get_args(CardFormat)))
def test_what_was_exported_makes_the_same_familiar(value, came, goes) -> None:
    with home() as place:
        first = init(place, CONTAINERS[came](value))
        made = export_card(first, goes, default_name="Nobody").content
        second = init(place, made, "two")
        trees = [
            {
                entry.rel_path: store.read_bytes(entry.rel_path)
                for entry in store.walk().files
                if entry.rel_path.endswith(".md")
            }
            for store in (first, second)
        ]
        values = [current_value(store, default_name="x") for store in (first, second)]
    assert trees[0] == trees[1]
    assert said(without_pictures(values[0])) == said(without_pictures(values[1]))


@law
@given(cards, st.sampled_from(KNOWN_TEXTS), once_encoded.filter(str.strip))
def test_an_edited_text_comes_out_and_everything_else_stays(value, field, text) -> None:
    assume("\ud83d" not in text)
    with home() as place:
        store = init(place, as_json(value))
        before = exported(store)
        (store.root / "self" / f"{field}.md").write_bytes(field_markdown(field, text).encode())
        after = exported(store)
    assert after["data"].pop(field) == text
    before["data"].pop(field, None)
    assert after == before


def lore_files(store):
    return [e.rel_path for e in store.walk("lore/imported").files if e.rel_path.endswith(".md")]


BOOKS = {"worldinfo": worlds, "v3": books}


def meaning(book: dict, book_format: str):
    if book_format == "v3":
        return book
    return book | {"entries": {n: full(entry) for n, entry in book["entries"].items()}}


@pytest.mark.parametrize("book_format", BOOKS)
@law
@given(st.data())
def test_lore_files_may_be_moved_and_renamed(book_format, data) -> None:
    book = through_json(data.draw(BOOKS[book_format]))
    with home() as place:
        store = MemoryStore(place / "memory")
        import_lorebook(store, read_book(book, origin="b.json"))
        for number, path in enumerate(lore_files(store)):
            target = data.draw(st.sampled_from(("lore/imported/r{}.md", "topics/m{}.md", "")))
            if target:
                new = store.root / target.format(number)
                new.parent.mkdir(exist_ok=True)
                (store.root / path).rename(new)
        back = through_json(export_book(store, book_format=book_format))
    assert meaning(back, book_format) == meaning(book, book_format)


@pytest.mark.parametrize("book_format", BOOKS)
@law
@given(st.data())
def test_an_edited_lore_file_changes_its_entry_alone(book_format, data) -> None:
    book = through_json(data.draw(BOOKS[book_format]))
    with home() as place:
        store = MemoryStore(place / "memory")
        import_lorebook(store, read_book(book, origin="b.json"))
        before = _by_content(export_book(store, book_format=book_format))
        path = data.draw(st.sampled_from(lore_files(store)))
        text = (store.root / path).read_bytes()
        (store.root / path).write_bytes(text + b"\nAdded by hand.\n")
        after = _by_content(export_book(store, book_format=book_format))
    changed = [n for n in after if after[n] != before[n]]
    assert len(changed) == 1
    (name,) = changed
    assert after[name].pop("content").endswith("Added by hand.")
    before[name].pop("content")
    assert after[name] == before[name]


def _by_content(book: dict) -> dict:
    entries = json.loads(json.dumps(book.get("data", book)["entries"]))
    return entries if isinstance(entries, dict) else dict(enumerate(entries))
