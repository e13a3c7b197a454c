"""`familiar review`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import pytest

from tests.support.server import ChatServer
from tests.support.world import data, run
from tests.support.writing import ANNAS, answer, memory, point_at, talked


@pytest.fixture
def root(monkeypatch):
    """A familiar with one plan that waits."""
    made = talked()
    with ChatServer([answer("Keeps bees.", "Sells honey.")]) as server:
        point_at(server, monkeypatch)
        assert run("write-memory", "--review").exit_code == 0
    return made


def test_a_list_shows_what_waits(root):
    done = run("review", "list")

    assert done.stdout.count("\n") == 1
    assert ANNAS in done.stdout
    assert "turns 1-2" in done.stdout


def test_an_empty_list_says_how_to_fill_it():
    talked()

    done = run("review", "list")

    assert (done.exit_code, done.stdout) == (0, "")
    assert "--review" in done.stderr


def test_show_prints_the_pieces_by_number(root):
    done = run("review", "show")

    assert done.stdout.startswith(f"[1] {ANNAS} (new file)\n+# Anna\n")
    assert "+- Sells honey. (Anna) <!-- turns 1 -->\n" in done.stdout


def test_apply_makes_the_changes_and_the_plan_is_settled(root):
    done = run("review", "apply")

    assert (done.exit_code, done.stdout) == (0, f"wrote {ANNAS}\n")
    assert "Keeps bees." in memory(root, ANNAS)
    assert data("review", "list")["plans"] == []


def test_apply_takes_one_piece(root):
    found = data("review", "apply", "--hunk", "1")

    assert (found["changed"], found["left"]) == ([ANNAS], 0)


def test_a_dry_run_changes_nothing(root):
    done = run("review", "apply", "--dry-run")

    assert done.stdout == f"would write {ANNAS}\n"
    assert not (root / "memory" / ANNAS).exists()
    assert len(data("review", "list")["plans"]) == 1


def test_reject_throws_it_away_and_changes_nothing(root):
    done = run("review", "reject")

    assert (done.exit_code, done.stdout) == (0, "")
    assert not (root / "memory" / ANNAS).exists()
    assert data("review", "list")["plans"] == []


def test_a_file_changed_since_is_a_conflict(root):
    run("memory", "write", ANNAS, "# Mine")

    done = run("review", "apply")

    assert done.exit_code == 5
    assert "has changed since" in done.stderr
    assert memory(root, ANNAS) == "# Mine"


def test_what_is_not_there_is_not_found(root):
    assert run("review", "show", "nobody").exit_code == 4
    assert run("review", "apply", "--hunk", "9").exit_code == 2


def test_a_damaged_plan_can_be_thrown_away(root):
    plan = data("review", "list")["plans"][0]["id"]
    (root / "memory" / "sessions" / ".pending" / f"{plan}.json").write_text("{")

    listed, shown = run("review", "list"), run("review", "show")

    assert (listed.exit_code, listed.stdout, shown.exit_code) == (0, "", 5)
    assert "damaged" in listed.stderr
    assert run("review", "reject", plan).exit_code == 0
