"""`familiar ask`, from argv to stdout, stderr and exit code, against a real server on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from itertools import pairwise

import pytest
from typer.testing import CliRunner

from familiar_cli.base.config.home import FamiliarPaths, find_home
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.cli.app import app
from familiar_cli.context.trace import latest_trace
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.memory.pages.front_matter import field_markdown
from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.processes import Process, run_process
from tests.support.server import CutOff, Fail, Raw, Say, Stall, bad_key, closed_port
from tests.support.world import without_block

PROBE_KEY = "sk-very-secret-0123456789"


@pytest.fixture
def paths() -> FamiliarPaths:
    made = FamiliarPaths(find_home() / "aria")
    store = MemoryStore(made.memory, lock_path=made.lock)
    texts = {"description": "{{char}} tends a lighthouse.", "first_mes": "Ahoy, {{user}}."}
    for name, text in texts.items():
        store.write_file(f"self/{name}.md", field_markdown(name, text))
    card = {"name": "Aria", "alternate_greetings": ["Who goes there?"]}
    store.write_file("self/card.json", json.dumps({"spec": "x", "data": card}))
    return made


def run(*argv, text=None):
    return CliRunner().invoke(app, ["ask", *argv], input=text)


def turns(paths, channel="cli"):
    with closing(HistoryStore(paths.history)) as store:
        return store.recent(channel, 99, viewer=OWNER)


def said(paths, channel="cli"):
    return [(turn.role, turn.content) for turn in turns(paths, channel)]


def test_the_reply_and_nothing_else_goes_to_stdout(paths, serve) -> None:
    serve("Fair winds.")

    result = run("Hello")

    assert (result.exit_code, result.stdout, result.stderr) == (0, "Fair winds.\n", "")


def test_greeting_question_and_reply_are_kept(paths, serve) -> None:
    serve("Fair winds.")
    run("Hello")

    assert said(paths) == [
        ("assistant", "Ahoy, User."),
        ("user", "Hello"),
        ("assistant", "Fair winds."),
    ]


def test_the_record_holds_the_bytes_that_the_server_received(paths, serve) -> None:
    started = serve("Fair winds.", "Again.")
    run("Hello", "--as", "discord:1", "--name", "Zoë 🦊")
    run("And now?\x00\u202e", "--no-stream")

    assert latest_trace(paths.traces).request.body == started.last.body
    assert len(started.requests) == 2


def test_the_greeting_is_the_assistants_first_message(paths, serve) -> None:
    started = serve("Fair winds.")
    run("Hello", "--name", "Zoë")

    messages = without_block(started.last.json()["messages"])
    assert [m["role"] for m in messages] == ["system", "assistant", "user"]
    assert messages[1]["content"] == "Ahoy, Zoë."
    assert "Ahoy" not in messages[0]["content"]


def test_another_greeting_can_open_the_conversation(paths, serve) -> None:
    serve("Fair winds.")
    run("Hello", "--greeting", "2", "--channel", "night")

    assert said(paths, "night")[0] == ("assistant", "Who goes there?")


def test_a_greeting_that_does_not_exist_exits_2_and_keeps_nothing(paths, serve) -> None:
    serve("Fair winds.")

    result = run("Hello", "--greeting", "3")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "No such greeting: 3; the character has 2" in result.stderr
    assert said(paths) == []


def test_a_greeting_comes_too_late_exits_2(paths, serve) -> None:
    serve("Fair winds.")
    run("Hello")

    assert run("Hello", "--greeting", "1").exit_code == 2


def test_who_speaks_can_be_said(paths, serve) -> None:
    serve("Fair winds.")
    run("Hello", "--as", "discord:123", "--name", "Zoë", "--modality", "voice")

    turn = turns(paths)[1]
    assert (turn.author.platform, turn.author.user_id) == ("discord", "123")
    assert (turn.author.display_name, turn.modality) == ("Zoë", "voice")


def test_who_speaks_is_else_a_neutral_account(paths, serve) -> None:
    serve("Fair winds.")
    run("Hello")

    author = turns(paths)[1].author
    assert (author.platform, author.user_id) == ("cli", "user")


def test_two_speakers_are_told_apart(paths, serve) -> None:
    started = serve("Fair winds.")
    (paths.channels / "cli.toml").parent.mkdir(exist_ok=True)
    (paths.channels / "cli.toml").write_text('kind = "text"\n', encoding="utf-8")
    run("I am here", "--as", "discord:1", "--name", "Zoë")
    run("Me too", "--as", "discord:2", "--name", "Bo")

    users = [m["content"] for m in started.last.json()["messages"] if m["role"] == "user"]
    assert users == ["Zoë: I am here", "Bo: Me too"]


def test_earlier_turns_are_sent_again(paths, serve) -> None:
    started = serve("Fair winds.")
    run("One")
    run("Two")

    contents = [m["content"] for m in without_block(started.last.json()["messages"])[1:]]
    assert contents == ["Ahoy, User.", "One", "Fair winds.", "Two"]


def test_channels_do_not_hear_each_other(paths, serve) -> None:
    started = serve("Fair winds.")
    run("A secret", "--channel", "private")
    run("Hello", "--channel", "public")

    assert "A secret" not in started.last.body.decode()


def test_json_holds_turn_reply_model_and_usage(paths, serve) -> None:
    serve("Fair winds.")

    result = run("Hello", "--json")

    data = json.loads(result.stdout)["data"]
    assert (data["turn"], data["reply_turn"], data["reply"]) == (2, 3, "Fair winds.")
    assert (data["model"], data["finish_reason"]) == ("scripted-1", "stop")
    assert data["usage"]["prompt_tokens"] == 11


def test_text_can_come_from_standard_input(paths, serve) -> None:
    serve("Fair winds.")
    run("-", text="From a pipe.\nTwo lines.\n")

    assert said(paths)[1] == ("user", "From a pipe.\nTwo lines.")


@pytest.mark.parametrize("text", ["", "  \n "])
def test_empty_text_exits_2(paths, text) -> None:
    result = run(text)

    assert result.exit_code == 2
    assert "The message is empty" in result.stderr


@pytest.mark.parametrize(
    "argv",
    [("Hi", "--as", "nobody"), ("Hi", "--channel", " "), ("Hi", "--modality", "dance"), ()],
)
def test_a_command_line_that_makes_no_sense_exits_2(paths, argv) -> None:
    assert run(*argv).exit_code == 2


def test_text_that_is_not_utf8_exits_2(paths) -> None:
    result = CliRunner().invoke(app, ["ask", "-"], input=b"\xff\xfe")

    assert (result.exit_code, result.stdout) == (2, "")


def test_a_dry_run_shows_the_prompt_and_calls_and_keeps_nothing(paths, serve) -> None:
    started = serve("Fair winds.")

    result = run("Hello", "--dry-run")

    assert result.exit_code == 0
    assert "Aria tends a lighthouse." in result.stdout
    assert "Ahoy, User." in result.stdout
    assert started.requests == []
    assert not paths.history.exists()
    assert not paths.traces.exists()


def test_a_dry_run_needs_no_key_no_server_and_no_model(paths) -> None:
    paths.config.write_text('[llm]\npreset = "openai"\n', encoding="utf-8")

    result = run("Hello", "--dry-run", "--json")

    data = json.loads(result.stdout)["data"]
    assert (result.exit_code, data["turn"], data["usage"]) == (0, None, None)
    roles = [m["role"] for m in without_block(data["messages"])]
    assert roles == ["system", "assistant", "user"]


def test_a_dry_run_is_what_would_be_sent(paths, serve) -> None:
    started = serve("Fair winds.")
    shown = json.loads(run("Hello", "--dry-run", "--json").stdout)["data"]["messages"]
    run("Hello")

    assert started.last.json()["messages"] == shown


def test_a_failing_model_exits_6_and_the_question_stays(paths, serve) -> None:
    serve(bad_key())

    result = run("Hello")

    assert (result.exit_code, result.stdout) == (6, "")
    assert "your message is saved as turn 2" in result.stderr
    assert said(paths)[-1] == ("user", "Hello")
    assert latest_trace(paths.traces).error


def test_no_server_exits_6_and_the_question_stays(paths, monkeypatch) -> None:
    paths.config.write_text("[llm]\nretries = 0\n", encoding="utf-8")
    monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", f"http://127.0.0.1:{closed_port()}/v1")
    monkeypatch.setenv("FAMILIAR_LLM_MODEL", "m")

    result = run("Hello")

    assert (result.exit_code, result.stdout) == (6, "")
    assert said(paths)[-1] == ("user", "Hello")


def test_a_failure_as_json_names_the_turn_that_is_kept(paths, serve) -> None:
    serve(Fail(400))

    result = run("Hello", "--json")

    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["status"]) == (6, "error")
    assert answer["data"]["turn"] == 2
    assert answer["errors"][0]["code"] == "request_refused"


def test_a_reply_that_breaks_off_is_shown_and_kept(paths, serve) -> None:
    serve(CutOff("Once upon a"))

    result = run("Hello")

    assert (result.exit_code, result.stdout.strip()) == (6, "Once upon a")
    assert turns(paths)[-1].partial


def test_an_empty_reply_exits_6(paths, serve) -> None:
    serve(Say(""))

    result = run("Hello")

    assert (result.exit_code, result.stdout) == (6, "")
    assert said(paths)[-1] == ("user", "Hello")


def test_a_reply_cut_by_the_length_limit_is_kept_and_told(paths, serve) -> None:
    serve(Say("Once upon a", finish_reason="length"))

    result = run("Hello")

    assert (result.exit_code, result.stdout) == (0, "Once upon a\n")
    assert "warning: The reply was cut at" in result.stderr
    assert turns(paths)[-1].partial


def test_a_local_model_that_is_not_on_disk_exits_6_with_the_command_that_fetches_it(paths) -> None:
    result = run("Hello")

    assert (result.exit_code, result.stdout) == (6, "")
    assert "familiar model pull" in result.stderr
    assert said(paths)[-1] == ("user", "Hello")


def test_a_missing_key_exits_3_and_keeps_nothing(paths) -> None:
    paths.config.write_text('[llm]\npreset = "openai"\nmodel = "m"\n', encoding="utf-8")

    result = run("Hello")

    assert (result.exit_code, result.stdout) == (3, "")
    assert "OPENAI_API_KEY" in result.stderr
    assert not paths.history.exists()


def test_no_familiar_exits_4() -> None:
    assert run("Hello").exit_code == 4


def test_a_corrupt_history_exits_5_and_stays(paths, serve) -> None:
    serve("Fair winds.")
    paths.history.write_bytes(b"not a database " * 99)

    result = run("Hello")

    assert (result.exit_code, result.stdout) == (5, "")
    assert paths.history.read_bytes() == b"not a database " * 99


def test_a_message_longer_than_the_prompt_exits_5_and_keeps_nothing(paths, serve) -> None:
    started = serve("Fair winds.")

    result = run("-", text="word " * 20_000)

    assert (result.exit_code, result.stdout) == (5, "")
    assert started.requests == []
    assert said(paths) == []


def test_no_key_is_ever_written_down(paths, serve, monkeypatch) -> None:
    paths.config.write_text('[llm]\napi_key_env = "PROBE_API_KEY"\n', encoding="utf-8")
    monkeypatch.setenv("PROBE_API_KEY", PROBE_KEY)
    started = serve("Fair winds.", Fail(400, message=f"bad key {PROBE_KEY}"))
    results = [run("Hello"), run("Hello")]

    assert PROBE_KEY in started.last.headers["authorization"]
    for path in paths.root.rglob("*"):
        assert not path.is_file() or PROBE_KEY.encode() not in path.read_bytes()
    assert not any(PROBE_KEY in result.output for result in results)


def test_a_reply_steers_no_terminal_and_a_pipe_gets_it_as_it_is(paths, serve) -> None:
    serve("\x1b[2Jred\x1b]0;title\x07")

    assert run("Hello").stdout == "\x1b[2Jred\x1b]0;title\x07\n"


@pytest.mark.skipif(os.name == "nt", reason="there is no pseudo-terminal")
def test_on_a_terminal_a_reply_is_harmless(paths, serve) -> None:
    import pty

    serve("\x1b[2Jred\x1b]0;title\x07 ink")
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-m", "familiar_cli", "ask", "Hello"]
    assert run_process(argv, stdout=theirs).returncode == 0
    os.close(theirs)

    assert os.read(ours, 999) == b"[2Jred]0;title ink\r\n"
    os.close(ours)


def test_the_time_leaves_what_stands_before_it(paths, serve) -> None:
    started = serve("Fair winds.")
    for number in range(4):
        run(f"Message {number}")

    prompts = [request.json()["messages"] for request in started.requests]
    assert all(old[-2]["content"].startswith("--- System ---") for old in prompts)
    assert all(new[: len(old) - 2] == old[:-2] for old, new in pairwise(prompts))


def test_the_beginning_stays_byte_for_byte_from_turn_to_turn(paths, serve) -> None:
    paths.config.write_text('[context]\ndatetime = "off"\n', encoding="utf-8")
    started = serve("Fair winds.")
    for number in range(6):
        run(f"Message {number}")

    prompts = [request.json()["messages"] for request in started.requests]
    assert all(new[: len(old)] == old for old, new in pairwise(prompts))


def test_a_reply_in_pieces_of_nonsense_is_an_error(paths, serve) -> None:
    serve(Raw(b"data: {\n\n"))

    assert run("Hello").exit_code == 6


@pytest.mark.skipif(os.name == "nt", reason="a console's Ctrl-C needs a console of its own there")
def test_ctrl_c_keeps_the_part_that_came_and_exits_130(paths, serve) -> None:
    serve(Stall("Once upon a time "))
    process = Process(
        [sys.executable, "-m", "familiar_cli", "ask", "Hello"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.read(17) == "Once upon a time "
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)

    assert process.returncode == 130
    assert "the partial reply is turn 3" in stderr
    assert (turns(paths)[-1].content, turns(paths)[-1].partial) == ("Once upon a time ", True)
    assert latest_trace(paths.traces).error == "interrupted"


@pytest.mark.skipif(os.name == "nt", reason="a console's Ctrl-C needs a console of its own there")
def test_ctrl_c_before_a_word_came_keeps_the_question(paths, serve) -> None:
    started = serve(Stall())
    process = Process(
        [sys.executable, "-m", "familiar_cli", "ask", "Hello", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not started.requests:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate(timeout=20)

    answer = json.loads(stdout)
    assert (process.returncode, answer["status"]) == (130, "partial")
    assert (answer["data"]["turn"], answer["data"]["reply_turn"]) == (2, None)
    assert said(paths)[-1] == ("user", "Hello")
