"""NovelAI, Agnai and RisuAI books become entries of a card's book, and keep what is their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from familiar_cli.base.errors import LimitError
from familiar_cli.imports.lorebook_reading import MAX_ENTRIES
from familiar_cli.imports.reading import load_book, read_book
from tests.support.cards import as_json, png_card, v2
from tests.support.lorebooks import book_entry, bring, exported

CORPUS = Path(__file__).with_name("corpus")


def only_entry(name):
    book = load_book((CORPUS / name).read_bytes(), origin=name)
    return dict(book.entries[0].raw), book


def test_novelai_keeps_its_own_settings_in_extensions() -> None:
    entry, book = only_entry("novelai.lorebook")

    assert (entry["content"], entry["insertion_order"], entry["constant"]) == ("Tall.", 350, True)
    assert entry["extensions"]["novelai"]["searchRange"] == 900
    assert book.frame["extensions"]["novelai"]["lorebookVersion"] == 5


def test_agnai_weight_is_the_order() -> None:
    entry, book = only_entry("agnai.json")

    assert (entry["insertion_order"], entry["priority"]) == (9, 3)
    assert (book.name, book.frame["description"]) == ("North", "d")


def test_risuai_keeps_its_own_settings_in_extensions() -> None:
    entry, _ = only_entry("risu.json")

    assert (entry["insertion_order"], entry["constant"]) == (50, True)
    assert entry["extensions"]["risuai"]["extentions"] == {"risu_case_sensitive": False}


@pytest.mark.parametrize("book_format", ["worldinfo", "v3"])
@pytest.mark.parametrize("name", ["novelai.lorebook", "agnai.json", "risu.json"])
def test_other_programs_books_come_out_in_both_formats(store, name, book_format) -> None:
    _, book = only_entry(name)
    bring(store, exported_twice(book, book_format))

    assert [e.title for e in read_book(exported(store, book_format), origin="x").entries] == [
        "Tower"
    ]


def exported_twice(book, book_format):
    from familiar_cli.imports.export_lorebook import to_json

    return to_json(book, book_format)


def test_a_card_in_a_picture_gives_its_book() -> None:
    card = v2(character_book={"name": "hers", "entries": [book_entry("A")]})

    assert [e.title for e in load_book(png_card(card), origin="mira.png").entries] == ["A"]


def test_a_book_without_a_name_has_its_files() -> None:
    data = as_json({"entries": [book_entry("A")]})

    assert load_book(data, origin="north.json").name == "north"


def test_a_book_with_too_many_entries_is_refused() -> None:
    with pytest.raises(LimitError, match="more than"):
        read_book({"entries": [{"keys": []}] * (MAX_ENTRIES + 1)}, origin="huge.json")
