"""Which files are pinned: what the index knows, and a look at those files."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import stopwatch_s
from familiar_cli.errors import BadInputError, FamiliarError
from familiar_cli.files import read_plain
from familiar_cli.index import scan
from familiar_cli.index.build import Refreshed
from familiar_cli.index.schema import IndexUnusableError
from familiar_cli.markdown import body_start
from familiar_cli.memory.pages.links import is_page
from familiar_cli.memory.pages.pins import is_pinned
from familiar_cli.sqlite import transaction

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Mapping

    from familiar_cli.index.build import EmbeddingIndex
    from familiar_cli.memory.store.store import MemoryStore


_HEAD_BYTES: Final = 4096
_MARKS: Final = (b"---", b"\xef\xbb\xbf---")
"""How a file with front matter begins."""

_UNKNOWN: Final = None


@dataclass(frozen=True, slots=True)
class Pins:
    """What is pinned.

    Args:
        rel_paths: The files, sorted.
        unread: How many files could not be looked at in time; some may be pinned.
        problems: Files that cannot be read, though they may be pinned, and why.
        fresh: What a comparison of the index with the files gave.
    """

    rel_paths: tuple[str, ...] = ()
    unread: int = 0
    problems: tuple[tuple[str, str], ...] = ()
    fresh: Refreshed = field(default_factory=Refreshed)


def find_pins(
    index: EmbeddingIndex, *, refresh_s: float | None = None, within_s: float | None = None
) -> Pins:
    """Return which files are pinned, as they are now.

    The index is brought up to date first. Of files that it does not hold, only the beginning is
    read.

    Args:
        index: The index of the memory.
        refresh_s: Most seconds for the index to read changed files; None: as long as it takes.
        within_s: Most seconds for all of it.
    """
    if not index.store.root.is_dir():
        return Pins()
    until_s = None if within_s is None else stopwatch_s() + within_s
    try:
        fresh, known, left = index.use(lambda c: _ask(index, c, refresh_s))
    except IndexUnusableError:
        return pins_in_files(index.store, within_s=within_s)
    known |= dict.fromkeys(left, _UNKNOWN)
    looked, problems, unread = _look(index.store, known, until_s)
    if looked.keys() - left:
        with suppress(IndexUnusableError):
            index.use(lambda c: _note(c, looked, left))
    pinned = sorted(path for path, is_one in (known | looked).items() if is_one)
    return Pins(tuple(pinned), unread, tuple(problems), fresh)


def pins_in_files(store: MemoryStore, *, within_s: float | None = None) -> Pins:
    """Return which files are pinned, by a look at the beginning of each; no index is made."""
    until_s = None if within_s is None else stopwatch_s() + within_s
    paths = (file.rel_path for file in store.walk().files if not file.is_dir)
    unknown = dict.fromkeys((path for path in paths if _is_text(path)), _UNKNOWN)
    looked, problems, unread = _look(store, unknown, until_s)
    return Pins(tuple(path for path in looked if looked[path]), unread, tuple(problems))


def _ask(
    index: EmbeddingIndex, connection: sqlite3.Connection, refresh_s: float | None
) -> tuple[Refreshed, dict[str, bool | None], set[str]]:
    """Bring the index up to date; return what it knows of pins, and which files it has not read."""
    fresh = index.refresh_by(connection, None, refresh_s)
    rows = connection.execute("SELECT rel_path, pinned FROM documents WHERE pinned IS NOT 0")
    known = {path: _UNKNOWN if pinned is None else True for path, pinned in rows}
    left = scan.look(index.store.root, connection).suspects if fresh.unread else ()
    return fresh, known, set(left)


def _look(
    store: MemoryStore, known: Mapping[str, bool | None], until_s: float | None
) -> tuple[dict[str, bool], list[tuple[str, str]], int]:
    """Look at the files of which it is not known; return also those that there was no time for."""
    unknown = sorted(path for path, pinned in known.items() if pinned is _UNKNOWN)
    looked: dict[str, bool] = {}
    problems: list[tuple[str, str]] = []
    for number, rel_path in enumerate(unknown):
        if until_s is not None and stopwatch_s() >= until_s:
            return looked, problems, len(unknown) - number
        try:
            looked[rel_path] = _is_pinned(store, rel_path)
        except BadInputError:
            looked[rel_path] = False  # not text, so nobody pinned it
        except FamiliarError as error:
            problems.append((rel_path, str(error)))
    return looked, problems, 0


def _is_pinned(store: MemoryStore, rel_path: str) -> bool:
    with suppress(OSError):  # which the store puts into words
        # Nearly all files are done with here, in a tenth of the time that the store takes.
        if not read_plain(f"{store.root}/{rel_path}", len(_MARKS[-1])).startswith(_MARKS):
            return False
    head = store.read_head(rel_path, _HEAD_BYTES)
    is_all = head.is_whole or body_start(head.text)
    return is_pinned(head.text if is_all else store.read_file(rel_path))


def _note(connection: sqlite3.Connection, looked: dict[str, bool], left: Collection[str]) -> None:
    """Note what was found of files that the index holds as they are."""
    found = [(pinned, path) for path, pinned in looked.items() if path not in left]
    with transaction(connection):
        connection.executemany(
            "UPDATE documents SET pinned = ? WHERE rel_path = ? AND pinned IS NULL", found
        )


def _is_text(rel_path: str) -> bool:
    return is_page(rel_path)
