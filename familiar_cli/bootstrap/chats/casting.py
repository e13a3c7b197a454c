"""Which of the names in a chat is the familiar."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from familiar_cli.errors import FamiliarError, RefusedError
from familiar_cli.identity import Author
from familiar_cli.memory.layout import CARD_JSON
from familiar_cli.text import fold, slugify, typed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from familiar_cli.bootstrap.chats.types import Cast
    from familiar_cli.history.types import Role
    from familiar_cli.memory.store.store import MemoryStore

SpeakerRole = Literal["familiar", "me", "person", "note"]
"""What a speaker is: the familiar, whoever imports the chat, somebody else, or nobody."""

PLATFORM: Final = "chat"
"""The platform of people of whom only the name is known."""

_FAMILIARS: Final = frozenset(("assistant", "ai", "bot", "model", "familiar", "chatgpt", "claude"))
_PERSONS: Final = frozenset(("user", "human", "me", "you", "myself"))


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


@dataclass(frozen=True, slots=True)
class Parts:
    """Who is who among the speakers of one chat.

    Args:
        roles: What each speaker is, by name.
        cast: Who is who in all chats.
    """

    roles: Mapping[str, SpeakerRole]
    cast: Cast

    def who(self, name: str) -> tuple[Role, Author | None]:
        """Return the role and the author of what `name` says; nobody's words are a note."""
        role = self.roles.get(name, "person") if name else "note"
        if role in ("familiar", "note"):
            return ("assistant" if role == "familiar" else "system"), None
        called = "" if is_role(name) else name
        author = Author(PLATFORM, called or "user", display_name=called or None)
        return "user", self.me(name, author) if role == "me" else author

    def me(self, name: str, otherwise: Author) -> Author:
        """Return the account of a speaker who is me, which is `otherwise` if none is known."""
        called = "" if is_role(name) else name
        return replace(self.cast, mine=()).person(called, otherwise)


def is_role(name: str) -> bool:
    """Tell whether a name says what somebody is in a chat with a model: `User`, `AI`."""
    return fold(name) in _FAMILIARS | _PERSONS


def parts_of(cast: Cast, speakers: Sequence[str], *, origin: str) -> Parts:
    """Return who is who among the speakers of a transcript.

    The familiar is who bears one of its names, else who is called `AI` or the like. I am who is
    named so, else who is called `Me` or the like, else the only other speaker.

    Raises:
        RefusedError: Nobody is the familiar, or several could be the one whose account is given.
    """
    my_names = {fold(name) for name in cast.mine}
    mine = {name for name in speakers if fold(name) in my_names}
    if my_names and not mine:
        raise RefusedError(
            f"No speaker in {origin!r} is called {' or '.join(map(repr, cast.mine))}; it has "
            f"{_listed(speakers)}. Nothing was imported",
            hint=f"Try `--me {typed(min(speakers))}`." if speakers else None,
        )
    others = [name for name in speakers if name not in mine]
    named = {n for n in others if fold(n) in _FAMILIARS} if not cast.character else set()
    if not named or {fold(name) for name in others} & {fold(name) for name in cast.known}:
        folded = familiars_names(cast, others, origin=origin)
        named = {name for name in others if fold(name) in folded}
    rest = [name for name in others if name not in named]
    own = fold(cast.me.display_name or "") if cast.me else ""
    mine = mine or {name for name in rest if fold(name) in {*_PERSONS, own}}
    mine = mine or set(rest[: len(rest) == 1])
    if cast.user and not mine and rest:
        account = f"{cast.user.platform}:{cast.user.user_id}"
        raise RefusedError(
            f"Several people speak in {origin!r}: {_listed(rest)}. Which of them is {account!r} "
            "cannot be told; nothing was imported",
            hint=f"Add `--me NAME`, for example `--me {typed(min(rest))}`.",
        )
    roles: dict[str, SpeakerRole] = dict.fromkeys(rest, "person")
    roles.update(dict.fromkeys(mine, "me"))
    roles.update(dict.fromkeys(named, "familiar"))
    return Parts(roles, cast)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names)[:8])


def _card(memory: MemoryStore) -> dict[str, Any]:
    try:
        data = json.loads(memory.read_file(CARD_JSON))["data"]
    except (FamiliarError, ValueError, KeyError, TypeError, RecursionError):
        return {}  # a familiar without a card, or with one that `doctor` complains of
    return data if isinstance(data, dict) else {}
