"""Requests and parts for tests of the context room."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime

from familiar_cli.base.who.identity import Author
from familiar_cli.context.request import ContextRequest
from familiar_cli.context.types import Contribution, Layer, Modality, PromptSpan
from tests.support.viewers import viewer_in

ANNA = Author("discord", "42", display_name="Anna")
BO = Author("discord", "43", display_name="Bo")


def request(utterance: str = "hi", **more) -> ContextRequest:
    settings = {
        "familiar_id": "aria",
        "channel_id": "cli",
        "author": ANNA,
        "utterance": utterance,
        "modality": Modality.text,
        "at": datetime(2026, 1, 2, 3, 4, 5, 678000, UTC),
        "budget_tokens": 1000,
    }
    merged = {**settings, **more}
    return ContextRequest(**{"viewer": viewer_in(merged["channel_id"]), **merged})


def piece(text: str, place: PromptSpan = PromptSpan.main, **more) -> Contribution:
    return Contribution(Layer.core, 50, text, "test", place, **more)


@dataclass
class Scripted:
    """A provider, or a pre-processor, that does what the test says."""

    name: str
    sleep_s: float = 0.0
    fail: BaseException | None = None
    deadline_s: float = 5.0
    deaf: bool = False  # it does not listen when told to stop
    seen: list[object] = field(default_factory=list)

    async def contribute(self, asked):
        self.seen.append(asked)
        await self._live()
        return [piece(self.name)]

    async def process(self, asked, value):
        self.seen.append(value)
        await self._live()
        if isinstance(value, str):
            return f"{value}+{self.name}"
        return [*value, piece(self.name)]

    async def _live(self) -> None:
        while self.deaf:
            try:
                await asyncio.sleep(0.6)
            except asyncio.CancelledError:
                continue
            return
        await asyncio.sleep(self.sleep_s)
        if self.fail:
            raise self.fail
