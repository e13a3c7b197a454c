"""How everything in the memory looks at one moment, by one `lstat` each, and a hash of it all.

It is made before every prompt, so it keeps no order and gives no reason for what it leaves out.
"""

from __future__ import annotations

import marshal
import os
import stat
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from familiar_cli.clock import wall_ns
from familiar_cli.memory.store import paths
from familiar_cli.memory.store.types import Skipped
from familiar_cli.memory.store.walk import is_link, reason_of, unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

_FORMAT = 2  # of `marshal`; in later ones the same values may give other bytes


class Folder(NamedTuple):
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

    folders: tuple[Folder, ...]
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
        folders.append(Folder(prefix, *_looks(entries)))
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
