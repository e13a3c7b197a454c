"""The server as a process of its own, as clients start it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.world import live

ROOT = Path(__file__).resolve().parents[3]
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def started(*argv: str, code: str = "", **env: str) -> subprocess.Popen[str]:
    """Start `familiar mcp` with pipes, after `code` has run in it."""
    start = f"{code}\nfrom familiar_cli.cli.app import app\napp(['mcp', *{list(argv)!r}])"
    return subprocess.Popen(
        [sys.executable, "-c", start],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
    )


def asked(method: str, number: int | None = None, **params: Any) -> str:
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(message if number is None else {**message, "id": number}) + "\n"


def called(number: int, name: str, **arguments: Any) -> str:
    return asked("tools/call", number, name=name, arguments=arguments)


BEGIN = asked("initialize", 1, **HELLO) + asked("notifications/initialized")


def said(server: subprocess.Popen[str], words: str) -> tuple[dict[int, Any], str]:
    """Send all of it, close, and return the answers by number, and what went to stderr."""
    out, err = server.communicate(words, timeout=60)
    assert server.returncode == 0, err
    answers = [json.loads(line) for line in out.splitlines()]
    return {answer["id"]: answer for answer in answers}, err


def test_a_client_that_closes_its_end_gets_all_answers_and_ends_the_process():
    live(**{"people/bo": "# Bo\n\n- Bo likes green tea.\n"})
    calls = "".join(called(n, "memory_search", query="green tea") for n in range(2, 12))
    answers, err = said(started(), BEGIN + calls)
    assert sorted(answers) == list(range(1, 12))
    for number in range(2, 12):
        found = answers[number]["result"]["structuredContent"]["results"]
        assert [one["path"] for one in found] == ["people/bo.md"]
    assert "Traceback" not in err


def test_half_a_character_in_a_request_leaves_nobody_waiting():
    live(**{"people/bo": "# Bo\n\n- Bo likes green tea 🍵.\n"})
    halves = called(2, "memory_search", query="green \ud83c tea") + called(
        3, "memory_search", query="tea 🍵"
    )
    answers, _ = said(started(), BEGIN + halves)
    for number in (2, 3):
        found = answers[number]["result"]["structuredContent"]["results"]
        assert [one["path"] for one in found] == ["people/bo.md"]


def test_stray_words_do_not_reach_standard_output():
    live(notes="# Notes\n\n- Green tea.\n")
    noise = """
import os, subprocess, sys
import familiar_cli.store.search.finding as f
class Loud(f.Finder):
    def search(self, *args, **more):
        print("stray print")
        os.write(1, b"stray bytes\\n")
        subprocess.run([sys.executable, "-c", "print('stray child', repr(input('?')) )"])
        return super().search(*args, **more)
f.Finder = Loud
import familiar_cli.servers.mcp.stdio
"""
    answers, err = said(started(code=noise), BEGIN + called(2, "memory_search", query="tea"))
    assert sorted(answers) == [1, 2]
    assert "stray print" in err
    assert "stray bytes" in err
    assert "EOFError" in err  # a child does not take the client's words


def test_lines_that_are_no_messages_are_answered_or_passed_over():
    live()
    junk = "\n\nnonsense\n[]\n" + '{"jsonrpc":"2.0","id":7,"method":"no/such"}\n'
    server = started()
    out, err = server.communicate(BEGIN + junk + asked("ping", 8), timeout=60)
    answers = [json.loads(line) for line in out.splitlines()]
    assert server.returncode == 0, err
    assert {"jsonrpc": "2.0", "id": 8, "result": {}} in answers
    assert any(one.get("id") == 7 and "error" in one for one in answers)


@pytest.mark.posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_while_its_client_is_silent(number):
    live()
    server = started()
    assert server.stdin
    assert server.stdout
    server.stdin.write(BEGIN)
    server.stdin.flush()
    server.stdout.readline()
    server.send_signal(number)
    assert server.wait(20) == 0
    assert server.stderr
    assert server.stderr.read() == ""
    server.stdin.close()
    server.stdout.close()
    server.stderr.close()


@pytest.mark.posix
def test_a_client_that_died_ends_it():
    live()
    server = started()
    assert server.stdin
    assert server.stdout
    server.stdout.close()
    server.stdin.write(BEGIN + called(2, "memory_search", query="tea"))
    server.stdin.close()
    assert server.wait(40) == 0
    assert server.stderr
    assert "Traceback" not in server.stderr.read()
    server.stderr.close()


def test_a_familiar_that_is_not_there_is_said_on_standard_error():
    server = started("--familiar", "nobody")
    out, err = server.communicate("", timeout=60)
    assert (server.returncode, out) == (4, "")
    assert "nobody" in err


def test_a_client_of_an_older_protocol_is_told_of_a_change():
    root = live(notes="# Notes\n")
    server = started()
    assert server.stdin
    assert server.stdout
    server.stdin.write(BEGIN)
    uri = "familiar://ada/memory/notes.md"
    server.stdin.write(asked("resources/subscribe", 2, uri=uri))
    server.stdin.flush()
    assert [json.loads(server.stdout.readline())["id"] for _ in range(2)] == [1, 2]
    (root / "memory" / "notes.md").write_text("# Notes\n\n- Changed.\n")
    told = json.loads(server.stdout.readline())
    assert told["method"] == "notifications/resources/updated"
    assert told["params"]["uri"] == uri
    assert server.communicate("", timeout=40)[0] == ""
    assert server.returncode == 0


def test_processes_that_write_at_once_lose_nothing():
    root = live()
    day = {"granularity": "daily", "date": "2026-01-05", "instanceId": "laptop"}
    servers = [started("--allow-write") for _ in range(3)]
    for number, server in enumerate(servers):
        assert server.stdin
        content = f"- Word{number} was said. [chat:c{number}]"
        server.stdin.write(BEGIN + called(2, "memory_create", **day, content=content))
        server.stdin.write(called(3, "memory_read", **day))
        server.stdin.flush()
    for number, server in enumerate(servers):
        answers, err = said(server, "")
        assert not answers[2]["result"]["isError"], (answers[2], err)
        assert f"Word{number} " in answers[3]["result"]["content"][0]["text"]
    [path] = (root / "memory" / "daily").iterdir()
    text = path.read_text(encoding="utf-8")
    assert [number for number in range(3) if f"Word{number} was said" not in text] == []
