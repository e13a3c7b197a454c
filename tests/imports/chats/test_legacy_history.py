"""The history of an earlier program becomes turns, with their speakers as authors."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.imports.cast import Cast
from familiar_cli.imports.contract import Reading
from familiar_cli.store.history.selection import TurnFilter, select_turns
from tests.support.chats import READING, bring
from tests.support.world import live, run

TABLE = (
    "CREATE TABLE turns (id INTEGER PRIMARY KEY AUTOINCREMENT, familiar_id TEXT NOT NULL, "
    "channel_id INTEGER NOT NULL, guild_id INTEGER, role TEXT NOT NULL, speaker TEXT, "
    "content TEXT NOT NULL, timestamp TEXT NOT NULL)"
)
ROWS = [
    (3, "aria", 777, 1, "user", "Zoë", "Hello  there", "2024-05-01T10:00:00+02:00"),
    (4, "aria", 777, 1, "assistant", "Aria", "Hi, Zoë.", "2024-05-01T08:00:01.250"),
    (9, "aria", 778, None, "user", "日本", "こんにちは", "2024-05-02 00:00:00"),
]


def make(path, table=TABLE, rows=ROWS):
    with closing(sqlite3.connect(path)) as old, old:
        old.execute(table)
        for row in rows:
            old.execute(f"INSERT INTO turns VALUES ({', '.join('?' * len(row))})", row)
    return path


def imported(store, path, reading=READING):
    bring(store, path, reading)
    return [kept.turn for kept in select_turns(store, TurnFilter(OWNER))]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "old.db"


def test_speakers_become_display_names_of_a_legacy_platform(store, path) -> None:
    zoe, familiar, other = imported(store, make(path))

    assert zoe.author == Author("legacy-discord", "Zoë", None, "Zoë")
    assert familiar.author is None
    assert other.author == Author("legacy-discord", "日本", None, "日本")


def test_words_times_and_channels_stay(store, path) -> None:
    turns = imported(store, make(path))

    assert [(t.channel_id, t.content) for t in turns] == [
        ("777", "Hello  there"),
        ("777", "Hi, Zoë."),
        ("778", "こんにちは"),
    ]
    assert [t.at.isoformat(timespec="milliseconds") for t in turns] == [
        "2024-05-01T08:00:00.000+00:00",
        "2024-05-01T08:00:01.250+00:00",
        "2024-05-02T00:00:00.000+00:00",
    ]


def test_the_file_is_only_read(store, path) -> None:
    before = make(path).read_bytes()
    imported(store, path)

    assert path.read_bytes() == before
    assert list(path.parent.glob("old.db*")) == [path]


def test_nothing_is_imported_twice_and_what_is_new_is_added(store, path) -> None:
    imported(store, make(path))
    with closing(sqlite3.connect(path)) as old, old:
        later = (10, "aria", 777, 1, "user", "Bo", "And me", "2024-05-03 00:00:00")
        old.execute("INSERT INTO turns VALUES (?, ?, ?, ?, ?, ?, ?, ?)", later)

    assert [t.content for t in imported(store, path)][-1] == "And me"
    assert store.count() == 4


def test_the_smallest_table_is_read(store, path) -> None:
    (turn,) = imported(
        store,
        make(path, "CREATE TABLE turns (role, speaker, content)", [("user", "Bo", "Hey")]),
    )

    assert (turn.channel_id, turn.content, turn.author.user_id) == ("legacy", "Hey", "Bo")


def test_author_columns_are_kept(store, path) -> None:
    table = (
        "CREATE TABLE turns (id INTEGER PRIMARY KEY, channel_id, role, author_platform, "
        "author_user_id, author_username, author_display_name, content, timestamp)"
    )
    rows = [(1, 5, "user", "twitch", "77", "bo", "Bo", "Hey", 1714550400)]

    (turn,) = imported(store, make(path, table, rows))

    assert turn.author == Author("twitch", "77", "bo", "Bo")
    assert turn.at.isoformat() == "2024-05-01T08:00:00+00:00"


def test_whoever_says_which_speaker_they_are_is_the_owner(store, path) -> None:
    me = Author("local", "me", None, "Me")
    rows = ROWS[:1]
    (zoe,) = imported(store, make(path, rows=rows), Reading(Cast(me=me, mine=("Zoë",))))

    assert zoe.author == Author("local", "me", None, "Zoë")


def test_another_database_is_refused(store, path) -> None:
    make(path, "CREATE TABLE turns (role, content)", [("user", "Hey")])

    (refused,) = bring(store, path).failed
    assert "without a table of turns" in str(refused.error)


def test_import_recognises_it(path) -> None:
    live("ada")
    make(path)

    assert run("import", str(path)).exit_code == 0
    assert "Hi, Zoë." in run("history", "show", "--channel", "777").stdout


def test_the_history_of_a_familiar_is_refused(tmp_path) -> None:
    root = live("ada")
    assert run("hear", "Hello").exit_code == 0

    refused = run("import", str(root / "history.db"))

    assert refused.exit_code == 5
    assert "is the history of a familiar" in refused.stderr
