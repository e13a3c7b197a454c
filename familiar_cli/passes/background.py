"""`Pass`: exclusive, remembered when it fails, retried later; `Passes` has those of a familiar."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from familiar_cli.errors import FamiliarError
from familiar_cli.passes.exclusive import exclusive
from familiar_cli.passes.failures import SYNCING, WRITING, as_failure, summary_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from familiar_cli.passes.failures import Failures

T = TypeVar("T")

_LOCKS: Final = {WRITING: ".writer.lock", SYNCING: ".sync.lock"}

PATIENCE_S: Final = 3600.0
"""How long whoever can wait does so while another process runs the same pass."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One kind of background work.

    Args:
        name: Its name, under which a failure is kept.
        lock_path: The lock that it holds while it runs.
        failures: Where its failure is kept.
    """

    name: str
    lock_path: Path
    failures: Failures

    @property
    def retry_in_s(self) -> float:
        """Seconds until whoever polls may run it; 0: now. A person's command need not wait."""
        failure = self.failures.of(self.name)
        return failure.retry_in_s if failure else 0.0

    async def run(
        self,
        work: Callable[[], Awaitable[T]],
        *,
        wait_s: float = PATIENCE_S,
        on_wait: Callable[[str], None] = lambda _: None,
        error_in: Callable[[T], FamiliarError | None] = lambda _: None,
        is_whole: bool = True,
    ) -> T:
        """Run the work while no other process does, and remember how it ended.

        Args:
            work: Does it, and returns what came of it.
            wait_s: The longest wait for another process.
            on_wait: Told once, who is waited for.
            error_in: Returns the failure that a result reports, if any.
            is_whole: Success clears an earlier failure; False: only a part of the work is done.

        Raises:
            LockedError: Another process is still at it; that is no failure.
            FamiliarError: The work failed, whatever it raised.
        """
        async with exclusive(self.lock_path, wait_s, on_wait):
            with self.recording():
                result = await work()
                error = error_in(result)
            if error:
                self.failures.record(self.name, error)
            elif is_whole:
                self.failures.clear(self.name)
            return result

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Remember an exception, and raise it as an error that can be told in one line.

        Raises:
            FamiliarError: What was raised inside.
        """
        try:
            yield
        except FamiliarError as error:
            self.failures.record(self.name, error)
            raise
        except Exception as error:  # whatever it is, the pass has failed and is retried
            failure = as_failure(error)
            self.failures.record(self.name, failure)
            raise failure from error


class Passes:
    """The background passes of one familiar.

    Args:
        root: The familiar's directory.
        failures: Where their failures are kept.
    """

    def __init__(self, root: Path, failures: Failures) -> None:
        self._root = root
        self._failures = failures

    def named(self, name: str) -> Pass:
        """Return a pass that a person can run, too; see `failures.COMMANDS`."""
        lock = _LOCKS.get(name, ".consolidation.lock")
        return Pass(name, self._root / lock, self._failures)

    def summary(self, scope: str) -> Pass:
        """Return the pass that summarises the turns of a scope; see `history.summaries`."""
        name = summary_name(scope)
        return Pass(name, self._root / "runs" / "locks" / f"{name}.lock", self._failures)
