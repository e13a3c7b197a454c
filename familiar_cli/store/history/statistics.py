"""Count turns by channel, person, month and hour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.times.clock import to_zone
from familiar_cli.base.who.visibility import OWNER, Viewer
from familiar_cli.store.history.rows import DamagedRowError, from_ms, in_ms, pack, to_author, unpack

if TYPE_CHECKING:
    from familiar_cli.base.who.identity import Author
    from familiar_cli.store.history.store import HistoryStore

_QUARTER_MS: Final = 15 * 60_000  # the finest granularity of timezone offsets
_SPAN: Final = "turns.at_ms >= ? AND turns.at_ms < ?"
_COUNTS: Final = (
    "SELECT at_ms / ?, author_platform, author_user_id, count(*), min(id) "  # noqa: S608  # our own
    f"FROM turns WHERE {_SPAN} {{}} GROUP BY 1, 2, 3"
)
_NOT_SHOWN: Final = (
    "AND (id IN (SELECT turn_id FROM set_aside WHERE superseded_by OR withdrawn) "
    "OR channel_id IN (SELECT channel_id FROM channels_set_aside))"
)
_SAMPLE: Final = 2000  # sample size for counting tokens


class ChannelCount(Struct, frozen=True):
    """Statistics of one channel.

    Args:
        channel: Its id.
        turns: Its number of turns.
        hidden: How many of them are left out of prompts.
        first_at: Time of its first turn, in UTC.
        last_at: Time of its last turn, in UTC.
        imported_from: The format of the chat it was imported from; empty: none.
    """

    channel: str
    turns: int
    hidden: int
    first_at: datetime
    last_at: datetime
    imported_from: str


class AuthorCount(Struct, frozen=True):
    """An author and their number of turns; None is the familiar."""

    author: Author | None
    turns: int


class MonthCount(Struct, frozen=True):
    """A month, as `2026-01`, and its number of turns."""

    month: str
    turns: int


class Statistics(Struct, frozen=True):
    """Statistics of the whole history or one channel.

    Args:
        turns: Number of turns.
        tokens: Estimated number of tokens.
        channels: By channel, most recently active first.
        authors: By person, most turns first.
        months: By month, in order.
    """

    turns: int
    tokens: int
    channels: tuple[ChannelCount, ...]
    authors: tuple[AuthorCount, ...]
    months: tuple[MonthCount, ...]


def channel_counts(history: HistoryStore) -> tuple[ChannelCount, ...]:
    """Return the statistics of all channels, most recently active first."""
    sql = (
        "SELECT turns.channel_id, count(*), sum(hidden), min(at_ms), max(at_ms), "
        "(SELECT format FROM chats WHERE chats.channel_id = turns.channel_id LIMIT 1) "
        "FROM shown AS turns GROUP BY turns.channel_id ORDER BY 5 DESC, 1"
    )
    return tuple(
        ChannelCount(unpack(c), n, hidden, from_ms(first), from_ms(last), unpack(source or ""))
        for c, n, hidden, first, last, source in history.rows(sql)
    )


def gather_statistics(
    history: HistoryStore,
    count_tokens: Callable[[str], int],
    channel_id: str | None = None,
    *,
    viewer: Viewer,
    zone: tzinfo | None = UTC,
) -> Statistics:
    """Compute the statistics of one channel or of all.

    Args:
        count_tokens: Counts the tokens of a text; used on a sample of the turns.
        channel_id: The channel; None: all.
        viewer: Who will see the names; see `HistoryStore.speakers`.
        zone: The timezone of the months; None: the system's.
    """
    where = "" if channel_id is None else " WHERE channel_id = ?"
    values = () if channel_id is None else (pack(channel_id),)
    totals = f"SELECT count(*), sum(length(content)) FROM shown{where}"  # noqa: S608
    ((turns, chars),) = history.rows(totals, values)
    channels = channel_counts(history)
    return Statistics(
        turns=turns,
        tokens=_estimate_tokens(history, count_tokens, (turns, chars or 0), where, values),
        channels=tuple(c for c in channels if channel_id in (None, c.channel)),
        authors=_author_counts(history, where, values, viewer if channel_id is None else OWNER),
        months=_month_counts(history, where, values, zone),
    )


def _author_counts(
    history: HistoryStore, where: str, values: tuple[Any, ...], viewer: Viewer
) -> tuple[AuthorCount, ...]:
    sql = (
        "SELECT author_platform, author_user_id, author_username, author_display_name, count(*), "  # noqa: S608
        f"max(id) FROM shown{where}{' AND' if where else ' WHERE'} role != 'system' "
        "GROUP BY 1, 2 ORDER BY 5 DESC, 1, 2"
    )
    counts = [
        AuthorCount(None if row[0] is None else to_author(row[:4]), row[4])
        for row in history.rows(sql, values)
    ]
    if viewer.sees_everything:
        return tuple(counts)
    authors = {speaker.author.slug: speaker.author for speaker in history.speakers(viewer)}
    return tuple(
        replace(count, author=authors.get(count.author.slug, count.author))
        if count.author
        else count
        for count in counts
    )


def _month_counts(
    history: HistoryStore, where: str, values: tuple[Any, ...], zone: tzinfo | None
) -> tuple[MonthCount, ...]:
    """Count turns by month; in no timezone does one begin within a quarter of an hour."""
    sql = f"SELECT at_ms / {_QUARTER_MS}, count(*) FROM shown{where} GROUP BY 1"  # noqa: S608
    months: Counter[str] = Counter()
    for quarter, turns in history.rows(sql, values):
        month = "?"
        with suppress(DamagedRowError):
            month = to_zone(from_ms(quarter * _QUARTER_MS), zone).isoformat()[: len("2026-01")]
        months[month] += turns
    return tuple(MonthCount(month, turns) for month, turns in sorted(months.items()))


def _estimate_tokens(
    history: HistoryStore,
    count_tokens: Callable[[str], int],
    totals: tuple[int, int],
    where: str,
    values: tuple[Any, ...],
) -> int:
    """Estimate the number of tokens from an evenly spread sample."""
    turns, chars = totals
    step = max(turns // _SAMPLE, 1)
    also = " AND" if where else " WHERE"
    sql = f"SELECT content FROM shown{where}{also} id % {step} = 0"  # noqa: S608
    texts = [unpack(row[0]) for row in history.rows(sql, values)]
    seen = sum(map(len, texts))
    return round(sum(map(count_tokens, texts)) * chars / seen) if seen else 0


class SpokenHour(Struct, frozen=True):
    """The turns of one person, or of the familiar, within part of an hour.

    Args:
        at: Start of that part, in UTC.
        account: The person's platform and id; None: the familiar or the program.
        turns: Number of standing turns.
        first: The number of one of the first.
    """

    at: datetime
    account: tuple[str, str] | None
    turns: int
    first: int


def said_between(
    history: HistoryStore, since: datetime, until: datetime, *, whole_hours: bool
) -> list[SpokenHour]:
    """Return the standing turns of a time span, grouped and in order.

    Args:
        since: Start of the span.
        until: End of the span, exclusive.
        whole_hours: Group by hour; otherwise by quarter of an hour.
    """
    part_ms = _QUARTER_MS * 4 if whole_hours else _QUARTER_MS
    values = (part_ms, in_ms(since), in_ms(until))
    less = {
        (part, *account): turns
        for part, *account, turns, _ in history.rows(_COUNTS.format(_NOT_SHOWN), values)
    }
    items = history.rows(_COUNTS.format(""), values)
    return [
        SpokenHour(from_ms(part * part_ms), _account_key(platform, user_id), stand, first)
        for part, platform, user_id, turns, first in items
        if (stand := turns - less.get((part, platform, user_id), 0))
    ]


def first_and_last(history: HistoryStore) -> tuple[datetime, datetime] | None:
    """Return the times of the first and the last turn; None without turns."""
    sql = "SELECT (SELECT min(at_ms) FROM turns), (SELECT max(at_ms) FROM turns)"
    ((first, last),) = history.rows(sql)
    return None if first is None else (from_ms(first), from_ms(last))


def turns_beside(
    history: HistoryStore, since: datetime, until: datetime
) -> tuple[datetime | None, datetime | None]:
    """Return the times of the last turn before a span and of the first one after it."""
    sql = (
        "SELECT (SELECT max(at_ms) FROM turns WHERE at_ms < ?),"
        " (SELECT min(at_ms) FROM turns WHERE at_ms >= ?)"
    )
    ((before, after),) = history.rows(sql, (in_ms(since), in_ms(until)))
    return (None if before is None else from_ms(before), None if after is None else from_ms(after))


def ids_between(history: HistoryStore, since: datetime, until: datetime, most: int) -> list[int]:
    """Return the ids of the first `most` turns of a time span, whether they stand or not."""
    sql = f"SELECT id FROM turns WHERE {_SPAN} ORDER BY at_ms, id LIMIT ?"  # noqa: S608
    return [number for (number,) in history.rows(sql, (in_ms(since), in_ms(until), most))]


def count_up_to(history: HistoryStore, since: datetime, until: datetime, most: int) -> int:
    """Count the turns of a time span, up to `most`."""
    sql = f"SELECT count(*) FROM (SELECT 1 FROM turns WHERE {_SPAN} LIMIT ?)"  # noqa: S608
    return int(history.rows(sql, (in_ms(since), in_ms(until), most))[0][0])


def _account_key(platform: object, user_id: object) -> tuple[str, str] | None:
    return None if platform is None else (unpack(platform), unpack(user_id))
