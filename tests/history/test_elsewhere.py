"""The tables for turns of other machines, and how an older history gets them."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from familiar_cli.history import HistoryStore
from familiar_cli.history.elsewhere import TurnName, ids_of, names_of
from familiar_cli.history.schema import APPLICATION_ID, MIGRATIONS
from familiar_cli.history.standing import standings
from familiar_cli.visibility import OWNER

TURN = (
    "INSERT INTO turns (channel_id, role, content, at_ms, modality, source) "
    "VALUES (?, ?, ?, ?, ?, ?)"
)
MARK = "INSERT INTO marks (turn_id, mark, value, at_ms) VALUES (?, ?, ?, 0)"


@pytest.fixture
def older(tmp_path):
    """A history of version 6: three replies at one place, a hidden turn, a branch, a chat."""
    path = tmp_path / "history.db"
    with closing(sqlite3.connect(path)) as connection:
        for step in MIGRATIONS[:6]:
            step(connection)
        for number in range(1, 7):
            values = ("cli", "user", f"turn {number}", number, "text", "cli")
            connection.execute(TURN, values)
        connection.executemany(
            MARK,
            [
                (2, "superseded", 3),
                (3, "superseded", 4),
                (4, "superseded", 2),
                (2, "superseded", 0),
                (6, "hidden", 1),
            ],
        )
        connection.execute("INSERT INTO branches VALUES (NULL, 'side', 'cli', 3, 2, 0)")
        connection.execute("INSERT INTO chats VALUES (1, 'cli', 'k', 'import', 'plain', 'n', '')")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 6")
        connection.commit()
    return HistoryStore(path)


def test_an_older_history_keeps_its_order_and_its_alternatives(older) -> None:
    assert [turn.id for turn in older.recent("cli", 9, viewer=OWNER)] == [1, 2, 5]
    found = standings(older, [2, 3, 4, 5])
    assert found[3].alternatives == found[2].alternatives == (2, 3, 4)
    assert found[3].superseded_by == 4
    assert found[5].alternatives == ()
    assert [turn.content for turn in older.recent("side", 9, viewer=OWNER)] == ["turn 1", "turn 2"]


def test_all_that_an_older_history_knows_of_its_turns_is_numbered(older) -> None:
    with older.use(create=True) as connection:
        facts = connection.execute("SELECT id, kind, row_id, clock FROM facts ORDER BY id")
        kinds = [(kind, row_id) for id_, kind, row_id, clock in facts if id_ == clock]
    marks = [("mark", number) for number in range(1, 6)]
    assert kinds == [("chat", 1), *marks, ("branch", 1)]


def test_a_mark_that_is_made_later_has_a_later_number(older) -> None:
    with older.change() as connection:
        connection.execute(MARK, (1, "withdrawn", 1))
        (last,) = connection.execute("SELECT max(clock) FROM facts WHERE kind = 'mark'").fetchone()
    assert last == 8


def test_turns_have_names_and_names_have_turns(older) -> None:
    with older.change() as connection:
        connection.execute("INSERT INTO elsewhere VALUES (5, 'desk-1', 77, 4, '')")
    names = {1: TurnName("lap-1", 1), 5: TurnName("desk-1", 77)}
    assert names_of(older, "lap-1", [1, 5, 99]) == names
    asked = [*names.values(), TurnName("lap-1", 5), TurnName("desk-1", 1)]
    assert ids_of(older, "lap-1", asked) == {name: number for number, name in names.items()}


@pytest.mark.parametrize("change", ["UPDATE elsewhere SET id_there = 1", "DELETE FROM elsewhere"])
def test_the_origin_of_a_turn_never_changes(older, change) -> None:
    with older.change() as connection:
        connection.execute("INSERT INTO elsewhere VALUES (5, 'desk-1', 77, 4, '')")
    with pytest.raises(Exception, match="never"), older.change() as connection:
        connection.execute(change)
