"""The summary of earlier turns, from the command line: after the reply, and never in its way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import PrivacyRules
from familiar_cli.store.history.store import HistoryStore
from familiar_cli.store.history.summaries import PUBLIC, Summaries
from tests.support.processes import Process
from tests.support.server import ChatServer, Fail, Say, Stall
from tests.support.world import data, home, live, run

ANNA = Author("cli", "anna", display_name="Anna")


@pytest.fixture
def history():
    live("ada", notes="x")
    run("config", "set", "history.recent_turns", "4")
    run("channel", "set", "cli", "--kind", "text")
    path = home() / "ada" / "history.db"
    with closing(HistoryStore(path)) as store:
        for number in range(30):
            store.append("cli", "user", f"turn {number}", author=ANNA)
    return path


def summary(path):
    with closing(HistoryStore(path)) as store:
        return Summaries(store).latest(PUBLIC, PrivacyRules())


def test_older_turns_are_summarised_after_the_reply(history, serve) -> None:
    chat = serve(Say("Hello."), Say("Anna counted turns."))

    result = run("ask", "Hi")

    assert (result.exit_code, result.stdout) == (0, "Hello.\n")
    assert "Summarising 26 earlier turns" in result.stderr
    assert summary(history).text == "Anna counted turns."
    assert "turn 25" in chat.requests[1].json()["messages"][1]["content"]
    assert "turn 26" not in chat.requests[1].json()["messages"][1]["content"]


def test_the_next_prompt_has_the_summary(history, serve) -> None:
    chat = serve(Say("Hello."), Say("Anna counted turns."), Say("Again."))
    run("ask", "Hi")
    run("ask", "And?")

    assert len(chat.requests) == 3
    assert "Anna counted turns." in str(chat.requests[2].json()["messages"])


def test_few_turns_ask_the_model_once(serve) -> None:
    live("ada", notes="x")
    chat = serve(Say("Hello."))
    run("ask", "Hi")

    assert len(chat.requests) == 1


def test_a_failed_summary_harms_no_reply_and_shows_in_status(history, serve) -> None:
    serve(Say("Hello."), Fail(400, "no summaries today"))
    result = run("ask", "Hi")

    assert (result.exit_code, result.stdout) == (0, "Hello.\n")
    assert "warning: The summary of earlier turns is unchanged" in result.stderr
    found = data("status")["summary"]
    assert found["last_turn"] is None
    assert found["behind"] == 26
    assert "no summaries today" in found["failed"]
    assert "failed at" in run("status").stdout


def test_a_blank_summary_shows_in_status(history, serve) -> None:
    serve(Say("Hello."), Say(""))
    result = run("ask", "Hi", "--json")

    assert json.loads(result.stdout)["status"] == "ok"
    assert "was blank" in data("status")["summary"]["failed"]


def test_a_summary_that_is_there_shows_in_status(history, serve) -> None:
    serve(Say("Hello."), Say("Anna counted turns."))
    run("ask", "Hi")

    found = data("status")["summary"]
    assert (found["last_turn"], found["behind"], found["failed"]) == (26, 0, "")


def test_a_summary_that_takes_too_long_is_left_for_later(history, serve) -> None:
    serve(Say("Hello."), Stall())
    run("config", "set", "context.jobs_limit_s", "0.3")
    result = run("ask", "Hi")

    assert (result.exit_code, result.stdout) == (0, "Hello.\n")
    assert "The summary took more than 0.3 s; a later turn continues it." in result.stderr
    assert data("status")["summary"]["behind"] == 26


def test_it_can_be_switched_off(history, serve) -> None:
    chat = serve(Say("Hello."))
    run("config", "set", "history.summary_every", "0")
    run("ask", "Hi")

    assert len(chat.requests) == 1


def test_off_the_record_nothing_is_summarised(history, serve) -> None:
    chat = serve(Say("Hello."))
    run("ask", "Hi", "--off-record")

    assert len(chat.requests) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent in another way there")
def test_ctrl_c_breaks_a_summary_off_and_harms_no_reply(history, serve) -> None:
    chat = serve(Say("Hello."), Stall())
    process = Process(
        [sys.executable, "-m", "familiar_cli", "ask", "Hi"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ,
        text=True,
    )
    until = time.monotonic() + 30
    while len(chat.requests) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)

    assert (process.returncode, out) == (0, "Hello.\n")
    assert "The summary was interrupted; a later turn continues it." in err
    assert "Traceback" not in err


def test_a_conversation_from_a_pipe_is_summarised_between_its_lines(history, serve) -> None:
    chat = serve(Say("Hello."), Say("Anna counted turns."), Say("Again."))
    result = run("chat", stdin="Hi\nAnd?\n")

    assert result.stdout == "Hello.\nAgain.\n"
    assert "Anna counted turns." in str(chat.requests[2].json()["messages"])


def test_a_slot_of_its_own_makes_the_summary(history, serve) -> None:
    with ChatServer([Say("From the slot.")]) as other:
        chat = serve(Say("Hello."))
        run("config", "set", "llm.slots.history_summary.preset", "custom")
        run("config", "set", "llm.slots.history_summary.base_url", other.base_url)
        run("config", "set", "llm.slots.history_summary.model", "small")
        run("ask", "Hi")

        assert (len(chat.requests), len(other.requests)) == (1, 1)
        assert other.requests[0].json()["model"] == "small"
    assert summary(history).text == "From the slot."


def test_private_conversations_leaked(history, serve) -> None:
    run("channel", "set", "cli", "--kind", "group_dm")
    chat = serve(Say("Hello."), Say("Anna's secret."), Say("Here."), Say("There."))
    anna = ("--as", f"{ANNA.platform}:{ANNA.user_id}")
    run("ask", "Hi", *anna)
    run("ask", "Again", "--channel", "cli", *anna)
    run("ask", "Who was here?", "--channel", "hall")

    assert "Anna's secret." in str(chat.requests[2].json()["messages"])
    assert "secret" not in str(chat.requests[3].json()["messages"])
    assert "turn 2" not in str(chat.requests[3].json()["messages"])
