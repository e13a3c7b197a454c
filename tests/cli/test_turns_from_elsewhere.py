"""A conversation of two machines, as the commands show it."""

from __future__ import annotations

import json

import pytest

from familiar_cli.store.history import HistoryStore
from familiar_cli.sync.turns import take_in
from tests.support.world import home, live, run

FILE = "turns/desk-b2/2026-03.jsonl"


@pytest.fixture
def both():
    """Two turns that were said here, and one that came from another machine."""
    live("ada")
    run("hear", "first", "--channel", "cli")
    run("hear", "second", "--channel", "cli")
    store = HistoryStore(home() / "ada" / "history.db")
    line = {
        "v": 1,
        "kind": "turn",
        "id": 7,
        "channel": "cli",
        "role": "user",
        "content": "far away",
    }
    line |= {"at": "2026-03-01T00:00:00.000Z", "modality": "text", "source": "cli"}
    take_in(store, "here-1", FILE, json.dumps(line | {"after": "here-1:2"}).encode() + b"\n")
    store.close()


def test_a_turn_of_another_machine_is_shown_with_where_it_is_from(both) -> None:
    shown = json.loads(run("history", "show", "--json").stdout)["data"]["turns"]
    assert [(turn["content"], turn["origin"]) for turn in shown] == [
        ("first", None),
        ("second", None),
        ("far away", "desk-b2:7"),
    ]
    assert "desk-b2:7" in run("history", "show", "--all").stdout
    assert "desk-b2" not in run("history", "show").stdout


def test_what_a_turn_of_another_machine_sent_is_there(both) -> None:
    result = run("context", "3")
    assert result.exit_code == 4
    assert "Turn 3 was recorded on 'desk-b2'" in result.stderr
