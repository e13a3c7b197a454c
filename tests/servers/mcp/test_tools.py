"""Tools as a client calls them."""

from __future__ import annotations

import asyncio

from familiar_cli.familiar import Familiar
from familiar_cli.servers.mcp.server import MemoryServer
from familiar_cli.store.search.finding import Finder
from tests.support.clients import asking, called
from tests.support.embedders import EmbedderChoice, WordEmbedder
from tests.support.world import home, live, run


async def test_a_search_quotes_what_it_finds_and_names_the_file():
    live(**{"people/bo": "# Bo\n\n- Bo likes green tea.\n"})
    async with asking() as client:
        found = await client.call_tool("memory_search", {"query": "green tea"})
    assert found.structured_content["results"][0]["path"] == "people/bo.md"
    assert '<memory path="people/bo.md"' in found.content[0].text


async def test_what_cannot_be_done_is_an_error_of_the_tool():
    live()
    async with asking() as client:
        found = await client.call_tool("memory_read", {"path": "../character.toml"})
    assert found.is_error
    assert "outside the memory" in found.content[0].text


async def test_an_argument_of_another_kind_is_named():
    live()
    async with asking() as client:
        found = await client.call_tool("memory_search", {"query": "tea", "maxResults": "many"})
    assert found.is_error
    assert "'maxResults'" in found.content[0].text


async def test_sixteen_clients_that_write_at_once_lose_nothing():
    root = live()
    day = {"granularity": "daily", "date": "2026-01-05", "instanceId": "laptop"}

    async def write(number: int) -> None:
        async with asking(allow_write=True) as client:
            content = f"- Word{number} was said. [chat:c{number}]"
            await called(client, "memory_create", **day, content=content)
            read = await called(client, "memory_read", **day)
            assert f"Word{number} was said" in str(read)

    async with asyncio.TaskGroup() as group:
        for number in range(16):
            group.create_task(write(number))
    [path] = (root / "memory" / "daily").iterdir()
    text = path.read_text(encoding="utf-8")
    assert [number for number in range(16) if f"Word{number} was said" not in text] == []


async def test_what_any_door_writes_is_found_by_meaning_at_the_next_question(monkeypatch):
    live(notes="# Notes\n\n- Nothing.\n")
    embedder = WordEmbedder(alike=[("umbrella", "parasol"), ("tea", "beverage"), ("cat", "tom")])
    monkeypatch.setattr(Finder, "embedder", EmbedderChoice(embedder))
    # What is embedded in the background would be in the question's way, which is to do it itself.
    monkeypatch.setattr(MemoryServer, "_embed_soon", lambda _: None)

    async def found(query):
        return [
            hit["path"] for hit in (await called(client, "memory_search", query=query))["results"]
        ]

    async with asking(allow_write=True) as client:
        assert await found("umbrella") == []
        await called(client, "memory_create", path="topics/rain.md", content="- A parasol.\n")
        assert await found("umbrella") == ["topics/rain.md"]
        run("memory", "append", "topics/drink.md", "- Green tea.")
        assert await found("beverage") == ["topics/drink.md"]
        with Familiar.load_from_disk(home(), "ada") as familiar:
            familiar.memory.write_file("topics/pet.md", "- A cat.\n", source="library")
        assert await found("tom") == ["topics/pet.md"]


async def test_what_has_no_vector_yet_gets_one_after_a_search(monkeypatch):
    live(notes="# Notes\n\n- Green tea.\n")
    monkeypatch.setattr(Finder, "embedder", EmbedderChoice(WordEmbedder()))
    asked = {"query": "green tea"}
    async with asyncio.timeout(20), asking() as client:
        while (await called(client, "memory_search", **asked))["method"] != "hybrid":  # noqa: ASYNC110
            await asyncio.sleep(0.1)
