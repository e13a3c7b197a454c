"""Ask an OpenAI-compatible server which models it has, to see whether it answers."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from familiar_cli.actions.doctor_checks import fail, ok, warn
from familiar_cli.config import environment
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from familiar_cli.actions.doctor_checks import Result
    from familiar_cli.llm.slots import ResolvedSlot

TIMEOUT_S = 3.0
_UNAUTHORISED = {401, 403}
_SERVER_ERROR = 500
_OK = 200
_MOST_NAMED = 5


def ask(slot: ResolvedSlot) -> Result:
    """Return how the server of `slot` answers. The key goes to it, and nowhere else."""
    from familiar_cli.llm.failures import FailedError
    from familiar_cli.llm.wire import is_loopback

    if environment.offline() and not is_loopback(slot.base_url):
        detail = f"{slot.base_url} was not checked, because {environment.OFFLINE} is set"
        return warn(detail, f"Unset {environment.OFFLINE}.")
    try:
        status, body = asyncio.run(_models(replace(slot, timeout_s=TIMEOUT_S)))
    except FailedError as failed:
        error = failed.failure.error
        return fail(str(error), error.hint or "")
    result = _judge(slot, status, body)
    if result.verdict != "ok":
        return result
    return replace(result, detail=f"{result.detail}{_window(slot, body)}")


def _window(slot: ResolvedSlot, listed: bytes) -> str:
    """Ask how much the model reads, so that prompts go by it; return that in words."""
    from familiar_cli.llm.window import learn_window

    tokens = asyncio.run(learn_window(slot, listed))
    return f"; {slot.model} reads {tokens:,} tokens" if tokens else ""


async def _models(slot: ResolvedSlot) -> tuple[int, bytes]:
    """Return the status of the list of models, and the list where there is one."""
    from familiar_cli.llm import failures, wire

    url = f"{slot.base_url}/models"
    try:
        async with (
            asyncio.timeout(slot.timeout_s),
            wire.answer(slot, "GET", url, accept="application/json") as response,
        ):
            is_there = response.status_code == _OK
            return response.status_code, await wire.whole(slot, response) if is_there else b""
    except TimeoutError:
        raise failures.FailedError(failures.Failure(failures.silence(slot, ""))) from None


def _judge(slot: ResolvedSlot, status: int, body: bytes) -> Result:
    where = slot.base_url
    if status in _UNAUTHORISED:
        key = slot.api_key_env or "llm.api_key_env"
        mend = f"Set {key} to a valid key."
        return fail(f"{where} rejects the key (status {status})", mend)
    if status >= _SERVER_ERROR:
        return warn(f"{where} answers with status {status}", _start(slot))
    names = _names(body) if status == _OK else []
    if names and slot.model not in names:
        known = ", ".join(one_line(name, 40) for name in names[:_MOST_NAMED])
        detail = f"{where} answers, but does not list {slot.model!r}; it has {known}"
        return warn(detail, _choose(slot))
    return ok(f"{where} answers")


def _names(body: bytes) -> list[str]:
    """Return the names in a list of models; none when it is not one."""
    try:
        found: Any = json.loads(body)
        return [str(entry["id"]) for entry in found["data"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []


def _start(slot: ResolvedSlot) -> str:
    from familiar_cli.llm.presets import PRESETS

    return PRESETS[slot.preset].start


def _choose(slot: ResolvedSlot) -> str:
    from familiar_cli.llm.presets import PRESETS

    return PRESETS[slot.preset].choose
