from __future__ import annotations

import os

import pytest
from msgspec.structs import replace

from familiar_cli.base.config.schema import PRESETS as PRESET_NAMES
from familiar_cli.base.config.schema import SLOTS, LLMSettings, SlotSettings
from familiar_cli.base.config.settings import load_config
from familiar_cli.base.errors import ConfigError
from familiar_cli.llm.open import SlotModels
from familiar_cli.llm.slots import (
    PRESETS,
    check_usable,
    for_plans,
    keep_thinking,
    resolve_slot,
)
from tests.support.cases import each


def test_every_preset_of_the_settings_is_known() -> None:
    assert set(PRESETS) == set(PRESET_NAMES)


def test_the_default_is_the_model_inside_the_program() -> None:
    slot = resolve_slot(LLMSettings())
    assert (slot.preset, slot.model, slot.base_url) == ("local", "smollm2-135m-instruct", "")
    assert slot.context_tokens == 1536


@each("preset", sorted(set(PRESET_NAMES) - {"local", "custom"}))
def test_a_preset_brings_its_address(preset) -> None:
    assert resolve_slot(LLMSettings(preset=preset, model="m")).base_url.startswith("http")


def test_settings_win_over_the_preset() -> None:
    slot = resolve_slot(LLMSettings(preset="ollama", model="m", context_tokens=9000, max_tokens=77))
    assert (slot.model, slot.context_tokens, slot.max_tokens) == ("m", 9000, 77)


def test_a_slot_without_settings_is_the_main_model() -> None:
    main = LLMSettings(preset="ollama", model="big")
    assert resolve_slot(main, "memory_writer").model == "big"


def test_a_slot_takes_from_the_main_model_what_it_leaves_open(tmp_path) -> None:
    path = tmp_path / "character.toml"
    path.write_text(
        '[llm]\npreset = "ollama"\nmodel = "big"\ntimeout_s = 5.0\n'
        '[llm.slots.memory_writer]\nmodel = "small"\n',
        encoding="utf-8",
    )
    slot = resolve_slot(load_config(path).llm, "memory_writer")
    assert (slot.preset, slot.model, slot.timeout_s) == ("ollama", "small", 5.0)


def test_an_unknown_slot_is_an_error() -> None:
    with pytest.raises(ConfigError, match="memory_riter") as caught:
        resolve_slot(LLMSettings(), "memory_riter")
    assert "memory_writer" in caught.value.hint


def test_the_environment_overrides_server_and_model(monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", "http://127.0.0.1:9/v1/")
    monkeypatch.setenv("FAMILIAR_LLM_MODEL", "other")
    slot = resolve_slot(LLMSettings(preset="openrouter", model="m"))
    assert (slot.preset, slot.base_url, slot.model) == (
        "openrouter",
        "http://127.0.0.1:9/v1",
        "other",
    )


def test_a_familiar_resolves_a_slot_again_when_what_it_depends_on_has_changed(monkeypatch) -> None:
    models = SlotModels(LLMSettings(preset="ollama", model="m"), lambda _: None)
    first = models.slot()
    assert models.slot() is first

    keep_thinking(first.base_url, "m", "marked")
    assert models.slot().thinking == "marked"
    monkeypatch.setenv("FAMILIAR_LLM_MODEL", "other")
    assert models.slot().model == "other"


def test_a_server_in_the_environment_takes_the_place_of_the_local_model(monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", "http://127.0.0.1:9/v1")
    slot = resolve_slot(LLMSettings())
    assert (slot.preset, slot.model) == ("custom", "default")


def test_a_slot_with_a_server_of_its_own_does_not_follow_the_environment(monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", "http://127.0.0.1:9/v1")
    own = SlotSettings(preset="ollama", model="small")
    slot = resolve_slot(LLMSettings(slots={"recast": own}), "recast")
    assert (slot.preset, slot.model) == ("ollama", "small")


def test_a_slot_with_a_model_of_its_own_keeps_it_on_the_server_of_the_environment(
    monkeypatch,
) -> None:
    monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("FAMILIAR_LLM_MODEL", "main-model")
    main = LLMSettings(
        preset="ollama", model="a", slots={"recast": SlotSettings(preset="ollama", model="b")}
    )
    slot = resolve_slot(main, "recast")
    assert (slot.base_url, slot.model) == ("http://127.0.0.1:9/v1", "b")


@each(
    "url",
    [
        "localhost:8000/v1",
        "ftp://x/v1",
        "http://",
        "http://[::1/v1",
        "http://x:99999/v1",
        "http://a b/v1",
        "http://x/\x1b[31m",
    ],
)
def test_an_address_that_cannot_be_one_is_an_error(url) -> None:
    with pytest.raises(ConfigError, match="is not the address"):
        resolve_slot(LLMSettings(preset="custom", base_url=url))


@each("url", ["http://me:hunter2@x/v1", "http://x/v1?api_key=hunter2", "http://x/v1#hunter2"])
def test_an_address_with_a_password_is_refused_without_repeating_it(url) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_slot(LLMSettings(preset="custom", base_url=url))
    assert "hunter2" not in str(caught.value) + str(caught.value.hint)


@each("end", ["", "/", "/chat/completions", "/chat/completions/"])
def test_an_address_may_be_copied_with_its_end(end) -> None:
    slot = resolve_slot(LLMSettings(preset="custom", base_url="http://x/v1" + end))
    assert slot.base_url == "http://x/v1"


def test_a_key_comes_from_the_environment_and_shows_in_no_repr(monkeypatch) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", " sk-or-secret\n")
    slot = resolve_slot(LLMSettings(preset="openrouter", model="m"))
    assert slot.api_key == "sk-or-secret"
    assert "secret" not in repr(slot)
    assert "secret" not in repr([*slot.__rich_repr__()])


def test_a_prompt_can_be_assembled_without_key_or_model() -> None:
    slot = resolve_slot(LLMSettings(preset="openai"))
    assert (slot.api_key, slot.model) == ("", "")


def test_a_missing_key_names_the_variable() -> None:
    slot = resolve_slot(LLMSettings(preset="openai", model="m"))
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as caught:
        check_usable(slot)
    assert os.environ["FAMILIAR_KEYS"] in caught.value.hint.replace("\\\\", "\\")


def test_a_missing_model_names_the_command_that_sets_it() -> None:
    with pytest.raises(ConfigError, match="No model is chosen") as caught:
        check_usable(resolve_slot(LLMSettings(preset="ollama")))
    assert "familiar config set llm.model" in caught.value.hint


def test_a_custom_server_needs_an_address() -> None:
    with pytest.raises(ConfigError, match="requires the address"):
        check_usable(resolve_slot(LLMSettings(preset="custom", model="m")))


def test_a_reply_that_fills_the_whole_context_is_refused() -> None:
    slot = resolve_slot(LLMSettings(preset="ollama", model="m", context_tokens=500, max_tokens=500))
    with pytest.raises(ConfigError, match="no room for a prompt"):
        check_usable(slot)


@each("model", ["m", "gpt-5"])
def test_the_default_limit_leaves_room_for_a_prompt_in_any_window(model) -> None:
    slot = resolve_slot(LLMSettings(preset="ollama", model=model, context_tokens=300))
    assert slot.max_tokens == 150
    check_usable(slot)


def _settings(tmp_path, text: str) -> LLMSettings:
    path = tmp_path / "character.toml"
    path.write_text(text, encoding="utf-8")
    return load_config(path).llm


@each("slot", SLOTS)
@each("main", ["", "max_tokens = 300\n", "temperature = 1.1\n", "context_tokens = 32000\n"])
def test_naming_a_model_changes_the_model_and_nothing_else(tmp_path, slot, main) -> None:
    text = f'[llm]\npreset = "custom"\nmodel = "big"\n{main}'
    before = _settings(tmp_path, text)
    after = _settings(tmp_path, f'{text}[llm.slots.{slot}]\nmodel = "small"\n')
    one, other = resolve_slot(before, slot), resolve_slot(after, slot)
    assert other == replace(one, model="small")
    assert for_plans(other, after, 4096) == for_plans(one, before, 4096)


def test_what_is_set_for_a_slot_holds_for_its_plans(tmp_path) -> None:
    text = "[llm.slots.memory_writer]\nmax_tokens = 200\ntemperature = 0.8\n"
    settings = _settings(tmp_path, text)
    slot = resolve_slot(settings, "memory_writer")
    assert for_plans(slot, settings, 4096) == (200, None)
    assert slot.temperature == 0.8


def test_a_plan_is_longer_and_cooler_than_talk() -> None:
    settings = LLMSettings(preset="custom")
    slot = resolve_slot(settings, "consolidation")
    assert for_plans(slot, settings, 4096) == (slot.context_tokens // 4, 0.2)
    assert for_plans(slot, settings, 1600) == (1600, 0.2)
