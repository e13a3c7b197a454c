"""What a reply may hold follows the model, and the prompt says what the schema allows."""

from __future__ import annotations

import json
import re

from familiar_cli.llm import tokens
from familiar_cli.writing.writer.contract import bounds_for, reply_schema
from familiar_cli.writing.writer.prompts import system_message
from tests.support.cases import each

WINDOWS = (600, 1024, 2048, 4096, 8192, 16384)
FILES = ["sessions/2024-03-14-evening.md", "people/discord-42.md"]


def shapes(reply_tokens: int) -> list[dict]:
    bounds = bounds_for(reply_tokens)
    made = reply_schema(bounds, files=FILES, turns=range(100, 160), topics=[])
    return made["properties"]["operations"]["items"]["anyOf"]


def longest(shape: dict) -> str:
    """Return the longest operation that `shape` allows, in common English words."""
    parts = shape["properties"]
    line = ("She walks the dog along the harbour. " * 80)[: parts["lines"]["items"]["maxLength"]]
    return json.dumps(
        {
            "op": max(parts["op"]["enum"], key=len),
            "file": FILES[0],
            "section": "Things she likes",
            "lines": [line] * parts["lines"]["maxItems"],
            "turns": parts["turns"]["items"]["enum"][: parts["turns"]["maxItems"]],
            "kind": "said",
        }
    )


@each("reply_tokens", [256, 384, *WINDOWS])
def test_the_longest_reply_that_the_schema_allows_is_not_cut_off(reply_tokens) -> None:
    most = bounds_for(reply_tokens).operations
    count = tokens.heuristic().count
    assert max(most * count(longest(shape)) for shape in shapes(reply_tokens)) <= reply_tokens


@each("reply_tokens", [256, 384, *WINDOWS])
def test_an_operation_has_room_for_several_facts(reply_tokens) -> None:
    assert 4 <= bounds_for(reply_tokens).lines <= 8


@each("reply_tokens", [384, *WINDOWS])
def test_a_summary_may_be_a_paragraph(reply_tokens) -> None:
    summary, other = shapes(reply_tokens)
    lines = summary["properties"]["lines"]
    assert summary["properties"]["op"]["enum"] == ["set_summary"]
    assert "set_summary" not in other["properties"]["op"]["enum"]
    assert (lines["maxItems"], lines["items"]["maxLength"] >= 320) == (1, True)


@each("reply_tokens", WINDOWS)
def test_the_prompt_says_what_the_schema_allows(reply_tokens) -> None:
    bounds = bounds_for(reply_tokens)
    told = system_message("Aria", bounds, private=False)
    found = re.search(
        r"At most (\d+) operations, each with at most (\d+) lines of (\d+) characters\. "
        r"A summary has at most (\d+) characters\.",
        told,
    )
    summary, other = (shape["properties"]["lines"] for shape in shapes(reply_tokens))
    assert tuple(map(int, found.groups())) == (
        bounds.operations,
        other["maxItems"],
        other["items"]["maxLength"],
        summary["items"]["maxLength"],
    )


def test_the_example_follows_the_form_that_it_shows() -> None:
    told = system_message("Aria", bounds_for(4096), private=False)
    example = json.loads(told.partition("a good reply is\n")[2].partition("\nThe rain")[0])
    assert [o["op"] for o in example["operations"]] == ["set_summary", "add_bullets"]
    assert "2024-03-15" in example["operations"][0]["lines"][0]
