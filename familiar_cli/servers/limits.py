"""Limits on what requests may use: bytes of their bodies, and working time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from familiar_cli.base.jobs import apart, in_thread
from familiar_cli.base.times.clock import WorkLimit, limited
from familiar_cli.servers.api_errors import ApiError

if TYPE_CHECKING:
    from starlette.types import Scope

_FREE_BYTES: Final = 64 * 1024  # of each body, so that a few large ones do not block others
LARGE_BYTES: Final = 1024 * 1024  # such bodies are processed one at a time
MOST_STREAMS: Final = {"server": 2_000, "token": 500, "person": 20}
"""Maximum number of open event streams; a person's are counted for each token."""

T = TypeVar("T")


class StreamSlots:
    """Counts open streams for each token and person."""

    def __init__(self) -> None:
        self._open: Counter[tuple[str, ...]] = Counter()

    def take(self, *owners: tuple[str, ...]) -> Callable[[], None]:
        """Count a stream, and return a function that ends it.

        Raises:
            ApiError: Too many are open already.
        """
        owners = (("server",), *owners)
        for owner in owners:
            if self._open[owner] >= MOST_STREAMS[owner[0]]:
                raise ApiError(
                    429,
                    f"This {owner[0]} already has {MOST_STREAMS[owner[0]]:,} open streams. "
                    "Close one first",
                    code="too_many_streams",
                )
        self._open.update(owners)
        return partial(self._open.subtract, owners)


class BodyPool:
    """The bytes that all requests together may hold.

    Args:
        most_bytes: The limit.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._held_bytes = 0
        self.one_large = asyncio.Semaphore(1)

    def take(self, size_bytes: int) -> None:
        """Reserve bytes.

        Raises:
            ApiError: The pool is exhausted.
        """
        if self._held_bytes + size_bytes > self._most_bytes:
            raise ApiError(
                503, "The server is busy with other large requests. Try again soon", code="busy"
            )
        self._held_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        """Release bytes."""
        self._held_bytes -= size_bytes


class RequestBudget:
    """The resources that one request may use. Handlers run heavy work through it.

    Args:
        pool: The pool shared by all requests.
        work_s: Maximum working time.
    """

    def __init__(self, pool: BodyPool, work_s: float) -> None:
        self._pool = pool
        self._work_s = work_s
        self._held_bytes = 0
        self._limit: WorkLimit | None = None
        self.body_bytes = 0

    @classmethod
    def of(cls, scope: Scope) -> RequestBudget:
        """Return the budget of a request that passed the guard."""
        budget = scope["familiar.budget"]
        assert isinstance(budget, cls)
        return budget

    def grow(self, size_bytes: int) -> None:
        """Reserve bytes for more of the body.

        Raises:
            ApiError: The pool is exhausted.
        """
        self.body_bytes += size_bytes
        target = max(self.body_bytes - _FREE_BYTES, 0) - self._held_bytes
        self._pool.take(target)
        self._held_bytes += target

    async def work(self, call: Callable[[], T]) -> T:
        """Run `call`, which must only read, in a thread, and return its result.

        Raises:
            OutOfTimeError: It takes too long, or the client disconnected.
        """
        return await self._run_limited(lambda: in_thread(call))

    async def work_apart(self, start: Callable[[], Coroutine[object, object, T]]) -> T:
        """Run a coroutine in a thread with its own event loop, and return its result.

        Raises:
            OutOfTimeError: It takes too long, or the client disconnected.
        """
        return await self._run_limited(lambda: apart(start))

    async def _run_limited(self, begin: Callable[[], Coroutine[object, object, T]]) -> T:
        if self.body_bytes <= LARGE_BYTES:
            return await self._begin_limited(begin)
        async with self._pool.one_large:
            return await self._begin_limited(begin)

    async def _begin_limited(self, begin: Callable[[], Coroutine[object, object, T]]) -> T:
        self._limit = self._limit or WorkLimit(self._work_s)
        self._limit.check()
        with limited(self._limit):
            return await begin()

    def client_left(self) -> None:
        """Cancel the work under way at its next check."""
        self._limit = self._limit or WorkLimit(self._work_s)
        self._limit.cancel()

    def close(self) -> None:
        """Release the reserved bytes."""
        self._pool.give_back(self._held_bytes)
        self._held_bytes = 0
