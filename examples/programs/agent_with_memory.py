"""An agent with a memory: its model searches a familiar's memory and proposes what to add.

    pip install -c constraints.txt ".[mcp]"  # in a copy of the repository
    familiar init ada --template companion
    export MODEL_URL=http://127.0.0.1:11434/v1 MODEL=qwen3
    python agent_with_memory.py ada "When do we deploy?"

Changes wait for your review: `familiar review`. The model has to support tool calls.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import httpx
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

TOOLS = {"memory_search", "memory_read", "history_search", "memory_edit", "memory_create"}
ROUNDS = 8  # requests to the model for one task
INSTRUCTIONS = """You have a memory that outlives this conversation. Search it before you answer.
When you learn something worth keeping, add it to a file under topics/."""
Message = dict[str, Any]


async def ask_model(messages: list[Message], tools: list[Message]) -> Message:
    """Send the conversation to an OpenAI-compatible server, and return the model's message."""
    url = os.environ["MODEL_URL"] + "/chat/completions"
    key = os.environ.get("MODEL_KEY", "none")
    body = {"model": os.environ["MODEL"], "messages": messages, "tools": tools}
    async with httpx.AsyncClient(timeout=300) as http:
        reply = await http.post(url, json=body, headers={"Authorization": f"Bearer {key}"})
    return reply.raise_for_status().json()["choices"][0]["message"]


async def offered_tools(memory: Client) -> list[Message]:
    """List the memory's tools in the form that models take."""
    offered = []
    for tool in (await memory.list_tools()).tools:
        if tool.name in TOOLS:
            shape = {"description": tool.description, "parameters": tool.input_schema}
            offered.append({"type": "function", "function": {"name": tool.name, **shape}})
    return offered


async def work_on(task: str, memory: Client) -> str:
    """Let the model call tools until it answers."""
    messages = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": task}]
    tools = await offered_tools(memory)
    for _ in range(ROUNDS):
        message = await ask_model(messages, tools)
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        for call in message["tool_calls"]:
            arguments = json.loads(call["function"]["arguments"] or "{}")
            result = await memory.call_tool(call["function"]["name"], arguments)
            text = "\n".join(part.text for part in result.content if part.type == "text")
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
    return "The model kept calling tools and did not answer."


async def main(name: str, task: str) -> None:
    """Start the memory's server, and work on one task with it."""
    server = StdioServerParameters(command="familiar", args=["mcp", "--familiar", name])
    async with Client(stdio_client(server)) as memory:
        print(await work_on(task, memory))


if __name__ == "__main__":
    if len(sys.argv) != 3:  # noqa: PLR2004  # a familiar and a task
        sys.exit(__doc__)
    asyncio.run(main(*sys.argv[1:]))
