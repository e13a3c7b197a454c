"""The timezone that a familiar lives in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import tzinfo


def zone_of(name: str) -> tzinfo | None:
    """Return the timezone of that name; None, which stands for the system's, when it is empty."""
    if not name:
        return None
    from zoneinfo import ZoneInfo  # noqa: PLC0415  # only who has one pays for it

    return ZoneInfo(name)
