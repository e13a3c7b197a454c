"""Whatever machines say, in whatever order they hear of each other: they come to the same."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from familiar_cli.actions.bring.export import export_chat
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history.imports import Appender, ChatOrigin
from familiar_cli.store.history.lines import TurnName, names_of
from familiar_cli.store.history.marks import (
    restore_turns,
    select_alternative,
    supersede_turn,
    turn_statuses,
    withdraw_channel,
    withdraw_turns,
    withdrawn_channels,
)
from familiar_cli.store.history.matching import ChatPlacement, IncomingLine
from familiar_cli.store.history.rows import Turn
from familiar_cli.store.history.selection import TurnFilter, select_turns
from familiar_cli.sync.turns import new_lines, take_in
from familiar_cli.sync.turns_incoming import taken_through

NAMES = ("desk-b2", "lap-a1", "srv-c3", "tab-0d")
CHANNELS = ("cli", "side")
START = datetime(2026, 3, 1, tzinfo=UTC)
ANNA = Author("cli", "anna", None, "Anna")


class Machine:
    """One instance: its history, and its files of turns as others see them."""

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self.history = HistoryStore(root / name / "history.db")
        self.files: dict[str, bytes] = {}
        self.clock = START

    def now(self) -> datetime:
        self.clock += timedelta(seconds=7)
        return self.clock

    def say(self, channel: str, text: str) -> None:
        role, author = ("user", ANNA) if len(text) % 2 else ("assistant", None)
        last = self.history.recent(channel, 1, viewer=OWNER)
        self.history.append(
            channel,
            role,
            text,
            author=author,
            at=self.now(),
            reply_to=last[0].id if last and role == "assistant" else None,
        )

    def pick(self, number: int, channel: str | None = None) -> int:
        span = TurnFilter(OWNER, channel, everything=True)
        turns = [kept.turn.id for kept in select_turns(self.history, span)]
        return turns[number % len(turns)] if turns else 0

    def swipe(self, number: int, text: str) -> None:
        turns = self.history.recent(CHANNELS[number % 2], 9, viewer=OWNER)
        if turns:
            old = turns[number % len(turns)]
            new = Turn(0, old.channel_id, None, "assistant", text, self.now(), "text", "cli", False)
            supersede_turn(self.history, old, new)

    def bring_in(self, count: int) -> None:
        place = ChatPlacement("chat", is_new=True)
        origin = ChatOrigin("key", "plain", "chat.jsonl", "{}")
        lines = [
            IncomingLine(
                Turn(0, "chat", ANNA, "user", f"line {n}", START, "text", "import-chat", False),
                f"line {n // 2}".encode(),
                estimated=False,
                raw=f'{{"n":{n}}}',
            )
            for n in range(count)
        ]
        there = len(self.history.recent("chat", 99, viewer=OWNER))
        if lines[there:]:
            Appender(self.history, place, origin).add(lines[there:])

    def export(self, month: int = 3) -> None:
        newest = max(self.files, default="")
        at, data = START.replace(month=month), self.files.get(newest, b"")
        rel_path, added = new_lines(self.history, self.name, newest, data, at=at)
        if added:
            self.files[rel_path] = self.files.get(rel_path, b"") + added

    def hear(self, other: Machine, *, portion: float = 1.0, again: bool = False) -> None:
        for rel_path, data in sorted(other.files.items(), reverse=portion < 1):
            offset = 0 if again else taken_through(self.history, other.name, rel_path)
            end = offset + int((len(data) - offset) * portion)
            take_in(self.history, self.name, rel_path, data[offset:end], offset)

    def own_turns(self) -> list[TurnName]:
        ids = [
            kept.turn.id for kept in select_turns(self.history, TurnFilter(OWNER, everything=True))
        ]
        names = names_of(self.history, self.name, ids)
        return [name for name in names.values() if name.instance == self.name]

    def view(self) -> dict[str, object]:
        """Return all that is to be the same everywhere."""
        kept = list(select_turns(self.history, TurnFilter(OWNER, everything=True)))
        names = names_of(self.history, self.name, [k.turn.id for k in kept])
        became = turn_statuses(self.history, names)
        branches = self.history.branches()
        channels = sorted({k.turn.channel_id for k in kept} | {b.channel_id for b in branches})
        return {
            "turns": sorted((names[k.turn.id], k.turn.content, k.raw) for k in kept),
            "standing": {
                channel: [
                    (names[t.id], t.content)
                    for t in self.history.recent(channel, 999, viewer=OWNER)
                ]
                for channel in channels
            },
            "order": [names[k.turn.id] for k in select_turns(self.history, TurnFilter(OWNER))],
            "paged": [
                names[k.turn.id]
                for c in channels
                for k in select_turns(self.history, TurnFilter(OWNER, c))
            ],
            "marks": {
                names[i]: (
                    names.get(found.superseded_by),
                    found.withdrawn,
                    found.hidden,
                    [names[other] for other in found.alternatives],
                )
                for i, found in became.items()
            },
            "replies": {names[k.turn.id]: names.get(k.turn.reply_to) for k in kept},
            "branches": {(b.channel_id, b.parent, names.get(b.turn_id)) for b in branches},
            "withdrawn": withdrawn_channels(self.history),
            "speakers": {(s.author.slug, s.turns) for s in self.history.speakers(OWNER)},
            "exported": list(export_chat(self.history, None, "jsonl", familiar_name="Ada"))
            if kept
            else [],
        }


WHICH = st.integers(0, 4)  # few, so that machines often mean the same turn
SAYING = st.one_of(
    st.tuples(st.just("say"), st.sampled_from(CHANNELS), st.integers(1, 2)),
    st.tuples(st.just("import"), st.integers(1, 4)),
    st.tuples(st.just("begin"), st.sampled_from(CHANNELS)),
    st.tuples(st.just("branch"), WHICH, st.sampled_from(["b1", "b2"])),
)
MARKING = st.one_of(
    st.tuples(st.just("swipe"), WHICH),
    st.tuples(st.just("choose"), WHICH),
    st.tuples(st.just("withdraw"), WHICH),
    st.tuples(st.just("restore"), WHICH),
    st.tuples(st.just("channel"), st.sampled_from(CHANNELS), st.booleans()),
)
HEARING = st.tuples(
    st.just("hear"), st.integers(0, 3), st.sampled_from([0.4, 1.0, 1.0]), st.booleans()
)
OPS = st.one_of(SAYING, MARKING, HEARING, st.tuples(st.just("export"), st.integers(1, 6)))
STEPS = st.lists(st.tuples(st.integers(0, 3), OPS), min_size=12, max_size=40)


def listen(machines: list[Machine], who: int, other: int, portion: float, again: bool) -> None:
    me, there = machines[who % len(machines)], machines[other % len(machines)]
    if there is not me:
        there.export(4)
        me.hear(there, portion=portion, again=again)


def branch_and_say(me: Machine, text: str, which: int, name: str) -> None:
    turn = me.history.turn(me.pick(which))
    if turn:
        me.history.branch(name, turn.id)
        me.say(name, text)


DO = {
    "say": lambda me, text, channel, length: me.say(channel, text + "!" * length),
    "swipe": lambda me, text, which: me.swipe(which, text),
    "choose": lambda me, _, which: select_alternative(me.history, me.pick(which)),
    "withdraw": lambda me, _, which: withdraw_turns(me.history, [me.pick(which)]),
    "restore": lambda me, _, which: restore_turns(me.history, [me.pick(which)]),
    "branch": branch_and_say,
    "channel": lambda me, _, channel, gone: withdraw_channel(me.history, channel, withdrawn=gone),
    "import": lambda me, _, count: me.bring_in(count),
    "begin": lambda me, _, channel: me.history.begin(channel, "Hello!", at=me.now()),
    "export": lambda me, _, month: me.export(month),
}


def exchange(machines: list[Machine]) -> None:
    for machine in machines:
        machine.export(12)
    for machine in machines:
        for other in machines:
            if other is not machine:
                machine.hear(other)


def test_a_greeting_that_was_told_belongs_to_one_person_everywhere(tmp_path) -> None:
    here, there = machines = [Machine(tmp_path, name) for name in NAMES[:2]]
    there.say("side", "Good day!!")
    here.say("side", "Is somebody here")
    here.say("side", "It is me.")
    exchange(machines)
    privacy = []
    for machine in machines:
        kept = list(select_turns(machine.history, TurnFilter(OWNER, "side")))
        privacy.append({k.turn.content: k.turn.one_to_one for k in kept})
    assert privacy[0] == privacy[1]
    assert privacy[0]["Good day!!"] == Author("cli", "user")


@pytest.fixture(scope="module")
def scratch():
    root = Path(tempfile.mkdtemp())
    yield root
    shutil.rmtree(root, ignore_errors=True)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(2, 4), STEPS)
def test_all_machines_come_to_the_same(scratch, count, steps) -> None:
    root = Path(tempfile.mkdtemp(dir=scratch))
    machines = [Machine(root, name) for name in NAMES[:count]]
    machines[0].say("cli", "the beginning")
    machines[0].say("cli", "the answer")
    exchange(machines)
    for number, (who, op) in enumerate(steps):
        if op[0] == "hear":
            listen(machines, who, *op[1:])
            continue
        with suppress(FamiliarError):  # a rule said no, as it does to people
            me = machines[who % count]
            DO[op[0]](me, f"{me.name} {number}", *op[1:])
    said = {name for machine in machines for name in machine.own_turns()}
    exchange(machines)
    views = [machine.view() for machine in machines]
    for view in views[1:]:
        assert view == views[0]
    assert {name for name, _, _ in views[0]["turns"]} == said
    exchange(machines)
    for machine in machines:
        for other in machines:
            if other is not machine:
                machine.hear(other, again=True)
    assert [machine.view() for machine in machines] == views
    for machine in machines:
        machine.history.close()
    shutil.rmtree(root)
