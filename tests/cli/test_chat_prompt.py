"""The line of a chat: what was typed early, a late Ctrl-C, and what stands below it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import DummyOutput

from familiar_cli.cli.terminal import chat_prompt
from familiar_cli.cli.terminal.chat_prompt import ChatPrompt, draft_keys, fit_parts
from tests.support.cases import each


@pytest.fixture
def late():
    return []


@pytest.fixture
def keyboard():
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        yield pipe


@pytest.fixture
def pressed():
    """What is pressed early, and again and again while the line is edited."""
    return ["\r"]


@pytest.fixture
def prompt(keyboard, late, pressed, monkeypatch):
    def press() -> list[str]:
        keyboard.send_text(pressed[0])
        return []

    monkeypatch.setattr(chat_prompt, "create_input", lambda _: keyboard)
    monkeypatch.setattr(chat_prompt, "create_output", lambda **_: DummyOutput())
    monkeypatch.setattr(chat_prompt, "_LATE_CTRL_C_S", 600.0)
    with ChatPrompt([], lambda _: (0, []), press, lambda: late.append(1)) as prompt:
        yield prompt


def test_lines_typed_during_a_reply_are_one_draft(prompt, keyboard) -> None:
    keyboard.send_text("hello")
    assert prompt.read() == "hello"
    with prompt.replying():
        keyboard.send_text("firts\x7f\x7fst\r\x1b[200~second\nthird\x1b[201~\r\x03\x04")
    assert prompt.read() == "first\nsecond\nthird"


def test_lines_that_arrive_at_once_are_one_message(prompt, keyboard) -> None:
    keyboard.send_text("one\rtwo\rthree")
    assert prompt.read() == "one\ntwo\nthree"


def test_ctrl_c_a_moment_after_a_reply_leaves_only_the_second_time(prompt, pressed, late) -> None:
    pressed[:] = ["\x03"]
    with prompt.replying():
        pass
    assert prompt.read() is None
    assert late == [1]


@given(st.text(st.sampled_from("ab\r\n\t\x03\x04\x15\x1b[A日"), max_size=12))
def test_no_key_of_a_draft_sends_it_or_leaves(typed: str) -> None:
    keys: list = []
    parser = Vt100Parser(keys.append)
    parser.feed(typed)
    parser.flush()
    kept = {press.key for press in draft_keys(keys)}
    assert not kept & {Keys.Enter, Keys.ControlJ, Keys.ControlC, Keys.ControlD, Keys.Up}


@each(
    ("width", "expected"),
    [
        (80, "Yuzu · cli · writing memory"),
        (26, "cli · writing memory"),
        (16, "writing memory"),
        (7, "writing"),
    ],
)
def test_what_is_under_way_is_the_last_to_go(width, expected) -> None:
    assert fit_parts(["Yuzu", "cli", "writing memory"], width) == expected


def test_nothing_is_nothing() -> None:
    assert fit_parts([], 80) == ""
