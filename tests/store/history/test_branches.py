"""A branch has the past of its parent up to where it left, without copies."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from familiar_cli.base.errors import ConflictError, NotFoundError, RefusedError
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER, Viewer, channel_scope
from familiar_cli.store.history import HistoryStore, marks
from familiar_cli.store.history.events import Branch
from familiar_cli.store.history.recall import recall
from familiar_cli.store.history.summaries import PUBLIC, Summaries, Summary
from tests.store.history.test_marks import other, words
from tests.support.viewers import rules_of, viewer_in

ANNA = Author("discord", "1", display_name="Anna")
BEN = Author("discord", "2", display_name="Ben")
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path):
    with closing(HistoryStore(tmp_path / "history.db")) as opened:
        for text in ("one", "two", "three", "four"):
            opened.append("main", "user", text, author=ANNA)
        yield opened


def say(store, channel, *texts, author=ANNA) -> None:
    for text in texts:
        store.append(channel, "user", text, author=author)


def test_a_branch_has_the_past_of_its_parent_and_neither_has_what_follows_in_the_other(store):
    made = store.branch("if", 2)
    say(store, "if", "else")
    say(store, "main", "five")

    assert made == Branch("if", "main", 2, 2, is_new=True)
    assert words(store.recent("if", 9, viewer=OWNER)) == ["one", "two", "else"]
    assert words(store.recent("if", 2, viewer=OWNER)) == ["two", "else"]
    assert words(store.recent("main", 9, viewer=OWNER)) == ["one", "two", "three", "four", "five"]
    assert [branch.channel_id for branch in store.branches()] == ["if"]


def test_a_branch_of_a_branch_may_leave_before_the_first_one_did(store) -> None:
    store.branch("b", 3)
    say(store, "b", "b1")
    store.branch("c", 5, "b")
    store.branch("d", 1, "c")
    say(store, "d", "d1")

    assert words(store.recent("c", 9, viewer=OWNER)) == ["one", "two", "three", "b1"]
    assert words(store.recent("d", 9, viewer=OWNER)) == ["one", "d1"]
    assert store.family("main") == {"main", "b", "c", "d"} == store.family("d")


def test_the_same_branch_once_more_changes_nothing(store) -> None:
    store.branch("if", 2)
    say(store, "if", "else")
    assert not store.branch("if", 2).is_new
    with pytest.raises(ConflictError, match="exists already"):
        store.branch("if", 3)
    with pytest.raises(ConflictError, match="exists already"):
        store.branch("main", 2)


def test_a_branch_leaves_at_a_turn_of_its_parent_that_stands(store) -> None:
    say(store, "other", "elsewhere")
    marks.withdraw_turns(store, [2])
    with pytest.raises(NotFoundError, match="no turn 99"):
        store.branch("if", 99)
    with pytest.raises(NotFoundError, match="not in channel"):
        store.branch("if", 1, "other")
    with pytest.raises(RefusedError, match="withdrawn"):
        store.branch("if", 2)
    assert store.branches() == []


def test_what_is_replaced_or_withdrawn_in_the_shared_past_is_so_in_both(store) -> None:
    store.branch("if", 3)
    say(store, "if", "else")
    two = store.turn(2)
    marks.supersede_turn(store, two, other(two, "zwei"))
    marks.withdraw_turns(store, [1])
    assert words(store.recent("if", 9, viewer=OWNER)) == ["zwei", "three", "else"]
    assert words(store.recent("main", 9, viewer=OWNER)) == ["zwei", "three", "four"]


def test_another_reply_in_a_fresh_branch_leaves_that_of_the_parent(store) -> None:
    reply = store.append("main", "assistant", "reply", reply_to=4)
    store.branch("if", reply.id)
    summaries = Summaries(store)
    summaries.keep(Summary("if", reply.id, "all", NOON, "m"), {"main"})

    new = other(reply, "better")
    marks.supersede_turn(store, reply, replace(new, channel_id="if"))

    assert words(store.recent("if", 2, viewer=OWNER)) == ["four", "better"]
    assert words(store.recent("main", 2, viewer=OWNER)) == ["four", "reply"]
    assert summaries.latest("if", rules_of()) is None
    say(store, "main", "five")
    say(store, "if", "sechs")
    with pytest.raises(RefusedError, match="not the last one"):
        marks.supersede_turn(store, store.turn(4), replace(new, channel_id="if"))


def test_people_of_the_shared_past_are_known_in_a_branch_and_later_ones_are_not(store) -> None:
    store.branch("if", 2)
    say(store, "main", "I am new", author=BEN)
    assert store.recent_distinct_authors("if", 9, viewer=OWNER) == [ANNA]
    say(store, "if", "So am I", author=BEN)
    assert store.recent_distinct_authors("if", 9, viewer=OWNER) == [BEN, ANNA]


def test_a_branch_goes_on_from_the_summary_of_its_parent_before_it_left(store) -> None:
    summaries = Summaries(store)
    for last in (2, 4):
        summaries.keep(Summary(PUBLIC, last, f"up to {last}", NOON, "m"), {"main", "x"})
    store.branch("if", 3)
    say(store, "if", "else")

    assert summaries.latest("if", rules_of()).text == "up to 2"
    assert summaries.scope_of("if", rules_of()) == "if"
    assert summaries.scopes_in("if", rules_of()) == ["if"]
    assert summaries.scopes_in("if", rules_of("main", "if")) == [PUBLIC, "if"]
    assert words(summaries.turns("if", 2, 9, 9, rules_of())) == ["three", "else"]
    assert words(summaries.turns(PUBLIC, 2, 9, 9, rules_of())) == ["three", "four"]
    assert summaries.latest("if", rules_of("x")) is None


def test_a_private_parent_is_heard_of_in_its_branch_as_far_as_they_share_it(store) -> None:
    store.branch("if", 2)
    say(store, "away", "one two three")
    family = Viewer(rules_of("main", "if"), frozenset({channel_scope("main"), channel_scope("if")}))
    found = recall(store, "one two three four", here="if", viewer=family)
    assert sorted(words(hit.turn for hit in found.turns)) == ["one", "one two three", "two"]
    found = recall(
        store, "one two three four", here="away", viewer=viewer_in("away", ["main", "if"])
    )
    assert words(hit.turn for hit in found.turns) == ["one two three"]


def test_no_greeting_opens_a_branch(store) -> None:
    store.branch("if", 2)
    assert store.begin("if", "Hello") is None


def test_the_database_refuses_to_change_or_delete_a_branch(store) -> None:
    store.branch("if", 2)
    for sql in ("UPDATE events SET turn_id = 0", "DELETE FROM events"):
        with store.use(create=True) as connection, pytest.raises(sqlite3.IntegrityError):
            connection.execute(sql)
