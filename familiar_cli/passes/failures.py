"""The last failure of each background pass, kept on disk, and when it is retried.

Such a pass mostly runs after a reply or in a daemon, where nobody reads what it prints. Each kind
has one file, `runs/failed/<pass>.json`, which is deleted when the pass succeeds.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from familiar_cli import clock
from familiar_cli.errors import FamiliarError, LockedError, UnsafePathError
from familiar_cli.files import check_own, read_plain, remove, write_own
from familiar_cli.text import one_line, sha256_of

if TYPE_CHECKING:
    from pathlib import Path

WRITING: Final = "write-memory"
CONSOLIDATING: Final = "consolidate"
SYNCING: Final = "sync"
DISTILLING: Final = "distill {name}"
SUMMARISING: Final = "summary"
COMMANDS: Final = (
    WRITING,
    CONSOLIDATING,
    SYNCING,
    *(DISTILLING.format(name=name) for name in ("short", "mid", "long")),
)
"""The passes that a person can run: what to type after `familiar`."""

RETRY_AFTER: Final = tuple(timedelta(minutes=minutes) for minutes in (1, 2, 5, 10, 15))
"""How long after the first, second, ... failure in a row a pass is retried; the last repeats."""

_MESSAGE_CHARS: Final = 300
_KEY_CHARS: Final = 16


@dataclass(frozen=True, slots=True)
class PassFailure:
    """How a pass failed the last time.

    Args:
        command: What runs it again; empty when no command does.
        at: When, ISO 8601.
        code: The error's code, as in `--json`.
        message: What happened.
        hint: What mends it; empty when that is not known.
        attempts: How many times in a row it has failed.
    """

    command: str
    at: str
    code: str
    message: str
    hint: str
    attempts: int = 1

    @property
    def retry_in_s(self) -> float:
        """Seconds until it is retried; 0: now, also when the clock has been set back since."""
        elapsed = clock.now() - clock.parse_iso(self.at)
        if elapsed < timedelta():
            return 0.0
        wait = RETRY_AFTER[min(self.attempts, len(RETRY_AFTER)) - 1]
        return max((wait - elapsed).total_seconds(), 0.0)


class Failures:
    """Where failures are kept.

    Args:
        directory: The directory of their files.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def all(self) -> tuple[PassFailure, ...]:
        """Return the failures of the passes that a person can run."""
        return tuple(found for name in COMMANDS if (found := self.of(name)))

    def of(self, name: str) -> PassFailure | None:
        """Return how a pass failed the last time; None: it did not, or the file is damaged."""
        command = f"familiar {name}" if name in COMMANDS else ""
        try:
            self._check()
            fields = json.loads(read_plain(self._path(name)))
            at, code, message, hint = (
                str(fields[key]) for key in ("at", "code", "message", "hint")
            )
            attempts = max(int(fields.get("attempts", 1)), 1)
            failure = PassFailure(command, at, code, message, hint, attempts)
            clock.parse_iso(failure.at)
        except UnsafePathError:  # `doctor` says so
            return None
        except (OSError, ValueError, TypeError, LookupError, OverflowError, RecursionError):
            return None
        return failure

    def record(self, name: str, error: FamiliarError) -> None:
        """Keep how a pass failed. Having to wait for a lock is no failure."""
        if isinstance(error, LockedError):
            return
        before = self.of(name)
        fields = {
            "at": clock.iso(clock.now()),
            "code": error.code,
            "message": str(error),
            "hint": error.hint or "",
            "attempts": before.attempts + 1 if before else 1,
        }
        # Without the file it is retried sooner, and `status` is silent.
        with suppress(OSError, UnsafePathError):
            self._check()
            write_own(self._path(name), f"{json.dumps(fields)}\n".encode(), durable=False)

    def clear(self, name: str) -> None:
        """Forget the failure of a pass that has succeeded."""
        with suppress(OSError, UnsafePathError):
            self._check()
            remove(self._path(name))

    def _check(self) -> None:
        check_own(self._directory.parent)
        check_own(self._directory)

    def _path(self, name: str) -> Path:
        return self._directory / f"{name.replace(' ', '-')}.json"


def summary_name(scope: str) -> str:
    """Return the name of the pass that makes the summary of a scope; see `history.summaries`."""
    if not scope:
        return SUMMARISING
    digest = sha256_of(scope)
    return f"{SUMMARISING}-{digest[:_KEY_CHARS]}"


def as_failure(error: Exception) -> FamiliarError:
    """Return an exception as an error that can be told in one line; ours stay as they are."""
    if isinstance(error, FamiliarError):
        return error
    what = one_line(f"{type(error).__name__}: {error}", _MESSAGE_CHARS)
    return FamiliarError(f"Unexpected error: {what}", hint="This is a bug; please report it.")
