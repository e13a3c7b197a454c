"""When a pass is due, and that no wish for one is dropped."""

from __future__ import annotations

import asyncio

import pytest

from familiar_cli.errors import ModelError
from familiar_cli.writer.scheduler import MemoryWriterScheduler, is_due
from familiar_cli.writer.watch import until, watch


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


@pytest.mark.parametrize(
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


async def test_what_failed_is_tried_again_after_the_next_silence() -> None:
    passes = Passes(2, takes_s=0, fail=ModelError("no"))
    scheduler = passes.scheduler(idle_timeout=0.05)
    await scheduler.flush()

    passes.fail = None
    await asyncio.sleep(0.3)

    assert passes.covered == [2]
    await scheduler.close()


async def test_closing_breaks_a_pass_off_and_nothing_more_begins() -> None:
    passes = Passes(1, takes_s=30)
    scheduler = passes.scheduler(turn_threshold=1, idle_timeout=0.01)
    passes.said(scheduler)
    await asyncio.sleep(0.02)

    await scheduler.close()
    await asyncio.sleep(0.05)

    assert (passes.covered, scheduler.running) == ([], False)


async def test_whoever_watches_catches_up_first_and_notices_new_turns() -> None:
    passes, newest, stop = Passes(3, takes_s=0), [3], asyncio.Event()
    scheduler = passes.scheduler(turn_threshold=2)
    watching = asyncio.ensure_future(watch(scheduler, lambda: newest[0], stop, poll_s=0.01))
    await asyncio.sleep(0.05)
    assert passes.covered == [3]

    passes.waiting, newest[0] = 2, 5
    await asyncio.sleep(0.1)
    stop.set()
    await watching

    assert passes.covered == [3, 2]


async def test_whoever_only_catches_up_ends_then() -> None:
    passes = Passes(3)

    await until(asyncio.Event(), passes.scheduler())

    assert passes.covered == [3]
