"""Work in a thread neither holds up the loop nor the end of the program."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import pytest

from familiar_cli.jobs import in_thread


async def test_it_returns_what_the_call_returns() -> None:
    assert await in_thread(lambda: 42) == 42


async def test_it_raises_what_the_call_raises() -> None:
    with pytest.raises(KeyError, match="x"):
        await in_thread(lambda: {}["x"])


async def test_the_loop_goes_on_meanwhile() -> None:
    slow = asyncio.ensure_future(in_thread(lambda: time.sleep(0.2)))
    await asyncio.sleep(0)

    assert not slow.done()
    await slow


def test_a_program_ends_although_a_thread_does_not() -> None:
    code = (
        "import asyncio, time\n"
        "from familiar_cli.jobs import in_thread\n"
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
