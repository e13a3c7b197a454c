"""What was streamed already is kept, also when the process is killed in the middle."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from familiar_cli.context.on_record import DIRECTORY, ReplySpool, recover_replies
from familiar_cli.store.history.rows import Turn
from familiar_cli.store.history.store import HistoryStore
from tests.support.processes import Process
from tests.support.server import Stall
from tests.support.world import data, live, run
from tests.support.writing import environment

pytestmark = pytest.mark.posix
BEGUN = "Once upon a time there was a lighthouse "


def kill_while_replying(*argv: str) -> None:
    """Run a command, and kill it as soon as some of the reply can be read."""
    with Process(
        [sys.executable, "-m", "familiar_cli", *argv],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout.read(4)
        process.kill()


def test_a_killed_reply_is_a_partial_turn(serve) -> None:
    root = live("ada")
    serve(Stall(BEGUN))
    kill_while_replying("ask", "Tell me a story")
    turns = data("history", "show")["turns"]
    assert [turn["role"] for turn in turns] == ["user", "assistant"]
    reply = turns[1]
    assert reply["partial"]
    assert reply["content"].strip()
    assert BEGUN.startswith(reply["content"].strip())
    assert len(data("history", "show")["turns"]) == 2
    assert not (root / DIRECTORY).exists()


def test_a_whole_reply_leaves_no_file(serve) -> None:
    root = live("ada")
    serve("Hello there.")
    assert run("ask", "hi").exit_code == 0
    assert not (root / DIRECTORY).exists()
    assert [turn["partial"] for turn in data("history", "show")["turns"]] == [False, False]


@pytest.fixture
def store(tmp_path):
    found = HistoryStore(tmp_path / "history.db")
    yield found
    found.close()


def spooled(store, tmp_path, text: str) -> Turn:
    question = store.append("cli", "user", "Tell me")
    reply = Turn(
        0, "cli", None, "assistant", "", question.at, "text", "cli", True, reply_to=question.id
    )
    spool = ReplySpool(tmp_path / DIRECTORY, reply, None)
    spool.add(text)
    spool.close(is_kept=False)
    return question


def test_a_reply_of_a_process_that_lives_is_left_to_it(store, tmp_path) -> None:
    spooled(store, tmp_path, "and so on")
    assert recover_replies(store, tmp_path / DIRECTORY) == []
    assert len(list((tmp_path / DIRECTORY).iterdir())) == 1


@pytest.mark.parametrize("text", ["", " \n", "half \ud83d"])
def test_odd_beginnings_end_nothing(store, tmp_path, monkeypatch, text) -> None:
    spooled(store, tmp_path, text)
    monkeypatch.setattr("familiar_cli.context.on_record._PROCESS", "another")
    kept = [turn.content for turn in recover_replies(store, tmp_path / DIRECTORY)]
    assert kept == ([text] if text.strip() else [])


def test_a_reply_that_was_kept_before_the_kill_is_kept_once(store, tmp_path, monkeypatch) -> None:
    question = spooled(store, tmp_path, "Yes.")
    store.append("cli", "assistant", "Yes.", reply_to=question.id)
    monkeypatch.setattr("familiar_cli.context.on_record._PROCESS", "another")
    assert recover_replies(store, tmp_path / DIRECTORY) == []
    assert store.count() == 2


def test_a_file_of_noise_is_left_alone(store, tmp_path) -> None:
    (tmp_path / DIRECTORY).mkdir()
    (tmp_path / DIRECTORY / "1-x.txt").write_bytes(os.urandom(100))
    assert recover_replies(store, tmp_path / DIRECTORY) == []
