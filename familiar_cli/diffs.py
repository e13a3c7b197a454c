"""Unified diffs: how two texts differ, as people and `patch` read it."""

from __future__ import annotations

import difflib
from typing import Final

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
