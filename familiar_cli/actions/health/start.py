"""Requirements of a first conversation: a local model, or a key for a hosted one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import tomlkit
from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.config.environment import keys_file
from familiar_cli.base.config.schema import LLMSettings
from familiar_cli.base.errors import ConfigError, FamiliarError, UsageError
from familiar_cli.base.files import read_plain, write_own
from familiar_cli.llm.embedding_slot import speaks_many_languages
from familiar_cli.llm.open import fetch_models, model_names
from familiar_cli.llm.slots import PRESETS, resolve_slot
from familiar_cli.llm.wire import FailedError

if TYPE_CHECKING:
    from pathlib import Path


_TIMEOUT_S: Final = 2.0
_EMBEDDING: Final = ("embed", "bge-", "minilm", "multilingual-e5")
_NOT_TALKING: Final = (*_EMBEDDING, "rerank", "whisper", "tts")

SERVERS: Final[dict[str, tuple[str, str]]] = {
    "Ollama": ("ollama", PRESETS["ollama"].base_url),
    "LM Studio": ("lmstudio", PRESETS["lmstudio"].base_url),
    "llama.cpp": ("llamacpp", PRESETS["llamacpp"].base_url),
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
    found = [one for one in await _find_served() if _is_among(_EMBEDDING, one)]
    return sorted(found, key=lambda one: not speaks_many_languages(one.model))


def embedding_commands(served: ServedModel) -> tuple[str, str]:
    """Return the commands, without `familiar`, that let a server embed memory and turns."""
    url = served.base_url or PRESETS[served.preset].base_url
    return f"config set embedding.base_url {url}", f"config set embedding.model {served.model}"


async def _find_served() -> list[ServedModel]:
    asked = (_ask_server(name, *place, has_key=False) for name, place in SERVERS.items())
    found = await asyncio.gather(*asked)
    return [model for models in found for model in models]


def _is_among(words: tuple[str, ...], served: ServedModel) -> bool:
    return any(word in served.model.lower() for word in words)


async def models_at(base_url: str) -> list[ServedModel]:
    """Ask a server for its models; none if it does not answer."""
    found = await _ask_server(base_url, "custom", base_url)
    return [one for one in found if not _is_among(_NOT_TALKING, one)]


async def _ask_server(
    server: str, preset: str, base_url: str, *, has_key: bool = True
) -> list[ServedModel]:
    slot = resolve_slot(LLMSettings(preset=preset, base_url=base_url))
    # Whatever the environment names: this server is asked, and a found one needs no key.
    slot = replace(slot, base_url=base_url, api_key=slot.api_key if has_key else "")
    try:
        _, body = await fetch_models(replace(slot, timeout_s=_TIMEOUT_S, retries=0))
    except (FamiliarError, FailedError):
        return []
    own = "" if base_url == PRESETS[preset].base_url else base_url
    return [ServedModel(server, preset, own, name) for name in model_names(body)]


def check_key(key: str) -> str:
    """Strip and validate a key.

    Raises:
        UsageError: It is not valid.
    """
    clean = key.strip().strip("'\"")
    if not clean or not clean.isascii() or not clean.isprintable() or " " in clean:
        raise UsageError(
            "That is not a key: it is empty, or has characters that no key has",
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
