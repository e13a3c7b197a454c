"""`familiar write-memory`, from argv to stdout, stderr and exit code, against a real server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from familiar_cli.actions.memory import write_memory
from familiar_cli.writing.writer import memory_writer
from tests.support.processes import Process
from tests.support.server import ChatServer, Fail, Say, Stall
from tests.support.world import data, own, run
from tests.support.writing import ANNAS, NOTHING, answer, environment, memory, point_at, talked


def test_it_prints_each_file_that_changed_and_tells_the_cost_on_stderr(serve):
    root = talked()
    serve(answer("Keeps bees."))

    done = run("write-memory")

    assert (done.exit_code, done.stdout) == (0, f"create {ANNAS} +9 -0\n")
    assert "2 turns read." in done.stderr
    assert "1 question; about" in done.stderr
    assert f"- Keeps bees. (Anna) <!-- turns {own(root)}:1 -->" in memory(root, ANNAS)


def test_the_contract_of_its_json(serve):
    talked()
    serve(
        '{"operations": [{"op": "add_bullets", "file": "x.sh", "lines": ["a"], "turns": [1]},'
        '{"op": "add_bullets", "file": "people/discord-42.md", "lines": ["Keeps bees."], '
        '"turns": [1, 2]}]}'
    )

    found = data("write-memory")

    assert (found["outcome"], found["turns_covered"], found["remaining"]) == ("wrote", 2, 0)
    assert found["files"] == [{"rel_path": ANNAS, "operation": "create", "added": 9, "removed": 0}]
    assert found["refused"][0]["rail"] == "path"
    assert set(found["refused"][0]) == {"rel_path", "rail", "reason"}
    assert (found["calls"], found["usage"]["prompt_tokens"]) == (1, 11)


def test_nothing_to_remember_and_nothing_said_both_end_with_0(serve):
    talked()
    serve(NOTHING)

    first, second = data("write-memory"), data("write-memory")

    assert (first["outcome"], first["turns_covered"]) == ("nothing", 2)
    assert (second["outcome"], second["turns_covered"], second["calls"]) == ("nothing", 0, 0)


def test_a_failed_model_ends_with_6_and_no_turn_is_lost(serve):
    talked()
    serve(Fail(401, "bad key"))

    found = data("write-memory", code=6)

    assert (found["outcome"], found["remaining"]) == ("failed", 2)


def test_a_useless_reply_ends_with_6_and_the_message_says_where_it_is(serve):
    root = talked()
    serve("no JSON here")

    done = run("write-memory")

    kept = sorted((root / "quarantine").iterdir())
    assert (done.exit_code, done.stdout, len(kept)) == (6, "", 2)
    assert str(kept[-1]) in done.stderr
    assert kept[-1].read_text() == "no JSON here"


def test_a_dry_run_with_a_useless_reply_writes_no_file(serve):
    root = talked()
    serve("no JSON here")

    done = run("write-memory", "--dry-run")

    assert (done.exit_code, (root / "quarantine").exists()) == (6, False)
    assert "kept in" not in done.stderr


def test_some_written_and_then_a_failure_ends_with_7(serve):
    talked(20, settings="[memory_writer]\nbatch_turns = 10\n")
    serve(answer("Keeps bees."), Fail(401, "bad key"))

    done = run("write-memory")

    assert (done.exit_code, done.stdout) == (7, f"create {ANNAS} +9 -0\n")
    assert data("write-memory", code=6)["remaining"] < 20


def test_a_dry_run_prints_the_diff_and_changes_nothing(serve):
    root = talked()
    serve(answer("Keeps bees."))

    done = run("write-memory", "--dry-run")

    assert done.exit_code == 0
    assert done.stdout.startswith(f"--- /dev/null\n+++ b/{ANNAS}\n@@ ")
    assert "+- Keeps bees. (Anna) <!-- turns 1 -->\n" in done.stdout
    assert "Nothing was changed" in done.stderr
    assert not (root / "memory" / ANNAS).exists()
    assert data("write-memory", "--estimate")["turns"] == 2


def test_the_estimate_of_a_long_past_is_made_from_some_of_it(monkeypatch):
    talked(60)
    monkeypatch.setattr(write_memory, "SOME_TURNS", 10)
    read = []
    monkeypatch.setattr(memory_writer, "expect_reply", lambda *_: read.append(1))
    told = data("write-memory", "--estimate", "--newest")
    assert told["turns"] == 60
    assert told["batches"] > len(read)


def test_an_estimate_needs_no_server():
    talked()

    done = run("write-memory", "--estimate")

    assert done.exit_code == 0
    assert done.stdout.startswith("2 turns in 1 question: about ")


def test_a_review_keeps_a_plan_and_says_how_to_see_it(serve):
    talked()
    serve(answer("Keeps bees."))

    found = data("write-memory", "--review")

    assert (found["outcome"], found["remaining"]) == ("review", 0)
    assert data("review", "list")["plans"][0]["id"] == found["pending"]


def test_a_time_that_is_none_and_flags_that_exclude_each_other_are_usage_errors():
    talked()

    assert run("write-memory", "--since", "yesterdayish").exit_code == 2
    assert run("write-memory", "--dry-run", "--review").exit_code == 2


def test_what_was_said_off_the_record_never_reaches_it(serve):
    talked(1)
    started = serve("Fine.", NOTHING)

    run("ask", "my secret", "--off-record", "--as", "discord:42")
    run("write-memory")

    assert len(started.requests) == 2
    assert "my secret" not in started.requests[-1].body.decode()


def test_steps_end_a_pass_early_and_the_rest_waits(serve):
    talked(20, settings="[memory_writer]\nbatch_turns = 10\n")
    serve(NOTHING)

    found = data("write-memory", "--steps", "1")

    assert found["turns_covered"] + found["remaining"] == 20
    assert found["remaining"] > 0


def test_a_schema_goes_out_and_a_server_that_refuses_it_is_asked_without(serve):
    talked()
    started = serve(Fail(400, "response_format is not supported"), NOTHING)

    assert data("write-memory")["outcome"] == "nothing"
    assert ["response_format" in r.json() for r in started.requests] == [True, False]


def test_after_a_reply_memory_is_written_when_the_threshold_is_reached(serve):
    root = talked(2, settings="[memory_writer]\nturn_threshold = 4\n[history]\nsummary_every = 0\n")
    serve("Hello.", answer("Keeps bees."))

    done = run("ask", "hi", "--as", "discord:42")

    assert (done.exit_code, done.stdout.strip()) == (0, "Hello.")
    assert "Writing memory from 2 turns" in done.stderr
    assert "Keeps bees." in memory(root, ANNAS)


def test_after_a_reply_nothing_is_written_before_the_threshold(serve):
    talked(1, settings="[memory_writer]\nturn_threshold = 4\nidle_timeout = 1e9\n")
    started = serve("Hello.")

    run("ask", "hi", "--as", "discord:42")

    assert len(started.requests) == 1


def test_a_silence_before_a_message_ends_a_session_that_is_written_then(serve):
    root = talked(2)
    serve("Hello.", answer("Keeps bees."))

    run("ask", "hi", "--as", "discord:42")

    assert "Keeps bees." in memory(root, ANNAS)


def test_switched_off_nothing_is_written_by_itself(serve):
    talked(2, settings='[memory_writer]\nauto = "off"\nturn_threshold = 1\n')
    started = serve("Hello.")

    run("ask", "hi", "--as", "discord:42")

    assert len(started.requests) == 1


def test_a_pass_that_fails_after_a_reply_is_told_of_and_rests(serve):
    talked(2, settings="[memory_writer]\nturn_threshold = 2\n")
    started = serve("Hello.", Fail(401, "bad key"), "Hello again.")

    first = run("ask", "hi", "--as", "discord:42")
    second = run("ask", "hi", "--as", "discord:42")

    assert (first.exit_code, second.exit_code, len(started.requests)) == (0, 0, 3)
    told = [line for line in first.stderr.splitlines() if "Memory is unchanged" in line]
    assert len(told) == 1
    assert told[0].endswith("Details: `familiar status`.")
    assert "bad key" in run("status").stdout


def test_a_long_reason_of_a_failed_pass_is_told_in_one_short_line(serve):
    talked(2, settings="[memory_writer]\nturn_threshold = 2\n")
    serve("Hello.", "no JSON here\n" * 9)

    done = run("ask", "hi", "--as", "discord:42")

    (told,) = (line for line in done.stderr.splitlines() if "Memory is unchanged" in line)
    assert len(told) < 220
    assert "quarantine" in run("status", "--json").stdout


def test_a_silent_server_does_not_hold_a_reply_up_for_ever(serve):
    talked(2, settings="[memory_writer]\nturn_threshold = 2\n[context]\njobs_limit_s = 0.3\n")
    serve(Say("Hello."), Stall(seconds=5))

    done = run("ask", "hi", "--as", "discord:42")

    assert done.exit_code == 0
    assert "Writing memory took more than 0.3 s" in done.stderr


def test_blame_shows_the_words_behind_a_belief(serve):
    talked()
    serve(answer("Keeps bees.", turns=[1, 2]))
    run("write-memory")

    done = run("memory", "blame", ANNAS, "--words")

    assert "    [1] Anna: Remark 0 on my bees.\n    [2] Anna: Remark 1 on my bees.\n" in done.stdout
    lines = data("memory", "blame", ANNAS)["lines"]
    assert [line["turns"] for line in lines if "Keeps bees" in line["text"]] == [[1, 2]]


def test_the_journal_names_the_pass_that_changed_memory(serve):
    root = talked()
    serve(answer("Keeps bees."))
    made = data("write-memory")
    (commit,) = data("memory", "log", "people", "--source", "memory_writer")["commits"]
    assert commit["run"] == made["run"]
    assert (root / "runs" / f"{made['run']}.jsonl").is_file()


def test_the_journal_names_the_pass_whose_plan_was_taken(serve):
    talked()
    serve(answer("Keeps bees."))
    planned = data("write-memory", "--review")
    data("review", "apply", planned["pending"])
    runs = [c["run"] for c in data("memory", "log", "--source", "memory_writer")["commits"]]
    assert runs == [planned["run"]] * 2


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_ctrl_c_ends_a_pass_between_two_steps_and_says_what_was_written(monkeypatch):
    root = talked(20, settings="[memory_writer]\nbatch_turns = 10\n")
    with ChatServer([answer("Keeps bees."), Stall(seconds=30)]) as server:
        point_at(server, monkeypatch)
        argv = [sys.executable, "-m", "familiar_cli", "write-memory", "--json"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with Process(argv, env=environment(), **pipes) as process:
            end = time.monotonic() + 20
            while len(server.requests) < 2 and time.monotonic() < end:
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)

    found = json.loads(out)
    assert (process.returncode, found["status"], "Traceback" in err) == (130, "partial", False)
    assert (found["data"]["interrupted"], found["data"]["turns_covered"] > 0) == (True, True)
    assert "Keeps bees." in memory(root, ANNAS)
    assert data("status")["failures"] == []


def brought_in(root, count=3, channel="old"):
    """Import a chat of `count` lines into a channel."""
    path = root.parent.parent / "chat.jsonl"
    lines = [
        {
            "role": "user",
            "name": "Anna",
            "content": f"Old words {n}.",
            "at": f"2020-01-01T10:0{n}:00Z",
        }
        for n in range(count)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert run("import-chat", str(path), "--channel", channel, "--me", "Anna").exit_code == 0


def test_only_the_channels_that_are_named_are_written(serve):
    root = talked()
    brought_in(root)
    server = serve(NOTHING)

    found = data("write-memory", "--channel", "old", "--channel", "old")

    assert (found["turns_covered"], found["remaining"]) == (3, 0)
    assert "Old words 0." in server.last.body.decode()
    assert "my bees" not in server.last.body.decode()
    assert data("write-memory", "--estimate", "--channel", "cli")["turns"] == 2
    assert data("write-memory", "--dry-run", "--channel", "old")["turns_covered"] == 0
    assert data("write-memory")["turns_covered"] == 2


def test_a_channel_without_turns_is_not_found():
    talked()
    done = run("write-memory", "--channel", "nowhere")
    assert done.exit_code == 4
    assert "There are no turns in channel 'nowhere'" in done.stderr


def test_for_an_imported_backlog_the_estimate_is_shown_first(serve):
    root = talked(1)
    brought_in(root)
    serve(NOTHING)

    done = run("write-memory")

    assert "Estimate: 4 turns in 2 questions: about " in done.stderr
    assert "4 turns read" in done.stderr


def test_an_imported_backlog_waits_until_it_is_asked_for(serve):
    root = talked(2, settings="[memory_writer]\nturn_threshold = 1\n")
    brought_in(root)
    server = serve("Hello.", NOTHING)

    done = run("ask", "Hi there")

    assert "Writing memory from 2 turns" in done.stderr
    assert "Old words" not in server.last.body.decode()
    status = data("status")
    assert (status["unsummarised_turns"], status["imported_turns"]) == (5, 3)
    assert "3 imported turns wait: `familiar write-memory`" in run("status").stdout


def test_a_daemon_leaves_an_imported_backlog_too(serve):
    root = talked(2)
    brought_in(root)
    serve(NOTHING)

    done = run("daemon", "--once")
    found = data("daemon", "--once")

    assert "2 turns read" in done.stderr
    assert "3 imported turns wait for `familiar write-memory`." in done.stderr
    assert (found["remaining"], found["imported"], found["passes"]) == (3, 3, [])
