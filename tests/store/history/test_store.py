"""Turns are kept for ever as they were said, whoever writes and whatever they hold."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from familiar_cli.base.errors import BadInputError, FamiliarError, LockedError, RefusedError
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history import WRITER, HistoryStore
from familiar_cli.store.history.marks import withdraw_turns
from familiar_cli.store.history.store import insert_turn
from tests.support.processes import Process

ANNA = Author("discord", "42", "anna", "Anna 🦊")


@pytest.fixture
def store(tmp_path):
    with closing(HistoryStore(tmp_path / "history.db", busy_timeout_s=0.1)) as opened:
        yield opened


def test_a_turn_comes_back_as_it_was_said(store) -> None:
    at = datetime(2026, 1, 31, 23, 59, 59, 123456, timezone(timedelta(hours=2)))

    turn = store.append("cli", "user", "Hei\r\nder", author=ANNA, at=at, modality="voice")

    assert store.turn(turn.id) == turn
    assert (turn.author, turn.content, turn.modality) == (ANNA, "Hei\r\nder", "voice")
    assert turn.at == datetime(2026, 1, 31, 21, 59, 59, 123000, UTC)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.text(st.characters(), max_size=40), channel=st.text(st.characters(), min_size=1))
def test_every_text_comes_back(store, content, channel) -> None:
    author = Author("p", channel, None, content or None)

    turn = store.append(channel, "user", content, author=author)

    assert store.recent(channel, 1, viewer=OWNER) == [turn]


def test_nul_and_half_a_surrogate_pair_come_back(store) -> None:
    turn = store.append("cli", "assistant", "a\x00b\ud83d")

    assert store.turn(turn.id).content == "a\x00b\ud83d"


def test_recent_turns_are_the_newest_of_their_channel_oldest_first(store) -> None:
    for number in range(5):
        store.append("a", "user", f"a{number}", author=ANNA)
        store.append("b", "user", f"b{number}", author=ANNA)

    assert [turn.content for turn in store.recent("a", 3, viewer=OWNER)] == ["a2", "a3", "a4"]


def test_recent_turns_can_end_before_one(store) -> None:
    turns = [store.append("a", "user", str(number), author=ANNA) for number in range(4)]

    assert [turn.content for turn in store.recent("a", 2, before_id=turns[2].id, viewer=OWNER)] == [
        "0",
        "1",
    ]


def test_what_was_just_read_is_read_again_after_any_change(store) -> None:
    first = store.append("a", "user", "Here.", author=ANNA)
    assert store.recent("a", 9, viewer=OWNER) == [first]
    with closing(HistoryStore(store.path)) as elsewhere:
        second = elsewhere.append("a", "user", "There.", author=ANNA)
    assert store.recent("a", 9, viewer=OWNER) == [first, second]
    assert store.recent("a", 1, viewer=OWNER) == [second]
    withdraw_turns(store, [second.id])
    assert store.recent("a", 9, viewer=OWNER) == [first]


def test_what_a_failed_change_wrote_is_not_remembered(store) -> None:
    first = store.append("a", "user", "Kept.", author=ANNA)

    def fail() -> None:
        with store.change() as connection:
            insert_turn(connection, replace(first, content="Lost."))
            assert len(store.recent("a", 9, viewer=OWNER)) == 2
            raise LockedError("no")

    with pytest.raises(LockedError):
        fail()
    assert store.recent("a", 9, viewer=OWNER) == [first]


def test_the_recent_window_is_found_by_the_index_alone(store) -> None:
    store.append("a", "user", "x", author=ANNA)
    with closing(sqlite3.connect(store.path)) as database:
        plan = database.execute(
            "EXPLAIN QUERY PLAN SELECT * FROM turns WHERE channel_id = 'a' AND id < 9 "
            "ORDER BY id DESC LIMIT 40"
        ).fetchall()

    assert [row[3] for row in plan] == [
        "SEARCH turns USING INDEX turns_of_channel (channel_id=? AND id<?)"
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE turns SET content = 'other'",
        "DELETE FROM turns",
        "INSERT OR REPLACE INTO turns SELECT * FROM turns",
    ],
)
def test_a_turn_is_never_changed_or_deleted(store, sql) -> None:
    turn = store.append("a", "user", "mine", author=ANNA)

    with (
        closing(sqlite3.connect(store.path)) as other,
        pytest.raises(sqlite3.IntegrityError, match="a turn is never"),
    ):
        other.execute(sql)

    assert store.turn(turn.id).content == "mine"


def test_looking_makes_no_file(store) -> None:
    assert (store.recent("cli", 5, viewer=OWNER), store.count(), store.last_turn()) == ([], 0, None)
    assert (store.turn(1), store.channels(), store.unsummarised_count()) == (None, [], 0)
    assert not store.path.exists()


def test_a_greeting_opens_a_channel_once(store) -> None:
    greeting = store.begin("cli", "Welcome.")

    assert (greeting.role, greeting.author, greeting.source) == ("assistant", None, "greeting")
    assert store.begin("cli", "Welcome again.") is None
    assert [turn.content for turn in store.recent("cli", 9, viewer=OWNER)] == ["Welcome."]


def test_turns_after_the_writers_watermark_are_unsummarised(store) -> None:
    turns = [store.append("a", "user", str(number), author=ANNA) for number in range(3)]
    store.move_watermark(WRITER, turns[0].id)

    assert (store.count(), store.unsummarised_count()) == (3, 2)


def test_a_watermark_never_moves_back(store) -> None:
    store.move_watermark(WRITER, 7)
    store.move_watermark(WRITER, 3)

    assert store.watermark(WRITER) == 7


def test_channels_are_listed_last_spoken_first(store) -> None:
    store.append("old", "user", "1", author=ANNA)
    store.append("new", "user", "2", author=ANNA)
    last = store.append("new", "assistant", "3")

    assert [(c.channel_id, c.turns) for c in store.channels()] == [("new", 2), ("old", 1)]
    assert store.channels()[0].last_at == last.at


def test_ids_no_turn_can_have_find_nothing(store) -> None:
    store.append("a", "user", "x", author=ANNA)

    assert store.turn(10**30) is None


def test_two_processes_write_to_one_history(store) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from familiar_cli.store.history import HistoryStore\n"
        "store = HistoryStore(Path(sys.argv[1]))\n"
        "for n in range(20): store.append('c', 'assistant', sys.argv[2] + str(n))"
    )
    writers = [Process([sys.executable, "-c", code, str(store.path), name]) for name in "ab"]

    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    assert sorted(t.content for t in store.recent("c", 99, viewer=OWNER)) == sorted(
        f"{name}{n}" for name in "ab" for n in range(20)
    )


def test_a_busy_history_is_waited_for_and_then_reported(store) -> None:
    store.append("a", "user", "x", author=ANNA)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LockedError, match=r"history\.db"):
            store.append("a", "user", "y", author=ANNA)
        assert store.count() == 1


@pytest.mark.parametrize("content", [b"no database at all, but some text" * 9, b"\x00" * 5000])
def test_a_corrupt_file_is_refused_and_stays_as_it_is(store, content) -> None:
    store.path.write_bytes(content)

    with pytest.raises(BadInputError, match="was not changed"):
        store.append("a", "user", "x", author=ANNA)
    assert store.path.read_bytes() == content


def test_a_damaged_page_is_an_error_a_person_can_read(store) -> None:
    for number in range(200):
        store.append("a", "user", f"{number} " + "x" * 200, author=ANNA)
    store.close()
    content = bytearray(store.path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    store.path.write_bytes(content)

    with pytest.raises(BadInputError, match="damaged"):
        store.recent("a", 50, viewer=OWNER)


def test_another_programs_database_is_refused(store) -> None:
    with closing(sqlite3.connect(store.path)) as other:
        other.execute("CREATE TABLE bookmarks (url TEXT)")

    with pytest.raises(BadInputError, match="another program"):
        store.count()


def test_a_newer_schema_is_refused_and_stays_as_it_is(store) -> None:
    store.append("a", "user", "x", author=ANNA)
    store.close()
    with closing(sqlite3.connect(store.path)) as newer:
        newer.execute("PRAGMA user_version = 99")
    before = store.path.read_bytes()

    with pytest.raises(RefusedError, match="schema 99"):
        store.append("a", "user", "y", author=ANNA)
    assert store.path.read_bytes() == before


def test_a_directory_in_its_place_is_an_error_a_person_can_read(store) -> None:
    store.path.mkdir()

    with pytest.raises(FamiliarError, match=r"history\.db"):
        store.count()


def test_the_oldest_turns_after_one_come_first(store) -> None:
    ids = [store.append(channel, "user", "x").id for channel in ("a", "b", "a", "c")]

    assert [turn.id for turn in store.after(ids[0], 2)] == ids[1:3]
    assert store.after(ids[-1], 2) == []


def test_the_first_turn_since_a_moment_is_found_by_its_own_time(store) -> None:
    late, early = datetime(2026, 5, 2, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC)
    store.append("a", "user", "imported", at=early)
    newest = store.append("a", "user", "now", at=late)

    assert store.first_since(late) == newest.id
    assert store.first_since(late + timedelta(days=1)) is None


def test_the_newest_id_is_that_of_the_turn_written_last(store) -> None:
    assert store.newest_id() == 0
    assert store.append("a", "user", "x").id == store.newest_id()
