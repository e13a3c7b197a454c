"""Turns are replaced and withdrawn by marks; readers get what stands, where it stands."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from familiar_cli.actions.bring.export import export_chat
from familiar_cli.base.errors import NotFoundError, RefusedError
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.context.providers.history import HistoryProvider
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history import marks as standing
from familiar_cli.store.history.marks import TurnStatus
from familiar_cli.store.history.recall import recall, search
from familiar_cli.store.history.rows import Turn
from familiar_cli.store.history.selection import (
    TurnFilter,
    newest_turns,
    select_turns,
    turns_around,
)
from familiar_cli.store.history.statistics import gather_statistics
from familiar_cli.store.history.summaries import PUBLIC, Summaries, Summary
from tests.context.support import request
from tests.support.viewers import rules_of

ANNA = Author("discord", "1", display_name="Anna")
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path):
    with closing(HistoryStore(tmp_path / "history.db")) as opened:
        yield opened


def say(store, *texts, channel="cli", author=ANNA) -> list[Turn]:
    role = "user" if author else "assistant"
    return [store.append(channel, role, text, author=author) for text in texts]


def other(turn: Turn, text: str) -> Turn:
    return Turn(0, turn.channel_id, turn.author, turn.role, text, turn.at, "text", "edit", False)


def words(turns) -> list[str]:
    return [turn.content for turn in turns]


def test_a_turn_that_takes_the_place_of_another_stands_where_that_one_did(store) -> None:
    one, two, _three = say(store, "one", "two", "three")

    new = standing.supersede_turn(store, two, other(two, "zwei"))

    assert words(store.recent("cli", 9, viewer=OWNER)) == ["one", "zwei", "three"]
    assert words(store.recent("cli", 2, viewer=OWNER)) == ["zwei", "three"]
    assert words(store.recent("cli", 1, viewer=OWNER)) == ["three"]
    assert words(store.recent("cli", 9, before_id=3, viewer=OWNER)) == ["one", "zwei"]
    assert words(k.turn for k in turns_around(store, one, 1, 1, viewer=OWNER)) == ["one", "zwei"]
    assert words(k.turn for k in turns_around(store, new, 1, 1, viewer=OWNER)) == [
        "one",
        "zwei",
        "three",
    ]
    assert new.place == two.id
    assert store.turn(new.id) == new


def test_what_was_replaced_is_kept_and_shown_on_request(store) -> None:
    (one,) = say(store, "one")
    new = standing.supersede_turn(store, one, other(one, "eins"))

    assert standing.turn_statuses(store, [1, 2]) == {
        one.id: TurnStatus(superseded_by=new.id, alternatives=(1, 2)),
        new.id: TurnStatus(alternatives=(1, 2)),
    }
    assert words(k.turn for k in select_turns(store, TurnFilter(OWNER))) == ["eins"]
    assert words(k.turn for k in select_turns(store, TurnFilter(OWNER, everything=True))) == [
        "one",
        "eins",
    ]
    assert [h.turn.content for h in search(store, "one", TurnFilter(OWNER))] == []
    assert [h.turn.content for h in search(store, "one", TurnFilter(OWNER, everything=True))] == [
        "one"
    ]
    kept = store.turn(one.id)
    assert kept is not None
    assert not kept.stands


def test_an_earlier_reply_can_be_chosen_again(store) -> None:
    (one,) = say(store, "one", author=None)
    two = standing.supersede_turn(store, one, other(one, "two"))
    three = standing.supersede_turn(store, two, other(two, "three"))

    assert standing.select_alternative(store, one.id) == (three.id,)
    assert words(store.recent("cli", 9, viewer=OWNER)) == ["one"]
    assert standing.select_alternative(store, two.id) == (one.id,)
    assert words(store.recent("cli", 9, viewer=OWNER)) == ["two"]
    assert standing.select_alternative(store, two.id) == ()
    assert {s.alternatives for s in standing.turn_statuses(store, [1, 2, 3]).values()} == {
        (1, 2, 3)
    }


def test_what_is_withdrawn_can_be_restored(store) -> None:
    say(store, "one", "two")

    assert standing.withdraw_turns(store, [1, 2]) == (1, 2)
    assert standing.withdraw_turns(store, [1]) == ()
    assert store.recent("cli", 9, viewer=OWNER) == []
    assert store.speakers(OWNER) == []
    assert store.recent_distinct_authors("cli", 9, viewer=OWNER) == []
    assert standing.restore_turns(store, [2]) == (2,)
    assert words(store.recent("cli", 9, viewer=OWNER)) == ["two"]
    assert [(s.author, s.turns) for s in store.speakers(OWNER)] == [(ANNA, 1)]


def test_one_wrong_number_withdraws_nothing(store) -> None:
    say(store, "one")
    with pytest.raises(NotFoundError):
        standing.withdraw_turns(store, [1, 99])
    assert words(store.recent("cli", 9, viewer=OWNER)) == ["one"]


def test_a_turn_that_was_replaced_is_not_withdrawn_in_place_of_its_successor(store) -> None:
    (one,) = say(store, "one")
    standing.supersede_turn(store, one, other(one, "two"))
    with pytest.raises(RefusedError, match="turn 1 was replaced by turn 2".capitalize()):
        standing.withdraw_turns(store, [1])
    assert words(store.recent("cli", 9, viewer=OWNER)) == ["two"]
    assert standing.withdraw_turns(store, [1, 2]) == (1, 2)


def test_a_turn_that_does_not_stand_is_not_replaced_again(store) -> None:
    (one,) = say(store, "one")
    standing.supersede_turn(store, one, other(one, "two"))
    with pytest.raises(RefusedError):
        standing.supersede_turn(store, one, other(one, "three"))
    assert (store.count(), store.count(everything=True)) == (1, 2)
    standing.withdraw_turns(store, [2])
    with pytest.raises(RefusedError, match="withdrawn"):
        standing.select_alternative(store, 2)


def test_only_a_turn_with_alternatives_can_be_chosen(store) -> None:
    say(store, "one")
    with pytest.raises(RefusedError, match="no alternatives"):
        standing.select_alternative(store, 1)
    with pytest.raises(NotFoundError):
        standing.select_alternative(store, 2)


def test_a_channel_is_withdrawn_and_restored_as_a_whole(store) -> None:
    say(store, "here")
    say(store, "there", channel="other")

    assert standing.withdraw_channel(store, "other")
    assert not standing.withdraw_channel(store, "other")
    assert words(store.since(0, 9)) == ["here"]
    assert words(h.turn for h in search(store, "there here", TurnFilter(OWNER))) == ["here"]
    assert standing.withdrawn_channels(store) == {"other"}
    assert standing.turn_statuses(store, [2])[2].withdrawn
    assert [s.turns for s in store.speakers(OWNER)] == [1]
    assert standing.withdraw_channel(store, "other", withdrawn=False)
    assert words(store.since(0, 9)) == ["here", "there"]
    with pytest.raises(NotFoundError):
        standing.withdraw_channel(store, "nowhere")


def test_the_database_refuses_to_change_or_delete_a_mark(store) -> None:
    say(store, "one")
    standing.withdraw_turns(store, [1])
    for sql in ("UPDATE events SET value = 0", "DELETE FROM events", "DELETE FROM turns"):
        with store.use(create=True) as connection, pytest.raises(sqlite3.IntegrityError):
            connection.execute(sql)


def test_summaries_that_rest_on_a_withdrawn_turn_are_made_again(store) -> None:
    say(store, *map(str, range(6)))
    summaries = Summaries(store)
    for last in (2, 4):
        summaries.keep(Summary(PUBLIC, last, f"up to {last}", NOON, "m"), {"cli"})

    standing.withdraw_turns(store, [3])

    latest = summaries.latest(PUBLIC, rules_of())
    assert latest is not None
    assert latest.last_turn_id == 2
    assert [turn.id for turn in summaries.turns(PUBLIC, 2, 6, 9, rules_of())] == [4, 5, 6]


@pytest.mark.parametrize("withdrawn", [True, False])
def test_summaries_that_rest_on_a_channel_are_made_again(store, withdrawn) -> None:
    say(store, "one")
    say(store, "secret", channel="other")
    say(store, "three")
    if not withdrawn:
        standing.withdraw_channel(store, "other")
    summaries = Summaries(store)
    for last in (1, 3):
        summaries.keep(Summary(PUBLIC, last, f"up to {last}", NOON, "m"), {"cli", "other"})

    standing.withdraw_channel(store, "other", withdrawn=withdrawn)

    latest = summaries.latest(PUBLIC, rules_of())
    assert latest is not None
    assert latest.last_turn_id == 1
    wanted = ["three"] if withdrawn else ["secret", "three"]
    assert words(summaries.turns(PUBLIC, 1, 3, 9, rules_of())) == wanted


def test_what_is_withdrawn_while_its_channel_is_out_stays_out(store) -> None:
    say(store, "one", "two", "three")
    standing.withdraw_channel(store, "cli")
    standing.withdraw_turns(store, [3])
    standing.withdraw_channel(store, "cli", withdrawn=False)
    assert [(s.author, s.turns) for s in store.speakers(OWNER)] == [(ANNA, 2)]
    assert words(store.recent("cli", 9, viewer=OWNER)) == ["one", "two"]


OPS = st.one_of(
    st.tuples(st.just("say"), st.integers(0, 5), st.sampled_from([1, 2, None])),
    st.tuples(st.just("branch"), st.integers(0, 30), st.integers(0, 5)),
    st.tuples(st.sampled_from(["supersede", "withdraw", "restore", "choose"]), st.integers(0, 30)),
    st.tuples(st.just("retell"), st.integers(0, 5)),
    st.tuples(st.sampled_from(["leave", "return"]), st.integers(0, 5)),
)


@given(st.lists(OPS, max_size=30))
def test_no_reader_finds_what_was_replaced_or_withdrawn(tmp_path_factory, operations) -> None:
    path = tmp_path_factory.mktemp("marks") / "history.db"
    with closing(HistoryStore(path)) as store:
        expected = _Model()
        for operation in operations:
            expected.apply(store, *operation)
        _check(store, expected)


def _check(store: HistoryStore, model: _Model) -> None:
    standing_ids = [turn.id for turn in model.standing()]
    assert [k.turn.id for k in select_turns(store, TurnFilter(OWNER))] == standing_ids
    assert sorted(turn.id for turn in store.since(0, 99)) == sorted(standing_ids)
    assert {
        k.turn.id for k in select_turns(store, TurnFilter(OWNER, everything=True))
    } == model.turns.keys()
    for channel in model.channels:
        _check_out(store, channel, [turn.id for turn in model.past(channel)])
        _check_past(store, channel, [turn.id for turn in model.past(channel)])
        heard = {turn.id for turn in model.heard(channel)}
        recalled = recall(store, "word", here=channel, limit=99, viewer=OWNER).turns
        assert {hit.turn.id for hit in recalled} == heard
        assert {hit.before.id for hit in recalled if hit.before} <= heard
    public = [turn.id for turn in model.standing() if turn.channel_id not in model.forks]
    assert [turn.id for turn in Summaries(store).turns(PUBLIC, 0, 99, 99, rules_of())] == public
    assert Summaries(store).count(PUBLIC, 0, 99, 99, rules_of()) == len(public)
    assert {h.turn.id for h in search(store, "word", TurnFilter(OWNER), limit=99)} == set(
        standing_ids
    )
    recalled = {hit.turn.id for hit in recall(store, "word", limit=99, viewer=OWNER).turns}
    assert recalled == set(standing_ids)
    counted = gather_statistics(store, len, viewer=OWNER)
    assert counted.turns == len(standing_ids)
    assert sum(c.turns for c in counted.channels) == len(standing_ids)
    who = [turn.author for turn in model.standing() if turn.author]
    assert {s.author: s.turns for s in store.speakers(OWNER)} == {a: who.count(a) for a in set(who)}
    assert [turn.id for turn in store.after(0, 99) if turn.stands] == sorted(standing_ids)


def _check_out(store: HistoryStore, channel: str, here: list[int]) -> None:
    """Look at what leaves the history: a prompt, and an export."""
    pieces = asyncio.run(
        HistoryProvider(store, recent_turns=99).contribute(request(channel_id=channel))
    )
    assert sorted(piece.turn_id for piece in pieces) == sorted(here)
    if here:
        for chat_format in ("jsonl", "sillytavern"):
            lines = list(export_chat(store, channel, chat_format, familiar_name="Ada"))
            said = [line.get("content") or line["mes"] for line in map(json.loads, lines[1:])]
            assert said == [store.turn(turn_id).content for turn_id in here]


def _check_past(store: HistoryStore, channel: str, here: list[int]) -> None:
    for most in (0, 1, 3, 99):
        tail = here[-most:] if most else []
        assert [turn.id for turn in store.recent(channel, most, viewer=OWNER)] == tail
        assert [k.turn.id for k in newest_turns(store, TurnFilter(OWNER, channel), most)] == tail
    assert [k.turn.id for k in select_turns(store, TurnFilter(OWNER, channel))] == here
    summaries = Summaries(store)
    assert [turn.id for turn in summaries.turns(channel, 0, 99, 99, rules_of(channel))] == here
    assert summaries.count(channel, 0, 99, 99, rules_of(channel)) == len(here)
    found = search(store, "word", TurnFilter(OWNER, channel), limit=99)
    assert {hit.turn.id for hit in found} == set(here)
    recalled = recall(store, "word", channel_id=channel, limit=99, viewer=OWNER).turns
    assert {hit.turn.id for hit in recalled} == set(here)
    assert {hit.before.id for hit in recalled if hit.before} <= set(here)


class _Model:
    """What should come of the marks and the branches, kept in plain sets."""

    def __init__(self) -> None:
        self.channels = ["a", "b"]
        self.forks: dict[str, tuple[str, int]] = {}
        self.turns: dict[int, Turn] = {}
        self.places: dict[int, int] = {}
        self.superseded: set[int] = set()
        self.withdrawn: set[int] = set()
        self.gone: set[str] = set()

    def standing(self) -> list[Turn]:
        kept = [t for i, t in self.turns.items() if i not in self.superseded | self.withdrawn]
        here = [turn for turn in kept if turn.channel_id not in self.gone]
        return sorted(here, key=lambda turn: self.places[turn.id])

    def past(self, channel: str) -> list[Turn]:
        """Return what stands in the past of a channel."""
        own = [turn for turn in self.standing() if turn.channel_id == channel]
        if channel not in self.forks:
            return own
        parent, place = self.forks[channel]
        return [*(t for t in self.past(parent) if self.places[t.id] <= place), *own]

    def root(self, channel: str) -> str:
        return self.root(self.forks[channel][0]) if channel in self.forks else channel

    def heard(self, channel: str) -> list[Turn]:
        root = self.root(channel)
        others = [t for t in self.standing() if self.root(t.channel_id) != root]
        return [*self.past(channel), *others]

    def apply(self, store: HistoryStore, what: str, *how) -> None:
        if what in {"say", "leave", "return", "retell"}:
            how = (self.channels[how[0] % len(self.channels)], *how[1:])
        if what == "branch":
            self._branch(store, *how)
        elif what == "retell":
            self._retell(store, *how)
        elif what == "say":
            channel, who = how
            author = Author("x", str(who)) if who else None
            role = "user" if author else "assistant"
            at = NOON + timedelta(minutes=len(self.turns))
            turn = store.append(channel, role, f"word {len(self.turns)}", author=author, at=at)
            self._keep(turn, turn.id)
        elif what in {"leave", "return"}:
            (channel,) = how
            if any(turn.channel_id == channel for turn in self.turns.values()):
                standing.withdraw_channel(store, channel, withdrawn=what == "leave")
                (self.gone.add if what == "leave" else self.gone.discard)(channel)
        elif self.turns:
            self._mark(store, what, self.turns[1 + how[0] % len(self.turns)])

    def _mark(self, store: HistoryStore, what: str, turn: Turn) -> None:
        if what == "withdraw" and turn.id in self.superseded - self._places_without_one():
            with pytest.raises(RefusedError, match="was replaced by"):
                standing.withdraw_turns(store, [turn.id])
        elif what == "withdraw":
            standing.withdraw_turns(store, [turn.id])
            self.withdrawn.add(turn.id)
        elif what == "restore":
            standing.restore_turns(store, [turn.id])
            self.withdrawn.discard(turn.id)
        elif what == "supersede":
            self._supersede(store, turn)
        else:
            self._choose(store, turn)

    def _places_without_one(self) -> set[int]:
        """Return the turns at places where none stands."""
        gone = {turn_id for turn_id, turn in self.turns.items() if turn.channel_id in self.gone}
        out = self.superseded | self.withdrawn | gone
        held = {place for turn_id, place in self.places.items() if turn_id not in out}
        return {turn_id for turn_id, place in self.places.items() if place not in held}

    def _branch(self, store: HistoryStore, number: int, channel: int) -> None:
        parent = self.channels[channel % len(self.channels)]
        past = self.past(parent)
        if past and len(self.channels) < 6:
            turn, name = past[number % len(past)], f"c{len(self.channels)}"
            store.branch(name, turn.id, parent)
            self.channels.append(name)
            self.forks[name] = (parent, self.places[turn.id])

    def _retell(self, store: HistoryStore, channel: str) -> None:
        """Replace the last turn of a branch, which is its parent's as long as it has no own."""
        past = self.past(channel)
        if not past or past[-1].channel_id == channel:
            return
        last = store.turn(past[-1].id)
        assert last is not None
        new = standing.supersede_turn(store, last, replace(other(last, "word"), channel_id=channel))
        self._keep(new, new.id)
        parent, _ = self.forks[channel]
        self.forks[channel] = (parent, self.places[past[-2].id] if len(past) > 1 else 0)

    def _supersede(self, store: HistoryStore, turn: Turn) -> None:
        if turn not in self.standing():
            with pytest.raises(RefusedError):
                standing.supersede_turn(store, turn, other(turn, "word"))
            return
        current = store.turn(turn.id)
        assert current is not None
        new = standing.supersede_turn(store, current, other(turn, "word again"))
        self.superseded.add(turn.id)
        self._keep(new, self.places[turn.id])

    def _choose(self, store: HistoryStore, turn: Turn) -> None:
        group = {i for i, place in self.places.items() if place == self.places[turn.id]}
        if len(group) == 1 or turn.id in self.withdrawn:
            with pytest.raises(RefusedError):
                standing.select_alternative(store, turn.id)
            return
        standing.select_alternative(store, turn.id)
        self.superseded |= group
        self.superseded.discard(turn.id)

    def _keep(self, turn: Turn, place: int) -> None:
        self.turns[turn.id] = turn
        self.places[turn.id] = place
