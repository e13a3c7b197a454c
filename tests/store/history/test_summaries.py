"""Summaries are kept step by step, and nothing private leaves its channel in one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history.summaries import PUBLIC, Summaries, Summary
from tests.support.viewers import rules_of

ANNA = Author("discord", "1", display_name="Anna")
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def store(tmp_path):
    with closing(HistoryStore(tmp_path / "history.db")) as opened:
        yield opened


@pytest.fixture
def summaries(store):
    return Summaries(store)


def summary(last, text="So far.", scope=PUBLIC, **more) -> Summary:
    return Summary(scope, last, text, NOW, "scripted", **more)


def talk(store, *channels) -> None:
    for channel in channels:
        store.append(channel, "user", f"in {channel}", author=ANNA)


def test_looking_makes_no_file(store, summaries) -> None:
    assert summaries.latest(PUBLIC, rules_of()) is None
    assert summaries.wanted(PUBLIC) == 0
    assert summaries.scopes() == []
    assert summaries.turns(PUBLIC, 0, 99, 9, rules_of()) == []
    assert not store.path.exists()


def test_the_newest_step_is_the_summary_and_the_older_ones_stay(store, summaries) -> None:
    summaries.keep(summary(4, "one"), {"a"})
    summaries.keep(summary(9, "two", cut=True), {"b"})

    assert summaries.latest(PUBLIC, rules_of()) == summary(9, "two", cut=True)
    assert summaries.channels(PUBLIC) == {"a", "b"}
    with store.use(create=False) as connection:
        assert connection.execute("SELECT count(*) FROM summaries").fetchone() == (2,)


def test_each_scope_has_its_own(summaries) -> None:
    summaries.keep(summary(4, "public"), {"a"})
    summaries.keep(summary(5, "private", "dm"), {"dm"})

    assert summaries.latest("dm", rules_of()).text == "private"
    assert summaries.latest(PUBLIC, rules_of()).text == "public"
    assert summaries.scopes() == [PUBLIC, "dm"]


def test_private_conversations_leaked(store, summaries) -> None:
    talk(store, "a", "dm", "b")

    public = summaries.turns(PUBLIC, 0, 99, 9, rules_of("dm"))
    own = summaries.turns("dm", 0, 99, 9, rules_of("dm"))

    assert [turn.channel_id for turn in public] == ["a", "b"]
    assert [turn.channel_id for turn in own] == ["dm"]
    assert summaries.count(PUBLIC, 0, 99, 9, rules_of("dm")) == 2


def test_a_summary_is_withheld_when_one_of_its_channels_becomes_private(summaries) -> None:
    summaries.keep(summary(4), {"a", "b"})

    assert summaries.latest(PUBLIC, rules_of("b")) is None
    assert summaries.latest(PUBLIC, rules_of("c")) is not None

    summaries.forget(PUBLIC)
    assert summaries.latest(PUBLIC, rules_of()) is None
    assert summaries.channels(PUBLIC) == frozenset()


def test_turns_come_in_batches_from_the_oldest(store, summaries) -> None:
    talk(store, *"abcdef")

    assert [turn.id for turn in summaries.turns(PUBLIC, 1, 5, 2, rules_of())] == [2, 3]
    assert summaries.count(PUBLIC, 1, 5, 99, rules_of()) == 4
    assert summaries.count(PUBLIC, 1, 5, 3, rules_of()) == 3


def test_what_is_wanted_never_moves_back(summaries) -> None:
    summaries.want(PUBLIC, 40)
    summaries.want(PUBLIC, 30)

    assert summaries.wanted(PUBLIC) == 40


def test_a_history_with_the_columns_and_the_table_of_earlier_versions_still_opens(tmp_path) -> None:
    with closing(HistoryStore(tmp_path / "history.db")) as made:
        Summaries(made).keep(summary(40), {"a"})
    with closing(sqlite3.connect(tmp_path / "history.db")) as connection:
        connection.executescript(
            """
            ALTER TABLE summary_state ADD COLUMN failure TEXT NOT NULL DEFAULT '';
            ALTER TABLE summary_state ADD COLUMN failed_at_ms INTEGER NOT NULL DEFAULT 0;
            INSERT INTO summary_state VALUES ('', 90, 'gone', 1);
            CREATE TABLE claims (name TEXT PRIMARY KEY, holder TEXT NOT NULL,
                                 until_ms INTEGER NOT NULL);
            INSERT INTO claims VALUES ('history_summary:', 'dead', 9999999999999);
            """
        )
    with closing(HistoryStore(tmp_path / "history.db")) as store:
        summaries = Summaries(store)
        assert summaries.wanted(PUBLIC) == 90
        summaries.want("dm", 7)
        summaries.keep(summary(50), {"a"})
        assert (summaries.wanted("dm"), summaries.latest(PUBLIC, rules_of()).last_turn_id) == (
            7,
            50,
        )


def test_text_of_every_kind_comes_back(summaries) -> None:
    summaries.keep(summary(1, "half \ud83d", "dm \ud83d"), {"dm \ud83d"})

    assert summaries.latest("dm \ud83d", rules_of()).text == "half \ud83d"
    assert summaries.scopes() == ["dm \ud83d"]


def test_what_people_have_said_is_counted_by_channel(store) -> None:
    talk(store, "a", "b", "a")
    store.append("a", "assistant", "hi")

    assert (store.said_count("a"), store.said_count("c")) == (2, 0)


def test_the_newest_turns_since_one_come_from_all_channels(store) -> None:
    talk(store, *"abcd")

    assert [turn.id for turn in store.since(1, 2)] == [3, 4]
