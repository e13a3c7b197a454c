"""Settings of SillyTavern: the personas of its user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from familiar_cli.base.errors import BadInputError, NotFoundError, UsageError
from familiar_cli.base.text import fold, str_or_empty
from familiar_cli.imports.contract import (
    CERTAIN,
    ForeignPersona,
    ForeignSettings,
    Format,
    Sighting,
    certain_if,
)
from familiar_cli.imports.foreign_files import as_object, object_at, read_json, text_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.imports.contract import Reading
    from familiar_cli.imports.source import ForeignFile


def _sniff(source: ForeignFile) -> Sighting:
    value = as_object(source.value)
    if isinstance(value.get("power_user"), dict):
        return CERTAIN
    is_backup = isinstance(value.get("personas"), dict) and "persona_descriptions" in value
    return certain_if(is_backup, "a backup of SillyTavern's personas")


def _read(source: ForeignFile, _: Reading) -> Iterator[ForeignSettings]:
    yield read_settings(as_object(source.value))


def read_settings(settings: dict[str, Any]) -> ForeignSettings:
    """Read the personas in a `settings.json` or a backup of personas."""
    found = object_at(settings, "power_user") or settings
    described = object_at(found, "persona_descriptions")
    current = text_at(settings, "user_avatar")
    default = text_at(found, "default_persona")
    return ForeignSettings(
        tuple(
            ForeignPersona(
                name.strip(),
                str_or_empty(as_object(described.get(avatar)).get("description")).strip(),
                is_current=avatar == current,
                is_default=avatar == default,
            )
            for avatar, name in object_at(found, "personas").items()
            if isinstance(name, str) and name.strip()
        )
    )


def read_personas(raw: bytes, *, origin: str) -> tuple[ForeignPersona, ...]:
    """Read the personas in a `settings.json` or a backup of personas, in order.

    Args:
        raw: The file's bytes.
        origin: Its name, for messages.

    Raises:
        BadInputError: It is neither.
    """
    settings = as_object(read_json(raw, origin=origin)[0])
    found = object_at(settings, "power_user") or settings
    if not isinstance(found.get("personas"), dict):
        raise BadInputError(
            f"{origin!r} has no SillyTavern personas",
            hint="Give its `settings.json`, or a backup from its Persona Management page.",
        )
    return read_settings(settings).personas


def choose_persona(
    personas: tuple[ForeignPersona, ...], name: str = "", *, origin: str
) -> ForeignPersona:
    """Return the persona called `name`, by default the user's default one.

    Raises:
        NotFoundError: There is no persona, or none of that name.
        UsageError: The choice is ambiguous.
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


FORMAT: Final = Format(
    name="silly_tavern_settings",
    program="SillyTavern's settings",
    forms=("settings",),
    sniff=_sniff,
    read=_read,
)
