"""Know the pages that an import of notes or of dated memories wrote, by its ledger."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Final

from msgspec import Struct

from familiar_cli.base.text import fold, sha256_of
from familiar_cli.store.memory.layout import LORE_DIR, PERIOD_DIRS, SELF_DIR, is_hidden

_LEDGERS: Final = (".imported", ".imported/vaults")  # without the first there is no second
_LEDGER: Final = ".ledger.json"
_PUBLIC: Final = (f"{SELF_DIR}/", f"{LORE_DIR}/")
_SAMPLE: Final = 8  # lines of a page that are noted
_LEAST_CHARS: Final = 8  # of a line that tells pages apart
_MOST_SHARED: Final = 3  # pages of which it does so
_AROUND: Final = " \t\r>*+-"  # marks of lists and quotations
_DIGITS: Final = 12


class _Pages(Struct, frozen=True):
    """What the ledgers name.

    Args:
        stamp: The ledgers that were read.
        paths: The paths, folded.
        digests: The SHA-256 of each page as it was imported, which a moved one still has.
        samples: The number of lines noted of each, without those that many pages share.
        owners: The numbers of the pages that have a noted line.
        days: The first and last day of each page of a period.
        is_complete: Whether every ledger could be read.
    """

    stamp: tuple[tuple[str, int, int], ...] = ()
    paths: frozenset[str] = frozenset()
    digests: frozenset[str] = frozenset()
    samples: tuple[int, ...] = ()
    owners: dict[str, list[int]] = {}
    days: tuple[tuple[date, date], ...] = ()
    is_complete: bool = True

    def have(self, text: str) -> bool:
        """Tell whether a text is an imported page, or has half of what was noted of one."""
        if sha256_of(text) in self.digests:
            return True
        lines = _line_digests(text) if self.owners else ()
        shared = Counter(number for line in lines for number in self.owners.get(line, ()))
        return any(2 * count >= self.samples[number] for number, count in shared.items())


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
        """Tell whether a page was imported, also if it was moved, renamed or edited since.

        Args:
            rel_path: Its path.
            text: Its text; empty: as it is on disk.
        """
        if not self.may_have(rel_path):
            return False
        pages = self._read()
        if not pages.is_complete or fold(rel_path) in pages.paths:
            return True
        return bool(pages.digests) and pages.have(text or self._text_of(rel_path))

    def _text_of(self, rel_path: str) -> str:
        try:
            return (self._root / rel_path).read_text("utf-8", "replace")
        except OSError:
            return ""

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


def sample_lines(text: str) -> tuple[str, ...]:
    """Return digests of some lines of a page, by which it is recognised once it was edited."""
    return tuple(sorted(_line_digests(text))[:_SAMPLE])


def _line_digests(text: str) -> set[str]:
    from familiar_cli.base.markdown import body_start  # each command loads this module

    lines = (line.strip(_AROUND) for line in text[body_start(text) :].split("\n"))
    return {
        sha256_of(line)[:_DIGITS]
        for line in lines
        if len(line) >= _LEAST_CHARS and not line.startswith("#")
    }


def _pages_in(stamp: tuple[tuple[str, int, int], ...]) -> _Pages:
    # Starting is quicker without it, and most memories have no such pages.
    from familiar_cli.store.memory.pages.visible_lines import days_of_path

    pages: dict[str, str] = {}
    noted: list[list[str]] = []
    is_complete = True
    for path, _, _ in stamp:
        try:
            with open(path, encoding="utf-8") as file:
                entries = json.load(file)["files"].values()
            for entry in entries:
                wrote = {p: sha for p, sha in entry["wrote"].items() if _may_be_page(p)}
                pages |= wrote
                noted.append([str(line) for line in entry.get("lines", ()) if wrote])
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            is_complete = False
    counts = Counter(chain.from_iterable(noted))
    samples = [[line for line in lines if counts[line] <= _MOST_SHARED] for lines in noted]
    owners: dict[str, list[int]] = {}
    for number, lines in enumerate(samples):
        for line in lines:
            owners.setdefault(line, []).append(number)
    dated = (days_of_path(path) for path in pages if path.split("/")[0] in PERIOD_DIRS)
    return _Pages(
        stamp,
        frozenset(map(fold, pages)),
        frozenset(pages.values()),
        tuple(map(len, samples)),
        owners,
        tuple({(min(days), max(days)) for days in dated if days}),
        is_complete,
    )


def _may_be_page(path: str) -> bool:
    return not is_hidden(path) and not path.startswith(_PUBLIC)
