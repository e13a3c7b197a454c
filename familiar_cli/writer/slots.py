"""Which session file a moment belongs to: one for each local date and part of the day."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.clock import to_zone
from familiar_cli.languages import ENGLISH
from familiar_cli.languages.phrases import SLOTS
from familiar_cli.memory.layout import SESSIONS_DIR

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, tzinfo

    from familiar_cli.history.types import Turn
    from familiar_cli.languages import Phrases

_HOURS: Final = 6


def slot_of(at: datetime, zone: tzinfo | None) -> str:
    """Return e.g. `2026-04-07-evening`; night is 0-6, morning 6-12, afternoon 12-18, evening 18-24.

    Args:
        at: A moment with a timezone.
        zone: The familiar's timezone; None is the system's.
    """
    local = to_zone(at, zone)
    return f"{local:%Y-%m-%d}-{SLOTS[local.hour // _HOURS]}"


def session_path(slot: str) -> str:
    """Return the memory file of a slot."""
    return f"{SESSIONS_DIR}/{slot}.md"


def session_title(rel_path: str, phrases: Phrases = ENGLISH) -> str:
    """Return the H1 of a session file, e.g. `2026-04-07, evening`; its name is in no language."""
    date, _, part = rel_path.removeprefix(f"{SESSIONS_DIR}/").removesuffix(".md").rpartition("-")
    return f"{date}{phrases.comma}{phrases.part(part)}"


def session_files(turns: Iterable[Turn], zone: tzinfo | None) -> dict[str, tuple[int, ...]]:
    """Return the session files that `turns` belong to, each with its turns' ids."""
    found: dict[str, list[int]] = {}
    for turn in turns:
        found.setdefault(session_path(slot_of(turn.at, zone)), []).append(turn.id)
    return {rel_path: tuple(ids) for rel_path, ids in found.items()}
