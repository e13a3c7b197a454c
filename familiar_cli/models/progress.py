"""How far a download is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a download is.

    Args:
        what: The file or package that is being fetched.
        origin: Where from, in words.
        done_bytes: How much is here.
        total_bytes: How much there is, or None when unknown.
    """

    what: str
    origin: str
    done_bytes: int
    total_bytes: int | None
