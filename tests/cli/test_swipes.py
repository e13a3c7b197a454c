"""Replies of which one stands are SillyTavern's swipes: in an export, and from an import."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history import marks as standing
from tests.store.history.test_marks import other
from tests.support.chats import HEAD, robin, save, yuzu
from tests.support.world import data, live, run

SWIPED = {"swipes": ["A", "B"], "swipe_id": 1}


@pytest.fixture
def store():
    with closing(HistoryStore(live("yuzu") / "history.db")) as opened:
        yield opened


def exported() -> list[dict]:
    lines = run("history", "export").stdout.splitlines()
    return [json.loads(line) for line in lines[1:]]


def imported(tmp_path, *lines) -> bytes:
    chat = save(tmp_path / "c.jsonl", HEAD, *lines)
    assert run("import-chat", str(chat)).exit_code == 0
    return chat.read_bytes()


def test_superseded_replies_are_exported_as_swipes(store) -> None:
    store.append("cli", "user", "Tea?")
    one = store.append("cli", "assistant", "Green.")
    two = standing.supersede_turn(store, one, other(one, "Black."))
    three = standing.supersede_turn(store, two, other(two, "White."))
    standing.select_alternative(store, two.id)
    standing.withdraw_turns(store, [three.id, two.id])
    standing.restore_turns(store, [two.id])

    question, reply = exported()
    assert "swipes" not in question
    assert (reply["mes"], reply["swipes"], reply["swipe_id"]) == (
        "Black.",
        ["Green.", "Black."],
        1,
    )
    assert [set(info) for info in reply["swipe_info"]] == [{"send_date", "extra"}] * 2


def test_another_reply_to_an_imported_line_is_one_more_of_its_swipes(store, tmp_path) -> None:
    lines = [robin("Hi"), yuzu("B", **SWIPED, extra={"model": "x"}, gen_started="then", odd=1)]
    imported(tmp_path, *lines)
    (_, old) = store.recent("c", 2, viewer=OWNER)
    standing.supersede_turn(store, old, other(old, "C"))

    (_, reply) = exported()
    assert (reply["mes"], reply["swipes"], reply["swipe_id"]) == ("C", ["A", "B", "C"], 2)
    assert (reply["odd"], reply["extra"], "gen_started" in reply) == (1, {}, False)


def test_what_was_imported_unchanged_is_exported_as_the_same_bytes(store, tmp_path) -> None:
    before = imported(tmp_path, robin("Hi"), yuzu("B", **SWIPED))
    (reply,) = store.recent("c", 1, viewer=OWNER)
    run("history", "choose", str(reply.id), "--swipe", "1")
    assert [message["mes"] for message in exported()] == ["Hi", "A"]
    assert exported()[1]["swipe_id"] == 0
    run("history", "choose", str(reply.id), "--swipe", "2")
    assert run("history", "export").stdout.encode() == before
    assert [turn.content for turn in store.recent("c", 9, viewer=OWNER)] == ["Hi", "B"]


def test_an_edited_line_of_a_person_keeps_what_its_source_said(store, tmp_path) -> None:
    imported(tmp_path, robin("Hi", odd=1))
    run("history", "edit", "1", "Hello")
    (message,) = exported()
    assert (message["mes"], message["odd"], "swipes" in message) == ("Hello", 1, False)


def test_imported_swipes_can_be_seen_and_chosen(store, tmp_path) -> None:
    imported(tmp_path, yuzu("B", **SWIPED))
    assert data("history", "show", "--all")["turns"][0]["swipes"] == ["A", "B"]
    assert "swipes" not in data("history", "show")["turns"][0]
    made = data("history", "choose", "1", "--swipe", "1")
    assert (made["turn"], made["superseded"]) == (2, [1])
    assert data("history", "choose", "2", "--swipe", "1")["superseded"] == []
    assert data("history", "show")["turns"][0]["alternatives"] == [1, 2]
    assert run("history", "choose", "1", "--swipe", "3").exit_code == 4
    assert run("history", "choose", "9", "--swipe", "1").exit_code == 4
