from __future__ import annotations

import json

import pytest

from familiar_cli.base.errors import CutOffError, ModelError
from familiar_cli.llm.types import ChatModel, Completion, ScriptedModel

HELLO = [{"role": "user", "content": "Hi"}]


async def test_it_says_what_the_script_says_and_keeps_the_requests() -> None:
    model: ChatModel = ScriptedModel(["One two.", Completion("Cut", "length", "x", None)])
    pieces: list[str] = []
    request = model.prepare(HELLO)
    first, second = [await model.complete(request, pieces.append) for _ in range(2)]
    assert (first.text, second.finish_reason) == ("One two.", "length")
    assert pieces == ["One ", "two.", "Cut"]
    assert json.loads(model.requests[0].body)["messages"] == HELLO


async def test_a_scripted_failure_says_its_partial_text_first() -> None:
    model = ScriptedModel([CutOffError("gone", partial="Once upon")])
    pieces: list[str] = []
    with pytest.raises(CutOffError):
        await model.complete(model.prepare(HELLO), pieces.append)
    assert "".join(pieces) == "Once upon"


async def test_a_script_at_its_end_is_a_model_error() -> None:
    model = ScriptedModel([])
    with pytest.raises(ModelError, match="no reply left"):
        await model.complete(model.prepare(HELLO))


def test_a_schema_for_the_reply_goes_out_with_the_request() -> None:
    schema = {"type": "object"}
    asked = json.loads(ScriptedModel([]).prepare(HELLO, reply_schema=schema).body)
    assert asked["response_format"]["json_schema"]["schema"] == schema
    assert "response_format" not in json.loads(ScriptedModel([]).prepare(HELLO).body)


def test_one_reply_may_have_limits_of_its_own() -> None:
    asked = json.loads(ScriptedModel([]).prepare(HELLO, max_tokens=9, temperature=0.1).body)
    assert (asked["max_tokens"], asked["temperature"]) == (9, 0.1)
