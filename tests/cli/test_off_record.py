"""What is said off the record leaves no word anywhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history.store import HistoryStore
from tests.support.processes import Process
from tests.support.server import CutOff, Fail, Say, Stall, bad_key
from tests.support.world import data, live, run, without_block

SECRET = "quietly-aubergine"
ANSWER = "softly-persimmon"


@pytest.fixture
def root():
    root = live("ada")
    (root / "memory" / "self").mkdir()
    (root / "memory" / "self" / "first_mes.md").write_text("# First message\n\nAhoy.\n", "utf-8")
    return root


def words_in(root) -> set[str]:
    """Return which of the words stand in any file or file name, whatever it is encoded in.

    The home is searched, and the directory that holds all this test may write to.
    """
    found = set()
    for path in root.parents[1].rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        for word in (SECRET, ANSWER):
            forms = (word.encode(), word.encode("utf-16-le"))
            if word in str(path) or any(form in content for form in forms):
                found.add(word)
    return found


def said(root) -> list[str]:
    store = HistoryStore(root / "history.db")
    words = [turn.content for turn in store.recent("cli", 100, viewer=OWNER)]
    store.close()
    return words


def contents(request) -> list[str]:
    return [message["content"] for message in without_block(request.json()["messages"])]


def test_the_search_would_find_the_words(root, serve) -> None:
    serve(ANSWER)
    run("ask", SECRET)
    assert words_in(root) == {SECRET, ANSWER}


@pytest.mark.parametrize("begun", [False, True])
def test_the_reply_is_printed_and_no_word_of_it_is_written(root, serve, begun) -> None:
    server = serve(ANSWER)
    if begun:
        server = serve("One.", ANSWER)
        run("ask", "first")

    result = run("ask", SECRET, "--off-record")

    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{ANSWER}\n", "")
    assert contents(server.last)[-1] == SECRET
    assert words_in(root) == set()
    assert (root / "traces").exists() == begun


def test_only_off_the_record_the_prompt_says_so(root, serve) -> None:
    server = serve(ANSWER, "Two.")
    run("ask", SECRET, "--off-record")
    run("ask", "second")
    del root
    said_so = ["Mode: off the record" in request.body.decode() for request in server.requests]
    assert said_so == [True, False]


def test_neither_index_nor_search_nor_writer_nor_digest_learns_of_it(root, serve) -> None:
    (root / "memory" / "notes.md").write_text("# Notes\n\nThe sea.\n", "utf-8")
    (root / "memory" / "sessions").mkdir()
    (root / "memory" / "sessions" / "2024-04-08-evening.md").write_text("# 8\n\n- Tea.\n", "utf-8")
    run("index", "build")
    server = serve("One.", ANSWER, "Hm.")
    run("ask", "first")
    run("ask", SECRET, "--off-record")
    asked = len(server.requests)
    told = [
        run(*argv)
        for argv in (
            ("index", "build"),
            ("write-memory",),
            ("consolidate",),
            ("distill", "short"),
            ("distill", "mid"),
            ("distill", "long"),
            ("housekeep",),
            ("history", "show"),
            ("history", "stats"),
            ("context", "--last", "--messages"),
            ("status",),
        )
    ]

    made = (root / "memory" / "digest" / "short.md").read_text("utf-8")
    assert "- Tea." in made
    assert len(server.requests) > asked  # the writer and the digest asked a model
    later = [request.body.decode() for request in server.requests[asked:]]
    for text in (*later, *(result.output for result in told)):
        assert SECRET not in text
        assert ANSWER not in text
    assert data("history", "search", ANSWER)["hits"] == []
    assert data("search", ANSWER)["hits"] == []
    assert words_in(root) == set()


def test_neither_who_spoke_nor_where_is_written_down(root, serve) -> None:
    serve(ANSWER)
    whom = ("--as", f"discord:{SECRET}", "--name", SECRET, "--channel", SECRET)
    assert run("ask", "Hello", "--off-record", *whom).exit_code == 0
    run("chat", "--off-record", *whom, stdin="Hello\n")
    assert words_in(root) == set()


def test_the_prompt_sees_the_history_and_later_prompts_see_nothing_of_it(root, serve) -> None:
    server = serve("One.", ANSWER, "Three.")
    run("ask", "first")
    run("ask", SECRET, "--off-record")
    run("ask", "third")

    assert contents(server.requests[1])[-3:] == ["first", "One.", SECRET]
    assert contents(server.requests[2])[-3:] == ["first", "One.", "third"]
    assert said(root) == ["Ahoy.", "first", "One.", "third", "Three."]


def test_as_data_it_has_no_number(root, serve) -> None:
    serve(ANSWER)
    found = data("ask", SECRET, "--off-record")
    assert (found["turn"], found["reply_turn"], found["reply"]) == (None, None, ANSWER)
    assert found["usage"]["prompt_tokens"] == 11


def test_a_failure_keeps_nothing_and_says_so(root, serve) -> None:
    serve(CutOff(ANSWER))
    result = run("ask", SECRET, "--off-record")
    assert result.exit_code == 6
    assert "nothing was saved" in result.stderr
    assert words_in(root) == set()
    assert data("ask", SECRET, "--off-record", code=6)["turn"] is None


def test_what_failed_before_it_was_sent_says_only_why(root, serve) -> None:
    serve(ANSWER)
    result = run("ask", "word " * 20_000, "--off-record")
    assert result.exit_code == 5
    assert not (root / "history.db").exists()


@pytest.mark.parametrize("step", [CutOff(ANSWER), Say(""), Fail(400), bad_key()])
@pytest.mark.parametrize("command", ["ask", "chat"])
def test_however_the_model_fails_nothing_is_left(root, serve, command, step) -> None:
    serve("One.", step)
    run("ask", "first")
    before = files_of(root)
    result = off_record(command)
    assert result.exit_code == 6
    assert SECRET not in result.output
    assert files_of(root) == before
    assert words_in(root) == set()


@pytest.mark.parametrize("command", ["ask", "chat"])
def test_where_no_server_answers_nothing_is_left(root, monkeypatch, command) -> None:
    monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", "http://127.0.0.1:9")
    run("ask", "Hello", "--dry-run")  # makes the index
    before = files_of(root)
    assert off_record(command).exit_code == 6
    assert files_of(root) == before


def off_record(command):
    if command == "ask":
        return run("ask", SECRET, "--off-record")
    return run("chat", "--off-record", stdin=f"{SECRET}\n")


def files_of(root) -> dict[str, bytes]:
    """Return every file but what SQLite keeps beside a database.

    The index of the memory notes how files look; that no word gets into it, `words_in` tells.
    """
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
        and path.suffix not in {".db-shm", ".db-wal", ".lock"}
        and path.parent.name != ".index"
    }


@pytest.mark.skipif(os.name == "nt", reason="a console's Ctrl-C needs a console of its own there")
@pytest.mark.parametrize("command", ["ask", "chat"])
def test_ctrl_c_keeps_nothing(root, serve, command) -> None:
    serve(Stall(f"{ANSWER} and "))
    words, stdin = ([SECRET], "") if command == "ask" else ([], f"{SECRET}\n")
    argv = [sys.executable, "-m", "familiar_cli", command, *words, "--off-record"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process = Process(argv, **pipes, text=True)
    process.stdin.write(stdin)
    process.stdin.flush()
    assert process.stdout.read(5) == ANSWER[:5]
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)

    assert process.returncode == 130
    assert "othing was saved" in stderr
    assert SECRET not in stderr
    assert words_in(root) == set()


def test_a_chat_remembers_an_off_record_stretch_until_it_ends(root, serve) -> None:
    server = serve("One.", ANSWER, "Hm.", "Four.")
    result = run("chat", stdin=f"first\n/offrecord\n{SECRET}\nand?\n/offrecord\nfourth\n")

    assert result.stdout == f"One.\n{ANSWER}\nHm.\nFour.\n"
    assert contents(server.requests[2])[-5:] == ["first", "One.", SECRET, ANSWER, "and?"]
    assert contents(server.requests[3])[-3:] == ["first", "One.", "fourth"]
    assert words_in(root) == set()
    assert said(root) == ["Ahoy.", "first", "One.", "fourth", "Four."]
    assert "Off the record" in result.stderr
    assert "Back on the record" in result.stderr


def test_a_chat_may_begin_off_the_record_in_a_channel_without_turns(root, serve) -> None:
    server = serve(ANSWER, "Two.")
    run("chat", "--off-record", stdin=f"{SECRET}\nmore\n")

    assert contents(server.requests[1])[-4:] == ["Ahoy.", SECRET, ANSWER, "more"]
    assert not (root / "history.db").exists()
    assert words_in(root) == set()


def test_a_chat_shows_what_was_sent_off_the_record_while_it_lasts(root, serve) -> None:
    serve(ANSWER, "Two.")
    result = run("chat", stdin=f"/offrecord\n{SECRET}\n/context\n/offrecord\nsecond\n/context\n")

    assert "what      off the record, text, in cli" in result.stdout
    assert result.stdout.count(SECRET) == 1  # not after the stretch has ended
    assert words_in(root) == set()


def test_a_dry_run_off_the_record_is_a_dry_run(root, serve) -> None:
    server = serve(ANSWER)
    assert json.loads(run("ask", SECRET, "--off-record", "--dry-run", "--json").stdout)
    assert server.requests == []
    assert words_in(root) == set()


def test_processors_and_summaries_keep_no_word_of_it_either(root, serve) -> None:
    server = serve("One.", "Two.", f"thought {SECRET}", ANSWER, f"polished {ANSWER}")
    for text in ("first", "second"):
        run("ask", text)
    slots = "".join(
        f'[llm.slots.{name}]\nmodel = "m-2"\n' for name in ("stepped_thinking", "recast")
    )
    (root / "character.toml").write_text(f"[history]\nrecent_turns = 1\n{slots}", "utf-8")

    result = run("ask", SECRET, "--off-record")

    assert result.stdout == f"polished {ANSWER}\n"
    assert len(server.requests) >= 5
    assert words_in(root) == set()
