"""Two versions of one file and what both began with, as one file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MergedContent:
    """A file that both sides changed.

    Args:
        content: With what either side changed, and our side where they differ.
        clashes: The kinds of places where they do, each once; none: nothing is left to settle.
    """

    content: bytes
    clashes: tuple[str, ...] = ()


def merge_content(path: str, base: bytes, ours: bytes, theirs: bytes) -> MergedContent:  # noqa: ARG001
    """Return both versions of a file as one.

    Args:
        path: Its name says whether it is Markdown; anything else is the same or a conflict.
        base: What both began with; empty where there was no such file.
        ours: The version that stands where they differ.
        theirs: The other one.
    """
    if theirs in (ours, base):
        return MergedContent(ours)
    if ours == base:
        return MergedContent(theirs)
    return MergedContent(ours, ("file",))
