"""Turns are replaced, withdrawn, chosen and restored from the command line, and nothing is lost."""

from __future__ import annotations

from contextlib import closing

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.store.history import HistoryStore
from tests.support.world import data, live, run

ANNA = Author("discord", "7", display_name="Anna")


@pytest.fixture
def root():
    root = live("yuzu")
    with closing(HistoryStore(root / "history.db")) as store:
        for text in ("Tea?", "Green tea.", "Good night"):
            store.append("cli", "user", text, author=ANNA)
    return root


def shown(*options: str) -> list[tuple[int, str, bool]]:
    turns = data("history", "show", *options)["turns"]
    return [(turn["turn"], turn["content"], turn["standing"]) for turn in turns]


def test_an_edited_turn_keeps_its_place_and_its_old_text(root) -> None:
    edited = data("history", "edit", "2", "Black tea.")

    assert edited == {"turn": 4, "id": "4", "supersedes": 2, "content": "Black tea."}
    assert [text for _, text, _ in shown()] == ["Tea?", "Black tea.", "Good night"]
    assert shown("--all") == [
        (1, "Tea?", True),
        (2, "Green tea.", False),
        (4, "Black tea.", True),
        (3, "Good night", True),
    ]
    old = data("history", "show", "--all")["turns"][1]
    assert (old["superseded_by"], old["withdrawn"], old["alternatives"]) == (4, False, [2, 4])
    assert "replaced by #4" in run("history", "show", "--all").stdout


def test_a_turn_that_was_replaced_can_be_shown_by_its_number(root) -> None:
    run("history", "edit", "2", "Black tea.")
    assert (2, "Green tea.", False) in shown("2")


def test_an_old_text_can_be_chosen_again(root) -> None:
    run("history", "edit", "2", "Black tea.")
    assert data("history", "choose", "2") == {"turn": 2, "id": "2", "superseded": [4]}
    assert [text for _, text, _ in shown()] == ["Tea?", "Green tea.", "Good night"]
    assert data("history", "choose", "2") == {"turn": 2, "id": "2", "superseded": []}


def test_withdrawn_turns_are_out_of_search_and_statistics_until_they_are_restored(root) -> None:
    assert data("history", "withdraw", "2") == {"withdrawn": [2]}
    assert [number for number, _, _ in shown()] == [1, 3]
    assert data("history", "search", "green")["hits"] == []
    counts = [
        data("status"),
        data("history", "stats"),
        *data("history", "ls")["channels"],
        *data("channel", "ls")["channels"],
        *data("list")["familiars"],
    ]
    assert [one["turns"] for one in counts] == [2] * 5
    assert data("history", "withdraw", "2") == {"withdrawn": []}

    assert data("history", "restore", "2") == {"restored": [2]}
    assert [number for number, _, _ in shown()] == [1, 2, 3]


def test_a_channel_is_withdrawn_and_restored(root) -> None:
    assert data("channel", "withdraw", "cli")["changed"]
    assert not data("channel", "withdraw", "cli")["changed"]
    assert [(c["id"], c["withdrawn"]) for c in data("channel", "ls")["channels"]] == [("cli", True)]
    assert data("channel", "show", "cli")["withdrawn"]
    assert "withdrawn" in run("channel", "ls").stdout
    assert data("history", "search", "green")["hits"] == []
    assert len(shown("--all", "--channel", "cli")) == 3
    assert data("channel", "restore", "cli")["changed"]
    assert [number for number, _, _ in shown()] == [1, 2, 3]
    assert run("channel", "withdraw", "nowhere").exit_code == 4


def test_an_export_holds_what_stands(root) -> None:
    run("history", "edit", "1", "Coffee?")
    run("history", "withdraw", "3")
    text = run("history", "export", "--format", "jsonl").stdout
    assert "Coffee?" in text
    assert "Tea?" not in text
    assert "Good night" not in text


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("edit", "9", "x"), 4, "There is no turn 9"),
        (("edit", "1", " "), 2, "history withdraw 1"),
        (("edit", "1", "Tea?"), 2, "says that already"),
        (("withdraw", "1", "9"), 4, "There is no turn 9"),
        (("choose", "1"), 5, "no alternatives"),
    ],
)
def test_mistakes_change_nothing(root, arguments, code, told) -> None:
    result = run("history", *arguments)
    assert (result.exit_code, told in result.stderr) == (code, True), result.stderr
    assert "nothing was changed" in result.stderr
    assert [number for number, _, _ in shown("--all")] == [1, 2, 3]
