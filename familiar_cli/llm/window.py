"""How many tokens a model behind a server reads and writes together, as the server says.

A server is asked when `familiar doctor` or `familiar model test` talks to it anyhow. What it said
is kept in the cache directory, by its address and the model's name, and holds until it says
something else. Servers do not agree where it stands:

- OpenRouter, vLLM, Groq and others: in `/v1/models`, under one of `_KEYS`;
- LM Studio: in `/api/v0/models`, as `loaded_context_length`;
- llama.cpp: in `/props`, as `default_generation_settings.n_ctx`;
- Ollama: in `/api/ps`, as `context_length` of a model that is loaded.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.config import environment
from familiar_cli.config.home import cache_dir
from familiar_cli.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from familiar_cli.llm.slots import ResolvedSlot

_TIMEOUT_S: Final = 3.0
_KEYS: Final = ("loaded_context_length", "context_length", "max_model_len", "context_window")
_OWN_PATHS: Final = {"llamacpp": "/props", "ollama": "/api/ps", "lmstudio": "/api/v0/models"}
_LEAST: Final = 256
_MOST: Final = 100_000_000
_OK: Final = 200


def known_window(base_url: str, model: str) -> int:
    """Return what the server said of a model; 0: nothing."""
    said = _read(_path()).get(_key(base_url, model), 0)
    return said if _is_window(said) else 0


async def learn_window(slot: ResolvedSlot, listed: bytes | None = None) -> int:
    """Ask the server of `slot` and keep what it says; 0: it does not say, or does not answer.

    Args:
        slot: The server and the model.
        listed: The server's list of models, where it has been fetched already.
    """
    own, models = _OWN_PATHS.get(slot.preset), f"{slot.base_url}/models"
    root = slot.base_url.removesuffix("/v1")
    tokens = window_in(await _body(slot, f"{root}{own}"), slot.model) if own else 0
    if not tokens:
        body = listed if listed is not None else await _body(slot, models)
        tokens = window_in(body, slot.model)
    if tokens:
        with suppress(OSError):  # it is asked again
            path = _path()
            kept = _read(path) | {_key(slot.base_url, slot.model): tokens}
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(kept, indent=1, sort_keys=True), durable=False)
    return tokens


def window_in(body: bytes, model: str) -> int:
    """Return the window of `model` that an answer of a server names; 0: it names none."""
    try:
        said: Any = json.loads(body)
    except (ValueError, RecursionError):
        return 0
    if not isinstance(said, dict):
        return 0
    props = said.get("default_generation_settings")
    if isinstance(props, dict):
        return _first(props, ("n_ctx",))
    entries = said.get("data", said.get("models"))
    found = [e for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []
    named = [e for e in found if model in {e.get("id"), e.get("name"), e.get("model")}]
    chosen = named or (found if len(found) == 1 else [])
    return _first(chosen[0], _KEYS) if chosen else 0


def _first(entry: dict[str, Any], keys: tuple[str, ...]) -> int:
    return next((entry[key] for key in keys if _is_window(entry.get(key))), 0)


def _is_window(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and _LEAST <= value <= _MOST


async def _body(slot: ResolvedSlot, url: str) -> bytes:
    from familiar_cli.llm import wire  # noqa: PLC0415  # loads httpx
    from familiar_cli.llm.failures import FailedError  # noqa: PLC0415

    if environment.offline() and not wire.is_loopback(url):
        return b""
    asked = replace(slot, timeout_s=_TIMEOUT_S)
    try:
        async with (
            asyncio.timeout(_TIMEOUT_S),
            wire.answer(asked, "GET", url, accept="application/json") as response,
        ):
            return await wire.whole(asked, response) if response.status_code == _OK else b""
    except (TimeoutError, FailedError):
        return b""


def _path() -> Path:
    return cache_dir() / "windows.json"


def _key(base_url: str, model: str) -> str:
    return f"{base_url} {model}"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
