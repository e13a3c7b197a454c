from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import BadReplyError
from familiar_cli.llm.client import ErrorInReplyError, StreamedReply
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


@given(st.dictionaries(KEYS, JSON, max_size=6))
def test_no_object_whatever_its_shape_breaks_the_reading(event) -> None:
    reply = StreamedReply()
    try:
        reply.take_event(json.dumps(event))
    except ErrorInReplyError:
        assert event.get("error") or event.get("choices")
    assert isinstance(reply.finished("m").text, str)


@given(st.lists(st.text(max_size=8), max_size=8))
def test_the_text_is_all_pieces_in_order(pieces) -> None:
    reply = StreamedReply()
    events = [json.dumps({"choices": [{"delta": {"content": piece}}]}) for piece in pieces]
    heard = [reply.take_event(event) for event in events]
    assert heard == pieces
    assert reply.text == "".join(pieces)


def test_reasoning_and_tool_calls_are_no_text() -> None:
    reply = StreamedReply()
    delta = {"reasoning": "hm", "reasoning_content": "hm", "tool_calls": [{}], "content": None}
    reply.take_event(json.dumps({"choices": [{"delta": delta}]}))
    assert reply.text == ""


def test_content_in_parts_is_joined() -> None:
    reply = StreamedReply()
    parts = [{"type": "thinking"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    reply.take_event(json.dumps({"choices": [{"delta": {"content": parts}}]}))
    assert reply.text == "ab"


def test_usage_comes_in_an_event_without_choices() -> None:
    reply = StreamedReply()
    reply.take_event('{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}')
    reply.take_event('{"choices": [], "usage": null}')
    assert reply.finished("m").usage == Usage(3, 4, None)


@each("value", ["12", True, None, [], -0.5])
def test_a_count_that_is_none_is_unknown(value) -> None:
    reply = StreamedReply()
    reply.take_event(json.dumps({"usage": {"prompt_tokens": value, "cost": "x"}}))
    assert reply.finished("m").usage == Usage(None, None, None)


def test_an_error_of_a_choice_is_an_error() -> None:
    with pytest.raises(ErrorInReplyError):
        StreamedReply().take_event(
            '{"choices": [{"error": {"message": "x"}, "finish_reason": "error"}]}'
        )


def test_blank_events_are_passed_over() -> None:
    reply = StreamedReply()
    reply.take_event("  ")
    assert not reply.complete


def test_a_whole_reply_must_have_choices() -> None:
    with pytest.raises(BadReplyError, match="is not a reply"):
        StreamedReply().take_whole('{"object": "list"}')
