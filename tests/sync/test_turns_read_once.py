"""Each turn is made into memory on one machine: the one that wrote it down."""

from __future__ import annotations

import pytest

from familiar_cli.sync import turns_outgoing as outgoing
from familiar_cli.sync.turns_incoming import read_there
from tests.sync.test_turn_laws import Machine, exchange


@pytest.fixture
def pair(tmp_path):
    """Two machines that said three turns each, at the same time, and know of them all."""
    machines = [Machine(tmp_path, name) for name in ("lap-a1", "desk-b2")]
    for machine in machines:
        for number in range(3):
            machine.say("cli", f"{machine.name} {number}")
    exchange(machines)
    yield machines
    for machine in machines:
        machine.history.close()


def unread(machine: Machine) -> list[str]:
    return [turn.content for turn in outgoing.unread_turns(machine.history)]


def test_a_writer_reads_what_was_written_down_on_its_machine(pair) -> None:
    lap, desk = pair
    assert unread(lap) == ["lap-a1 0", "lap-a1 1", "lap-a1 2"]
    assert unread(desk) == ["desk-b2 0", "desk-b2 1", "desk-b2 2"]
    assert lap.history.unsummarised_count() == 3
    assert len(lap.history.unsummarised_times()) == 3


def test_what_comes_from_elsewhere_leaves_what_is_unread_here(pair) -> None:
    lap, desk = pair
    for number in range(3):
        desk.say("cli", f"later {number}")
    desk.export()
    lap.hear(desk)
    lap.say("cli", "mine")
    outgoing.mark_read(lap.history, [turn.id for turn in outgoing.unread_turns(lap.history)][-1:])
    assert unread(lap) == ["lap-a1 0", "lap-a1 1", "lap-a1 2"]
    assert lap.history.unsummarised_count() == 3


def test_turns_of_an_instance_that_never_comes_back_are_read_by_who_forgets_it(pair) -> None:
    lap, desk = pair
    outgoing.mark_read(desk.history, [next(outgoing.unread_turns(desk.history)).id])
    desk.say("cli", "last words")
    desk.export()
    lap.hear(desk)
    handed = outgoing.hand_over(lap.history, desk.name, read_there(lap.history, desk.name))
    assert handed == 3
    assert sorted(unread(lap)) == sorted(
        ["lap-a1 0", "lap-a1 1", "lap-a1 2", "desk-b2 1", "desk-b2 2", "last words"]
    )
    assert outgoing.hand_over(lap.history, desk.name, ()) == 0
    outgoing.mark_read(lap.history, [turn.id for turn in outgoing.unread_turns(lap.history)])
    assert unread(lap) == []
    assert lap.history.unsummarised_count() == 0


def test_what_comes_from_an_instance_that_was_forgotten_is_read_until_it_is_back(pair) -> None:
    lap, desk = pair
    outgoing.hand_over(lap.history, desk.name, [(1, 3)])
    outgoing.mark_read(lap.history, [turn.id for turn in outgoing.unread_turns(lap.history)])
    desk.say("cli", "a sign of life")
    desk.export()
    lap.hear(desk)
    assert unread(lap) == ["a sign of life"]
    outgoing.hand_back(lap.history, desk.name)
    assert unread(lap) == []
