"""What there is to consolidate: sessions by day, and the files of each tier.

A file is read again only when its size or its time has changed since it was last looked at; what
was found is kept in a file beside the memory, which can be deleted at any time.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.clock import iso, now, to_ms
from familiar_cli.consolidation.blocks import blocks
from familiar_cli.consolidation.pages import read_page
from familiar_cli.consolidation.periods import CUTOFF_HOUR, TIERS, Period, day_of, read_period
from familiar_cli.errors import FamiliarError, NotFoundError
from familiar_cli.memory.privacy import visible_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from familiar_cli.memory.store import MemoryStore
    from familiar_cli.memory.types import MemoryEntry

SESSIONS: Final = "sessions"
_VERSION: Final = 1
_SESSION: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:-(night|morning|afternoon|evening))?(?!\d).*", re.ASCII
)
_DAILY: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(?:_(.+))?", re.ASCII | re.DOTALL)
_MIDDLE_OF_NIGHT: Final = 3  # the night is from midnight to six
_PARTS: Final = ("night", "morning", "afternoon", "evening")
# A file as young as this may change again without its size or time telling.
_TOO_YOUNG: Final = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class File:
    """A file, as far as consolidation needs to know it.

    Args:
        rel_path: Which.
        digest: The hash of what it says.
        sources: What it was made of; None: a person made it.
        says: It says something beside its headings.
        instance: Which instance wrote it, of a daily file.
        problem: Why it cannot be read; empty: it can.
    """

    rel_path: str
    digest: str = ""
    sources: Mapping[str, str] | None = None
    says: bool = False
    instance: str = ""
    problem: str = ""


@dataclass(slots=True)
class Library:
    """All files that consolidation reads or writes.

    Attributes:
        sessions: The session files of each day, in the order of the day.
        daily: The daily files of each day, one for each instance.
        above: The file of each week, month and year.
        problems: Files that cannot be read, and why.
    """

    sessions: dict[Period, tuple[File, ...]] = field(default_factory=dict)
    daily: dict[Period, tuple[File, ...]] = field(default_factory=dict)
    above: dict[Period, File] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def put(self, period: Period, file: File) -> None:
        """Take in a file that was just written."""
        if period.tier != "daily":
            self.above[period] = file
            return
        others = [f for f in self.daily.get(period, ()) if f.rel_path != file.rel_path]
        self.daily[period] = tuple(sorted([*others, file], key=lambda f: f.rel_path))


def look(
    store: MemoryStore, cutoff_hour: int = CUTOFF_HOUR, cache_path: Path | None = None
) -> Library:
    """Return everything there is.

    Args:
        store: The memory.
        cutoff_hour: When the night ends; with 4 and later it belongs to the day before.
        cache_path: Where to keep what was found; None: nowhere.

    Raises:
        FamiliarError: The memory cannot be listed.
    """
    known = _read_cache(cache_path) if cache_path else {}
    seen: dict[str, Any] = {}
    library = Library()
    sessions: dict[Period, list[tuple[int, File]]] = {}
    for entry in _entries(store, SESSIONS):
        placed = session_day(entry.rel_path, cutoff_hour)
        if placed is not None:
            file = _facts(store, entry, known, seen, library)
            sessions.setdefault(day_of(placed[0]), []).append((placed[1], file))
    library.sessions = {
        day: tuple(f for _, f in sorted(found, key=lambda pair: (pair[0], pair[1].rel_path)))
        for day, found in sessions.items()
    }
    for tier in TIERS:
        for entry in _entries(store, tier):
            named = period_in(entry.rel_path)
            if named is not None:
                file = _facts(store, entry, known, seen, library)
                library.put(named[0], replace(file, instance=named[1]))
    if cache_path:
        _write_cache(cache_path, known, seen)
    return library


def session_day(rel_path: str, cutoff_hour: int = CUTOFF_HOUR) -> tuple[date, int] | None:
    """Return the day that a session file belongs to, and its place in it; None: no session file.

    A night belongs to the day before if most of it lies before the cut-off hour.
    """
    found = _SESSION.fullmatch(rel_path.removeprefix(f"{SESSIONS}/").removesuffix(".md"))
    period = read_period(found[1]) if found else None
    if found is None or period is None or not rel_path.endswith(".md"):
        return None
    if found[2] == "night" and cutoff_hour > _MIDDLE_OF_NIGHT:
        return period.first - timedelta(days=1), len(_PARTS)
    return period.first, _PARTS.index(found[2]) if found[2] else -1


def period_in(rel_path: str) -> tuple[Period, str] | None:
    """Return the period that a file of a tier is about, and its instance; None: it is none."""
    directory, _, name = rel_path.partition("/")
    stem = name.removesuffix(".md")
    if directory not in TIERS or not name.endswith(".md"):
        return None
    instance = ""
    if directory == "daily":
        found = _DAILY.fullmatch(stem)
        if found is None or "/" in stem:
            return None
        stem, instance = found[1], found[2] or ""
    period = read_period(stem)
    return (period, instance) if period is not None and period.tier == directory else None


def facts_of(rel_path: str, text: str, instance: str = "") -> File:
    """Return what consolidation needs to know of a file with this text."""
    page = read_page(text)
    found, _ = blocks(visible_in(page.body, None))
    says = any(block.kind != "heading" for block in found)
    sources = page.record.sources if page.record else None
    return File(rel_path, page.digest, sources, says, instance)


def _entries(store: MemoryStore, directory: str) -> Iterator[MemoryEntry]:
    try:
        yield from store.walk(directory).files
    except NotFoundError:
        return


def _facts(
    store: MemoryStore,
    entry: MemoryEntry,
    known: Mapping[str, Any],
    seen: dict[str, Any],
    library: Library,
) -> File:
    stamp = [entry.size_bytes, iso(to_ms(entry.modified))]
    row = known.get(entry.rel_path)
    if row is not None and row[:2] == stamp:
        seen[entry.rel_path] = row
        return File(entry.rel_path, row[2], row[3], row[4])
    try:
        file = facts_of(entry.rel_path, store.read_file(entry.rel_path))
    except FamiliarError as error:
        library.problems.append(str(error))
        return File(entry.rel_path, problem=str(error))
    sources = None if file.sources is None else dict(file.sources)
    seen[entry.rel_path] = [*stamp, file.digest, sources, file.says]
    return file


def _read_cache(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
        rows = value["files"] if value["version"] == _VERSION else {}
        return {rel_path: row for rel_path, row in rows.items() if _is_row(row)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _is_row(row: Any) -> bool:  # noqa: ANN401
    return (
        isinstance(row, list)
        and [type(value) for value in row[:3]] == [int, str, str]
        and len(row) == 5  # noqa: PLR2004
        and isinstance(row[3], dict | None)
        and isinstance(row[4], bool)
    )


def _write_cache(path: Path, known: Mapping[str, Any], seen: Mapping[str, Any]) -> None:
    """Keep what was found, but for files so young that they may change unseen."""
    youngest = iso(now() - _TOO_YOUNG)
    kept = {rel_path: row for rel_path, row in seen.items() if row[1] < youngest}
    if kept == known:
        return
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        temporary.write_text(json.dumps({"version": _VERSION, "files": kept}), encoding="utf-8")
        temporary.replace(path)
    except OSError:
        with suppress(OSError):  # it only saves time
            temporary.unlink(missing_ok=True)
