"""`familiar index` and `familiar memory links`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.world import data, live, run


@pytest.fixture
def memory() -> Path:
    return live("ada", alice="# Alice\n\nLikes tea.\n", notes="see [her](alice.md)\n") / "memory"


def test_build_says_what_it_did_and_what_is_missing(memory) -> None:
    result = run("index", "build")
    assert (result.exit_code, result.stdout) == (
        0,
        "files: 2 read, 0 removed, 0 unchanged\nvectors: 0 made, 4 waiting\n",
    )
    assert "familiar model pull minilm-l6-v2" in result.stderr


def test_building_twice_changes_nothing(memory) -> None:
    run("index", "build")
    assert data("index", "build")["refreshed"]["unchanged"] == 2


def test_status_before_and_after(memory) -> None:
    assert "none yet: `familiar index build`" in run("index", "status").stdout
    run("index", "build")
    (memory / "bad.md").write_bytes(b"\xff")
    run("index", "build")
    status = data("index", "status")["status"]
    assert (status["exists"], status["files"], status["waiting"]) == (True, 2, 4)
    assert status["problems"][0]["rel_path"] == "bad.md"
    assert "left out" in run("index", "status").stdout


def test_clear_deletes_the_index_and_nothing_else(memory) -> None:
    run("index", "build")
    assert run("index", "clear").stdout == "deleted the index\n"
    assert run("index", "clear").stdout == "there was no index\n"
    assert sorted(p.name for p in memory.glob("*.md")) == ["alice.md", "notes.md"]


def test_links_show_both_directions(memory) -> None:
    shown = run("memory", "links", "alice.md").stdout
    assert shown == "1  notes.md  notes.md links to alice.md\n"
    (step,) = data("memory", "links", "notes.md")["steps"]
    assert (step["rel_path"], step["distance"], step["link"]["kind"]) == ("alice.md", 1, "link")


def test_links_that_lead_nowhere_are_warned_of(memory) -> None:
    (memory / "c.md").write_text("[gone](gone.md)", encoding="utf-8")
    result = run("memory", "links", "c.md")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "warning: c.md links to gone.md, which is not there" in result.stderr


def test_links_of_a_missing_file_are_not_found(memory) -> None:
    result = run("memory", "links", "nope.md")
    assert result.exit_code == 4
    assert "hint: " in result.stderr
