"""Vector clocks: how many changes of each instance a version holds.

They tell which of two versions came first, and never what to do about it. Time has no part in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Clock = Mapping[str, int]
"""How many changes by instance; one that is not in it counts 0."""

Order = Literal["equal", "before", "after", "concurrent"]


def compare(one: Clock, other: Clock) -> Order:
    """Return how `one` stands to `other`; `concurrent` when each holds what the other lacks."""
    has_less = any(count > one.get(name, 0) for name, count in other.items())
    has_more = any(count > other.get(name, 0) for name, count in one.items())
    if has_less and has_more:
        return "concurrent"
    if has_less:
        return "before"
    return "after" if has_more else "equal"
