"""Open the model of a slot, probe it, and query a server for its context window.

`familiar doctor` and `familiar model test` ask for the window, and a reply does again if that was
long ago, or if the prompt was too long for it. Servers report it differently:

- OpenRouter, vLLM, Groq and others: in `/v1/models`, under one of `_KEYS`;
- LM Studio: in `/api/v0/models`, as `loaded_context_length`;
- llama.cpp: in `/props`, as `default_generation_settings.n_ctx`;
- Ollama: in `/api/ps`, as `context_length` of a model that is loaded.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.config import environment
from familiar_cli.base.config.home import cache_dir
from familiar_cli.base.config.settings import SettingsFiles
from familiar_cli.base.times import clock
from familiar_cli.llm import slots

if TYPE_CHECKING:
    from familiar_cli.base.config.schema import LLMSettings
    from familiar_cli.base.errors import PromptTooLongError
    from familiar_cli.llm.types import ChatModel, Message, Usage


def open_model(
    slot: slots.ResolvedSlot, *, cache_dir: Path, on_wait: Callable[[str], None] | None = None
) -> ChatModel:
    """Return the model of `slot`. Nothing is loaded or connected until `complete`.

    Args:
        slot: The resolved slot.
        cache_dir: The model cache; used by preset `local` only.
        on_wait: Called with a one-line message before waiting to retry a busy server.
    """
    if slot.preset == "local":
        from familiar_cli.llm.client import LocalModel  # noqa: PLC0415

        return LocalModel(slot, cache_dir=cache_dir)
    from familiar_cli.llm.client import LLMClient  # noqa: PLC0415

    return LLMClient(slot, on_wait=on_wait, renew_window=renew_window)


class _SlotInUse(Struct):
    """A resolved slot, with what it was resolved from beside the settings."""

    slot: slots.ResolvedSlot
    variables: list[str | None]
    files: SettingsFiles


def _variables_of(slot: slots.ResolvedSlot) -> list[str | None]:
    return [*map(os.environ.get, (*environment.OF_SLOTS, slot.api_key_env))]


class SlotModels:
    """The models of a familiar's slots, each opened on first use.

    Args:
        settings: The model settings.
        note: Called with the file that keys were read from.
    """

    def __init__(self, settings: LLMSettings, note: Callable[[Path], None]) -> None:
        self._settings = settings
        self._note = note
        self._opened: dict[slots.ResolvedSlot, ChatModel] = {}
        self._resolved: dict[str, _SlotInUse] = {}

    def slot(self, name: str = slots.MAIN) -> slots.ResolvedSlot:
        """Resolve the server and model of the slot `name`.

        Raises:
            ConfigError: The settings of the slot are invalid.
        """
        known = self._resolved.get(name)
        if known and known.variables == _variables_of(known.slot) and not known.files.have_changed:
            return known.slot
        files = SettingsFiles()
        kept = (cache_dir() / slots.WINDOWS, cache_dir() / slots.THINKING)
        for path in (environment.keys_file(), *kept):
            files.note(path)
        slot = slots.resolve_slot(self._settings, name)
        self._resolved[name] = _SlotInUse(slot, _variables_of(slot), files)
        return slot

    def open(
        self,
        slot: str | slots.ResolvedSlot = slots.MAIN,
        *,
        on_wait: Callable[[str], None] | None = None,
    ) -> ChatModel:
        """Return the model of a slot, always the same object until `aclose`.

        Args:
            slot: The slot, or its name.
            on_wait: Called with a one-line message before retrying a busy server; the first call's
                is used.
        """
        settings = self.slot(slot) if isinstance(slot, str) else slot
        same = replace(settings, slot="")  # slots with the same model share it and its memory
        if same not in self._opened:
            self._note(environment.keys_file())
            self._opened[same] = open_model(settings, cache_dir=cache_dir(), on_wait=on_wait)
        return self._opened[same]

    def open_usable(self, slot: str) -> ChatModel:
        """Return the model of a slot like `open`, checking its configuration.

        Raises:
            ConfigError: The configuration is incomplete.
        """
        settings = self.slot(slot)
        slots.check_usable(settings)
        return self.open(settings)

    async def aclose(self) -> None:
        """Close every opened model."""
        while self._opened:
            _, model = self._opened.popitem()
            await model.aclose()


_QUESTION: list[Message] = [{"role": "user", "content": "Say hello in one short sentence."}]


class Probe(Struct, frozen=True):
    """Measurements of the answer to a small question.

    Args:
        model: The model that answered, as reported by the server.
        reply: Its text.
        finish_reason: Why it stopped.
        first_text_s: Seconds until the first piece of text, including loading.
        total_s: Seconds until the end.
        tokens_per_s: Tokens per second after the first text; None if there were too few.
        usage: Usage as reported by the server.
    """

    model: str
    reply: str
    finish_reason: str | None
    first_text_s: float
    total_s: float
    tokens_per_s: float | None
    usage: Usage | None


async def probe_model(model: ChatModel) -> Probe:
    """Ask `model` to say hello, and measure. The model is closed afterwards.

    Raises:
        ModelError: The reply is incomplete.
    """
    began_s = clock.stopwatch_s()
    pieces_s: list[float] = []
    try:
        request = model.prepare(_QUESTION)
        reply = await model.complete(request, lambda _: pieces_s.append(clock.stopwatch_s()))
    finally:
        await model.aclose()
    total_s = clock.stopwatch_s() - began_s
    first_s = pieces_s[0] - began_s if pieces_s else total_s
    written = (reply.usage.completion_tokens if reply.usage else None) or len(pieces_s)
    speed = (written - 1) / (total_s - first_s) if len(pieces_s) > 1 and total_s > first_s else None
    return Probe(reply.model, reply.text, reply.finish_reason, first_s, total_s, speed, reply.usage)


_TIMEOUT_S: Final = 3.0


_KEYS: Final = ("loaded_context_length", "context_length", "max_model_len", "context_window")


_OWN_PATHS: Final = {"llamacpp": "/props", "ollama": "/api/ps", "lmstudio": "/api/v0/models"}


_OK: Final = 200
_SOON_S: Final = 3_600  # a server on this machine may be started with another window
_LATER_S: Final = 86_400


async def learn_window(slot: slots.ResolvedSlot, listed: bytes | None = None) -> int:
    """Query and store the context window of `slot`; 0 if the server does not report it.

    Args:
        slot: The server and the model.
        listed: The server's list of models, if already fetched.
    """
    own, models = _OWN_PATHS.get(slot.preset), f"{slot.base_url}/models"
    root = slot.base_url.removesuffix("/v1")
    tokens = window_in(await _read_body(slot, f"{root}{own}"), slot.model) if own else 0
    if not tokens:
        body = listed if listed is not None else await _read_body(slot, models)
        tokens = window_in(body, slot.model)
    if tokens:
        slots.keep_window(slot.base_url, slot.model, tokens)
    return tokens


async def renew_window(slot: slots.ResolvedSlot, doubt: PromptTooLongError | None) -> None:
    """Query a window again that was reported long ago, or is doubtful; then its error says so."""
    from familiar_cli.llm import wire  # noqa: PLC0415  # loads httpx

    least_s = _SOON_S if wire.is_loopback(slot.base_url) else _LATER_S
    is_told = slot.context_source == "server"
    is_old = is_told and slots.window_age_s(slot.base_url, slot.model) >= least_s
    if not is_old and (doubt is None or slot.context_source == "setting"):
        return
    tokens = await learn_window(slot)
    if is_told and not tokens:  # an unloaded model has none to tell
        slots.keep_window(slot.base_url, slot.model, slot.context_tokens)
    if doubt and 0 < tokens < slot.context_tokens:
        doubt.hint = f"The model now reads {tokens:,} tokens: send the message again."


def window_in(body: bytes, model: str) -> int:
    """Return the window of `model` reported in a response; 0: none."""
    try:
        said: Any = json.loads(body)
    except (ValueError, RecursionError):
        return 0
    if not isinstance(said, dict):
        return 0
    props = said.get("default_generation_settings")
    if isinstance(props, dict):
        return _first_number(props, ("n_ctx",))
    entries = said.get("data", said.get("models"))
    items = [e for e in entries if isinstance(e, dict)] if isinstance(entries, list) else []
    named = [e for e in items if model in {e.get("id"), e.get("name"), e.get("model")}]
    selection = named or (items if len(items) == 1 else [])
    return _first_number(selection[0], _KEYS) if selection else 0


def _first_number(entry: dict[str, Any], keys: tuple[str, ...]) -> int:
    return next((entry[key] for key in keys if slots.is_window(entry.get(key))), 0)


async def _read_body(slot: slots.ResolvedSlot, url: str) -> bytes:
    from familiar_cli.llm import wire  # noqa: PLC0415  # loads httpx
    from familiar_cli.llm.wire import FailedError  # noqa: PLC0415

    if environment.offline() and not wire.is_loopback(url):
        return b""
    asked = replace(slot, timeout_s=_TIMEOUT_S)
    try:
        async with (
            asyncio.timeout(_TIMEOUT_S),
            wire.open_answer(asked, "GET", url, accept="application/json") as response,
        ):
            return await wire.read_whole(asked, response) if response.status_code == _OK else b""
    except (TimeoutError, FailedError):
        return b""


async def fetch_models(slot: slots.ResolvedSlot) -> tuple[int, bytes]:
    """Request the list of models; return the status, and the list if there is one."""
    import httpx  # noqa: F401, PLC0415  # it takes a while, which is not the server's

    from familiar_cli.llm import wire  # noqa: PLC0415

    url = f"{slot.base_url}/models"
    try:
        async with (
            asyncio.timeout(slot.timeout_s),
            wire.open_answer(slot, "GET", url, accept="application/json") as response,
        ):
            is_there = response.status_code == _OK
            return response.status_code, await wire.read_whole(slot, response) if is_there else b""
    except TimeoutError:
        raise wire.FailedError(wire.Failure(wire.silence_error(slot, ""))) from None


def model_names(body: bytes) -> list[str]:
    """Return the names in a list of models; none if it is not one."""
    try:
        value: Any = json.loads(body)
        return [str(entry["id"]) for entry in value["data"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
