"""Forty calls of the memory's tools, made by other people's clients, to compare what they get.

The client is one of `sdk`, `fastmcp`, `pydantic-ai` and `inspector`; it has to be installed where
this runs, and nothing of `familiar` has to be. The calls read first, then write, so ask a familiar
that was made for it. The server is a command that speaks over standard input and output. Prints
what each call returned, as a JSON list:
`python tests/clients/forty_calls.py fastmcp -- familiar mcp --allow-write > fastmcp.json`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY = {"granularity": "daily", "date": "2026-01-05", "chatIds": ["c1"], "instanceId": "desk"}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("memory_search", {"query": "green tea"}),
    ("memory_search", {"query": ["green tea", "boats"], "maxResults": 3}),
    ("memory_search", {"q": "green tea", "limit": "2"}),
    ("memory_search", {"query": "tea", "after": "2026-01-01", "before": "next year"}),
    ("memory_search", {"query": "tea", "maxResults": "many"}),
    ("memory_search", {}),
    ("memory_read", {"path": "people/bo.md"}),
    ("memory_read", {"file": "people/bo", "find": "tea"}),
    ("memory_read", {"path": "../character.toml"}),
    ("memory_read", {"path": "nobody.md"}),
    ("memory_list", {}),
    ("memory_list", {"folder": "people", "limit": 1}),
    ("memory_list", {"glob": "*bo*", "colour": "red"}),
    ("recent", {}),
    ("recent", {"limit": "5"}),
    ("recent", {"channel": "none"}),
    ("history_search", {"query": "tea"}),
    ("person", {"name": "Bo"}),
    ("person", {"name": "Nobody"}),
    ("relations", {}),
    ("context", {"message": "What does Bo drink?"}),
    ("why", {"subject": "people/bo.md"}),
    ("plans_list", {}),
    ("sync_status", {}),
    ("sync_pull", {"instanceId": "phone"}),
    ("todo", {}),
    ("memory_create", {**DAY, "content": "Bo likes green tea."}),
    ("memory_create", {**DAY, "content": "Anna plays the cello."}),
    ("memory_create", {**DAY, "content": "Bo likes green tea."}),
    ("memory_create", {"path": "people/bo.md", "content": "# Bo\n\nAnother."}),
    ("memory_edit", {"path": "people/bo.md", "append": "- Bo has a boat."}),
    ("memory_edit", {"path": "people/bo.md", "old_str": "a boat", "new_str": "two boats"}),
    ("memory_edit", {"path": "people/bo.md", "old_text": "nowhere", "new_text": "x"}),
    ("memory_update", {"path": "people/bo.md", "content": "# Bo\n\n- Bo likes black tea.\n"}),
    ("todo", {"action": "add", "text": "Call Bo", "when": "2026-12-01 09:00"}),
    ("todo", {"action": "done", "kind": "reminder", "number": "1"}),
    ("remember", {"text": "We saw the sea.", "date": "2026-01-06"}),
    ("memory_undo", {}),
    ("memory_delete", {"path": "daily/2026-01-05_desk.md"}),
    ("memory_undo", {"all": True}),
]

Result = dict[str, Any]


def _result(error: object, text: str, data: object) -> Result:
    return {"error": bool(error), "text": text, "data": data}


async def call_by_sdk(command: Sequence[str]) -> list[Result]:
    """Make the calls by the protocol's own client for Python."""
    from mcp import Client, StdioServerParameters

    server = StdioServerParameters(command=command[0], args=[*command[1:]], env=dict(os.environ))
    found = []
    async with Client(server) as client:
        for name, arguments in CALLS:
            made = await client.call_tool(name, arguments)
            found.append(_result(made.is_error, made.content[0].text, made.structured_content))
    return found


async def call_by_fastmcp(command: Sequence[str]) -> list[Result]:
    """Make the calls by fastmcp's client."""
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    transport = StdioTransport(command[0], [*command[1:]], env=dict(os.environ))
    found = []
    async with Client(transport) as client:
        for name, arguments in CALLS:
            made = await client.call_tool_mcp(name, arguments)
            sent = made.model_dump(mode="json", by_alias=True)
            text = sent["content"][0]["text"]
            found.append(_result(sent.get("isError"), text, sent.get("structuredContent")))
    return found


async def call_by_pydantic_ai(command: Sequence[str]) -> list[Result]:
    """Make the calls as pydantic-ai makes them for a model: it gets the structured half alone."""
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai.exceptions import ModelRetry
    from pydantic_ai.mcp import MCPToolset

    transport = StdioTransport(command[0], [*command[1:]], env=dict(os.environ))
    found = []
    async with MCPToolset(transport, init_timeout=60) as toolset:
        for name, arguments in CALLS:
            try:
                found.append(
                    _result(
                        error=False, text="", data=await toolset.direct_call_tool(name, arguments)
                    )
                )
            except ModelRetry as error:
                found.append(_result(error=True, text=str(error), data=None))
    return found


def call_by_inspector(command: Sequence[str]) -> list[Result]:
    """Make the calls by the inspector's command line, a server for each."""
    found = []
    for name, arguments in CALLS:
        given = [
            f"{key}={value if isinstance(value, str) else json.dumps(value)}"
            for key, value in arguments.items()
        ]
        argv = ["mcp-inspector", "--cli", *command, "--method", "tools/call", "--tool-name", name]
        argv += [part for one in given for part in ("--tool-arg", one)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        try:
            made = json.loads(done.stdout)
        except ValueError:
            found.append(_result(error=True, text=done.stdout + done.stderr, data=None))
            continue
        found.append(
            _result(made.get("isError"), made["content"][0]["text"], made.get("structuredContent"))
        )
    return found


def main() -> None:
    """Make the calls with one client."""
    client, _, *command = sys.argv[1:]
    if client == "inspector":
        found = call_by_inspector(command)
    else:
        calling = {
            "sdk": call_by_sdk,
            "fastmcp": call_by_fastmcp,
            "pydantic-ai": call_by_pydantic_ai,
        }
        found = asyncio.run(calling[client](command))
    json.dump(found, sys.stdout, indent=1, ensure_ascii=False)


if __name__ == "__main__":
    main()
