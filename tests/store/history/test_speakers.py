"""Who spoke where is known at once, however long the history is."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history import HistoryStore

ANNA, BO, CY = (Author("discord", name, display_name=name.title()) for name in ("anna", "bo", "cy"))


@pytest.fixture
def store(tmp_path):
    with closing(HistoryStore(tmp_path / "history.db")) as made:
        yield made


def test_nobody_spoke_where_there_is_no_history(store) -> None:
    assert store.recent_distinct_authors("cli", 5, viewer=OWNER) == []
    assert store.speakers(OWNER) == []
    assert not store.path.exists()


def test_the_latest_come_first_and_each_once(store) -> None:
    for who in (ANNA, BO, CY, ANNA):
        store.append("cli", "user", "hi", author=who)
        store.append("cli", "assistant", "hello")
    assert store.recent_distinct_authors("cli", 5, viewer=OWNER) == [ANNA, CY, BO]
    assert store.recent_distinct_authors("cli", 2, viewer=OWNER) == [ANNA, CY]


def test_other_channels_do_not_count(store) -> None:
    store.append("cli", "user", "hi", author=ANNA)
    store.append("harbour", "user", "hi", author=BO)
    assert store.recent_distinct_authors("cli", 5, viewer=OWNER) == [ANNA]


def test_a_person_is_called_what_they_were_called_last(store) -> None:
    store.append("cli", "user", "hi", author=ANNA)
    renamed = Author("discord", "anna", username="a", display_name="Bee")
    store.append("cli", "user", "hi", author=renamed)
    assert store.recent_distinct_authors("cli", 5, viewer=OWNER) == [renamed]


def test_a_known_name_stays_where_none_is_sent(store) -> None:
    unnamed = Author("discord", "anna")
    store.append("hall", "user", "hi", author=ANNA)
    assert store.append("hall", "user", "hi", author=unnamed).author == ANNA
    store.append("harbour", "user", "hi", author=unnamed)  # newer, and never named there
    assert [one.author for one in store.speakers(OWNER)] == [ANNA]


def test_a_name_used_in_private_is_not_told_to_those_who_come(store) -> None:
    for who in (ANNA, BO):
        store.append("hall", "user", "hi", author=who)
    unnamed = Author("discord", "anna")
    assert store.append("hall", "user", "hi", author=unnamed).author == unnamed


def test_turns_are_counted_over_all_channels(store) -> None:
    for channel in ("cli", "harbour", "cli"):
        last = store.append(channel, "user", "hi", author=ANNA)
    store.append("cli", "user", "hi", author=BO)
    bo, anna = store.speakers(OWNER)
    assert (anna.author, anna.turns, anna.last_at) == (ANNA, 3, last.at)
    assert (bo.author, bo.turns) == (BO, 1)


def test_an_id_that_is_no_unicode_is_found_again(store) -> None:
    odd = Author("discord", "a\udc80")
    store.append("cli", "user", "hi", author=odd)
    assert store.recent_distinct_authors("cli", 5, viewer=OWNER) == [odd]


def test_the_question_reads_no_turn_but_those_it_names(store) -> None:
    from familiar_cli.store.history.store import RECENT

    store.append("cli", "user", "hi", author=ANNA)
    with closing(sqlite3.connect(store.path)) as database:
        steps = [row[3] for row in database.execute("EXPLAIN QUERY PLAN " + RECENT, ("cli", 5))]
    assert any("speakers_of_channel" in step for step in steps)
    assert not any(step.startswith("SCAN turns") for step in steps)


@given(st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from("abcd")), max_size=20))
def test_it_agrees_with_the_turns(tmp_path_factory, said) -> None:
    with closing(HistoryStore(tmp_path_factory.mktemp("h") / "history.db")) as store:
        for channel, who in said:
            store.append(channel, "user", "hi", author=Author("discord", who))
        backwards = [who for channel, who in reversed(said) if channel == "x"]
        found = [author.user_id for author in store.recent_distinct_authors("x", 3, viewer=OWNER)]
    assert found == list(dict.fromkeys(backwards))[:3]


def test_a_turn_is_added_as_fast_to_a_long_channel_as_to_a_short_one(store) -> None:
    steps = []

    def add(number: int) -> int:
        before = len(steps)
        store.append("den", "user", f"line {number}", author=ANNA)
        return len(steps) - before

    with store.use(create=True) as connection:
        connection.set_progress_handler(lambda: steps.append(1), 10)
        add(0)
        first, *_, last = [add(number) for number in range(200)]
    assert last < first + 40
