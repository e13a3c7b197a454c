"""What models send is understood: other names, other kinds, and limits."""

# ruff: noqa: E501  # a request a line
from __future__ import annotations

import pytest
from mcp.shared.exceptions import MCPError

from familiar_cli.base.errors import UsageError
from familiar_cli.servers.mcp.arguments import read_arguments
from familiar_cli.servers.mcp.catalogue import TOOLS
from tests.support.cases import each
from tests.support.clients import asking
from tests.support.world import live

BY_NAME = {tool.name: tool for tool in TOOLS}
SIXTY = [
    ("memory_search", {"q": "tea"}, {"query": "tea"}),
    ("memory_search", {"search_query": "tea", "limit": "3"}, {"query": "tea", "maxResults": 3}),
    ("memory_search", {"text": "tea", "max_results": 3.0}, {"query": "tea", "maxResults": 3}),
    ("memory_search", {"keywords": ["tea", "rum"]}, {"query": ["tea", "rum"]}),
    ("memory_search", {"query": '["tea", "rum"]'}, {"query": '["tea", "rum"]'}),
    ("memory_search", {"query": "tea", "top_k": 500}, {"query": "tea", "maxResults": 50}),
    ("memory_search", {"query": "tea", "since": "last week"}, {"query": "tea", "after": "last week"}),
    ("memory_search", {"query": "tea", "afterDate": "2026", "until": None}, {"query": "tea", "after": "2026"}),
    ("memory_search", {"query": "tea", "min_score": "0.5"}, {"query": "tea", "minScore": 0.5}),
    ("memory_search", {"query": 42}, {"query": "42"}),
    ("memory_search", {"Query": "tea", "instance_id": "phone"}, {"query": "tea", "instanceId": "phone"}),
    ("memory_search", {"question": "Tea?", "n": "1"}, {"query": "Tea?", "maxResults": 1}),
    ("memory_read", {"file": "a.md"}, {"path": "a.md"}),
    ("memory_read", {"file_path": "a.md", "date": ""}, {"path": "a.md"}),
    ("memory_read", {"uri": "familiar://ada/memory/a.md"}, {"path": "familiar://ada/memory/a.md"}),
    ("memory_read", {"identifier": "a"}, {"path": "a"}),
    ("memory_read", {"path": "a.md", "section": "Likes"}, {"path": "a.md", "find": "Likes"}),
    ("memory_read", {"day": "yesterday"}, {"date": "yesterday"}),
    ("memory_read", {"granularity": "Week", "date": "2026-W05"}, {"granularity": "weekly", "date": "2026-W05"}),
    ("memory_read", {"path": ["a.md"]}, {"path": "a.md"}),
    ("memory_list", {}, {}),
    ("memory_list", {"directory": "people"}, {"folder": "people"}),
    ("memory_list", {"granularity": "daily"}, {"folder": "daily"}),
    ("memory_list", {"pattern": "*.md", "max": "5"}, {"glob": "*.md", "limit": 5}),
    ("memory_list", {"beforeDate": "2026-01-01"}, {"before": "2026-01-01"}),
    ("memory_list", {"folder": "people", "skip": "20"}, {"folder": "people", "offset": 20}),
    ("recent", {"count": "5"}, {"limit": 5}),
    ("recent", {"conversation_id": "main"}, {"channel": "main"}),
    ("history_search", {"text": "tea", "max_results": "2"}, {"query": "tea", "limit": 2}),
    ("history_search", {"q": "tea", "from": "2026-01-01", "to": "2026-02-01"}, {"query": "tea", "after": "2026-01-01", "before": "2026-02-01"}),
    ("person", {"person": "Bo"}, {"name": "Bo"}),
    ("person", {"query": "Bo"}, {"name": "Bo"}),
    ("relations", {"entity": "Bo"}, {"name": "Bo"}),
    ("context", {"prompt": "Tea?"}, {"message": "Tea?"}),
    ("why", {"path": "a.md", "turn_id": "#4"}, {"subject": "a.md", "turn": 4}),
    ("memory_create", {"text": "Hi."}, {"content": "Hi."}),
    ("memory_create", {"fact": "Hi.", "chatId": "c1"}, {"content": "Hi.", "chatIds": ["c1"]}),
    ("memory_create", {"content": "Hi.", "chat_ids": '["c1", "c2"]'}, {"content": "Hi.", "chatIds": ["c1", "c2"]}),
    ("memory_create", {"body": "Hi.", "title": "Sea", "granularity": "significant"}, {"content": "Hi.", "slug": "Sea", "granularity": "significant"}),
    ("memory_create", {"content": "Hi.", "filename": "a.md", "participating_instances": "x"}, {"content": "Hi.", "path": "a.md", "participatingInstances": ["x"]}),
    ("memory_update", {"file": "a.md", "new_content": "Hi."}, {"path": "a.md", "content": "Hi."}),
    ("memory_update", {"granularity": "daily", "date": "2026-01-05", "text": "Hi."}, {"granularity": "daily", "date": "2026-01-05", "content": "Hi."}),
    ("memory_edit", {"path": "a.md", "old_str": "x", "new_str": ""}, {"path": "a.md", "old_text": "x", "new_text": ""}),
    ("memory_edit", {"path": "a.md", "oldText": "x", "newText": "y"}, {"path": "a.md", "old_text": "x", "new_text": "y"}),
    ("memory_edit", {"path": "a.md", "find_text": "x", "replace": "y"}, {"path": "a.md", "old_text": "x", "new_text": "y"}),
    ("memory_edit", {"identifier": "a", "operation": "append", "content": "y"}, {"path": "a", "operation": "append", "content": "y"}),
    ("memory_edit", {"path": "a", "operation": "find_replace", "find": "x", "content": "y"}, {"path": "a", "operation": "replace", "old_text": "x", "content": "y"}),
    ("memory_edit", {"path": "a", "heading": "Likes", "text": "y"}, {"path": "a", "section": "Likes", "content": "y"}),
    ("memory_edit", {"path": "a", "append": "y", "expected_checksum": "1"}, {"path": "a", "append": "y", "checksum": "1"}),
    ("memory_delete", {"file_path": "a.md"}, {"path": "a.md"}),
    ("memory_undo", {"all": "true"}, {"all": True}),
    ("memory_consolidate", {"tier": "week", "period": "2026-W05"}, {"granularity": "weekly", "targetDate": "2026-W05"}),
    ("remember", {"content": "The sea.", "when": None}, {"text": "The sea."}),
    ("todo", {"task": "Milk"}, {"text": "Milk"}),
    ("todo", {"command": "create", "type": "tasks", "title": "Milk"}, {"action": "add", "kind": "task", "text": "Milk"}),
    ("todo", {"text": "Call", "due": "tomorrow 9:00"}, {"text": "Call", "when": "tomorrow 9:00"}),
    ("todo", {"action": "complete", "id": "2"}, {"action": "done", "id": "2"}),
    ("todo", {"op": "remove", "index": 2, "kind": "Reminder"}, {"action": "drop", "id": "2", "kind": "reminder"}),
    ("sync_pull", {"instance_id": "phone", "lastSyncToken": '{"hash": "x"}'}, {"instanceId": "phone", "lastSyncToken": {"hash": "x"}}),
    ("sync_pull", {"device": "phone", "lastSyncVersion": "3"}, {"instanceId": "phone", "lastSyncVersion": 3}),
]  # fmt: skip


@each("tool, sent, meant", SIXTY, ids=lambda case: f"{case[0]} {list(case[1])}")
def test_sixty_requests_are_understood(tool, sent, meant):
    assert read_arguments(BY_NAME[tool], sent) == (meant, [])


def test_what_a_tool_does_not_know_is_named_and_the_rest_counts():
    arguments, [note] = read_arguments(BY_NAME["recent"], {"limit": 5, "colour": "red"})
    assert arguments == {"limit": 5}
    assert "'colour'" in note
    assert "channel" in note


@each("tool", [tool for tool in TOOLS if tool.kind != "read"], ids=lambda tool: tool.name)
def test_a_tool_that_may_write_refuses_what_it_does_not_know(tool):
    with pytest.raises(UsageError, match=f"{tool.name} has no argument 'colour'; nothing was done"):
        read_arguments(tool, {"colour": "red"})


def test_a_tool_without_arguments_names_the_one_that_takes_them():
    with pytest.raises(UsageError) as refused:
        read_arguments(BY_NAME["memory_write"], {"path": "topics/x.md", "text": "Hi."})
    assert refused.value.hint.startswith("It takes no arguments. memory_create writes a file")


@each("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_argument_is_found_by_its_own_name_in_any_spelling(tool):
    for name, schema in tool.parameters.items():
        sent = {"string": "x", "integer": 1, "boolean": True, "array": [], "object": {}}
        value = schema.get("enum", [sent.get(schema.get("type", "string"), 1)])[0]
        needed = {need: "x" for need in tool.needs if need != "instance"}
        needed |= {"instance": {}} if "instance" in tool.needs else {}
        spelt = name.replace("_", "-").upper()
        arguments, notes = read_arguments(tool, {**needed, name: value})
        again, _ = read_arguments(
            tool, {**{k: v for k, v in needed.items() if k != name}, spelt: value}
        )
        assert arguments[name] == again[name] == value
        assert notes == []


@each(
    "tool, sent",
    [
        ("memory_search", {"query": "tea", "maxResults": "many"}),
        ("memory_search", {"query": "tea", "maxResults": 1.5}),
        ("memory_search", {"query": "tea", "maxResults": 0}),
        ("memory_search", {"query": "tea", "maxResults": float("nan")}),
        ("memory_search", {}),
        ("memory_read", {"path": {"a": 1}}),
        ("memory_undo", {"all": "perhaps"}),
        ("todo", {"action": "sing"}),
        ("sync_push", {"instance": "phone"}),
    ],
)
def test_what_means_nothing_is_refused(tool, sent):
    with pytest.raises(UsageError) as refused:
        read_arguments(BY_NAME[tool], sent)
    assert tool in str(refused.value)
    assert "familiar" not in str(refused.value.hint)


MEGABYTE = "x" * 1_000_000


async def test_a_megabyte_in_any_argument_is_refused_and_not_repeated():
    live(tea="# Tea\n")
    sent = [(tool.name, {name: MEGABYTE}) for tool in TOOLS for name in [*tool.parameters, "x"]]
    more = (["x"] * 1_000_000, [MEGABYTE], {MEGABYTE: 1}, {"a": [{"b": MEGABYTE}]})
    sent += [("memory_create", {"chatIds": value}) for value in more]
    async with asking(allow_write=True) as client:
        for tool, arguments in sent:
            refused = await client.call_tool(tool, arguments)
            assert refused.is_error, (tool, list(arguments))
            assert len(refused.content[0].text) < 500
        for ask in (
            client.get_prompt("recall", {"query": MEGABYTE}),
            client.read_resource(MEGABYTE),
        ):
            with pytest.raises(MCPError):
                await ask
