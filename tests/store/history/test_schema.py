"""Only files of this schema are opened; others are refused and stay as they are."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from unittest.mock import Mock

import pytest

from familiar_cli.base.errors import BadInputError, RefusedError
from familiar_cli.base.who.identity import Author
from familiar_cli.store.history import HistoryStore, schema
from familiar_cli.store.history.schema import APPLICATION_ID, VERSION
from tests.support.cases import each
from tests.support.world import live, run

BEFORE_THE_FIRST_RELEASE = 0x66616D69
FORMS = {
    "a newer version": (
        f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION + 1}",
        RefusedError,
        f"supports only up to {VERSION}",
    ),
    "a state before the first release": (
        f"PRAGMA application_id = {BEFORE_THE_FIRST_RELEASE}; PRAGMA user_version = 12",
        RefusedError,
        "before the first release",
    ),
    "another program's history": (
        "CREATE TABLE turns (id INTEGER PRIMARY KEY, role, speaker, content)",
        BadInputError,
        "the history of another program",
    ),
    "another database": ("CREATE TABLE speakers (speaker)", BadInputError, "another program's"),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.db"


def make(path, script) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
    return path.read_bytes()


@pytest.mark.parametrize("form", FORMS)
def test_another_file_is_refused_and_stays_as_it_is(path, form) -> None:
    script, error, words = FORMS[form]
    before = make(path, script)

    with closing(HistoryStore(path)) as store, pytest.raises(error, match=words):
        store.append("cli", "user", "Hello")

    assert path.read_bytes() == before


def test_the_refusal_of_another_programs_history_names_the_command_that_imports_it(path) -> None:
    make(path, FORMS["another program's history"][0])

    with closing(HistoryStore(path)) as store, pytest.raises(BadInputError) as refused:
        store.newest_id()

    assert "`familiar import history.db`" in refused.value.hint


OF_VERSION_1 = """
DROP TRIGGER only_speakers_are_noted; DROP TRIGGER turns_are_unread;
CREATE TRIGGER only_speakers_are_noted AFTER INSERT ON turns
BEGIN
    INSERT OR REPLACE INTO one_to_one
        SELECT id, NEW.author_platform, NEW.author_user_id FROM turns
        WHERE NEW.author_platform IS NOT NULL AND turns.channel_id = NEW.channel_id
        AND NEW.channel_id NOT IN (SELECT channel_id FROM only_speakers);
END;
PRAGMA user_version = 1
"""


def state(path) -> tuple[int, set[object]]:
    with closing(sqlite3.connect(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return version, set(connection.execute("SELECT name, sql FROM sqlite_master"))


def test_the_first_change_replaces_the_triggers_of_version_1(path) -> None:
    with closing(HistoryStore(path)) as store:
        store.append("den", "user", "Hello")
    new = state(path)
    make(path, OF_VERSION_1)
    old = state(path)
    assert (old[0], len(old[1] - new[1])) == (1, 1)
    with closing(HistoryStore(path)) as one, closing(HistoryStore(path)) as other:
        assert (one.newest_id(), other.newest_id()) == (1, 1)
        assert state(path) == old  # reading changes nothing
        with pytest.raises(ZeroDivisionError), one.change():
            raise ZeroDivisionError
        assert state(path) == old
        one.append("den", "user", "one", author=Author("irc", "anna"))
        other.append("den", "user", "other", author=Author("irc", "bob"))
        assert other.rows("SELECT count(*) FROM unread") == [(3,)]
    assert state(path) == new


@each("argv", [("ask", "Hi", "--dry-run"), ("hear", "Hi"), ("history", "stats"), ("status",)])
def test_commands_refuse_a_home_of_another_version_in_one_sentence(argv) -> None:
    file = live("ada") / "history.db"
    before = make(file, FORMS["a state before the first release"][0])

    refused = run(*argv)

    assert refused.exit_code == 5
    assert "before the first release" in refused.stderr.splitlines()[0]
    assert file.read_bytes() == before


def test_an_empty_file_becomes_a_history(path) -> None:
    path.touch()

    with closing(HistoryStore(path)) as store:
        assert store.append("cli", "user", "Hello").id == 1


def test_a_history_that_another_process_begins_at_that_moment_is_ours(path, monkeypatch) -> None:
    real = schema.legacy_table

    def late(connection: sqlite3.Connection) -> str:
        monkeypatch.setattr(schema, "legacy_table", real)
        with closing(HistoryStore(path)) as other:
            other.append("cli", "user", "Theirs")
        return real(connection)

    path.touch()
    monkeypatch.setattr(schema, "legacy_table", late)
    with closing(HistoryStore(path)) as store:
        assert store.append("cli", "user", "Ours").id == 2


def test_the_owners_are_recorded_although_the_first_change_failed(path) -> None:
    owner = Author("discord", "anna")
    with closing(HistoryStore(path, owners=lambda: [owner])) as history:
        with pytest.raises(ZeroDivisionError), history.change():
            1 / 0  # noqa: B018
        history.append("dm", "user", "hi", author=owner)
        assert history.rows("SELECT * FROM owners") == [("discord", "anna")]


def test_the_newest_changes_are_read_on_a_full_disk(path, tmp_path, monkeypatch) -> None:
    with closing(schema.open_to_write(path, 0)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("INSERT INTO owners VALUES ('cli', 'ada')")
        copies = {file: file.read_bytes() for file in path.parent.glob(f"{path.name}*")}
    for file, content in copies.items():
        if not file.name.endswith("-shm"):
            file.write_bytes(content)
    full = sqlite3.OperationalError("disk I/O error")
    full.sqlite_errorcode = sqlite3.SQLITE_IOERR
    monkeypatch.setattr(schema, "open_to_write", Mock(side_effect=full))
    with closing(schema.open_to_read(path, 0)) as connection:
        assert ("cli", "ada") in connection.execute("SELECT * FROM owners").fetchall()
    with closing(schema.HistoryFile(path)) as history:
        assert ("cli", "ada") in history.rows("SELECT * FROM owners")
        monkeypatch.undo()
        with history.change() as connection:
            connection.execute("INSERT INTO owners VALUES ('cli', 'bea')")
        assert ("cli", "bea") in history.rows("SELECT * FROM owners")
    with closing(schema.open_to_write(path, 0)) as connection:
        assert ("cli", "bea") in connection.execute("SELECT * FROM owners").fetchall()
