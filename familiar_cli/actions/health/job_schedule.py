"""Scheduled jobs: a message that the familiar writes first, or a background pass."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from familiar_cli.base.config.values import describe_value
from familiar_cli.base.errors import (
    ConfigError,
    FamiliarError,
    LockedError,
    NotFoundError,
    UsageError,
)
from familiar_cli.base.files import read_plain, read_record, remove, write_own, write_whole
from familiar_cli.base.text import is_visible, join_names, nearest, one_line, slugify
from familiar_cli.base.times import recurrence
from familiar_cli.base.times.clock import iso, now, parse_iso
from familiar_cli.base.who.identity import check_id
from familiar_cli.familiar import Familiar
from familiar_cli.store.memory.pages.front_matter import PERSONA_DIR
from familiar_cli.store.passes import Event, as_failure, failed
from familiar_cli.sync.turns_outgoing import SAID_HERE
from familiar_cli.writing.consolidation.digests import NAMES

SOURCE: Final = "job"
"""The source of a turn that a job made."""

RUNS: Final = (
    "write-memory",
    "consolidate",
    "distill short",
    "distill mid",
    "distill long",
    "sync",
)
"""The passes that a job may run."""

MISSED: Final = ("run", "skip")
GRACE: Final = timedelta(hours=1)
"""What is later than this was missed, e.g. because nothing ran."""

_AGAIN_S: Final = 60.0  # pause after a job that is invalid or runs in another process
_MOST_JOBS: Final = 200
_MOST_CHARS: Final = 2_000
_HEAD: Final = "# Jobs of this familiar; see `familiar job --help`. You may edit them.\n"
_RULES: Final = "Write e.g. `every day 8:00`, `every monday 9:00` or `every 2 hours`."


class Job(Struct, frozen=True):
    """A job in `jobs.toml`.

    Args:
        when: Its recurrence, in the form of `parse_recurrence`.
        added: Its start, ISO 8601; earlier times are not caught up with.
        say: Topic of the message; empty for none.
        run: One of `RUNS`, or empty.
        channel: The channel of the message.
        missed: One of `MISSED`: what happens to missed times.
    """

    id: str
    when: str
    added: str
    say: str = ""
    run: str = ""
    channel: str = "cli"
    missed: str = "run"

    @property
    def rule(self) -> recurrence.Recurrence:
        """Its recurrence.

        Raises:
            ConfigError: `when` cannot be parsed.
        """
        rule = recurrence.parse_recurrence(self.when)
        if rule is None:
            raise ConfigError(f"Job {self.id!r} has no valid schedule: {self.when!r}", hint=_RULES)
        return rule

    @property
    def what(self) -> str:
        """Its work, in one line."""
        return self.run or f"say in {self.channel}: {one_line(self.say, 60)}"


class JobState(Struct, frozen=True):
    """The last run of a job.

    Args:
        last: The last time handled, ISO 8601, if any.
        outcome: `done` or `skipped`; empty if neither yet.
        turn: The turn that it made, if any.
    """

    last: str | None = None
    outcome: str = ""
    turn: int | None = None


def read_jobs(familiar: Familiar) -> list[Job]:
    """Read the jobs of a familiar.

    Raises:
        ConfigError: `jobs.toml` is damaged.
    """
    path = familiar.paths.jobs
    try:
        return _read_entries(tomllib.loads(read_plain(path).decode("utf-8-sig")))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, UsageError) as error:
        raise ConfigError(
            f"{str(path)!r} cannot be read: {one_line(str(error), 200)}; no job runs",
            hint="Repair the file by hand, or move it away.",
        ) from error


def _read_entries(document: dict[str, Any]) -> list[Job]:
    """Return the jobs in a file.

    Raises:
        ValueError, TypeError, UsageError: It holds anything else, or an invalid job.
    """
    _check_keys(document, ["job"], "tables")
    entries = document.get("job", [])
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise ValueError("a job is a table [[job]]")
    for one in entries:
        _check_keys(one, Job.__struct_fields__, "keys of [[job]]")
        _check_values(one)
    jobs = [_check_job(Job(**one)) for one in entries]
    for job in jobs:
        _check_id(job, jobs)
    return jobs


def _check_keys(table: Mapping[str, object], known: Sequence[str], what: str) -> None:
    """Refuse unknown keys: a typo would otherwise make a job that never runs.

    Raises:
        ValueError: There is such a key.
    """
    if unknown := sorted(table.keys() - set(known)):
        raise ValueError(
            f"unknown {join_names(map(repr, unknown))}; the {what}: {', '.join(known)}"
        )


def _check_values(entry: Mapping[str, object]) -> None:
    """Check that a job has what it needs, each as text.

    Raises:
        TypeError: A value is not text.
        ValueError: A key is missing, or `added` is not a time.
    """
    where = f" of job {entry['id']!r}" if isinstance(entry.get("id"), str) else " of a job"
    for key, value in entry.items():
        if not isinstance(value, str):
            raise TypeError(f"{key!r}{where} is {describe_value(value)}, but must be text")
    for key in ("id", "when", "added"):
        if key not in entry:
            raise ValueError(f"{key!r}{where} is missing")
    try:
        parse_iso(str(entry["added"]))
    except ValueError as error:
        example = "a time such as '2026-01-31T08:00:00Z'"
        raise ValueError(f"'added'{where} is {entry['added']!r}, but must be {example}") from error


def _check_id(job: Job, jobs: Sequence[Job]) -> None:
    """Check that a job's id names a file, and no other job.

    Raises:
        ValueError: It does not.
    """
    if slugify(job.id) != job.id:
        raise ValueError(f"{job.id!r} cannot be a job's id, {slugify(job.id)!r} can")
    if sum(one.id == job.id for one in jobs) > 1:
        raise ValueError(f"two jobs have the id {job.id!r}")


def _check_job(job: Job) -> Job:
    """Return the job if it is valid.

    Raises:
        UsageError: It says and runs nothing, or both, or something that does not exist.
    """
    if bool(job.say.strip()) == bool(job.run):
        raise UsageError("A job needs something to say or to run", hint="Use --say or --run.")
    if job.run and job.run not in RUNS:
        guess = nearest(job.run, RUNS)
        raise UsageError(
            f"A job cannot run {job.run!r}",
            hint=f"Did you mean {guess!r}?" if guess else f"It can run: {', '.join(RUNS)}.",
        )
    if job.missed not in MISSED:
        raise UsageError(f"'missed' must be 'run' or 'skip', not {job.missed!r}")
    if len(job.say) > _MOST_CHARS or not (job.run or is_visible(job.say)):
        raise UsageError(f"The text of a job must have 1 to {_MOST_CHARS:,} characters")
    check_id(job.channel, "The channel id")
    return job


def add_job(familiar: Familiar, wanted: Job, *, dry_run: bool = False) -> Job:
    """Add a job; return it with its id.

    Args:
        wanted: The job; its id defaults to one made from its text.
        dry_run: Only validate it.

    Raises:
        UsageError: It can never run, or its id is taken.
        ConfigError: `jobs.toml` is damaged.
    """
    import tomlkit  # edits keep a person's comments

    if recurrence.parse_recurrence(wanted.when) is None:
        raise UsageError(f"{wanted.when!r} is not a recurring time", hint=_RULES)
    jobs = read_jobs(familiar)
    taken = {job.id for job in jobs}
    base = wanted.id or slugify(wanted.say or wanted.run, max_chars=30) or "job"
    if slugify(base) != base:
        raise UsageError(f"{base!r} cannot be a job's id", hint=f"Try {slugify(base)!r}.")
    free = (base, *(f"{base}-{number}" for number in range(2, _MOST_JOBS + 2)))
    job_id = base if wanted.id else next(n for n in free if n not in taken)
    job = _check_job(replace(wanted, id=job_id))
    if job.id in taken or len(jobs) >= _MOST_JOBS:
        raise UsageError(
            f"There is a job {job.id!r} already" if job.id in taken else "There are too many jobs",
            hint=f"Remove it first: `familiar job rm {job.id}`.",
        )
    if not dry_run:
        path = familiar.paths.jobs
        document = tomlkit.parse(read_plain(path).decode("utf-8-sig") if path.exists() else _HEAD)
        entry = tomlkit.table()
        entry.update({key: value for key, value in to_builtins(job).items() if value})
        document.setdefault("job", tomlkit.aot()).append(entry)
        write_whole(path, tomlkit.dumps(document))
    return job


def remove_job(familiar: Familiar, job_id: str, *, dry_run: bool = False) -> Job:
    """Remove a job.

    Raises:
        NotFoundError: No such job.
        ConfigError: `jobs.toml` is damaged.
    """
    import tomlkit  # as above

    job = _job_called(familiar, job_id)
    if not dry_run:
        document = tomlkit.parse(read_plain(familiar.paths.jobs).decode("utf-8-sig"))
        entries: Any = document["job"]
        entries.remove(next(one for one in entries if one["id"] == job_id))
        write_whole(familiar.paths.jobs, tomlkit.dumps(document))
        with suppress(OSError):
            remove(_state_path(familiar, job_id))
    return job


def _job_called(familiar: Familiar, job_id: str) -> Job:
    job = next((job for job in read_jobs(familiar) if job.id == job_id), None)
    if job is None:
        raise NotFoundError(f"There is no job {job_id!r}", hint="List them: `familiar job list`.")
    return job


def read_state(familiar: Familiar, job: Job) -> JobState:
    """Read the last run of a job; a damaged file counts as empty."""
    state = read_record(_state_path(familiar, job.id), JobState) or JobState()
    try:
        if state.last:
            parse_iso(state.last)
    except ValueError:
        return JobState()
    return state


def next_run(familiar: Familiar, job: Job) -> datetime:
    """Return a job's next time in UTC: one that is due, else the next one."""
    due = _due_time(familiar, job)
    return due or recurrence.next_occurrence(
        job.rule, now(), familiar.zone, _first_day(familiar, job)
    )


def has_due_jobs(familiar: Familiar) -> bool:
    """Tell whether `run_due_jobs` would run anything now.

    Raises:
        ConfigError: `jobs.toml` is damaged.
    """
    return any(
        recurrence.parse_recurrence(job.when)
        and _due_time(familiar, job)
        and not familiar.passes.job(job.id).retry_in_s
        for job in read_jobs(familiar)
    )


async def run_due_jobs(familiar: Familiar, tell: Callable[[Event], None]) -> float:
    """Run the due jobs, once for each time; return the seconds until the next one.

    Called by long-running processes. Jobs that another process is running are skipped.

    Args:
        tell: Called with each event.
    """
    try:
        jobs = read_jobs(familiar)
    except FamiliarError as error:
        tell(failed("job list", error, 0))
        return float("inf")
    waits = [float("inf")]
    for job in jobs:
        wait_s = _AGAIN_S
        try:
            if _due_time(familiar, job):
                await _run_due(familiar, job, tell)
            wait_s = (next_run(familiar, job) - now()).total_seconds()
        except LockedError:
            pass  # another process is running it
        except FamiliarError as error:
            tell(failed("job list", error, familiar.passes.job(job.id).retry_in_s))
        waits.append(max(wait_s, familiar.passes.job(job.id).retry_in_s, 1.0))
    return min(waits)


async def _run_due(familiar: Familiar, job: Job, tell: Callable[[Event], None]) -> None:
    running = familiar.passes.job(job.id)
    if running.retry_in_s:
        return

    async def work() -> None:
        due = _due_time(familiar, job)
        if due is None:  # another process was faster
            return
        if job.missed == "skip" and now() - due > GRACE:
            _write_state(familiar, job, JobState(iso(due), "skipped"))
            return
        turn = await _run_job(familiar, job, due)
        _write_state(familiar, job, JobState(iso(due), "done", turn))
        text = f", turn {turn}" if turn else ""
        tell(Event("note", f"Job {job.id}: {job.what}{text}", data={"job": job.id, "turn": turn}))

    await running.run(work, wait_s=0)


async def run_job_now(familiar: Familiar, job_id: str) -> int | None:
    """Run a job outside its schedule; return the turn that it made, if any.

    Raises:
        NotFoundError: No such job.
        FamiliarError: It failed.
    """
    job = _job_called(familiar, job_id)
    items: list[int | None] = []

    async def work() -> None:
        items.append(await _run_job(familiar, job, now()))

    await familiar.passes.job(job.id).run(work)
    return items[0]


async def _run_job(familiar: Familiar, job: Job, due: datetime) -> int | None:
    if job.say:
        from familiar_cli.actions.talk.talk import write_first

        return (await write_first(familiar, job.channel, job.say, f"{job.id}@{iso(due)}")).id
    if job.run == "write-memory":
        from familiar_cli.actions.memory.write_memory import write_memory

        if error := (await write_memory(familiar, which=SAID_HERE)).error:
            raise error
    elif job.run == "sync":
        from familiar_cli.actions.share.sync import sync
        from familiar_cli.sync.engine import SyncOptions

        report = await sync(familiar, None, SyncOptions())
        for _, error in report.failed.values():
            raise error
    else:
        await _make_files(familiar, job.run)
    return None


async def _make_files(familiar: Familiar, what: str) -> None:
    from familiar_cli.actions.memory.consolidate import Consolidation, ConsolidationOptions

    making, how = Consolidation(familiar), ConsolidationOptions()
    if what == "consolidate":
        for error in (await making.consolidate(how)).failed:
            raise as_failure(error)
        return
    name = next(name for name in NAMES if what.endswith(name))
    for one in (making, *making.private()):
        await one.distill(name, how)


def _due_time(familiar: Familiar, job: Job) -> datetime | None:
    """Return the latest due time that was not handled, if any."""
    moment = now()
    due = recurrence.last_occurrence(job.rule, moment, familiar.zone, _first_day(familiar, job))
    stored = map(parse_iso, filter(None, (read_state(familiar, job).last, job.added)))
    handled = [at for at in stored if at <= moment]  # the clock may have been wrong
    return due if not handled or due > max(handled) else None


def _first_day(familiar: Familiar, job: Job) -> Any:  # noqa: ANN401  # a day, or a moment for hours
    added = min(parse_iso(job.added), now()).astimezone(familiar.zone)
    return added if job.rule.is_counted else added.date()


def _state_path(familiar: Familiar, job_id: str) -> Any:  # noqa: ANN401  # a path
    return familiar.paths.runs / "jobs" / f"{job_id}.json"


def _write_state(familiar: Familiar, job: Job, state: JobState) -> None:
    known = {key: value for key, value in to_builtins(state).items() if value is not None}
    write_own(_state_path(familiar, job.id), f"{json.dumps(known)}\n".encode())


CRONS: Final = f"{PERSONA_DIR}/CRONS.json"
"""Jobs of an imported persona, as its files had them."""

_SCHEDULE_KEYS: Final = ("schedule", "cron", "when", "at")
_TEXT_KEYS: Final = ("message", "prompt", "say", "text", "task", "content")


def adopt_crons(familiar: Familiar) -> tuple[list[Job], list[str]]:
    """Add the jobs of an imported persona; return the new ones, and why others do not run.

    Raises:
        ConfigError: `jobs.toml` is damaged.
        FamiliarError: The memory cannot be read.
    """
    try:
        told = json.loads(familiar.memory.read_file(CRONS))
    except (NotFoundError, ValueError):
        return [], []
    entries = told
    if isinstance(told, dict):
        entries = next((told[key] for key in ("jobs", "crons") if key in told), [])
    added: list[Job] = []
    problems: list[str] = []
    known = {job.id for job in read_jobs(familiar)}
    for entry in entries if isinstance(entries, list) else []:
        job = _job_of_cron(entry) if isinstance(entry, dict) else None
        if job is None:
            problems.append(f"CRONS.json: {one_line(json.dumps(entry), 120)} is kept, but not run")
        elif job.id not in known:
            try:
                added.append(add_job(familiar, job))
            except UsageError as error:
                problems.append(f"CRONS.json: {job.id or 'a job'} is not run: {error}")
    return added, problems


def _job_of_cron(entry: dict[str, Any]) -> Job | None:
    """Convert an entry of a persona to a job; None if it is disabled or means none."""
    if entry.get("enabled", True) is not True:
        return None
    schedule = next((entry[key] for key in _SCHEDULE_KEYS if isinstance(entry.get(key), str)), "")
    say = next((entry[key] for key in _TEXT_KEYS if isinstance(entry.get(key), str)), "")
    rule = rule_of_cron(schedule)
    name = entry.get("id") or entry.get("name")
    if not (rule and say.strip()):
        return None
    channel = entry.get("channel")
    return Job(
        slugify(name, max_chars=30) if isinstance(name, str) else "",
        rule,
        iso(now()),
        say.strip()[:_MOST_CHARS],
        channel=channel if isinstance(channel, str) and channel else "cli",
    )


_CRON: Final = re.compile(r"(\d{1,2}) (\d{1,2}) (\*|\d{1,2}) \* (\*|[\w,-]+)")
_CRON_DAYS: Final = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")


def rule_of_cron(schedule: str) -> str:
    """Convert a cron expression such as `0 8 * * 1-5` to a recurrence; empty if there is none."""
    match = _CRON.fullmatch(" ".join(schedule.split()))
    if match is None:
        return schedule if recurrence.parse_recurrence(schedule) else ""
    hour, minute, weekdays = int(match[2]), int(match[1]), match[4].lower()
    at = f"{hour}:{minute:02}"
    if match[3] != "*":
        days = f"month on the {int(match[3])}" if weekdays == "*" else ""
    elif weekdays == "*":
        days = "day"
    else:
        days = " and ".join(_cron_weekdays(weekdays))
    rule = f"every {days} {at}"
    return rule if days and recurrence.parse_recurrence(rule) else ""


def _cron_weekdays(words: str) -> list[str]:
    numbers: set[int] = set()
    for part in words.split(","):
        ends = [_cron_weekday(end) for end in part.split("-")]
        if -1 in ends or part.count("-") > 1:
            return []
        numbers |= {day % 7 for day in range(ends[0], ends[-1] + 1)}
    return [_CRON_DAYS[number] for number in sorted(numbers)]


def _cron_weekday(word: str) -> int:
    names = [day[:3] for day in _CRON_DAYS]
    if word.isdigit():
        return int(word) if int(word) <= len(names) else -1  # Sunday is 0, or 7
    return names.index(word[:3]) if word[:3] in names else -1
