"""The files to consolidate, cached between runs, and those that a person rewrote."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.files import read_record, write_record
from familiar_cli.base.text import digest_of, sha256_of
from familiar_cli.base.who.visibility import NOBODY, SHARED, Viewer
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.pages.visible_lines import as_private, as_public, visible_in
from familiar_cli.store.memory.store.files import FileListing, MemoryEntry, MemoryFile
from familiar_cli.writing.consolidation import periods
from familiar_cli.writing.consolidation.pages import blocks, page_text, read_page

if TYPE_CHECKING:
    from familiar_cli.store.memory.store.store import MemoryStore
    from familiar_cli.writing.pending import PlannedFile

_TAG_CHARS: Final = 8


class PrivateShelf(Struct, frozen=True):
    """View of one private scope in memory, as if it were the whole memory and public.

    Consolidation works on public files. Through a shelf it works on those of one scope only:
    sections of other scopes in the same files stay hidden.
    """

    store: MemoryStore
    scope: str

    @property
    def folder(self) -> str:
        """The folder of its files, below each directory."""
        return layout.scope_folder(self.scope)

    @property
    def tag(self) -> str:
        """Suffix that distinguishes the scope's plans and replies from those of other scopes."""
        return f"-{sha256_of(self.scope)[:_TAG_CHARS]}"

    def walk(self, directory: str, *, missing_ok: bool = False) -> FileListing:
        """Return the files of the scope in a directory, as `MemoryStore.walk` does."""
        listing = self.store.walk(f"{directory}/{self.folder}", missing_ok=missing_ok)
        files = (
            replace(one, rel_path=layout.path_without_scope(one.rel_path)) for one in listing.files
        )
        return FileListing(tuple(files), listing.skipped)

    def exists(self, rel_path: str) -> bool:
        """Tell whether a file exists."""
        return self.store.exists(layout.path_in_scope(rel_path, self.scope))

    def read(self, rel_path: str) -> MemoryFile:
        """Read a file like `MemoryStore.read`; the hash is that of the stored file."""
        file = self.store.read(layout.path_in_scope(rel_path, self.scope))
        text = _with_sources(as_public(file.text, self.scope), layout.path_without_scope)
        return replace(file, rel_path=rel_path, text=text)

    def read_file(self, rel_path: str) -> str:
        """Return the text of a file; see `read`."""
        return self.read(rel_path).text

    def _shown_path(self, rel_path: str) -> str:
        """Return the path by which those of the scope know a page."""
        return layout.told_path(layout.path_in_scope(rel_path, self.scope))

    def kept(self, file: PlannedFile) -> PlannedFile:
        """Convert a change of a file to the change to make in memory."""
        rel_path = layout.path_in_scope(file.rel_path, self.scope)
        stem = file.rel_path.rpartition("/")[2].removesuffix(".md")
        before, after = (
            text and as_private(_with_sources(text, self._shown_path), self.scope, stem)
            for text in (file.before, file.after)
        )
        return replace(file, rel_path=rel_path, before=before, after=after or "")


class PublicShelf(PrivateShelf, frozen=True):
    """View of what is public, in pages of its own or, without one, on a plain path.

    Args:
        viewer: Sees only public text.
    """

    viewer: Viewer

    def walk(self, directory: str, *, missing_ok: bool = False) -> FileListing:
        """Return the public files in a directory."""
        own = super().walk(directory, missing_ok=True)
        plain = self.store.walk(directory, missing_ok=missing_ok)
        names = {one.rel_path for one in own.files}
        public = (
            one for one in plain.files if one.rel_path not in names and self.is_public(one.rel_path)
        )
        files = sorted((*own.files, *public), key=attrgetter("rel_path"))
        return FileListing(tuple(files), (*own.skipped, *plain.skipped))

    def exists(self, rel_path: str) -> bool:
        """Tell whether a public file exists."""
        return super().exists(rel_path) or self.is_public(rel_path)

    def read(self, rel_path: str) -> MemoryFile:
        """Read a public file."""
        if super().exists(rel_path) or not self.is_public(rel_path):
            return super().read(rel_path)
        return self.store.read(rel_path)

    def kept(self, file: PlannedFile) -> PlannedFile:
        """Convert a change of a file; a plain one stays as it is."""
        made = super().kept(file)
        is_new = not self.store.exists(made.rel_path)
        return replace(made, before=None) if is_new else made

    def is_public(self, rel_path: str) -> bool:
        """Tell whether everybody sees all of a plain page."""
        if layout.scope_of_path(rel_path) or not self.store.exists(rel_path):
            return False
        try:
            text = self.store.read_file(rel_path)
        except FamiliarError:
            return False
        return visible_in(text, self.viewer, rel_path) == text


def public_view(store: MemoryStore, everyone: Viewer) -> PublicShelf | None:
    """Return a view of what is public; None if nothing else stands on plain paths."""
    shelf = PublicShelf(store, SHARED, everyone)
    directories = layout.SESSIONS_DIR, layout.DIGEST_DIR, *periods.TIERS
    paths = (entry.rel_path for one in directories for entry in entries_in(store, one, []))
    plain = (path for path in paths if not layout.scope_of_path(path))
    return None if all(map(shelf.is_public, plain)) else shelf


def _with_sources(text: str, renamed: Callable[[str], str]) -> str:
    """Rewrite the source paths in a page's record."""
    page = read_page(text)
    if page.record is None:
        return text
    sources = {renamed(path): digest for path, digest in page.record.sources.items()}
    return page_text(replace(page, record=replace(page.record, sources=sources)))


def private_shelves(store: MemoryStore, everyone: Viewer) -> list[PrivateShelf]:
    """Return a shelf for each private scope with files, sorted, and one for what is public.

    The last is only returned if some public page stands apart from the owner's.

    Args:
        store: The memory.
        everyone: Sees only public text.
    """
    scopes = {
        scope
        for directory in (layout.SESSIONS_DIR, *periods.TIERS)
        for entry in entries_in(store, directory, [])
        if (scope := layout.scope_of_path(entry.rel_path))
        and layout.is_of_known_scope(entry.rel_path)
    }
    return [
        PublicShelf(store, scope, everyone) if scope == SHARED else PrivateShelf(store, scope)
        for scope in sorted(scopes)
    ]


def run_names(runs: Iterable[tuple[date, date]]) -> tuple[str, ...]:
    """Name runs of days as `first..last`, joining those that touch."""
    joined: list[list[date]] = []
    for first, last in sorted(runs):
        if joined and first - joined[-1][1] == timedelta(days=1):
            joined[-1][1] = last
        else:
            joined.append([first, last])
    return tuple(f"{a}" if a == b else f"{a}..{b}" for a, b in joined)


def run_of(name: str) -> tuple[date, date]:
    """Parse a run of days as named by `run_names`; return its first and last day."""
    first, _, last = name.partition("..")
    return date.fromisoformat(first), date.fromisoformat(last or first)


class Coverage(Struct, frozen=True):
    """The days covered by the files of one tier, as runs like `2026-04-06..2026-04-09`.

    Args:
        days: Number of covered days with sessions.
        of: Number of days with sessions.
        missing: The days that are not covered.
        rests_on: The days covered by each file, by the name of its period.
    """

    days: int
    of: int
    missing: tuple[str, ...]
    rests_on: dict[str, tuple[str, ...]]


Tiers = dict["periods.Tier", Coverage]


_VERSION: Final = 4
# Stamp, digest and sources of a file, and whether it has text.
_Facts = tuple[int, int, int, str, dict[str, str] | None, bool]


class FinishedYear(Struct, frozen=True):
    """A year with nothing to do as long as its files are unchanged.

    Args:
        stamp: Stamp of its files; see `stamp_of`.
        coverage: Its coverage by tier.
    """

    stamp: str
    coverage: Tiers


class _SurveyFile(Struct, frozen=True):
    """The cache as it is stored."""

    version: int
    viewpoint: str
    files: dict[str, _Facts]
    settled: dict[str, FinishedYear]


class Cache(Struct):
    """State of the files at the last survey and at this one.

    Args:
        path: Path of the cache; None: no cache.
        viewpoint: Instance and day boundaries. A change of them invalidates finished years.

    Attributes:
        files: Facts about the files with their stamps, for files whose stamp shows every change.
        settled: The finished years, by name.
    """

    path: Path | None = None
    viewpoint: str = ""
    files: dict[str, _Facts] = field(default_factory=dict)
    settled: dict[str, FinishedYear] = field(default_factory=dict)
    _kept: _SurveyFile | None = None

    @classmethod
    def read(cls, path: Path | None, viewpoint: str) -> Cache:
        """Read the cache at `path`; empty if there is nothing useful."""
        kept = read_record(path, _SurveyFile) if path else None
        if kept is None or kept.version != _VERSION:
            return cls(path, viewpoint)
        settled = dict(kept.settled) if kept.viewpoint == viewpoint else {}
        return cls(path, viewpoint, dict(kept.files), settled, kept)

    def write(self) -> None:
        """Store the cache."""
        now = _SurveyFile(_VERSION, self.viewpoint, self.files, self.settled)
        if self.path is not None and now != self._kept:
            write_record(self.path, now)
            self._kept = now


def stamp_of(entries: Iterable[MemoryEntry]) -> str:
    """Return a stamp that changes with any of these files; empty if a change could go unseen."""
    rows = []
    for entry in entries:
        if entry.stamp is None or not entry.stamp.settled:
            return ""
        rows.append(f"{entry.rel_path}\0{entry.stamp[:3]}\0")
    return digest_of("".join(rows), 16).hex()


class LibraryFile(Struct, frozen=True):
    """The facts about a file that consolidation needs.

    Args:
        digest: Hash of its text.
        sources: The sources it was made from; None: a person wrote it.
        says: Whether it has text besides headings.
        instance: The instance that wrote it, for a daily file.
        problem: Why it is unreadable; empty: it is readable.
    """

    rel_path: str
    digest: str = ""
    sources: Mapping[str, str] | None = None
    says: bool = False
    instance: str = ""
    problem: str = ""


class Library(Struct):
    """All files that consolidation reads or writes, except those of finished years.

    Attributes:
        settled: The finished years, by name.
        stamps: Stamp of each other year's files, by name; see `stamp_of`.
        sessions: The session files of each day, in chronological order.
        daily: The daily files of each day, one for each instance.
        above: The file of each week, month and year.
        problems: Unreadable files, and why.
    """

    sessions: dict[periods.Period, tuple[LibraryFile, ...]] = field(default_factory=dict)
    daily: dict[periods.Period, tuple[LibraryFile, ...]] = field(default_factory=dict)
    above: dict[periods.Period, LibraryFile] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    settled: dict[str, FinishedYear] = field(default_factory=dict)
    stamps: dict[str, str] = field(default_factory=dict)

    def put(self, period: periods.Period, file: LibraryFile) -> None:
        """Add a file; a newly written one invalidates the stamp of its year."""
        self.stamps.pop(periods.year_of(period.first).name, None)
        if period.tier != "daily":
            self.above[period] = file
            return
        others = [f for f in self.daily.get(period, ()) if f.rel_path != file.rel_path]
        self.daily[period] = tuple(sorted([*others, file], key=lambda f: f.rel_path))


def look_at_library(
    store: MemoryStore | PrivateShelf,
    cutoff_hour: int = periods.CUTOFF_HOUR,
    cache: Cache | None = None,
    *,
    awake: Collection[str] | None = (),
) -> Library:
    """Read all files of years that may have work left.

    Args:
        cutoff_hour: When the night ends; from 4 on, it belongs to the day before.
        cache: The cache from the last survey, which is updated.
        awake: Years to read in any case; None: all.

    Raises:
        FamiliarError: The memory cannot be listed.
    """
    cache = cache or Cache()
    known, cache.files = cache.files, {}
    library = Library()
    for year, entries in sorted(_by_year(store, library, cutoff_hour).items()):
        stamp = stamp_of(entries)
        settled = cache.settled.get(year)
        if settled and settled.stamp == stamp and awake is not None and year not in awake:
            library.settled[year] = settled
            continue
        files = [_file_facts(store, entry, known, cache.files) for entry in entries]
        _take_in(library, files, cutoff_hour)
        library.problems += [file.problem for file in files if file.problem]
        library.stamps[year] = stamp
    cache.settled = dict(library.settled)
    return library


def newest_sessions(
    store: MemoryStore | PrivateShelf, cutoff_hour: int = periods.CUTOFF_HOUR
) -> list[str]:
    """Return all session files, latest first.

    Raises:
        FamiliarError: The memory cannot be listed.
    """
    items = (
        (placed, entry.rel_path)
        for entry in entries_in(store, layout.SESSIONS_DIR, [])
        if (placed := periods.session_day(entry.rel_path, cutoff_hour)) is not None
    )
    return [rel_path for _, rel_path in sorted(items, reverse=True)]


def facts_of(rel_path: str, text: str, instance: str = "") -> LibraryFile:
    """Return the facts about a file that consolidation needs."""
    page = read_page(text)
    found, _ = blocks(visible_in(page.body, NOBODY))
    says = any(block.kind != "heading" for block in found)
    sources = page.record.sources if page.record else None
    return LibraryFile(rel_path, page.digest, sources, says, instance)


def entries_in(
    store: MemoryStore | PrivateShelf, directory: str, problems: list[str]
) -> tuple[MemoryEntry, ...]:
    """List a directory; unreadable entries are added to `problems`."""
    walk = store.walk(directory, missing_ok=True)
    problems += [f"{skipped.rel_path!r} {skipped.reason}" for skipped in walk.skipped]
    return walk.files


def _by_year(
    store: MemoryStore | PrivateShelf, library: Library, cutoff_hour: int
) -> dict[str, list[MemoryEntry]]:
    result: dict[str, list[MemoryEntry]] = {}
    for directory in (layout.SESSIONS_DIR, *periods.TIERS):
        entries = entries_in(store, directory, library.problems)
        for year, some in _entries_by_year(entries, len(directory) + 1, cutoff_hour):
            result.setdefault(year, []).extend(some)
    return result


def _entries_by_year(
    entries: Sequence[MemoryEntry], start: int, cutoff_hour: int
) -> Iterator[tuple[str, Sequence[MemoryEntry]]]:
    """Yield the entries of a directory grouped by year, skipping along by whole months.

    Args:
        entries: Sorted by path.
        start: Offset of the file name in a path.
        cutoff_hour: When the night ends.
    """
    at = 0
    while at < len(entries):
        path = entries[at].rel_path
        end = at + 1
        if periods.is_inside_a_year(path[start:]):
            behind = path[: start + periods.MONTH_CHARS] + chr(0x10FFFF)
            end = bisect_left(entries, behind, lo=end, key=attrgetter("rel_path"))
        year = periods.year_in(path, cutoff_hour)
        if year is not None:
            yield year, entries[at:end]
        at = end


def _take_in(library: Library, files: Sequence[LibraryFile], cutoff_hour: int) -> None:
    sessions: dict[periods.Period, list[tuple[int, str, LibraryFile]]] = {}
    for file in files:
        placed = periods.session_day(file.rel_path, cutoff_hour)
        period = periods.period_in(file.rel_path)
        if placed is not None:
            row = (placed[1], file.rel_path, file)
            sessions.setdefault(periods.day_of(placed[0]), []).append(row)
        elif period is not None:
            library.put(period[0], replace(file, instance=period[1]))
    for day, rows in sessions.items():
        library.sessions[day] = tuple(row[-1] for row in sorted(rows, key=lambda row: row[:2]))


def _file_facts(
    store: MemoryStore | PrivateShelf,
    entry: MemoryEntry,
    known: Mapping[str, _Facts],
    seen: dict[str, _Facts],
) -> LibraryFile:
    stamp = entry.stamp[:3] if entry.stamp and entry.stamp.settled else None
    row = known.get(entry.rel_path)
    if row is not None and row[:3] == stamp:
        seen[entry.rel_path] = row
        return LibraryFile(entry.rel_path, *row[3:])
    try:
        file = facts_of(entry.rel_path, store.read_file(entry.rel_path))
    except FamiliarError as error:
        return LibraryFile(entry.rel_path, problem=str(error))
    sources = None if file.sources is None else dict(file.sources)
    if stamp:
        seen[entry.rel_path] = (*stamp, file.digest, sources, file.says)
    return file
