"""SillyTavern's personas: who its user is. They stand in `settings.json`, and in backups of them.

In `settings.json` they are below `power_user`; a backup that its persona page makes has the same
keys at the top.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.bootstrap.json_text import read_json
from familiar_cli.errors import BadInputError, NotFoundError, UsageError
from familiar_cli.text import fold, str_or_empty

if TYPE_CHECKING:
    from collections.abc import Mapping

_NO_PLACE: Final = 9  # a position: the description is in no prompt, but where a macro asks for it


@dataclass(frozen=True, slots=True)
class Persona:
    """One of the people that a user of SillyTavern is.

    Args:
        avatar: The file of its picture, by which SillyTavern knows it.
        name: What it is called.
        description: Who it is; macros work in it.
        is_current: It was chosen when the file was written.
        is_default: It is chosen for new chats.
        characters: Files of characters' pictures with whom it is chosen.
        by_macro_only: Its description was in a prompt only where `{{persona}}` stood.
    """

    avatar: str
    name: str
    description: str = ""
    is_current: bool = False
    is_default: bool = False
    characters: tuple[str, ...] = ()
    by_macro_only: bool = False


def read_personas(raw: bytes, *, origin: str) -> tuple[Persona, ...]:
    """Return the personas in a `settings.json` or a backup of personas, in its order.

    Args:
        raw: The file.
        origin: Its name, for messages.

    Raises:
        BadInputError: It is neither.
    """
    settings = _table(read_json(raw, origin=origin)[0])
    found = _table(settings.get("power_user")) or settings
    if not isinstance(found.get("personas"), dict):
        raise BadInputError(
            f"{origin!r} has no SillyTavern personas",
            hint="Give its `settings.json`, or a backup from its Persona Management page.",
        )
    described = _table(found.get("persona_descriptions"))
    current = str_or_empty(settings.get("user_avatar"))
    default = str_or_empty(found.get("default_persona"))
    return tuple(
        _persona(avatar, name.strip(), _table(described.get(avatar)), current, default)
        for avatar, name in found["personas"].items()
        if isinstance(name, str) and name.strip()
    )


def choose(personas: tuple[Persona, ...], name: str = "", *, origin: str) -> Persona:
    """Return the persona that is called `name`; without one, who the user is by default.

    Raises:
        NotFoundError: There is none, or none is called so.
        UsageError: It is not told which one, or several are called so.
    """
    listed = ", ".join(repr(persona.name) for persona in personas)
    if not personas:
        raise NotFoundError(f"{origin!r} holds no persona; nothing was changed")
    called = [p for p in personas if fold(p.name) == fold(name)] if name else []
    if name and not called:
        raise NotFoundError(
            f"{origin!r} holds no persona called {name!r}; it has {listed}",
            hint=f"Try `--name {personas[0].name!r}`.",
        )
    if len(called) == 1 or len(personas) == 1:
        return (called or personas)[0]
    among = called or personas
    chosen = [p for p in among if p.is_current] or [p for p in among if p.is_default]
    if len(chosen) != 1:
        raise UsageError(
            f"{origin!r} holds several personas, and does not say which one is selected: {listed}",
            hint=f"Choose one: `--name {personas[0].name!r}`.",
        )
    return chosen[0]


def _persona(
    avatar: str, name: str, about: Mapping[str, Any], current: str, default: str
) -> Persona:
    connections = about.get("connections")
    linked = connections if isinstance(connections, list) else []
    return Persona(
        avatar,
        name,
        str_or_empty(about.get("description")).strip(),
        is_current=avatar == current,
        is_default=avatar == default,
        characters=tuple(
            str_or_empty(one.get("id"))
            for one in linked
            if isinstance(one, dict) and one.get("type") == "character" and one.get("id")
        ),
        by_macro_only=about.get("position") == _NO_PLACE,
    )


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
