"""The log of events, the tables for turns of other machines, and how older histories get them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history.lines import TurnName, ids_of, names_of
from familiar_cli.store.history.salvage import salvage
from familiar_cli.store.history.store import turn_statuses, withdraw_turns, withdrawn_channels
from familiar_cli.store.history.tables import APPLICATION_ID
from familiar_cli.sync.turns import new_lines

OLDER = Path(__file__).parent / "older"
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
        connection.executescript((OLDER / "v6.sql").read_text())
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
    found = turn_statuses(older, [2, 3, 4, 5])
    assert found[3].alternatives == found[2].alternatives == (2, 3, 4)
    assert found[3].superseded_by == 4
    assert found[5].alternatives == ()
    assert [turn.content for turn in older.recent("side", 9, viewer=OWNER)] == ["turn 1", "turn 2"]


def test_all_that_an_older_history_knows_of_its_turns_is_numbered(older) -> None:
    with older.use(create=True) as connection:
        events = connection.execute("SELECT id, kind, clock FROM events ORDER BY id")
        kinds = [kind for id_, kind, clock in events if id_ == clock]
    assert kinds == ["chat", *["superseded"] * 4, "hidden", "branch"]


def test_a_mark_that_is_made_later_has_a_later_number(older) -> None:
    withdraw_turns(older, [1])
    with older.use(create=False) as connection:
        (last,) = connection.execute("SELECT max(clock) FROM events").fetchone()
    assert last == 8


@pytest.fixture
def version_10(tmp_path):
    """The path of a history of version 10, with marks, a branch and turns of three machines."""
    path = tmp_path / "history.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((OLDER / "v10.sql").read_text())
    return path


def assert_all_is_there(path: Path) -> None:
    store = HistoryStore(path)
    names = names_of(store, "srv-c3", range(1, 16))
    assert [turn.id for turn in store.recent("b2", 9, viewer=OWNER)] == [7, 14]
    assert [turn.id for turn in store.recent("chat", 9, viewer=OWNER)] == [8, 9]
    became = {names[i]: found for i, found in turn_statuses(store, names).items()}
    first, second = became[TurnName("desk-b2", 1)], became[TurnName("lap-a1", 3)]
    assert (names[first.superseded_by], first.withdrawn) == (TurnName("lap-a1", 3), True)
    assert names[second.superseded_by] == TurnName("lap-a1", 5)
    assert [names[i] for i in second.alternatives] == [
        TurnName("desk-b2", 1),
        TurnName("lap-a1", 3),
        TurnName("lap-a1", 5),
    ]
    assert withdrawn_channels(store) == {"cli", "side"}
    assert [(b.channel_id, b.parent, names[b.turn_id]) for b in store.branches()] == [
        ("b2", "cli", TurnName("desk-b2", 2))
    ]
    store.close()


def test_version_10_says_the_same_and_is_kept_beside(version_10) -> None:
    before = version_10.read_bytes()
    assert_all_is_there(version_10)
    kept = version_10.with_name("history.db.before-v11")
    with closing(sqlite3.connect(kept)) as copy, closing(sqlite3.connect(":memory:")) as old:
        old.deserialize(before)
        assert list(copy.iterdump()) == list(old.iterdump())
    version_10.write_bytes(kept.read_bytes())
    assert_all_is_there(version_10)


def test_version_10_tells_others_what_it_told(version_10) -> None:
    store = HistoryStore(version_10)
    _, lines = new_lines(store, "srv-c3")
    told = lines.replace(b'"nth":1,', b"").replace(b'"nth":2,', b"")
    assert told == (OLDER / "v10.jsonl").read_bytes()
    store.close()


def test_a_damaged_version_10_keeps_its_marks(version_10) -> None:
    with closing(sqlite3.connect(version_10)) as connection:
        sql = "SELECT rootpage FROM sqlite_master WHERE name = 'turns_of_channel'"
        (page,) = connection.execute(sql).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    data = bytearray(version_10.read_bytes())
    data[(page - 1) * size : page * size] = b"\x7f" * size
    version_10.write_bytes(data)
    assert salvage(version_10).damaged
    assert_all_is_there(version_10)
    store = HistoryStore(version_10)
    withdraw_turns(store, [7])  # settles marks again
    with store.use(create=False) as connection:
        kinds = connection.execute("SELECT kind, count(*) FROM events GROUP BY kind").fetchall()
    assert dict(kinds) == {"branch": 2, "channel": 2, "chat": 1, "superseded": 2, "withdrawn": 3}
    store.close()


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
