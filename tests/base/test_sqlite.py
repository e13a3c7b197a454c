"""Transactions on SQLite, long lists of values, and what an error means."""

from __future__ import annotations

import errno
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import familiar_cli
from familiar_cli.base import files
from familiar_cli.base.sqlite import Fault, connect, fault_of, hint_for, rows_among, transaction


@pytest.fixture
def path(tmp_path):
    with closing(connect(tmp_path / "some.db", 0.0)) as connection:
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)")
        connection.execute("INSERT INTO t VALUES (1, 'kept')")
    return tmp_path / "some.db"


@pytest.fixture
def connection(path):
    with closing(connect(path, 0.0)) as opened:
        yield opened


def texts(connection) -> list[str]:
    return [text for (text,) in connection.execute("SELECT text FROM t ORDER BY id")]


def test_a_second_connection_keeps_the_log_that_another_process_would_delete(path) -> None:
    read = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('SELECT * FROM t').fetchall()"
    with closing(connect(path, 0.0)) as first:
        first.execute("PRAGMA journal_mode = WAL")
        first.execute("INSERT INTO t VALUES (2, 'in the log')")
        with closing(connect(path, 0.0)) as second:
            assert texts(second) == ["kept", "in the log"]
            subprocess.run([sys.executable, "-c", read, str(path)], check=True)
            first.execute("INSERT INTO t VALUES (3, 'later')")
        assert path.with_name("some.db-wal").exists()
        assert texts(first) == ["kept", "in the log", "later"]


def test_all_changes_of_a_transaction_are_made(connection) -> None:
    with transaction(connection) as inside:
        inside.execute("INSERT INTO t VALUES (2, 'two')")
        inside.execute("UPDATE t SET text = 'one' WHERE id = 1")
    assert texts(connection) == ["one", "two"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_none_is_made_when_it_fails(connection, error) -> None:
    with pytest.raises(error), transaction(connection):
        connection.execute("INSERT INTO t VALUES (2, 'two')")
        raise error
    assert texts(connection) == ["kept"]
    assert not connection.in_transaction


def test_a_transaction_holds_the_lock_before_its_first_change(path, connection) -> None:
    with (
        closing(connect(path, 0.0)) as other,
        transaction(connection),
        pytest.raises(sqlite3.OperationalError) as caught,
        transaction(other),
    ):
        pytest.fail("both hold it")
    assert fault_of(caught.value) is Fault.locked


def test_a_full_disk_is_told_as_such_and_nothing_is_changed(connection) -> None:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(sqlite3.Error) as caught, transaction(connection):
        connection.execute("UPDATE t SET text = 'changed'")
        connection.execute("INSERT INTO t VALUES (2, ?)", ("x" * 20_000,))
    assert fault_of(caught.value) is Fault.full
    assert texts(connection) == ["kept"]


def test_an_error_of_a_full_disk_has_its_hint(tmp_path, monkeypatch) -> None:
    assert hint_for(Fault.other, "Otherwise.", tmp_path) == "Otherwise."
    monkeypatch.setattr(files, "refusal_of_disk", lambda _: errno.ENOSPC)
    assert "The disk is full" in hint_for(Fault.other, "Otherwise.", tmp_path)


@pytest.mark.parametrize("count", [0, 1, 3, 512, 513, 70_000])
def test_any_number_of_values_may_be_asked_for(connection, count) -> None:
    with transaction(connection):
        connection.executemany("INSERT INTO t VALUES (?, '')", ((n,) for n in range(2, count + 1)))
    found = rows_among(connection, "SELECT id FROM t WHERE id IN", range(1, count + 1))
    assert sorted(found) == [(n,) for n in range(1, count + 1)]


@pytest.mark.parametrize("content", [b"no database" * 99, b"SQLite format 3\0" + b"?" * 4096])
def test_a_file_that_is_no_database_is_damaged(tmp_path, content) -> None:
    path = tmp_path / "some.db"
    path.write_bytes(content)
    with closing(connect(path, 0.0)) as opened, pytest.raises(sqlite3.Error) as caught:
        opened.execute("SELECT * FROM t")
    assert fault_of(caught.value) is Fault.damaged


def test_text_that_is_not_utf_8_is_damage(connection) -> None:
    connection.execute("UPDATE t SET text = CAST(x'ff' AS TEXT)")
    with pytest.raises(sqlite3.Error) as caught:
        texts(connection)
    assert fault_of(caught.value) is Fault.damaged


@pytest.mark.parametrize("mode", ["?mode=ro", "?immutable=1"])
def test_a_file_that_takes_no_writing_is_read_only(path, mode) -> None:
    with (
        closing(sqlite3.connect(path.as_uri() + mode, uri=True, isolation_level=None)) as opened,
        pytest.raises(sqlite3.Error) as caught,
    ):
        opened.execute("DELETE FROM t")
    assert fault_of(caught.value) is Fault.read_only


def test_a_place_where_nothing_can_be_made_is_read_only(tmp_path) -> None:
    with pytest.raises(sqlite3.Error) as caught:
        connect(tmp_path / "missing" / "some.db", 0.0)
    assert fault_of(caught.value) is Fault.read_only


def test_a_mistake_in_sql_is_no_fault_of_the_disk(connection) -> None:
    with pytest.raises(sqlite3.Error) as caught:
        connection.execute("SELECT nothing FROM nowhere")
    assert fault_of(caught.value) is Fault.other
    assert hint_for(fault_of(caught.value), "Ask somebody.", Path()) == "Ask somebody."


def test_every_transaction_that_writes_begins_in_one_module() -> None:
    root = Path(familiar_cli.__file__).parent
    found = [
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if "BEGIN IMMEDIATE" in path.read_text(encoding="utf-8")
    ]
    assert found == ["base/sqlite.py"]
