"""Facts by the day on which they were said, whenever they were written down."""

from __future__ import annotations

import os
import threading
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from operator import attrgetter
from typing import Final

from msgspec import Struct

from familiar_cli.base.markdown import split_front_matter, title_of
from familiar_cli.base.times.clock import stopwatch_s, to_utc, to_zone
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.familiar import Familiar
from familiar_cli.store.history import statistics
from familiar_cli.store.memory.layout import is_page
from familiar_cli.store.memory.pages.facts import fact_lines
from familiar_cli.store.memory.pages.lines import citations_in, normal_line
from familiar_cli.store.memory.store.store import state_of
from familiar_cli.store.memory.store.walk import Listing
from familiar_cli.store.memory.store.watch import list_tree, quiet_since

_MOST_DAYS: Final = 20_000  # of turns: more than fifty years
_NEWEST: Final = "SELECT max(id) FROM turns"
_RANK: Final = {"people": 0, "topics": 1, "self": 2, "lore": 2, "significant": 3, "sessions": 4}
_LAST: Final = 9
_LOOK_S: Final = 2.0  # so soon, an edit by hand may be missed
_LATER: Final = "## Learned later"


class DatedFact(Struct, frozen=True):
    """A line of memory with the newest day that it rests on."""

    rel_path: str
    line: str
    day: date


class FactDays:
    """The dated facts of one familiar; files that have not changed are read once. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, tuple[object, tuple[DatedFact, ...]]] = {}
        self._days: tuple[object, tuple[date, ...]] = (None, ())
        self._pages: dict[str, str] = {}
        self._sorted: list[DatedFact] = []
        self._quiet = 0
        self._state: object = None
        self._looked_at_s = float("-inf")

    def read(self, familiar: Familiar, within_s: float) -> tuple[Sequence[DatedFact], int]:
        """Return all facts that cite turns, oldest first, and the number of files not read yet.

        Args:
            familiar: The familiar.
            within_s: Time after which the rest is left to a later call.
        """
        end_s, left, root = stopwatch_s() + within_s, 0, os.path.realpath(familiar.paths.memory)
        if self._is_unchanged(root, familiar):
            return self._sorted, 0
        listing, _ = list_tree(root)
        for path, stamp in self._note_gone(listing):
            if stopwatch_s() > end_s:
                left += 1
                continue
            facts = tuple(_read_facts(familiar, path))
            with self._lock:  # only now, since other pages need what is known
                self._files[path] = stamp, facts
                self._note_pages(facts)
        with self._lock:
            found = (fact for _, facts in self._files.values() for fact in facts)
            self._sorted = sorted(found, key=_day_of)
            self._looked_at_s = float("-inf") if left else stopwatch_s()
            self._quiet = quiet_since(root)
            return self._sorted, left

    def _is_unchanged(self, root: str, familiar: Familiar) -> bool:
        """Tell whether no file has changed since all were read, as far as can be told quickly."""
        state = state_of(str(familiar.paths.journal))
        same, self._state = state == self._state, state
        if self._looked_at_s == float("-inf"):
            return False
        is_quiet = 0 < self._quiet == quiet_since(root)
        return is_quiet or (same and stopwatch_s() - self._looked_at_s < _LOOK_S)

    def _note_gone(self, listing: Listing) -> list[tuple[str, object]]:
        """Forget files that are gone; return pages that changed, each with its new stamp."""
        stamps = {path: (s.st_mtime_ns, s.st_size, s.st_ino) for path, s in listing.files()}
        with self._lock:
            for gone in self._files.keys() - stamps.keys():
                del self._files[gone]
            return [
                (path, stamp)
                for path, stamp in stamps.items()
                if is_page(path) and self._files.get(path, (None,))[0] != stamp
            ]

    def _note_pages(self, facts: Iterable[DatedFact]) -> None:
        for fact in facts:
            key = normal_line(fact.line)
            known = self._pages.get(key)
            if known not in self._files or page_rank(fact.rel_path) < page_rank(known or ""):
                self._pages[key] = fact.rel_path

    def best_page(self, line: str, rel_path: str) -> str:
        """Return the page that is about a fact, which `rel_path` states, too."""
        best = self._pages.get(normal_line(line), rel_path)
        is_better = best in self._files and page_rank(best) < page_rank(rel_path)
        return best if is_better else rel_path

    def days(self, familiar: Familiar) -> tuple[date, ...]:
        """Return the days on which something was said or memory was changed, oldest first."""
        changed = familiar.journal_days.all()
        stamp = (familiar.history.rows(_NEWEST), changed[-1].commit if changed else None)
        with self._lock:
            if self._days[0] != stamp:
                days = {*_days_of_turns(familiar), *(state.day for state in changed)}
                self._days = stamp, tuple(sorted(days))
            return self._days[1]


_KNOWN: Final[dict[str, FactDays]] = {}


def page_rank(rel_path: str) -> int:
    """Return how well a page stands for a fact that several pages state; 0 is best."""
    return _RANK.get(rel_path.partition("/")[0], _LAST)


def fact_days(familiar: Familiar) -> FactDays:
    """Return the dated facts of a familiar, shared in this process."""
    return _KNOWN.setdefault(str(familiar.paths.root), FactDays())


def _read_facts(familiar: Familiar, rel_path: str) -> Iterable[DatedFact]:
    text = familiar.memory.readable(rel_path)
    if "<!--" not in text:
        return ()
    lines = [one.text.rstrip("\r\n") for one, _, _ in fact_lines(text, rel_path)]
    citations = [line for line in lines if citations_in(line)]
    newest = familiar.numbering.newest_days(citations, OWNER)
    pairs = zip(citations, newest, strict=True)
    return [DatedFact(rel_path, line, day) for line, day in pairs if day is not None]


def _days_of_turns(familiar: Familiar) -> Iterable[date]:
    """Yield each day with turns, by one look into the index for each."""
    ends = statistics.first_and_last(familiar.history)
    at = ends[0] if ends else None
    for _ in range(_MOST_DAYS):
        if at is None:
            return
        day = to_zone(at, familiar.zone).date()
        yield day
        end = to_utc(datetime.combine(day + timedelta(days=1), time()), familiar.zone)
        _, at = statistics.turns_beside(familiar.history, end, end)


_day_of: Final = attrgetter("day")


def facts_on(facts: Sequence[DatedFact], day: date) -> list[DatedFact]:
    """Return the facts said on a day, each once, from the page that is about it.

    Args:
        facts: All facts, oldest first.
        day: The day.
    """
    best: dict[str, DatedFact] = {}
    for fact in facts[bisect_left(facts, day, key=_day_of) : bisect_right(facts, day, key=_day_of)]:
        key = normal_line(fact.line)
        if key not in best or page_rank(fact.rel_path) < page_rank(best[key].rel_path):
            best[key] = fact
    return list(best.values())


def pages_known(facts: Sequence[DatedFact], day: date) -> list[tuple[str, int]]:
    """Return the pages with facts said by the end of a day, and how many, most first."""
    end = bisect_right(facts, day, key=_day_of)
    return Counter(fact.rel_path for fact in facts[:end]).most_common()


def text_then(familiar: Familiar, rel_path: str, day: date) -> str | None:
    """Return the part of a page that was known at the end of a day, or None.

    It is the page of that day without what was said later. Lines that were written down after the
    day, but rest on what was said by then, stand under a heading of their own.
    """
    state = familiar.journal_days.at(day)
    content = familiar.journal_days.content(state.commit, rel_path) if state else None
    then = content.decode("utf-8", "replace") if content is not None else ""
    now = familiar.memory.read_file(rel_path) if familiar.memory.exists(rel_path) else ""
    kept = _lines_said_by(familiar, then, day, cited_only=False)
    known = {normal_line(line) for line in kept}
    later = _lines_said_by(familiar, now, day, cited_only=True) if is_page(rel_path) else []
    later = [line for line in later if normal_line(line) not in known]
    if content is not None:
        return "\n".join([*kept, "", _LATER, "", *later] if later else kept)
    title = title_of(split_front_matter(now)[1])
    return "\n".join([f"# {title}", "", *later, ""] if title else [*later, ""]) if later else None


def _lines_said_by(familiar: Familiar, text: str, day: date, *, cited_only: bool) -> list[str]:
    """Return the lines of a text that do not rest on what was said after a day."""
    lines = text.split("\n")
    newest = familiar.numbering.newest_days(lines, OWNER)
    return [
        line
        for line, said in zip(lines, newest, strict=True)
        if (said is None and not cited_only) or (said is not None and said <= day)
    ]
