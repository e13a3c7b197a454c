"""The settings as one flat table of dotted keys, read off the dataclasses in `schema`."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Any

from familiar_cli.config.schema import CharacterConfig
from familiar_cli.errors import ConfigError
from familiar_cli.text import nearest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from dataclasses import Field

_TYPE_NAMES = {str: "text", int: "a whole number", float: "a number"}
Value = str | int | float


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Args:
        key: Its dotted name, e.g. `llm.preset`.
        default: What holds when nobody sets it; its type is the setting's type.
        doc: What it means, in one line.
        choices: The only values allowed, if there are such.
        minimum: The least value allowed, if there is one.
        rule: The name of a further rule, see `config.check`.
        env: The environment variable that overrides it, or an empty string.
    """

    key: str
    default: Value
    doc: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    rule: str = ""
    env: str = ""

    @property
    def section(self) -> str:
        """The dotted name of the table it stands in; empty at the top."""
        return self.key.rpartition(".")[0]

    @property
    def allowed(self) -> str:
        """What it may be, in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        words = _TYPE_NAMES[type(self.default)]
        return words if self.minimum is None else f"{words}, at least {self.minimum:g}"


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
    )


@cache
def all_settings() -> dict[str, Setting]:
    """Return every setting by its dotted key, in the order of the schema."""
    return {setting.key: setting for setting in _walk(CharacterConfig, "")}


def find_setting(key: str) -> Setting:
    """Return the setting `key`.

    Raises:
        ConfigError: There is none; the error names the nearest.
    """
    try:
        return all_settings()[key]
    except KeyError:
        raise ConfigError(
            f"There is no setting {key!r}{did_you_mean(key)}",
            hint="Run `familiar config show` for all settings.",
        ) from None


def did_you_mean(key: str) -> str:
    """Return `; did you mean '…'?` with the known key most like `key`, or an empty string."""
    guess = nearest_key(key)
    return f"; did you mean {guess!r}?" if guess else ""


def nearest_key(key: str) -> str | None:
    """Return the known key most like `key`: by its last word first, then as a whole."""
    known = all_settings()
    section, _, leaf = key.rpartition(".")
    beside = {k.rpartition(".")[2]: k for k in reversed(known) if k.rpartition(".")[0] == section}
    anywhere = {k.rpartition(".")[2]: k for k in reversed(known)}
    if (guess := nearest(leaf, beside)) is not None:
        return beside[guess]
    return anywhere.get(leaf) or nearest(key, known)


def _walk(section: type[Any], prefix: str) -> Iterator[Setting]:
    for entry in fields(section):
        if entry.default is not MISSING:
            yield setting_of(entry, prefix)
        elif "each" in entry.metadata:
            for name in entry.metadata["names"]:
                yield from _walk(entry.metadata["each"], f"{prefix}{entry.name}.{name}.")
        else:
            factory: Any = entry.default_factory
            yield from _walk(factory, f"{prefix}{entry.name}.")
