"""`SummaryKeeper`: has the turns that left the prompt summarised, after the reply."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.context.types import Place
from familiar_cli.errors import LockedError
from familiar_cli.history.summaries import PUBLIC

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from familiar_cli.context.summarising import Summariser
    from familiar_cli.context.trace import Trace
    from familiar_cli.history.summaries import Summaries
    from familiar_cli.jobs import Jobs
    from familiar_cli.passes.background import Pass
    from familiar_cli.visibility import PrivacyRules

SLOT: Final = "history_summary"


@dataclass(frozen=True, slots=True)
class DueSummary:
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
        rules: Says what is private now.
        every: How many turns must have left the prompt; 0: nothing is ever summarised.
        summariser: Makes what brings a summary forward.
        jobs: Who does it, after the reply.
        background: Gives the background pass for a scope.
    """

    def __init__(
        self,
        summaries: Summaries,
        rules: Callable[[], PrivacyRules],
        every: int,
        summariser: Callable[[], Summariser],
        jobs: Jobs,
        *,
        background: Callable[[str], Pass],
    ) -> None:
        self._summaries = summaries
        self._rules = rules
        self._every = every
        self._summariser = summariser
        self._background = background
        self._jobs = jobs

    def look_back(self, trace: Trace) -> DueSummary | None:
        """Take on the work that a turn has made due, if any; nothing is done yet.

        Raises:
            FamiliarError: The history could not be read or written.
        """
        due = self._due(trace)
        if due is None:
            return None
        self._summaries.want(due.scope, due.through_id)
        if self._background(due.scope).retry_in_s:
            return None
        if not self._jobs.add(due.name, lambda: self._refresh(due)):
            return None
        return due

    def note(self, trace: Trace) -> None:
        """Write down up to where a turn wants a summary, and leave the work to `catch_up`.

        Raises:
            FamiliarError: As `look_back`.
        """
        due = self._due(trace)
        if due is not None:
            self._summaries.want(due.scope, due.through_id)

    async def catch_up(self) -> None:
        """Bring every summary forward to where turns wanted it.

        Raises:
            FamiliarError: One could not be made; it is retried later.
        """
        rules = self._rules()
        for scope in self._summaries.scopes():
            latest = self._summaries.latest(scope, rules)
            after_id = latest.last_turn_id if latest else 0
            through_id = self._summaries.wanted(scope)
            is_read = scope in {PUBLIC, self._summaries.scope_of(scope, rules)}
            is_read = is_read and not self._background(scope).retry_in_s
            if is_read and self._summaries.count(scope, after_id, through_id, 1, rules):
                await self._refresh(DueSummary(scope, through_id, 0))

    def _due(self, trace: Trace) -> DueSummary | None:
        if not self._every or trace.turn is None:
            return None
        rules = self._rules()
        scope = self._summaries.scope_of(trace.channel_id, rules)
        through_id = self._summaries.first_place(_shown(trace)) - 1
        latest = self._summaries.latest(scope, rules)
        after_id = latest.last_turn_id if latest else 0
        turns = self._summaries.count(scope, after_id, through_id, 10 * self._every, rules)
        return DueSummary(scope, through_id, turns) if turns >= self._every else None

    async def _refresh(self, due: DueSummary) -> None:
        def work() -> Awaitable[int]:
            return self._summariser().refresh(due.scope, due.through_id, self._rules())

        with suppress(LockedError):  # another process is at it
            await self._background(due.scope).run(work, wait_s=0)


def _shown(trace: Trace) -> list[int]:
    """Return the turns that the prompt showed; what was said now, if it showed none."""
    assert trace.turn is not None
    shown = [
        piece.turn_id
        for piece in trace.contributions
        if piece.kept and piece.turn_id is not None and piece.place is Place.chat
    ]
    return shown or [trace.turn]
