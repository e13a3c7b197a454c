"""`familiar chat`, from typed or piped lines to stdout, stderr, exit code and history."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time

import pytest

from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history.store import HistoryStore
from tests.support.processes import Process
from tests.support.server import CutOff, Stall, bad_key, closed_port
from tests.support.world import live, run, without_block

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")


@pytest.fixture
def root():
    root = live("ada")
    (root / "memory" / "self").mkdir()
    (root / "memory" / "self" / "first_mes.md").write_text(
        "# First message\n\nAhoy, {{user}}.\n", encoding="utf-8"
    )
    return root


def said(root, channel: str = "cli") -> list[tuple[str, str, bool]]:
    store = HistoryStore(root / "history.db")
    turns = [
        (turn.role, turn.content, turn.partial) for turn in store.recent(channel, 100, viewer=OWNER)
    ]
    store.close()
    return turns


def test_each_piped_line_is_said_and_its_reply_printed(root, serve) -> None:
    serve("One.", "Two.")
    result = run("chat", stdin="first\n\nsecond\n")
    assert (result.stdout, result.exit_code) == ("One.\nTwo.\n", 0)
    assert [content for _, content, _ in said(root)][1:] == ["first", "One.", "second", "Two."]


def test_the_greeting_opens_the_conversation_once(root, serve) -> None:
    server = serve("One.")
    run("chat", stdin="first\nsecond\n")
    run("chat", stdin="third\n")
    assert [role for role, _, _ in said(root)].count("assistant") == 4
    assert said(root)[0][1].startswith("Ahoy, ")
    prompt = without_block(server.requests[0].json()["messages"])
    assert [message["role"] for message in prompt][-2:] == ["assistant", "user"]


def test_another_greeting_opens_the_conversation_once(root, serve) -> None:
    serve("One.")
    assert run("chat", "--greeting", "1", stdin="first\nsecond\n").exit_code == 0
    assert [role for role, _, _ in said(root)].count("assistant") == 3


def test_what_was_said_before_is_in_the_next_prompt(root, serve) -> None:
    server = serve("One.", "Two.")
    run("chat", stdin="first\nsecond\n")
    prompt = without_block(server.last.json()["messages"])
    contents = [message["content"] for message in prompt]
    assert contents[-3:] == ["first", "One.", "second"]


def test_channels_and_speakers_are_as_with_ask(root, serve) -> None:
    serve("One.")
    run("chat", "--channel", "harbour", "--as", "discord:42", "--name", "Anna", stdin="hi\n")
    store = HistoryStore(root / "history.db")
    turn = store.recent("harbour", 2, viewer=OWNER)[0]
    store.close()
    assert (turn.author.platform, turn.author.user_id, turn.author.display_name) == (
        "discord",
        "42",
        "Anna",
    )


def test_with_json_each_reply_is_one_line(root, serve) -> None:
    serve("One.", "Two.")
    lines = run("chat", "--json", stdin="first\nsecond\n").stdout.splitlines()
    assert [json.loads(line)["data"]["reply"] for line in lines] == ["One.", "Two."]
    assert {"turn", "reply", "model", "usage"} <= set(json.loads(lines[0])["data"])


def test_quit_ends_and_what_follows_is_not_said(root, serve) -> None:
    server = serve("One.")
    assert run("chat", stdin="first\n/quit\nsecond\n").stdout == "One.\n"
    assert len(server.requests) == 1


def test_help_and_unknown_commands_are_answered_on_stderr_and_not_said(root, serve) -> None:
    server = serve("One.")
    result = run("chat", stdin="/help\n/contxt\n/\n")
    assert result.stdout == ""
    assert "/quit" in result.stderr
    assert "No such command: '/contxt'. Did you mean /context?" in result.stderr
    assert server.requests == []


def test_two_slashes_say_one(root, serve) -> None:
    server = serve("One.")
    run("chat", stdin="//shrug\n")
    assert server.last.json()["messages"][-1]["content"] == "/shrug"


def test_context_shows_what_the_last_reply_was_made_from(root, serve) -> None:
    serve("One.")
    printed = run("chat", stdin="first\n/context\n").stdout
    assert printed.startswith("One.\nwhat      turn 2,")
    assert "user\nfirst\n" in printed


def test_no_lines_say_why_nothing_happened(root, serve) -> None:
    serve("One.")
    result = run("chat", stdin="")
    assert (result.stdout, result.exit_code) == ("", 0)
    assert "standard input is empty" in result.stderr
    assert not (root / "history.db").exists()


def test_a_line_that_is_not_utf8_is_a_usage_error_after_the_others_were_said(root, serve) -> None:
    serve("One.")
    result = run("chat", stdin=b"\xef\xbb\xbffirst\r\n\xff\n")
    assert (result.stdout, result.exit_code) == ("One.\n", 2)
    assert "Line 2 of standard input is not UTF-8" in result.stderr
    assert [content for _, content, _ in said(root)][1:] == ["first", "One."]


@pytest.mark.parametrize(("step", "kept"), [(bad_key(), 0), (CutOff("Once upon"), 1)])
def test_from_a_pipe_the_first_failure_ends_it_and_loses_nothing(root, serve, step, kept) -> None:
    serve(step, "never")
    result = run("chat", stdin="first\nsecond\n")
    assert result.exit_code == 6
    assert [content for _, content, _ in said(root)][1] == "first"
    assert sum(partial for _, _, partial in said(root)) == kept


def test_without_a_usable_model_it_ends_before_anything_is_said(root, monkeypatch) -> None:
    (root / "character.toml").write_text("[llm]\npreset = 'openai'\n", encoding="utf-8")
    result = run("chat", stdin="first\n")
    assert result.exit_code == 3
    assert "familiar config set llm.model" in result.stderr
    assert not (root / "history.db").exists()


def test_a_server_that_is_not_there_is_an_error_of_the_model(root, monkeypatch) -> None:
    monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", f"http://127.0.0.1:{closed_port()}/v1")
    (root / "character.toml").write_text("[llm]\nretries = 0\n", encoding="utf-8")
    assert run("chat", stdin="first\n").exit_code == 6


READY = "\x1b[?2004h"  # bracketed paste is on: the line editor waits for keys


class Terminal:
    """`familiar chat` at a terminal of its own, driven as by a person."""

    def __init__(self, *argv: str) -> None:
        import pty

        self.screen = ""
        self._main, other = pty.openpty()
        self.process = Process(
            [sys.executable, "-m", "familiar_cli", "chat", *argv],
            stdin=other,
            stdout=other,
            stderr=other,
            env={**os.environ, "TERM": "xterm"},
            start_new_session=True,
        )
        os.close(other)

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._main)

    def type(self, text: str) -> None:
        os.write(self._main, text.encode())

    def see(self, text: str, within_s: float = 15.0) -> None:
        until = time.monotonic() + within_s
        while text not in self.screen:
            assert self._read(until - time.monotonic()), f"{text!r} is not in {self.screen!r}"
        self.screen = self.screen.partition(text)[2]

    def end(self) -> int:
        until = time.monotonic() + 15
        while self._read(until - time.monotonic()):
            continue
        return self.process.wait(15)

    def _read(self, wait_s: float) -> bool:
        try:
            if wait_s > 0 and select.select([self._main], [], [], wait_s)[0]:
                chunk = os.read(self._main, 65536).decode(errors="replace")
                # As a terminal would, tell where the cursor is when the program asks.
                if "\x1b[6n" in chunk:
                    self.type("\x1b[1;1R")
                self.screen += chunk
                return bool(chunk)
        except OSError:  # the program has ended
            pass
        return False


@posix_only
def test_at_a_terminal_it_greets_replies_and_ends_with_ctrl_d(root, serve) -> None:
    serve("One.")
    with Terminal() as terminal:
        terminal.see("Ahoy, ")
        terminal.see(READY)
        terminal.type("hello\r")
        terminal.see("One.")
        terminal.see(READY)
        terminal.type("\x04")
        assert terminal.end() == 0
    assert [content for _, content, _ in said(root)][1:] == ["hello", "One."]


@posix_only
def test_ctrl_c_breaks_a_reply_off_keeps_what_came_and_goes_on(root, serve) -> None:
    serve(Stall("Once upon a time"), "Two.")
    with Terminal() as terminal:
        terminal.see(READY)
        terminal.type("hello\r")
        terminal.see("Once upon a")
        os.killpg(terminal.process.pid, signal.SIGINT)
        terminal.see("Interrupted; the partial reply is saved as turn 3.")
        terminal.see(READY)
        terminal.type("again\r")
        terminal.see("Two.")
        terminal.see(READY)
        terminal.type("\x04")
        assert terminal.end() == 0
    (kept,) = [text for _, text, partial in said(root) if partial]
    assert kept in {"Once upon a ", "Once upon a time"}  # whether the last word had come yet


@posix_only
def test_a_failure_at_a_terminal_is_told_and_the_conversation_goes_on(root, serve) -> None:
    serve(bad_key(), "Two.")
    with Terminal() as terminal:
        terminal.see(READY)
        terminal.type("hello\r")
        terminal.see("error: ")
        terminal.see(READY)
        terminal.type("again\r")
        terminal.see("Two.")
        terminal.see(READY)
        terminal.type("/quit\r")
        assert terminal.end() == 0


@posix_only
def test_ctrl_c_drops_a_line_and_the_arrow_brings_the_last_one_back(root, serve) -> None:
    server = serve("One.")
    with Terminal() as terminal:
        terminal.see(READY)
        terminal.type("hello\r")
        terminal.see("One.")
        terminal.see(READY)
        terminal.type("never\x03")
        terminal.see(READY)
        terminal.type("\x1b[A\r")
        terminal.see("One.")
        terminal.see(READY)
        terminal.type("\x04")
        assert terminal.end() == 0
    asked = [request.json()["messages"][-1]["content"] for request in server.requests]
    assert asked == ["hello", "hello"]
