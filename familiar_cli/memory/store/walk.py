"""The files of the memory in one order, each with one `lstat`, and what was left out."""

from __future__ import annotations

import marshal
import os
import stat
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from familiar_cli.clock import wall_ns
from familiar_cli.errors import FamiliarError, TooManyResultsError
from familiar_cli.files import stamp_of
from familiar_cli.memory.store import paths
from familiar_cli.memory.store.types import FileListing, MemoryEntry, Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.memory.store.files import Tree


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The years 1 and 9999, in milliseconds; file systems can say more, `datetime` cannot.
_EARLIEST_MS, _LATEST_MS = -62_135_596_800_000, 253_370_764_800_000
_NS_PER_MS = 1_000_000
UNREADABLE = "cannot be read"
"""How the reason begins why something was left out that the system does not show."""

_JUNCTION = 0xA0000003  # IO_REPARSE_TAG_MOUNT_POINT: a directory link on Windows


def scan(tree: Tree, rel_path: str, *, hidden: bool) -> tuple[list[tuple[str, str]], list[Skipped]]:
    """Return `rel_path` and real path of each plain file at or below `rel_path`, and the rest.

    Both lists are sorted.

    Raises:
        NotFoundError: Nothing is there.
        FamiliarError: It is a directory that cannot be read.
    """
    clean = paths.parse(rel_path)
    start = paths.locate(tree.real, clean)
    if tree.is_file(clean):
        return [(clean, start)], []
    if not tree.is_dir(clean):
        if clean:
            raise tree.not_found(clean, "file or directory")
        return [], []
    finder = _Finder(tree.real, hidden=hidden)
    finder.run(start, clean + "/" if clean else "")
    return sorted(finder.files), sorted(finder.skipped, key=lambda s: s.rel_path)


def walk(tree: Tree, rel_path: str, *, hidden: bool) -> FileListing:
    """Return what `MemoryStore.walk` promises."""
    found, skipped = scan(tree, rel_path, hidden=hidden)
    files, looked_ns = [], wall_ns()
    for name, path in found:
        try:
            files.append(_entry(name, os.lstat(path), looked_ns, is_dir=False))
        except OSError as error:
            skipped.append(Skipped(name, reason_of(error)))
    return FileListing(tuple(files), tuple(sorted(skipped, key=lambda s: s.rel_path)))


def list_dir(tree: Tree, rel_path: str, *, hidden: bool, limit: int) -> list[MemoryEntry]:
    """Return what `MemoryStore.list_dir` promises."""
    clean = paths.parse(rel_path)
    start = paths.locate(tree.real, clean)
    if not tree.is_dir(clean):
        if clean:
            raise tree.not_found(clean, "directory")
        return []
    entries, looked_ns = [], wall_ns()
    for name in _listdir(start, clean):
        if not _is_shown(name, hidden=hidden) or paths.unreadable(name):
            continue
        real = os.path.realpath(os.path.join(start, name))
        if paths.inside(tree.real, real) and os.path.exists(real):
            path = f"{clean}/{name}" if clean else name
            is_dir = os.path.isdir(real)
            entries.append(_entry(path, os.stat(real), looked_ns, is_dir=is_dir))
    if len(entries) > limit:
        raise TooManyResultsError(
            f"{clean or '.'!r} holds {len(entries):,} entries, more than the limit of {limit:,}",
            hint="List it with `familiar memory ls`, or raise `max_results` in [memory].",
        )
    return entries


def list_page(tree: Tree, rel_path: str, *, after: str, most: int) -> tuple[list[MemoryEntry], int]:
    """Return what `MemoryStore.list_page` promises."""
    clean = paths.parse(rel_path)
    start = paths.locate(tree.real, clean)
    if not tree.is_dir(clean):
        if clean:
            raise tree.not_found(clean, "directory")
        return [], 0
    entries: list[MemoryEntry] = []
    looked_ns = wall_ns()
    names = [name for name in _listdir(start, clean) if _is_shown(name, hidden=False)]
    for name in names[bisect_right(names, after) :]:
        if len(entries) == most:
            break
        real = os.path.realpath(os.path.join(start, name))
        if paths.unreadable(name) or not paths.inside(tree.real, real) or not os.path.exists(real):
            continue
        path = f"{clean}/{name}" if clean else name
        is_dir = os.path.isdir(real)
        entries.append(_entry(path, os.stat(real), looked_ns, is_dir=is_dir))
    return entries, len(names)


def _listdir(real: str, rel_path: str) -> list[str]:
    try:
        return sorted(os.listdir(real))
    except OSError as error:
        raise unreadable(rel_path, error) from error


def unreadable(rel_path: str, error: OSError) -> FamiliarError:
    """Return the error for a directory that is the whole of what was asked for."""
    what = f"The directory {rel_path!r}" if rel_path else "The memory directory"
    return FamiliarError(f"{what} {reason_of(error)}", hint="Check its permissions.")


class _Finder:
    """Goes through directories; whatever stands in the way below the first is noted, not raised."""

    def __init__(self, root: str, *, hidden: bool) -> None:
        self._root = root
        self._hidden = hidden
        self.files: list[tuple[str, str]] = []
        self.skipped: list[Skipped] = []

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
                    raise unreadable(prefix.rstrip("/"), error) from error
                self._skip(prefix.rstrip("/"), reason_of(error))

    def _visit(self, entry: os.DirEntry[str], prefix: str) -> bool:
        """Note one entry, and tell whether it is a directory to go into."""
        rel_path = prefix + entry.name
        problem = paths.unreadable(entry.name)
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
        shown = os.fsencode(rel_path).decode("utf-8", errors="backslashreplace")
        self.skipped.append(Skipped(shown, reason))

    def _where_to(self, path: str) -> str:
        real = os.path.realpath(path)
        if not paths.inside(self._root, real):
            return "is a link that leads outside the memory directory"
        if not os.path.exists(real):
            return "is a broken link"
        target = os.path.relpath(real, self._root).replace(os.sep, "/")
        return f"is a link to {target!r}, which is listed separately"


def _is_shown(name: str, *, hidden: bool) -> bool:
    return not paths.is_private(name) if hidden else not name.startswith(".")


def is_link(entry: os.DirEntry[str]) -> bool:
    """Tell whether an entry leads elsewhere."""
    if entry.is_symlink():
        return True
    if os.name != "nt":
        return False
    return getattr(entry.stat(follow_symlinks=False), "st_reparse_tag", 0) == _JUNCTION


def _entry(rel_path: str, status: os.stat_result, looked_ns: int, *, is_dir: bool) -> MemoryEntry:
    ms = max(_EARLIEST_MS, min(status.st_mtime_ns // _NS_PER_MS, _LATEST_MS))
    modified = _EPOCH + timedelta(milliseconds=ms)
    stamp = stamp_of(status, looked_ns)
    return MemoryEntry(rel_path, is_dir, 0 if is_dir else stamp.size_bytes, modified, stamp)


def reason_of(error: OSError) -> str:
    """Return why something was left out that the system does not show."""
    return f"{UNREADABLE}: {error.strerror or error}"


_FORMAT = 2  # of `marshal`; in later ones the same values may give other bytes


class DirectoryEntry(NamedTuple):
    """One directory: its path with a slash at the end, and how its entries look."""

    prefix: str
    names: list[str]
    seen: list[os.stat_result]


@dataclass(frozen=True, slots=True)
class Listing:
    """All directories and files that are not hidden, and directories that cannot be read.

    Args:
        folders: The directories.
        closed: Those that cannot be read, and why.
        looked_ns: A time before all looks; see `clock.wall_ns`.
    """

    folders: tuple[DirectoryEntry, ...]
    closed: tuple[Skipped, ...]
    looked_ns: int

    def digest(self) -> str:
        """Return what stays the same for as long as everything looks the same."""
        made = blake2b(digest_size=16)
        for prefix, names, seen in self.folders:
            made.update(marshal.dumps([prefix, *names], _FORMAT))
            made.update(marshal.dumps([status.st_size for status in seen], _FORMAT))
            made.update(marshal.dumps([status.st_mtime_ns for status in seen], _FORMAT))
            made.update(marshal.dumps([status.st_ctime_ns for status in seen], _FORMAT))
        made.update(marshal.dumps([one.rel_path for one in self.closed], _FORMAT))
        return made.hexdigest()

    def files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield path and look of each plain file that can be part of a memory."""
        for prefix, names, seen in self.folders:
            for name, status in zip(names, seen, strict=True):
                if stat.S_ISREG(status.st_mode) and not paths.unreadable(name):
                    yield prefix + name, status


def list_all(root: str) -> Listing:
    """Return how everything below the real path `root` looks.

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
                raise unreadable("", error) from error
            closed.append(Skipped(prefix.rstrip("/"), reason_of(error)))
            continue
        folders.append(DirectoryEntry(prefix, *_looks(entries)))
        waiting += [
            (entry.path, f"{prefix}{entry.name}/")
            for entry in entries
            if entry.is_dir(follow_symlinks=False)
            and not (is_link(entry) or paths.unreadable(entry.name))
        ]
    return Listing(tuple(folders), tuple(closed), looked_ns)


def _looks(entries: list[os.DirEntry[str]]) -> tuple[list[str], list[os.stat_result]]:
    """Return names and looks of what is still there."""
    if os.name != "nt":  # there, a directory may tell of a file as it was a while ago
        try:
            seen = [entry.stat(follow_symlinks=False) for entry in entries]
        except FileNotFoundError:
            pass
        else:
            return [entry.name for entry in entries], seen
    found = [(entry.name, look) for entry in entries if (look := _look(entry.path))]
    return [name for name, _ in found], [look for _, look in found]


def _look(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None
