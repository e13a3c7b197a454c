"""The pages of `familiar history`, and their JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.base.text import counted, one_line, whole_line
from familiar_cli.base.times.clock import iso, to_zone
from familiar_cli.pages.page import (
    Bar,
    Columns,
    IndentedPart,
    PagePart,
    Stack,
    Words,
    mark_query,
    plain,
)
from familiar_cli.store.fts import match_spans
from familiar_cli.store.history.marks import TurnStatus

if TYPE_CHECKING:
    from familiar_cli.base.who.identity import Labels
    from familiar_cli.store.history.lines import TurnName
    from familiar_cli.store.history.recall import TurnHit
    from familiar_cli.store.history.rows import Turn
    from familiar_cli.store.history.salvage import SalvageResult
    from familiar_cli.store.history.selection import SourcedTurn
    from familiar_cli.store.history.statistics import ChannelCount, Statistics

_MOST: Final = 24  # rows in each part of the statistics
_EXCERPT_CHARS: Final = 200
_CONTEXT_CHARS: Final = 100


def channels_page(counts: Sequence[ChannelCount], zone: tzinfo | None) -> PagePart:
    """Render the channels, most recent first."""
    rows = [
        [
            plain(one_line(c.channel, 60), "bold"),
            f"{c.turns:,}",
            f"{_day_words(c.first_at, zone)} – {_day_words(c.last_at, zone)}",
            plain(f"imported ({c.imported_from})" if c.imported_from else "", "dim"),
        ]
        for c in counts
    ]
    return Columns(rows, ("channel", "turns", "from – to", ""), right=(1,))


def transcript_page(
    selections: Sequence[SourcedTurn],
    standings: Mapping[int, TurnStatus],
    labels: Labels,
    zone: tzinfo | None,
    *,
    chosen: int | None = None,
    written: Mapping[int, TurnName] = MappingProxyType({}),
) -> PagePart:
    """Render turns for people: by channel and day, with times and speakers.

    Args:
        selections: The turns.
        standings: Their status.
        labels: Labels of people.
        zone: The timezone of the times.
        chosen: The highlighted turn.
        written: Names of turns written by another instance, if they are to be shown.
    """
    parts: list[PagePart] = []

    def place(kept: SourcedTurn) -> tuple[str, str]:
        return kept.turn.channel_id, _day_words(kept.turn.at, zone)

    for (channel, day), members in groupby(selections, place):
        parts.append(plain(f"{one_line(channel)}, {day}", "bold"))
        for selection in members:
            became = standings.get(selection.turn.id, TurnStatus())
            is_chosen = selection.turn.id == chosen
            flags = (*_marks_of(became), *map(str, filter(None, [written.get(selection.turn.id)])))
            parts.append(_said_by(selection, labels, zone, chosen=is_chosen, flags=flags))
            style = "" if became.stands or became.hidden else "dim"
            parts.append(IndentedPart(plain(selection.turn.content, style)))
    return Stack(*parts)


def transcript_data(
    selections: Iterable[SourcedTurn],
    standings: Mapping[int, TurnStatus],
    swipes: Mapping[int, Sequence[str]],
    written: Mapping[int, TurnName],
    ids: Mapping[int, str],
) -> list[dict[str, Any]]:
    """Build the JSON of turns, with the status of each and its imported swipes."""
    return [
        _turn_data(selection, ids)
        | {"origin": str(written[selection.turn.id]) if selection.turn.id in written else None}
        | _standing_data(standings.get(selection.turn.id, TurnStatus()))
        | ({"swipes": list(values)} if (values := swipes.get(selection.turn.id)) else {})
        for selection in selections
    ]


def _standing_data(became: TurnStatus) -> dict[str, Any]:
    return {
        "standing": became.stands,
        "superseded_by": became.superseded_by,
        "withdrawn": became.withdrawn,
        "alternatives": list(became.alternatives),
    }


def _marks_of(became: TurnStatus) -> tuple[str, ...]:
    """Describe a turn's status briefly; empty if it is an ordinary one."""
    if became.withdrawn:
        return ("withdrawn",)
    if became.superseded_by:
        return (f"replaced by #{became.superseded_by}",)
    count = len(became.alternatives)
    return (f"one of {count}",) if count else ()


def found_page(
    query: str, found: Sequence[TurnHit], labels: Labels, zone: tzinfo | None
) -> PagePart:
    """Render found turns by day, newest first, with matches highlighted."""
    parts: list[PagePart] = []
    hits = sorted(found, key=lambda hit: hit.turn.id)

    def place(hit: TurnHit) -> tuple[str, str]:
        return _day_words(hit.turn.at, zone), hit.turn.channel_id

    for (day, channel), members in groupby(sorted(hits, key=place, reverse=True), place):
        parts.append(plain(f"{one_line(channel)}, {day}", "bold"))
        parts.extend(_passage_page(query, list(members), labels, zone))
    return Stack(*parts)


def found_data(query: str, hits: Sequence[TurnHit], ids: Mapping[int, str]) -> dict[str, Any]:
    """Build the JSON of found turns, best first."""
    return {
        "query": query,
        "hits": [
            _turn_data(
                next(selection for selection in hit.around if selection.turn.id == hit.turn.id), ids
            )
            | {
                "score": round(hit.score, 4),
                "marks": [list(span) for span in match_spans(query, hit.turn.content)],
                "around": [_turn_data(k, ids) for k in hit.around if k.turn.id != hit.turn.id],
            }
            for hit in hits
        ],
    }


def stats_page(statistics: Statistics, labels: Labels, zone: tzinfo | None) -> PagePart:
    """Render statistics with bars; of long lists, the most recent part."""
    labels = labels.joined(a.author for a in statistics.authors)
    name = labels.familiar
    authors = [(labels.of(a.author) if a.author else name, a.turns) for a in statistics.authors]
    first = min(channel.first_at for channel in statistics.channels)
    last = max(channel.last_at for channel in statistics.channels)
    return Stack(
        plain(f"{statistics.turns:,} turns, about {statistics.tokens:,} tokens", "bold"),
        *_bar_chart("by channel", [(c.channel, c.turns) for c in statistics.channels[:_MOST]]),
        *_more_rows(statistics.channels, "channels"),
        *_bar_chart("by person", authors[:_MOST]),
        *_more_rows(authors, "people"),
        *_bar_chart("by month", [(m.month, m.turns) for m in statistics.months[-_MOST:]]),
        *_more_rows(statistics.months, "months before"),
        plain(f"from {_day_words(first, zone)} to {_day_words(last, zone)}", "dim"),
    )


_TABLES: Final = {
    "branches": "where branches begin",
    "channels_set_aside": "withdrawn channels",
    "chats": "names of imported chats",
    "elsewhere": "turns from other machines",
    "events": "edits, withdrawals and branches",
    "lines_waiting": "turns from other machines that wait for others",
    "message_ids": "ids of messages in chat programs",
    "one_to_one": "who may be told what was said",
    "only_speakers": "who may be told what was said",
    "owners": "accounts of the owner",
    "replies": "which turn a reply answers",
    "set_aside": "marks of replaced and withdrawn turns",
    "summaries": "summaries of conversations",
    "turn_extras": "alternatives and details of imported lines",
    "unread": "turns that the memory writer has not read",
    "watermarks": "how far the memory writer has read",
}
"""What the tables of a history hold, where their names do not tell."""


def salvage_page(result: SalvageResult) -> PagePart:
    """Render what a salvage read, and what it missed of each table."""
    if not result.damaged:
        return plain("The history is not damaged; nothing was changed.")
    others = counted(sum(result.tables.values()), "other row")
    parts: list[PagePart] = [plain(f"{counted(result.turns, 'turn')} and {others} can be read.")]
    missing = {"turns": result.missing, **result.lost}
    rows = [
        ["  " + name, "unknown" if most is None else f"{most:,}", _TABLES.get(name, "")]
        for name, most in missing.items()
        if most != 0
    ]
    parts.append(plain("Missing, at most:" if rows else "Nothing is missing."))
    parts += [Columns(rows, right=(1,))] if rows else []
    if result.marked_unread:
        unread = f"{counted(result.marked_unread, 'turn')} may have been read by the memory writer"
        parts.append(plain(f"{unread}, but now count as unread."))
    if result.kept:
        kept = f"the damaged file is kept as {result.kept}"
        parts.append(plain(f"What was read is now the history; {kept}"))
    return Stack(*parts)


def _bar_chart(title: str, rows: Sequence[tuple[str, int]]) -> list[PagePart]:
    most = max((count for _, count in rows), default=1)
    cells: list[list[object]] = [
        [f"  {one_line(label, 40)}", f"{count:,}", Bar(count, most, even=True)]
        for label, count in rows
    ]
    return [plain(title, "dim"), Columns(cells, right=(1,))]


def _more_rows(rows: Sequence[object], what: str) -> list[PagePart]:
    """Render a line for omitted rows, if there are any."""
    left = len(rows) - _MOST
    return [plain(f"  and {left:,} more {what}; --json has all", "dim")] if left > 0 else []


def _passage_page(
    query: str, hits: Sequence[TurnHit], labels: Labels, zone: tzinfo | None
) -> list[PagePart]:
    """Render hits of one channel with the turns around them, each turn once."""
    selection = {hit.turn.id for hit in hits}
    selections = {kept.turn.id: kept for hit in hits for kept in hit.around}
    parts: list[PagePart] = []
    for kept in (selections[turn_id] for turn_id in sorted(selections)):
        if kept.turn.id in selection:
            parts.append(_said_by(kept, labels, zone, chosen=True))
            parts.append(_excerpt_page(query, kept.turn.content))
        else:
            text = one_line(kept.turn.content, _CONTEXT_CHARS)
            parts.append(IndentedPart(plain(f"{_speaker_label(kept.turn, labels)}: {text}", "dim")))
    return parts


def _excerpt_page(query: str, text: str) -> PagePart:
    """Render the part of a text around its first match in one line, with all matches."""
    line = whole_line(text)
    first, _ = next(match_spans(query, line), (0, 0))
    start = max(first - _EXCERPT_CHARS // 3, 0)
    end = min(start + _EXCERPT_CHARS, len(line))
    excerpt = f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"
    return IndentedPart(mark_query(query, excerpt))


def _said_by(
    selection: SourcedTurn,
    labels: Labels,
    zone: tzinfo | None,
    *,
    chosen: bool,
    flags: Iterable[str] = (),
) -> Words:
    turn = selection.turn
    states = (
        ("hidden", turn.hidden),
        ("interrupted", turn.partial),
        ("time estimated", selection.estimated),
        ("voice", turn.modality == "voice"),
    )
    flags = [*(flag for flag, holds in states if holds), *flags]
    about = f" ({', '.join(flags)})" if flags else ""
    line = plain(f"  {_time_words(turn.at, zone)} ", "dim")
    line.append(_speaker_label(turn, labels), "bold yellow" if chosen else "bold cyan")
    line.append(f" #{turn.id}{about}", "dim")
    return line


def _speaker_label(turn: Turn, labels: Labels) -> str:
    if turn.author:
        return one_line(labels.me.name_of(turn.author), 40)
    return {"assistant": labels.familiar, "user": "User"}.get(turn.role, "System")


def _turn_data(selection: SourcedTurn, ids: Mapping[int, str]) -> dict[str, Any]:
    turn = selection.turn
    return {
        "turn": turn.id,
        "id": ids.get(turn.id),
        "channel": turn.channel_id,
        "role": turn.role,
        "author": turn.author,
        "at": iso(turn.at),
        "at_estimated": selection.estimated,
        "content": turn.content,
        "modality": turn.modality,
        "source": turn.source,
        "partial": turn.partial,
        "hidden": turn.hidden,
        "reply_to": turn.reply_to,
        "message_id": selection.message_id or None,
    }


def _day_words(at: datetime, zone: tzinfo | None) -> str:
    return to_zone(at, zone).strftime("%Y-%m-%d")


def _time_words(at: datetime, zone: tzinfo | None) -> str:
    return to_zone(at, zone).strftime("%H:%M")
