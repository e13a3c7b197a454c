from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import BadReplyError
from familiar_cli.llm.reply import ErrorInReplyError, ServerEvent, StreamedReply
from familiar_cli.llm.types import Usage
from tests.support.cases import each

KEYS = st.sampled_from(
    [
        *("choices", "delta", "content", "message", "usage", "cost", "model", "finish_reason"),
        *("error", "text", "prompt_tokens"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def event(text: str, name: str = "") -> ServerEvent:
    try:
        return ServerEvent(text, json.loads(text), name)
    except ValueError:
        return ServerEvent(text, None, name)


@given(st.dictionaries(KEYS, JSON, max_size=6))
def test_no_object_whatever_its_shape_breaks_the_reading(value) -> None:
    reply = StreamedReply()
    try:
        reply.take(event(json.dumps(value)))
    except ErrorInReplyError:
        assert value.get("error") or value.get("choices") or value.get("message")
    assert isinstance(reply.finished("m").text, str)


@given(st.lists(st.text(max_size=8), max_size=8))
def test_the_text_is_all_pieces_in_order(pieces) -> None:
    reply = StreamedReply()
    events = [json.dumps({"choices": [{"delta": {"content": piece}}]}) for piece in pieces]
    heard = [reply.take(event(data)) for data in events]
    assert "".join((*heard, reply.close())) == reply.text == "".join(pieces)


@each("ending", ["", "\ud83d"])
def test_halves_of_a_character_are_joined_or_replaced(ending) -> None:
    reply, pieces = StreamedReply(), ["a\ud83d", "\ude00 \ud800 b" + ending]
    deltas = ({"content": piece, "reasoning": piece} for piece in pieces)
    events = [json.dumps({"choices": [{"delta": delta}]}) for delta in deltas]
    heard = [reply.take(event(data)) for data in events]
    text = "a\U0001f600 \ufffd b" + "\ufffd" * len(ending)
    assert "".join((*heard, reply.close())) == reply.text == reply.thinking == text


def test_reasoning_and_tool_calls_are_no_text() -> None:
    reply = StreamedReply()
    delta = {"reasoning": "hm", "reasoning_content": "hm", "tool_calls": [{}], "content": None}
    reply.take(event(json.dumps({"choices": [{"delta": delta}]})))
    assert reply.text == ""


def test_content_in_parts_is_joined() -> None:
    reply = StreamedReply()
    parts = [{"type": "thinking"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    reply.take(event(json.dumps({"choices": [{"delta": {"content": parts}}]})))
    assert reply.text == "ab"


def test_usage_comes_in_an_event_without_choices() -> None:
    reply = StreamedReply()
    reply.take(event('{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}'))
    reply.take(event('{"choices": [], "usage": null}'))
    assert reply.finished("m").usage == Usage(3, 4, None)


@each("value", ["x", True, None, [], -0.5])
def test_a_count_that_is_none_is_unknown(value) -> None:
    reply = StreamedReply()
    reply.take(event(json.dumps({"usage": {"prompt_tokens": value, "cost": "x"}})))
    assert reply.finished("m").usage == Usage(None, None, None)


def test_an_error_of_a_choice_is_an_error() -> None:
    with pytest.raises(ErrorInReplyError):
        StreamedReply().take(
            event('{"choices": [{"error": {"message": "x"}, "finish_reason": "error"}]}')
        )


def test_a_whole_reply_must_have_choices() -> None:
    with pytest.raises(BadReplyError, match="is not a reply"):
        StreamedReply().take(ServerEvent('{"object": "list"}', {"object": "list"}, is_bare=True))
