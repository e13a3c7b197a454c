"""Find which memory files the index does not hold as they are, by a quick look at each."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from familiar_cli.clock import wall_ns
from familiar_cli.files import Stamp, stamp_of
from familiar_cli.memory.pages.links import SUFFIXES
from familiar_cli.memory.store.files import Tree
from familiar_cli.memory.store.walk import UNREADABLE, scan

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from familiar_cli.memory.store.types import Skipped


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
        path: Stamp(*stamp)
        for path, *stamp in connection.execute(
            "SELECT rel_path, size_bytes, mtime_ns, ctime_ns, settled FROM documents"
        )
    }
    looked_ns = wall_ns()
    suspects: dict[str, Stamp] = {}
    same = 0
    found, skipped = scan(Tree(root), "", hidden=False)
    for rel_path, path in found:
        if not rel_path.lower().endswith(SUFFIXES):
            continue
        try:
            now = stamp_of(os.lstat(path), looked_ns)
        except OSError:
            continue
        seen = held.pop(rel_path, None)
        if seen and now.shows_no_change_since(seen):
            same += 1
        else:
            suspects[rel_path] = now
    closed = tuple(one for one in skipped if one.reason.startswith(UNREADABLE))
    return Scan(suspects, tuple(held), same, closed)


def stamp(path: Path) -> Stamp | None:
    """Return how the file at `path` looks, or None when there is no plain file."""
    looked_ns = wall_ns()
    try:
        return stamp_of(path.lstat(), looked_ns)
    except OSError:
        return None
