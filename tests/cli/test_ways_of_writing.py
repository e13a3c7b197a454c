"""A word is found however it is written: in memory, in the past, and as a name."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.store.fts import match_spans
from familiar_cli.store.history import HistoryStore
from tests.support.cases import each
from tests.support.world import data, live, run

WORDS = [
    ("Straßburg", "Anna lives in Straßburg."),
    ("STRASSBURG", "Anna lives in Straßburg."),
    ("straßburg", "Anna lives in Strassburg."),
    ("محمد", "جاء مُحَمَّد أمس"),
    ("مُحَمَّد", "جاء محمد أمس"),
    ("احمد", "هذا أحمد"),
    ("もか", "モカは猫です。"),
    ("モカ", "もかは猫です。"),
    ("שלום", "הוא אמר שָׁלוֹם"),
    ("कलम", "यह क़लम है"),
]


@pytest.mark.parametrize("method", ["auto", "grep"])
@pytest.mark.parametrize(("query", "text"), WORDS)
def test_memory_is_found(query, text, method) -> None:
    live("yuzu", note=f"# 1\n\n{text}\n", other="# 2\n\nSomething else.\n")
    (hit,) = data("search", query, "--method", method)["hits"]
    assert hit["rel_path"] == "note.md"
    assert hit["signals"]["coverage"] == 1


@pytest.mark.parametrize(("query", "text"), WORDS)
def test_the_past_is_found_and_marked(query, text) -> None:
    root = live("yuzu")
    with closing(HistoryStore(root / "history.db")) as store:
        who = Author("discord", "7", display_name="Anna")
        store.append("cli", "user", text, author=who, at=datetime(2026, 1, 31, tzinfo=UTC))
        store.append("cli", "assistant", "Something else", at=datetime(2026, 2, 1, tzinfo=UTC))
    found = data("history", "search", query)
    assert [hit["turn"] for hit in found["hits"]] == [1]
    assert text in run("history", "search", query).stdout


@each(
    ("query", "text", "marked"),
    [
        ("strassburg", "in Straßburg.", "Straßburg"),
        ("محمد", "جاء مُحَمَّد أمس", "مُحَمَّد"),
        ("もか", "黒いモカは猫です。", "モカ"),
        ("कलम", "यह क़लम है", "क़लम"),
        ("เกา", "ได้เก้า", "เก้า"),
    ],
)
def test_a_word_is_marked_as_it_is_written(query, text, marked) -> None:
    assert [text[start:end] for start, end in match_spans(query, text)] == [marked]


@pytest.mark.parametrize(
    "front", ["aliases: [أبو عمر]", "aliases:\n  - أبو عمر", 'aliases: ["أبو عمر", Omari]']
)
def test_a_person_is_found_by_an_alias_in_the_front_matter(front) -> None:
    root = live("yuzu")
    people = root / "memory" / "people"
    people.mkdir()
    (people / "cli-omar.md").write_text(f"---\n{front}\n---\n# Omar\n", encoding="utf-8")
    assert data("people", "show", "ابو عمر")["slug"] == "cli-omar"
    assert data("people", "show", "أبو عمر")["slug"] == "cli-omar"


def test_people_are_found_in_either_kana() -> None:
    root = live("yuzu")
    people = root / "memory" / "people"
    people.mkdir()
    (people / "cli-m.md").write_text("# モカ\n", encoding="utf-8")
    assert data("people", "show", "もか")["slug"] == "cli-m"
