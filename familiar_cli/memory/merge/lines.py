"""Merge two edits of one text, line by line, and say where they cannot both be had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from familiar_cli.diffs import changed_blocks


@dataclass(frozen=True, slots=True)
class Clash:
    """A place that both sides changed, each in its own way.

    Args:
        line: Where it begins in our text, counted from 1.
        ours: The lines on our side.
        base: The lines that both began with.
        theirs: The lines on their side.
    """

    line: int
    ours: tuple[bytes, ...]
    base: tuple[bytes, ...]
    theirs: tuple[bytes, ...]


class MergedLines(NamedTuple):
    """The merged text, which holds our side where there are clashes."""

    content: bytes
    clashes: tuple[Clash, ...]


class _Hunk(NamedTuple):
    """Lines `begin` to `end` of the base become `lines`, which begin at `at` on their side."""

    begin: int
    end: int
    at: int
    lines: tuple[bytes, ...]


def merge_lines(base: bytes, ours: bytes, theirs: bytes) -> MergedLines:
    """Return `ours` with what changed from `base` to `theirs`.

    Edits clash when they change the same line, or put different lines at the same place. Neighbours
    do not clash: a list that grew at its end can still lose the line before. Whether the last line
    ends in a newline is merged as a thing of its own.
    """
    (base_lines, base_ends), (our_lines, our_ends), (their_lines, their_ends) = map(
        _lines, (base, ours, theirs)
    )
    out: list[bytes] = []
    clashes: list[Clash] = []
    at = 0
    for left, right in _groups(_hunks(base_lines, our_lines), _hunks(base_lines, their_lines)):
        begin, end = _span([*left, *right])
        out += base_lines[at:begin]
        mine, other = (_side(base_lines, begin, end, hunks) for hunks in (left, right))
        if left and right and mine != other:
            line = left[0].at - (left[0].begin - begin) + 1
            clashes.append(Clash(line, mine, tuple(base_lines[begin:end]), other))
        out += mine if left else other
        at = end
    out += base_lines[at:]
    ends = their_ends if our_ends == base_ends else our_ends
    return MergedLines(b"\n".join(out) + (b"\n" if ends and out else b""), tuple(clashes))


def _lines(content: bytes) -> tuple[list[bytes], bool]:
    """Return the lines, and whether the last one ends in a newline."""
    if not content:
        return [], True
    lines = content.split(b"\n")
    return (lines, False) if lines[-1] else (lines[:-1], True)


def _hunks(base: list[bytes], side: list[bytes]) -> list[_Hunk]:
    return [
        _Hunk(i, i_end, j, tuple(side[j:j_end]))
        for i, i_end, j, j_end in changed_blocks(base, side)
    ]


def _groups(left: list[_Hunk], right: list[_Hunk]) -> list[tuple[list[_Hunk], list[_Hunk]]]:
    """Put together the hunks that touch the same lines, in the order of the base."""
    groups: list[tuple[list[_Hunk], list[_Hunk]]] = []
    rows = sorted([(h, 0) for h in left] + [(h, 1) for h in right], key=lambda r: (r[0][:2], r[1]))
    for hunk, side in rows:
        if not groups or not any(
            _overlap(hunk, other) for other in (*groups[-1][0], *groups[-1][1])
        ):
            groups.append(([], []))
        groups[-1][side].append(hunk)
    return groups


def _overlap(one: _Hunk, other: _Hunk) -> bool:
    if one.begin == one.end or other.begin == other.end:  # lines put between two others
        return one[:2] == other[:2] or _inside(one, other) or _inside(other, one)
    return max(one.begin, other.begin) < min(one.end, other.end)


def _inside(one: _Hunk, other: _Hunk) -> bool:
    return other.begin < one.begin == one.end < other.end


def _span(hunks: list[_Hunk]) -> tuple[int, int]:
    return min(h.begin for h in hunks), max(h.end for h in hunks)


def _side(base: list[bytes], begin: int, end: int, hunks: list[_Hunk]) -> tuple[bytes, ...]:
    """Return lines `begin` to `end` of the base as one side has them."""
    lines: list[bytes] = []
    at = begin
    for hunk in hunks:
        lines += [*base[at : hunk.begin], *hunk.lines]
        at = hunk.end
    return (*lines, *base[at:end])
