"""Differences between texts or lists, and unified diffs for people and `patch`."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

_MOST_PAIRS: Final = 250_000  # beyond which comparing all pairs takes too long

NO_NEWLINE: Final = "\\ No newline at end of file"


def unified(before: str, after: str, old: str, new: str | None = None) -> str:
    """Return how two texts differ; empty when they do not.

    Args:
        before: The one text.
        after: The other.
        old: What the one is called.
        new: What the other is called; the same when None.
    """
    names = old, old if new is None else new
    lines = difflib.unified_diff(marked_lines(before), marked_lines(after), *names, lineterm="")
    return "".join(f"{line}\n" for line in lines)


def unified_file(rel_path: str, before: str | None, after: str | None) -> str:
    """Return how a file differs, with the names that git gives it; None stands for no file."""
    old, new = (
        f"{side}/{rel_path}" if text is not None else "/dev/null"
        for side, text in (("a", before), ("b", after))
    )
    return unified(before or "", after or "", old, new)


def marked_lines(text: str) -> list[str]:
    """Return the lines of a text without their ends; the last says when it has none.

    Only newlines end a line: other marks that Python takes for line ends are part of the text.
    """
    *lines, last = text.split("\n")
    return [*lines, f"{last}\n{NO_NEWLINE}"] if last else lines


def matching_blocks(
    before: Sequence[Hashable], after: Sequence[Hashable]
) -> list[tuple[int, int, int]]:
    """Return the matching runs of two lists, in order: start in each, and length.

    As `difflib` finds them; long lists are cut first at what stands once in both, which takes
    hardly longer than reading them.
    """
    found: list[tuple[int, int, int]] = []
    waiting = [(0, len(before), 0, len(after))]
    while waiting:
        a, a_end, b, b_end = waiting.pop()
        size = (a_end - a) * (b_end - b)
        parts = before[a:a_end], after[b:b_end]
        cuts = [(a + i, b + j) for i, j in _anchors(*parts)] if size > _MOST_PAIRS else []
        if not cuts:
            matcher = difflib.SequenceMatcher(None, *parts, autojunk=size > _MOST_PAIRS)
            found += [(a + i, b + j, n) for i, j, n in matcher.get_matching_blocks() if n]
            continue
        found += [(i, j, 1) for i, j in cuts]
        edges = [(a - 1, b - 1), *cuts, (a_end, b_end)]
        for (i, j), (i_end, j_end) in pairwise(edges):
            if i_end - i > 1 and j_end - j > 1:
                waiting.append((i + 1, i_end, j + 1, j_end))
    return list(_joined(sorted(found)))


def changed_blocks(
    before: Sequence[Hashable], after: Sequence[Hashable]
) -> Iterator[tuple[int, int, int, int]]:
    """Yield the gaps between matching blocks: start and end in each list."""
    a = b = 0
    for i, j, n in [*matching_blocks(before, after), (len(before), len(after), 0)]:
        if (a, b) != (i, j):
            yield a, i, b, j
        a, b = i + n, j + n


def _anchors(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the longest increasing sequence of items unique in both lists (patience diff)."""
    counts = Counter(before), Counter(after)
    place = {one: j for j, one in enumerate(after) if counts[0][one] == counts[1][one] == 1}
    pairs = [(i, place[one]) for i, one in enumerate(before) if one in place]
    ends: list[int] = []  # the lowest place in `after` with which a row of that length ends
    last: list[int] = []
    former: list[int] = []
    for at, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        former.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [j]
        last[length : length + 1] = [at]
    found: list[tuple[int, int]] = []
    at = last[-1] if last else -1
    while at >= 0:
        found.append(pairs[at])
        at = former[at]
    return found[::-1]


def _joined(blocks: list[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    a, b, n = -1, -1, 0
    for i, j, m in blocks:
        if n and (a + n, b + n) == (i, j):
            n += m
            continue
        if n:
            yield a, b, n
        a, b, n = i, j, m
    if n:
        yield a, b, n
