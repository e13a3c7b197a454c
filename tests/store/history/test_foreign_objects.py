"""What others put into `history.db` is named."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from familiar_cli.store.history.schema import foreign_objects
from familiar_cli.store.history.store import HistoryStore
from tests.support.world import live, run


@pytest.fixture
def path():
    found = live("ada") / "history.db"
    store = HistoryStore(found)
    store.append("cli", "user", "a word to be found")
    assert run("history", "search", "word").exit_code == 0
    store.close()
    return found


def test_our_own_tables_are_known(path) -> None:
    assert foreign_objects(path) == []


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ("CREATE TRIGGER spy AFTER INSERT ON turns BEGIN SELECT 1; END", "trigger 'spy'"),
        ("CREATE TABLE mine (x)", "table 'mine'"),
        ("CREATE VIEW seen AS SELECT * FROM turns", "view 'seen'"),
        ("CREATE INDEX more ON turns (content)", "index 'more'"),
    ],
)
def test_a_foreign_object_is_named_by_doctor(path, sql, named) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(sql)
    assert foreign_objects(path) == [named]
    assert named in run("doctor").stdout
