"""What `ask` prints and keeps of replies that broke off, and of replies with reasoning."""

from __future__ import annotations

import json

from tests.llm.test_situations import GOOD, STOP, pieces
from tests.servers.chat_api.test_api import turns
from tests.support.cases import each
from tests.support.server import Drop, Script, chunk, sse
from tests.support.world import home, live, run

CUDA = sse({"object": "error", "message": "CUDA out of memory"})


@each(
    ("steps", "words"),
    [
        ([sse(chunk("Good ", finish_reason=""), chunk("evening.", finish_reason="")), Drop()], ""),
        ([GOOD, CUDA], "CUDA out of memory"),
    ],
)
def test_a_partial_reply_is_kept_as_such(steps, words, serve) -> None:
    live("ada")
    serve(Script(steps))
    result = run("ask", "Hi")
    assert result.exit_code == 6
    assert result.stdout == "Good evening.\n"
    assert words in result.stderr
    shown = json.loads(run("history", "show", "--json").stdout)["data"]["turns"]
    assert [turn["partial"] for turn in shown] == [False, True]


def test_empty_reasons_and_a_pause_end_no_reply(serve) -> None:
    live("ada")
    serve(Script([sse(chunk("Good ", finish_reason="")), 0.3, sse(chunk("evening.")), STOP]))
    assert run("ask", "Hi").stdout == "Good evening.\n"
    assert turns()[-1] == ("assistant", "Good evening.")


@each("text", ["<think>zeppelin</think>Hello", "zeppelin\n</think>\n\nHello"])
def test_reasoning_is_in_no_output_no_turn_and_no_later_request(text, serve) -> None:
    live("ada")
    server = serve(Script([pieces(text)]), "Again.")
    assert run("ask", "Hi").stdout == "Hello\n"
    run("ask", "And now?")
    assert turns()[1] == ("assistant", "Hello")
    assert b"zeppelin" not in server.last.body
    trace = json.loads((home() / "ada" / "traces" / "1.json").read_bytes())
    assert trace["thinking"] == "zeppelin"


@each(("argv", "stdin"), [(("ask", "Hi"), None), (("chat",), "Hi\n")])
def test_reasoning_is_shown_when_asked_for(argv, stdin, serve) -> None:
    live("ada")
    serve(Script([pieces("<think>zeppelin</think>Hello")]))
    result = run(*argv, "--show-thinking", stdin=stdin)
    assert (result.stdout, "Thinking: zeppelin" in result.stderr) == ("Hello\n", True)


def test_thinking_that_used_up_the_limit_is_named_with_the_setting(serve) -> None:
    live("ada")
    serve(Script([sse(chunk("<think>zeppelin"), chunk(finish_reason="length"))]))
    result = run("ask", "Hi")
    assert result.exit_code == 6
    assert "with thinking" in result.stderr
    assert "llm.max_tokens" in result.stderr
