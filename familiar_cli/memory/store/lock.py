"""One writer at a time, by a lock between processes; readers wait until no change is half done."""

from __future__ import annotations

import json
import os
import platform
import sys
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from familiar_cli import clock
from familiar_cli.errors import FamiliarError, LockedError
from familiar_cli.files import locked, read_plain, write_own
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from familiar_cli.memory.journal import Journal


@contextmanager
def held(lock_path: Path, timeout_s: float) -> Iterator[None]:
    """Hold the lock at `lock_path`. A crash of the holder sets it free.

    Waiting is done in front of a second lock, and only who has that waits for the first. So a
    holder that wants to go on at once must queue up, too, and nobody is passed over for long.

    Raises:
        LockedError: Another thread or process held it for `timeout_s`.
        FamiliarError: The lock file cannot be made.
    """
    begun_s = clock.stopwatch_s()
    with ExitStack() as stack:
        try:
            lock_path.parent.mkdir(parents=True, exist_ok=True)
            with locked(lock_path.with_name(f"{lock_path.name}.next"), timeout_s):
                left_s = max(timeout_s - (clock.stopwatch_s() - begun_s), 0)
                stack.enter_context(locked(lock_path, left_s))
        except LockedError as error:
            raise _locked(lock_path) from error
        except OSError as error:
            raise FamiliarError(
                f"{str(lock_path.parent)!r} cannot be written to: {error.strerror or error};"
                " nothing was changed",
                hint="Check its permissions, and whether the disk is full or read-only.",
            ) from error
        _sign(lock_path)
        stack.callback(_unsign, lock_path)
        yield


def holder_path(lock_path: Path) -> Path:
    """Return the file that says who holds the lock."""
    return lock_path.with_name(f"{lock_path.name}.holder")


def holder(lock_path: Path) -> str | None:
    """Return who signed the lock last and has not given it back, in words."""
    try:
        who = json.loads(read_plain(holder_path(lock_path)))
        return one_line(
            f"process {who['pid']} on {who['host']} (`{who['command']}`), since {who['since']}", 200
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _sign(lock_path: Path) -> None:
    # A command's arguments may be private, so only the first word after it is told.
    command = [os.path.basename(sys.argv[0]) or "python", *sys.argv[1:2]]
    who = {
        "pid": os.getpid(),
        "host": platform.node(),
        "command": " ".join(command),
        "since": clock.iso(clock.now()),
    }
    with suppress(OSError):  # a courtesy: the lock holds without it
        write_own(holder_path(lock_path), json.dumps(who).encode(), durable=False)


def _unsign(lock_path: Path) -> None:
    with suppress(OSError):
        holder_path(lock_path).unlink()


def _locked(lock_path: Path) -> LockedError:
    who = holder(lock_path) or "another process"
    return LockedError(
        f"The memory is being changed by {who}; nothing was changed",
        hint="Try again when it has finished.",
    )


_PATIENCE_S = 0.05  # for the lock, before looking again whether the writer is done


def wait_for_pending(journal: Journal, lock_path: Path, timeout_s: float) -> None:
    """Return when every decided change is on disk; finish one whose writer is gone.

    One that cannot be finished stops no reader: the journal tells of it once.

    Raises:
        LockedError: A writer has been in the middle of a change for `timeout_s`.
    """
    begun_s = clock.stopwatch_s()
    while journal.pending():
        try:
            with held(lock_path, min(_PATIENCE_S, timeout_s)):
                return journal.begin()
        except LockedError:
            if clock.stopwatch_s() - begun_s > timeout_s:
                raise
        except FamiliarError as error:
            return journal.give_up(error)
    return None
