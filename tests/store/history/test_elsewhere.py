"""Turns of other machines: their names here, and the events about turns."""

from __future__ import annotations

from contextlib import closing

import pytest

from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history.lines import TurnName, ids_of, names_of
from familiar_cli.store.history.marks import withdraw_turns


@pytest.fixture
def store(tmp_path):
    with closing(HistoryStore(tmp_path / "history.db")) as made:
        for number in range(1, 6):
            made.append("cli", "user", f"turn {number}")
        yield made


def test_a_mark_that_is_made_later_has_a_later_number(store) -> None:
    withdraw_turns(store, [1])
    withdraw_turns(store, [2])
    with store.use(create=False) as connection:
        events = connection.execute("SELECT turn_id, clock FROM events ORDER BY id").fetchall()
    assert events == [(1, 1), (2, 2)]


def test_turns_have_names_and_names_have_turns(store) -> None:
    with store.change() as connection:
        connection.execute("INSERT INTO elsewhere VALUES (5, 'desk-1', 77, 4, '')")
    names = {1: TurnName("lap-1", 1), 5: TurnName("desk-1", 77)}
    assert names_of(store, "lap-1", [1, 5, 99]) == names
    asked = [*names.values(), TurnName("lap-1", 5), TurnName("desk-1", 1)]
    assert ids_of(store, "lap-1", asked) == {name: number for number, name in names.items()}


@pytest.mark.parametrize("change", ["UPDATE elsewhere SET id_there = 1", "DELETE FROM elsewhere"])
def test_the_origin_of_a_turn_never_changes(store, change) -> None:
    with store.change() as connection:
        connection.execute("INSERT INTO elsewhere VALUES (5, 'desk-1', 77, 4, '')")
    with pytest.raises(Exception, match="never"), store.change() as connection:
        connection.execute(change)
