"""Find which memory files the index does not hold as they are, by a quick look at each."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import now as clock_now
from familiar_cli.memory.pages.links import SUFFIXES
from familiar_cli.memory.store.files import Tree
from familiar_cli.memory.store.walk import UNREADABLE, scan

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from familiar_cli.memory.store.types import Skipped

SETTLED_NS: Final = 2_000_000_000
"""How old a change must be before times are trusted; FAT counts in steps of two seconds."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What tells, without reading a file, that it was probably not touched.

    `settled` is false for a file that changed so lately that an edit right after would not show.
    """

    mtime_ns: int
    ctime_ns: int
    size_bytes: int
    settled: bool


@dataclass(frozen=True, slots=True)
class Scan:
    """What a look at the memory directory gave.

    Args:
        suspects: Files that are new, or look touched, with how they look now.
        gone: Files that the index holds and the directory does not.
        same: How many files look as they did.
        closed: Directories that may not be looked into, and why.
    """

    suspects: dict[str, Stamp]
    gone: tuple[str, ...]
    same: int
    closed: tuple[Skipped, ...] = ()


def look(root: Path, connection: sqlite3.Connection) -> Scan:
    """Compare the memory directory at `root` with what the index holds."""
    held = {
        path: (mtime, ctime, size, settled)
        for path, mtime, ctime, size, settled in connection.execute(
            "SELECT rel_path, mtime_ns, ctime_ns, size_bytes, settled FROM documents"
        )
    }
    suspects: dict[str, Stamp] = {}
    same = 0
    found, skipped = scan(Tree(root), "", hidden=False)
    for rel_path, path in found:
        if not rel_path.lower().endswith(SUFFIXES):
            continue
        try:
            stat = os.lstat(path)
        except OSError:
            continue
        now = (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, 1)
        if held.pop(rel_path, None) == now:
            same += 1
        else:
            suspects[rel_path] = _stamp(stat)
    closed = tuple(one for one in skipped if one.reason.startswith(UNREADABLE))
    return Scan(suspects, tuple(held), same, closed)


def stamp(path: Path) -> Stamp | None:
    """Return how the file at `path` looks, or None when there is no plain file."""
    try:
        stat = path.lstat()
    except OSError:
        return None
    return _stamp(stat)


def _stamp(stat: os.stat_result) -> Stamp:
    newest = max(stat.st_mtime_ns, stat.st_ctime_ns if os.name != "nt" else 0)
    settled = clock_now().timestamp() * 1e9 - newest > SETTLED_NS
    return Stamp(stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, settled)
