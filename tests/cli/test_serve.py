"""`familiar serve` as a process: the ready line, signals, settings."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from familiar_cli.cli.commands import serve as command
from tests.support.processes import Process
from tests.support.server import Say
from tests.support.serving import serving, user
from tests.support.world import data, home, live, run

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def process(*argv: str):
    """Start the server, and yield it with what its ready line says."""
    started = Process(
        [sys.executable, "-m", "familiar_cli", "serve", "--port", "0", "--json", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        encoding="utf-8",
    )
    try:
        yield started, json.loads(started.stdout.readline())
    finally:
        started.kill()
        started.communicate(timeout=20)


@pytest.mark.posix
def test_one_line_says_where_it_listens_and_a_signal_ends_it(serve) -> None:
    live("ada")
    serve("Hello.")
    with process() as (started, ready):
        assert (ready["command"], ready["status"]) == ("serve", "ok")
        url = ready["data"]["url"]
        body = {"model": "ada", "messages": [{"role": "user", "content": "Hi"}]}
        reply = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=30)
        assert reply.status_code == 200
        started.send_signal(signal.SIGTERM)
        out, err = started.communicate(timeout=30)
    assert (started.returncode, out) == (0, "")
    assert "Traceback" not in err
    log = run("serve", "log", "--no-follow").stdout.splitlines()
    assert [line.split(": ", 1)[1] for line in log] == ["Hi", "Hello."]
    assert ["(new)" in log[0], "(reply to turn 1)" in log[1]] == [True, True]


REPLY = "The red boat lies in the harbour."


def wait_until(is_so) -> None:
    for _ in range(1_500):
        if is_so():
            return
        threading.Event().wait(0.02)
    raise AssertionError("it did not happen")


def refuses(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=30).status_code != 200
    except httpx.TransportError:
        return True


@pytest.mark.posix
@pytest.mark.parametrize("ending", ["reply", "signal", "time"])
def test_replies_have_time_after_a_signal_until_the_second(serve, monkeypatch, ending) -> None:
    live("ada")
    hold = threading.Event()
    scripted = serve(Say(REPLY, hold=hold))
    monkeypatch.setenv("FAMILIAR_SERVE_DRAIN", "0" if ending == "time" else "600")

    def ask(url: str) -> str:
        body = {"model": "ada", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
        try:
            return httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60).text
        except httpx.TransportError:
            return ""

    with process() as (started, ready), ThreadPoolExecutor(1) as client:
        url = ready["data"]["url"]
        asked = client.submit(ask, url)
        try:
            wait_until(lambda: scripted.requests)
            started.send_signal(signal.SIGTERM)
            wait_until(lambda: refuses(url))
            if ending == "signal":
                assert started.poll() is None
                started.send_signal(signal.SIGTERM)
            if ending == "reply":
                hold.set()
            _, err = started.communicate(timeout=60)
        finally:
            hold.set()
        assert ("harbour" in asked.result()) == (ending == "reply")
    assert (started.returncode, "Traceback" in err) == (0, False)
    turns = run("serve", "log", "--no-follow").stdout
    assert "Hi" in turns
    assert (REPLY in turns) == (ending == "reply")


@pytest.fixture
def listening(monkeypatch):
    """Return what a server would listen with."""

    def ask(*argv: str):
        found = []
        monkeypatch.setattr(command, "_run", lambda _out, _home, given: found.append(given))
        assert run("serve", *argv).exit_code == 0
        return found[0]

    return ask


def test_settings_come_from_the_environment(listening, monkeypatch, tmp_path) -> None:
    live("ada")
    (home() / "serve.toml").write_text(
        'port = 1\ndrain = 1\nhost = "localhost"\nhosts = ["file"]\n', encoding="utf-8"
    )
    (tmp_path / "tokens.txt").write_text("owner a-token-that-nobody-guesses\n", encoding="utf-8")
    assert (listening().port, listening().drain_s, listening().hosts) == (1, 1, ("file",))
    for name, value in {
        "HOST": "127.0.0.2",
        "PORT": "2",
        "TOKEN_FILE": str(tmp_path / "tokens.txt"),
        "HOSTS": "one two",
        "ORIGINS": "http://a http://b",
        "DRAIN": "20",
        "EMBODIMENTS": "1",
        "NO_BACKGROUND": "1",
    }.items():
        monkeypatch.setenv(f"FAMILIAR_SERVE_{name}", value)
    found = listening()
    assert (found.host, found.port, found.drain_s) == ("127.0.0.2", 2, 20)
    assert (found.hosts, found.origins) == (("one", "two"), ("http://a", "http://b"))
    assert found.owner_tokens == {"a-token-that-nobody-guesses"}
    assert (found.embodiments, found.background) == (True, False)
    given = listening("--drain", "0", "--port", "0", "--allow-host", "three")
    assert (given.drain_s, given.port, given.hosts) == (0, 0, ("three",))
    monkeypatch.setenv("FAMILIAR_SERVE_DRAIN", "soon")
    assert run("serve").exit_code == 2


def test_the_log_follows_turns_as_they_come(serve) -> None:
    live("ada")
    serve("Hello.")
    argv = [sys.executable, "-m", "familiar_cli", "serve", "log", "--json"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with serving() as server:
        log = Process(argv, stdout=subprocess.PIPE, env=env, encoding="utf-8")
        try:
            for text in ("One", "Two"):
                server.post(messages=[user(text)])
            lines = [json.loads(log.stdout.readline()) for _ in range(4)]
        finally:
            log.kill()
            log.communicate(timeout=20)
    assert [line["text"] for line in lines] == ["One", "Hello.", "Two", "Hello."]


def test_the_log_of_all_familiars_is_merged_by_time(serve) -> None:
    for name in ("ada", "bo"):
        live(name)
    (home() / "damaged").mkdir()
    (home() / "damaged" / "character.toml").write_text("[[", "utf-8")
    serve("Hello.")
    with serving() as server:
        for name, text in (("ada", "One"), ("bo", "Two"), ("ada", "Three")):
            server.post(model=name, messages=[user(text)]).raise_for_status()
    result = run("serve", "log", "--all", "--no-follow", "--lines", "5")
    turns = [line.split()[1:3] + line.split(": ")[1:] for line in result.stdout.splitlines()]
    assert turns == [
        ["ada", "2", "Hello."],
        ["bo", "1", "Two"],
        ["bo", "2", "Hello."],
        ["ada", "3", "Three"],
        ["ada", "4", "Hello."],
    ]
    newest = data("serve", "log", "--no-follow", "--all", "-n", "1")["turns"]
    assert [turn["familiar"] for turn in newest] == ["ada"]


@pytest.mark.posix
def test_the_server_logs_each_request_and_message_as_json(serve) -> None:
    live("ada")
    serve("Hello.")
    with process("--log", "json", "--quiet") as (started, ready):
        url = ready["data"]["url"]
        body = {"model": "ada", "messages": [{"role": "user", "content": "A secret"}]}
        httpx.post(f"{url}/v1/chat/completions", json=body, timeout=30).raise_for_status()
        httpx.get(f"{url}/nowhere/ada")
        started.send_signal(signal.SIGTERM)
        _, err = started.communicate(timeout=30)
    lines = [json.loads(line) for line in err.splitlines()]
    requests = [
        (line["level"], line["method"], line["route"], line["status"])
        for line in lines
        if "route" in line
    ]
    assert requests == [
        ("info", "POST", "/v1/chat/completions", "200"),
        ("info", "GET", "none", "404"),
    ]
    assert lines[0]["message"].startswith("Serving ada")
    assert all(line["at"].endswith("Z") and line["logger"] for line in lines)
    assert "secret" not in err


def test_the_log_is_exact_in_json(serve) -> None:
    live("ada")
    assert data("serve", "log", "--no-follow") == {"turns": []}


def test_settings_of_the_home_hold(listening) -> None:
    live("ada")
    (home() / "serve.toml").write_text('origins = ["http://page.example"]\n', encoding="utf-8")
    with serving(origins=listening().origins) as server:
        reply = server.client.options("/v1/models", headers={"Origin": "http://page.example"})
    assert reply.headers["access-control-allow-origin"] == "http://page.example"


@pytest.mark.parametrize("text", ["prot = 1\n", 'port = "x"\n', "port = 70000\n", "[[\n"])
def test_a_wrong_setting_is_told_before_it_listens(text) -> None:
    live("ada")
    (home() / "serve.toml").write_text(text, encoding="utf-8")
    result = run("serve")
    assert result.exit_code == 3
    assert "serve.toml" in result.stderr


def test_a_port_that_is_taken_is_told() -> None:
    live("ada")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = run("serve", "--port", str(taken.getsockname()[1]))
    assert result.exit_code == 3
    assert "--port 0" in result.stderr
