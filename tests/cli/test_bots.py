"""What bots do: many messages at once, some that want no reply, and replies asked for again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history.rows import in_pairs
from tests.support.cases import IS_NIGHT
from tests.support.processes import Process
from tests.support.server import CutOff, Fail, Say, Stall
from tests.support.world import data, live, run, spawn, without_block


@pytest.fixture
def root():
    return live("ada")


def heard(*argv, code=0):
    return data("hear", *argv, "--channel", "c", code=code)


def shown(channel="c"):
    return data("history", "show", "--channel", channel, "--last", "200")["turns"]


def said(channel="c"):
    return [turn["content"] for turn in shown(channel)]


def start(*argv):
    """Begin a command in a process of its own."""
    command = [sys.executable, "-m", "familiar_cli", *argv]
    return Process(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def until(is_so, limit_s=20.0):
    end = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_message_that_wants_no_reply_is_kept(root) -> None:
    found = heard("I will be late.", "--as", "discord:7", "--name", "Bo")
    assert (found["channel"], found["is_new"]) == ("c", True)
    (turn,) = shown()
    assert (turn["turn"], turn["content"], turn["source"]) == (
        found["turn"],
        "I will be late.",
        "hear",
    )
    assert turn["author"]["user_id"] == "7"


def test_standard_input_and_a_time_are_taken(root) -> None:
    run("hear", "-", "--channel", "c", "--at", "2026-01-31T12:00:00Z", stdin="-- Hi\n")
    (turn,) = shown()
    assert (turn["content"], turn["at"]) == ("-- Hi", "2026-01-31T12:00:00.000Z")


def test_the_same_id_again_gives_the_same_turn_and_adds_nothing(root) -> None:
    first = heard("Hi", "--id", "m1")
    again = heard("Hi", "--id", "m1")
    assert (again["turn"], again["is_new"], said()) == (first["turn"], False, ["Hi"])
    assert heard("Hi", "--id", "m2")["is_new"]


def test_other_words_under_a_known_id_are_told(root) -> None:
    first = heard("Hi", "--id", "m1")
    result = run("hear", "Ho", "--id", "m1", "--channel", "c", "--json")
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["status"]) == (7, "partial")
    assert (answer["data"]["turn"], said()) == (first["turn"], ["Hi"])


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["", "--channel", "c"], 2),
        (["Hi", "--channel", ""], 2),
        (["Hi", "--at", "never"], 2),
        (["Hi", "--as", "nobody"], 2),
        (["Hi", "--familiar", "eve"], 4),
    ],
)
def test_what_cannot_be_heard_has_its_exit_code(root, argv, code) -> None:
    result = run("hear", *argv)
    assert (result.exit_code, "Traceback" in result.output) == (code, False)
    assert not (root / "history.db").exists()


def test_an_empty_message_is_not_saved_and_says_so(root) -> None:
    told = run("hear", " ", "--channel", "c").stderr
    assert "nothing was saved" in told
    assert "familiar hear" in told


def test_a_message_is_heard_while_a_reply_is_made_and_while_somebody_writes(root, serve) -> None:
    server = serve(Stall("", 3.0))
    with start("ask", "Hello?", "--channel", "c") as asking:
        until(lambda: server.requests)
        begun = time.monotonic()
        assert spawn("hear", "Meanwhile.", "--channel", "c").returncode == 0
        assert time.monotonic() - begun < 3.0
        assert said() == ["Hello?", "Meanwhile."]
        asking.kill()


def test_what_came_late_stands_at_its_time_and_pairs_stay_together(root, serve) -> None:
    server = serve("I am here.", "Yes.")
    run("ask", "Hello?", "--channel", "c")
    question, _ = shown()
    heard("Me too!", "--at", question["at"])
    heard("Long before.", "--at", "2020-01-01")
    assert said() == ["Long before.", "Hello?", "Me too!", "I am here."]

    run("ask", "And now?", "--channel", "c", "--no-background")
    contents = [m["content"] for m in without_block(server.last.json()["messages"])]
    assert contents[-5:] == ["Long before.", "Hello?", "I am here.", "Me too!", "And now?"]


def test_questions_at_once_are_as_many_pairs(root, serve) -> None:
    count = 8 if IS_NIGHT else 3
    serve(Say("Fair winds.", pause_s=0.02))
    with ThreadPoolExecutor(count) as pool:
        asks = [("ask", f"Q{n}", "--channel", "c", "--json") for n in range(count)]
        asked = [pool.submit(spawn, *ask) for ask in asks]
    answers = [json.loads(done.result().stdout) for done in asked]
    assert [answer["status"] for answer in answers] == ["ok"] * count
    turns = shown()
    pairs = list(zip(turns[::2], turns[1::2], strict=True))
    assert len(pairs) == count
    assert all(reply["reply_to"] == question["turn"] for question, reply in pairs)
    assert {question["content"] for question, _ in pairs} == {f"Q{n}" for n in range(count)}


def test_a_second_question_waits_and_other_channels_do_not(root, serve) -> None:
    hold = threading.Event()
    server = serve(Say("One. Two. Three. Four.", hold=hold), "At once.")
    with start("ask", "First", "--channel", "c") as first:
        until(lambda: server.requests)
        elsewhere = run("ask", "Hi", "--channel", "d")
        assert (elsewhere.exit_code, first.poll()) == (0, None)
        with start("ask", "Second", "--channel", "c") as second:
            told = second.stderr.readline()
            hold.set()
            second.communicate()
        first.communicate()
    assert b"which is replying in channel 'c'" in told
    assert (first.returncode, second.returncode) == (0, 0)
    assert said() == ["First", "One. Two. Three. Four.", "Second", "At once."]


def test_whoever_waits_too_long_is_told_and_nothing_is_kept(root, serve) -> None:
    run("config", "set", "context.channel_wait_s", "0.3")
    server = serve(Stall("", 20.0))
    with start("ask", "First", "--channel", "c") as first:
        until(lambda: server.requests)
        busy = run("ask", "Second", "--channel", "c", "--json")
        answer = json.loads(busy.stdout)
        assert (busy.exit_code, answer["errors"][0]["code"]) == (5, "channel_busy")
        assert said() == ["First"]
        first.kill()


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_killed_process_frees_its_channel(root, serve) -> None:
    server = serve(Stall("", 20.0), "Free.")
    with start("ask", "First", "--channel", "c") as first:
        until(lambda: server.requests)
        first.send_signal(signal.SIGKILL)
    assert run("ask", "Second", "--channel", "c").stdout == "Free.\n"


@pytest.mark.parametrize("failure", [Fail(400), CutOff("Once upon")])
def test_a_reply_can_be_asked_for_again(root, serve, failure) -> None:
    server = serve(failure, "At last.")
    asked = data("ask", "Hello?", "--channel", "c", code=6)
    heard("Come on!")
    again = data("ask", "--reply-to", str(asked["turn"]))
    assert (again["turn"], again["reply"]) == (asked["turn"], "At last.")
    assert again["reply_turn"] == shown()[-1]["turn"]
    assert shown()[-1]["reply_to"] == asked["turn"]
    assert said().count("Hello?") == 1
    contents = [m["content"] for m in server.last.json()["messages"]]
    assert contents.count("Hello?") == 1
    assert contents[-1] == "Hello?"


def test_in_a_prompt_the_last_reply_stands_for_those_that_broke_off(root, serve) -> None:
    server = serve(CutOff("Once upon"), "At last.", "Yes.")
    asked = data("ask", "Hello?", "--channel", "c", code=6)
    data("ask", "--reply-to", str(asked["turn"]))
    run("ask", "Well?", "--channel", "c")
    contents = [m["content"] for m in without_block(server.last.json()["messages"])]
    assert contents[-3:] == ["Hello?", "At last.", "Well?"]


def test_a_turn_that_has_a_reply_is_not_answered_again(root, serve) -> None:
    server = serve("Fair winds.")
    asked = data("ask", "Hello?", "--channel", "c", "--id", "m1")
    for argv in (["--reply-to", str(asked["turn"])], ["Hello?", "--id", "m1", "--channel", "c"]):
        result = run("ask", *argv, "--json")
        answer = json.loads(result.stdout)
        assert (result.exit_code, answer["errors"][0]["code"]) == (5, "answered")
        assert (answer["data"]["reply"], answer["data"]["reply_turn"]) == (
            "Fair winds.",
            asked["reply_turn"],
        )
    assert len(server.requests) == 1


def test_a_message_that_was_heard_can_be_answered_by_its_id(root, serve) -> None:
    serve("Fair winds.")
    kept = heard("Hello?", "--id", "m1", "--as", "discord:7")
    asked = data("ask", "Hello?", "--id", "m1", "--channel", "c")
    assert (asked["turn"], len(shown())) == (kept["turn"], 2)


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["--reply-to", "99"], 4),
        (["--reply-to", "2"], 5),
        (["Hi", "--reply-to", "1"], 2),
        (["--reply-to", "1", "--off-record"], 2),
        (["Other", "--id", "m1", "--channel", "c"], 5),
        ([], 2),
    ],
)
def test_what_cannot_be_answered_has_its_exit_code(root, serve, argv, code) -> None:
    serve("Fair winds.")
    run("ask", "Hello?", "--channel", "c", "--id", "m1")
    before = shown()
    result = run("ask", *argv)
    assert (result.exit_code, "Traceback" in result.output) == (code, False)
    assert shown() == before


def greeted(root):
    (root / "memory" / "self").mkdir(exist_ok=True)
    (root / "memory" / "self" / "first_mes.md").write_text("# First message\n\nAhoy.\n", "utf-8")


@pytest.mark.parametrize(
    ("setting", "argv", "opens"),
    [
        ([], [], True),
        ([], ["--no-greeting"], False),
        (["config", "set", "context.greeting", "off"], [], False),
        (["config", "set", "context.greeting", "off"], ["--greeting", "1"], True),
        (["channel", "set", "c", "greeting", "off"], [], False),
    ],
)
def test_a_greeting_can_be_left_out(root, serve, setting, argv, opens) -> None:
    greeted(root)
    serve("Fair winds.")
    if setting:
        assert run(*setting).exit_code == 0
    assert run("ask", "Hi", "--channel", "c", *argv).exit_code == 0
    assert ("Ahoy." in said()) == opens


def test_a_greeting_cannot_be_asked_for_and_left_out(root, serve) -> None:
    serve("Fair winds.")
    assert run("ask", "Hi", "--greeting", "1", "--no-greeting").exit_code == 2


def test_without_background_a_command_ends_with_the_reply(root, serve) -> None:
    run("config", "set", "memory_writer.auto", "on")
    run("config", "set", "memory_writer.turn_threshold", "1")
    server = serve("Fair winds.")
    run("ask", "Hi", "--channel", "c", "--no-background")
    assert len(server.requests) == 1
    run("ask", "Hi", "--channel", "c")
    assert len(server.requests) > 2


def test_a_daemon_makes_the_summary_that_was_left(root, serve) -> None:
    run("config", "set", "memory_writer.auto", "off")
    run("config", "set", "history.recent_turns", "2")
    run("config", "set", "history.summary_every", "2")
    serve("A summary.")
    for number in range(6):
        run("ask", f"Q{number}", "--no-background")
    assert data("status")["summary"]["last_turn"] in {0, None}
    run("daemon", "--once")
    assert data("status")["summary"]["last_turn"] > 2


MESSAGES = st.lists(
    st.tuples(st.sampled_from(["ask", "hear", "reply"]), st.integers(0, 9)), max_size=14
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(MESSAGES)
def test_however_messages_interleave_prompts_show_pairs(tmp_path, messages) -> None:
    from datetime import UTC, datetime, timedelta

    (tmp_path / "h.db").unlink(missing_ok=True)
    store = HistoryStore(tmp_path / "h.db")
    begun, open_questions = datetime(2026, 1, 1, tzinfo=UTC), []
    for number, (kind, second) in enumerate(messages):
        at = begun + timedelta(seconds=number)
        if kind == "reply" and open_questions:
            question = open_questions.pop(second % len(open_questions))
            store.append("c", "assistant", f"R{question}", at=at, reply_to=question)
        elif kind == "hear":
            late = at - timedelta(seconds=second)
            store.append("c", "user", f"H{number}", at=late, source="hear")
        else:
            open_questions.append(store.append("c", "user", f"Q{number}", at=at).id)
    turns = store.recent("c", 99, viewer=OWNER)
    arranged = in_pairs(turns)
    store.close()

    assert sorted(turn.id for turn in arranged) == [turn.id for turn in turns]
    for before, turn in zip([None, *arranged], arranged, strict=False):
        assert turn.reply_to is None or turn.reply_to == before.id
    others = [turn for turn in arranged if turn.reply_to is None]
    assert [turn.at for turn in others] == sorted(turn.at for turn in others)
