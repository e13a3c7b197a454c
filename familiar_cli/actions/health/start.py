"""Requirements of a first conversation: a local model, or a key for a hosted one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import tomlkit
from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.actions.health.doctor_checks import judge_status
from familiar_cli.base.config.environment import keys_file
from familiar_cli.base.config.home import cache_dir
from familiar_cli.base.config.schema import LLMSettings
from familiar_cli.base.errors import ConfigError, FamiliarError, ModelError, UsageError
from familiar_cli.base.files import read_plain, write_own
from familiar_cli.base.text import one_line
from familiar_cli.llm import slots
from familiar_cli.llm.open import fetch_models, model_names, open_model
from familiar_cli.llm.types import Message
from familiar_cli.llm.wire import FailedError, open_answer, read_blocks

if TYPE_CHECKING:
    from familiar_cli.llm.models.fetch import Progress


_LINES: Final = "application/x-ndjson"
_TIMEOUT_S: Final = 2.0
_TEST_S: Final = 20.0
_WORD_CHARS: Final = 80
_EMBEDDING: Final = ("embed", "bge-", "minilm", "multilingual-e5")
_NOT_TALKING: Final = (*_EMBEDDING, "rerank", "whisper", "tts")

SERVERS: Final[dict[str, tuple[str, str]]] = {
    "Ollama": ("ollama", slots.PRESETS["ollama"].base_url),
    "LM Studio": ("lmstudio", slots.PRESETS["lmstudio"].base_url),
    "llama.cpp": ("llamacpp", slots.PRESETS["llamacpp"].base_url),
    "KoboldCpp": ("custom", "http://127.0.0.1:5001/v1"),
}
"""The servers that are looked for on this machine: their preset and their usual address."""


class ServedModel(Struct, frozen=True):
    """A model offered by a server on this machine.

    Args:
        server: The server's product name.
        preset: The preset of its settings.
        base_url: Its address; empty for the preset's own.
        model: The model's name.
    """

    server: str
    preset: str
    base_url: str
    model: str


async def find_models() -> list[ServedModel]:
    """Ask the usual servers of this machine, all at once, for their models."""
    return [one for one in await _find_served() if not _is_among(_NOT_TALKING, one)]


async def find_embedders() -> list[ServedModel]:
    """Ask the same servers for models that embed texts, multilingual ones first."""
    models = [one for one in await _find_served() if _is_among(_EMBEDDING, one)]
    return sorted(models, key=lambda one: not slots.speaks_many_languages(one.model))


def embedding_commands(served: ServedModel) -> tuple[str, str]:
    """Return the commands, without `familiar`, that let a server embed memory and turns."""
    url = served.base_url or slots.PRESETS[served.preset].base_url
    return f"config set embedding.base_url {url}", f"config set embedding.model {served.model}"


async def _find_served() -> list[ServedModel]:
    asked = (_ask_server(name, *place, has_key=False) for name, place in SERVERS.items())
    matches = await asyncio.gather(*asked)
    return [model for models in matches for model in models]


def _is_among(words: tuple[str, ...], served: ServedModel) -> bool:
    return any(word in served.model.lower() for word in words)


async def pull_at_ollama(base_url: str, name: str, note: Callable[[Progress], None]) -> None:
    """Let Ollama download a model.

    Args:
        base_url: Its address up to /v1.
        name: The model's name there.
        note: Called with the progress.

    Raises:
        ModelError: It does not answer, or refuses.
    """
    slot = replace(
        slots.resolve_slot(LLMSettings(preset="ollama", base_url=base_url)), base_url=base_url
    )
    url, body = f"{base_url.removesuffix('/v1')}/api/pull", json.dumps({"model": name}).encode()
    rest, last = b"", {}
    try:
        async with open_answer(slot, "POST", url, accept=_LINES, body=body) as answer:
            async for block in read_blocks(slot, answer):
                *lines, rest = (rest + block).split(b"\n")
                for last in map(json.loads, filter(None, lines)):
                    note(_progress_at_ollama(last))
        _check_pulled(json.loads(rest) if rest.strip() else last)
    except (FailedError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"Ollama did not download {name!r}: {error}", hint="Open the app Ollama, and try again."
        ) from error


def _progress_at_ollama(told: dict[str, Any]) -> Progress:
    from familiar_cli.llm.models.fetch import Progress

    if "error" in told:
        _check_pulled(told)
    done, total = (int(told.get(name) or 0) for name in ("completed", "total"))
    return Progress(one_line(str(told["status"]), _WORD_CHARS), "Ollama", done, total or None)


def _check_pulled(told: dict[str, Any]) -> None:
    if told.get("status") != "success":
        raise ValueError(one_line(str(told.get("error", "it ended too early"))))


async def models_at(base_url: str) -> list[ServedModel]:
    """Ask a server for its models; none if it does not answer."""
    models = await _ask_server(base_url, "custom", base_url)
    return [one for one in models if not _is_among(_NOT_TALKING, one)]


async def _ask_server(
    server: str, preset: str, base_url: str, *, has_key: bool = True
) -> list[ServedModel]:
    slot = slots.resolve_slot(LLMSettings(preset=preset, base_url=base_url))
    # Whatever the environment names: this server is asked, and a found one needs no key.
    slot = replace(slot, base_url=base_url, api_key=slot.api_key if has_key else "")
    try:
        _, body = await fetch_models(replace(slot, timeout_s=_TIMEOUT_S, retries=0))
    except (FamiliarError, FailedError):
        return []
    own = "" if base_url == slots.PRESETS[preset].base_url else base_url
    return [ServedModel(server, preset, own, name) for name in model_names(body)]


class ModelTest(Struct, frozen=True):
    """What came of asking a model for a word.

    Args:
        is_ok: It replied.
        told: What happened, in a sentence.
        hint: What to do; empty if it replied.
        models: The models that the server offers.
    """

    is_ok: bool
    told: str
    hint: str = ""
    models: tuple[str, ...] = ()


async def try_model(settings: LLMSettings, key: str = "") -> ModelTest:
    """Ask a model for a word; nothing is changed.

    Args:
        settings: The model settings to try.
        key: A key that is not kept yet; empty for the one in use.
    """
    names: tuple[str, ...] = ()
    try:
        slot = replace(
            slots.resolve_slot(settings), timeout_s=_TEST_S, deadline_s=_TEST_S, retries=0
        )
        slot = replace(slot, api_key=check_key(key)) if key else slot
        if slot.preset != "local" and slot.base_url:
            status, body = await fetch_models(slot)
            names = tuple(model_names(body))
            verdict = judge_status(slot, status, body)
            if verdict.verdict == "fail" or (names and slot.model not in names):
                return ModelTest(False, verdict.detail, verdict.mend, names)  # noqa: FBT003
        slots.check_usable(slot)
        slots.check_on_disk(slot)
        reply = await _ask_for_word(slot)
    except FailedError as error:
        return ModelTest(False, f"{slot.where} does not answer", _mend_of(slot, error), names)  # noqa: FBT003
    except FamiliarError as error:
        return ModelTest(False, str(error), error.hint or "", names)  # noqa: FBT003
    return ModelTest(True, f"{slot.model} says: {one_line(reply, _WORD_CHARS)}", models=names)  # noqa: FBT003


def _mend_of(slot: slots.ResolvedSlot, error: FailedError) -> str:
    return slots.PRESETS[slot.preset].start or str(error)


async def _ask_for_word(slot: slots.ResolvedSlot) -> str:
    model = open_model(slot, cache_dir=cache_dir())
    try:
        request = model.prepare(
            [Message(role="user", content="Say hello in one word.")], stream=False
        )
        return (await model.complete(request)).text.strip() or "(nothing)"
    finally:
        await model.aclose()


def check_key(key: str) -> str:
    """Strip and validate a key.

    Raises:
        UsageError: It is not valid.
    """
    clean = key.strip().strip("'\"")
    if not clean or not clean.isascii() or not clean.isprintable() or " " in clean:
        raise UsageError(
            "That is not a key: it is empty, or contains invalid characters",
            hint="Copy it again, without line breaks or typographic quotes.",
        )
    return clean


def keep_key(variable: str, key: str) -> Path:
    """Store a key in the file of keys, which only its owner can read; return that file.

    Raises:
        UsageError: It is not valid.
        ConfigError: The file is not valid TOML, or cannot be written; it stays as it was.
    """
    path = keys_file()
    try:
        document = tomlkit.parse(read_plain(path).decode()) if path.exists() else tomlkit.document()
        document[variable] = check_key(key)
        write_own(path, tomlkit.dumps(document).encode())
    except (tomlkit.exceptions.TOMLKitError, UnicodeDecodeError) as error:
        del error  # it may quote a line with a key
        raise ConfigError(
            f"The key file {str(path)!r} is not valid TOML; it was not changed"
        ) from None
    except OSError as error:
        raise ConfigError(
            f"The key file {str(path)!r} cannot be written: {error.strerror or error}"
        ) from error
    return path
