"""Find files by the shape of their paths."""

from __future__ import annotations

import fnmatch
import re
from itertools import takewhile
from typing import TYPE_CHECKING

from familiar_cli.errors import TooManyResultsError
from familiar_cli.memory.store import paths
from familiar_cli.memory.store.walk import scan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.memory.store.files import Tree

ANY_DIRS = "**"
_WILD = re.compile(r"[*?\[]")


def glob(tree: Tree, pattern: str, *, limit: int) -> list[str]:
    """Return what `MemoryStore.glob` promises."""
    parts = paths.parse(pattern, wildcards=True).split("/")
    fixed = list(takewhile(lambda part: not _WILD.search(part), parts[:-1]))
    start = "/".join(fixed)
    if start and not tree.is_dir(start):
        return []
    hidden = any(part.startswith(".") for part in parts)
    files, _ = scan(tree, start, hidden=hidden)
    shape = [_Part(part) for part in parts]
    found = [rel_path for rel_path, _ in files if fits(rel_path.split("/"), shape)]
    if len(found) > limit:
        raise TooManyResultsError(
            f"{pattern!r} matches {len(found):,} files, more than the limit of {limit:,}",
            hint="Narrow the pattern, or raise `max_results` in [memory].",
        )
    return found


class _Part:
    """One part of a pattern, between two slashes."""

    def __init__(self, text: str) -> None:
        self.any_dirs = text == ANY_DIRS
        self._dotted = text.startswith(".")
        self._matches = re.compile(fnmatch.translate(text)).match

    def fits(self, name: str) -> bool:
        """Tell whether `name` fits; only a pattern with a leading dot fits a dotted name."""
        return name.startswith(".") == self._dotted and bool(self._matches(name))


def fits(names: Sequence[str], shape: Sequence[_Part]) -> bool:
    """Tell whether a path, as its names, has the `shape`, in time linear in both."""
    here = _entered({0}, shape)
    for name in names:
        stay = {i for i in here if i < len(shape) and shape[i].any_dirs and name[0] != "."}
        step = {
            i + 1 for i in here if i < len(shape) and not shape[i].any_dirs and shape[i].fits(name)
        }
        here = _entered(stay | step, shape)
    return len(shape) in here


def _entered(here: set[int], shape: Sequence[_Part]) -> set[int]:
    """Add the places that `**` reaches by standing for nothing."""
    reached = set(here)
    for i, part in enumerate(shape):
        if i in reached and part.any_dirs:
            reached.add(i + 1)
    return reached
