"""Hunks of a text change that can be accepted one by one."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_CONTEXT: Final = 2


@dataclass(frozen=True, slots=True)
class Hunk:
    """One piece of a change.

    Args:
        above: The lines just before it.
        removed: The lines that go.
        added: The lines that come.
        below: The lines just after it.
        at: Where it begins in the old text, in lines from 0.
    """

    above: tuple[str, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]
    below: tuple[str, ...]
    at: int

    @property
    def text(self) -> str:
        """The piece as a diff shows it."""
        marked = [f"{mark}{line}" for mark, lines in self._parts for line in lines]
        return "".join(line if line.endswith("\n") else line + "\n" for line in marked)

    @property
    def size(self) -> int:
        """How many lines go or come."""
        return len(self.removed) + len(self.added)

    def part(self, lines: Collection[int]) -> Hunk | None:
        """Return the piece with only these of its lines, numbered from 1, first those that go.

        None: with them nothing changes.
        """
        old = len(self.removed)
        stay = [line for n, line in enumerate(self.removed, 1) if n not in lines]
        come = [line for n, line in enumerate(self.added, old + 1) if n in lines]
        added = self.added if len(lines) == self.size else (*stay, *come)
        return None if added == self.removed else replace(self, added=added)

    @property
    def _parts(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return ((" ", self.above), ("-", self.removed), ("+", self.added), (" ", self.below))


def hunks(before: str, after: str) -> tuple[Hunk, ...]:
    """Return the pieces that make `after` of `before`, in order."""
    old, new = lines_of(before), lines_of(after)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return tuple(
        Hunk(
            above=tuple(old[max(0, a - _CONTEXT) : a]),
            removed=tuple(old[a:b]),
            added=tuple(new[c:d]),
            below=tuple(old[b : b + _CONTEXT]),
            at=a,
        )
        for tag, a, b, c, d in matcher.get_opcodes()
        if tag != "equal"
    )


def apply(text: str, chosen: Iterable[Hunk]) -> str:
    """Apply these hunks to the text that they were made from."""
    lines = lines_of(text)
    for hunk in sorted(chosen, key=lambda h: h.at)[::-1]:
        lines[hunk.at : hunk.at + len(hunk.removed)] = hunk.added
    return "".join(lines)


def lines_of(text: str) -> list[str]:
    """Return the lines of `text`, each with its newline."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]
