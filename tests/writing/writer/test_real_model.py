"""The real small model: what it writes is not wise, but it is well formed and nothing is lost."""

from __future__ import annotations

import asyncio

import pytest
from markdown_it import MarkdownIt

from familiar_cli.base.config.schema import LLMSettings
from familiar_cli.llm.open import open_model
from familiar_cli.llm.slots import resolve_slot
from familiar_cli.store.memory.pages.lines import PLAIN, turn_ids
from tests.support.cases import at_night
from tests.writing.writer.support import World

pytest.importorskip("xllamacpp")


@at_night
def test_a_pass_with_the_real_model_completes_and_loses_nothing(tmp_path, model_cache) -> None:
    world = World(tmp_path)
    before = "# Anna\n\nA baker from the north.\n"
    world.store.write_file("people/discord-42.md", before)
    world.say("Hello! I moved to Oslo last week, and I like the harbour.")
    world.say("How lovely. Do you miss your garden?", None)
    world.say("A little. My sister keeps bees there now.")
    writer = world.writer(reply_tokens=384, temperature=0.2)
    model = open_model(resolve_slot(LLMSettings()), cache_dir=model_cache)
    writer.model = model

    async def go():
        try:
            return await writer.run()
        finally:
            await model.aclose()

    report = asyncio.run(go())

    assert report.spent.calls <= 2
    covered = report.error is None
    assert (world.watermark, report.remaining) == ((3, 0) if covered else (0, 3))
    assert "A baker from the north." in world.read("people/discord-42.md") or report.held
    for path in world.files():
        if path.endswith(".md"):
            text = world.read(path)
            assert MarkdownIt().parse(text)[0].tag == "h1"
            assert set(turn_ids(text, PLAIN)) <= {1, 2, 3}
