"""Turns as files: append-only `turns/<instance>/<yyyy-mm>.jsonl`, one JSON object a line.

A line stands in the file of the month in which it was written there, never in one that is older
than another file of the instance: whatever a clock or an imported chat says, bytes are only added,
and only to the newest file. A file that has grown large is followed by another one of its month,
`<yyyy-mm>_002.jsonl` and so on, so that one more turn never costs what a whole archive does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import now
from familiar_cli.history.incoming import (
    InstanceTwiceError,
    Taken,
    intake,
    read_there,
    rename,
    taken_through,
)
from familiar_cli.history.lines import BadLineError, ThroughLine, dumped, parsed
from familiar_cli.history.outgoing import outgoing
from familiar_cli.history.provenance import unrestricted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from familiar_cli.history.provenance import FactScope
    from familiar_cli.history.store import HistoryStore

__all__ = [
    "BadLineError",
    "InstanceTwiceError",
    "Since",
    "Taken",
    "new_lines",
    "read_there",
    "rename",
    "since",
    "take_in",
    "taken_through",
]

MOST_LINE_BYTES: Final = 64 * 1024 * 1024
"""A longer line is no turn of this program's."""

_AT_ONCE: Final = 20_000  # lines of one transaction
_LARGE_BYTES: Final = 1024 * 1024
_MOST_PARTS: Final = 999  # a name with more digits would not sort after the others
_FILE: Final = re.compile(
    r"turns/([a-z0-9]+(?:-[a-z0-9]+)*)/([0-9]{4}-(?:0[1-9]|1[0-2]))(?:_([0-9]{3}))?\.jsonl"
)


@dataclass(frozen=True, slots=True)
class Since:
    """What an instance's files hold already.

    Args:
        through: Their last line, which says how far they reach.
        rel_path: The newest of them; empty: there is none.
        size_bytes: How large that is.
    """

    through: ThroughLine = field(default_factory=lambda: ThroughLine(0, 0))
    rel_path: str = ""
    size_bytes: int = 0


def since(rel_path: str, data: bytes) -> Since:
    """Read the contents of a series of files that ends with `rel_path`.

    Args:
        rel_path: Its path.
        data: Its bytes, or their end with at least its last line.

    Raises:
        BadLineError: Its last line does not say how far it reaches.
    """
    last = data.rstrip(b"\n").rpartition(b"\n")[2]
    line = parsed(last)
    if not isinstance(line, ThroughLine):
        raise BadLineError(f"{rel_path!r} does not end with a `through` line")
    return Since(line, rel_path, len(data))


def file_of(rel_path: str) -> tuple[str, str, int] | None:
    """Return the instance, the month and the part of a file of turns; None: it is none."""
    found = _FILE.fullmatch(rel_path)
    return (found[1], found[2], int(found[3] or 1)) if found else None


def new_lines(
    history: HistoryStore, own: str, since: Since, *, at: datetime | None = None
) -> tuple[str, Iterator[bytes]]:
    """Return the file to which new lines are added, and those lines; none if nothing is new.

    Args:
        history: The history.
        own: The instance that this is.
        since: What its files hold already.
        at: The present; None: now.

    Raises:
        FamiliarError: As `HistoryStore.append`, while the lines are read.
    """
    this_month = f"turns/{own}/{at or now():%Y-%m}.jsonl"
    rel_path = max(this_month, _next_part(since))
    return rel_path, map(dumped, outgoing(history, own, since.through))


def _next_part(since: Since) -> str:
    """Return the file that goes on with the newest one: itself, unless it has grown large."""
    named = file_of(since.rel_path)
    if named is None or since.size_bytes < _LARGE_BYTES:
        return since.rel_path
    instance, month, part = named
    return f"turns/{instance}/{month}_{min(part + 1, _MOST_PARTS):03}.jsonl"


def take_in(
    history: HistoryStore,
    own: str,
    rel_path: str,
    data: bytes,
    offset: int = 0,
    *,
    scope_of: Callable[[str], FactScope] = unrestricted,
) -> Taken:
    """Take in what a file of turns says; the same again changes nothing.

    A line without an end is left for later. Lines that stand before a bad one are kept.

    Args:
        history: The history.
        own: The instance that this is.
        rel_path: The file's path.
        data: Its bytes from `offset` on.
        offset: Where `data` begins, which is the beginning of a line.
        scope_of: Returns which facts of an instance are accepted.

    Raises:
        BadLineError: The file has no right name, or a line says what cannot be.
        InstanceTwiceError: A turn with the same name is another one here.
        FamiliarError: As `HistoryStore.append`.
    """
    named = file_of(rel_path)
    if named is None:
        raise BadLineError(f"{rel_path!r} is not a turn file; nothing of it was read")
    taken, start = Taken(), 0
    while start < len(data):
        end, problem = start, None
        with intake(history, own, scope_of) as taking:
            for _ in range(_AT_ONCE):
                stop = data.find(b"\n", end)
                if stop < 0:
                    break
                try:
                    taking.take(named[0], _text(data[end:stop]))
                except BadLineError as error:
                    problem = error
                    break
                end = stop + 1
            if end > start:
                taking.note_through(named[0], rel_path, offset + start, offset + end)
        taken = taken.plus(taking.taken)
        if problem is None and len(data) - end > MOST_LINE_BYTES and end == start:
            problem = BadLineError("it is unterminated")
        if problem is not None:
            at = data.count(b"\n", 0, end) + 1
            where = f"Line {at} of {rel_path!r}" + (f", from byte {offset} on," if offset else "")
            raise BadLineError(
                f"{where} cannot be read: {problem}; the lines before it were",
                hint="Sync again once the instance that wrote it has been repaired.",
            ) from problem
        if end == start:
            break
        start = end
    return taken


def _text(line: bytes) -> str:
    if len(line) > MOST_LINE_BYTES:
        raise BadLineError("it is too long")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise BadLineError("it is not UTF-8") from error
