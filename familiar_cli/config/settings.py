"""The settings as a flat table of dotted keys, read off the dataclasses."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from familiar_cli.config.fields import ANY_NAME
from familiar_cli.config.schema import CharacterConfig
from familiar_cli.errors import ConfigError
from familiar_cli.text import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from dataclasses import Field

from familiar_cli.config.fields import Setting

_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


def setting_of(section: Field[Any], prefix: str) -> Setting:
    """Return the setting that a field of a section's dataclass declares."""
    about: Mapping[str, Any] = section.metadata
    default: Any = section.default
    env = about["env"] if prefix == "llm." else ""  # the variables speak of the main model alone
    return Setting(
        f"{prefix}{section.name}",
        default,
        about["doc"],
        about["choices"],
        about["minimum"],
        about["rule"],
        env,
        about["maximum"],
    )


def all_settings(root: type[object] = CharacterConfig) -> Mapping[str, Setting]:
    """Return every setting of a file by its dotted key, in the order of the schema.

    Of tables that a person names, there is one with the name `NAME`.
    """
    hashable: Any = root
    return _all_of(hashable)


@cache
def _all_of(root: Any) -> Mapping[str, Setting]:  # noqa: ANN401
    return {setting.key: setting for setting in _walk(root, "")}


def find_setting(key: str, root: type[Any] = CharacterConfig) -> Setting:
    """Return the setting `key`.

    Raises:
        ConfigError: There is none; the error names the nearest.
    """
    known = all_settings(root)
    if key in known:
        return known[key]
    pattern = _pattern_of(key, known)
    if pattern:
        return replace(known[pattern], key=key)
    where = "config show" if root is CharacterConfig else "channel show CHANNEL"
    raise ConfigError(
        f"No such setting: {key!r}{did_you_mean(key, root)}",
        hint=f"Run `familiar {where}` to list all settings.",
    )


def did_you_mean(key: str, root: type[Any] = CharacterConfig) -> str:
    """Return `; did you mean '…'?` with the known key most like `key`, or an empty string."""
    guess = nearest_key(key, root)
    return f"; did you mean {guess!r}?" if guess else ""


def is_name(text: str) -> bool:
    """Return whether a person may give a table this name."""
    return bool(_NAME.fullmatch(text))


def nearest_key(key: str, root: type[Any] = CharacterConfig) -> str | None:
    """Return the known key most like `key`: by its last word first, then as a whole."""
    known = all_settings(root)
    last_first = list(reversed(list(known)))
    section, _, leaf = key.rpartition(".")
    beside = {k.rpartition(".")[2]: k for k in last_first if k.rpartition(".")[0] == section}
    anywhere = {k.rpartition(".")[2]: k for k in last_first}
    if (guess := nearest(leaf, beside)) is not None:
        return beside[guess]
    return anywhere.get(leaf) or nearest(key, known)


def _pattern_of(key: str, known: Mapping[str, Setting]) -> str | None:
    """Return the known key that `key` is, with a name of a person's own in place of `NAME`."""
    parts = key.split(".")
    for at, part in enumerate(parts):
        pattern = ".".join([*parts[:at], ANY_NAME, *parts[at + 1 :]])
        if pattern in known and is_name(part):
            return pattern
    return None


def _walk(section: type[Any], prefix: str) -> Iterator[Setting]:
    for entry in fields(section):
        if entry.default is not MISSING:
            yield setting_of(entry, prefix)
        elif "each" in entry.metadata:
            for name in entry.metadata["names"] or (ANY_NAME,):
                yield from _walk(entry.metadata["each"], f"{prefix}{entry.name}.{name}.")
        else:
            factory: Any = entry.default_factory
            yield from _walk(factory, f"{prefix}{entry.name}.")
