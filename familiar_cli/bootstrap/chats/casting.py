"""Which of the names in a chat is the familiar."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from familiar_cli.errors import FamiliarError, RefusedError
from familiar_cli.memory.layout import CARD_JSON
from familiar_cli.text import fold, slugify

if TYPE_CHECKING:
    from collections.abc import Collection

    from familiar_cli.bootstrap.chats.types import Cast
    from familiar_cli.memory.store.store import MemoryStore


def known_names(memory: MemoryStore, *, familiar_id: str, name: str) -> tuple[str, ...]:
    """Return all names that a familiar bears: in its settings, on its card, and its id."""
    card = _card(memory)
    found = (name, card.get("name"), card.get("nickname"), familiar_id)
    return tuple(dict.fromkeys(n for n in found if isinstance(n, str) and n.strip()))


def familiars_names(cast: Cast, names: Collection[str], *, origin: str) -> frozenset[str]:
    """Return which of `names` are the familiar's, folded.

    Args:
        cast: Who is who.
        names: Everyone in the chat who is not the person.
        origin: The chat, for messages.

    Raises:
        RefusedError: None of them is.
    """
    wanted = {fold(name) for name in cast.character or cast.known}
    slugs = {slugify(name) for name in cast.character or cast.known} - {""}
    found = frozenset(fold(n) for n in names if fold(n) in wanted or slugify(n) in slugs)
    if found or not names or cast.unnamed == "others":
        return found or frozenset(wanted)
    if cast.unnamed == "familiar":
        return frozenset(map(fold, names))
    listed = ", ".join(repr(name) for name in sorted(names)[:8])
    if cast.character:
        raise RefusedError(
            f"No speaker in {origin!r} is called {' or '.join(map(repr, cast.character))}; "
            f"it has {listed}. Nothing was imported",
            hint=f"Try `--character {min(names)!r}`.",
        )
    raise RefusedError(
        f"{origin!r} is a chat with {listed}, and this familiar is "
        f"{' or '.join(map(repr, cast.known))}; nothing was imported",
        hint=f"If they are the same, add `--character {min(names)!r}`.",
    )


def with_my_names(cast: Cast, names: Collection[str], *, origin: str) -> Cast:
    """Return `cast` for a chat in which people are called `names`; one person alone is me.

    Raises:
        RefusedError: They are several, and I am none of them.
    """
    if not cast.mine or not {fold(n) for n in names}.isdisjoint(map(fold, cast.mine)):
        return cast
    if len(names) <= 1:
        return replace(cast, mine=())
    listed = ", ".join(repr(name) for name in sorted(names)[:8])
    raise RefusedError(
        f"No person in {origin!r} is called {' or '.join(map(repr, cast.mine))}; it has {listed}. "
        "Nothing was imported",
        hint=f"Try `--me {min(names)!r}`.",
    )


def _card(memory: MemoryStore) -> dict[str, Any]:
    try:
        data = json.loads(memory.read_file(CARD_JSON))["data"]
    except (FamiliarError, ValueError, KeyError, TypeError, RecursionError):
        return {}  # a familiar without a card, or with one that `doctor` complains of
    return data if isinstance(data, dict) else {}
