"""List the files of the memory, search their lines under a time limit, and match their paths."""

from __future__ import annotations

import fnmatch
import marshal
import math
import os
import re
import stat
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from familiar_cli.base.errors import FamiliarError, LimitError, TooManyResultsError, UsageError
from familiar_cli.base.files import patiently, stamp_of
from familiar_cli.base.text import digest_of, typed
from familiar_cli.base.times.clock import stopwatch_s, wall_ns
from familiar_cli.store.memory.store.files import (
    MAX_READ_BYTES,
    FileListing,
    GrepHit,
    GrepResult,
    Limits,
    MemoryEntry,
    Omission,
    Tree,
    is_private,
    locate_path,
    parse_path,
    path_inside,
    too_large_to_read,
    unreadable_name,
)

if TYPE_CHECKING:
    import regex


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The years 1 and 9999, in milliseconds; file systems can say more, `datetime` cannot.
_EARLIEST_MS, _LATEST_MS = -62_135_596_800_000, 253_370_764_800_000
_NS_PER_MS = 1_000_000
UNREADABLE = "cannot be read"
"""How the reason begins why something was left out that the system does not show."""

_JUNCTION = 0xA0000003  # IO_REPARSE_TAG_MOUNT_POINT: a directory link on Windows


def scan_files(
    tree: Tree, rel_path: str, *, hidden: bool
) -> tuple[list[tuple[str, str]], list[Omission]]:
    """List each plain file at or below `rel_path` with its real path, and the rest.

    Both lists are sorted.

    Raises:
        NotFoundError: Nothing is there.
        FamiliarError: It is a directory that cannot be read.
    """
    clean = parse_path(rel_path)
    start = locate_path(tree.real, clean)
    if tree.is_file(clean):
        return [(clean, start)], []
    if not tree.is_dir(clean):
        if clean:
            raise tree.not_found(clean, "file or directory")
        return [], []
    finder = _Finder(tree.real, hidden=hidden)
    finder.run(start, clean + "/" if clean else "")
    return sorted(finder.files), sorted(finder.skipped, key=lambda s: s.rel_path)


def list_files(tree: Tree, rel_path: str, *, hidden: bool) -> FileListing:
    """Implement `MemoryStore.walk`."""
    items, skipped = scan_files(tree, rel_path, hidden=hidden)
    files, looked_ns = [], wall_ns()
    for name, path in items:
        try:
            files.append(_memory_entry(name, os.lstat(path), looked_ns, is_dir=False))
        except OSError as error:
            skipped.append(Omission(name, reason_of(error)))
    return FileListing(tuple(files), tuple(sorted(skipped, key=lambda s: s.rel_path)))


def stat_files(tree: Tree, rel_path: str) -> dict[str, os.stat_result]:
    """Implement `MemoryStore.stat_files`."""
    result: dict[str, os.stat_result] = {}
    for name, path in scan_files(tree, rel_path, hidden=False)[0]:
        with suppress(OSError):
            result[name] = os.lstat(path)
    return result


def list_dir(tree: Tree, rel_path: str, *, hidden: bool, limit: int) -> list[MemoryEntry]:
    """Implement `MemoryStore.list_dir`."""
    clean = parse_path(rel_path)
    names = _names_in(tree, clean, hidden=hidden)
    entries = list(_entries_of(tree, clean, names))
    if len(entries) > limit:
        raise TooManyResultsError(
            f"{clean or '.'!r} holds {len(entries):,} entries, more than the limit of {limit:,}",
            hint="List it with `familiar memory list`, or raise `max_results` in [memory].",
        )
    return entries


def list_page(tree: Tree, rel_path: str, *, after: str, most: int) -> tuple[list[MemoryEntry], int]:
    """Implement `MemoryStore.list_page`."""
    clean = parse_path(rel_path)
    names = _names_in(tree, clean, hidden=False)
    entries = _entries_of(tree, clean, names[bisect_right(names, after) :])
    return list(islice(entries, most)), len(names)


def _names_in(tree: Tree, rel_path: str, *, hidden: bool) -> list[str]:
    """List the names in a directory, sorted; none for a memory that does not exist yet."""
    if not tree.is_dir(rel_path):
        if rel_path:
            raise tree.not_found(rel_path, "directory")
        return []
    try:
        names = os.listdir(locate_path(tree.real, rel_path))
    except OSError as error:
        raise unreadable_directory(rel_path, error) from error
    return sorted(name for name in names if _is_shown(name, hidden=hidden))


def _entries_of(tree: Tree, rel_path: str, names: Iterable[str]) -> Iterator[MemoryEntry]:
    """Yield a directory's readable entries, following links inside the memory."""
    root, looked_ns = tree.real, wall_ns()
    start = locate_path(root, rel_path)
    for name in names:
        real = os.path.realpath(os.path.join(start, name))
        if not unreadable_name(name) and path_inside(root, real) and os.path.exists(real):
            path = f"{rel_path}/{name}" if rel_path else name
            yield _memory_entry(path, os.stat(real), looked_ns, is_dir=os.path.isdir(real))


def unreadable_directory(rel_path: str, error: OSError) -> FamiliarError:
    """Build the error for an unreadable directory that was asked for itself."""
    what = f"The directory {rel_path!r}" if rel_path else "The memory directory"
    return FamiliarError(f"{what} {reason_of(error)}", hint="Check its permissions.")


class _Finder:
    """Goes through directories; whatever stands in the way below the first is noted, not raised."""

    def __init__(self, root: str, *, hidden: bool) -> None:
        self._root = root
        self._hidden = hidden
        self.files: list[tuple[str, str]] = []
        self.skipped: list[Omission] = []

    def run(self, start: str, prefix: str) -> None:
        waiting = [(start, prefix)]
        while waiting:
            directory, prefix = waiting.pop()
            try:
                with os.scandir(directory) as entries:
                    waiting += [
                        (entry.path, f"{prefix}{entry.name}/")
                        for entry in entries
                        if _is_shown(entry.name, hidden=self._hidden) and self._visit(entry, prefix)
                    ]
            except OSError as error:
                if directory == start:  # nothing at all was seen: that is no empty directory
                    raise unreadable_directory(prefix.rstrip("/"), error) from error
                self._skip(prefix.rstrip("/"), reason_of(error))

    def _visit(self, entry: os.DirEntry[str], prefix: str) -> bool:
        """Record one entry; tell whether it is a directory to descend into."""
        rel_path = prefix + entry.name
        problem = unreadable_name(entry.name)
        if problem:
            self._skip(rel_path, problem)
        elif is_link(entry):
            self._skip(rel_path, self._where_to(entry.path))
        elif entry.is_file(follow_symlinks=False):
            self.files.append((rel_path, entry.path))
        elif entry.is_dir(follow_symlinks=False):
            return True
        else:
            self._skip(rel_path, "is neither a file nor a directory")
        return False

    def _skip(self, rel_path: str, reason: str) -> None:
        text = os.fsencode(rel_path).decode("utf-8", errors="backslashreplace")
        self.skipped.append(Omission(text, reason))

    def _where_to(self, path: str) -> str:
        real = os.path.realpath(path)
        if not path_inside(self._root, real):
            return "is a link that leads outside the memory directory"
        if not os.path.exists(real):
            return "is a broken link"
        target = os.path.relpath(real, self._root).replace(os.sep, "/")
        return f"is a link to {target!r}, which is listed separately"


def _is_shown(name: str, *, hidden: bool) -> bool:
    return not is_private(name) if hidden else not name.startswith(".")


def is_link(entry: os.DirEntry[str]) -> bool:
    """Tell whether an entry leads elsewhere."""
    if entry.is_symlink():
        return True
    if os.name != "nt":
        return False
    return getattr(entry.stat(follow_symlinks=False), "st_reparse_tag", 0) == _JUNCTION


def _memory_entry(
    rel_path: str, status: os.stat_result, looked_ns: int, *, is_dir: bool
) -> MemoryEntry:
    ms = max(_EARLIEST_MS, min(status.st_mtime_ns // _NS_PER_MS, _LATEST_MS))
    modified = _EPOCH + timedelta(milliseconds=ms)
    stamp = stamp_of(status, looked_ns)
    return MemoryEntry(rel_path, is_dir, 0 if is_dir else stamp.size_bytes, modified, stamp)


def reason_of(error: OSError) -> str:
    """Describe why the system does not show an entry."""
    return f"{UNREADABLE}: {error.strerror or error}"


_FORMAT = 2  # of `marshal`; in later ones the same values may give other bytes


class DirectoryEntry(NamedTuple):
    """One directory: its path with a slash at the end, and how its entries look."""

    prefix: str
    names: list[str]
    seen: list[os.stat_result]


class Listing(Struct, frozen=True):
    """All directories and files that are not hidden, and directories that cannot be read.

    Args:
        folders: The directories.
        closed: Those that cannot be read, and why.
        looked_ns: A time before all looks; see `clock.wall_ns`.
    """

    folders: tuple[DirectoryEntry, ...]
    closed: tuple[Omission, ...]
    looked_ns: int

    def digest(self) -> str:
        """Return a stamp of the tree's signatures."""
        signatures: list[list[Any]] = [[one.rel_path for one in self.closed]]
        for prefix, names, seen in self.folders:
            signatures += [prefix, *names], [one.st_size for one in seen]
            signatures += [one.st_mtime_ns for one in seen], [one.st_ctime_ns for one in seen]
        return digest_of(marshal.dumps(signatures, _FORMAT), 16).hex()

    def files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield path and signature of each plain file that can be part of a memory."""
        for prefix, names, seen in self.folders:
            for name, status in zip(names, seen, strict=True):
                if stat.S_ISREG(status.st_mode) and not unreadable_name(name):
                    yield prefix + name, status


def list_all(root: str) -> Listing:
    """List everything below the real path `root`, with its state.

    Raises:
        FamiliarError: The memory directory cannot be read.
    """
    looked_ns = wall_ns()
    folders, closed, waiting = [], [], [(root, "")]
    while waiting:
        directory, prefix = waiting.pop()
        try:
            with os.scandir(directory) as listed:
                entries = [entry for entry in listed if entry.name[0] != "."]
        except OSError as error:
            if not prefix:  # nothing at all was seen: that is no empty directory
                raise unreadable_directory("", error) from error
            closed.append(Omission(prefix.rstrip("/"), reason_of(error)))
            continue
        folders.append(DirectoryEntry(prefix, *_stat_entries(entries)))
        waiting += [
            (entry.path, f"{prefix}{entry.name}/")
            for entry in entries
            if entry.is_dir(follow_symlinks=False)
            and not (is_link(entry) or unreadable_name(entry.name))
        ]
    return Listing(tuple(folders), tuple(closed), looked_ns)


def _stat_entries(entries: list[os.DirEntry[str]]) -> tuple[list[str], list[os.stat_result]]:
    """Return the names and signatures of the entries that still exist."""
    if os.name != "nt":  # there, a directory may tell of a file as it was a while ago
        try:
            seen = [entry.stat(follow_symlinks=False) for entry in entries]
        except FileNotFoundError:
            pass
        else:
            return [entry.name for entry in entries], seen
    items = [(entry.name, look) for entry in entries if (look := _stat_or_none(entry.path))]
    return [name for name, _ in items], [look for _, look in items]


def _stat_or_none(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


MAX_PATTERN_CHARS = 1000
MAX_REPEATS = 100_000  # of all counted repeats together: they are written out when compiled

# With any of these, a line may match although the text it stands in does not: lookaround, atomic
# groups and possessive repeats see or eat what follows the line; anchors mean the text's own ends.
# Being taken for one of these costs only time.
_NEEDS_LINES = r"""\(\?(?!:|i\)|i:|P<)   # groups but plain, named and case-insensitive ones
      | \(\*                  # verbs
      | [*+?}]\+              # possessive repeats
      | \\[AZzGKRXL]          # anchors of the text, line ends, graphemes, lists
      | \{(?!\d*,?\d*\})      # fuzzy matching
    """
_RECURSIVE = re.compile(r"\(\?(?:R|[+-]?\d|&|P>)")  # takes memory faster than time
_COUNTED = re.compile(r"\{(\d+)")
_READ_BYTES = 64 * 1024
_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)


def grep_files(
    tree: Tree, pattern: str, rel_path: str, *, case_insensitive: bool, hidden: bool, limits: Limits
) -> GrepResult:
    """Implement `MemoryStore.search`."""
    matcher = _Matcher(pattern, case_insensitive=case_insensitive, limits=limits)
    files, skipped = scan_files(tree, rel_path, hidden=hidden)
    hits: list[GrepHit] = []
    for name, path in files:
        text = _text_of(path)
        if isinstance(text, str):
            hits += matcher.hits(name, text, limits.max_results + 1 - len(hits))
            if len(hits) > limits.max_results:
                break
        else:
            skipped.append(Omission(name, text.reason))
    truncated = len(hits) > limits.max_results
    skipped.sort(key=lambda s: s.rel_path)
    return GrepResult(tuple(hits[: limits.max_results]), tuple(skipped), truncated)


def all_hits(result: GrepResult, pattern: str) -> list[GrepHit]:
    """Return the hits of `result`. Raises `TooManyResultsError` if it was truncated."""
    if result.truncated:
        raise TooManyResultsError(
            f"{pattern!r} matches more than {len(result.hits):,} lines",
            hint="Narrow the pattern, search one directory, or raise `max_results`.",
        )
    return list(result.hits)


class _Matcher:
    """A compiled pattern, with the time it has left."""

    def __init__(self, pattern: str, *, case_insensitive: bool, limits: Limits) -> None:
        self._pattern = pattern
        self._compiled = _compile_pattern(pattern, case_insensitive=case_insensitive)
        self._by_line = bool(re.search(_NEEDS_LINES, pattern, re.VERBOSE))
        self._timeout_s = limits.grep_timeout_s
        self._deadline_s = stopwatch_s() + limits.grep_timeout_s

    def hits(self, rel_path: str, text: str, most: int) -> list[GrepHit]:
        """Return the first `most` lines of `text` that match."""
        found = []
        for number, line in self._candidates(text):
            match = self._search(line)
            if match:
                found.append(GrepHit(rel_path, number, line, match.start(), match.end()))
                if len(found) == most:
                    break
        return found

    def _candidates(self, text: str) -> Iterator[tuple[int, str]]:
        """Yield number and text of each line that may match.

        A match in the whole text never begins after the first line that matches by itself.
        """
        if self._by_line:
            yield from enumerate(_text_lines(text), 1)
            return
        number, at = 1, 0
        while at < len(text) and (match := self._search(text, at)):
            start = text.rfind("\n", 0, match.start()) + 1
            if start == len(text):
                return
            end = text.find("\n", match.start())
            end = len(text) if end < 0 else end
            number += text.count("\n", at, start)
            yield number, text[start:end]
            number, at = number + 1, end + 1

    def _search(self, text: str, at: int = 0) -> regex.Match[str] | None:
        try:
            return self._compiled.search(text, at, timeout=self._deadline_s - stopwatch_s())
        except (TimeoutError, ValueError, MemoryError) as error:  # ValueError: no time was left
            out_of = "memory" if isinstance(error, MemoryError) else f"time ({self._timeout_s:g} s)"
            raise LimitError(
                f"Searching for {self._pattern!r} ran out of {out_of} and was stopped",
                hint="Simplify the pattern, or search one directory.",
            ) from error


def _compile_pattern(pattern: str, *, case_insensitive: bool) -> regex.Pattern[str]:
    import regex

    if len(pattern) > MAX_PATTERN_CHARS:
        raise LimitError(
            f"The pattern is {len(pattern):,} characters long; {MAX_PATTERN_CHARS:,} are allowed",
            hint="Search for a shorter part of it.",
        )
    if _RECURSIVE.search(pattern):
        raise UsageError(
            f"{pattern!r} is recursive; recursive patterns are not supported",
            hint="Write the pattern without `(?R)`, `(?1)` and the like.",
        )
    if math.prod(int(count) or 1 for count in _COUNTED.findall(pattern)) > MAX_REPEATS:
        raise _too_large(pattern)
    flags = regex.MULTILINE | (regex.IGNORECASE if case_insensitive else 0)
    try:
        return regex.compile(pattern, flags)
    except regex.error as error:
        raise UsageError(
            f"{pattern!r} is not a regular expression: {error}",
            hint=f"To search for this exact text, write {typed(re.escape(pattern))}.",
        ) from error
    except ValueError as error:  # flags that exclude each other
        raise UsageError(
            f"{pattern!r} is not a regular expression: {error}", hint="Remove its flags."
        ) from error
    except (RecursionError, OverflowError, MemoryError) as error:
        raise _too_large(pattern) from error


def _too_large(pattern: str) -> LimitError:
    return LimitError(f"{pattern!r} is too large for a regular expression", hint="Simplify it.")


def _text_lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def _text_of(path: str) -> str | Omission:
    """Return a file's text with plain newlines at line ends, or why it has none."""
    try:
        content = _read_if_small(path)
    except OSError as error:
        return Omission(path, f"cannot be read: {error.strerror or error}")
    if content is None:
        return Omission(path, too_large_to_read(os.stat(path)))
    if b"\0" in content:
        return Omission(path, "is binary")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        return Omission(path, f"is not UTF-8 text (byte {error.start})")
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return text.removeprefix("\ufeff")


def _read_if_small(path: str) -> bytes | None:
    """Return a file's bytes, or None if there are too many.

    Opening it as a Python file would take twice as long.
    """
    descriptor = patiently(os.open, path, _FLAGS)
    try:
        content = os.read(descriptor, _READ_BYTES)
        if len(content) < _READ_BYTES:
            return content
        if os.fstat(descriptor).st_size > MAX_READ_BYTES:
            return None
        parts = [content]
        while content := os.read(descriptor, _READ_BYTES):
            parts.append(content)
        return b"".join(parts)
    finally:
        os.close(descriptor)


ANY_DIRS = "**"
_WILD = re.compile(r"[*?\[]")


def glob_files(tree: Tree, pattern: str, *, limit: int) -> list[str]:
    """Implement `MemoryStore.glob`."""
    parts = parse_path(pattern, wildcards=True).split("/")
    fixed = list(takewhile(lambda part: not _WILD.search(part), parts[:-1]))
    start = "/".join(fixed)
    if start and not tree.is_dir(start):
        return []
    hidden = any(part.startswith(".") for part in parts)
    files, _ = scan_files(tree, start, hidden=hidden)
    shape = [_Part(part) for part in parts]
    rel_paths = [rel_path for rel_path, _ in files if fits_shape(rel_path.split("/"), shape)]
    if len(rel_paths) > limit:
        raise TooManyResultsError(
            f"{pattern!r} matches {len(rel_paths):,} files, more than the limit of {limit:,}",
            hint="Narrow the pattern, or raise `max_results` in [memory].",
        )
    return rel_paths


class _Part:
    """One part of a pattern, between two slashes."""

    def __init__(self, text: str) -> None:
        self.any_dirs = text == ANY_DIRS
        self._dotted = text.startswith(".")
        self._matches = re.compile(fnmatch.translate(text)).match

    def fits(self, name: str) -> bool:
        """Tell whether `name` matches; only a pattern with a leading dot matches a dotted name."""
        return name.startswith(".") == self._dotted and bool(self._matches(name))


def fits_shape(names: Sequence[str], shape: Sequence[_Part]) -> bool:
    """Tell whether a path, split into names, matches `shape`, in linear time."""
    here = _with_skipped_stars({0}, shape)
    for name in names:
        stay = {i for i in here if i < len(shape) and shape[i].any_dirs and name[0] != "."}
        step = {
            i + 1 for i in here if i < len(shape) and not shape[i].any_dirs and shape[i].fits(name)
        }
        here = _with_skipped_stars(stay | step, shape)
    return len(shape) in here


def _with_skipped_stars(here: set[int], shape: Sequence[_Part]) -> set[int]:
    """Add the positions reached if `**` matches nothing."""
    reached = set(here)
    for i, part in enumerate(shape):
        if i in reached and part.any_dirs:
            reached.add(i + 1)
    return reached
