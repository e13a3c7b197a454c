"""The whole past is searched, and nothing is heard where it must not be."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from familiar_cli.base.sqlite import transaction
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER, PrivacyRules, Viewer
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history.forgetting import ForgetOrder
from familiar_cli.store.history.likeness import NameForms
from familiar_cli.store.history.marks import restore_turns, withdraw_turns
from familiar_cli.store.history.recall import newest_saying, recall
from familiar_cli.store.history.rows import COLUMNS, to_row
from familiar_cli.store.history.tombstones import bury_turns, find_forgotten
from tests.support.viewers import viewer_in

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
    return [one.turn.id for one in recall(history, query, **{"viewer": OWNER, **more}).turns]


def test_the_turn_that_answers_comes_first(history) -> None:
    for day in range(4):
        for text in FILL:
            say(history, text, days=day)
    wanted = say(history, "The lighthouse keeper lost her umbrella.", days=9)
    assert found(history, "Who lost an umbrella?")[0] == wanted


def test_a_program_keeps_no_words_that_another_one_forgets(history) -> None:
    robin = Author("discord", "7", display_name="Robin")
    turn = history.append("a", "user", "A lantern, behind the stove.", author=robin)
    assert found(history, "lantern") == [turn.id]
    order = ForgetOrder.for_accounts([robin])
    with history.use(create=False) as connection, closing(HistoryStore(history.path)) as other:
        assert [*history.said(connection)] == [turn.id]
        bury_turns(other, order, find_forgotten(other, order, "", NameForms.of(["Robin"]), ()))
        assert history.said(connection) == {}
    assert found(history, "lantern") == []


def test_what_was_recalled_becomes_private_with_the_first_who_speaks_there(history) -> None:
    history.append("dm", "assistant", "Welcome to the lighthouse.")
    (before,) = recall(history, "lighthouse", viewer=OWNER).turns
    history.append("dm", "user", "Good evening.", author=Author("discord", "42", "anna"))
    after = next(one for one in recall(history, "lighthouse", viewer=OWNER).turns if not one.before)
    assert after.turn == replace(before.turn, one_to_one=Author("discord", "42"))
    assert after.turn != before.turn


def test_turns_beside_the_one_that_fits_come_with_it(history) -> None:
    say(history, "The bread was good.")
    asked = say(history, "Where did you put the lantern?")
    answer = say(history, "Behind the stove.")
    say(history, "Something else.", days=3)
    assert set(found(history, "lantern")[:3]) >= {asked, answer}


def test_a_turn_knows_what_was_said_before_it(history) -> None:
    asked = say(history, "Where did you put the lantern?")
    answer = say(history, "The lantern? Behind the stove.")
    by_id = {one.turn.id: one for one in recall(history, "lantern", viewer=OWNER).turns}
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
    left = found(
        history, "lantern", viewer=viewer_in(None, ["dm"]), leave_out=[shown], before_id=late
    )
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
    assert found(history, "lantern", viewer=viewer_in(None, ["dm"])) == [wanted]


def test_turns_that_could_not_be_read_in_time_are_counted(history) -> None:
    say(history, "The lantern is old.")
    looked = recall(history, "lantern", within_s=0.0, viewer=OWNER)
    assert (looked.turns, looked.unread) == ((), 1)
    assert recall(history, "lantern", viewer=OWNER).unread == 0


def test_a_history_that_is_not_there_has_no_past(tmp_path) -> None:
    assert recall(HistoryStore(tmp_path / "none.db"), "lantern", viewer=OWNER).turns == ()
    assert not (tmp_path / "none.db").exists()


class Near:
    """Meaning as a test wants it."""

    tokens_share = 0.0

    def __init__(self, values, share=0.5) -> None:
        self.values = values
        self.share = share

    def nearest(self, count):
        return sorted(self.values, key=lambda i: -self.values[i])[:count]

    def of(self, ids):
        return {i: self.values[i] for i in ids if i in self.values}

    def by_tokens(self, *_):
        return {}


def test_what_is_near_in_meaning_is_found_without_its_words(history) -> None:
    for day in range(4):
        say(history, FILL[day], days=day)
    wanted = say(history, "My beacon shines.", days=9)
    assert found(history, "lighthouse", near=Near({wanted: 0.8})) == [wanted]


def test_for_a_wide_question_turns_come_from_all_of_the_time(history) -> None:
    ids = [say(history, text, days=day) for day, text in enumerate(FILL)]
    history.append("a", "assistant", "How nice!", at=START)
    wide = {"wide": True, "only_people": True}
    assert sorted(found(history, "tea", **wide)) == ids
    assert sorted(found(history, "", **wide)) == ids
    days = [int((START + timedelta(days=day)).timestamp() * 1000) for day in (1, 3)]
    assert sorted(found(history, "tea", between_ms=[tuple(days)], **wide)) == ids[1:4]
    assert len(found(history, "tea", limit=2, **wide)) == 2


def test_of_a_very_long_history_turns_from_all_of_the_time_are_looked_at(
    history, monkeypatch
) -> None:
    ids = [say(history, text, days=day) for day, text in enumerate(FILL * 20)]
    monkeypatch.setattr("familiar_cli.store.history.recall.MOST_SAMPLED", 4)
    looked = found(history, "", wide=True)
    assert 4 <= len(looked) <= len(ids) // 2
    assert min(looked) < ids[30]
    assert max(looked) >= ids[90]


def test_hidden_turns_do_not_affect_which_turns_are_looked_at(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("familiar_cli.store.history.recall.MOST_SAMPLED", 4)
    stranger, anna, looked = Viewer(PrivacyRules(frozenset()), frozenset()), Author("x", "1"), []
    for hidden in (0, 7, 50):
        with closing(HistoryStore(tmp_path / f"{hidden}.db")) as made:
            for _ in range(hidden):
                made.append("dm", "user", "Zanzibar.", author=anna, at=START)
            for n in range(60):
                made.append("town", "user", f"{n}", author=Author("x", str(n % 2)), at=START)
            hits = recall(made, "", viewer=stranger, wide=True).turns
            looked.append([hit.turn.content for hit in hits])
    assert 4 <= len(looked[0]) <= 30
    assert looked == [looked[0]] * 3


def test_what_people_said_in_some_words_is_found_the_newest_first(history) -> None:
    old = say(history, "From now on, tea.")
    say(history, "Now I am on the train.", days=1)
    private = say(history, "Always lock the door.", channel="b", days=2)
    new = say(history, "ALWAYS knock, please.", days=3)
    history.append("a", "assistant", "I always do.", at=START)

    def saying(**more) -> list[int]:
        given = {"viewer": OWNER, "here": "a", "before_id": None, "limit": 9, **more}
        words = ("from now on", "always", "OR lamp")
        is_meant = re.compile("from now on|always", re.IGNORECASE).search
        turns = newest_saying(history, words, lambda text: bool(is_meant(text)), **given)
        return [turn.id for turn in turns]

    recall(history, "tea", viewer=OWNER)
    assert saying() == [new, private, old]
    assert saying(limit=1) == [new]
    assert saying(before_id=new) == [private, old]
    assert saying(viewer=viewer_in(None, {"b"})) == [new, old]
    newer = [say(history, f"Always {n}, from now on.", days=4) for n in range(60)][::-1]
    assert saying(limit=70) == [*newer[:40], new, private, old]  # the others are not indexed yet
    recall(history, "tea", viewer=OWNER)
    assert saying(limit=70) == [*newer, new, private, old]
    assert saying(limit=61) == [*newer, new]


def test_what_is_hardly_near_is_not_found(history) -> None:
    far = say(history, "My beacon shines.")
    assert found(history, "lighthouse", near=Near({far: 0.2})) == []


def test_words_and_meaning_count_about_half_each(history) -> None:
    both = say(history, "The lighthouse shines.")
    words = say(history, "The lighthouse shines.", days=2)
    meaning = say(history, "My beacon.", days=4)
    unread = say(history, "The lighthouse shines.", days=6)
    near = Near({both: 1.0, words: 0.0, meaning: 1.0})
    by_id = {
        one.turn.id: one.score
        for one in recall(history, "lighthouse", near=near, viewer=OWNER).turns
    }
    assert by_id[both] == pytest.approx(1.0)
    assert by_id[words] == pytest.approx(0.5)
    assert by_id[meaning] == pytest.approx(0.5)
    assert by_id[unread] == pytest.approx(1.0)  # nothing is known against it


def test_many_near_turns_that_may_not_be_found_hide_none_that_may(history) -> None:
    secrets = {say(history, "My beacon.", channel="dm"): 0.9 for _ in range(450)}
    wanted = say(history, "My beacon.")
    near = Near({**secrets, wanted: 0.5})
    assert found(history, "lighthouse", near=near, viewer=viewer_in(None, ["dm"])) == [wanted]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "dm"]),
            st.sampled_from(["lamp", "tea", "lamp tea"]),
            st.none() | st.floats(0, 1.2),
        ),
        max_size=20,
    ),
    st.sets(st.sampled_from(["a", "b", "dm"]), max_size=2),
    st.none() | st.integers(1, 20),
    st.tuples(st.sets(st.integers(1, 20), max_size=5), st.booleans()),
)
def test_nothing_that_is_hidden_is_heard_of(
    tmp_path_factory, said, hidden, before_id, options
) -> None:
    left_out, wide = options
    history = HistoryStore(tmp_path_factory.mktemp("h") / "history.db")
    ids = [say(history, text, channel=channel) for channel, text, _ in said]
    near = Near({i: v for i, (_, _, v) in zip(ids, said, strict=True) if v is not None})
    looked = recall(
        history,
        "lamp",
        near=near,
        viewer=viewer_in(None, hidden),
        before_id=before_id,
        leave_out=left_out,
        wide=wide,
    ).turns
    channels = {one.turn.channel_id for one in looked}
    channels |= {one.before.channel_id for one in looked if one.before}
    history.close()
    assert not channels & hidden
    assert all(0 <= one.score <= 1.2001 for one in looked)
    assert not {one.turn.id for one in looked} & left_out
    assert all(one.turn.id < (before_id or 99) for one in looked)


def test_turns_above_are_the_newest_that_may_be_found(history) -> None:
    def above() -> list[tuple[int, ...]]:
        return [one.above for one in recall(history, "lighthouse", viewer=OWNER).turns][:1]

    first, second, third = (say(history, text) for text in FILL[:3])
    say(history, "A lighthouse.")
    assert above() == [(third, second, first)]
    withdraw_turns(history, [second])
    assert above() == [(third, first)]
    restore_turns(history, [second])
    withdraw_turns(history, [4])
    say(history, "Rain.", channel="b")
    with closing(HistoryStore(history.path)) as other:
        say(other, "Fog.")
        say(other, "The lighthouse.")
    assert above() == [(6, third, second)]
