"""What is done after a reply was printed, and how a person hears of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.text import counted, one_line

if TYPE_CHECKING:
    from familiar_cli.context.turn import TurnResult
    from familiar_cli.familiar import Familiar
    from familiar_cli.jobs import Drained
    from familiar_cli.ui.emit import Output


_STAYS: Final = {
    "summary": "The summary of earlier turns is unchanged",
    "memory": "Memory is unchanged",
    "index": "The index is unchanged",
}
_DOING: Final = {
    "summary": "summarising earlier turns",
    "memory": "writing memory",
    "index": "indexing memory",
}
_REASON_CHARS: Final = 120


def begin(out: Output, familiar: Familiar, result: TurnResult, *, stays: bool = False) -> None:
    """Begin with what a turn has made due, and tell of it."""
    from familiar_cli.actions.write_memory import begin_due_work

    work = begin_due_work(familiar, result, stays=stays)
    for problem in work.problems:
        out.warn(problem)
    if turns := work.summarised_turns:
        out.note(f"Summarising {turns} earlier turns; Ctrl-C postpones that.")
    if turns := work.written_turns:
        out.note(f"Writing memory from {turns} turns; Ctrl-C postpones that.")


class BackgroundNotices:
    """The work beside a conversation: begun after a turn, never waited for, told of in few words.

    Args:
        out: Where failures are told.
        familiar: Whose work it is.
    """

    def __init__(self, out: Output, familiar: Familiar) -> None:
        self._out = out
        self._familiar = familiar
        self._words: dict[str, str] = {}

    def begin(self, result: TurnResult) -> None:
        """Begin with what a turn has made due."""
        from familiar_cli.actions.write_memory import begin_due_work

        work = begin_due_work(self._familiar, result)
        for problem in work.problems:
            self._out.warn(problem)
        if turns := work.summarised_turns:
            self._words["summary"] = f"summarising {counted(turns, 'earlier turn')}"
        if turns := work.written_turns:
            self._words["memory"] = f"writing memory from {counted(turns, 'turn')}"

    def make_way(self) -> None:
        """Let a new turn go first."""
        from familiar_cli.actions.write_memory import make_way

        make_way(self._familiar)

    def status(self) -> str:
        """Say what is under way, and tell of what has failed since the last time."""
        _tell_failures(self._out, self._familiar.jobs.ended())
        return self._under_way()

    def leave(self) -> None:
        """Wait for what is under way, aloud; Ctrl-C breaks it off."""
        _tell_failures(self._out, self._familiar.jobs.ended())
        words = self._under_way()
        if words:
            self._out.note(f"{words.capitalize()}; Ctrl-C postpones that.")
        finish(self._out, self._familiar)

    def _under_way(self) -> str:
        kinds = dict.fromkeys(map(_kind, self._familiar.jobs.names))
        return " · ".join(self._words.get(kind, _DOING[kind]) for kind in kinds)


def leave(out: Output, familiar: Familiar, result: TurnResult) -> None:
    """Leave what a turn has made due to a daemon or a later turn."""
    from familiar_cli.actions.write_memory import leave_due_work
    from familiar_cli.errors import FamiliarError

    try:
        leave_due_work(familiar, result)
    except FamiliarError as error:
        out.warn(f"{_STAYS['summary']} as it is: {error}")


def finish(out: Output, familiar: Familiar) -> None:
    """Wait for the work after a reply, and tell what was not done; Ctrl-C breaks it off."""
    limit_s = familiar.config.context.jobs_limit_s
    try:
        _tell(out, familiar.jobs.drain(limit_s), f"took more than {limit_s:g} s")
    except KeyboardInterrupt:
        _tell(out, familiar.jobs.cancel(), "was interrupted")


def _tell(out: Output, drained: Drained, why: str) -> None:
    _tell_failures(out, drained)
    if any(_kind(name) == "summary" for name in drained.cancelled):
        out.note(f"The summary {why}; a later turn continues it.")
    if any(_kind(name) == "memory" for name in drained.cancelled):
        out.note(f"Writing memory {why}; `familiar write-memory` continues it.")


def _tell_failures(out: Output, drained: Drained) -> None:
    for name, reason in drained.failed:
        told = one_line(reason, _REASON_CHARS).rstrip(".")
        out.warn(f"{_STAYS[_kind(name)]}: {told}. Details: `familiar {_details(name)}`.")


def _details(job: str) -> str:
    return "index status" if _kind(job) == "index" else "status"


def _kind(job: str) -> str:
    from familiar_cli.actions.write_memory import WRITER_SLOT
    from familiar_cli.familiar import INDEX_JOB

    return {WRITER_SLOT: "memory", INDEX_JOB: "index"}.get(job, "summary")
