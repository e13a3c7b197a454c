"""Search the past: full text, and turns close in time and place.

The full-text table stores no text of its own and can be deleted at any time: it is brought up to
date, page by page, before a search.

The table scores each turn on its own. The turns around it count as well: a turn is rarely
understood, or found, without its neighbours.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct, field

from familiar_cli.base.sqlite import copy_into_memory, is_unwritable, rows_among, transaction
from familiar_cli.base.times.clock import stopwatch_s
from familiar_cli.base.who.identity import Author
from familiar_cli.store import fts
from familiar_cli.store.history import selection
from familiar_cli.store.history.events import PLACED, heard_condition, parts_of
from familiar_cli.store.history.events import parts_condition as in_past
from familiar_cli.store.history.rows import SELECTED, SELECTED_STANDING, Turn, to_turn, unpack

if TYPE_CHECKING:
    from familiar_cli.store.history.schema import HistoryFile

    OnProgress = Callable[[int, int], None]

    from familiar_cli.base.who.visibility import Viewer

VERSION: Final = 2
"""Raised when what is put into the table changes: it is then made again."""

WATERMARK: Final = f"fulltext-{VERSION}"
"""The watermark up to which turns are in the table."""

MOST_RANKED: Final = 5_000
"""How many turns are ranked, about, in 2 to 5 ms; see `fts.choose`."""

_PAGE: Final = 5000  # turns added per transaction
_TABLE: Final = (
    "CREATE VIRTUAL TABLE turns_fts USING fts5 "
    f"(body, content = '', tokenize = \"{fts.TOKENIZER}\")"
)


class TurnHit(Struct, frozen=True):
    """A search result.

    Args:
        score: Relevance; higher is better, comparable only within one search.
        around: The turn and its neighbours in the channel, oldest first.
    """

    turn: Turn
    score: float
    around: tuple[selection.SourcedTurn, ...]


def search(
    history: HistoryFile,
    query: str,
    span: selection.TurnFilter,
    *,
    limit: int = 10,
    neighbours: int = 1,
    on_progress: OnProgress = lambda _done, _all: None,
) -> list[TurnHit]:
    """Return the turns that match `query` best, best first. It has no query syntax.

    Args:
        query: Plain words.
        span: The turns to search.
        limit: Maximum number of turns to return.
        neighbours: Number of turns to return before and after each hit.
        on_progress: Called with the number of new turns indexed and their total, if there are many.
    """
    target = fts.match_any(query)
    if target is None:
        return []
    with _use_words(history, on_progress) as (connection, _):
        rows = []
        if is_ready(connection):
            rows = _ranked_rows(history, connection, target, span, max(limit, 0))
    turns = [(to_turn(row[:-1]), -row[-1]) for row in rows]
    return [
        TurnHit(
            turn,
            score,
            tuple(
                selection.turns_around(history, turn, neighbours, neighbours, viewer=span.viewer)
            ),
        )
        for turn, score in turns
    ]


def catch_up(
    connection: sqlite3.Connection,
    on_progress: OnProgress = lambda _done, _all: None,
    *,
    within_s: float | None = None,
) -> int:
    """Add all missing turns to the full-text table, one transaction per page.

    Args:
        connection: The history.
        on_progress: Called with the number of turns done and their total, if there are many.
        within_s: Start no further page after this many seconds.

    Returns:
        How many turns are still missing.
    """
    begun_s = stopwatch_s()
    done = _last_indexed(connection)
    start, last = done, _last_turn(connection)
    while done < last and (within_s is None or stopwatch_s() - begun_s < within_s):
        done = _add_page(connection, last)
        if last - start > _PAGE:
            on_progress(done - start, last - start)
    return last - done


@contextmanager
def _use_words(
    history: HistoryFile,
    on_progress: OnProgress = lambda _done, _all: None,
    *,
    within_s: float | None = None,
) -> Iterator[tuple[sqlite3.Connection, int]]:
    """Yield the history with its full-text table, and how many turns that lacks.

    Where nothing can be written, both are a copy in memory.
    """
    with ExitStack() as stack:
        connection = stack.enter_context(history.use(create=False))
        try:
            missing = catch_up(connection, on_progress, within_s=within_s)
        except sqlite3.Error as error:
            if not is_unwritable(error):
                raise
            connection = stack.enter_context(closing(copy_into_memory(connection)))
            missing = catch_up(connection, on_progress, within_s=within_s)
        yield connection, missing


def index_words(history: HistoryFile, on_progress: OnProgress = lambda _done, _all: None) -> None:
    """Bring the full-text table up to date.

    Raises:
        FamiliarError: As `HistoryStore.append`.
    """
    with history.use(create=False) as connection:
        catch_up(connection, on_progress)


def count_unread(history: HistoryFile) -> int:
    """Return how many turns are not in the full-text table yet."""
    with history.use(create=False) as connection:
        return catch_up(connection, within_s=0.0)


def _add_page(connection: sqlite3.Connection, last: int) -> int:
    """Add a page of turns; return the last turn now in the table."""
    with transaction(connection):
        done = _prepare_table(connection)
        sql = "SELECT id, content FROM turns WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
        rows = connection.execute(sql, (done, last, _PAGE)).fetchall()
        connection.executemany(
            "INSERT INTO turns_fts (rowid, body) VALUES (?, ?)", map(_turn_body, rows)
        )
        fts.merge_parts(connection, "turns_fts")
        done = max(done, rows[-1][0] if rows else last)
        sql = "INSERT OR REPLACE INTO watermarks (name, turn_id) VALUES (?, ?)"
        connection.execute(sql, (WATERMARK, done))
    return int(done)


def _prepare_table(connection: sqlite3.Connection) -> int:
    """Create or upgrade the table if needed; return the last turn in it."""
    done = _last_indexed(connection)
    if not done:
        connection.execute("DROP TABLE IF EXISTS turns_fts")
        connection.execute("DELETE FROM watermarks WHERE name LIKE 'fulltext-%'")
        connection.execute(_TABLE)
    return done


def is_ready(connection: sqlite3.Connection) -> bool:
    """Tell whether the full-text table exists."""
    sql = "SELECT 1 FROM sqlite_master WHERE name = 'turns_fts'"
    return connection.execute(sql).fetchone() is not None


def _last_indexed(connection: sqlite3.Connection) -> int:
    sql = "SELECT turn_id FROM watermarks WHERE name = ?"
    ready = is_ready(connection)
    value = connection.execute(sql, (WATERMARK,)).fetchone() if ready else None
    return int(value[0]) if value else 0


def _last_turn(connection: sqlite3.Connection) -> int:
    (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM turns").fetchone()
    return int(last)


def _turn_body(row: tuple[int, object]) -> tuple[int, str]:
    text = unpack(row[1]).encode("utf-8", errors="replace").decode("utf-8")
    return row[0], fts.indexable(text)


def _ranked_rows(
    history: HistoryFile,
    connection: sqlite3.Connection,
    target: str,
    span: selection.TurnFilter,
    limit: int,
) -> list[tuple[Any, ...]]:
    where, values = span.where_all(connection)
    if visible := _visible_turns(history, connection, span.viewer):
        among = f"{span.view} AS turns", where, values
        scores = _visible_scores(connection, target, visible, among, limit)
        select = f"SELECT {SELECTED} FROM turns WHERE id IN"  # noqa: S608
        rows = {row[0]: row for row in rows_among(connection, select, scores)}
        return [(*rows[turn_id], -score) for turn_id, score in scores.items()]
    match, oldest, is_ranked = affordable_query(connection, target)
    rank, order = ("rank", "rank") if is_ranked else ("0.0", "turns_fts.rowid DESC")
    sql = (
        f"SELECT {SELECTED}, {rank} FROM turns_fts JOIN {span.view} AS turns "  # noqa: S608
        "ON turns.id = turns_fts.rowid "
        f"WHERE turns_fts MATCH ? AND turns_fts.rowid >= ?{where} ORDER BY {order} LIMIT ?"
    )
    return connection.execute(sql, (match, oldest, *values, limit)).fetchall()


def _visible_turns(
    history: HistoryFile, connection: sqlite3.Connection, viewer: Viewer
) -> fts.Visible | None:
    """Return the turns that a viewer sees; None for all."""
    if viewer.sees_everything or viewer.rules.shares:
        return None
    if viewer.is_owner and not _has_others(connection, viewer):
        return None
    where, values = selection.visible_condition(viewer)
    seen = where.replace("turns.id", "{row}")
    if "turns." in seen:  # a channel: the turn itself has to be read
        seen = f"EXISTS (SELECT 1 FROM turns WHERE turns.id = {{row}} AND {where})"  # noqa: S608
    known, key = history.known(connection), ("visible turns", where, *values)
    if key not in known:
        known[key] = fts.sample_visible(connection, "turns_fts", seen, values)
    visible: fts.Visible = known[key]
    return visible


def _has_others(connection: sqlite3.Connection, viewer: Viewer) -> bool:
    """Tell whether anybody but the owners ever spoke."""
    speakers = connection.execute("SELECT author_platform, author_user_id FROM speakers")
    return any(
        Author(unpack(platform), unpack(user_id)).slug not in viewer.rules.own
        for platform, user_id in speakers
    )


def _visible_scores(
    connection: sqlite3.Connection,
    target: str,
    visible: fts.Visible,
    among: tuple[str, str, list[object]],
    depth: int,
) -> dict[int, float]:
    """Score the best turns `among` those of a view that a condition holds for, best first."""
    view, where, values = among
    only = f" AND EXISTS (SELECT 1 FROM {view} WHERE turns.id = {{row}}{where})"  # noqa: S608
    return fts.visible_scores(
        connection,
        "turns_fts",
        target,
        most_rows=MOST_RANKED,
        depth=depth,
        visible=visible,
        only=only,
        values=values,
    )


def affordable_query(connection: sqlite3.Connection, target: str) -> tuple[str, int, bool]:
    """Return the query for the turns to rank, the oldest such turn, and whether it is ranked.

    The words that select turns occur twice in it: that is faster than checking each of a million
    turns for whether it was selected.
    """
    choice = fts.choose(connection, "turns_fts", target, MOST_RANKED)
    if choice.rows in {"", choice.match}:
        return choice.match, choice.newest, choice.is_ranked
    return f"({choice.rows}) AND ({choice.match})", 0, True


MOST_SAMPLED: Final = 20_000
"""Of a longer history, at most so many turns are looked at for what is of all of the time."""

DEPTH: Final = 400
"""How many turns are scored by their own words."""

NEAR_DEPTH: Final = 200
"""How many turns that are near in meaning are looked at, besides those found by words."""

NEAR_FLOOR: Final = 0.25
"""Least nearness of a turn that holds none of the words; below it, things are unrelated."""

SURROUNDED: Final = 150
"""Of how many turns, the best, those beside them are looked at as well."""

BESIDE: Final = (1.0, 0.7, 0.4, 0.2)
"""How much the words of a turn count for it, and for the ones one, two and three turns away."""

_REACH: Final = len(BESIDE) - 1
_NONE: Final = -1
_NO_TURNS: Final = (0,) * _REACH
_NO_SESSIONS: Final = (_NONE,) * _REACH
_STEPS: Final = tuple(
    (sign * step, BESIDE[step]) for sign in (-1, 1) for step in range(1, _REACH + 1)
)
TOKENS_REACH: Final = 2
"""A turn is compared token by token together with the ones so many turns away."""

OF_TURN: Final = 0.5
OF_PASSAGE: Final = 1.0
OF_SESSION: Final = 0.5
"""Shares of a turn's own words, of those beside it, and of its session, in what turns score."""

CITED_FIRST: Final = 0.4
"""Share of the score for being cited that a turn has from the start; the rest is its lift."""

_FIRST_LOOK: Final = 2 * DEPTH
_DEEPER: Final = 8
_HELD_BY: Final = 20  # turns with such words for each turn of a person that may be found
_LAST_LOOK: Final = 1_000_000
_LOOK: Final = 400  # turns read at once
_MOST_LISTED: Final = 5_000  # turns of a history
_UNREAD: Final = 40  # of the newest turns, so many are read instead of searched
_SESSION_MS: Final = 6 * 3600 * 1000  # as long as a part of the day in a session file

# Turns of a channel on one side of a place.
_AT_HOME: Final = (
    f"SELECT turns.id, turns.at_ms / {_SESSION_MS}, turns.id AS place"  # noqa: S608
    " FROM standing AS turns WHERE turns.channel_id = ? AND turns.id {0} ? AND {where}"
)
_MOVED: Final = (
    f"SELECT turns.id, turns.at_ms / {_SESSION_MS}, places.place FROM places"  # noqa: S608
    " JOIN standing AS turns ON turns.id = places.turn_id"
    " WHERE places.channel_id = ? AND places.place {0} ? AND {where}"
)
_SESSION: Final = f"turns.id, turns.at_ms / {_SESSION_MS}"
_SPOT: Final = f"{_SESSION}, {PLACED}, turns.channel_id"
_Spot = tuple[int, int, object]  # session, place and channel of a turn
_BESIDE: Final = f"{_AT_HOME} ORDER BY place {{1}} LIMIT {{2}}"
_BESIDE_MOVED: Final = (
    f"{_AT_HOME} AND NOT EXISTS (SELECT 1 FROM places WHERE places.turn_id = turns.id)"  # noqa: S608
    f" UNION ALL {_MOVED} ORDER BY place {{1}} LIMIT {{2}}"
)

# What may be noted of a turn after it was written.
_STATES: Final = """SELECT turns.id, reply_to, place, platform, user_id FROM turns
    LEFT JOIN replies ON replies.turn_id = turns.id LEFT JOIN places ON places.turn_id = turns.id
    LEFT JOIN one_to_one ON one_to_one.turn_id = turns.id WHERE turns.id IN"""


class RecallHit(Struct, frozen=True):
    """A turn that matches.

    Args:
        score: Relevance in [0, 1]; the best match of a query has about 1.
        before: The preceding turn in its channel, if it was among the turns examined.
        lift: What a line of memory that cites the turn would add to its score.
        above: The turns above it in its channel that were examined, nearest first.
    """

    turn: Turn
    score: float
    before: Turn | None
    lift: float = 0.0
    above: tuple[int, ...] = ()


class Recollection(Struct, frozen=True):
    """Result of a recall.

    Args:
        turns: The turns, best first.
        unread: Number of turns not in the full-text table yet.
    """

    turns: tuple[RecallHit, ...] = ()
    unread: int = 0


class Nearness(Protocol):
    """Semantic similarity of turns to a query; any turn may lack a vector, or those of its tokens.

    Attributes:
        share: Weight of similarity against words, in [0, 1].
        tokens_share: The same where tokens were compared.
    """

    @property
    def share(self) -> float:
        """Weight of similarity against words, in [0, 1]."""

    @property
    def tokens_share(self) -> float:
        """The same where tokens were compared."""

    def nearest(self, count: int) -> Sequence[int]:
        """Return the ids of about `count` most similar turns."""

    def of(self, ids: Sequence[int]) -> dict[int, float]:
        """Return the similarity of turns that have a vector: 0 is unrelated, 1 a likely answer."""

    def by_tokens(
        self,
        connection: sqlite3.Connection,
        around: Mapping[int, Sequence[int]],
        speakers: Collection[str],
        visible: fts.Visible | None,
    ) -> dict[int, float]:
        """Return the token similarity of turns with those around each; the best has about 1."""


def recall(
    history: HistoryFile,
    query: str,
    *,
    near: Nearness | None = None,
    cited: Mapping[int, float] | None = None,
    channel_id: str | None = None,
    here: str | None = None,
    viewer: Viewer,
    before_id: int | None = None,
    leave_out: Collection[int] = (),
    only_people: bool = False,
    between_ms: Sequence[tuple[int, int]] = (),
    wide: bool = False,
    limit: int = 100,
    within_s: float | None = None,
) -> Recollection:
    """Return the turns that match `query`.

    Args:
        query: A message. It has no query syntax.
        near: Similarity scorer; None: search by words alone.
        cited: Turns cited by a line of memory, with the score that they have at most for it, of
            which they inherit `CITED_FIRST` at once.
        channel_id: Only turns of this channel's past; None: of all channels.
        here: The channel in which the result is used. Of channels that share a beginning, only this
            one's past is searched, wherever it was said; None: no particular channel.
        viewer: Who will see them.
        before_id: Only turns placed before this one.
        leave_out: Turns to exclude.
        only_people: Exclude turns of the familiar.
        between_ms: Only turns within these ranges, in milliseconds since 1970; empty: any time.
        wide: Include turns spread over the whole period, even without matching words.
        limit: Maximum number of turns.
        within_s: Time limit in seconds for indexing new turns.
    """
    target = fts.match_any(fts.bounded_query(query))
    if target is None and near is None and not wide and not cited:
        return Recollection()
    with _use_words(history, within_s=within_s) as (connection, missing):
        condition = _condition(connection, channel_id, here, viewer, before_id)
        condition = _narrowed(condition, between_ms, only_people=only_people)
        has_words = is_ready(connection)
        visible = _visible_turns(history, connection, viewer) if has_words else None
        own, spots = dict[int, float](), dict[int, _Spot]()
        if target and has_words:
            own = _by_words(connection, target, condition, visible, spots)
        spread, is_all = list[int](), False
        if wide:
            seen = selection.visible_condition(viewer) if visible else None
            spread, is_all = _evenly(connection, condition, seen)
        alike: dict[int, float] = {}
        if near and not is_all:  # turns examined anyway need no search
            alike = _by_meaning(connection, near, own, condition)
        alike = dict.fromkeys(spread, 0.0) | alike
        places = _placed(history, connection, own, alike, condition, spots=spots)
        scores, lifts = _word_scores(own, places), dict[int, float]()
        if near:
            alike, by_tokens = near.of(sorted(places.at)), dict[int, float]()
            if has_words:
                able = [i for i in sorted(places.at) if i not in leave_out]
                passages = {i: places.within(TOKENS_REACH, i) for i in able if i in alike}
                names = _speakers(connection, able)
                by_tokens = near.by_tokens(connection, passages, names, visible)
            shares = (near.share, near.tokens_share) if own else (1.0, 1.0)
            scores = _fused(scores, alike, by_tokens, shares, places)
            scores = dict.fromkeys(spread, 0.0) | scores
        if cited:
            known = _allowed(connection, cited, condition)
            alone = known - places.at.keys()
            places.add_alone(_spots(connection, alone), alone)
            scores |= {i: max(CITED_FIRST * cited[i], scores.get(i, 0.0)) for i in known}
            lifts = {i: max(cited[i] - scores[i], 0.0) for i in known}
        ranked = sorted((-score - lifts.get(i, 0.0), i) for i, score in scores.items())
        best = [i for _, i in ranked if i not in leave_out][:limit]
        above = [places.above(i) for i in best]
        turns = _read_turns(history, connection, {*best, *(some[0] for some in above if some)})
    matches = [
        RecallHit(
            turns[i], scores[i], turns.get(some[0]) if some else None, lifts.get(i, 0.0), some
        )
        for i, some in zip(best, above, strict=True)
        if i in turns
    ]
    return Recollection(tuple(matches), missing)


def newest_saying(
    history: HistoryFile,
    phrases: tuple[str, ...],
    is_meant: Callable[[str], bool],
    *,
    viewer: Viewer,
    here: str,
    before_id: int | None,
    limit: int,
) -> list[Turn]:
    """Return people's turns with a text that is meant, newest first.

    Args:
        phrases: Word sequences, without quotation marks, of which each text that is meant has one.
        is_meant: Tells whether a text is meant.
        viewer: Who will see them.
        here: The channel in which the result is used; see `recall`.
        before_id: Only turns placed before this one.
        limit: Maximum number of turns that contain a phrase.
    """
    turns, looked_at = list[Turn](), 0
    with history.use(create=False) as connection:
        if not is_ready(connection):
            return []
        condition = _condition(connection, None, here, viewer, before_id)
        where, values = _narrowed(condition, (), only_people=True)
        select = f"SELECT {SELECTED_STANDING} FROM standing AS turns WHERE {where} AND id IN"  # noqa: S608
        ids, through = _ids_saying(history, connection, _match_phrases(phrases), _HELD_BY * limit)
        for start in range(0, len(ids), _LOOK):
            rows = rows_among(connection, select, ids[start : start + _LOOK], values)
            for turn in map(to_turn, sorted(rows, key=itemgetter(0), reverse=True)):
                is_one = is_meant(turn.content)
                looked_at += is_one or turn.id <= through
                if looked_at > limit:
                    return turns
                turns += [turn] * is_one
    return turns


def _ids_saying(
    history: HistoryFile, connection: sqlite3.Connection, target: str, limit: int
) -> tuple[list[int], int]:
    """Return the newest turns that contain one of many phrases, newest first, and those after them.

    Looking for the phrases takes as long as the rest of a search. So the result is kept, and only
    after some more turns are they looked for again. The second value is the last turn looked at.
    """
    last = _last_turn(connection)
    through, ids = history.phrase_turns.get(target, (0, []))
    if not last - _UNREAD <= through <= last:
        sql = "SELECT rowid FROM turns_fts WHERE turns_fts MATCH ? ORDER BY rowid DESC LIMIT ?"
        ids = [row[0] for row in connection.execute(sql, (target, limit))]
        through = _last_indexed(connection)
        history.phrase_turns[target] = through, ids
    return [*range(last, max(through, last - _UNREAD), -1), *ids], through


@lru_cache(maxsize=4)  # the same ones for every message
def _match_phrases(phrases: tuple[str, ...]) -> str:
    targets = (fts.indexable(phrase).join('""') for phrase in phrases if '"' not in phrase)
    return " OR ".join(targets)


class _Places(Struct):
    """Turns in their order, one strip of turns that follow each other in a channel after another.

    Args:
        ids: The turns; no turn (0) stands between strips, for as far as a turn reaches.
        sessions: The number of each one's session, `_NONE` if it was not found.
        at: Where the turns are that are examined.
        numbers: The sessions, each a channel and a time.
    """

    ids: list[int] = field(default_factory=lambda: [*_NO_TURNS])
    sessions: list[int] = field(default_factory=lambda: [*_NO_SESSIONS])
    at: dict[int, int] = field(default_factory=dict)
    numbers: dict[tuple[object, int], int] = field(default_factory=dict)

    def add_alone(self, spots: Mapping[int, _Spot], ids: Iterable[int]) -> None:
        """Add turns without those beside them."""
        for turn_id in ids:
            session, _, channel = spots[turn_id]
            self.at[turn_id] = len(self.ids)
            number = self.numbers.setdefault((channel, session), len(self.numbers))
            self.ids += turn_id, *_NO_TURNS
            self.sessions += number, *_NO_SESSIONS

    def above(self, turn_id: int) -> tuple[int, ...]:
        """Return the turns above one in its channel, nearest first."""
        at = self.at[turn_id]
        above = self.ids[at - _REACH : at][::-1]
        return tuple(above if above[-1] else filter(None, above))

    def within(self, reach: int, turn_id: int) -> list[int]:
        """Return a turn and those of its session that are at most so many turns away."""
        ids, sessions, at = self.ids, self.sessions, self.at[turn_id]
        low, end, session = at - reach, at + reach + 1, sessions[at]
        if sessions[low:end].count(session) == end - low:
            return ids[low:end]
        return [ids[i] for i in range(low, end) if sessions[i] == session]


def _condition(
    connection: sqlite3.Connection,
    channel_id: str | None,
    here: str | None,
    viewer: Viewer,
    before_id: int | None,
) -> tuple[str, list[object]]:
    """Build the SQL condition, and its values, for turns that may be found at all."""
    may_be_seen, values = selection.visible_condition(viewer)
    parts = [may_be_seen]
    if channel_id is not None:
        of_past, past = in_past(parts_of(connection, channel_id))
        parts.append(of_past)
        values += past
    if here is not None:
        may_be_heard, given = heard_condition(connection, here)
        parts.append(may_be_heard)
        values += given
    if before_id is not None:
        parts.append(f"{PLACED} < ?")
        values.append(before_id)
    return " AND ".join(parts), values


def _narrowed(
    condition: tuple[str, list[object]], between_ms: Sequence[tuple[int, int]], *, only_people: bool
) -> tuple[str, list[object]]:
    """Narrow a condition to turns of some times, or of people."""
    where, values = condition
    if only_people:
        where += " AND turns.role = 'user'"
    if between_ms:
        where += f" AND ({' OR '.join(['turns.at_ms BETWEEN ? AND ?'] * len(between_ms))})"
        values = [*values, *(moment for pair in between_ms for moment in pair)]
    return where, values


def _evenly(
    connection: sqlite3.Connection,
    condition: tuple[str, list[object]],
    seen: tuple[str, list[object]] | None,
) -> tuple[list[int], bool]:
    """Return matching turns spread evenly over time, and whether they are all.

    Of a long history only a sample is looked at, at equal distances among the turns that are `seen`
    (None: all), so that hidden turns do not affect which ones.
    """
    where, values = condition
    last = _last_turn(connection)
    ids: Sequence[int] = range(1, last + 1)
    if seen and last > MOST_SAMPLED:
        rows = connection.execute(f"SELECT id FROM turns WHERE {seen[0]}", seen[1])  # noqa: S608
        ids = sorted(i for (i,) in rows)  # by id, SQLite would read the texts as well
    gap = max(-(-len(ids) // MOST_SAMPLED), 1)
    sql = f"SELECT id FROM standing AS turns WHERE {where}"  # noqa: S608
    if gap > 1:
        items = [i for (i,) in rows_among(connection, f"{sql} AND id IN", ids[::gap], values)]
    else:
        items = [i for (i,) in connection.execute(f"{sql} ORDER BY at_ms, id", values)]
    step = max(len(items) / DEPTH, 1.0)
    is_all = gap == 1 and len(items) <= DEPTH
    return [items[int(n * step)] for n in range(int(len(items) / step))], is_all


def _by_words(
    connection: sqlite3.Connection,
    target: str,
    condition: tuple[str, list[object]],
    visible: fts.Visible | None,
    spots: dict[int, _Spot],
) -> dict[int, float]:
    """Return the best matches by words, with their scores; `spots` may get where they are."""
    if visible:
        among = "standing AS turns", f" AND {condition[0]}", condition[1]
        return _visible_scores(connection, target, visible, among, DEPTH)
    match, oldest, is_ranked = affordable_query(connection, target)
    # `ORDER BY rank` would take twice as long.
    rank, order = ("-bm25(turns_fts)", "score DESC") if is_ranked else ("1.0", "rowid DESC")
    where, values = condition
    last = _last_turn(connection)
    # Rank before reading turns: a turn is a hundred times larger than its rank.
    sql = (
        f"SELECT score, {_SPOT} FROM (SELECT rowid AS found, {rank} AS score FROM turns_fts"  # noqa: S608
        f" WHERE turns_fts MATCH ? AND rowid >= ? ORDER BY {order} LIMIT ?)"
        f" JOIN standing AS turns ON turns.id = found WHERE {where}"
        f" ORDER BY score DESC LIMIT {DEPTH}"
    )
    depth = _FIRST_LOOK
    while True:
        rows = connection.execute(sql, (match, oldest, depth, *values)).fetchall()
        result = {row[1]: row[0] for row in rows}
        spots |= {row[1]: row[2:] for row in rows}
        # Those that may not be found could hide all others from the first look.
        if len(result) >= DEPTH or depth > min(_LAST_LOOK, last):
            return result
        more = "SELECT 1 FROM turns_fts WHERE turns_fts MATCH ? AND rowid >= ? LIMIT 1 OFFSET ?"
        if connection.execute(more, (match, oldest, depth)).fetchone() is None:
            return result
        depth *= _DEEPER


def _by_meaning(
    connection: sqlite3.Connection,
    near: Nearness,
    own: dict[int, float],
    condition: tuple[str, list[object]],
) -> dict[int, float]:
    """Return the most similar turns that may be found, with their similarity."""
    depth, known = NEAR_DEPTH, dict.fromkeys(own, True)  # which meet the condition
    while True:
        nearest = near.nearest(depth)
        some = _first_allowed(connection, nearest, condition, known)
        # Those that may not be found could hide all others from the first look.
        if len(some) >= NEAR_DEPTH or len(nearest) < depth:
            break
        depth *= _DEEPER
    return {i: value for i, value in near.of(sorted({*some, *own})).items() if value >= NEAR_FLOOR}


def _first_allowed(
    connection: sqlite3.Connection,
    ids: Sequence[int],
    condition: tuple[str, list[object]],
    known: dict[int, bool],
) -> list[int]:
    """Return the first `NEAR_DEPTH` of these turns that may be found; `known` is added to."""
    result: list[int] = []
    for start in range(0, len(ids), NEAR_DEPTH):
        some = ids[start : start + NEAR_DEPTH]
        new = [i for i in some if i not in known]
        allowed = _allowed(connection, new, condition)
        known |= {i: i in allowed for i in new}
        result += filter(known.get, some)
        if len(result) >= NEAR_DEPTH:
            break
    return result[:NEAR_DEPTH]


def _allowed(
    connection: sqlite3.Connection, ids: Iterable[int], condition: tuple[str, list[object]]
) -> set[int]:
    """Return those of these turns that may be found."""
    where, values = condition
    select = f"SELECT id FROM standing AS turns WHERE {where} AND id IN"  # noqa: S608
    return {i for (i,) in rows_among(connection, select, ids, values)}


def _fused(
    words: dict[int, float],
    alike: dict[int, float],
    by_tokens: dict[int, float],
    shares: tuple[float, float],
    places: _Places,
) -> dict[int, float]:
    """Combine scores by words with similarity, which a turn without a vector lacks.

    Args:
        alike: Similarity independent of the other candidates.
        by_tokens: Similarity relative to them, where tokens were compared.
        shares: Weights of the two against words.
    """
    fused = {}
    for turn_id, by_words in words.items():
        own, value = alike.get(turn_id), by_tokens.get(turn_id)
        if own is None and by_words:
            fused[turn_id] = by_words
        elif own is not None and (by_words or own >= NEAR_FLOOR):
            share = shares[value is not None]
            if value is None:
                passage = max(alike.get(i, 0.0) for i in places.within(1, turn_id))
                value = (own + passage) / 2
            fused[turn_id] = (1 - share) * by_words + share * value
    return fused


def _placed(
    history: HistoryFile,
    connection: sqlite3.Connection,
    own: dict[int, float],
    alike: dict[int, float],
    condition: tuple[str, list[object]],
    *,
    spots: dict[int, _Spot],
) -> _Places:
    """Return the positions of the turns found, and the neighbours of the best ones."""
    top = max(own.values(), default=0.0) or 1.0
    worth = alike | {i: max(score / top, alike.get(i, 0.0)) for i, score in own.items()}
    best = sorted((-value, i) for i, value in worth.items())[:SURROUNDED]
    spots |= _spots(connection, worth.keys() - spots.keys())
    wanted = sorted(((i, *spots[i]) for _, i in best), key=lambda one: (one[2], one[0]))
    places = _strips(history, connection, wanted, condition, worth, spots=spots)
    places.add_alone(spots, worth.keys() - places.at.keys())
    return places


def _spots(connection: sqlite3.Connection, ids: Iterable[int]) -> dict[int, _Spot]:
    """Return where some turns are."""
    rows = rows_among(connection, f"SELECT {_SPOT} FROM turns WHERE id IN", ids)  # noqa: S608
    return {turn_id: (session, place, channel) for turn_id, session, place, channel in rows}


def _strips(
    history: HistoryFile,
    connection: sqlite3.Connection,
    wanted: Sequence[tuple[int, int, int, object]],
    condition: tuple[str, list[object]],
    others: Collection[int],
    *,
    spots: Mapping[int, _Spot],
) -> _Places:
    """Return the positions of turns, sorted by place, and neighbours; `others` are found, too.

    Where the turns close by may all be found, a list of the channel's turns tells which they are.

    Args:
        spots: Where turns are that may be found, all those that are `wanted` included.
    """
    some_moved = connection.execute("SELECT 1 FROM places LIMIT 1").fetchone() is not None
    lists = {} if some_moved else _turns_by_channel(history, connection)
    strips = _listed_strips(wanted, lists)
    unknown = {i for _, strip, _ in strips for i in strip} - spots.keys()
    where, values = condition
    select = f"SELECT {_SESSION} FROM standing AS turns WHERE {where} AND turns.id IN"  # noqa: S608
    sessions = dict(rows_among(connection, select, unknown, values))
    hidden = unknown - sessions.keys()
    to_read = {one[0] for one in strips if not hidden.isdisjoint(one[1])} if hidden else set()
    sessions |= {i: spot[0] for i, spot in spots.items()}
    places = _Places()
    for channel, strip, items in strips:
        if channel not in to_read:
            times = [sessions[i] for i in strip]
            _add_strip(places, channel, strip, times, items=items, others=others)
    rest = [one for one in wanted if one[3] in to_read or one[3] not in lists]
    for channel, rows, items in _read_strips(connection, rest, condition, some_moved=some_moved):
        ids, times = [row[0] for row in rows], [row[1] for row in rows]
        _add_strip(places, channel, ids, times, items=items, others=others)
    return places


def _turns_by_channel(
    history: HistoryFile, connection: sqlite3.Connection
) -> dict[object, list[int]]:
    """Return the turns of each channel, hidden ones included; of a long history, nothing."""
    last = _last_turn(connection)
    if last > _MOST_LISTED or connection.in_transaction:  # it may be rolled back
        return {}
    history.said(connection)  # drops the lists after turns were forgotten
    through, lists = history.channel_turns
    if through != last:
        sql = "SELECT channel_id, id FROM turns WHERE id > ? ORDER BY id"
        for channel, turn_id in connection.execute(sql, (through,)).fetchall():
            lists.setdefault(channel, []).append(turn_id)
            through = turn_id  # others may have added some since
        history.channel_turns = through, lists
    return lists


def _listed_strips(
    wanted: Sequence[tuple[int, int, int, object]], lists: Mapping[object, list[int]]
) -> list[tuple[object, list[int], list[int]]]:
    """Return the strips of those channels that have lists, each with where wanted turns are."""
    items_by_channel: dict[object, list[list[int]]] = {}
    for turn_id, _, _, channel in wanted:
        if channel in lists:
            groups = items_by_channel.setdefault(channel, [])
            at = bisect_left(lists[channel], turn_id)
            if groups and at - groups[-1][-1] <= 3 * _REACH:  # neighbours are in one strip
                groups[-1].append(at)
            else:
                groups.append([at])
    strips = []
    for channel, groups in items_by_channel.items():
        for items in groups:
            start = max(items[0] - 2 * _REACH, 0)
            strip = lists[channel][start : items[-1] + 3 * _REACH + 1]
            strips.append((channel, strip, [at - start for at in items]))
    return strips


def _read_strips(
    connection: sqlite3.Connection,
    wanted: Sequence[tuple[int, int, int, object]],
    condition: tuple[str, list[object]],
    *,
    some_moved: bool,
) -> Iterator[tuple[object, list[Sequence[int]], list[int]]]:
    """Yield the rows of strips, each with where wanted turns are; those close are read at once."""
    where, values = condition
    beside = _BESIDE_MOVED if some_moved else _BESIDE
    # Twice the reach, so that each neighbour has all of its own neighbours.
    above = beside.format("<", "DESC", 2 * _REACH, where=where)
    below = beside.format(">", "ASC", -1, where=where)
    left = {row[0] for row in wanted}
    for *turn, channel in wanted:
        if turn[0] not in left:  # near another one
            continue
        given = (channel, turn[2], *values) * (2 if some_moved else 1)
        strip = [*connection.execute(above, given).fetchall()[::-1], turn]
        items = [len(strip) - 1]
        for row in connection.execute(below, given):
            if row[0] in left:
                items.append(len(strip))
            strip.append(row)
            if len(strip) - items[-1] > 3 * _REACH:  # neighbours are in one strip
                break
        left.difference_update([strip[at][0] for at in items])
        yield channel, strip, items


def _add_strip(
    places: _Places,
    channel: object,
    ids: Sequence[int],
    sessions: Sequence[int],
    *,
    items: Iterable[int],
    others: Collection[int],
) -> None:
    """Add the turns of a strip, of which some `items` and their neighbours are examined."""
    examined = bytearray(len(ids) + _REACH)
    for at in items:
        low = max(at - _REACH, 0)
        examined[low : at + _REACH + 1] = b"\1" * (at + _REACH + 1 - low)
    last, number, start, numbers = _NONE, _NONE, len(places.ids), places.numbers
    for at, (turn_id, session) in enumerate(zip(ids, sessions, strict=True)):
        if examined[at]:
            places.at[turn_id] = start + at
        elif turn_id not in others:
            places.sessions.append(_NONE)
            continue
        if session != last or number == _NONE:
            last, number = session, numbers.setdefault((channel, session), len(numbers))
        places.sessions.append(number)
    places.ids += *ids, *_NO_TURNS
    places.sessions += _NO_SESSIONS


def _word_scores(own: dict[int, float], places: _Places) -> dict[int, float]:
    """Return the word score of each turn examined; the best has 1."""
    if not own:
        return dict.fromkeys(places.at, 0.0)
    passages, sessions = _passage_scores(own, places), places.sessions
    shares = [0.0] * len(places.numbers)
    for turn_id, score in own.items():
        shares[sessions[places.at[turn_id]]] += score * score
    shares = [share**0.5 for share in shares]
    top_own, top_passage = max(own.values()) or 1.0, max(passages) or 1.0
    top_session = max(shares) or 1.0
    of_session = [OF_SESSION * share / top_session for share in shares]
    raw = [
        OF_TURN * own.get(turn_id, 0.0) / top_own
        + OF_PASSAGE * passage / top_passage
        + of_session[sessions[at]]
        for (turn_id, at), passage in zip(places.at.items(), passages, strict=True)
    ]
    top = max(raw) or 1.0
    return {turn_id: score / top for turn_id, score in zip(places.at, raw, strict=True)}


def _passage_scores(own: dict[int, float], places: _Places) -> list[float]:
    """Return the scores of turns with those beside them, in their session, each by its distance."""
    passages, sessions = [], places.sessions
    scores = [own.get(turn_id, 0.0) for turn_id in places.ids]
    for at in places.at.values():
        session, passage = sessions[at], BESIDE[0] * scores[at]
        if sessions[at - 1] != _NONE or sessions[at + 1] != _NONE:
            for step, weight in _STEPS:
                if sessions[at + step] == session:
                    passage += weight * scores[at + step]
        passages.append(passage)
    return passages


def _speakers(connection: sqlite3.Connection, ids: Iterable[int]) -> set[str]:
    """Return the names of who speaks in some turns."""
    select = "SELECT DISTINCT author_display_name, author_username FROM turns WHERE id IN"
    return {unpack(name) for names in rows_among(connection, select, ids) for name in names if name}


def _read_turns(
    history: HistoryFile, connection: sqlite3.Connection, ids: Collection[int]
) -> dict[int, Turn]:
    """Return some turns that stand; of those read before, only what may change is read."""
    said, wanted = history.said(connection), sorted(ids)
    states = {turn_id: state for turn_id, *state in rows_among(connection, _STATES, wanted)}
    new = [i for i, state in states.items() if i not in said or said[i][0] != state]
    for row in rows_among(connection, f"SELECT {SELECTED_STANDING} FROM turns WHERE id IN", new):  # noqa: S608
        said[row[0]] = states[row[0]], to_turn(row)
    return {i: said[i][1] for i in states}
