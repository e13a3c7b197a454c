"""The whole past is searched, and nothing is heard where it must not be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from familiar_cli.history import HistoryStore
from familiar_cli.history.recall import recall
from familiar_cli.history.rows import COLUMNS, to_row
from familiar_cli.sqlite import transaction

START = datetime(2024, 3, 1, 12, tzinfo=UTC)
FILL = ["How was the day?", "Long.", "Tea?", "Please.", "It rains.", "It does."]


@pytest.fixture
def history(tmp_path):
    made = HistoryStore(tmp_path / "history.db")
    yield made
    made.close()


def say(history, text, *, channel="a", days=0):
    return history.append(channel, "user", text, at=START + timedelta(days=days)).id


def found(history, query, **more) -> list[int]:
    return [one.turn.id for one in recall(history, query, **more).turns]


def test_the_turn_that_answers_comes_first(history) -> None:
    for day in range(4):
        for text in FILL:
            say(history, text, days=day)
    wanted = say(history, "The lighthouse keeper lost her umbrella.", days=9)
    assert found(history, "Who lost an umbrella?")[0] == wanted


def test_turns_beside_the_one_that_fits_come_with_it(history) -> None:
    say(history, "The bread was good.")
    asked = say(history, "Where did you put the lantern?")
    answer = say(history, "Behind the stove.")
    say(history, "Something else.", days=3)
    assert set(found(history, "lantern")[:3]) >= {asked, answer}


def test_a_turn_knows_what_was_said_before_it(history) -> None:
    asked = say(history, "Where did you put the lantern?")
    answer = say(history, "The lantern? Behind the stove.")
    by_id = {one.turn.id: one for one in recall(history, "lantern").turns}
    assert by_id[answer].before.id == asked


def test_another_channel_is_no_neighbour(history) -> None:
    say(history, "Where did you put the lantern?")
    other = say(history, "Behind the stove.", channel="b")
    assert other not in found(history, "lantern")


def test_hidden_channels_turns_and_later_ones_are_never_found(history) -> None:
    secret = say(history, "The lantern is under the bed.", channel="dm")
    shown = say(history, "The lantern is on the shelf.")
    early = say(history, "The lantern is new.")
    late = say(history, "The lantern is broken.")
    left = found(history, "lantern", hidden_channels=["dm"], leave_out=[shown], before_id=late)
    assert left == [early]
    assert secret not in left


def test_many_turns_that_may_not_be_found_hide_none_that_may(history) -> None:
    first = history.turn(say(history, "lantern lantern lantern", channel="dm"))
    with history.use(create=True) as connection:
        marks = ", ".join("?" * len(COLUMNS))
        sql = f"INSERT INTO turns ({', '.join(COLUMNS)}) VALUES ({marks})"
        with transaction(connection):
            connection.executemany(sql, [to_row(first)] * 900)
    wanted = say(history, "The lantern, among many other things that were said here, is old.")
    assert found(history, "lantern", hidden_channels=["dm"]) == [wanted]


def test_turns_that_could_not_be_read_in_time_are_counted(history) -> None:
    say(history, "The lantern is old.")
    looked = recall(history, "lantern", within_s=0.0)
    assert (looked.turns, looked.unread) == ((), 1)
    assert recall(history, "lantern").unread == 0


def test_a_history_that_is_not_there_has_no_past(tmp_path) -> None:
    assert recall(HistoryStore(tmp_path / "none.db"), "lantern").turns == ()
    assert not (tmp_path / "none.db").exists()


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "dm"]), st.sampled_from(["lamp", "tea", "lamp tea"])),
        max_size=20,
    ),
    st.sets(st.sampled_from(["a", "b", "dm"]), max_size=2),
)
def test_no_channel_that_is_hidden_is_heard_of(tmp_path_factory, said, hidden) -> None:
    history = HistoryStore(tmp_path_factory.mktemp("h") / "history.db")
    for channel, text in said:
        say(history, text, channel=channel)
    looked = recall(history, "lamp", hidden_channels=hidden).turns
    channels = {one.turn.channel_id for one in looked}
    channels |= {one.before.channel_id for one in looked if one.before}
    history.close()
    assert not channels & hidden
    assert all(0 <= one.score <= 1.0001 for one in looked)
