"""Choose what of a file is shown for a hit: short files whole, long ones around the best place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.tokens import heuristic

if TYPE_CHECKING:
    from collections.abc import Sequence

WHOLE_FILE_CHARS: Final = 2000
_COUNTER: Final = heuristic()


@dataclass(frozen=True, slots=True)
class Place:
    """`start` to `end` in a file, in characters."""

    start: int
    end: int


def choose(text: str, best: Place, passage: Place, snippet_tokens: int) -> Place:
    """Return which part of `text` to show: the file, or `passage`, or what of it is allowed.

    With `snippet_tokens` the part holds as much of `best` as that allows, and then grows by whole
    lines, first to the end and then to the start, as far as `passage` reaches.
    """
    whole = Place(0, len(text))
    outer = whole if len(text) <= WHOLE_FILE_CHARS else passage
    if not snippet_tokens:
        return _trimmed(text, outer)
    if _COUNTER.count(text[outer.start : outer.end]) <= snippet_tokens:
        return _trimmed(text, outer)
    return _trimmed(text, _grown(text, _trimmed(text, best), outer, snippet_tokens))


def line_number(text: str, place: int) -> int:
    """Return the number, from 1, of the line that holds the character at `place`."""
    return text.count("\n", 0, place) + 1


def first_word(text: str, place: Place) -> int:
    """Return where in `place` the first character that is no space stands."""
    inside = text[place.start : place.end]
    return place.start + len(inside) - len(inside.lstrip())


def _grown(text: str, best: Place, outer: Place, most: int) -> Place:
    if _COUNTER.count(text[best.start : best.end]) > most:
        return Place(best.start, _cut(text, best, most))
    found = best
    for end in _line_ends(text, best.end, outer.end):
        if _COUNTER.count(text[found.start : end]) > most:
            break
        found = Place(found.start, end)
    for start in _line_starts(text, outer.start, best.start):
        if _COUNTER.count(text[start : found.end]) > most:
            break
        found = Place(start, found.end)
    return found


def _cut(text: str, place: Place, most: int) -> int:
    """Return where a text must end to have `most` tokens, between words if it can."""
    low, high = place.start, place.end
    while low < high:
        middle = (low + high + 1) // 2
        if _COUNTER.count(text[place.start : middle]) <= most:
            low = middle
        else:
            high = middle - 1
    space = text.rfind(" ", place.start + (low - place.start) // 2, low)
    return space if space > 0 else low


def _line_ends(text: str, start: int, end: int) -> Sequence[int]:
    return [*(at + 1 for at in range(start, end) if text[at] == "\n"), end]


def _line_starts(text: str, start: int, end: int) -> Sequence[int]:
    return [*(at for at in range(end - 1, start, -1) if text[at - 1] == "\n"), start]


def _trimmed(text: str, place: Place) -> Place:
    """Leave out empty lines at both ends."""
    inside = text[place.start : place.end]
    start = place.start + len(inside) - len(inside.lstrip("\r\n"))
    return Place(start, max(start, place.start + len(inside.rstrip())))
