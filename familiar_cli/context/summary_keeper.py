"""`SummaryKeeper`: has the turns that left the prompt summarised, after the reply."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import now
from familiar_cli.context.summarising import scope_of
from familiar_cli.context.types import Place
from familiar_cli.errors import FamiliarError

if TYPE_CHECKING:
    from collections.abc import Callable

    from familiar_cli.context.summarising import Summariser
    from familiar_cli.context.trace import Trace
    from familiar_cli.history.summaries import Summaries
    from familiar_cli.jobs import Jobs

SLOT: Final = "history_summary"
CLAIM_S: Final = 600.0
"""How long a process that dies can keep the others from a summary."""

RETRY_AFTER: Final = timedelta(minutes=10)
"""A summary that failed is not tried again at every turn."""


@dataclass(frozen=True, slots=True)
class Due:
    """A summary that should be brought forward: which, up to which turn, by how many turns."""

    scope: str
    through_id: int
    turns: int

    @property
    def name(self) -> str:
        """The name of the work; one at a time has it."""
        return f"{SLOT}:{self.scope}"


class SummaryKeeper:
    """Keeps the summaries up with the conversation.

    Args:
        summaries: Where they are kept.
        private: Says which channels are private.
        every: How many turns must have left the prompt; 0: nothing is ever summarised.
        summariser: Makes what brings a summary forward.
        jobs: Who does it, after the reply.
    """

    def __init__(
        self,
        summaries: Summaries,
        private: Callable[[], frozenset[str]],
        every: int,
        summariser: Callable[[], Summariser],
        jobs: Jobs,
    ) -> None:
        self._summaries = summaries
        self._private = private
        self._every = every
        self._summariser = summariser
        self._jobs = jobs
        self._holder = secrets.token_hex(8)

    def look_back(self, trace: Trace) -> Due | None:
        """Take on the work that a turn has made due, if any; nothing is done yet.

        Raises:
            FamiliarError: The history could not be read or written.
        """
        due = self._due(trace)
        if due is None:
            return None
        self._summaries.want(due.scope, due.through_id)
        if self._rests(due) or not self._jobs.add(due.name, lambda: self._refresh(due)):
            return None
        return due

    def _due(self, trace: Trace) -> Due | None:
        if not self._every or trace.turn is None:
            return None
        private = self._private()
        scope, through_id = scope_of(trace.channel_id, private), _oldest_shown(trace) - 1
        latest = self._summaries.latest(scope, private)
        after_id = latest.last_turn_id if latest else 0
        turns = self._summaries.count(scope, after_id, through_id, 10 * self._every, private)
        return Due(scope, through_id, turns) if turns >= self._every else None

    def _rests(self, due: Due) -> bool:
        failed_at = self._summaries.state(due.scope).failed_at
        return failed_at is not None and now() - failed_at < RETRY_AFTER

    async def _refresh(self, due: Due) -> None:
        if not self._claim(due):
            return  # another process is at it
        try:
            await self._summariser().refresh(
                due.scope, due.through_id, self._private(), lambda: self._claim(due)
            )
        except FamiliarError as error:
            self._summaries.fail(due.scope, str(error), now())
            raise
        finally:
            self._summaries.release(due.name, self._holder)

    def _claim(self, due: Due) -> bool:
        return self._summaries.claim(due.name, self._holder, now(), CLAIM_S)


def _oldest_shown(trace: Trace) -> int:
    """Return the oldest turn that the prompt showed; what was said now, if it showed none."""
    assert trace.turn is not None
    shown = (
        piece.turn_id
        for piece in trace.contributions
        if piece.kept and piece.turn_id is not None and piece.place is Place.chat
    )
    return min(shown, default=trace.turn)
