"""Plans for weeks and digests: what they rest on, a yes in pieces, and a no that holds."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

from tests.support.server import ChatServer, Say
from tests.support.world import data, live, run

PLAN = "consolidate-2024-W15"
WEEK = [f"2024-04-{day:02}" for day in range(8, 15)]
WEEKLY = "weekly/2024-W15.md"


def say(summary, *points) -> Say:
    rows = [{"text": text, "from": [1]} for text in points]
    return Say(json.dumps({"summary": summary, "points": rows}))


@pytest.fixture
def week():
    root = live("ada", notes="x")
    (root / "character.toml").write_text('timezone = "UTC"\n[instance]\nid = "pc"\n', "utf-8")
    for day in WEEK:
        session(root, day, f"- Anna said number {day}.\n")
    assert run("consolidate", "daily").exit_code == 0
    return root


@pytest.fixture
def says(monkeypatch):
    """Start a server that says these things, and return it."""
    with ExitStack() as running:

        def start(*script) -> ChatServer:
            server = running.enter_context(ChatServer(script))
            monkeypatch.setenv("FAMILIAR_LLM_BASE_URL", server.base_url)
            monkeypatch.setenv("FAMILIAR_LLM_MODEL", "scripted-1")
            return server

        yield start


def session(root, day, text, part="evening"):
    path = root / "memory" / "sessions" / f"{day}-{part}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"# {day}, {part}\n\n{text}", encoding="utf-8")


def text_of(root, rel_path) -> str:
    return (root / "memory" / rel_path).read_text("utf-8")


def late(root):
    """Something arrives late, so that the week is stale."""
    session(root, WEEK[0], "- Bob called.\n", "morning")
    run("consolidate", "daily")


def test_a_plan_says_which_period_it_rests_on_and_of_how_many_files(week, says) -> None:
    says(say("Anna gardened."))
    run("consolidate", "weekly", "--review")
    listed = run("review", "list").stdout
    assert "2024-W15 from 7 files" in listed
    assert "turns" not in listed
    assert "is based on 2024-W15 from 7 files" in run("review", "show").stderr
    [plan] = data("review", "list")["plans"]
    assert (plan["turns"], plan["rests_on"], plan["source"]) == (
        None,
        "2024-W15 from 7 files",
        "consolidation",
    )


def test_the_journal_names_who_proposed_what_a_person_took(week, says) -> None:
    says(say("Anna gardened."))
    run("consolidate", "weekly", "--review")
    assert run("review", "apply", "--all").exit_code == 0
    [newest, *_] = data("memory", "log", WEEKLY)["commits"]
    assert newest["source"] == "consolidation"
    assert newest["run"] == data("memory", "log", "--limit", "2")["commits"][1]["run"] is not None


def test_a_rejected_plan_is_not_proposed_again_from_the_same_sources(week, says) -> None:
    server = says(say("Anna gardened."))
    run("consolidate", "weekly", "--review")
    run("review", "reject")
    done = run("consolidate", "weekly")
    assert (done.exit_code, done.stdout, len(server.requests)) == (0, "", 1)
    again = "`familiar consolidate --period 2024-W15 --redo` asks again"
    assert f"2024-W15 waits: you rejected the plan from these sources; {again}" in done.stderr
    run("daemon", "--once")
    assert not (week / "memory" / WEEKLY).exists()
    named = run("consolidate", "--period", "2024-W15")
    assert (named.exit_code, "you rejected" in named.stderr) == (5, True)


def test_a_rejected_plan_is_proposed_again_with_redo(week, says) -> None:
    says(say("Anna gardened."))
    run("consolidate", "weekly", "--review")
    run("review", "reject")
    says(say("Anna rested."))
    done = run("consolidate", "--period", "2024-W15", "--redo")
    assert done.exit_code == 0
    assert "Anna rested." in text_of(week, WEEKLY)
    assert not (week / "memory" / "sessions" / ".rejected").exists()


def test_a_rejected_plan_is_proposed_again_when_its_sources_change(week, says) -> None:
    says(say("Anna gardened."))
    run("consolidate", "weekly", "--review")
    run("review", "reject")
    late(week)
    says(say("Bob called."))
    assert run("consolidate", "weekly").stdout == f"made {WEEKLY} from 7 files\n"


def test_a_no_to_a_change_leaves_the_file_and_holds(week, says) -> None:
    says(say("Anna gardened.", "The bees moved."))
    run("consolidate", "weekly")
    before = text_of(week, WEEKLY)
    late(week)
    says(say("Bob called.", "Bob is well."))
    run("consolidate", "weekly", "--review")
    run("review", "reject")
    assert text_of(week, WEEKLY) == before
    found = data("consolidate", "weekly")
    assert found["stale"] == ["2024-W15"]
    assert "you rejected" in found["waiting"][0]["reason"]


def test_some_pieces_taken_settle_the_period_and_what_was_refused_does_not_come_back(
    week, says
) -> None:
    says(say("Anna gardened.", "The bees moved."))
    run("consolidate", "weekly")
    late(week)
    says(say("Bob called.", "The bees moved.", "Bob is well."))
    run("consolidate", "weekly", "--review")
    shown = run("review", "show").stdout
    assert "sources:" not in shown
    assert "[2]" in shown
    run("review", "apply", "--hunk", "2")
    text = text_of(week, WEEKLY)
    assert text.endswith(
        "Anna gardened.\n\n- The bees moved. <!-- from 2024-04-08 -->\n"
        "- Bob is well. <!-- from 2024-04-08 -->\n"
    )
    run("review", "reject", PLAN)
    assert text_of(week, WEEKLY) == text
    assert run("consolidate", "weekly").stderr == "Nothing is due.\n"
    session(week, WEEK[1], "- Eve sang.\n", "morning")
    run("consolidate", "daily")
    says(say("Bob called.", "Eve sang."))
    assert run("consolidate", "weekly").exit_code == 0
    made = text_of(week, WEEKLY)
    assert "Anna gardened." in made
    assert "Bob called." not in made
    assert "Eve sang." in made


def test_a_piece_that_waits_longer_can_be_taken_later(week, says) -> None:
    says(say("Anna gardened.", "The bees moved."))
    run("consolidate", "weekly")
    late(week)
    says(say("Bob called.", "The bees moved.", "Bob is well."))
    run("consolidate", "weekly", "--review")
    run("review", "apply", "--hunk", "2")
    assert run("consolidate", "weekly").stdout == ""
    run("review", "apply", "--all")
    assert "Bob called." in text_of(week, WEEKLY)
    assert run("consolidate", "weekly").stderr == "Nothing is due.\n"


def test_a_dry_run_tells_just_what_the_run_then_makes(week, says) -> None:
    server = says(say("Anna gardened."))
    planned = run("consolidate", "--dry-run").stdout
    assert server.requests == []
    assert run("consolidate").stdout == planned.replace("would make", "made")
    assert planned.splitlines()[-1] == "would make yearly/2024.md from 1 file"


def test_a_change_of_the_record_alone_needs_no_yes(week, says) -> None:
    says(say("Anna gardened."))
    run("consolidate", "weekly")
    late(week)
    says(say("Anna gardened."))
    run("consolidate", "weekly", "--review")
    assert data("review", "list")["plans"] == []
    assert run("consolidate", "weekly").stderr == "Nothing is due.\n"


def test_a_rejected_digest_is_not_proposed_again_until_redo_or_news(week, says) -> None:
    run("distill", "short")
    server = says(say("Anna gardens."))
    run("distill", "mid", "--review")
    [status] = [t for t in data("distill", "status")["tiers"] if t["name"] == "mid"]
    assert status["plan_id"] == "consolidate-mid"
    run("review", "reject")
    done = run("distill", "mid")
    assert (done.exit_code, len(server.requests)) == (0, 1)
    assert "you rejected the plan from these sources" in done.stdout
    [status] = [t for t in data("distill", "status")["tiers"] if t["name"] == "mid"]
    assert (status["due"], status["rejected"]) == (False, True)
    assert "you rejected its plan" in run("distill", "status").stdout
    says(say("Anna gardens a lot."))
    assert data("distill", "mid", "--redo")["outcome"] == "made"
    session(week, "2024-05-01", "- News.\n")
    run("distill", "short")
    says(say("News."))
    assert data("distill", "mid")["outcome"] == "made"
