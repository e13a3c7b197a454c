"""Open the model of a slot, and probe it with one small call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from familiar_cli import clock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from familiar_cli.llm.slots import ResolvedSlot
    from familiar_cli.llm.types import ChatModel, Message, Usage


def open_model(
    slot: ResolvedSlot, *, cache_dir: Path, on_wait: Callable[[str], None] | None = None
) -> ChatModel:
    """Return the model that `slot` means. Nothing is loaded or connected until `complete`.

    Args:
        slot: What `slots.resolve` returned.
        cache_dir: Where model files are kept; used by preset `local` only.
        on_wait: Told in one line before the client waits to ask a busy server again.
    """
    if slot.preset == "local":
        from familiar_cli.llm.local import LocalModel  # noqa: PLC0415

        return LocalModel(slot, cache_dir=cache_dir)
    from familiar_cli.llm.client import LLMClient  # noqa: PLC0415

    return LLMClient(slot, on_wait=on_wait)


_QUESTION: list[Message] = [{"role": "user", "content": "Say hello in one short sentence."}]


@dataclass(frozen=True, slots=True)
class Probe:
    """What a model did with one small question.

    Args:
        model: The model that answered, by the server's own account.
        reply: What it said.
        finish_reason: Why it stopped.
        first_text_s: Seconds from asking to the first piece of text, loading included.
        total_s: Seconds from asking to the end.
        tokens_per_s: Tokens written per second after the first text, or None when too few came.
        usage: What the server counted.
    """

    model: str
    reply: str
    finish_reason: str | None
    first_text_s: float
    total_s: float
    tokens_per_s: float | None
    usage: Usage | None


async def probe(model: ChatModel) -> Probe:
    """Ask `model` to say hello, and measure. The model is closed afterwards.

    Raises:
        ModelError: It gave no whole reply.
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
