"""The server as a process of its own, as clients start it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.cases import shared_world
from tests.support.processes import Process
from tests.support.world import live

ROOT = Path(__file__).resolve().parents[3]
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


def started(*argv: str, code: str = "", **env: str) -> Process:
    """Start `familiar mcp` with pipes, after `code` has run in it."""
    start = f"{code}\nfrom familiar_cli.cli.app import app\napp(['mcp', *{list(argv)!r}])"
    return (subprocess.Popen if code else Process)(
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
    return {answer.get("id"): answer for answer in answers}, err


def read(server: subprocess.Popen[str]) -> Any:
    assert server.stdout
    return json.loads(server.stdout.readline())


def send(server: subprocess.Popen[str], words: str) -> None:
    assert server.stdin
    server.stdin.write(words)
    server.stdin.flush()


NOISE = """
import os, subprocess, sys
import familiar_cli.store.search.finding as f
class Loud(f.Finder):
    said = False
    def search(self, *args, **more):
        if not Loud.said:
            Loud.said = True
            print("stray print")
            os.write(1, b"stray bytes\\n")
            subprocess.run([sys.executable, "-c", "print('stray child', repr(input('?')) )"])
        return super().search(*args, **more)
f.Finder = Loud
import familiar_cli.servers.mcp.transports
"""
JUNK = """

[]
nonsense
{"jsonrpc":"2.0","id":96}
{"id":95,"error":1}
{"jsonrpc":"2.0","id":97,"method":"no/such"}
"""
NOTES = "familiar://ada/memory/notes.md"


class Session(NamedTuple):
    """What a server said to a client of an older protocol until its end.

    Args:
        told: What came unasked after a change of a file.
        answers: By their number.
        err: What went to standard error.
    """

    told: Any
    answers: dict[int, Any]
    err: str


@pytest.fixture(scope="module")
def session(tmp_path_factory) -> Iterator[Session]:
    """One process for all who look at different words of it: it takes a second to start."""
    with shared_world(tmp_path_factory.mktemp("session")):
        root = live(**{"people/bo": "# Bo\n\n- Bo likes green tea 🍵.\n", "notes": "# Notes\n"})
        server = started(code=NOISE)
        send(server, BEGIN + asked("resources/subscribe", 2, uri=NOTES))
        assert [read(server)["id"] for _ in range(2)] == [1, 2]
        (root / "memory" / "notes.md").write_text("# Notes\n\n- Changed.\n")
        told = read(server)
        halves = called(20, "memory_search", query="green \ud83c tea")
        whole = called(21, "memory_search", query="tea 🍵")
        calls = "".join(called(n, "memory_search", query="green tea") for n in range(3, 12))
        yield Session(told, *said(server, halves + whole + JUNK + asked("ping", 98) + calls))


def found(answer: Any) -> list[str]:
    return [one["path"] for one in answer["result"]["structuredContent"]["results"]]


def test_a_client_that_closes_its_end_gets_all_answers_and_ends_the_process(session):
    for number in range(3, 12):
        assert found(session.answers[number]) == ["people/bo.md"]
    assert session.err.count("Traceback") == 1  # that of the stray child


def test_half_a_character_in_a_request_leaves_nobody_waiting(session):
    for number in (20, 21):
        assert found(session.answers[number]) == ["people/bo.md"]


def test_stray_words_do_not_reach_standard_output(session):
    assert "stray print" in session.err
    assert "stray bytes" in session.err
    assert "EOFError" in session.err  # a child does not take the client's words


def test_lines_that_are_no_messages_are_answered_with_an_error(session):
    assert session.answers[98] == {"jsonrpc": "2.0", "id": 98, "result": {}}
    codes = {asked: session.answers[asked]["error"]["code"] for asked in (None, 96, 97)}
    assert codes == {None: -32700, 96: -32600, 97: -32601}
    assert 95 not in session.answers  # a damaged answer of the client


def test_a_client_of_an_older_protocol_is_told_of_a_change(session):
    assert session.told["method"] == "notifications/resources/updated"
    assert session.told["params"]["uri"] == NOTES


@pytest.mark.posix
def test_processes_that_write_at_once_lose_nothing_and_end_cleanly():
    root = live()
    day = {"granularity": "daily", "date": "2026-01-05", "instanceId": "laptop"}
    died, terminated, interrupted = servers = [started("--allow-write") for _ in range(3)]
    for number, server in enumerate(servers):
        content = f"- Word{number} was said. [chat:c{number}]"
        send(server, BEGIN + called(2, "memory_create", **day, content=content))
        send(server, called(3, "memory_read", **day))
    for number, server in enumerate(servers):
        answers = {answer["id"]: answer for answer in (read(server) for _ in range(3))}
        assert not answers[2]["result"]["isError"], answers[2]
        assert f"Word{number} " in answers[3]["result"]["content"][0]["text"]
    [path] = (root / "memory" / "daily").iterdir()
    text = path.read_text(encoding="utf-8")
    assert [number for number in range(3) if f"Word{number} was said" not in text] == []

    terminated.send_signal(signal.SIGTERM)  # their clients are silent
    interrupted.send_signal(signal.SIGINT)
    died.stdout.close()
    send(died, called(4, "memory_search", query="tea"))
    died.stdin.close()
    assert [server.wait(40) for server in servers] == [0, 0, 0]
    assert "Traceback" not in died.stderr.read()
    assert [terminated.stderr.read(), interrupted.stderr.read()] == ["", ""]
    for stream in (*(s for one in servers for s in (one.stdin, one.stdout, one.stderr)),):
        stream.close()


def test_a_familiar_that_is_not_there_is_said_on_standard_error():
    server = started("--familiar", "nobody")
    out, err = server.communicate("", timeout=60)
    assert (server.returncode, out) == (4, "")
    assert "nobody" in err
