"""`familiar serve` as a process: the ready line, signals, settings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.world import data, home, live, run

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def process(*argv: str):
    """Start the server, and yield it with what its ready line says."""
    started = subprocess.Popen(
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


def test_the_log_follows_turns_as_they_come(serve) -> None:
    live("ada")
    serve("Hello.")
    argv = [sys.executable, "-m", "familiar_cli", "serve", "log", "--json"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with process() as (_, ready):
        log = subprocess.Popen(argv, stdout=subprocess.PIPE, env=env, encoding="utf-8")
        try:
            url = f"{ready['data']['url']}/v1/chat/completions"
            for text in ("One", "Two"):
                body = {"model": "ada", "messages": [{"role": "user", "content": text}]}
                httpx.post(url, json=body, timeout=30)
            lines = [json.loads(log.stdout.readline()) for _ in range(4)]
        finally:
            log.kill()
            log.communicate(timeout=20)
    assert [line["text"] for line in lines] == ["One", "Hello.", "Two", "Hello."]


def test_the_log_is_exact_in_json(serve) -> None:
    live("ada")
    assert data("serve", "log", "--no-follow") == {"turns": []}


def test_settings_of_the_home_hold(serve) -> None:
    live("ada")
    (home() / "serve.toml").write_text('origins = ["http://page.example"]\n', encoding="utf-8")
    with process() as (_, ready):
        url = ready["data"]["url"]
        headers = {"Origin": "http://page.example"}
        reply = httpx.options(f"{url}/v1/models", headers=headers)
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
    with process() as (_, ready):
        port = ready["data"]["url"].rpartition(":")[2]
        result = run("serve", "--port", port)
    assert result.exit_code == 3
    assert "--port 0" in result.stderr
