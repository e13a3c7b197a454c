"""What clients of the memory may rely on: names of tools, what they cost, how the server starts."""

from __future__ import annotations

import json

import jsonschema

from familiar_cli.servers.mcp.catalogue import TOOLS
from tests.contracts.test_startup import loaded_by
from tests.support.cases import each
from tests.support.clients import asking
from tests.support.world import live

MOST_TOKENS = 3_000  # characters of its JSON / 4
READING = {"memory_search", "memory_read", "memory_list", "recent", "person", "history_search"}
READING |= {"context", "why", "relations", "plans_list"}
WRITING = {"memory_create", "memory_update", "memory_delete", "memory_consolidate"}
WRITING |= {"memory_edit", "remember", "todo", "memory_write"}
NOT_AT_THE_START = {"dulwich", "fastembed", "numpy", "onnxruntime", "rich", "tiktoken", "yaml"}


async def test_the_list_of_tools_costs_few_tokens():
    live()
    async with asking() as client:
        listed = await client.list_tools()
    sent = listed.model_dump(mode="json", by_alias=True, exclude_none=True)
    told = json.dumps(sent, ensure_ascii=False)  # with a space after each comma, as some show it
    assert len(told) / 4 <= MOST_TOKENS


def test_the_tools_have_the_names_that_clients_know():
    names = {tool.name for tool in TOOLS}
    assert names >= READING | WRITING
    assert {tool.name for tool in TOOLS if tool.kind == "read"} >= READING
    assert not {tool.name for tool in TOOLS if tool.kind == "read"} & WRITING


@each("tool", TOOLS, ids=lambda tool: tool.name)
async def test_each_tool_says_what_it_takes_gives_and_changes(tool):
    live()
    for schema in (tool.input_schema, tool.output_schema):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert set(schema.get("required", ())) <= schema["properties"].keys()
    for schema in tool.parameters.values():
        assert schema["description"]
        assert "type" in schema or all("type" in one for one in schema["anyOf"])
    assert tool.output_schema["properties"].keys() >= {"results", "notes"}
    async with asking() as client:
        listed = next(one for one in (await client.list_tools()).tools if one.name == tool.name)
    assert listed.description
    assert listed.output_schema
    assert listed.annotations.read_only_hint == (True if tool.kind == "read" else None)


async def test_results_are_what_the_output_schemas_say():
    live(**{"people/bo": "# Bo\n\n- Bo likes green tea.\n"})
    calls = {
        "memory_search": {"query": "green tea"},
        "memory_read": {"path": "people/bo.md"},
        "memory_list": {},
        "recent": {},
        "history_search": {"query": "tea"},
        "person": {"name": "Bo"},
        "context": {"message": "Tea?"},
        "relations": {},
    }
    schemas = {tool.name: tool.output_schema for tool in TOOLS}
    async with asking() as client:
        for name, arguments in calls.items():
            found = await client.call_tool(name, arguments)
            assert not found.is_error, (name, found.content)
            jsonschema.validate(found.structured_content, schemas[name])


def test_starting_loads_the_protocol_and_nothing_that_a_call_needs():
    loaded = loaded_by(
        "import familiar_cli.cli.commands.serve, familiar_cli.servers.mcp.transports"
    )
    assert "mcp" in loaded
    assert NOT_AT_THE_START & loaded == set()
    of_calls = [
        "actions.talk.talk",
        "actions.memory.graph",
        "context.pipeline",
        "store.search.search",
        "sync.remote",
    ]
    probe = "import familiar_cli.servers.mcp.transports, sys\n" + "\n".join(
        f"assert 'familiar_cli.{module}' not in sys.modules, {module!r}" for module in of_calls
    )
    loaded_by(probe)


def test_serving_loads_nothing_of_the_protocol():
    assert not {"mcp", "pydantic"} & loaded_by("import familiar_cli.servers.running")
