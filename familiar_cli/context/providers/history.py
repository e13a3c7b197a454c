"""The past: the newest turns of the channel, summaries of older ones, and other channels.

Also the system block, the off-the-record turns, and a limit by tier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from familiar_cli.base.languages import ENGLISH, Phrases
from familiar_cli.base.text import framed
from familiar_cli.base.who.identity import NO_LABELS, Labels
from familiar_cli.base.who.visibility import OWNERS
from familiar_cli.context.budget import first_kept
from familiar_cli.context.request import ContextProvider, ContextRequest, Explains
from familiar_cli.context.types import (
    GREETING_SOURCE,
    Contribution,
    Fit,
    Layer,
    PromptSpan,
    Role,
    Spoken,
    Subject,
)
from familiar_cli.store.history.rows import Turn, in_pairs, place_of
from familiar_cli.store.history.summaries import OWN, PUBLIC, Summaries

if TYPE_CHECKING:
    from familiar_cli.store.history.store import HistoryStore

LOOK_BACK_TURNS: Final = 200
"""So many of the newest turns are looked at, however long this channel was silent."""

MOST_AGE: Final = timedelta(days=7)
"""What is older is no news."""

LINE_CHARS: Final = 80


def list_meanwhile(
    turns: Sequence[Turn],
    at: datetime,
    label: Callable[[str], str],
    most_channels: int,
    *,
    labels: Labels = NO_LABELS,
    phrases: Phrases = ENGLISH,
) -> str:
    """Describe each channel's last turn in one line, newest first; empty if there is none.

    Args:
        turns: Turns of other channels, oldest first, all visible here.
        at: The current time in UTC.
        label: Returns the label of a channel.
        most_channels: Maximum number of lines.
        labels: Labels of people.
        phrases: Phrases of the language.
    """
    newest: dict[str, Turn] = {}
    for turn in reversed(turns):
        if turn.content.strip() and at - turn.at <= MOST_AGE:
            newest.setdefault(turn.channel_id, turn)
    shown = list(newest.values())[:most_channels]
    labels = labels.joined(turn.author for turn in shown)
    lines = [_channel_line(turn, at - turn.at, label, labels, phrases) for turn in shown]
    return "\n".join([phrases.meanwhile, *lines]) if lines else ""


def _channel_line(
    turn: Turn, age: timedelta, label: Callable[[str], str], labels: Labels, phrases: Phrases
) -> str:
    who = labels.of(turn.author) if turn.author else phrases.somebody
    who = phrases.you if turn.role == "assistant" else who
    words = framed(turn.content, LINE_CHARS)
    when = f"{who}{phrases.comma}{phrases.since(age)}"
    return f'- {framed(label(turn.channel_id))} ({when}): "{words}"'


RECENT: Final = 80
SUMMARY: Final = 75
ELSEWHERE: Final = 55
SUMMARY_SOURCE: Final = "history.summary"
PRIVATE_SUMMARY_SOURCE: Final = "history.summary.here"
ELSEWHERE_SOURCE: Final = "history.elsewhere"


class Beyond(Struct, frozen=True):
    """Sources beyond the recent turns.

    Args:
        summaries: Summaries of older turns.
        label: Returns the label of a channel.
        elsewhere_channels: Maximum number of other channels to mention.
    """

    summaries: Summaries
    label: Callable[[str], str]
    elsewhere_channels: int = 0


class HistoryProvider:
    """Provides recent turns. What people said is data: its macros are not expanded.

    Args:
        store: The history.
        recent_turns: Maximum number of turns.
        beyond: Further sources of the past, if any.
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
        turns = in_pairs(self._window(request))
        pieces = [
            _text_contribution(turn.role, turn.content, f"history.{turn.source}", turn)
            for turn in turns
            if turn.content.strip()
        ]
        if not turns and request.opening:
            pieces = [_text_contribution("assistant", request.opening, GREETING_SOURCE)]
        if self._beyond is None:
            return pieces
        return [
            *_summary_contributions(self._beyond, request),
            *pieces,
            *self._elsewhere(self._beyond, request),
        ]

    def _window(self, request: ContextRequest) -> list[Turn]:
        """Return the visible turns; if there are too many, old ones are dropped in steps."""
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
        viewer, family = request.viewer, self._store.family(request.channel_id)
        last = self._store.recent(request.channel_id, 1, viewer=viewer)
        begin = last[0].id + 1 if last else 0
        heard = self._store.recent(None, LOOK_BACK_TURNS, viewer=viewer, start=begin)
        others = [
            turn
            for turn in sorted(heard, key=lambda turn: turn.id)
            if turn.channel_id not in family
        ]
        text = list_meanwhile(
            others,
            request.at,
            beyond.label,
            beyond.elsewhere_channels,
            labels=request.labels,
            phrases=request.phrases,
        )
        return (
            [_aside_contribution(text, ELSEWHERE, ELSEWHERE_SOURCE, PromptSpan.depth, depth=1)]
            if text
            else []
        )

    def why_not(self, subject: Subject, request: ContextRequest) -> str | None:
        """Return why a turn is not in a prompt; see `Explains`."""
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
        else:
            scope = {PUBLIC: PUBLIC, OWNERS: OWN}.get(rules.scope_of_turn(turn), "")
            if scope not in summaries.scopes_in(request.channel_id, rules):
                return False
        summary = summaries.latest(scope, rules, before_id=request.before_id)
        return summary is not None and place_of(turn) <= summary.last_turn_id

    def _too_old(self, turn: Turn, request: ContextRequest) -> str:
        turns = self._window(request)
        if turn.id in {recent.id for recent in turns}:
            return ""
        return f"the channel has {len(turns)} newer ones (history.recent_turns)"


def _why_not(turn: Turn, request: ContextRequest, *, here: bool) -> str:
    if not here:
        return f"it was said in channel {turn.channel_id!r}, not in {request.channel_id!r}"
    if request.before_id is not None and place_of(turn) >= request.before_id:
        return "it was said later"
    return "" if turn.content.strip() else "it is empty"


def _summary_contributions(beyond: Beyond, request: ContextRequest) -> list[Contribution]:
    rules = request.viewer.rules
    titles = dict.fromkeys((PUBLIC, OWN), (request.phrases.earlier, SUMMARY_SOURCE))
    here = (request.phrases.earlier_here, PRIVATE_SUMMARY_SOURCE)
    items = (
        (
            beyond.summaries.latest(scope, rules, before_id=request.before_id),
            *titles.get(scope, here),
        )
        for scope in beyond.summaries.scopes_in(request.channel_id, rules)
        if scope != OWN or request.viewer.is_owner
    )
    return [
        _aside_contribution(f"{title}\n{summary.text}", SUMMARY, source, PromptSpan.summary)
        for summary, title, source in items
        if summary and summary.text.strip() and request.viewer.sees_channel(summary.scope)
    ]


def _aside_contribution(
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


def _text_contribution(
    role: Role, text: str, source: str, turn: Turn | None = None
) -> Contribution:
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


BLOCK: Final = 99


class SystemBlockProvider:
    """Provides the system block, unless there is neither a time nor a mode to state.

    Args:
        zone: The familiar's timezone; None for the system's.
        tells_time: Include date and time.
        at_start: Put the block at the start of the prompt, else before the message.
    """

    name: Final = "system"
    deadline_s: Final = 1.0

    def __init__(
        self, zone: tzinfo | None, *, tells_time: bool = True, at_start: bool = False
    ) -> None:
        self._zone = zone
        self._tells_time = tells_time
        self._at_start = at_start

    async def contribute(self, request: ContextRequest) -> list[Contribution]:
        """Return the block."""
        phrases = request.phrases
        now = spoken_time(request.at, self._zone, phrases)
        lines = [f"{phrases.date_and_time}{phrases.colon}{now}"] if self._tells_time else []
        lines += [phrases.off_record] if request.off_record else []
        if not lines:
            return []
        return [
            Contribution(
                layer=Layer.core,
                priority=BLOCK,
                text="\n".join([phrases.system, *lines]),
                source="system",
                place=PromptSpan.main if self._at_start else PromptSpan.depth,
                depth=1,
                fit=Fit.whole,
            )
        ]


def spoken_time(moment: datetime, zone: tzinfo | None, phrases: Phrases = ENGLISH) -> str:
    """Format a moment for speech: `Friday, 2026-05-08 at 14:34 EDT`.

    The offset from UTC follows, which distinguishes a repeated hour.
    """
    local = moment.astimezone(zone)
    name = local.tzname() or ""
    offset = f"UTC{local.isoformat()[-6:]}"
    # Many zones have a number instead of a name, such as `+03`.
    named = f"{name} ({offset})" if name[:1].isalpha() and name != "UTC" else name or offset
    if not name[:1].isalpha():
        named = offset
    return phrases.moment(local, named)


class RememberedProvider:
    """Provides off-the-record turns, which follow the history.

    Args:
        spoken: The turns, oldest first.
    """

    name: Final = "off_record"
    deadline_s: Final = 1.0

    def __init__(self, spoken: Sequence[Spoken]) -> None:
        self._spoken = tuple(spoken)

    async def contribute(self, request: ContextRequest) -> list[Contribution]:
        """Return the off-the-record turns."""
        del request
        return [
            Contribution(
                layer=Layer.recent_history,
                priority=RECENT,
                text=spoken.text,
                source=self.name,
                place=PromptSpan.chat,
                author=spoken.author,
                role=spoken.role,
                fit=Fit.run,
            )
            for spoken in self._spoken
        ]


class FromTier:
    """Asks another provider from a tier on.

    Args:
        tier: The lowest tier that includes it.
    """

    def __init__(self, provider: ContextProvider, tier: int) -> None:
        self._provider = provider
        self._tier = tier
        self.name = provider.name
        self.deadline_s = provider.deadline_s
        self.looks_at: str = getattr(provider, "looks_at", "")

    async def contribute(self, request: ContextRequest) -> Sequence[Contribution]:
        """Return the wrapped provider's contributions; none below its tier."""
        return [] if request.tier < self._tier else await self._provider.contribute(request)

    def why_not(self, subject: Subject, request: ContextRequest) -> str | None:
        """Return why it would offer nothing of `subject`; see `Explains`."""
        if not isinstance(self._provider, Explains):
            return None
        reason = self._provider.why_not(subject, request)
        if reason is None or request.tier >= self._tier:
            return reason
        return f"tier {request.tier} does not load it; tier {self._tier} and above do"
