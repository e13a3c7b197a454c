"""`familiar web` as a process: the ready line, the link, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.support.processes import Process
from tests.support.world import live, run

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.posix
def test_one_line_holds_the_link_and_a_signal_ends_it_even_while_somebody_listens() -> None:
    live("ada")
    argv = [sys.executable, "-m", "familiar_cli", "web", "--port", "0", "--no-open", "--json"]
    started = Process(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        encoding="utf-8",
    )
    try:
        ready = json.loads(started.stdout.readline())
        assert (ready["command"], ready["status"]) == ("web", "ok")
        url = urlsplit(ready["data"]["url"])
        assert len(parse_qs(url.query)["token"][0]) >= 32
        assert url.hostname == "127.0.0.1"
        base = f"http://{url.netloc}"
        with httpx.Client(base_url=base, trust_env=False, timeout=30) as client:
            assert client.get("/").status_code == 403
            opened = client.get(f"/?{url.query}", follow_redirects=True)
            assert opened.status_code == 200
            assert client.get("/v1/models").status_code == 404
            with client.stream("GET", "/events") as events:
                assert next(events.iter_lines()) == "retry: 3000"
                started.send_signal(signal.SIGTERM)
                out, err = started.communicate(timeout=30)
    finally:
        started.kill()
        started.communicate(timeout=20)
    assert (started.returncode, out) == (0, "")
    assert "Traceback" not in err


def test_a_familiar_that_is_not_there_is_said_before_anything_listens() -> None:
    live("ada")
    result = run("web", "--no-open", "--familiar", "bo")
    assert result.exit_code == 4
    assert "bo" in result.output
