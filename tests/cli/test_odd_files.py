"""A named pipe or a device where a file should be is told of, and never waited for."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from tests.support.cases import each
from tests.support.world import home, live, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes")

PLACES = {
    "character.toml": (("status",), ("config", "set", "name", "x"), ("config", "show")),
    "channels/cli.toml": (("channel", "show", "cli"), ("channel", "ls"), ("ask", "a", "--dry-run")),
    "subscriptions.toml": (("channel", "ls"),),
    "traces/1.json": (("context", "--last"), ("context", "2"), ("doctor",)),
    "memory/notes.md": (
        ("memory", "cat", "notes.md"),
        ("memory", "append", "notes.md", "x"),
        ("memory", "grep", "x"),
        ("memory", "ls"),
        ("search", "x"),
        ("ask", "a", "--dry-run"),
    ),
    "memory/self/card.json": (("card", "export", "--format", "json"),),
    "memory/people/_aliases.json": (("people", "ls"), ("ask", "a", "--dry-run")),
    "memory/.index/embeddings.sqlite": (("search", "x"), ("index", "status"), ("index", "build")),
    "history.db": (("status",), ("history", "ls"), ("ask", "a", "--dry-run"), ("doctor",)),
    "runs/failed/write-memory.json": (("status",),),
    ".lock": (("memory", "write", "a.md", "x"),),
    ".lock.holder": (("doctor",), ("memory", "write", "a.md", "x")),
    ".consolidation.json": (("consolidate", "--dry-run"), ("distill", "status")),
    "journal.git": (("memory", "log"), ("memory", "write", "a.md", "x"), ("doctor",)),
    "journal.git/refs/heads/main": (("memory", "log"), ("memory", "write", "a.md", "x")),
    "journal.git/familiar-pending": (("memory", "log"), ("memory", "ls")),
    "journal.git/familiar-seen.json": (("memory", "log"), ("doctor",)),
    "journal.git/familiar-looked": (("memory", "ls"),),
    "journal.git/familiar-absent": (("memory", "log"), ("doctor",)),
}
CASES = [(place, argv) for place, commands in PLACES.items() for argv in commands]


@pytest.fixture(autouse=True)
def in_ten_seconds():
    class Waits(BaseException):  # which no `except` of the program takes for a failing file
        pass

    def stop(*_):
        raise Waits

    old = signal.signal(signal.SIGALRM, stop)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)


@pytest.mark.parametrize("kind", ["pipe", "device"])
@each(("place", "argv"), CASES, ids=[f"{p} {' '.join(a)}" for p, a in CASES])
def test_it_is_never_waited_for(place, argv, kind) -> None:
    root = live("ada", other="words")
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/ptmx")
    result = run(*argv)
    assert isinstance(result.exception, SystemExit | None), (place, argv, result.exception)
    if result.exit_code not in {0, 7}:
        errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, result.stderr


def test_the_choice_of_a_familiar_may_be_one_too() -> None:
    live("ada")
    os.mkfifo(home() / ".chosen")
    assert run("status").exit_code == 0
