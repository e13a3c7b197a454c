"""One mechanism for all background passes: exclusive, remembered, retried later, cancellable."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from familiar_cli.base.errors import FamiliarError, LockedError, ModelError
from familiar_cli.store.memory.store.store import hold_lock
from familiar_cli.store.passes import CONSOLIDATING, WRITING, Failures, Passes, until_stopped


@pytest.fixture
def passes(tmp_path):
    return Passes(tmp_path, Failures(tmp_path / "runs" / "failed"))


@pytest.fixture
def writing(passes):
    return passes.named(WRITING)


async def fail(error):
    raise error


async def done(value=None):
    return value


async def test_it_returns_what_the_work_returns_and_forgets_an_earlier_failure(writing) -> None:
    with pytest.raises(ModelError):
        await writing.run(lambda: fail(ModelError("no")))
    assert 0 < writing.retry_in_s <= 60

    assert await writing.run(lambda: done(3)) == 3
    assert writing.retry_in_s == 0


async def test_a_part_of_the_work_clears_no_failure(writing) -> None:
    with pytest.raises(ModelError):
        await writing.run(lambda: fail(ModelError("no")))

    await writing.run(done, is_whole=False)

    assert writing.retry_in_s > 0


async def test_a_failure_within_a_result_is_remembered(writing) -> None:
    await writing.run(lambda: done(ModelError("half")), error_in=lambda error: error)
    await writing.run(
        lambda: done(ModelError("half")), error_in=lambda error: error, is_whole=False
    )

    assert (writing.failures.of(WRITING).message, writing.failures.of(WRITING).attempts) == (
        "half",
        2,
    )


async def test_any_exception_is_remembered_and_told_in_one_line(writing) -> None:
    with pytest.raises(FamiliarError, match=r"Unexpected error: KeyError: 'x'"):
        await writing.run(lambda: fail(KeyError("x")))

    assert writing.failures.of(WRITING).message == "Unexpected error: KeyError: 'x'"
    await writing.run(done)  # the lock is free


async def test_whoever_will_not_wait_is_told_and_that_is_no_failure(writing) -> None:
    with hold_lock(writing.lock_path, 0), pytest.raises(LockedError, match="did not start"):
        await writing.run(done, wait_s=0)

    assert writing.failures.all() == ()


async def test_whoever_waits_is_told_once_for_whom(writing) -> None:
    notes = []
    lock = hold_lock(writing.lock_path, 0)
    lock.__enter__()
    asyncio.get_running_loop().call_later(0.5, lock.__exit__, None, None, None)

    assert await writing.run(lambda: done(1), on_wait=notes.append) == 1

    assert len(notes) == 1


async def test_cancelling_frees_the_lock_and_is_no_failure(writing) -> None:
    running = asyncio.ensure_future(writing.run(lambda: asyncio.sleep(30)))
    await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    with hold_lock(writing.lock_path, 0):
        pass
    assert writing.failures.all() == ()


def test_a_crash_of_the_holder_frees_it(writing) -> None:
    code = f"""
import sys, time
from pathlib import Path
from familiar_cli.store.memory.store.store import hold_lock
with hold_lock(Path({str(writing.lock_path)!r}), 0):
    print("held", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockedError):
            asyncio.run(writing.run(done, wait_s=0))
        holder.kill()
        holder.wait()
        assert asyncio.run(writing.run(lambda: done(1), wait_s=0)) == 1


async def test_writing_consolidating_and_summarising_hold_up_one_another_not(passes) -> None:
    locks = [passes.named(WRITING), passes.named(CONSOLIDATING), passes.summary("")]
    locks.append(passes.summary("dm"))
    assert len({one.lock_path for one in locks}) == len(locks)
    assert passes.named("distill mid").lock_path == passes.named(CONSOLIDATING).lock_path


async def test_stopping_cancels_the_work_and_waits_for_it() -> None:
    stop, ended = asyncio.Event(), []

    async def work() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0.01)
            ended.append(True)

    asyncio.get_running_loop().call_later(0.05, stop.set)
    await asyncio.wait_for(until_stopped(work(), stop), 5)
    assert ended == [True]


async def test_work_that_ends_by_itself_raises_what_it_raised() -> None:
    with pytest.raises(ModelError):
        await until_stopped(fail(ModelError("no")), asyncio.Event())
