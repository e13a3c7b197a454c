"""Find the memory files whose current version is not indexed."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.files import FileStamp, stamp_of
from familiar_cli.base.times.clock import wall_ns
from familiar_cli.store.memory.layout import is_page
from familiar_cli.store.memory.store.files import Omission
from familiar_cli.store.memory.store.walk import Listing
from familiar_cli.store.memory.store.watch import is_unchanged, list_tree
from familiar_cli.store.search.schema import changes_of, read_meta, set_meta


class Scan(Struct, frozen=True):
    """The result of scanning the memory directory.

    Args:
        suspects: New or changed files, with their current state.
        gone: Indexed files that no longer exist.
        same: Number of unchanged files.
        closed: Unreadable directories, and why.
        digest: The state of the directory; see `Listing.digest`. Empty if `note` has recorded it.
    """

    suspects: dict[str, FileStamp]
    gone: tuple[str, ...]
    same: int
    closed: tuple[Omission, ...] = ()
    digest: str = ""


def scan_root(root: Path, connection: sqlite3.Connection) -> Scan:
    """Compare the memory directory at `root` with the index.

    Files are not compared one by one if the directory is as it was when the index was complete, and
    the index has not changed since.
    """
    real = os.path.realpath(root)
    known, changes, count = (read_meta(connection, "listing") or "- - 0").split(" ")
    in_step = changes == changes_of(connection)
    if in_step and is_unchanged(real, known):
        return Scan({}, (), int(count))
    listing, digest = list_tree(real)
    if in_step and digest == known:
        return Scan({}, (), int(count), listing.closed)
    scan = _compare_listing(listing, connection)
    return replace(scan, digest=digest)


def note_scan(connection: sqlite3.Connection, seen: Scan) -> None:
    """Record that the index is complete as of this scan, unless that would mean waiting.

    A file changed a moment ago could change again without a visible difference: then nothing is
    recorded.
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


def _compare_listing(listing: Listing, connection: sqlite3.Connection) -> Scan:
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


def file_stamp(path: Path) -> FileStamp | None:
    """Return the state of the file at `path`, or None if it is not a regular file."""
    looked_ns = wall_ns()
    try:
        return stamp_of(path.lstat(), looked_ns)
    except OSError:
        return None
