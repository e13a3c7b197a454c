"""Cut what is to be read into parts that a model can read: nothing twice, nothing left out.

What a model makes of a part stands for it in the next round.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from familiar_cli.consolidation.types import Item
from familiar_cli.markdown import split_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from familiar_cli.consolidation.types import DraftedSummary

_NAMED = 3  # sources that stand for something by their names


def in_parts(
    items: Iterable[Item], most_tokens: int, count: Callable[[str], int]
) -> tuple[tuple[Item, ...], ...]:
    """Return `items` in parts of at most `most_tokens`, in order, each in exactly one part.

    An item that is longer than a part is cut at its lines, a line that is, within it; the pieces of
    an item, joined, are the item.
    """
    parts: list[list[Item]] = []
    room = 0
    for item in items:
        for piece in _pieces(item, most_tokens, count):
            cost = count(piece.text)
            if not parts or cost > room:
                parts.append([])
                room = most_tokens
            parts[-1].append(piece)
            room -= cost
    return tuple(map(tuple, parts))


def folded(plan: DraftedSummary, everything: tuple[str, ...]) -> tuple[Item, ...]:
    """Return what a model made of a part as items, one for all that rests on the same sources.

    Args:
        plan: What it made.
        everything: The labels of all sources of the part; the summary rests on them.
    """
    found = {everything: [plan.summary]} if plan.summary else {}
    for point in plan.points:
        found.setdefault(point.sources, []).append(f"- {point.text}")
    return tuple(Item(_name(on), "\n".join(lines), on) for on, lines in found.items())


def folded_as_one(plan: DraftedSummary, everything: tuple[str, ...]) -> Item:
    """Return the same as one item, which is shorter but rests on all of the part."""
    points = [f"- {point.text} ({', '.join(point.sources)})" for point in plan.points]
    said = [plan.summary, *points] if plan.summary else points
    return Item(_name(everything), "\n".join(said), everything)


def _name(labels: Sequence[str]) -> str:
    return ", ".join(labels) if len(labels) <= _NAMED else f"{labels[0]} to {labels[-1]}"


def _pieces(item: Item, most: int, count: Callable[[str], int]) -> Iterator[Item]:
    if count(item.text) <= most:
        yield item
        return
    held = ""
    for line in _short_lines(split_lines(item.text), most, count):
        if held and count(held + line) > most:
            yield replace(item, text=held)
            held = ""
        held += line
    if held:
        yield replace(item, text=held)


def _short_lines(lines: Sequence[str], most: int, count: Callable[[str], int]) -> Iterator[str]:
    for line in lines:
        rest = line
        while len(rest) > 1 and count(rest) > most:
            cut = _longest(rest, most, count)
            yield rest[:cut]
            rest = rest[cut:]
        if rest:
            yield rest


def _longest(text: str, most: int, count: Callable[[str], int]) -> int:
    """Return how many characters of `text` fit; at least one."""
    low, high = 1, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(text[:middle]) <= most else (low, middle - 1)
    return low
