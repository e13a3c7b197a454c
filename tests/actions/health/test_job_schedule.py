"""A job runs once at each of its times, whoever looks, and what it made is a turn."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from familiar_cli.actions.health import job_schedule
from familiar_cli.actions.health.daemon import Daemon
from familiar_cli.actions.health.job_schedule import (
    Job,
    add_job,
    read_jobs,
    read_state,
    rule_of_cron,
    run_due_jobs,
)
from familiar_cli.base.errors import ConfigError
from familiar_cli.base.times.clock import iso
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.cli.terminal.reply import BackgroundNotices
from familiar_cli.familiar import Familiar
from familiar_cli.pages.emit import Output
from familiar_cli.store.passes import Event
from tests.support.cases import each
from tests.support.server import Fail
from tests.support.world import data, home, live, run

MORNING = datetime(2026, 3, 20, 8, 0, tzinfo=UTC)


@pytest.fixture
def at(monkeypatch):
    """Sets the clock of jobs."""

    def set_to(moment: datetime) -> None:
        monkeypatch.setattr(job_schedule, "now", lambda: moment)

    return set_to


@pytest.fixture
def ada():
    root = live("ada")
    (root / "character.toml").write_text('timezone = "UTC"\n', "utf-8")
    with Familiar.load_from_disk(home(), "ada") as familiar:
        yield familiar


def daily(**how: str) -> Job:
    added = iso(MORNING - timedelta(hours=1))
    return Job(**{"id": "morning", "when": "every day 8:00", "added": added, "say": "tea", **how})


async def test_the_familiar_writes_first_once_each_time(ada, at, serve) -> None:
    server = serve("Good morning!", "Good morning again!")
    add_job(ada, daily(channel="den"))
    told: list[Event] = []
    for hours, messages in ((-0.5, 0), (0, 1), (1, 1), (23, 1), (24.5, 2)):
        at(MORNING + timedelta(hours=hours))
        await run_due_jobs(ada, told.append)
        assert len(server.requests) == messages

    turns = ada.history.recent("den", 9, viewer=OWNER)
    assert [(turn.role, turn.content, turn.source) for turn in turns] == [
        ("assistant", "Good morning!", "job"),
        ("assistant", "Good morning again!", "job"),
    ]
    assert "tea" in server.requests[0].json()["messages"][-1]["content"]
    assert [event.data["turn"] for event in told] == [turn.id for turn in turns]
    await ada.aclose()
    assert "tea" in run("context", str(turns[0].id), "--raw").stdout


async def test_times_that_nobody_was_there_for_are_caught_up_with_once_or_skipped(
    ada, at, serve
) -> None:
    server = serve("Hello.")
    add_job(ada, daily())
    add_job(ada, daily(id="fleeting", missed="skip"))
    at(MORNING + timedelta(days=3, hours=5))
    for _ in range(2):
        await run_due_jobs(ada, lambda _: None)
    await ada.aclose()
    assert len(server.requests) == 1
    assert [read_state(ada, job).outcome for job in read_jobs(ada)] == ["done", "skipped"]


async def test_a_run_with_a_wrong_clock_silences_no_job(ada, at, serve) -> None:
    server = serve("Hello.")
    add_job(ada, daily())
    for moment in (datetime(2038, 1, 19, 9, 0, tzinfo=UTC), MORNING, MORNING + timedelta(days=1)):
        at(moment)
        await run_due_jobs(ada, lambda _: None)
    assert len(server.requests) == 3
    assert read_state(ada, read_jobs(ada)[0]).last == iso(MORNING + timedelta(days=1))
    await ada.aclose()


async def test_a_job_that_was_added_with_a_wrong_clock_runs(ada, at, serve) -> None:
    server = serve("Hello.")
    at(MORNING)
    add_job(ada, daily(added="2038-01-19T09:00:00Z"))
    await run_due_jobs(ada, lambda _: None)
    assert len(server.requests) == 1
    await ada.aclose()


def test_the_doctor_names_a_time_that_lies_in_the_future(ada) -> None:
    add_job(ada, daily(added="2199-01-19T09:00:00Z"))
    ada.history.append("den", "user", "Hi", at=datetime(2199, 1, 1, tzinfo=UTC))
    checks = [check for check in data("doctor")["checks"] if check["name"] == "clock"]
    assert {check["verdict"] for check in checks} == {"warn"}
    told = " ".join(check["detail"] for check in checks)
    assert "'morning'" in told
    assert "turn 1" in told


async def test_a_model_that_fails_is_told_and_tried_again(ada, at, serve) -> None:
    server = serve(Fail(400, "no"), "Hello.")
    add_job(ada, daily())
    at(MORNING)
    told: list[Event] = []
    for _ in range(2):  # the second look comes too early
        assert 30 < await run_due_jobs(ada, told.append) <= 60
    assert [event.kind for event in told] == ["failed"]
    assert len(server.requests) == 1
    assert ada.history.recent("cli", 9, viewer=OWNER) == []
    ada.failures.clear("job morning")
    await run_due_jobs(ada, told.append)
    await ada.aclose()
    assert read_state(ada, read_jobs(ada)[0]).outcome == "done"


async def test_what_stays_wrong_with_the_jobs_is_told_once(ada) -> None:
    told: list[Event] = []
    daemon = Daemon(ada, asyncio.Event(), lambda _: None, told.append)
    ada.paths.jobs.write_text("[[job", "utf-8")
    for _ in range(3):
        await daemon._run_jobs()
    assert [event.kind for event in told] == ["failed"]
    assert "job list" in daemon.errors
    ada.paths.jobs.unlink()
    await daemon._run_jobs()
    assert daemon.errors == {}


YEAR = datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Berlin"))
CRONS = {  # of a persona: the schedule, and how often it comes in 2026
    "night": ("30 2 * * *", 365),  # skipped on 29 March, and there twice on 25 October
    "work": ("15 8 * * 1-2", 104),
    "week": ("0 5 * * sun", 52),
    "month": ("0 5 31 * *", 12),
    "year": ("every year on 29 february 9:00", 1),
    "hours": ("every 100 hours", 87),
}


async def test_jobs_of_a_persona_run_as_often_as_a_year_has_times(
    at, monkeypatch, tmp_path
) -> None:
    ran: list[tuple[str, datetime]] = []
    zone = YEAR.tzinfo

    async def note(_familiar: Familiar, job: Job, due: datetime) -> None:
        ran.append((job.id, due.astimezone(zone)))

    at(YEAR)
    crons = [{"id": name, "schedule": when, "say": "Hello"} for name, (when, _) in CRONS.items()]
    persona_of(tmp_path, crons)
    assert run("init", "--from-persona", str(tmp_path / "ines")).exit_code == 0
    (home() / "ines" / "character.toml").write_text('timezone = "Europe/Berlin"\n', "utf-8")
    monkeypatch.setattr(job_schedule, "_run_job", note)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    moment = YEAR
    with Familiar.load_from_disk(home(), "ines") as familiar:
        while moment < YEAR.replace(year=2027):
            at(moment)
            wait_s = await run_due_jobs(familiar, lambda _: None)
            moment = (moment.astimezone(UTC) + timedelta(seconds=wait_s)).astimezone(zone)

    assert Counter(name for name, _ in ran) == {name: often for name, (_, often) in CRONS.items()}
    assert len({(name, due.date()) for name, due in ran}) == len(ran)
    told = {f"{name} {due:%m-%d %H:%M %Z}" for name, due in ran}
    assert {"night 03-29 03:30 CEST", "night 10-25 02:30 CEST", "night 10-26 02:30 CET"} <= told
    assert {"week 03-29 05:00 CEST", "week 10-25 05:00 CET", "year 02-28 09:00 CET"} <= told


def persona_of(directory, crons: list[dict[str, object]]) -> None:
    persona = directory / "ines"
    persona.mkdir()
    (persona / "IDENTITY.md").write_text("# Ines\n\nA lighthouse keeper.\n", "utf-8")
    (persona / "CRONS.json").write_text(json.dumps(crons), "utf-8")


async def test_a_chat_runs_jobs_and_shows_what_they_say(ada, at, serve, capsys) -> None:
    server = serve("Good morning!")
    at(MORNING)
    add_job(ada, daily(channel="den"))
    beside = BackgroundNotices(Output("chat"), ada)
    assert beside.status() == "running jobs"
    beside.leave()
    assert capsys.readouterr().err.splitlines() == [
        "Running jobs; Ctrl-C postpones that.",
        "ada in den: Good morning!",
    ]
    assert BackgroundNotices(Output("chat"), ada).status() == ""
    assert len(server.requests) == 1


@each(
    "cron, rule",
    [
        ("0 8 * * *", "every day 8:00"),
        ("30 7 * * 1-2", "every monday and tuesday 7:30"),
        ("0 9 * * sun", "every sunday 9:00"),
        ("0 9 * * 7", "every sunday 9:00"),
        ("5 4 1 * *", "every month on the 1 4:05"),
        ("every day 9:00", "every day 9:00"),
        ("*/5 * * * *", ""),
        ("0 8 * 3 *", ""),
        ("0 8 1 * 1", ""),
        ("0 25 * * *", ""),
        ("0 8 * * 9", ""),
        ("rubbish", ""),
    ],
)
def test_a_cron_expression_becomes_a_rule(cron, rule) -> None:
    assert rule_of_cron(cron) == rule


def test_the_jobs_of_a_persona_run(tmp_path) -> None:
    crons = [
        {"id": "Tides", "schedule": "0 6 * * *", "prompt": "Tell the tides."},
        {"id": "poll", "schedule": "*/5 * * * *", "prompt": "Poll."},
        {"id": "off", "schedule": "0 6 * * *", "prompt": "Nothing.", "enabled": False},
    ]
    persona_of(tmp_path, crons)
    done = run("init", "--from-persona", str(tmp_path / "ines"))
    assert done.exit_code == 0
    assert "Job tides: every day 6:00" in done.stderr
    assert done.stderr.count("not run") == 2
    assert [(job["id"], job["say"]) for job in data("job", "ls")["jobs"]] == [
        ("tides", "Tell the tides.")
    ]


def test_jobs_are_added_listed_run_and_removed(serve) -> None:
    live("ada")
    serve("Hello!")
    added = data("job", "add", "every monday 9:00", "--say", "The week ahead", "--channel", "den")
    assert added["id"] == "the-week-ahead"
    (root,) = [path for path in home().iterdir() if path.name == "ada"]
    jobs = root / "jobs.toml"
    jobs.write_text(f"# mine\n{jobs.read_text('utf-8')}", "utf-8")
    data("job", "add", "every day 3:00", "--run", "sync")
    assert jobs.read_text("utf-8").startswith("# mine\n")
    assert [job["id"] for job in data("job", "ls")["jobs"]] == ["the-week-ahead", "sync"]
    assert run("job", "run", "the-week-ahead").stdout == "Hello!\n"
    assert data("job", "rm", "sync")["id"] == "sync"
    assert [job["id"] for job in data("job", "ls")["jobs"]] == ["the-week-ahead"]


def test_what_is_no_job_is_one_clear_error() -> None:
    live("ada")
    refused = {
        ("add", "every blue moon", "--say", "x"): 2,
        ("add", "every day 8:00"): 2,
        ("add", "every day 8:00", "--say", "x", "--run", "sync"): 2,
        ("add", "every day 8:00", "--run", "rm -rf"): 2,
        ("add", "every day 8:00", "--say", "x", "--missed", "maybe"): 2,
        ("add", "every day 8:00", "--say", "x", "--id", "../x"): 2,
        ("rm", "x"): 4,
        ("run", "x"): 4,
    }
    assert {argv: run("job", *argv).exit_code for argv in refused} == refused
    assert data("job", "ls")["jobs"] == []
    (home() / "ada" / "jobs.toml").write_text("[[job", "utf-8")
    assert run("job", "ls").exit_code == 3


JOB = "[[job]]\nid = 'a'\nwhen = 'every day 8:00'\nadded = '2026-01-31'\nrun = 'sync'\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[jobs]]\nid = 'a'\n", "unknown 'jobs'; the tables: job"),
        ("[[job]]\nid = 'a'\nat = '9:00'\n", "unknown 'at'; the keys of [[job]]: id, when"),
        ("[job]\nid = 'a'\n", "a job is a table [[job]]"),
        (
            JOB.replace("added = '2026", "added = 'soon"),
            "'added' of job 'a' is 'soon-01-31', but must be a time",
        ),
        (
            JOB.replace("'2026-01-31'", "2026-01-31"),
            "'added' of job 'a' is a time without quotes, but must be text",
        ),
        (JOB.replace("run = 'sync'", "say = 5"), "'say' of job 'a' is 5, but must be text"),
        (JOB.replace("'a'", "['a']"), "'id' of a job is a list, but must be text"),
        (JOB.replace("when = 'every day 8:00'\n", ""), "'when' of job 'a' is missing"),
        (JOB.replace("'sync'", "'sink'"), "cannot run 'sink'"),
        (JOB.replace("id = 'a'", "id = '../a'"), "'../a' cannot be a job's id, 'a' can"),
        (JOB * 2, "two jobs have the id 'a'"),
    ],
)
def test_an_invalid_file_of_jobs_is_an_error_that_names_the_mistake(ada, text, told) -> None:
    ada.paths.jobs.write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        read_jobs(ada)
    assert told in str(caught.value)
    assert str(ada.paths.jobs) in str(caught.value)
    assert "no job runs" in str(caught.value)


def test_doctor_names_a_job_that_can_never_run() -> None:
    root = live("ada")
    (root / "jobs.toml").write_text(JOB.replace("every day 8:00", "sometimes"), "utf-8")
    told = [one["detail"] for one in data("doctor", code=7)["checks"] if one["verdict"] == "fail"]
    assert any("Job 'a' has no valid schedule" in detail for detail in told)
