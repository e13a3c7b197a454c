"""Files as resources, changes of them, prompts, and what is completed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.types import PromptReference, ResourceTemplateReference

from familiar_cli.servers.mcp.catalogue import path_in, uri_of
from tests.servers.mcp.test_reading import BO, with_turns
from tests.support.cases import each
from tests.support.clients import asking
from tests.support.serving import serving
from tests.support.world import live

TEMPLATE = ResourceTemplateReference(uri="familiar://ada/memory/{path}")


@each("path", ["people/bo.md", "people/ö b%2F.md", "a?b#c.md", "日本.md"])
def test_the_address_of_a_file_leads_back_to_it(path):
    assert path_in(uri_of("ada-日本", path), "ada-日本") == path


async def test_every_file_is_listed_a_page_at_a_time():
    live(**{f"notes/{number:04}": "# N\n" for number in range(450)})
    found, cursor = [], None
    async with asking() as client:
        while True:
            page = await client.list_resources(cursor=cursor)
            found += [resource.uri for resource in page.resources]
            cursor = page.next_cursor
            if cursor is None:
                break
    assert found == [f"familiar://ada/memory/notes/{number:04}.md" for number in range(450)]


async def test_a_resource_is_the_file_without_what_is_private():
    live(**{"people/bo": BO})
    async with asking() as client:
        [content] = (await client.read_resource("familiar://ada/memory/people/bo.md")).contents
    assert "Bo paints" in content.text
    assert "ill" not in content.text


async def test_a_slash_may_be_encoded_as_the_template_has_it():
    live(**{"people/bo": BO})
    async with asking() as client:
        [content] = (await client.read_resource("familiar://ada/memory/people%2Fbo.md")).contents
    assert "Bo paints" in content.text


@each(
    "uri",
    [
        "familiar://ada/memory/../character.toml",
        "familiar://ada/memory/%2e%2e/character.toml",
        "familiar://ada/memory//etc/passwd",
        "familiar://bob/memory/notes.md",
        "file:///etc/passwd",
        "familiar://[/memory/notes.md",
        "familiar://ada/memory/no-such.md",
        "familiar://ada/memory/sessions/.writer.json",
    ],
)
async def test_what_is_no_memory_is_no_resource(uri):
    live(notes="# N\n")
    async with asking() as client:
        with pytest.raises(MCPError):
            await client.read_resource(uri)


async def test_a_large_resource_ends_before_clients_refuse_it():
    live(notes="word " * 60_000)
    async with asking() as client:
        [content] = (await client.read_resource("familiar://ada/memory/notes.md")).contents
    assert "memory_read" in content.text[-100:]
    assert len(content.text) < 25_000 * 5


async def test_a_change_by_hand_is_told_to_who_listens():
    root = live(**{"people/bo": BO, "notes": "# N\n"})
    uri = "familiar://ada/memory/people/bo.md"
    async with (
        asyncio.timeout(30),
        asking() as client,
        client.listen(resource_subscriptions=[uri], resources_list_changed=True) as events,
    ):
        (root / "memory" / "notes.md").write_text("# Other\n")
        (root / "memory" / "people" / "bo.md").write_text("# Bo\n\n- Bo sings.\n")
        assert (await anext(events)).uri == uri
        (root / "memory" / "new.md").write_text("# New\n")
        assert type(await anext(events)).__name__ == "ResourcesListChanged"


async def test_a_change_is_told_over_http_as_well():
    root = live(**{"people/bo": BO})
    uri = "familiar://ada/memory/people/bo.md"
    with serving() as server:
        async with (
            asyncio.timeout(30),
            Client(f"{server.url}/mcp") as client,
            client.listen(resource_subscriptions=[uri]) as events,
        ):
            (root / "memory" / "people" / "bo.md").write_text("# Bo\n\n- Bo sings.\n")
            assert (await anext(events)).uri == uri


async def test_prompts_hold_what_is_remembered_and_what_was_said():
    with_turns()
    async with asking() as client:
        names = [prompt.name for prompt in (await client.list_prompts()).prompts]
        recall = await client.get_prompt("recall", {"query": "green tea", "person": "Bo"})
        going_on = await client.get_prompt("continue", {"channel": "open"})
        with pytest.raises(MCPError, match="query"):
            await client.get_prompt("recall", {})
        with pytest.raises(MCPError, match="no open channel"):
            await client.get_prompt("continue", {"channel": "dm-42"})
    assert names == ["recall", "continue"]
    words = recall.messages[0].content.text
    assert "green tea" in words
    assert "ill" not in words
    assert "It rains" in going_on.messages[0].content.text


async def test_paths_people_and_open_channels_are_completed():
    with_turns()

    async def complete(client: Any, ref: Any, name: str, value: str) -> list[str]:
        return (await client.complete(ref, {"name": name, "value": value})).completion.values

    recall, go_on = PromptReference(name="recall"), PromptReference(name="continue")
    async with asking() as client:
        assert await complete(client, TEMPLATE, "path", "peo") == ["people/discord-7.md"]
        assert "Bo" in await complete(client, recall, "person", "b")
        assert await complete(client, go_on, "channel", "") == ["open"]
        assert await complete(client, recall, "query", "x") == []


async def test_at_most_a_hundred_values_are_offered():
    live(**{f"notes/{number:04}": "# N\n" for number in range(150)})
    async with asking() as client:
        done = await client.complete(TEMPLATE, {"name": "path", "value": "notes/"})
    assert len(done.completion.values) == 100
    assert (done.completion.total, done.completion.has_more) == (150, True)
