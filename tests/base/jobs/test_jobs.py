"""Work beside the loop holds up neither it nor the end of the program, and is never forgotten."""

from __future__ import annotations

import asyncio
import errno
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import pytest

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.jobs import (
    Drained,
    Jobs,
    apart,
    ends_within,
    finish_in_thread,
    in_thread,
    quick_turns,
)


async def test_it_returns_what_the_call_returns() -> None:
    assert await in_thread(lambda: 42) == 42


async def test_it_raises_what_the_call_raises() -> None:
    with pytest.raises(KeyError, match="x"):
        await in_thread(lambda: {}["x"])


def test_a_call_with_a_limit_is_left_to_itself_when_it_is_late() -> None:
    begun, may_end = threading.Event(), threading.Event()
    assert ends_within(begun.set, 20)
    assert not ends_within(lambda: may_end.wait(20), 0.01)
    may_end.set()
    with pytest.raises(KeyError):
        ends_within(lambda: {}["x"], 20)


async def test_threads_are_used_again_and_end_when_idle(monkeypatch) -> None:
    monkeypatch.setattr("familiar_cli.base.jobs._IDLE_S", 0.2)
    first = await in_thread(threading.current_thread)
    assert {await in_thread(threading.current_thread) for _ in range(20)} == {first}

    async def name_loop() -> asyncio.AbstractEventLoop:
        asyncio.get_running_loop().create_task(asyncio.sleep(60))  # nobody waits for it
        return asyncio.get_running_loop()

    loop = await apart(name_loop)
    assert await apart(name_loop) is loop
    await asyncio.to_thread(first.join, 20)
    assert not first.is_alive()
    assert loop.is_closed()
    assert await in_thread(lambda: 42) == 42


async def test_where_no_loop_can_be_made_it_fails_at_once(monkeypatch) -> None:
    class NoFiles(asyncio.Runner):
        def __init__(self) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("familiar_cli.base.jobs._here", threading.local())  # no worker has one
    monkeypatch.setattr(asyncio, "Runner", NoFiles)
    with pytest.raises(OSError, match="Too many open files"):
        await asyncio.wait_for(apart(nothing), 20)
    assert await in_thread(lambda: 42) == 42


async def test_the_loop_goes_on_meanwhile() -> None:
    slow = asyncio.ensure_future(in_thread(lambda: time.sleep(0.2)))
    await asyncio.sleep(0)

    assert not slow.done()
    await slow


async def test_what_writes_in_a_thread_is_finished_before_its_caller_is_cancelled() -> None:
    begun, may_end, written = threading.Event(), threading.Event(), []

    def write() -> None:
        begun.set()
        may_end.wait(20)
        written.append("all")

    async def call() -> None:
        await finish_in_thread(write)
        written.append("and what needs no waiting")
        await asyncio.sleep(60)

    task = asyncio.ensure_future(call())
    await in_thread(lambda: begun.wait(20))
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert written == ["all", "and what needs no waiting"]


async def test_a_deadline_over_writing_in_a_thread_is_still_a_deadline() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await finish_in_thread(lambda: time.sleep(0.2))
            await asyncio.sleep(60)


def test_a_program_ends_although_a_thread_does_not() -> None:
    code = (
        "import asyncio, time\n"
        "from familiar_cli.base.jobs import in_thread\n"
        "async def main():\n"
        "    await asyncio.wait_for(in_thread(lambda: time.sleep(60)), 0.05)\n"
        "try: asyncio.run(main())\n"
        "except TimeoutError: print('on time')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True
    )

    assert (done.stdout, done.stderr) == ("on time\n", "")


def test_an_answer_after_the_loop_has_closed_is_dropped() -> None:
    async def give_up() -> None:
        await asyncio.wait_for(in_thread(lambda: time.sleep(0.15)), 0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(give_up())
    time.sleep(0.2)


async def nothing() -> None:
    await asyncio.sleep(0)


def test_work_in_a_loop_of_its_own_holds_up_nobody() -> None:
    async def deaf() -> str:
        time.sleep(0.3)  # noqa: ASYNC251
        return "late"

    async def both() -> tuple[list[float], str]:
        late = asyncio.ensure_future(apart(deaf))
        start, ticks = time.perf_counter(), []
        for _ in range(5):
            await asyncio.sleep(0.02)
            ticks.append(time.perf_counter() - start)
        return ticks, await late

    ticks, said = asyncio.run(both())
    assert ticks[-1] < 0.3
    assert said == "late"


def test_work_apart_that_fails_fails_here() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        asyncio.run(apart(fail))


def test_work_apart_is_cancelled_with_its_caller() -> None:
    heard = threading.Event()

    async def listen() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            heard.set()
            raise

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(apart(listen), 0.1)

    asyncio.run(give_up())
    assert heard.wait(5)


def test_a_program_ends_quietly_while_work_apart_is_deaf() -> None:
    code = (
        "import asyncio, time\n"
        "from familiar_cli.base.jobs import apart\n"
        "async def deaf(): time.sleep(30)\n"
        "async def main():\n"
        "    try: await asyncio.wait_for(apart(deaf), 0.1)\n"
        "    except TimeoutError: print('on time')\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True
    )
    assert (done.stdout, done.stderr) == ("on time\n", "")


def test_quick_turns_that_overlap_leave_the_usual_interval() -> None:
    usual_s = sys.getswitchinterval()
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(quick_turns())
        second.enter_context(quick_turns())
        first.close()
        assert sys.getswitchinterval() < usual_s
    assert sys.getswitchinterval() == usual_s


def test_jobs_are_done_by_the_time_they_are_drained() -> None:
    jobs, seen = Jobs(), []

    async def work() -> None:
        await asyncio.sleep(0.01)
        seen.append(1)

    assert jobs.add("a", work)
    assert jobs.drain() == Drained(done=("a",))
    assert seen == [1]
    assert jobs.drain() == Drained()


def test_a_job_is_taken_on_once() -> None:
    jobs, end = Jobs(), threading.Event()

    async def work() -> None:
        await asyncio.to_thread(end.wait, 10)

    assert jobs.add("a", work)
    assert not jobs.add("a", nothing)
    jobs.start()
    assert not jobs.add("a", nothing)
    end.set()
    assert jobs.drain().done == ("a",)
    assert jobs.add("a", nothing)
    assert jobs.cancel() == Drained(cancelled=("a",))


def test_one_job_that_fails_is_told_and_harms_no_other() -> None:
    async def fail() -> None:
        raise FamiliarError("the disk is full")

    async def break_down() -> None:
        raise ZeroDivisionError("division by zero")

    jobs = Jobs()
    jobs.add("a", fail)
    jobs.add("b", nothing)
    jobs.add("c", break_down)

    drained = jobs.drain()
    assert drained.done == ("b",)
    assert sorted(drained.failed) == [
        ("a", "the disk is full"),
        ("c", "ZeroDivisionError: division by zero"),
    ]


def test_a_job_that_takes_too_long_is_broken_off_aloud() -> None:
    heard = threading.Event()

    async def slow() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            heard.set()
            raise

    jobs = Jobs()
    jobs.add("slow", slow)
    jobs.add("fast", nothing)

    assert jobs.drain(0.2) == Drained(done=("fast",), cancelled=("slow",))
    assert heard.is_set()


def test_jobs_can_be_broken_off_before_they_began() -> None:
    for _ in range(20):
        jobs = Jobs()
        jobs.add("a", lambda: asyncio.sleep(30))
        jobs.start()
        start = time.perf_counter()
        assert jobs.cancel() == Drained(cancelled=("a",))
        assert time.perf_counter() - start < 1


async def test_jobs_are_finished_while_the_event_loop_goes_on() -> None:
    jobs, ticks = Jobs(), []

    async def tick() -> None:
        while True:
            ticks.append(1)
            await asyncio.sleep(0.01)

    ticking = asyncio.ensure_future(tick())
    jobs.add("a", lambda: asyncio.sleep(0.2))
    assert await jobs.finish() == Drained(done=("a",))
    assert len(ticks) > 3
    ticking.cancel()


async def test_a_job_that_is_taken_on_while_another_is_under_way_is_done_too() -> None:
    jobs = Jobs()
    jobs.add("a", lambda: asyncio.sleep(0.1))
    jobs.start()
    jobs.add("b", nothing)

    assert await jobs.finish() == Drained(done=("a", "b"))


def test_a_job_can_be_taken_on_again_once_it_has_ended_by_itself() -> None:
    async def fail() -> None:
        raise FamiliarError("the disk is full")

    jobs = Jobs()
    for start in (fail, nothing):
        assert jobs.add("a", start)
        jobs.start()
        until = time.monotonic() + 10
        while jobs.names and time.monotonic() < until:
            time.sleep(0.01)

    assert jobs.drain() == Drained(done=("a",), failed=(("a", "the disk is full"),))


async def test_what_takes_too_long_is_broken_off_in_a_running_loop_too() -> None:
    jobs = Jobs()
    jobs.add("slow", lambda: asyncio.sleep(30))

    assert await jobs.finish(0.1) == Drained(cancelled=("slow",))


def ended(jobs: Jobs) -> Drained:
    """Wait until something has ended, and return what."""
    until = time.monotonic() + 10
    while (told := jobs.ended()) == Drained() and time.monotonic() < until:
        time.sleep(0.01)
    return told


def test_jobs_that_are_told_to_stop_hold_nobody_up_and_tell_later() -> None:
    async def deaf() -> None:
        time.sleep(0.5)  # noqa: ASYNC251

    jobs = Jobs()
    jobs.add("deaf", deaf)
    jobs.add("slow", lambda: asyncio.sleep(30))
    jobs.start()
    start = time.perf_counter()
    jobs.stop()
    assert time.perf_counter() - start < 0.3
    told = ended(jobs)
    assert "slow" in told.cancelled
    assert jobs.ended() == Drained()
    assert jobs.add("slow", nothing)


def test_what_waits_is_forgotten_when_all_is_told_to_stop() -> None:
    jobs = Jobs()
    jobs.add("a", nothing)
    jobs.stop()
    assert jobs.names == ()
    assert jobs.ended() == Drained(cancelled=("a",))


def test_what_has_ended_is_told_once_and_what_waits_begins() -> None:
    jobs = Jobs()
    jobs.add("a", nothing)
    jobs.start()
    jobs.add("b", nothing)
    seen = [*ended(jobs).done, *ended(jobs).done]
    assert sorted(seen) == ["a", "b"]
    assert jobs.ended() == Drained()


def test_a_program_that_ends_closes_the_loops_of_idle_threads() -> None:
    program = """
import asyncio, atexit
loops = []
atexit.register(lambda: print(loops[0].is_closed()))  # after those of the modules below
from familiar_cli.base.jobs import apart

async def name_loop():
    loops.append(asyncio.get_running_loop())

asyncio.run(apart(name_loop))
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=60, check=False
    )
    assert (ended.stdout.split(), ended.stderr) == ([b"True"], b"")
