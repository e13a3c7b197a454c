"""Memory as of a day, the timeline, the diary, and reverting changes."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import date, datetime, time, timedelta, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from familiar_cli.actions.memory.fact_days import fact_days, pages_known, text_then
from familiar_cli.actions.people.people import publish_names
from familiar_cli.base.config.home import FamiliarPaths
from familiar_cli.base.errors import FamiliarError, NotFoundError, UsageError
from familiar_cli.base.markdown import without_marker
from familiar_cli.base.text import bare_lines
from familiar_cli.base.times.clock import now, to_utc, to_zone
from familiar_cli.base.times.when import MONTHS, read_day
from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER, Viewer
from familiar_cli.context.trace import Trace, read_trace, trace_ids
from familiar_cli.context.types import Said
from familiar_cli.familiar import Familiar
from familiar_cli.store.history import statistics
from familiar_cli.store.history.selection import kept_turns
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.pages.lines import readable_text, turn_ids
from familiar_cli.store.memory.pages.visible_lines import visible_in
from familiar_cli.writing.consolidation.periods import TIERS, day_of, period_in, session_day

if TYPE_CHECKING:
    from familiar_cli.store.history.rows import Turn
    from familiar_cli.store.journal.history import JournalDay, JournalDays
    from familiar_cli.store.journal.past import UndoResult

_READ_S: Final = 60.0
_MOST_FILES: Final = 5_000  # a memory is written anew for the prompt of a day


class AsOf(Struct, frozen=True):
    """Memory as of a day.

    Args:
        state: Last day with a change up to it; None before the first.
        days: All days with changes, oldest first.
        files: Number of files.
        since: State compared with; None for the empty memory.
        changed: Files that differ from it.
        last_turn: Last turn up to the end of the day.
        trace: Trace of the last prompt up to then, or None.
    """

    day: date
    state: JournalDay | None
    days: tuple[JournalDay, ...]
    files: int
    since: JournalDay | None
    changed: tuple[str, ...]
    last_turn: Turn | None
    trace: Trace | None


def as_of(familiar: Familiar, day: date, since: date | None = None) -> AsOf:
    """Return memory as of a day, compared with an earlier one.

    Args:
        day: The day, up to its end.
        since: Day to compare with; None for the day before.
    """
    days = familiar.journal_days
    known, state = tuple(days.all()), days.at(day)
    old = days.at(since if since is not None else day - timedelta(days=1))
    changed: tuple[str, ...] = ()
    if state:
        differ = days.changed(old.commit if old else None, state.commit)
        changed = tuple(path for path in differ if not layout.is_hidden(path))
    files = days.every_file(state.commit) if state else []
    trace = _last_trace(familiar, end_of(familiar, day))
    turn = familiar.history.turn(trace.turn) if trace and trace.turn else None
    count = sum(not layout.is_hidden(path) for path, _ in files)
    return AsOf(day, state, known, count, old, changed, turn, trace)


def end_of(familiar: Familiar, day: date) -> datetime:
    """Return the end of a day in the familiar's timezone."""
    return to_utc(datetime.combine(day + timedelta(days=1), time()), familiar.zone)


def local_today(familiar: Familiar) -> date:
    """Return today's date in the familiar's timezone."""
    return to_zone(now(), familiar.zone).date()


def _last_trace(familiar: Familiar, end: datetime) -> Trace | None:
    """Return the last trace before a moment; traces are numbered chronologically."""
    ids = sorted(trace_ids(familiar.paths.traces))
    low, high, found = 0, len(ids), None
    while low < high:
        middle = (low + high) // 2
        try:
            trace = read_trace(familiar.paths.traces, ids[middle])
        except FamiliarError:
            del ids[middle]
            high -= 1
            continue
        if trace.at < end:
            low, found = middle + 1, trace
        else:
            high = middle
    return found


async def prompt_then(familiar: Familiar, day: date, text: str, channel_id: str = "cli") -> Trace:
    """Return the prompt that `text` would have produced at the end of a day.

    Uses that day's memory and history with current settings. Nothing is sent or stored.

    Raises:
        NotFoundError: There was no memory yet.
        UsageError: Nothing is said, or the memory was too large to write it anew.
    """
    if not text.strip():
        raise UsageError("The message is empty, so there is no prompt to build")
    days = familiar.journal_days
    state = days.at(day)
    facts, _ = fact_days(familiar).read(familiar, _READ_S)
    known = {path for path, _ in pages_known(facts, day)}
    if state is None and not known:
        raise NotFoundError(f"There was no memory yet on {day}")
    there = days.every_file(state.commit) if state else []
    if len(there) > _MOST_FILES:
        raise UsageError(
            f"The memory of {day} has {len(there):,} files; a past prompt can be built from at "
            f"most {_MOST_FILES:,}"
        )
    with tempfile.TemporaryDirectory(prefix="familiar-as-of-") as directory:
        root = Path(directory) / familiar.paths.id
        _lay_out(familiar, days, there, root)
        for path in known:
            _write_file(root, path, (text_then(familiar, path, day) or "").encode())
        then = Familiar(FamiliarPaths(root))
        then.history = familiar.history
        then.finder.embedder = familiar.finder.embedder
        then.index.refresh()
        return await _assemble_then(then, end_of(familiar, day), text, channel_id)


def _lay_out(
    familiar: Familiar, days: JournalDays, there: list[tuple[str, str]], root: Path
) -> None:
    """Write a day's memory and the current settings to a temporary directory."""
    import shutil

    for rel_path, object_id in there:
        _write_file(root, rel_path, days.blob(object_id))
    (root / "memory").mkdir(parents=True, exist_ok=True)
    for source, target in (
        (familiar.paths.config, root / "character.toml"),
        (familiar.paths.me, root.parent / "me.toml"),
    ):
        if source.is_file():
            shutil.copyfile(source, target)
    if familiar.paths.channels.is_dir():
        shutil.copytree(familiar.paths.channels, root / "channels")


def _write_file(root: Path, rel_path: str, content: bytes) -> None:
    path = root / "memory" / rel_path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


async def _assemble_then(then: Familiar, end: datetime, text: str, channel_id: str) -> Trace:
    from familiar_cli.actions.talk.prompt import pipeline
    from familiar_cli.actions.talk.talk import turn_request
    from familiar_cli.actions.talk.turn_setup import turn_setup
    from familiar_cli.context.turn import dry_run

    said = Said(text, then.me(channel_id).author, channel_id, greeting=0)
    setup = turn_setup(then, channel_id)
    before_id = then.history.first_since(end)
    request = turn_request(
        then, said, setup, at=end - timedelta(seconds=1), before_id=before_id or None
    )
    assembled = await pipeline(then, setup, dry=True).assemble(request)
    return dry_run(assembled, model=then.models.slot().model, counter=then.counter.name)


SPANS: Final = ("year", "quarter", "month")
_MONTHS: Final = {"year": 12, "quarter": 3, "month": 1}
_MOST_TURNS: Final = 50_000  # that a span may hold which nobody asked for
_MOST_LANES: Final = 12
MOST_OF_YEAR: Final = 50_000
"""So many turns of a year are counted."""

_MOST_YEARS: Final = 60
_MUCH: Final = 0.1  # of what the busiest year has
_LAST_YEAR: Final = 9998
_DAY: Final = timedelta(days=1)
_HOUR: Final = timedelta(hours=1)


class DayCount(Struct, frozen=True):
    """Number of turns on a day, and the id of one of the first."""

    day: date
    turns: int
    first: int


class DatedFile(Struct, frozen=True):
    """A file about a span of days, both ends included."""

    rel_path: str
    first: date
    last: date


class Lane(Struct, frozen=True):
    """A person, and the days on which they spoke.

    Args:
        rel_path: Their file; empty if there is none.
        turns: Number of their turns.
    """

    name: str
    rel_path: str
    days: tuple[DayCount, ...]
    turns: int


class Timeline(Struct, frozen=True):
    """A span of the past.

    Args:
        span: `year`, `quarter` or `month`.
        first: Its first day.
        last: Its last day.
        days: The days on which something was said.
        rows: By directory (`sessions`, `daily` … `significant`), the files about days in it.
        lanes: Those who spoke most, the familiar left out.
        others: How many more spoke.
        begins: The day of the first turn of all; None: there is none.
        ends: The day of the last.
        years: How many turns were said in each year that has some, at most `MOST_OF_YEAR` each.
    """

    span: str
    first: date
    last: date
    days: tuple[DayCount, ...]
    rows: dict[str, tuple[DatedFile, ...]]
    lanes: tuple[Lane, ...]
    others: int
    begins: date | None
    ends: date | None
    years: tuple[tuple[int, int], ...] = ()

    @property
    def before(self) -> date:
        """The last day of the previous span."""
        return self.first - _DAY

    @property
    def after(self) -> date:
        """A day in the next span."""
        return self.last + _DAY

    def share(self, day: date, later: int = 0) -> float:
        """Return the position of a day, or of some days later, in the span, in [0, 1]."""
        passed = (day - self.first).days + later
        return min(max(passed / ((self.last - self.first).days + 1), 0.0), 1.0)

    def ticks(self) -> Iterator[tuple[date, str]]:
        """Yield the days to label: the first of each month, or each week of a single month."""
        day = self.first
        while day <= self.last:
            yield day, MONTHS[day.month - 1][:3] if day.day == 1 else str(day.day)
            next_month = (day.replace(day=28) + 4 * _DAY).replace(day=1)
            day = day + 7 * _DAY if self.span == "month" else next_month


def timeline(familiar: Familiar, at: str = "", span: str = "") -> Timeline:
    """Return the span of time that contains a day.

    Args:
        familiar: Whose past.
        at: The day, or the month or year, as a person writes it; empty: the last day of the newest
            busy year.
        span: One of `SPANS`; empty: the longest that can be drawn at once.

    Raises:
        UsageError: `at` is not a day.
    """
    zone = familiar.zone
    ends = statistics.first_and_last(familiar.history)
    begun, ended = (to_zone(moment, zone).date() for moment in ends) if ends else (None, None)
    today = to_zone(now(), zone).date()
    years = _turns_by_year(familiar, begun, ended) if begun and ended else ()
    day = _clamp_day(read_day(at, now(), zone) if at else _last_day(familiar, years) or today)
    if span not in SPANS:
        span = next((s for s in SPANS if _is_light(familiar, *_span_ends(day, s))), SPANS[-1])
    first, last = _span_ends(day, span)
    whole_hours = _whole_hours(first, zone) and _whole_hours(last, zone)
    hours = statistics.said_between(
        familiar.history, *_span_moments(first, last, zone), whole_hours=whole_hours
    )
    per_day: Counter[date] = Counter()
    first_of: dict[date, int] = {}
    spoken: dict[tuple[str, str], list[tuple[date, int, int]]] = defaultdict(list)
    for one in hours:
        on = to_zone(one.at, zone).date()
        per_day[on] += one.turns
        first_of[on] = min(one.first, first_of.get(on, one.first))
        if one.account:
            spoken[one.account].append((on, one.turns, one.first))
    lanes = _speaker_lanes(familiar, spoken)
    return Timeline(
        span,
        first,
        last,
        tuple(DayCount(on, per_day[on], first_of[on]) for on in sorted(per_day)),
        _daily_rows(familiar, first, last),
        lanes,
        max(len(spoken) - len(lanes), 0),
        begun,
        ended,
        years,
    )


def _turns_by_year(familiar: Familiar, day: date, ended: date) -> tuple[tuple[int, int], ...]:
    items = []
    for year in range(max(day.year, ended.year - _MOST_YEARS, 2), ended.year + 1):
        span = _span_moments(*_span_ends(date(year, 1, 1), "year"), familiar.zone)
        items.append((year, statistics.count_up_to(familiar.history, *span, MOST_OF_YEAR)))
    return tuple((year, turns) for year, turns in items if turns)


def _last_day(familiar: Familiar, years: tuple[tuple[int, int], ...]) -> date | None:
    """Return the last day with turns in the newest busy year."""
    if not years:
        return None
    much = max(turns for _, turns in years) * _MUCH
    year = next(year for year, turns in reversed(years) if turns >= much)
    end = _local_midnight(date(year + 1, 1, 1), familiar.zone)
    last, _ = statistics.turns_beside(familiar.history, end, end)
    return to_zone(last, familiar.zone).date() if last else None


class DiaryDay(Struct, frozen=True):
    """A day: its turns, files about it, and what memory learned.

    Args:
        turns: Its turns in order, at most `MOST_OF_DAY`.
        is_cut: Whether there are more turns.
        files: The files about it: sessions, the day's summary, significant moments.
        state: Its last change of memory, or None.
        since: The last change before that.
        before: Last earlier day with turns, or None.
        after: Next day with turns, or None.
    """

    day: date
    turns: tuple[Turn, ...]
    is_cut: bool
    files: tuple[DatedFile, ...]
    state: JournalDay | None
    since: JournalDay | None
    before: date | None
    after: date | None


MOST_OF_DAY: Final = 200


def diary_day(familiar: Familiar, day: date | None, viewer: Viewer) -> DiaryDay:
    """Return the diary of a day.

    Args:
        day: The day; None for the last with turns.
        viewer: Viewer of the turns.
    """
    zone = familiar.zone
    if day is None:
        ends = statistics.first_and_last(familiar.history)
        day = to_zone(ends[1] if ends else now(), zone).date()
    start, end = _span_moments(day, day, zone)
    ids = statistics.ids_between(familiar.history, start, end, MOST_OF_DAY + 1)
    selections = kept_turns(familiar.history, ids[:MOST_OF_DAY])
    turns = (selections[number].turn for number in ids if number in selections)
    before, after = statistics.turns_beside(familiar.history, start, end)
    rows = _daily_rows(familiar, day, day)
    files = (*rows[layout.SIGNIFICANT_DIR], *rows["daily"], *rows[layout.SESSIONS_DIR])
    days = familiar.journal_days
    state, old = days.at(day), days.at(day - _DAY)
    return DiaryDay(
        day,
        tuple(turn for turn in turns if turn.stands and viewer.sees_turn(turn)),
        len(ids) > MOST_OF_DAY,
        files,
        None if state == old else state,
        old,
        to_zone(before, zone).date() if before else None,
        to_zone(after, zone).date() if after else None,
    )


def _speaker_lanes(
    familiar: Familiar, spoken: dict[tuple[str, str], list[tuple[date, int, int]]]
) -> tuple[Lane, ...]:
    most = sorted(spoken, key=lambda account: (-sum(s[1] for s in spoken[account]), account))
    authors = [Author(*account) for account in most[:_MOST_LANES]]
    known = {speaker.author.slug: speaker.author for speaker in familiar.history.speakers(OWNER)}
    authors = [known.get(author.slug, author) for author in authors]
    labels = familiar.labels(authors)
    lanes = []
    for author, account in zip(authors, most, strict=False):
        days: dict[date, DayCount] = {}
        for on, turns, first in spoken[account]:
            old = days.get(on, DayCount(on, 0, first))
            days[on] = DayCount(on, old.turns + turns, min(old.first, first))
        path = layout.people_path(author.slug)
        has_file = familiar.memory.exists(path)
        turns = sum(day.turns for day in days.values())
        listed = tuple(days[on] for on in sorted(days))
        lanes.append(Lane(labels.of(author), path if has_file else "", listed, turns))
    return tuple(lanes)


def _daily_rows(familiar: Familiar, first: date, last: date) -> dict[str, tuple[DatedFile, ...]]:
    result: dict[str, tuple[DatedFile, ...]] = {}
    for directory in (layout.SESSIONS_DIR, *TIERS, layout.SIGNIFICANT_DIR):
        files = familiar.memory.walk(directory, missing_ok=True).files
        marks = (_dated_file(entry.rel_path) for entry in files)
        inside = [m for m in marks if m and m.first <= last and m.last >= first]
        result[directory] = tuple(sorted(inside, key=lambda m: (m.first, m.rel_path)))
    return result


def _dated_file(rel_path: str) -> DatedFile | None:
    if period := period_in(rel_path):
        return DatedFile(rel_path, period[0].first, period[0].last)
    if placed := session_day(rel_path):
        return DatedFile(rel_path, placed[0], placed[0])
    directory, _, name = rel_path.partition("/")
    if directory != layout.SIGNIFICANT_DIR:
        return None
    try:
        on = day_of(date.fromisoformat(name[:10]))
    except ValueError:
        return None
    return DatedFile(rel_path, on.first, on.last)


def _clamp_day(day: date) -> date:
    """Return a day that has a year on both sides of it."""
    return day.replace(year=min(max(day.year, 2), _LAST_YEAR), day=min(day.day, 28))


def _span_ends(day: date, span: str) -> tuple[date, date]:
    months = _MONTHS[span]
    begins = (day.month - 1) // months * months + 1
    first = date(day.year, begins, 1)
    year, month = divmod(day.year * 12 + begins - 1 + months, 12)
    return first, date(year, month + 1, 1) - _DAY


def _span_moments(first: date, last: date, zone: tzinfo | None) -> tuple[datetime, datetime]:
    return _local_midnight(first, zone), _local_midnight(last + _DAY, zone)


def _local_midnight(day: date, zone: tzinfo | None) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone).astimezone(zone)


def _whole_hours(day: date, zone: tzinfo | None) -> bool:
    offset = _local_midnight(day, zone).utcoffset()
    return offset is not None and not offset % _HOUR


def _is_light(familiar: Familiar, first: date, last: date) -> bool:
    since, until = _span_moments(first, last, familiar.zone)
    return statistics.count_up_to(familiar.history, since, until, _MOST_TURNS + 1) <= _MOST_TURNS


_MOST_WRITTEN: Final = 30  # changes of the writer in which lines about some turns are looked for


def learned_from(
    familiar: Familiar, turns: Sequence[Turn], viewer: Viewer
) -> dict[int, list[tuple[str, str, str]]]:
    """Find what the memory writer learned from turns and memory still states.

    Returns:
        For each turn that is the newest one of these that a line rests on: the commit, the file and
        the line.
    """
    result: dict[int, list[tuple[str, str, str]]] = {}
    wanted, numbering = {turn.id for turn in turns}, familiar.numbering
    texts: dict[str, frozenset[str]] = {}
    if not turns or not familiar.paths.journal.is_dir():
        return result
    since = min(turn.at for turn in turns).replace(microsecond=0)  # as commits tell the time
    for change in familiar.past.log(source=layout.MEMORY_WRITER, since=since, limit=_MOST_WRITTEN):
        for file in familiar.past.differences(change.commit):
            for line in bare_lines(file.diff):
                named = wanted.intersection(turn_ids(line, numbering)) if line[:1] == "+" else ()
                if not named:
                    continue
                if file.rel_path not in texts:
                    texts[file.rel_path] = _visible_lines(familiar, file.rel_path, viewer)
                if line[1:] in texts[file.rel_path]:
                    text = without_marker(readable_text(line[1:]))
                    learned = (change.commit.id, file.rel_path, text)
                    result.setdefault(max(named), []).append(learned)
    return result


def _visible_lines(familiar: Familiar, rel_path: str, viewer: Viewer) -> frozenset[str]:
    text = familiar.memory.readable(rel_path)
    return frozenset(bare_lines(visible_in(text, viewer, rel_path)))


_NOT_READ_AGAIN: Final = (
    "The memory writer does not read the turns of an undone change again by itself. To have it"
    " read them: `familiar write-memory --since WHEN` or `familiar write-memory --all`."
)


def undo(
    familiar: Familiar,
    word: str | None = None,
    *,
    run: str | None = None,
    dry_run: bool = False,
    merges: bool = False,
) -> tuple[UndoResult, tuple[str, ...]]:
    """Revert a change, or all changes of a run; see `MemoryPast.undo`.

    Returns:
        What was undone, or would be, and what the user should know.

    Raises:
        ConflictError: Later changes touch the same lines; nothing was changed.
        NotFoundError: No such commit or run, or nothing to revert.
        RefusedError: It merges changes from other machines, and `merges` is not set.
    """
    result = familiar.past.undo(word, run=run, dry_run=dry_run, merges=merges)
    notices: tuple[str, ...] = ()
    if result.changes and any(commit.source == layout.MEMORY_WRITER for commit in result.commits):
        notices = (_NOT_READ_AGAIN,)
    if not dry_run and any(c.rel_path.startswith(f"{layout.PEOPLE_DIR}/") for c in result.changes):
        with closing(familiar.names()) as names:
            notices += publish_names(names)
    return result, notices
