"""Histories of earlier programs are taken over whole, and kept."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history import HistoryStore

SPEAKER_TABLE = (
    "CREATE TABLE turns (id INTEGER PRIMARY KEY AUTOINCREMENT, familiar_id TEXT NOT NULL, "
    "channel_id INTEGER NOT NULL, guild_id INTEGER, role TEXT NOT NULL, speaker TEXT, "
    "content TEXT NOT NULL, timestamp TEXT NOT NULL)"
)
SPEAKER_ROWS = [
    (3, "aria", 777, 1, "user", "Zoë", "Hello  there\n", "2024-05-01T10:00:00+02:00"),
    (4, "aria", 777, 1, "assistant", "Aria", "Hi, Zoë.", "2024-05-01T08:00:01.250"),
    (9, "aria", 778, None, "user", "日本", "こんにちは", "2024-05-02 00:00:00"),
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.db"


def make(path, table, rows) -> None:
    with closing(sqlite3.connect(path)) as old, old:
        old.execute(table)
        old.execute("CREATE INDEX turns_of_channel ON turns (role)")
        for row in rows:
            old.execute(f"INSERT INTO turns VALUES ({', '.join('?' * len(row))})", row)


def turns_of(path, *ids):
    with closing(HistoryStore(path)) as store:
        return [store.turn(turn_id) for turn_id in ids]


def test_speakers_become_display_names_of_a_legacy_platform(path) -> None:
    make(path, SPEAKER_TABLE, SPEAKER_ROWS)

    zoe, familiar, other = turns_of(path, 3, 4, 9)

    assert zoe.author == Author("legacy-discord", "Zoë", None, "Zoë")
    assert familiar.author is None
    assert other.author.display_name == "日本"


def test_ids_words_times_and_channels_stay(path) -> None:
    make(path, SPEAKER_TABLE, SPEAKER_ROWS)

    turns = turns_of(path, 3, 4, 9)

    assert [(t.channel_id, t.content) for t in turns] == [
        ("777", "Hello  there\n"),
        ("777", "Hi, Zoë."),
        ("778", "こんにちは"),
    ]
    assert [t.at.isoformat(timespec="milliseconds") for t in turns] == [
        "2024-05-01T08:00:00.000+00:00",
        "2024-05-01T08:00:01.250+00:00",
        "2024-05-02T00:00:00.000+00:00",
    ]


def test_a_copy_of_the_old_file_stays_beside_it(path) -> None:
    make(path, SPEAKER_TABLE, SPEAKER_ROWS)
    turns_of(path, 3)

    with closing(sqlite3.connect(f"{path}.before-v1")) as copy:
        assert copy.execute("SELECT * FROM turns").fetchall() == SPEAKER_ROWS


def test_the_old_table_stays_in_the_file(path) -> None:
    make(path, SPEAKER_TABLE, SPEAKER_ROWS)
    turns_of(path, 3)

    with closing(sqlite3.connect(path)) as new:
        assert new.execute("SELECT * FROM legacy_turns").fetchall() == SPEAKER_ROWS


def test_the_next_turn_comes_after_the_old_ones(path) -> None:
    make(path, SPEAKER_TABLE, SPEAKER_ROWS)

    with closing(HistoryStore(path)) as store:
        assert store.append("777", "assistant", "Go on.").id == 10
        assert [t.id for t in store.recent("777", 9, viewer=OWNER)] == [3, 4, 10]


def test_it_is_taken_over_once(path) -> None:
    make(path, SPEAKER_TABLE, SPEAKER_ROWS)
    first = turns_of(path, 3, 4, 9)

    assert turns_of(path, 3, 4, 9) == first
    assert len(list(path.parent.glob("history.db.before-v1*"))) == 1


def test_an_earlier_copy_is_not_overwritten(path) -> None:
    path.with_name("history.db.before-v1").write_bytes(b"precious")
    make(path, SPEAKER_TABLE, SPEAKER_ROWS)
    turns_of(path, 3)

    assert path.with_name("history.db.before-v1").read_bytes() == b"precious"
    assert path.with_name("history.db.before-v1.2").exists()


def test_the_smallest_legacy_table_is_taken_over(path) -> None:
    make(path, "CREATE TABLE turns (role, speaker, content)", [("user", "Bo", "Hey")])

    (turn,) = turns_of(path, 1)

    assert (turn.channel_id, turn.content, turn.source) == ("legacy", "Hey", "legacy-undated")


def test_author_columns_of_an_earlier_program_are_kept(path) -> None:
    table = (
        "CREATE TABLE turns (id INTEGER PRIMARY KEY, channel_id, role, author_platform, "
        "author_user_id, author_username, author_display_name, content, timestamp)"
    )
    make(path, table, [(1, 5, "user", "twitch", "77", "bo", "Bo", "Hey", 1714550400)])

    (turn,) = turns_of(path, 1)

    assert turn.author == Author("twitch", "77", "bo", "Bo")
    assert turn.at.isoformat() == "2024-05-01T08:00:00+00:00"


def test_a_migration_that_fails_leaves_the_file_as_it_was(path, monkeypatch) -> None:
    make(path, SPEAKER_TABLE, SPEAKER_ROWS)
    with closing(sqlite3.connect(path)) as old, old:
        old.execute("CREATE TABLE legacy_turns (in_the_way)")

    with pytest.raises(Exception, match=r"history\.db"):
        turns_of(path, 3)

    with closing(sqlite3.connect(path)) as old:
        assert old.execute("SELECT * FROM turns").fetchall() == SPEAKER_ROWS
