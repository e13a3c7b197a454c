"""`familiar daemon` beside a model that fails: it goes on, backs off, and says what failed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from datetime import timedelta

import pytest

from familiar_cli.actions.health.daemon import Daemon
from familiar_cli.actions.memory.write_memory import write_memory
from familiar_cli.base.config.home import FamiliarPaths
from familiar_cli.base.errors import FamiliarError
from familiar_cli.familiar import Familiar
from familiar_cli.llm.open import SlotModels
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.passes import WRITING, Failures
from familiar_cli.store.search.finding import Finder
from tests.support.passes import set_back
from tests.support.processes import Process
from tests.support.server import ChatServer, Stall, bad_key
from tests.support.world import data, run
from tests.support.writing import ANNA, ANNAS, answer, environment, memory, point_at, talked

EAGER = "[memory_writer]\nturn_threshold = 1\n"
posix = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")


@contextmanager
def running(*options):
    """A daemon that looks every 50 ms."""
    argv = [sys.executable, "-m", "familiar_cli", "daemon", "--poll", "0.05", *options]
    process = Process(
        argv, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process) -> tuple[list[dict], str]:
    """Stop a daemon, and return the lines of its stdout as JSON, and its stderr."""
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=20)
    assert "Traceback" not in err
    return [json.loads(line) for line in out.splitlines()], err


def until(true) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def say_more(root, count=1) -> None:
    with closing(HistoryStore(root / "history.db")) as history:
        for _ in range(count):
            history.append("cli", "user", "More.", author=ANNA)


@posix
def test_a_retry_without_back_off_asked_a_failing_model_64_times_in_two_minutes(monkeypatch):
    root = talked(2, settings=EAGER)
    failed = root / "runs" / "failed" / "write-memory.json"
    with ChatServer([bad_key()]) as server:
        point_at(server, monkeypatch)
        with running("--json") as process:
            until(failed.exists)
            for _ in range(20):
                say_more(root)
                time.sleep(0.1)
            ended(process)
        assert len(server.requests) == 1

        with running("--json") as process:
            until(process.stdout.readline)
            for _ in range(5):
                say_more(root)
                time.sleep(0.1)
            ended(process)
        assert len(server.requests) == 1

        set_back(Failures(failed.parent), WRITING, timedelta(minutes=1))
        with running("--json") as process:
            until(lambda: len(server.requests) == 2)
            until(lambda: json.loads(failed.read_text())["attempts"] == 2)
            say_more(root)
            time.sleep(0.3)
            ended(process)
        assert len(server.requests) == 2


def test_a_persons_own_command_tries_at_once(monkeypatch):
    root = talked(2)
    with ChatServer([bad_key(), bad_key(), bad_key(), answer("Keeps bees.")]) as server:
        point_at(server, monkeypatch)
        codes = [run(*argv).exit_code for argv in [("write-memory",), ("daemon", "--once")] * 2]
    assert codes == [6, 6, 6, 0]
    assert "Keeps bees." in memory(root, ANNAS)
    assert data("status")["failures"] == []


def test_status_says_how_often_it_failed_in_a_row(monkeypatch):
    talked(2)
    with ChatServer([bad_key()]) as server:
        point_at(server, monkeypatch)
        run("write-memory")
        run("write-memory")
    (failure,) = data("status")["failures"]
    assert failure["attempts"] == 2
    assert ", 2 times in a row: " in run("status").stdout


@posix
def test_with_json_each_event_is_a_line_and_the_last_one_says_what_failed(monkeypatch):
    root = talked(2, settings=EAGER)
    with ChatServer([answer("Keeps bees."), bad_key()]) as server:
        point_at(server, monkeypatch)
        with running("--json") as process:
            until((root / "memory" / ANNAS).exists)
            say_more(root)
            until((root / "runs" / "failed" / "write-memory.json").exists)
            time.sleep(0.2)
            lines, told = ended(process)

    *events, envelope = lines
    assert all({"event", "at", "message"} <= set(event) for event in events)
    assert [event["event"] for event in events if event["event"] != "made"] == [
        "started",
        "wrote",
        "wrote",
        "failed",
    ]
    wrote, failure = events[1], events[-1]
    assert wrote["report"]["files"][0]["rel_path"] == ANNAS
    assert (failure["command"], failure["code"]) == ("write-memory", "model_key")
    assert 50 < failure["retry_in_s"] <= 60
    assert (process.returncode, envelope["status"]) == (0, "partial")
    assert [error["code"] for error in envelope["errors"]] == ["model_key"]
    assert [one["command"] for one in envelope["data"]["failures"]] == ["familiar write-memory"]
    assert (envelope["data"]["remaining"], len(envelope["data"]["passes"])) == (1, 2)
    assert "error: " in told


@posix
def test_what_has_succeeded_since_is_no_longer_told_as_failed(monkeypatch):
    root = talked(2, settings=EAGER)
    with ChatServer([bad_key(), answer("Keeps bees.")]) as server:
        point_at(server, monkeypatch)
        assert run("daemon", "--once").exit_code == 6
        set_back(Failures(root / "runs" / "failed"), WRITING, timedelta(minutes=1))
        with running("--json") as process:
            until((root / "memory" / ANNAS).exists)
            until(lambda: not (root / "runs" / "failed" / "write-memory.json").exists())
            time.sleep(0.2)
            lines, _ = ended(process)
    assert (lines[-1]["status"], lines[-1]["errors"], lines[-1]["data"]["failures"]) == (
        "ok",
        [],
        [],
    )


@posix
def test_a_daemon_whose_stdout_is_closed_ends(monkeypatch):
    root = talked(2, settings=EAGER)
    with ChatServer([answer("Keeps bees.")]) as server:
        point_at(server, monkeypatch)
        with running("--json") as process:
            process.stdout.readline()
            process.stdout.close()
            until((root / "memory" / ANNAS).exists)
            say_more(root)
            err = process.stderr.read()
            process.wait(20)
    assert "Traceback" not in err


class Broken:
    """A model with a bug: whatever it is asked, it raises what no one expects."""

    name, context_tokens, max_tokens = "broken", 100_000, 1000

    def __init__(self) -> None:
        self.calls = 0

    def prepare(self, *_, **__):
        return None

    async def complete(self, *_, **__):
        self.calls += 1
        raise RuntimeError("boom\nsecond line")

    async def aclose(self) -> None:
        pass


@pytest.fixture
def broken(monkeypatch):
    model = Broken()
    monkeypatch.setattr(SlotModels, "open", lambda *_, **__: model)
    monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("FAMILIAR_LLM_MODEL", "broken")
    return model


@pytest.mark.parametrize("argv", [("write-memory",), ("daemon", "--once")])
def test_an_unexpected_exception_is_one_line_and_remembered(broken, argv):
    talked(2)

    done = run(*argv)

    line = "error: Unexpected error: RuntimeError: boom second line\n"
    assert (done.exit_code, done.stdout, line in done.stderr) == (1, "", True)
    assert data("status")["failures"][0]["message"] == line.removeprefix("error: ").strip()
    assert data(*argv, code=1) is not None or argv == ("write-memory",)


def test_a_daemon_survives_an_unexpected_exception_and_retries_later(broken):
    root = talked(2, settings=EAGER)
    events = []

    async def watched() -> dict[str, FamiliarError]:
        stop = asyncio.Event()
        with Familiar(FamiliarPaths(root)) as familiar:
            daemon = Daemon(familiar, stop, lambda _: None, events.append)
            asyncio.get_running_loop().call_later(1, stop.set)
            asyncio.get_running_loop().call_later(0.5, say_more, root)
            await asyncio.wait_for(daemon.watch(0.02), 10)
            return daemon.errors

    errors = asyncio.run(watched())

    assert broken.calls == 1
    assert str(errors[WRITING]) == "Unexpected error: RuntimeError: boom second line"
    assert [e.kind for e in events if e.command == WRITING] == ["failed"]


@pytest.fixture
def watched(monkeypatch):
    """Let a daemon watch for a moment beside a model that answers; return it and its events."""

    def watch(root) -> tuple[Daemon, list]:
        events = []

        async def go() -> Daemon:
            stop = asyncio.Event()
            with Familiar(FamiliarPaths(root)) as familiar:
                daemon = Daemon(familiar, stop, lambda _: None, events.append)
                asyncio.get_running_loop().call_later(1, stop.set)
                await asyncio.wait_for(daemon.watch(0.02), 10)
                return daemon

        with ChatServer([answer("Keeps bees.")]) as server:
            point_at(server, monkeypatch)
            return asyncio.run(go()), events

    return watch


def test_vectors_that_cannot_be_made_end_no_daemon(monkeypatch, watched):
    async def raising(_) -> None:
        raise RuntimeError("no such operator")

    root = talked(2)
    monkeypatch.setattr(Finder, "embed_changes", raising)

    daemon, events = watched(root)

    assert "Keeps bees." in memory(root, ANNAS)
    assert "Unexpected error: RuntimeError: no such operator" in [e.message for e in events]
    assert set(daemon.errors) == {"index build"}
    assert Failures(root / "runs" / "failed").of(WRITING) is None


def test_a_history_that_cannot_be_read_for_a_while_is_told_once(monkeypatch, watched):
    root, readable = talked(2), HistoryStore.newest_id

    looks = iter([False, *[True] * 5])

    def newest_id(store) -> int:
        if next(looks, False):
            raise FamiliarError("The history is locked")
        return readable(store)

    monkeypatch.setattr(HistoryStore, "newest_id", newest_id)

    daemon, events = watched(root)

    assert [e.message for e in events if e.kind == "failed"] == ["The history is locked"]
    assert daemon.errors == {}


async def test_writing_works_inside_a_running_loop_and_cancelling_it_tells_what_was_done(
    monkeypatch,
):
    root = talked(20, settings="[memory_writer]\nbatch_turns = 10\n")
    interrupted = []
    with ChatServer([answer("Keeps bees."), Stall(seconds=30)]) as server:
        point_at(server, monkeypatch)
        familiar = Familiar(FamiliarPaths(root))
        writing = asyncio.ensure_future(write_memory(familiar, on_interrupt=interrupted.append))
        while len(server.requests) < 2:  # noqa: ASYNC110  # the server is in a thread
            await asyncio.sleep(0.02)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
    assert "Keeps bees." in memory(root, ANNAS)
    assert (interrupted[0].interrupted, interrupted[0].turns_covered > 0) == (True, True)
    assert not (root / "runs" / "failed").exists()


def test_a_period_that_failed_is_not_made_again_at_every_look(monkeypatch):
    root = talked(2)
    (root / "memory" / "daily").mkdir()
    from familiar_cli.actions.memory.consolidate import Consolidation, ConsolidationOptions
    from familiar_cli.store.passes import CONSOLIDATING

    async def raising(*_, **__):
        calls.append(1)
        raise RuntimeError("boom")

    calls = []
    monkeypatch.setattr("familiar_cli.writing.consolidation.calendar.Consolidator.run", raising)
    familiar = Familiar(FamiliarPaths(root))
    done = asyncio.run(Consolidation(familiar).run_due(ConsolidationOptions(), at_once=False))
    (event,) = done[CONSOLIDATING]
    assert CONSOLIDATING not in asyncio.run(
        Consolidation(familiar).run_due(ConsolidationOptions(), at_once=False)
    )
    assert (event.kind, event.command, len(calls)) == ("failed", CONSOLIDATING, 1)

    set_back(familiar.failures, CONSOLIDATING, timedelta(minutes=1))
    asyncio.run(Consolidation(familiar).run_due(ConsolidationOptions(), at_once=False))
    assert (len(calls), familiar.failures.of(CONSOLIDATING).attempts) == (2, 2)
    asyncio.run(Consolidation(familiar).run_due(ConsolidationOptions()))
    assert len(calls) == 3
