"""How many plans await review."""

from __future__ import annotations

from familiar_cli.base.text import counted
from familiar_cli.store.memory.layout import PENDING_DIR
from familiar_cli.store.memory.store.store import MemoryStore


def pending_ids(store: MemoryStore) -> list[str]:
    """Return the names of all plans, oldest first."""
    files = store.walk(PENDING_DIR, hidden=True, missing_ok=True).files
    names = (f.rel_path.removeprefix(f"{PENDING_DIR}/") for f in files)
    return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))


def waiting_words(plans: int, turns: int = 0) -> str:
    """State how many plans are pending, with the command to type; empty if none."""
    if not plans:
        return ""
    rests = f", made from {counted(turns, 'turn')}," if turns else ""
    verb = "awaits" if plans == 1 else "await"
    return f"{counted(plans, 'plan')}{rests} {verb} review: `familiar review list`"
