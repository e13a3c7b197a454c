"""Long lists are merged without the parts that all three versions share.

A run of lines that stand in all versions one after another is put out of the way: one item with a
name of its own stands for it until the rest is merged. So the time goes with the number of changes,
not with the length of the list.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from familiar_cli.diffs import matching_blocks
from familiar_cli.markdown import body_start
from familiar_cli.text import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FROM_LINES: Final = 500
_SHORTEST: Final = 8  # lines that one item is worth standing for
_WINDOW: Final = 200  # lines in which the next common one is looked for
_STRIDE: Final = 1024
_ITEM: Final = re.compile(r" *[-*+] [^\s<*+-][^<\n]*(?:<!-- turns [^<>\n]*-->)?|[-*+] \*\*[^<\n]*")
_TOP: Final = ("- ", "* ", "+ ")
_FENCES: Final = ("```", "~~~")


class LongLists:
    """Three versions of a page, and what was put out of their way.

    Args:
        texts: The base, ours and theirs, with newlines between lines.

    Attributes:
        texts: The same, shortened.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = list(texts)
        self._runs: dict[str, list[str]] = {}
        if min(text.count("\n") for text in texts) >= _FROM_LINES and _is_plain(texts[0]):
            self._shorten()

    @property
    def is_short(self) -> bool:
        """Whether anything was put out of the way."""
        return bool(self._runs)

    def restored(self, text: str) -> str | None:
        """Return a merged text with all of it; None: something is not there once."""
        if not self._runs:
            return text
        out: list[str] = []
        left = dict(self._runs)
        for line in text.split("\n"):
            if line in self._runs:
                if line not in left:
                    return None
                out += left.pop(line)
            else:
                out.append(line)
        return None if left else "\n".join(out)

    def _shorten(self) -> None:
        heads = [text[: body_start(text)] for text in self.texts]
        sides = [
            text[len(head) :].split("\n") for text, head in zip(self.texts, heads, strict=True)
        ]
        common = list(_common(*sides))
        gaps = list(_gaps(sides, common))
        changed = {line for gap in gaps for line in gap if line}  # they may have moved
        if not _is_plain("\n".join(changed)):
            return
        name = sha256_of("".join(self.texts).encode())[:16]  # which none of them can hold
        out: list[list[str]] = [[], [], []]
        at = [0, 0, 0]
        for gap, (begins, size) in zip(gaps, common, strict=False):
            if any(line.startswith("#") for line in gap):  # what follows may be in another section
                break
            for first, last in _runs_of(sides[0][begins[0] : begins[0] + size], changed):
                item = f"- {name} {len(self._runs)}"
                self._runs[item] = sides[0][begins[0] + first : begins[0] + last]
                for side, begin in enumerate(begins):
                    out[side] += [*sides[side][at[side] : begin + first], item]
                    at[side] = begin + last
        self.texts = [
            head + "\n".join([*short, *lines[end:]])
            for head, short, lines, end in zip(heads, out, sides, at, strict=True)
        ]


def _is_plain(text: str) -> bool:
    """Tell whether each line can be read without the lines above it."""
    comments = text.split("<!--")[1:]
    ends = [comment.find("-->") for comment in comments]
    return not any(fence in text for fence in _FENCES) and all(
        end >= 0 and "\n" not in comment[:end] for comment, end in zip(comments, ends, strict=True)
    )


def _common(
    base: list[str], ours: list[str], theirs: list[str]
) -> Iterator[tuple[tuple[int, int, int], int]]:
    """Yield what all three have at matching places: where it begins in each, and its length."""
    left, right = list(_matches(base, ours)), list(_matches(base, theirs))
    while left and right:
        (i, j, n), (k, m, size) = left[0], right[0]
        begin, end = max(i, k), min(i + n, k + size)
        if begin < end:
            yield (begin, j + begin - i, m + begin - k), end - begin
        done = left if i + n <= k + size else right
        done.pop(0)


def _gaps(
    sides: Sequence[list[str]], common: Sequence[tuple[tuple[int, int, int], int]]
) -> Iterator[list[str]]:
    """Yield the lines of all sides that stand before each common part, and after the last."""
    at = [0, 0, 0]
    for begins, size in [*common, (tuple(map(len, sides)), 0)]:
        yield [line for lines, a, b in zip(sides, at, begins, strict=True) for line in lines[a:b]]
        at = [begin + size for begin in begins]


def _matches(base: list[str], side: list[str]) -> Iterator[tuple[int, int, int]]:
    """Yield matching runs in order, nearly as `matching_blocks` finds them, but sooner."""
    i = j = 0
    while i < len(base) and j < len(side):
        size = _equal_lines(base, side, i, j)
        if size:
            yield i, j, size
            i, j = i + size, j + size
            continue
        there = {line: at for at, line in reversed([*enumerate(side[j : j + _WINDOW])]) if line}
        near = [
            (at + there[line], at, there[line])
            for at, line in enumerate(base[i : i + _WINDOW])
            if line in there
        ]
        if not near:
            yield from ((i + a, j + b, n) for a, b, n in matching_blocks(base[i:], side[j:]))
            return
        _, skipped, more = min(near)
        i, j = i + skipped, j + more


def _equal_lines(base: list[str], side: list[str], i: int, j: int) -> int:
    """Return how many lines are the same from two places on."""
    size, stride = 0, _STRIDE
    while stride:
        one = base[i + size : i + size + stride]
        if one and one == side[j + size : j + size + stride]:
            size += len(one)
        else:
            stride //= 2
    return size


def _runs_of(lines: list[str], changed: set[str]) -> Iterator[tuple[int, int]]:
    """Yield where long runs of list items begin and end, without the first and last of each."""
    begin = 0
    for end in range(len(lines) + 1):
        line = lines[end] if end < len(lines) else None
        if line is None or line in changed or (line and not _ITEM.fullmatch(line)):
            tops = (at for at in range(begin, end) if lines[at].startswith(_TOP))
            first = next(islice(tops, 1, None), end)
            last = next(
                (at for at in range(end - 1, first, -1) if lines[at].startswith(_TOP)), first
            )
            while last > first and not lines[last - 1]:
                last -= 1
            if last - first >= _SHORTEST:
                yield first, last
            begin = end + 1
