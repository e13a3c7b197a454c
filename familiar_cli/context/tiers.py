"""Context tiers: how much of the memory a prompt includes, from 1 (little) to 4 (everything).

Turns, their summaries, and texts from the settings are in the prompt at every tier. See
docs/reference/context-tiers.md, whose table is generated from this one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from msgspec import Struct

from familiar_cli.base.config.schema import TIERS
from familiar_cli.base.who.visibility import Viewer
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.pages.front_matter import TIERS_NOTE

IDENTITY: Final = 1
STANDARD: Final = 2
DEEP: Final = 3
EVERYTHING: Final = 4

LARGE_WINDOW: Final = 16_000
"""A model that reads so many tokens gets a prompt of tier `DEEP` unless a tier is set."""

SHORT: Final = f"{layout.DIGEST_DIR}/short.md"
MID: Final = f"{layout.DIGEST_DIR}/mid.md"
LONG: Final = f"{layout.DIGEST_DIR}/long.md"


class Loaded(Struct, frozen=True):
    """A file or directory, and the tier that loads it.

    Args:
        tier: The lowest tier.
        rel_path: A memory file, or a directory ending in `/`.
        what: Its description.
        persona: Its name in the folder of a persona.
    """

    tier: int
    rel_path: str
    what: str
    persona: str = ""


# First matching path wins.
LOADED: Final = (
    Loaded(IDENTITY, f"{layout.SELF_DIR}/description.md", "who the familiar is", "IDENTITY.md"),
    Loaded(STANDARD, f"{layout.SELF_DIR}/personality.md", "how it is", "SOUL.md"),
    Loaded(STANDARD, f"{layout.SELF_DIR}/system_prompt.md", "how it behaves", "PROTOCOLS.md"),
    Loaded(STANDARD, f"{layout.SELF_DIR}/post_history_instructions.md", "what is read last"),
    Loaded(STANDARD, f"{layout.SELF_DIR}/scenario.md", "where it is"),
    Loaded(STANDARD, f"{layout.SELF_DIR}/mes_example.md", "how it talks"),
    Loaded(STANDARD, layout.CARD_JSON, "only its depth prompt"),
    Loaded(STANDARD, f"{layout.PEOPLE_DIR}/", "who takes part, and who is named", "USER.md"),
    Loaded(STANDARD, SHORT, "the latest sessions", "MEMORY_SHORT.md"),
    Loaded(STANDARD, MID, "the last weeks", "MEMORY_MID.md"),
    Loaded(STANDARD, layout.REMINDERS, "only the reminders that are due", "REMINDERS.md"),
    Loaded(DEEP, LONG, "everything before", "MEMORY_LONG.md"),
    Loaded(DEEP, TIERS_NOTE, "a persona's own note on its tiers", "CONTEXT_TIERS.md"),
    Loaded(EVERYTHING, layout.SCRATCH, "the scratchpad", "SCRATCH.md"),
    Loaded(EVERYTHING, layout.TASKS, "only the open tasks", "TASKS.json"),
    Loaded(EVERYTHING, layout.CONFLICTS_LIST, "the files that two machines changed differently"),
)


@lru_cache(maxsize=512)
def lowest_tier(rel_path: str) -> int | None:
    """Return the lowest tier that loads a file; None if it does not depend on tiers."""
    rel_path = layout.path_without_scope(rel_path)
    for entry in LOADED:
        is_dir = entry.rel_path.endswith("/")
        if rel_path == entry.rel_path or (is_dir and rel_path.startswith(entry.rel_path)):
            return entry.tier
    return None


def is_loaded(rel_path: str, tier: int) -> bool:
    """Tell whether a prompt of a tier may include a file."""
    return tier >= (lowest_tier(rel_path) or IDENTITY)


def loaded_whole(tier: int, viewer: Viewer) -> frozenset[str]:
    """Return the files at fixed paths that a prompt of a tier includes in full."""
    digests = (
        layout.path_in_scope(path, scope)
        for scope in viewer.page_scopes
        for path in (SHORT, MID, LONG)
    )
    return frozenset(path for path in (*digests, layout.SCRATCH) if is_loaded(path, tier))


def why_withheld(rel_path: str, tier: int) -> str:
    """Return the reason why a tier does not load a file; empty when it does."""
    lowest = lowest_tier(rel_path)
    if lowest is None or tier >= lowest:
        return ""
    if lowest == TIERS[-1]:
        return f"tier {tier} does not load it, tier {lowest} does"
    return f"tier {tier} does not load it; tier {lowest} and above do"
