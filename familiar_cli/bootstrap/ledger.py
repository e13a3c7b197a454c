"""Ledgers: files in memory that say what an import wrote, so that a person's edits are told apart.

Each keeps the SHA-256 of what was written, and what its importer needs besides; `folders.ledger`
and `lorebooks.book_settings` say how theirs are spelled.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeVar

from familiar_cli.bootstrap.json_text import finite, no_constant
from familiar_cli.errors import BadInputError
from familiar_cli.memory.store.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from familiar_cli.memory.store.store import MemoryStore

T = TypeVar("T")

_SHOWN_PATHS: Final = 12


def load(
    store: MemoryStore, rel_path: str, parse: Callable[[Any], T], *, keeps: str, hint: str
) -> T | None:
    """Return what `parse` makes of the ledger at `rel_path`; None when there is none.

    Args:
        store: The memory.
        rel_path: Where the ledger is.
        parse: May raise whatever a value of the wrong shape raises.
        keeps: What it keeps, for the error.
        hint: What to do about a damaged one.

    Raises:
        BadInputError: It is damaged, so nobody can tell what a person has edited since.
    """
    if not store.exists(rel_path):
        return None
    try:
        raw = store.read_bytes(rel_path)
        return parse(json.loads(raw, parse_float=finite, parse_constant=no_constant))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadInputError(
            f"{rel_path!r}, which keeps {keeps}, is damaged: {error or type(error).__name__}; "
            "nothing was changed",
            hint=hint,
        ) from error


def change(store: MemoryStore, rel_path: str, text: str) -> tuple[str, bytes, str]:
    """Return the change that writes a ledger: its path, its bytes, and what must be there now."""
    return rel_path, text.encode(), store.sha256(rel_path) or MISSING


def listed(paths: Iterable[str]) -> str:
    """Return the first few of `paths`, sorted, and how many more there are."""
    found = sorted(set(paths))
    more = len(found) - _SHOWN_PATHS
    return ", ".join(found[:_SHOWN_PATHS]) + (f" and {more} more" if more > 0 else "")
