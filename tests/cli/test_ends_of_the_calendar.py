"""The first and the last day that a calendar holds, in every timezone, end no command."""

from __future__ import annotations

import json

import pytest

from tests.support.cases import each
from tests.support.world import home, live, run

TIMES = (
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-12:00",
)
READS = (
    ("history", "ls"),
    ("history", "stats"),
    ("history", "show", "--channel=far"),
    ("history", "search", "tea"),
    ("people", "ls"),
    ("channel", "ls"),
    ("remind", "ls"),
    ("status",),
    ("housekeep",),
    ("consolidate", "--dry-run"),
    ("ask", "Is there tea?", "--channel=far", "--dry-run"),
)


@pytest.fixture(params=["Pacific/Kiritimati", "Pacific/Niue"])
def far(request):
    live("ada")
    assert run("config", "set", "timezone", request.param).exit_code == 0
    told = (
        {"role": "user", "content": f"Tea at {at}", "author": f"discord:{number}", "at": at}
        for number, at in enumerate(TIMES)
    )
    lines = "\n".join(map(json.dumps, told))
    assert run("import-chat", "-", "--channel=far", stdin=lines).exit_code == 0
    for day in ("0001-01-01", "9999-12-31"):
        assert run("remind", "add", "Tea", f"--at={day} 23:59").exit_code == 0
        assert run("remember", f"Tea on {day}.", f"--date={day}").exit_code == 0
        assert run("memory", "write", f"sessions/{day}.md", f"# {day}\n\n- tea\n").exit_code == 0


@each("argv", READS, ids=" ".join)
def test_what_is_far_away_can_be_read(far, argv) -> None:
    result = run(*argv)
    assert result.exit_code == 0, result.output


def test_what_was_said_far_away_is_told_to_the_memory_writer(far, serve) -> None:
    server = serve()
    result = run("write-memory", "--dry-run")
    assert result.exit_code == 6, result.output  # this server has nothing to say
    assert "Tea at" in server.last.body.decode()
    assert not (home() / "ada" / "memory" / "people").exists()


@pytest.mark.parametrize(
    "moment", ["2026-03-29 02:30", "2026-10-25 02:30"], ids=["never was", "came twice"]
)
def test_an_hour_that_the_clocks_skip_or_repeat_is_a_time(moment) -> None:
    live("ada")
    assert run("config", "set", "timezone", "Europe/Oslo").exit_code == 0
    assert run("remind", "add", "Tea", f"--at={moment}").exit_code == 0
    assert "Tea" in run("remind", "ls").stdout
    assert run("history", "show", f"--since={moment}").exit_code == 4
