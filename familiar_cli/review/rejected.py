"""What a person said no to: `sessions/.rejected/<plan>.json` in the memory.

A no can be worked out from nothing else, so it stands in the memory itself: it is in the journal,
can be undone, and goes wherever the memory goes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import FamiliarError, NotFoundError
from familiar_cli.memory.layout import REJECTED_DIR

if TYPE_CHECKING:
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.transactions import Transaction

_VERSION: Final = 1


def note(tx: Transaction, plan_id: str, grounds: str) -> None:
    """Remember in a transaction that a plan was rejected.

    Args:
        tx: The transaction.
        plan_id: The plan.
        grounds: The hash of what it was made of; made of something else, it may be proposed again.
    """
    text = json.dumps({"version": _VERSION, "grounds": grounds})
    tx.write(_rel_path(plan_id), f"{text}\n", any_size=True)


def forget(tx: Transaction, store: MemoryStore, plan_id: str) -> None:
    """Take a no back in a transaction, if there is one."""
    if store.exists(_rel_path(plan_id)):
        tx.delete(_rel_path(plan_id))


def rejected(store: MemoryStore) -> dict[str, str]:
    """Return for each rejected plan what it was made of, as a hash. What is damaged is no no."""
    try:
        files = store.walk(REJECTED_DIR, hidden=True).files
    except NotFoundError:
        return {}
    found: dict[str, str] = {}
    for file in files:
        name = file.rel_path.removeprefix(f"{REJECTED_DIR}/")
        if not name.endswith(".json"):
            continue
        try:
            grounds = json.loads(store.read_bytes(file.rel_path))["grounds"]
        except (FamiliarError, ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(grounds, str):
            found[name.removesuffix(".json")] = grounds
    return found


def _rel_path(plan_id: str) -> str:
    return f"{REJECTED_DIR}/{plan_id}.json"
