"""When a pass is due, and that no wish for one is dropped."""

from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from familiar_cli.base.config.schema import MemoryWriterSettings
from familiar_cli.base.errors import FamiliarError, ModelError
from familiar_cli.store.history import WRITER, HistoryStore
from familiar_cli.store.history.rows import IMPORTED
from familiar_cli.writing.writer.schedule import MemoryWriterScheduler, due_turns, is_due
from tests.support.cases import each


class Passes:
    """Passes that take their time; `waiting` turns wait, and a pass covers those it found."""

    def __init__(self, waiting=0, *, takes_s=0.02, fail=None) -> None:
        self.waiting, self.takes_s, self.fail = waiting, takes_s, fail
        self.covered: list[int] = []
        self.at_once = self.most_at_once = 0
        self.errors: list[Exception] = []

    async def write(self) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        found = self.waiting
        try:
            await asyncio.sleep(self.takes_s)
            if self.fail:
                raise self.fail
        finally:
            self.at_once -= 1
        self.waiting -= found
        self.covered.append(found)

    def scheduler(self, **settings) -> MemoryWriterScheduler:
        return MemoryWriterScheduler(
            self.write, lambda: self.waiting, on_error=self.errors.append, **settings
        )

    def said(self, scheduler, count=1) -> None:
        for _ in range(count):
            self.waiting += 1
            scheduler.notify_turn()


@each(
    ("waiting", "silence_s", "due"),
    [(0, 9999, False), (49, 0, False), (50, 0, True), (1, 1800, True), (1, 1799, False)],
)
def test_a_pass_is_due_at_the_threshold_or_after_a_silence(waiting, silence_s, due):
    assert is_due(waiting, silence_s, turn_threshold=50, idle_timeout=1800) is due


async def test_enough_turns_begin_a_pass() -> None:
    passes = Passes()
    scheduler = passes.scheduler(turn_threshold=3)

    passes.said(scheduler, 2)
    await asyncio.sleep(0.01)
    assert not scheduler.running
    passes.said(scheduler)
    await scheduler.flush()

    assert sum(passes.covered) == 3
    await scheduler.close()


async def test_a_silence_begins_a_pass_and_talk_puts_it_off() -> None:
    passes = Passes(takes_s=0)
    scheduler = passes.scheduler(idle_timeout=0.15)

    for _ in range(4):
        passes.said(scheduler)
        await asyncio.sleep(0.05)
    assert passes.covered == []
    await asyncio.sleep(0.4)

    assert passes.covered == [4]
    await scheduler.close()


async def test_a_silence_with_nothing_waiting_begins_none() -> None:
    passes = Passes(takes_s=0)
    scheduler = passes.scheduler(idle_timeout=0.02)
    scheduler.notify_turn()

    await asyncio.sleep(0.1)

    assert passes.covered == []
    await scheduler.close()


async def test_a_flush_during_a_run_is_queued_and_never_dropped() -> None:
    passes = Passes(1, takes_s=0.05)
    scheduler = passes.scheduler()
    first = asyncio.ensure_future(scheduler.flush())
    await asyncio.sleep(0.01)

    passes.waiting += 1  # said while the first pass runs, which does not see it
    await asyncio.gather(scheduler.flush(), scheduler.flush(), first)

    assert (passes.waiting, passes.covered, passes.most_at_once) == (0, [1, 1], 1)
    await scheduler.close()


async def test_a_pass_that_fails_is_told_of_and_the_next_wish_is_met() -> None:
    passes = Passes(2, fail=ModelError("no"))
    scheduler = passes.scheduler()

    await scheduler.flush()
    passes.fail = None
    await scheduler.flush()

    assert ([str(error) for error in passes.errors], passes.covered) == (["no"], [2])
    await scheduler.close()


async def test_what_failed_is_retried_when_its_time_has_come() -> None:
    passes = Passes(2, takes_s=0, fail=ModelError("no"))
    scheduler = passes.scheduler(retry_s=0.05)
    await scheduler.flush()

    passes.fail = None
    await asyncio.sleep(0.3)

    assert passes.covered == [2]
    await scheduler.close()


async def test_new_turns_do_not_bring_a_retry_forward() -> None:
    passes = Passes(takes_s=0, fail=ModelError("no"))
    scheduler = passes.scheduler(turn_threshold=1, retry_s=30)

    for _ in range(5):
        passes.said(scheduler)
        await asyncio.sleep(0.01)

    assert len(passes.errors) == 1
    await scheduler.close()


async def test_a_pass_asked_for_during_one_that_fails_waits_for_the_retry_too() -> None:
    passes = Passes(takes_s=0.02, fail=ModelError("no"))
    scheduler = passes.scheduler(turn_threshold=1, retry_s=30)

    passes.said(scheduler, 3)
    await asyncio.sleep(0.2)

    assert len(passes.errors) == 1
    await scheduler.close()


async def test_a_failure_of_an_earlier_process_is_waited_out() -> None:
    passes, left_s = Passes(2, takes_s=0), [0.1]
    scheduler = passes.scheduler(retry_in_s=lambda: left_s[0])

    scheduler.catch_up()
    await asyncio.sleep(0.02)
    assert passes.covered == []
    left_s[0] = 0
    await asyncio.sleep(0.2)

    assert passes.covered == [2]
    await scheduler.close()


async def test_a_flush_waits_for_no_retry() -> None:
    passes = Passes(2, takes_s=0)
    scheduler = passes.scheduler(retry_in_s=lambda: 900.0)

    await scheduler.flush()

    assert passes.covered == [2]
    await scheduler.close()


@pytest.mark.parametrize("error", [RuntimeError("boom"), ExceptionGroup("g", [OSError("disk")])])
async def test_any_exception_ends_a_flush_and_is_told_in_one_line(error) -> None:
    passes = Passes(2, fail=error)
    scheduler = passes.scheduler()

    await asyncio.wait_for(scheduler.flush(), 5)

    (told,) = passes.errors
    assert isinstance(told, FamiliarError)
    assert str(told).startswith(f"Unexpected error: {type(error).__name__}: ")
    await scheduler.close()


async def test_a_flush_ends_when_the_scheduler_is_closed() -> None:
    passes = Passes(1, takes_s=30)
    scheduler = passes.scheduler()
    flushing = asyncio.ensure_future(scheduler.flush())
    await asyncio.sleep(0.02)

    await scheduler.close()

    await asyncio.wait_for(flushing, 5)
    assert passes.covered == []


async def test_turns_that_cannot_be_counted_are_counted_again_later() -> None:
    passes = Passes(takes_s=0)
    scheduler = passes.scheduler(idle_timeout=0.02, retry_s=0.05)
    passes.said(scheduler)
    count, scheduler._waiting = scheduler._waiting, lambda: 1 // 0
    await asyncio.sleep(0.04)
    scheduler._waiting = count
    await asyncio.sleep(0.2)

    assert ([str(e) for e in passes.errors], passes.covered) == (
        ["Unexpected error: ZeroDivisionError: integer division or modulo by zero"],
        [1],
    )
    await scheduler.close()


async def test_closing_breaks_a_pass_off_and_nothing_more_begins() -> None:
    passes = Passes(1, takes_s=30)
    scheduler = passes.scheduler(turn_threshold=1, idle_timeout=0.01)
    passes.said(scheduler)
    await asyncio.sleep(0.02)

    await scheduler.close()
    await asyncio.sleep(0.05)

    assert (passes.covered, scheduler.running) == ([], False)


@pytest.fixture
def history(tmp_path):
    with closing(HistoryStore(tmp_path / "history.db")) as store:
        yield store


def said_at(history, *minutes) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for minute in minutes:
        history.append("cli", "user", f"At {minute}", at=start + timedelta(minutes=minute))


def due(history, *, is_local=False, **settings) -> int:
    return due_turns(history, MemoryWriterSettings(**settings), is_local=is_local)


@pytest.mark.parametrize(
    ("minutes", "waiting"),
    [
        ((0, 30, 30), 3),  # half an hour before what was said last
        ((0, 29, 59), 0),  # no half hour between two that follow each other
        ((0, 29, 60), 0),  # half an hour before the reply is none before what was said
        ((0, 60), 0),  # only the exchange itself waits
        ((0, 0, 40, 40), 4),
        ((0, 40, 40, 40), 0),  # the silence was before an earlier exchange
    ],
)
def test_the_silence_before_the_last_exchange_makes_a_pass_due(history, minutes, waiting) -> None:
    said_at(history, *minutes)
    assert due(history) == waiting
    assert due(history, is_local=True) == 0
    assert due(history, is_local=True, auto="on") == waiting
    assert due(history, auto="off") == 0


def test_what_was_said_long_ago_and_imported_now_is_no_silence(history) -> None:
    said_at(history, 0, 1)
    history.append("cli", "user", "Old", at=datetime(2020, 1, 1, tzinfo=UTC), source=IMPORTED)
    said_at(history, 2, 2)
    assert due(history) == 0
    assert due(history, turn_threshold=4) == 4


def test_the_silence_counts_only_turns_that_wait(history) -> None:
    said_at(history, 0, 40, 40)
    history.move_watermark(WRITER, 1)
    assert due(history) == 0
    assert due(history, turn_threshold=2) == 2
