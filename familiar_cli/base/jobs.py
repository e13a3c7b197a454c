"""Work beside the event loop that nothing has to wait for."""

from __future__ import annotations

import asyncio
import atexit
import math
import queue
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Final, TypeVar

from msgspec import Struct

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.times.clock import stopwatch_s

T = TypeVar("T")
_STEP_S: Final = 0.02
_TURN_S: Final = 0.001  # Python's own is 0.005, and a prompt needs several turns after its deadline
_PATIENCE_S: Final = 2.0  # for a job that was told to stop; then it is left to itself

_IDLE_S: Final = 2.0  # after it a worker ends

_here = threading.local()  # of a worker: its runner and the tasks of its call, once it has one
_idle: list[_Worker] = []  # the one that worked last is last
_ending: list[_Worker] = []  # those that close their event loop
_idle_lock = threading.Lock()
_quick_lock = threading.Lock()
_usual_s: list[float] = []  # the interval to go back to, once for each who wants quick turns


async def in_thread(call: Callable[[], T]) -> T:
    """Run `call` in a thread, without blocking the event loop.

    Code in a thread cannot be stopped. If the caller is cancelled, the thread continues alone, its
    result is dropped, and the program may exit before it ends. So `call` may read but never write.
    """
    return await _begin(call)


def _begin(call: Callable[[], T]) -> asyncio.Future[T]:
    """Start `call` in a thread, and return a future for its result."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(act: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has closed: nobody waits any more
            loop.call_soon_threadsafe(lambda: None if answer.done() else act())

    def work() -> Callable[[], None]:
        try:
            value = call()
        except BaseException as error:  # noqa: BLE001  # whatever it is, the waiting side raises it
            failure = error
            return partial(settle, lambda: answer.set_exception(failure))
        return partial(settle, lambda: answer.set_result(value))

    _hand_over(work)
    return answer


def _hand_over(work: Callable[[], Callable[[], None]]) -> None:
    """Let a worker run `work`, and then what it returns."""
    run = partial(copy_context().run, work)  # so that the caller's work limit holds there
    with _idle_lock:
        worker = _idle.pop() if _idle else _Worker()
    worker.calls.put(run)


def ends_within(call: Callable[[], object], limit_s: float) -> bool:
    """Run `call` in a thread, and tell whether it ends in time; raise what it raises.

    The caller waits without yielding to an event loop, as only code that runs `apart` may. What is
    late continues alone, so `call` may read but never write.
    """
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def work() -> Callable[[], None]:
        try:
            call()
        except BaseException as error:  # noqa: BLE001  # whatever it is, the waiting side raises it
            return partial(ended.put, error)
        return partial(ended.put, None)

    _hand_over(work)
    try:
        error = ended.get(timeout=max(limit_s, 0.0))
    except queue.Empty:
        return False
    if error is not None:
        raise error
    return True


async def finish_in_thread(call: Callable[[], T]) -> T:
    """Run `call`, which may write, in a thread, and wait for its end without blocking the loop.

    If the caller is cancelled meanwhile, its next `await` raises that.
    """
    work = _begin(call)
    is_cancelled = False
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            is_cancelled = True
    if is_cancelled and (task := asyncio.current_task()):
        task.uncancel()  # so that it counts once
        task.cancel()
    return work.result()


class _Worker:
    """Daemon thread for one call after another; it ends when it is idle, or the program exits.

    Threads of an executor would keep the program from exiting while one reads.
    """

    def __init__(self) -> None:
        self.calls: queue.SimpleQueue[Callable[[], Callable[[], None]] | None]
        self.calls = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._work, daemon=True, name="familiar-read")
        self.thread.start()

    def _work(self) -> None:
        while call := self._next_call():
            settle = call()
            with _idle_lock:  # first, so that who is answered finds it idle
                _idle.append(self)
            settle()
            del call, settle  # with what they hold
        if runner := getattr(_here, "runner", None):
            runner.close()
        with _idle_lock:
            _ending.remove(self)

    def _next_call(self) -> Callable[[], Callable[[], None]] | None:
        """Wait for a call; None: there is none, and none will come."""
        with suppress(queue.Empty):
            return self.calls.get(timeout=_IDLE_S)
        with _idle_lock:
            if self in _idle:
                _idle.remove(self)
                _ending.append(self)
                return None
        return self.calls.get()  # it was taken just now


@atexit.register
def _end_idle_workers() -> None:
    """Wait until no idle thread has an open event loop, which Python could not close any more."""
    with _idle_lock:
        for worker in _idle:
            worker.calls.put(None)
        _ending.extend(_idle)
        _idle.clear()
        ending = list(_ending)
    for worker in ending:
        worker.thread.join(_PATIENCE_S)


async def apart(start: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run a coroutine in a thread with an event loop of its own.

    Blocking or CPU-bound code in it does not hold up the caller's loop. If the caller is cancelled,
    so is the coroutine, without waiting for it: code that does not await cannot be stopped, and its
    result is dropped.
    """
    reins = _Reins()

    def work() -> T:
        if not hasattr(_here, "runner"):  # its event loop holds three files
            _here.runner, _here.tasks = asyncio.Runner(), []
            _here.runner.get_loop().set_task_factory(_make_known_task)
        runner: asyncio.Runner = _here.runner
        return runner.run(reins.hold(start), context=copy_context())

    try:
        return await in_thread(work)
    except asyncio.CancelledError:
        reins.stop()
        raise


def _make_known_task(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[object, object, T],
    **options: Any,  # noqa: ANN401  # as the loop gives them
) -> asyncio.Task[T]:
    """Make a task that this thread knows; `asyncio.all_tasks` looks at those of all threads."""
    task = asyncio.Task(work, loop=loop, **options)
    _here.tasks.append(task)
    return task


@contextmanager
def quick_turns() -> Iterator[None]:
    """Make threads that compute yield more often, so that timers fire on time.

    Nestable; the last exit restores the usual switch interval.
    """
    with _quick_lock:
        _usual_s.append(_usual_s[0] if _usual_s else sys.getswitchinterval())
        sys.setswitchinterval(min(_usual_s[0], _TURN_S))
    try:
        yield
    finally:
        with _quick_lock:
            usual_s = _usual_s.pop()
            if not _usual_s:
                sys.setswitchinterval(usual_s)


class _Reins:
    """Stops a coroutine that runs in another thread, whether or not it has begun there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped = False
        self._cancel: Callable[[], object] | None = None

    async def hold(self, start: Callable[[], Coroutine[object, object, T]]) -> T:
        """Run the coroutine here."""
        task = asyncio.current_task()
        assert task is not None
        with self._lock:
            self._cancel = partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel)
            if self._stopped:
                raise asyncio.CancelledError
        try:
            return await start()
        finally:
            for left in _here.tasks:
                if left is not task:
                    left.cancel()
            _here.tasks.clear()

    def stop(self) -> None:
        """Cancel it."""
        with self._lock, suppress(RuntimeError):  # its loop has closed: it has ended
            self._stopped = True
            if self._cancel:
                self._cancel()


class Drained(Struct, frozen=True):
    """Outcomes of jobs: names of those done, failed (with the error), and cancelled."""

    done: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    cancelled: tuple[str, ...] = ()


def _both(first: Drained, then: Drained) -> Drained:
    """Join two reports; of a job that ended twice, the later outcome."""
    return Drained(
        tuple(dict.fromkeys((*first.done, *then.done))),
        tuple({**dict(first.failed), **dict(then.failed)}.items()),
        tuple(dict.fromkeys((*first.cancelled, *then.cancelled))),
    )


class Jobs:
    """Work after a reply. It waits for `start`, and ends in `drain` or `cancel`.

    Jobs run in one thread, beside a person who types or a running event loop. A job is identified
    by its name and not added twice. Jobs added while others run begin with the next `start`.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, Callable[[], Coroutine[object, object, object]]] = {}
        self._running: _Run | None = None
        self._ended = Drained()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all unfinished jobs."""
        running = self._running.names if self._running and not self._running.has_ended else ()
        return (*running, *self._waiting)

    def add(self, name: str, start: Callable[[], Coroutine[object, object, object]]) -> bool:
        """Add a job. Return whether it is new."""
        if name in self.names:
            return False
        self._waiting[name] = start
        return True

    def start(self) -> None:
        """Start the waiting jobs unless others are running."""
        if self._running and self._running.has_ended:
            self._ended = _both(self._ended, self._running.end())
            self._running = None
        if self._waiting and self._running is None:
            self._running = _Run(self._waiting)
            self._waiting = {}

    def drain(self, limit_s: float | None = None) -> Drained:
        """Start the waiting jobs, wait for all to end, and report their outcomes.

        Args:
            limit_s: Cancel jobs that take longer than this; None: no limit.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed; nothing is cancelled yet, see `cancel`.
        """
        for run, step_s in self._steps(limit_s):
            run.wait(step_s)
        return self.cancel()

    async def finish(self, limit_s: float | None = None) -> Drained:
        """Do the same as `drain`, without blocking the event loop.

        If the caller is cancelled, no job is cancelled yet.
        """
        for _, step_s in self._steps(limit_s):
            await asyncio.sleep(step_s)
        return await asyncio.to_thread(self.cancel)

    def cancel(self) -> Drained:
        """Cancel running jobs, discard waiting ones, and report their outcomes.

        Jobs that ended since the last report are included.
        """
        ended, self._ended = self._ended, Drained()
        if self._running is not None:
            ended = _both(ended, self._running.end())
            self._running = None
        waiting, self._waiting = tuple(self._waiting), {}
        return _both(ended, Drained(cancelled=waiting))

    def stop(self) -> None:
        """Signal running jobs to stop without waiting, and discard waiting ones."""
        waiting, self._waiting = tuple(self._waiting), {}
        self._ended = _both(self._ended, Drained(cancelled=waiting))
        if self._running is not None:
            self._running.stop()

    def ended(self) -> Drained:
        """Report the jobs that ended since the last report, and start the waiting ones."""
        self.start()
        ended, self._ended = self._ended, Drained()
        return ended

    def _steps(self, limit_s: float | None) -> Iterator[tuple[_Run, float]]:
        """Yield each run with a time to wait, until all are done or the time is up.

        The waits are short, so that Ctrl-C is noticed on every system.
        """
        until = math.inf if limit_s is None else stopwatch_s() + limit_s
        self.start()
        while self._running is not None and (left_s := until - stopwatch_s()) > 0:
            yield self._running, min(_STEP_S, left_s)
            self.start()


class _Run:
    """Running jobs in a thread of their own."""

    def __init__(self, jobs: dict[str, Callable[[], Coroutine[object, object, object]]]) -> None:
        self.names = tuple(jobs)
        self._jobs = jobs
        self._results: dict[str, BaseException | None] = {}
        self._loop = asyncio.new_event_loop()
        self._tasks: dict[str, asyncio.Task[object]] = {}  # held, or they could be thrown away
        self._stopped = False
        self._thread = threading.Thread(target=self._work, daemon=True, name="familiar-jobs")
        self._thread.start()

    def wait(self, limit_s: float) -> None:
        """Wait until all is done, but no longer than `limit_s`."""
        self._thread.join(limit_s)

    @property
    def has_ended(self) -> bool:
        """Whether all is done."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Cancel unfinished jobs without waiting for them."""
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._cancel)

    def end(self) -> Drained:
        """Cancel unfinished jobs, wait briefly for them, and report."""
        self.stop()
        self._thread.join(_PATIENCE_S)
        results = dict(self._results)
        return Drained(
            done=tuple(n for n in self.names if n in results and results[n] is None),
            failed=tuple((n, _words(e)) for n, e in results.items() if _is_failure(e)),
            cancelled=tuple(
                n
                for n in self.names
                if n not in results or isinstance(results[n], asyncio.CancelledError)
            ),
        )

    def _work(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._all())

    async def _all(self) -> None:
        self._tasks = {
            name: asyncio.ensure_future(self._one(name, start))
            for name, start in self._jobs.items()
        }
        if self._stopped:
            self._cancel()
        await asyncio.wait(self._tasks.values())

    async def _one(self, name: str, start: Callable[[], Coroutine[object, object, object]]) -> None:
        try:
            await start()
        except BaseException as error:  # noqa: BLE001  # one job's failure is not another's
            self._results[name] = error
        else:
            self._results[name] = None

    def _cancel(self) -> None:
        self._stopped = True
        for task in self._tasks.values():
            task.cancel()


def _is_failure(error: BaseException | None) -> bool:
    return error is not None and not isinstance(error, asyncio.CancelledError)


def _words(error: BaseException | None) -> str:
    known = isinstance(error, FamiliarError)
    return str(error) if known else f"{type(error).__name__}: {error}"
