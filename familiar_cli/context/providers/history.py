"""`HistoryProvider`: the newest turns of the channel, what came before in short, and elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from familiar_cli.context.elsewhere import LOOK_BACK_TURNS, meanwhile
from familiar_cli.context.limits import first_kept
from familiar_cli.context.types import Contribution, Fit, Layer, PromptSpan
from familiar_cli.history.summaries import PUBLIC
from familiar_cli.history.types import in_pairs, place_of
from familiar_cli.jobs import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from familiar_cli.context.types import ContextRequest, Role, Subject
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.summaries import Summaries
    from familiar_cli.history.types import Turn

RECENT: Final = 80
SUMMARY: Final = 75
ELSEWHERE: Final = 55
GREETING_SOURCE: Final = "history.greeting"
SUMMARY_SOURCE: Final = "history.summary"
PRIVATE_SUMMARY_SOURCE: Final = "history.summary.here"
ELSEWHERE_SOURCE: Final = "history.elsewhere"


@dataclass(frozen=True, slots=True)
class Beyond:
    """What lies beyond the recent turns.

    Args:
        summaries: What older turns were about.
        label: Says what a channel is called.
        elsewhere_channels: Most other channels to tell of.
    """

    summaries: Summaries
    label: Callable[[str], str]
    elsewhere_channels: int = 0


class HistoryProvider:
    """Offers recent turns. What people said is data: no macro in it is expanded.

    Args:
        store: The history.
        recent_turns: Most turns to offer.
        deadline_s: How long it may take.
        beyond: What else there is of the past; None: nothing.
    """

    name: Final = "history"
    looks_at: Final = "the newest turns of the channel"

    def __init__(
        self,
        store: HistoryStore,
        *,
        recent_turns: int,
        deadline_s: float = 2.0,
        beyond: Beyond | None = None,
    ) -> None:
        self.deadline_s = deadline_s
        self._store = store
        self._recent_turns = recent_turns
        self._beyond = beyond

    async def contribute(self, request: ContextRequest) -> list[Contribution]:
        """Return the summaries, the newest turns of the channel, and what was said elsewhere.

        Turns stand oldest first, each reply after what it replies to; a new channel has its
        greeting.
        """
        return await in_thread(partial(self._read, request))

    def _read(self, request: ContextRequest) -> list[Contribution]:
        turns = in_pairs(self._window(request))
        pieces = [_turn(turn) for turn in turns if turn.content.strip()]
        if not turns and request.opening:
            pieces = [_piece("assistant", request.opening, GREETING_SOURCE)]
        if self._beyond is None:
            return pieces
        return [
            *_summaries(self._beyond, request),
            *pieces,
            *self._elsewhere(self._beyond, request),
        ]

    def _window(self, request: ContextRequest) -> list[Turn]:
        """Return the turns that may be shown; when there are more, old ones go several at once."""
        most = self._recent_turns
        turns = self._store.recent(
            request.channel_id, most + 1 if most else 0, request.before_id, viewer=request.viewer
        )
        turns = [turn for turn in turns if turn.id != request.reply_to]
        if len(turns) <= most:
            return turns
        newest = turns[1:]
        return newest[first_kept([turn.id for turn in newest], [1] * len(newest)) :]

    def _elsewhere(self, beyond: Beyond, request: ContextRequest) -> list[Contribution]:
        if not beyond.elsewhere_channels or request.before_id is not None:
            return []
        last = self._store.last_turn(request.channel_id)
        since = self._store.since(last.id if last else 0, LOOK_BACK_TURNS)
        family = self._store.family(request.channel_id)
        others = [
            turn
            for turn in since
            if turn.channel_id not in family and request.viewer.sees_turn(turn)
        ]
        text = meanwhile(
            others,
            request.at,
            beyond.label,
            beyond.elsewhere_channels,
            labels=request.labels,
            phrases=request.phrases,
        )
        return (
            [_aside(text, ELSEWHERE, ELSEWHERE_SOURCE, PromptSpan.depth, depth=1)] if text else []
        )

    def why_not(self, subject: Subject, request: ContextRequest) -> str | None:
        """Return why a turn is not in a prompt; see `protocols.Explains`."""
        if subject.turn_id is None:
            return None
        turn = self._store.turn(subject.turn_id)
        if turn is None:
            return "no such turn"
        here = self._store.holds(request.channel_id, turn)
        reason = _why_not(turn, request, here=here) or self._too_old(turn, request)
        told = reason and self._is_summarised(turn, request)
        return f"{reason}; the summary covers it" if told else reason

    def _is_summarised(self, turn: Turn, request: ContextRequest) -> bool:
        if self._beyond is None:
            return False
        rules, summaries = request.viewer.rules, self._beyond.summaries
        if self._store.holds(request.channel_id, turn):
            scope = summaries.scope_of(request.channel_id, rules)
        elif rules.scope_of_turn(turn) or PUBLIC not in summaries.scopes_in(
            request.channel_id, rules
        ):
            return False
        else:
            scope = PUBLIC
        found = summaries.latest(scope, rules, before_id=request.before_id)
        return found is not None and place_of(turn) <= found.last_turn_id

    def _too_old(self, turn: Turn, request: ContextRequest) -> str:
        shown = self._window(request)
        if turn.id in {recent.id for recent in shown}:
            return ""
        return f"the channel has {len(shown)} newer ones (history.recent_turns)"


def _why_not(turn: Turn, request: ContextRequest, *, here: bool) -> str:
    if not here:
        return f"it was said in channel {turn.channel_id!r}, not in {request.channel_id!r}"
    if request.before_id is not None and place_of(turn) >= request.before_id:
        return "it was said later"
    return "" if turn.content.strip() else "it is empty"


def _summaries(beyond: Beyond, request: ContextRequest) -> list[Contribution]:
    rules = request.viewer.rules
    titles = {PUBLIC: (request.phrases.earlier, SUMMARY_SOURCE)}
    here = (request.phrases.earlier_here, PRIVATE_SUMMARY_SOURCE)
    found = (
        (
            beyond.summaries.latest(scope, rules, before_id=request.before_id),
            *titles.get(scope, here),
        )
        for scope in beyond.summaries.scopes_in(request.channel_id, rules)
    )
    return [
        _aside(f"{title}\n{summary.text}", SUMMARY, source, PromptSpan.summary)
        for summary, title, source in found
        if summary and summary.text.strip() and request.viewer.sees_channel(summary.scope)
    ]


def _aside(
    text: str, priority: int, source: str, place: PromptSpan, *, depth: int = 0
) -> Contribution:
    return Contribution(
        layer=Layer.history_summary,
        priority=priority,
        text=text,
        source=source,
        place=place,
        depth=depth,
    )


def _turn(turn: Turn) -> Contribution:
    return _piece(turn.role, turn.content, f"history.{turn.source}", turn)


def _piece(role: Role, text: str, source: str, turn: Turn | None = None) -> Contribution:
    return Contribution(
        layer=Layer.recent_history,
        priority=RECENT,
        text=text,
        source=source,
        place=PromptSpan.chat,
        turn_id=turn.id if turn else None,
        author=turn.author if turn else None,
        role=role,
        fit=Fit.run,
    )
