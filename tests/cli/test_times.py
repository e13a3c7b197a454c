"""Times that people type mean the same in every command: those of where the familiar lives."""

from __future__ import annotations

import os
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from familiar_cli.base.times import clock
from familiar_cli.base.who.identity import Author
from familiar_cli.store.history import HistoryStore
from tests.support.cases import each
from tests.support.terminals import on_terminal
from tests.support.world import data, live, run

pytestmark = pytest.mark.skipif(not hasattr(time, "tzset"), reason="the machine's zone is fixed")

NOW = datetime(2026, 3, 30, 10, tzinfo=UTC)  # 12:00 in Oslo, where summer began the day before
MIDNIGHT = datetime(2026, 3, 28, 23, tzinfo=UTC)  # the 29th begins in Oslo
MINUTE = timedelta(minutes=1)
ANNA = Author("discord", "7", display_name="Anna")
SAME_TIME = pytest.mark.parametrize(
    "since",
    ["2026-03-29", "2026-03-29 00:00", "2026-03-28T23:00Z", "yesterday", "35h"],  # a short night
)


@pytest.fixture
def root(monkeypatch):
    """A familiar in Oslo on a machine in Tokyo, with something on either side of a midnight."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    root = live("ada")
    (root / "character.toml").write_text('timezone = "Europe/Oslo"\n', "utf-8")
    with closing(HistoryStore(root / "history.db")) as store:
        for name, at in (("before", MIDNIGHT - MINUTE), ("after", MIDNIGHT + MINUTE)):
            store.append("cli", "user", f"tea {name}", author=ANNA, at=at)
            monkeypatch.setattr(clock, "now", lambda at=at: at)
            text = f"# Tea {name}\n\nThe [{name}](gone.md) of tea.\n"
            assert run("memory", "write", f"{name}.md", text).exit_code == 0
            os.utime(root / "memory" / f"{name}.md", (at.timestamp(), at.timestamp()))
    monkeypatch.setattr(clock, "now", lambda: NOW)
    yield root
    monkeypatch.undo()
    time.tzset()


@SAME_TIME
@pytest.mark.usefixtures("root")
def test_history_is_read_from_or_up_to_a_time(since) -> None:
    assert [t["turn"] for t in data("history", "show", "--since", since)["turns"]] == [2]
    assert [t["turn"] for t in data("history", "show", "--until", since)["turns"]] == [1]
    found = data("history", "search", "tea", "--since", since)
    assert [hit["turn"] for hit in found["hits"]] == [2]


@SAME_TIME
@pytest.mark.usefixtures("root")
def test_changes_are_listed_from_a_time_on(since) -> None:
    found = data("memory", "log", "--since", since)
    assert [commit["paths"] for commit in found["commits"]] == [["after.md"]]


@SAME_TIME
@pytest.mark.usefixtures("root")
def test_turns_are_read_again_from_a_time_on(since) -> None:
    assert data("write-memory", "--estimate", "--since", since)["turns"] == 1
    assert data("write-memory", "--estimate", "--all")["turns"] == 2


@SAME_TIME
@pytest.mark.usefixtures("root")
def test_files_are_looked_at_that_were_changed_since(since) -> None:
    found = data("housekeep", "links", "--since", since)
    assert [finding["paths"] for finding in found["findings"]] == [["after.md"]]


@SAME_TIME
@pytest.mark.parametrize("method", ["lexical", "grep"])
@pytest.mark.usefixtures("root")
def test_memories_are_found_from_a_day_on(since, method) -> None:
    found = data("search", "tea", "--method", method, "--since", since)
    assert [hit["rel_path"] for hit in found["hits"]] == ["after.md"]


def test_what_is_kept_may_be_of_yesterday(root) -> None:
    kept = data("remember", "The sea.", "--date", "yesterday")
    assert kept["date"] == "2026-03-29"
    assert (root / "memory" / kept["rel_path"]).is_file()


@pytest.mark.parametrize(
    "command",
    [
        ("history", "show", "--since"),
        ("history", "show", "--until"),
        ("history", "search", "tea", "--since"),
        ("memory", "log", "--since"),
        ("write-memory", "--since"),
        ("housekeep", "--since"),
        ("search", "tea", "--since"),
        ("remember", "The sea.", "--date"),
        ("remind", "add", "Call", "--at"),
        ("task", "add", "Call", "--due"),
    ],
)
@each("typed", ["soon", ""])
def test_a_bad_time_is_refused_in_the_same_words(root, command, typed) -> None:
    before = sorted(p.name for p in (root / "memory").iterdir())
    result = run(*command, typed)
    assert result.exit_code == 2
    error, hint = result.stderr.splitlines()
    assert error == f"error: {typed!r} is not a date or time"
    assert hint.startswith("hint: Use `2026-")
    assert sorted(p.name for p in (root / "memory").iterdir()) == before


@pytest.mark.usefixtures("root")
def test_times_in_lists_are_those_of_the_familiar() -> None:
    log = run("memory", "log").stdout.splitlines()
    assert [line.split()[1:3] for line in log] == [["2026-03-29", "00:01"], ["2026-03-28", "23:59"]]
    assert "time    2026-03-29 00:01:00 +0100\n" in run("memory", "show", "HEAD").stdout
    assert "  2026-03-29 00:01  " in run("memory", "blame", "after.md").stdout


@pytest.mark.usefixtures("root")
def test_the_tree_of_files_has_their_times_where_the_familiar_lives() -> None:
    assert "2026-03-29 00:01" in on_terminal("memory", "ls")[1]
