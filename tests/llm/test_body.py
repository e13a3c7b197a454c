from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import BadInputError
from familiar_cli.llm.types import make_body, with_model
from tests.support.cases import each

NAMES = st.text(st.characters(exclude_categories=("Cs",)), max_size=9)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "user", "assistant"]),
            "content": st.text(st.characters(exclude_categories=("Cs",))),
        }
    )
)


@given(MESSAGES, st.booleans())
def test_the_same_messages_give_the_same_bytes_and_come_back_unchanged(messages, stream) -> None:
    first = make_body("m", messages, stream=stream, limits={"max_tokens": 5})
    assert first == make_body("m", messages, stream=stream, limits={"max_tokens": 5})
    assert json.loads(first)["messages"] == messages


def test_text_is_not_escaped_into_ascii() -> None:
    body = make_body("m", [{"role": "user", "content": "Zoë 日本"}], stream=False, limits={})
    assert "Zoë 日本".encode() in body


def test_a_stream_asks_for_its_token_counts() -> None:
    body = json.loads(make_body("m", [], stream=True, limits={}))
    assert body["stream_options"] == {"include_usage": True}
    assert "stream_options" not in json.loads(make_body("m", [], stream=False, limits={}))


def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    body = make_body("m", [{"role": "user", "content": "a\ud83d b 😀"}], stream=False, limits={})
    assert json.loads(body)["messages"][0]["content"] == "a\ufffd b 😀"


def test_only_role_and_content_of_a_message_go_out() -> None:
    message = {"role": "user", "content": "hi", "secret": "no"}
    assert b"secret" not in make_body("m", [message], stream=False, limits={})  # type: ignore[list-item]


@given(MESSAGES, NAMES, NAMES)
def test_another_model_changes_no_other_byte(messages, first, second) -> None:
    def body(model):
        return make_body(model, messages, stream=True, limits={"temperature": 0.8})

    assert with_model(body(first), second) == body(second)


@each("body", [b"", b"{}", b"\xff", b'{"model":', b'{"messages":[],"model":"m"}'])
def test_a_body_of_another_shape_is_not_changed(body) -> None:
    with pytest.raises(BadInputError, match="cannot be replaced"):
        with_model(body, "m")
