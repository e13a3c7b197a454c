"""Know the pages that an import of notes or of dated memories wrote, by its ledger."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Final

from msgspec import Struct

from familiar_cli.base.text import fold, sha256_of
from familiar_cli.store.memory.layout import LORE_DIR, PERIOD_DIRS, SELF_DIR, is_hidden

_LEDGERS: Final = (".imported", ".imported/vaults")  # without the first there is no second
_LEDGER: Final = ".ledger.json"
_PUBLIC: Final = (f"{SELF_DIR}/", f"{LORE_DIR}/")


class _Pages(Struct, frozen=True):
    """What the ledgers name.

    Args:
        stamp: The ledgers that were read.
        paths: The paths, folded.
        names: The paths by file name, folded, which a page that was moved by hand still has.
        digests: The SHA-256 of each page as it was imported, which a renamed one still has.
        days: The first and last day of each page of a period.
        is_complete: Whether every ledger could be read.
    """

    stamp: tuple[tuple[str, int, int], ...] = ()
    paths: frozenset[str] = frozenset()
    names: dict[str, list[str]] = {}
    digests: frozenset[str] = frozenset()
    days: tuple[tuple[date, date], ...] = ()
    is_complete: bool = True


class ImportedPages:
    """The imported pages of a memory; ledgers are read again when they change.

    While a ledger cannot be read, every page counts as imported.

    Args:
        root: The directory of the memory.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._directories = [f"{root}/{one}" for one in _LEDGERS]
        self._known = _Pages()

    def has(self, rel_path: str, text: str = "") -> bool:
        """Tell whether a page was imported, also if it was moved since, or renamed and not edited.

        Another page of the same file name counts as moved while the imported one is missing, unless
        it is a page of a period.
        """
        if not self.may_have(rel_path):
            return False
        pages = self._read()
        if not pages.is_complete or fold(rel_path) in pages.paths:
            return True
        is_of_period = rel_path.split("/", maxsplit=1)[0] in PERIOD_DIRS
        was = () if is_of_period else pages.names.get(_name(rel_path), ())
        if any(not os.path.lexists(f"{self._root}/{path}") for path in was):
            return True
        return bool(text and pages.digests) and sha256_of(text) in pages.digests

    def stamp(self) -> str:
        """Return a text that changes with the ledgers."""
        return repr(sorted(self._ledgers()))

    def may_have(self, rel_path: str) -> bool:
        """Tell whether a path is outside the folders that are told to everybody."""
        return not rel_path.startswith(_PUBLIC)

    def has_between(self, first: date, last: date) -> bool:
        """Tell whether a page of a period was imported that is about any of these days."""
        pages = self._read()
        is_near = any(since <= last and first <= until for since, until in pages.days)
        return is_near or not pages.is_complete

    def _read(self) -> _Pages:
        stamp = tuple(sorted(self._ledgers()))
        if stamp != self._known.stamp:
            self._known = _pages_in(stamp)
        return self._known

    def _ledgers(self) -> Iterator[tuple[str, int, int]]:
        for directory in self._directories:
            try:
                names = os.listdir(directory)
            except OSError:  # nothing was imported, or no vault
                return
            for name in names:
                path = f"{directory}/{name}/{_LEDGER}"
                try:
                    status = os.stat(path)
                except OSError:  # a directory of something else
                    continue
                yield path, status.st_mtime_ns, status.st_size


def _name(path: str) -> str:
    return fold(path.rpartition("/")[2])


def _pages_in(stamp: tuple[tuple[str, int, int], ...]) -> _Pages:
    # Starting is quicker without it, and most memories have no such pages.
    from familiar_cli.store.memory.pages.visible_lines import days_of_path

    wrote: dict[str, str] = {}
    is_complete = True
    for path, _, _ in stamp:
        try:
            with open(path, encoding="utf-8") as file:
                entries = json.load(file)["files"].values()
            wrote.update(one for entry in entries for one in entry["wrote"].items())
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            is_complete = False
    pages = {
        path: digest
        for path, digest in wrote.items()
        if not is_hidden(path) and not path.startswith(_PUBLIC)
    }
    names: dict[str, list[str]] = {}
    for path in pages:
        names.setdefault(_name(path), []).append(path)
    dated = (days_of_path(path) for path in pages if path.split("/")[0] in PERIOD_DIRS)
    return _Pages(
        stamp,
        frozenset(map(fold, pages)),
        names,
        frozenset(pages.values()),
        tuple({(min(days), max(days)) for days in dated if days}),
        is_complete,
    )
