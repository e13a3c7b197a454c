"""`familiar consolidate`, `distill` and `remember`, from argv to streams and exit code."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from familiar_cli.actions.memory.consolidate import Consolidation, ConsolidationOptions
from familiar_cli.base.config.home import FamiliarPaths
from familiar_cli.base.who.identity import Author
from familiar_cli.familiar import Familiar
from familiar_cli.store.history.store import WRITER, HistoryStore
from tests.support.cases import each
from tests.support.server import Say, bad_key
from tests.support.serving import serving
from tests.support.world import data, live, run

REPLY = json.dumps(
    {"summary": "Anna gardened.", "points": [{"text": "The bees moved.", "from": [1]}]}
)
WEEK = [f"2024-04-{day:02}" for day in range(8, 15)]


@pytest.fixture(autouse=True)
def ada():
    root = live("ada", notes="x")
    (root / "character.toml").write_text(
        'timezone = "Europe/Berlin"\n[instance]\nid = "laptop"\n', encoding="utf-8"
    )
    return root


@pytest.fixture
def week(ada):
    (ada / "memory" / "sessions").mkdir()
    for day in WEEK:
        session(ada, day, f"- Anna said number {day}.\n")
    return ada


def session(root, day, text, part="evening"):
    path = root / "memory" / "sessions" / f"{day}-{part}.md"
    path.write_text(f"# {day}, {part}\n\n## Highlights\n\n{text}", encoding="utf-8")


def written(root):
    return sorted(
        path.relative_to(root / "memory").as_posix()
        for tier in ("daily", "weekly", "monthly", "yearly", "digest")
        for path in (root / "memory" / tier).glob("*.md")
    )


def test_without_a_model_days_are_made_and_the_rest_waits_and_says_so(week) -> None:
    result = run("consolidate")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "made daily/2024-04-08_laptop.md from 1 file"
    assert "2024-W15 waits: The model 'smollm2-135m-instruct' is not on" in result.stderr
    assert len(written(week)) == 7


def test_with_a_model_a_week_becomes_a_month_and_a_year(week, serve) -> None:
    serve(Say(REPLY), Say(REPLY), Say(REPLY))
    result = run("consolidate")
    assert result.exit_code == 0
    assert written(week)[-3:] == ["monthly/2024-04.md", "weekly/2024-W15.md", "yearly/2024.md"]
    text = (week / "memory" / "weekly" / "2024-W15.md").read_text("utf-8")
    assert text.endswith(
        "# 2024-W15, 8 April 2024 to 14 April 2024\n\nAnna gardened.\n\n"
        "- The bees moved. <!-- from 2024-04-08 -->\n"
    )


def test_the_json_tells_what_was_made_of_what_and_what_it_covers(week, serve) -> None:
    serve(Say(REPLY))
    found = data("consolidate", "daily")
    found = data("consolidate", "weekly")
    assert found["done"] == [
        {
            "period": "2024-W15",
            "rel_path": "weekly/2024-W15.md",
            "sources": [f"daily/{day}_laptop.md" for day in WEEK],
            "again": False,
            "changed": True,
        }
    ]
    assert (found["waiting"], found["stale"]) == ([], [])
    assert set(found["coverage"]) == {"daily", "weekly", "monthly", "yearly"}
    assert found["coverage"]["weekly"] == {
        "days": 7,
        "of": 7,
        "missing": [],
        "rests_on": {"2024-W15": ["2024-04-08..2024-04-14"]},
    }
    assert found["coverage"]["monthly"]["missing"] == ["2024-04-08..2024-04-14"]


def test_where_there_is_nothing_to_make_it_says_what_to_run_first(ada) -> None:
    for argv, command in (
        (("consolidate",), "familiar write-memory"),
        (("distill", "short"), "familiar write-memory"),
        (("distill", "long"), "familiar distill mid"),
    ):
        told = run(*argv)
        assert (told.exit_code, told.stdout) == (0, "")
        assert f"`{command}`" in told.stderr


def test_a_time_that_a_person_wrote_into_a_digest_is_shown_as_it_is(week) -> None:
    run("distill", "short")
    path = week / "memory" / "digest" / "short.md"
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub("made_at: .*", "made_at: long ago", text), encoding="utf-8")
    assert "long ago" in run("distill", "status").stdout


def test_a_second_run_changes_nothing(week, serve) -> None:
    serve(Say(REPLY), Say(REPLY), Say(REPLY))
    run("consolidate")
    result = run("consolidate")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "Nothing is due." in result.stderr


def test_a_model_that_fails_leaves_the_period_due_and_ends_with_7_or_6(week, serve) -> None:
    serve(bad_key(), bad_key())
    assert run("consolidate").exit_code == 7  # the days were made
    result = run("consolidate", "--json")
    assert result.exit_code == 6
    assert json.loads(result.stdout)["data"]["waiting"][0]["period"] == "2024-W15"


def test_a_named_period_that_waits_is_refused_unless_asked_only_if_due(week) -> None:
    day = (datetime.now(UTC) + timedelta(days=2)).date()
    session(week, day, "- Anna came by.\n")
    refused = run("consolidate", "--period", str(day))
    assert (refused.exit_code, refused.stdout) == (5, "")
    assert f"{day} was not made: the day is not over yet" in refused.stderr
    assert run("consolidate", "--period", str(day), "--due").exit_code == 0


def test_dry_run_writes_nothing_and_asks_nobody(week, serve) -> None:
    chat = serve(Say(REPLY))
    result = run("consolidate", "--dry-run")
    assert "would make daily/2024-04-08_laptop.md from 1 file" in result.stdout
    assert "would make weekly/2024-W15.md from 7 files" in result.stdout
    assert (written(week), chat.requests) == ([], [])


def test_what_a_model_writes_may_wait_for_review(week, serve) -> None:
    serve(Say(REPLY), Say(REPLY))
    result = run("consolidate", "weekly", "--review")
    assert result.exit_code == 0
    run("consolidate", "daily")
    result = run("consolidate", "weekly", "--review")
    assert "familiar review show consolidate-2024-W15" in result.stderr
    assert "weekly/2024-W15.md" in run("review", "show", "consolidate-2024-W15").stdout
    assert run("review", "apply", "consolidate-2024-W15", "--all").exit_code == 0
    assert "weekly/2024-W15.md" in written(week)
    assert run("consolidate", "weekly").stdout == ""


def test_a_period_is_made_again_on_demand(week) -> None:
    run("consolidate", "daily")
    again = run("consolidate", "--period", "2024-04-09", "--redo")
    assert again.stdout == "made again daily/2024-04-09_laptop.md from 1 file\n"


@each(
    "argv",
    [
        ["hourly"],
        ["--period", "April"],
        ["weekly", "--period", "2024-04"],
        ["--dry-run", "--review"],
    ],
)
def test_what_makes_no_sense_is_a_usage_error(argv) -> None:
    assert run("consolidate", *argv).exit_code == 2


def test_bullets_carry_the_chats_that_their_turns_were_said_in(ada) -> None:
    at = datetime(2024, 4, 8, 18, 0, tzinfo=UTC)  # 20:00 in Berlin
    with closing(HistoryStore(ada / "history.db")) as store:
        for channel in ("discord-1", "discord-2"):
            store.append(channel, "user", "Hi", author=Author("cli", "anna"), at=at)
        store.move_watermark(WRITER, 2)
    (ada / "memory" / "sessions").mkdir()
    lines = "- One. <!-- turns 1 -->\n- Two. <!-- turns 1-2 -->\n- Nobody's. <!-- turns 9 -->\n"
    session(ada, "2024-04-08", lines)
    session(ada, "2024-04-08", "- Another machine's. <!-- turns 1 -->\n", "morning")
    run("consolidate", "daily")
    text = (ada / "memory" / "daily" / "2024-04-08_laptop.md").read_text("utf-8")
    assert text.split("---\n")[2].splitlines()[2:] == [
        "- Another machine's. [chat:2024-04-08-morning] [via:laptop] <!-- turns 1 -->",
        "- One. [chat:discord-1] [via:laptop] <!-- turns 1 -->",
        "- Two. [chat:discord-1] [chat:discord-2] [via:laptop] <!-- turns 1-2 -->",
        "- Nobody's. [chat:2024-04-08-evening] [via:laptop] <!-- turns 9 -->",
    ]


def test_turns_that_are_not_written_down_hold_their_week_back(week, serve) -> None:
    serve(Say(REPLY))
    with closing(HistoryStore(week / "history.db")) as store:
        at = datetime(2024, 4, 10, 18, 0, tzinfo=UTC)
        store.append("cli", "user", "Hi", author=Author("cli", "anna"), at=at)
    result = run("consolidate")
    assert result.exit_code == 0
    assert "2024-W15 waits: turns of 2024-04-10 are not processed yet" in result.stderr


def test_the_digests_are_made_one_from_the_other(week, serve) -> None:
    serve(Say(REPLY), Say(REPLY))
    assert run("distill", "short").stdout.startswith("made digest/short.md, ")
    assert run("distill", "mid").exit_code == 0
    assert run("distill", "long").exit_code == 0
    assert written(week) == ["digest/long.md", "digest/mid.md", "digest/short.md"]
    assert run("distill", "mid").stdout == "digest/mid.md is up to date\n"


def test_distill_status_tells_tokens_budgets_times_and_what_is_due(week) -> None:
    before = {tier["name"]: tier for tier in data("distill", "status")["tiers"]}
    assert (before["short"]["due"], before["short"]["made_at"]) == (True, None)
    assert {t["budget_tokens"] for t in before.values()} == {3000, 2000}
    run("distill", "short")
    after = {tier["name"]: tier for tier in data("distill", "status")["tiers"]}
    assert set(after["short"]) >= {
        "name",
        "tokens",
        "budget_tokens",
        "made_at",
        "input_hash",
        "due",
    }
    assert after["short"]["due"] is False
    assert after["short"]["input_hash"]
    assert after["mid"]["due"] is True
    assert after["long"]["scheduled"] is False
    assert "digest/short.md" in run("distill", "status").stdout


def test_a_digest_without_a_model_is_an_error_that_says_what_to_do(week) -> None:
    run("distill", "short")
    result = run("distill", "mid")
    assert result.exit_code == 3
    assert "familiar model pull" in result.stderr


def test_nothing_to_distill_says_what_is_missing() -> None:
    assert "there are no sessions yet" in run("distill", "short").stderr
    assert "digest/short.md does not exist yet" in run("distill", "mid").stderr


def test_a_program_of_the_persons_own_is_told_of_a_digest(week, serve, tmp_path) -> None:
    serve(Say(REPLY))
    told = tmp_path / "told"
    code = f"import sys; open({str(told)!r}, 'w').write(sys.argv[-1])"
    run("config", "set", "distill.notify", json.dumps([sys.executable, "-c", code]))
    run("distill", "short")
    assert not told.exists()
    run("distill", "mid")
    assert told.read_text().startswith("ada: the mid digest was made (")


def test_a_notification_does_not_tell_a_program_whether_a_page_is_private(week, serve) -> None:
    serve(Say(REPLY))
    run("config", "set", "distill.notify", "/no/such/program")
    run("memory", "unpublish", f"sessions/{WEEK[0]}-evening.md")
    with serving() as server:
        server.client.post("/distill/short")
        assert "could not be run" in server.client.post("/distill/mid").json()["notification"]


def test_a_notification_that_fails_is_told_of_and_nothing_more(week, serve) -> None:
    serve(Say(REPLY))
    run("config", "set", "distill.notify", "/no/such/program --loud")
    run("distill", "short")
    result = run("distill", "mid")
    assert result.exit_code == 0
    assert "warning: The notification '/no/such/program' could not be run" in result.stderr


def test_remember_keeps_a_memory_in_a_file_of_its_own(ada) -> None:
    result = run("remember", "We saw the sea.", "--date", "2024-04-07", "--title", "The sea")
    assert result.stdout == "significant/2024-04-07_the-sea.md\n"
    path = ada / "memory" / "significant" / "2024-04-07_the-sea.md"
    assert path.read_text("utf-8") == "# The sea\n\nWe saw the sea.\n"


def test_remember_reads_standard_input_and_dry_run_writes_nothing(ada) -> None:
    found = run("remember", "-", "--date", "2024-04-07", "--dry-run", stdin="From a pipe.\n")
    assert found.stdout == "# From a pipe.\n\nFrom a pipe.\n"
    assert not (ada / "memory" / "significant").exists()
    assert data("remember", "x", "--date", "2024-04-07")["written"] is True


def test_remember_refuses_nothing_and_a_day_that_is_none() -> None:
    assert run("remember", " ").exit_code == 2
    assert run("remember", "x", "--date", "soon").exit_code == 2


def test_the_daemon_catches_up_with_days_weeks_and_digests(week, serve) -> None:
    serve(*[Say(REPLY)] * 4)
    result = run("daemon", "--once")
    assert result.exit_code == 0
    assert written(week)[-5:] == [
        "digest/mid.md",
        "digest/short.md",
        "monthly/2024-04.md",
        "weekly/2024-W15.md",
        "yearly/2024.md",
    ]
    assert "made weekly/2024-W15.md" in result.stderr


def test_the_daemon_makes_nothing_that_is_switched_off(week, serve) -> None:
    chat = serve()
    run("config", "set", "consolidation.auto", "off")
    run("config", "set", "distill.auto", "off")
    assert run("daemon", "--once").exit_code == 0
    assert (written(week), chat.requests) == ([], [])


def test_the_daemon_goes_on_when_the_model_fails_and_what_failed_stays_due(week, serve) -> None:
    serve(bad_key(), bad_key(), Say(REPLY), Say(REPLY), Say(REPLY), Say(REPLY))
    first = run("daemon", "--once")
    assert first.exit_code == 0
    assert "error: " in first.stderr
    run("daemon", "--once")
    assert "weekly/2024-W15.md" in written(week)


def test_cancelling_ends_it_between_two_days_and_is_no_failure(week) -> None:
    familiar = Familiar(FamiliarPaths(week))

    async def made_until_cancelled() -> None:
        task = asyncio.current_task()
        await Consolidation(familiar).consolidate(
            ConsolidationOptions(), on_step=lambda _: task.cancel()
        )

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(made_until_cancelled())
    assert len(written(week)) == 1
    assert familiar.failures.all() == ()
    run("consolidate", "daily")
    assert len(written(week)) == 7


def test_a_week_that_a_person_took_over_is_told_and_can_be_given_back(week, serve) -> None:
    serve(*[Say(REPLY)] * 6)
    run("consolidate")
    path = week / "memory" / "weekly" / "2024-W15.md"
    made = path.read_bytes()
    assert data("consolidate")["rewritten"] == []
    path.write_text("# My week\n\nNothing of it was true.\n", "utf-8")
    assert data("consolidate", "--dry-run")["rewritten"][0]["rel_path"] == "weekly/2024-W15.md"
    run("memory", "append", "notes.md", "- x")  # the journal sees the week now
    told = run("consolidate").stderr
    (found,) = data("status")["rewritten"]
    assert found["rel_path"] == "weekly/2024-W15.md"
    assert re.search(r"weekly/2024-W15\.md has been yours since \d{4}-\d\d-\d\d", told)
    assert found["give_back"] in told
    assert found["give_back"] in run("status").stdout.replace("\n", " ")
    (check,) = [c for c in data("doctor")["checks"] if c["name"] == "yours"]
    assert check["verdict"] == "warn"
    assert found["give_back"] in check["mend"]
    assert run(*found["give_back"].split()[1:]).exit_code == 0
    assert path.read_bytes() == made
    assert data("status")["rewritten"] == []


def test_a_week_that_was_never_the_program_s_is_not_told(ada) -> None:
    run("memory", "write", "weekly/2024-W15.md", "# A week\n\nBy hand.\n")
    assert data("status")["rewritten"] == []
