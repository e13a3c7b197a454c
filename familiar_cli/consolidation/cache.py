"""What was seen at the last look, kept beside the memory so that the next one is short.

The file can be deleted at any time. It holds two things: what the files of the years said in which
something is still to be done, and of every other year only that nothing is.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.consolidation.coverage import Coverage
from familiar_cli.consolidation.periods import TIERS
from familiar_cli.files import read_plain, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from familiar_cli.consolidation.coverage import Tiers
    from familiar_cli.memory.store.types import MemoryEntry

_VERSION: Final = 3
_ROW: Final = 6


@dataclass(frozen=True, slots=True)
class Settled:
    """A year of which nothing is to be done as long as its files are as they are.

    Args:
        stamp: Of its files; see `stamp_of`.
        coverage: Which of its days each tier rests on.
    """

    stamp: str
    coverage: Tiers


@dataclass(slots=True)
class Cache:
    """What was seen at the last look, and what is seen now.

    Args:
        path: Where it is kept; None: nowhere.
        viewpoint: Who looked, and how they count days. From another one a year must settle anew.

    Attributes:
        files: What the files said, each beside its stamp; of those only that would show a change.
        settled: The years that are done with, by name.
    """

    path: Path | None = None
    viewpoint: str = ""
    files: dict[str, Any] = field(default_factory=dict)
    settled: dict[str, Settled] = field(default_factory=dict)
    _kept: object = None

    @classmethod
    def read(cls, path: Path | None, viewpoint: str) -> Cache:
        """Return what was kept at `path`; nothing, where nothing useful is."""
        cache = cls(path, viewpoint)
        if path is None:
            return cache
        try:
            value = json.loads(read_plain(path))
            if value["version"] != _VERSION:
                return cache
            cache._kept = value
            cache.files = {p: row for p, row in value["files"].items() if _is_row(row)}
            if value["viewpoint"] == viewpoint:
                cache.settled = {
                    str(year): Settled(
                        str(stamp), {tier: Coverage.from_json(told[tier]) for tier in TIERS}
                    )
                    for year, (stamp, told) in value["settled"].items()
                }
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return cls(path, viewpoint)
        return cache

    def write(self) -> None:
        """Keep what was seen."""
        if self.path is None:
            return
        value = {
            "version": _VERSION,
            "viewpoint": self.viewpoint,
            "files": self.files,
            "settled": {
                year: [known.stamp, {tier: c.to_json() for tier, c in known.coverage.items()}]
                for year, known in self.settled.items()
            },
        }
        if value == self._kept:
            return
        with suppress(OSError):  # it only saves time
            write_whole(self.path, json.dumps(value), durable=False)
        self._kept = value


def stamp_of(entries: Iterable[MemoryEntry]) -> str:
    """Return what changes whenever one of these files does; empty while one may change unseen."""
    rows = []
    for entry in entries:
        if entry.stamp is None or not entry.stamp.settled:
            return ""
        rows.append(f"{entry.rel_path}\0{entry.stamp[:3]}\0")
    return blake2b("".join(rows).encode(), digest_size=16).hexdigest()


def _is_row(row: Any) -> bool:  # noqa: ANN401
    return (
        isinstance(row, list)
        and [type(value) for value in row[:4]] == [int, int, int, str]
        and len(row) == _ROW
        and isinstance(row[4], dict | None)
        and isinstance(row[5], bool)
    )
