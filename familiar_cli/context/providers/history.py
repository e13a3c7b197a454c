"""`HistoryProvider`: the newest turns of the channel, word for word."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from familiar_cli.context.types import Contribution, Fit, Layer, Place
from familiar_cli.jobs import in_thread

if TYPE_CHECKING:
    from familiar_cli.context.types import ContextRequest, Role, Subject
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn

RECENT: Final = 80
GREETING_SOURCE: Final = "history.greeting"


class HistoryProvider:
    """Offers recent turns. What people said is data: no macro in it is expanded.

    Args:
        store: The history.
        recent_turns: Most turns to offer.
        deadline_s: How long it may take.
    """

    name: Final = "history"
    looks_at: Final = "the newest turns of the channel"

    def __init__(self, store: HistoryStore, *, recent_turns: int, deadline_s: float = 2.0) -> None:
        self.deadline_s = deadline_s
        self._store = store
        self._recent_turns = recent_turns

    async def contribute(self, request: ContextRequest) -> list[Contribution]:
        """Return the newest turns of the channel, oldest first; a new channel's greeting."""
        read = partial(
            self._store.recent, request.channel_id, self._recent_turns, request.before_id
        )
        turns = await in_thread(read)
        if not turns and request.opening:
            return [_piece("assistant", request.opening, GREETING_SOURCE)]
        return [_turn(turn) for turn in turns if turn.content.strip()]

    def why_not(self, subject: Subject, request: ContextRequest) -> str | None:
        """Return why a turn is not in a prompt; see `protocols.Explains`."""
        if subject.turn_id is None:
            return None
        turn = self._store.turn(subject.turn_id)
        if turn is None:
            return "there is no such turn"
        return _why_not(turn, request) or self._too_old(turn, request)

    def _too_old(self, turn: Turn, request: ContextRequest) -> str:
        shown = self._store.recent(request.channel_id, self._recent_turns, request.before_id)
        if turn.id in {recent.id for recent in shown}:
            return ""
        return f"the channel has {self._recent_turns} newer ones (history.recent_turns)"


def _why_not(turn: Turn, request: ContextRequest) -> str:
    if turn.channel_id != request.channel_id:
        return f"it was said in channel {turn.channel_id!r}, not in {request.channel_id!r}"
    if request.before_id is not None and turn.id >= request.before_id:
        return "it was said later"
    return "" if turn.content.strip() else "it has no words"


def _turn(turn: Turn) -> Contribution:
    return _piece(turn.role, turn.content, f"history.{turn.source}", turn)


def _piece(role: Role, text: str, source: str, turn: Turn | None = None) -> Contribution:
    return Contribution(
        layer=Layer.recent_history,
        priority=RECENT,
        text=text,
        source=source,
        place=Place.chat,
        turn_id=turn.id if turn else None,
        author=turn.author if turn else None,
        role=role,
        fit=Fit.run,
    )
