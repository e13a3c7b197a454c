"""Turns are found by their words, whatever is typed, in every script."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.fts import match_spans
from familiar_cli.store.history import HistoryStore, recall
from familiar_cli.store.history.recall import search
from familiar_cli.store.history.selection import TurnFilter


@pytest.fixture
def store(tmp_path):
    with closing(HistoryStore(tmp_path / "history.db")) as opened:
        yield opened


def say(store, *texts, channel="cli", year=2026):
    for text in texts:
        store.append(channel, "user", text, at=datetime(year, 1, 1, tzinfo=UTC))


def found(store, query, span=TurnFilter(OWNER), **how):  # noqa: B008
    return [hit.turn.content for hit in search(store, query, span, **how)]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("Zoë", "I met Zoe again"),
        ("painting", "she paints"),
        ("日本語", "彼女は日本語を勉強した"),
        ("猫", "猫が好き"),
        ("Привет", "привет мир"),
        ('What\'s "that" (tea) NEAR: -milk* AND OR ^?', "green tea"),
    ],
)
def test_words_are_found_in_every_script_and_raw_text_is_no_syntax(store, query, text) -> None:
    say(store, "something else", text)
    assert found(store, query) == [text]


def test_a_new_turn_is_found_at_once(store) -> None:
    say(store, "tea")
    assert found(store, "coffee") == []
    say(store, "coffee")
    assert found(store, "coffee") == ["coffee"]


def test_the_best_comes_first(store) -> None:
    say(store, "a train and a long story about something else", "the harbour train", "harbour")
    assert found(store, "harbour train")[0] == "the harbour train"


def test_a_channel_and_a_time_narrow_it_down(store) -> None:
    say(store, "tea one", channel="a", year=2020)
    say(store, "tea two", channel="b", year=2021)
    assert found(store, "tea", TurnFilter(OWNER, "a")) == ["tea one"]
    assert found(store, "tea", TurnFilter(OWNER, since=datetime(2020, 6, 1, tzinfo=UTC))) == [
        "tea two"
    ]
    assert found(store, "tea", TurnFilter(OWNER, until=datetime(2020, 6, 1, tzinfo=UTC))) == [
        "tea one"
    ]


def test_neighbours_are_those_of_the_channel(store) -> None:
    say(store, "before")
    say(store, "elsewhere", channel="b")
    say(store, "tea", "after", "later")
    (hit,) = search(store, "tea", TurnFilter(OWNER))
    assert [kept.turn.content for kept in hit.around] == ["before", "tea", "after"]


def test_looking_makes_no_history(tmp_path) -> None:
    assert found(HistoryStore(tmp_path / "none.db"), "tea") == []
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("query", ["", " ", "?!", "🦊"])
def test_no_word_finds_nothing(store, query) -> None:
    say(store, "tea")
    assert found(store, query) == []


def test_the_table_comes_back_when_it_is_deleted(store) -> None:
    say(store, "tea")
    assert found(store, "tea") == ["tea"]
    with closing(sqlite3.connect(store.path)) as other, other:
        other.execute("DROP TABLE turns_fts")
    assert found(store, "tea") == ["tea"]


def test_a_table_of_an_older_kind_is_made_again(store, monkeypatch) -> None:
    say(store, "tea")
    found(store, "tea")
    monkeypatch.setattr(recall, "WATERMARK", "fulltext-99")
    assert found(store, "tea") == ["tea"]


def test_filling_the_table_goes_on_where_it_was_broken_off(store, monkeypatch) -> None:
    monkeypatch.setattr(recall, "_PAGE", 2)
    say(store, *(f"tea {n}" for n in range(7)))

    def stop(done, whole):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(store, "tea", TurnFilter(OWNER), on_progress=stop)
    assert store.watermark(recall.WATERMARK) == 2
    told = []
    assert (
        len(
            search(
                store,
                "tea",
                TurnFilter(OWNER),
                on_progress=lambda done, whole: told.append((done, whole)),
            )
        )
        == 7
    )
    assert told == [(2, 5), (4, 5), (5, 5)]


def test_common_words_rank_what_a_rarer_word_found(store, monkeypatch) -> None:
    monkeypatch.setattr(recall, "MOST_RANKED", 3)
    say(store, *["tea"] * 9, "zanzibar", "zanzibar tea")
    assert sorted(found(store, "tea zanzibar")) == ["zanzibar", "zanzibar tea"]


def test_of_words_that_most_turns_hold_the_newest_turns_are_found(store, monkeypatch) -> None:
    monkeypatch.setattr(recall, "MOST_RANKED", 3)
    say(store, *(f"tea {'x ' * n}" for n in range(9)))
    assert [hit.turn.id for hit in search(store, "tea", TurnFilter(OWNER), limit=3)] == [9, 8, 7]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(), max_size=20), query=st.text(st.characters(), max_size=20))
def test_no_text_and_no_query_breaks_the_search(store, text, query) -> None:
    say(store, text)
    search(store, query, TurnFilter(OWNER))


def marked(query, text):
    return [text[start:end] for start, end in match_spans(query, text)]


def test_marks_are_the_words_that_were_found() -> None:
    assert marked("painting Zoe", "Zoë paints, Zoe painted.") == ["Zoë", "paints", "Zoe", "painted"]
    assert marked("日本語", "彼女は日本語を勉強した") == ["日本語"]
    assert marked("?", "tea") == []
