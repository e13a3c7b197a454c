"""What a turn has made due: older turns summarised, memory written, the index brought forward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from familiar_cli.actions.write_memory import write_later
from familiar_cli.errors import FamiliarError

if TYPE_CHECKING:
    from familiar_cli.context.trace import Trace
    from familiar_cli.context.turn_runner import TurnResult
    from familiar_cli.familiar import Familiar


@dataclass(frozen=True, slots=True)
class DueWork:
    """The work that has begun beside the conversation.

    Args:
        summarised_turns: How many turns have left the prompts and are being summarised.
        written_turns: From how many turns memory is being written.
        problems: What could not begin, a sentence each.
    """

    summarised_turns: int = 0
    written_turns: int = 0
    problems: tuple[str, ...] = ()


def begin_due_work(familiar: Familiar, result: TurnResult, *, stays: bool = True) -> DueWork:
    """Begin with what a turn has made due; whatever goes wrong, its reply stands.

    The work goes on in a thread of its own. `familiar.jobs.finish` waits for it, `aclose` breaks
    it off, and what was broken off is done after a later turn. An interrupted turn begins nothing.

    Args:
        familiar: Who took the turn.
        result: What came of it.
        stays: The program goes on: memory that is written gets its vectors at once. One that ends
            leaves them to a later turn, and memory is found by its words until then.
    """
    if result.interrupted:
        return DueWork()
    familiar.look_after_index()  # a second's work, which nobody need be told of
    summarised, problem = _summary(familiar, result.trace)
    written, another = _memory(familiar, stays=stays)
    familiar.jobs.start()
    return DueWork(summarised, written, tuple(p for p in (problem, another) if p))


def leave_due_work(familiar: Familiar, result: TurnResult) -> None:
    """Do none of what a turn has made due: a daemon or a later turn does it.

    Raises:
        FamiliarError: It could not be written down up to where a summary is wanted.
    """
    if not result.interrupted:
        familiar.summary_keeper.note(result.trace)


def _summary(familiar: Familiar, trace: Trace) -> tuple[int, str]:
    try:
        due = familiar.summary_keeper.look_back(trace)
    except FamiliarError as error:
        return 0, f"The summary of earlier turns is unchanged: {error}"
    return (due.turns if due else 0), ""


def _memory(familiar: Familiar, *, stays: bool) -> tuple[int, str]:
    try:
        return write_later(familiar, embeds=stays), ""
    except FamiliarError as error:
        return 0, f"Memory is unchanged: {error}"


def make_way(familiar: Familiar) -> None:
    """Let a new turn go first: stop what is under way where one model does one thing at a time.

    On a server elsewhere it goes on beside the turn. What was stopped is done after a later turn.
    """
    from familiar_cli.llm.wire import is_loopback

    slot = familiar.slot()
    if slot.preset == "local" or is_loopback(slot.base_url):
        familiar.jobs.stop()
