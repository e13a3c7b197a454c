"""Find which memory files the index does not hold as they are, by a quick look at each."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from familiar_cli.clock import wall_ns
from familiar_cli.files import FileStamp, stamp_of
from familiar_cli.index import watch
from familiar_cli.index.schema import changes_of, meta, set_meta
from familiar_cli.memory.pages.links import is_page

if TYPE_CHECKING:
    from pathlib import Path

    from familiar_cli.memory.store.types import Skipped
    from familiar_cli.memory.store.walk import Listing


@dataclass(frozen=True, slots=True)
class Scan:
    """What a look at the memory directory gave.

    Args:
        suspects: Files that are new, or look touched, with how they look now.
        gone: Files that the index holds and the directory does not.
        same: How many files look as they did.
        closed: Directories that may not be looked into, and why.
        digest: How all of it looks; see `Listing.digest`. Empty: `note` has noted that already.
    """

    suspects: dict[str, FileStamp]
    gone: tuple[str, ...]
    same: int
    closed: tuple[Skipped, ...] = ()
    digest: str = ""


def look(root: Path, connection: sqlite3.Connection) -> Scan:
    """Compare the memory directory at `root` with what the index holds.

    Files are not compared one by one where everything looks as it did when the index was found to
    hold all of it, and has held the same since.
    """
    real = os.path.realpath(root)
    known, changes, count = (meta(connection, "listing") or "- - 0").split(" ")
    in_step = changes == changes_of(connection)
    if in_step and watch.is_unchanged(real, known):
        return Scan({}, (), int(count))
    listing, digest = watch.listed(real)
    if in_step and digest == known:
        return Scan({}, (), int(count), listing.closed)
    found = _compared(listing, connection)
    return replace(found, digest=digest)


def note(connection: sqlite3.Connection, seen: Scan) -> None:
    """Note that the index holds all that was seen by now, unless that would mean to wait.

    A file that was changed a moment ago could be changed again and look the same: then nothing is
    noted yet.
    """
    if not seen.digest or not all(stamp.settled for stamp in seen.suspects.values()):
        return
    held = seen.same + len(seen.suspects)
    in_step = f"{seen.digest} {changes_of(connection)} {held}"
    waits = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute("PRAGMA busy_timeout = 0")
    with suppress(sqlite3.OperationalError):
        set_meta(connection, listing=in_step)
    connection.execute(f"PRAGMA busy_timeout = {int(*waits)}")


def _compared(listing: Listing, connection: sqlite3.Connection) -> Scan:
    held = {
        path: FileStamp(*stamp)
        for path, *stamp in connection.execute(
            "SELECT rel_path, size_bytes, mtime_ns, ctime_ns, settled FROM documents"
        )
    }
    suspects: dict[str, FileStamp] = {}
    same = 0
    for rel_path, status in listing.files():
        if not is_page(rel_path):
            continue
        now = stamp_of(status, listing.looked_ns)
        seen = held.pop(rel_path, None)
        if seen and now.shows_no_change_since(seen):
            same += 1
        else:
            suspects[rel_path] = now
    return Scan(suspects, tuple(held), same, listing.closed)


def stamp(path: Path) -> FileStamp | None:
    """Return how the file at `path` looks, or None when there is no plain file."""
    looked_ns = wall_ns()
    try:
        return stamp_of(path.lstat(), looked_ns)
    except OSError:
        return None
