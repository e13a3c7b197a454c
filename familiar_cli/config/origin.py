"""Where the value of each setting comes from: its file, a mode, the environment or a default."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from familiar_cli.config.fields import ANY_NAME, Setting, Value, shown
from familiar_cli.config.load import load_config
from familiar_cli.config.schema import CharacterConfig
from familiar_cli.config.settings import all_settings, find_setting
from familiar_cli.config.toml_text import parse, read_text

if TYPE_CHECKING:
    from pathlib import Path

    from familiar_cli.config.schema import CharacterConfig


_SLOTS = "llm.slots."


@dataclass(frozen=True, slots=True)
class Effective:
    """What holds for one setting.

    Args:
        setting: The setting.
        value: What holds; a password in an address is left out.
        source: `default`, `file`, `[llm]` (a slot took it from there), or the name of the
            environment variable that overrides it.
        effective: What it comes to now, where `value` leaves that to the mode, the model or the
            machine; None: `value` itself.
        effective_source: Who decides that.
    """

    setting: Setting
    value: Value
    source: str
    effective: Value | None = None
    effective_source: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return everything about the setting as plain values."""
        return {
            "key": self.setting.key,
            "value": self.value,
            "source": self.source,
            "effective": self.value if self.effective is None else self.effective,
            "effective_source": self.effective_source or self.source,
            "default": self.setting.default,
            "allowed": self.setting.allowed,
            "meaning": self.setting.doc,
        }


def effective(path: Path) -> list[Effective]:
    """Return what holds for every setting; of the slots, those that the file has.

    Raises:
        ConfigError: The file has something wrong in it.
    """
    config = load_config(path)
    data = parse(read_text(path), path)
    given = [s for s in all_settings().values() if _applies(s.key, config)]
    return [_effective(s, config, data) for setting in given for s in _named(setting, config)]


def effective_value(path: Path, key: str) -> Effective:
    """Return what holds for the setting `key`.

    Raises:
        ConfigError: There is no such setting, or the file has something wrong in it.
    """
    setting = find_setting(key)
    config = load_config(path)
    if not _applies(key, config):  # a slot that nobody set up is the main model's
        main = effective_value(path, f"llm.{key.rpartition('.')[2]}")
        return Effective(setting, main.value, "[llm]")
    if not _is_there(config, key.split(".")):  # a table that nobody wrote holds its defaults
        return Effective(setting, setting.default, "default")
    return _effective(setting, config, parse(read_text(path), path))


def _named(setting: Setting, config: CharacterConfig) -> list[Setting]:
    """Return the setting, or one for each name that a person gave such a table."""
    table, found, leaf = setting.key.partition(f".{ANY_NAME}.")
    if not found:
        return [setting]
    names: Any = reduce(_step, table.split("."), config)
    return [replace(setting, key=f"{table}.{name}.{leaf}") for name in names]


def _is_there(value: Any, parts: list[str]) -> bool:  # noqa: ANN401
    for part in parts:
        if isinstance(value, dict) and part not in value:
            return False
        value = _step(value, part)
    return True


def _applies(key: str, config: CharacterConfig) -> bool:
    return not key.startswith(_SLOTS) or key.split(".")[2] in config.llm.slots


def _effective(setting: Setting, config: CharacterConfig, data: dict[str, Any]) -> Effective:
    override = os.environ.get(setting.env) if setting.env else None
    if override:
        return Effective(setting, shown(setting, override), setting.env)
    value: Any = reduce(_step, setting.key.split("."), config)
    if setting.rule == "url":
        value = shown(setting, value)
    if _is_in(data, setting.key):
        return Effective(setting, value, "file")
    taken = setting.key.startswith(_SLOTS) and value != setting.default
    return Effective(setting, value, "[llm]" if taken else "default")


def _step(value: Any, name: str) -> Any:  # noqa: ANN401
    return value[name] if isinstance(value, dict) else getattr(value, name)


def _is_in(data: Any, key: str) -> bool:  # noqa: ANN401
    for part in key.split("."):
        if not isinstance(data, dict) or part not in data:
            return False
        data = data[part]
    return True
