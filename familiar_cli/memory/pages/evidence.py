"""Which turns a line of memory rests on: a quiet HTML comment at its end.

`- Anna keeps bees <!-- turns 12-14, 20 -->` rests on the turns 12, 13, 14 and 20.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_REFERENCE: Final = re.compile(r"[ \t]{0,9}<!-- turns? ([0-9]{1,19}(?:[-, ]+[0-9]{1,19})*) -->")
_RANGE: Final = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_MOST_IN_RANGE: Final = 10_000  # a person's slip of the pen is not to fill the machine


def reference(turn_ids: Iterable[int]) -> str:
    """Return the comment that names `turn_ids`; an empty string for none."""
    named = spans(turn_ids)
    return f"<!-- turns {named} -->" if named else ""


def spans(turn_ids: Iterable[int]) -> str:
    """Return `turn_ids` as few numbers: `12-14, 20`."""
    ranges: list[list[int]] = []
    for turn_id in sorted(set(turn_ids)):
        if ranges and turn_id == ranges[-1][1] + 1:
            ranges[-1][1] = turn_id
        else:
            ranges.append([turn_id, turn_id])
    return ", ".join(f"{a}-{b}" if b > a else f"{a}" for a, b in ranges)


def turn_ids(line: str) -> tuple[int, ...]:
    """Return the turns that a line, or a longer text, names; sorted, each once."""
    return tuple(sorted(set().union(*_ranges(line))))


def turn_count(line: str) -> int:
    """Return how many turns a line names, without counting them one by one; some count twice."""
    return sum(map(len, _ranges(line)))


def _ranges(line: str) -> Iterator[range]:
    for comment in _REFERENCE.finditer(line):
        for match in _RANGE.finditer(comment[1]):
            first, last = int(match[1]), int(match[2] or match[1])
            yield range(first, min(last, first + _MOST_IN_RANGE) + 1)


def last_turn(line: str) -> int | None:
    """Return the newest turn that a line names; None when it names none."""
    named = " ".join(comment[1] for comment in _REFERENCE.finditer(line))
    return max(map(int, re.findall(r"[0-9]+", named)), default=None)


def is_reference(comment: str) -> bool:
    """Return whether a comment names turns."""
    return _REFERENCE.fullmatch(comment) is not None


def without_references(text: str) -> str:
    """Return `text` as a reader sees it: without the comments that name turns."""
    return _REFERENCE.sub("", text)
