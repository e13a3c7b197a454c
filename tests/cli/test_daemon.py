"""`familiar daemon`, in a process of its own where signals matter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from datetime import timedelta

import pytest

from familiar_cli.store.history import HistoryStore
from familiar_cli.store.search.finding import Finder
from tests.support.embedders import EmbedderChoice, WordEmbedder
from tests.support.processes import Process
from tests.support.remotes import bare_by_hand
from tests.support.server import ChatServer, Fail, Stall
from tests.support.world import data, run
from tests.support.writing import (
    ANNA,
    ANNAS,
    EVENING,
    NOTHING,
    answer,
    environment,
    memory,
    point_at,
    talked,
)

_PATIENCE_S = 20


def test_once_catches_up_and_ends(monkeypatch):
    root = talked()
    with ChatServer([answer("Keeps bees.")]) as server:
        point_at(server, monkeypatch)
        found = data("daemon", "--once")

    assert (found["remaining"], found["passes"][0]["outcome"]) == (0, "wrote")
    assert "Keeps bees." in memory(root, ANNAS)


def test_once_gives_vectors_to_turns_and_status_counts_those_without(monkeypatch):
    talked(3)
    monkeypatch.setattr(Finder, "embedder", EmbedderChoice(WordEmbedder()))
    assert data("status")["turns_without_vector"] == 3
    assert "3 turns found by words only: `familiar index build`" in run("status").stdout
    with ChatServer([answer("Keeps bees.")]) as server:
        point_at(server, monkeypatch)
        run("daemon", "--once")
    assert data("status")["turns_without_vector"] == 0
    assert "vector" not in run("status").stdout


def test_once_tells_a_failure_once(monkeypatch):
    talked(2)
    with ChatServer([Fail(401, "bad key")]) as server:
        point_at(server, monkeypatch)
        done = run("daemon", "--once")
    assert (done.exit_code, done.stderr.count("error:")) == (6, 1)
    assert done.stderr.count("bad key") <= 1


def test_once_with_a_failing_model_ends_with_6(monkeypatch):
    talked()
    with ChatServer(["no JSON"]) as server:
        point_at(server, monkeypatch)
        assert run("daemon", "--once").exit_code == 6


@contextmanager
def running(monkeypatch, *script):
    """A daemon under way, and the server that it asks."""
    with ChatServer(script) as server:
        point_at(server, monkeypatch)
        argv = [sys.executable, "-m", "familiar_cli", "daemon", "--poll", "0.05"]
        process = Process(
            argv, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            yield process, server
        finally:
            process.kill()
            process.communicate()


@contextmanager
def inheriting(name, action):
    """Let programs that are started begin with this action for a signal."""
    number = getattr(signal, name)
    before = signal.signal(number, action)
    try:
        yield number
    finally:
        signal.signal(number, before)


def until(true) -> bool:
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end and not true():
        time.sleep(0.02)
    return bool(true())


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_it_catches_up_notices_what_is_said_and_stops_cleanly(monkeypatch, name):
    root = talked(2, settings="[memory_writer]\nturn_threshold = 2\n")
    script = answer("Keeps bees."), answer("Sells honey.", turns=[3])
    default = signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL
    with (
        inheriting(name, default) as number,  # `nohup` and `&` let the suite ignore them
        running(monkeypatch, *script) as (process, server),
    ):
        assert until((root / "memory" / ANNAS).exists)
        with closing(HistoryStore(root / "history.db")) as history:
            for n in (3, 4):
                history.append(
                    "cli", "user", f"More honey {n}", author=ANNA, at=EVENING + timedelta(minutes=n)
                )
        assert until(lambda: "Sells honey." in memory(root, ANNAS))
        process.send_signal(number)
        _, told = process.communicate(timeout=_PATIENCE_S)

    assert (process.returncode, len(server.requests)) == (0, 2)
    assert "All turns have been processed." in told
    assert "Traceback" not in told


def test_it_ends_when_the_familiar_is_moved_away(monkeypatch, tmp_path):
    talked(2)
    with running(monkeypatch, answer("Keeps bees.")) as (process, _):
        assert "Watching ada" in process.stderr.readline()
        assert run("backup", str(tmp_path), "--move", "https://chat.example/ada").exit_code == 0
        _, told = process.communicate(timeout=_PATIENCE_S)

    assert process.returncode == 5
    assert told.count("was moved to https://chat.example/ada") == 1
    assert "Traceback" not in told


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_with_nohup_it_survives_the_terminal(monkeypatch):
    root = talked(2)
    with (
        inheriting("SIGHUP", signal.SIG_IGN) as number,
        running(monkeypatch, answer("Keeps bees.")) as (process, _),
    ):
        assert until((root / "memory" / ANNAS).exists)
        process.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=_PATIENCE_S)
    assert process.returncode == 0


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_pass_under_way_is_broken_off_and_made_up_for_later(monkeypatch):
    root = talked(2)
    with running(monkeypatch, Stall(seconds=15)) as (process, server):
        assert until(lambda: server.requests)
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=_PATIENCE_S)

    assert (process.returncode, "2 turns are waiting." in told, "Traceback" in told) == (
        0,
        True,
        False,
    )
    with ChatServer([NOTHING]) as again:
        point_at(again, monkeypatch)
        assert data("daemon", "--once")["remaining"] == 0
    assert not (root / "memory" / ANNAS).exists()


def test_once_syncs_what_it_wrote(monkeypatch, tmp_path):
    talked()
    hub = bare_by_hand(tmp_path / "hub.git")
    run("sync", "remote", "add", "hub", str(hub))
    with ChatServer([answer("Keeps bees.")]) as server:
        point_at(server, monkeypatch)
        data("daemon", "--once")
    status = data("sync", "status")
    assert [one["ahead"] for one in status["remotes"]] == [0]
    assert list((hub / "refs" / "heads" / "memory").iterdir())


def test_a_remote_that_is_away_is_a_line_in_status_and_no_error(monkeypatch, tmp_path):
    root = talked()
    run("sync", "remote", "add", "hub", str(tmp_path / "gone.git"))
    with ChatServer([answer("Keeps bees.")]) as server:
        point_at(server, monkeypatch)
        done = run("daemon", "--once")
    assert (done.exit_code, done.stderr.count("error:")) == (0, 0), done.stderr
    assert "Keeps bees." in memory(root, ANNAS)
    assert "gone.git" in run("status").output
