"""The mark that says: this commit is decided, and may not be wholly on disk yet."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from familiar_cli.files import read_plain
from familiar_cli.memory.late_journal import PENDING_MARK

if TYPE_CHECKING:
    from familiar_cli.errors import FamiliarError
    from familiar_cli.files import Disk

NAME = PENDING_MARK
FORMER = "familiar-former"


@dataclass(frozen=True, slots=True)
class Pending:
    """A decided change.

    Args:
        base: The commit before it; None when it is the first.
        commit: The commit to be carried out.
        is_forward: The commit came from elsewhere, perhaps with others between it and `base`.
    """

    base: str | None
    commit: str
    is_forward: bool = False


def read(directory: str) -> Pending | None:
    """Return the mark, or None when every commit is on disk."""
    import json

    from familiar_cli.memory.journal.objects import is_id, unreadable

    try:
        found = json.loads(read_plain(os.path.join(directory, NAME)))
        mark = Pending(found["base"], found["commit"], bool(found.get("is_forward")))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(repr(NAME), error) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise senseless("makes no sense") from error
    if not is_id(mark.commit) or not (mark.base is None or is_id(mark.base)):
        raise senseless("names no commits")
    return mark


def senseless(why: str) -> FamiliarError:
    """Return the error for a mark that no change of ours has left."""
    from familiar_cli.memory.journal.objects import damaged

    error = damaged(f"{NAME!r} {why}")
    error.hint = (
        f"Delete {NAME!r} in journal.git: the memory stays as it is, and what differs from the"
        " journal is then committed as edited by hand."
    )
    return error


def write(directory: str, mark: Pending, disk: Disk) -> None:
    """Decide a change, durably. May raise OSError."""
    import json

    disk.put(os.path.join(directory, NAME), (json.dumps(asdict(mark)) + "\n").encode())


def clear(directory: str, disk: Disk) -> None:
    """Take the mark away. Should a power failure bring it back, finishing again changes nothing."""
    with suppress(FileNotFoundError):
        disk.unlink(os.path.join(directory, NAME))


def seen(directory: str) -> object:
    """Return a value that differs for every mark, None when there is none; costs one look."""
    try:
        status = os.lstat(os.path.join(directory, NAME))
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
