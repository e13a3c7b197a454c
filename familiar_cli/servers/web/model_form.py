"""The form in which a person chooses a model, gives its key, and tries it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from familiar_cli.actions.health.start import (
    ModelTest,
    ServedModel,
    find_models,
    keep_key,
    try_model,
)
from familiar_cli.base.config.edit import parse_value, set_values
from familiar_cli.base.config.schema import LLMSettings
from familiar_cli.base.config.settings import find_setting
from familiar_cli.base.errors import FamiliarError, UsageError
from familiar_cli.llm.slots import PRESETS, resolve_slot

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MODELS: Final = {
    "local": "a small model inside this program; nothing leaves the machine",
    "ollama": "Ollama on this machine",
    "lmstudio": "LM Studio on this machine",
    "llamacpp": "a llama.cpp server on this machine",
    "openrouter": "OpenRouter, with a key",
    "openai": "OpenAI, with a key",
    "custom": "another server with the same API, such as KoboldCpp, at the address below",
}
SETTINGS: Final = {"preset": "llm.preset", "model": "llm.model", "base_url": "llm.base_url"}
"""The settings of a model by their fields."""

KEY: Final = "key"
"""The field of a key, which is never shown again."""

_USE: Final = "use"
_PATIENCE_S: Final = 0.3  # a server on this machine that works answers at once
_SEPARATOR: Final = "\t"


def model_values(fields: Mapping[str, str], tested: ModelTest | None = None) -> dict[str, Any]:
    """Return the template values of the form, with what was typed before."""
    typed = {name: fields.get(name, "") for name in SETTINGS}
    has_key = False
    with suppress(FamiliarError):
        has_key = typed["preset"] in PRESETS and bool(resolve_slot(_settings_of(typed)).api_key)
    served = asyncio.run(_find_served())
    offers = [(one, _SEPARATOR.join((one.preset, one.base_url, one.model))) for one in served]
    return {
        "chosen": typed,
        "models": MODELS,
        "offers": offers,
        "has_key": has_key,
        "tested": tested,
    }


async def _find_served() -> list[ServedModel]:
    try:
        return await asyncio.wait_for(find_models(), _PATIENCE_S)
    except TimeoutError:
        return []


def read_model_fields(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a model, checked; a click on a found one takes their place.

    Raises:
        UsageError: A field is invalid.
    """
    typed = {name: fields.get(name, "").strip() for name in SETTINGS}
    if fields.get(_USE):
        preset, base_url, model = [*fields[_USE].split(_SEPARATOR), "", ""][:3]
        typed = {"preset": preset, "base_url": base_url, "model": model}
    for name, text in typed.items():
        if text:
            parse_value(find_setting(SETTINGS[name]), text)
    if typed["preset"] == "custom" and not typed["base_url"]:
        raise UsageError("A server of your own needs its address, e.g. http://127.0.0.1:5000/v1")
    return typed


def try_choice(typed: Mapping[str, str], key: str) -> ModelTest:
    """Ask the chosen model for a word; nothing is changed."""
    settings = _settings_of(typed)
    tested = asyncio.run(try_model(settings, key))
    needs_key = PRESETS[settings.preset].key_needed and not (key or resolve_slot(settings).api_key)
    if needs_key and not tested.is_ok:
        return replace(tested, hint="Put the key into the field below, and test again.")
    return tested


def keep_choice(config: Path, typed: Mapping[str, str], key: str) -> list[str]:
    """Write the settings of a model, and its key into the file of keys; return what was done."""
    told = []
    if key:
        variable = resolve_slot(_settings_of(typed)).api_key_env
        path = keep_key(variable or PRESETS["custom"].api_key_env, key)
        told.append(f"The key is kept in {path}, which only you can read.")
    set_values(
        config, {SETTINGS[name]: text for name, text in typed.items() if text or name != "preset"}
    )
    model, server = typed["model"] or "the usual model", typed["preset"] or "the usual server"
    return [*told, f"From now on {model} of {server} replies."]


def _settings_of(typed: Mapping[str, str]) -> LLMSettings:
    return LLMSettings(
        preset=typed.get("preset") or LLMSettings().preset,
        base_url=typed.get("base_url", ""),
        model=typed.get("model", ""),
    )
