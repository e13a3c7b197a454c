"""A trace as a turn would leave it, for tests of what is made of traces."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from msgspec.structs import replace

from familiar_cli.context.trace import TRACE_VERSION, Trace, TracedMessage
from familiar_cli.context.types import Fragment, Layer, LayerUse, PromptSpan, Report
from familiar_cli.llm.types import PreparedRequest, Usage


def piece(source: str, **more) -> Fragment:
    """Return a contribution of the character that was kept whole, but for what is given."""
    made = Fragment(
        layer=Layer.character,
        priority=50,
        source=source,
        rel_path=None,
        tokens=10,
        kept=True,
        reason="",
        offered_tokens=10,
        place=PromptSpan.description,
        role="system",
        depth=0,
        turn_id=None,
        text="text",
    )
    return replace(made, **more)


def trace(turn: int | None = 7, **more) -> Trace:
    """Return the record of one turn, but for what is given."""
    messages = (
        TracedMessage("system", "You are Ada.\nShe keeps [b]brackets[/b] and [/b] as they are."),
        TracedMessage("user", "Hello, 日本 👋"),
    )
    body = {"model": "m", "messages": [{"role": m.role, "content": m.content} for m in messages]}
    made = Trace(
        trace=TRACE_VERSION,
        turn=turn,
        reply_turn=None if turn is None else turn + 1,
        familiar="ada",
        channel_id="cli",
        modality="text",
        at=datetime(2026, 1, 31, 23, 59, 59, 123000, UTC),
        counter="estimate",
        budget_tokens=1000,
        used_tokens=430,
        assemble_ms=12.4,
        layers=(
            LayerUse("core", 100, 30),
            LayerUse("character", 400, 400),
            LayerUse("recent_history", 500, 0),
        ),
        contributions=(
            piece("character.description", rel_path="self/description.md", tokens=300),
            piece(
                "character.scenario",
                rel_path="self/scenario.md",
                tokens=100,
                offered_tokens=260,
                reason="the layer is full",
            ),
            *(
                piece(
                    "history",
                    layer=Layer.recent_history,
                    place=PromptSpan.chat,
                    turn_id=number,
                    kept=number > 2,
                    reason="" if number > 2 else "no room",
                )
                for number in range(1, 7)
            ),
        ),
        providers=(
            Report("character", "answered", 1.5),
            Report("history", "late", 2000.0, "took longer than 2 s"),
        ),
        processors=(),
        messages=messages,
        request=PreparedRequest(
            "http://127.0.0.1:8080/v1/chat/completions",
            "m",
            True,
            json.dumps(body, ensure_ascii=False).encode(),
        ),
        model="m",
        reply_ms=3210.0,
        finish_reason="stop",
        usage=Usage(421, 33, None),
        error="",
        tier=2,
        notices=(),
    )
    return replace(made, **more)
