"""The records of turns on disk, in `traces/`.

A file is named by the id of the user's turn that was answered; the id of the reply leads to the
same file. See docs/decisions/0003-a-trace-bears-the-users-turn.md.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Final

from familiar_cli.context._stored import to_bytes
from familiar_cli.context.trace import Trace, damaged
from familiar_cli.errors import FamiliarError, NotFoundError
from familiar_cli.files import check_own, read_plain, write_own

if TYPE_CHECKING:
    from pathlib import Path

_LOOK_BACK: Final = 500  # so many records before a reply are searched for the one that led to it
_LOOSE_PERCENT: Final = 2  # of the records kept, so many more may stand until they are removed


def write_trace(traces_dir: Path, trace: Trace, *, keep: int = 0) -> None:
    """Write the record whole or not at all, and remove the oldest beyond `keep` (0: none).

    Finding the oldest means listing the directory, so of a large one it is not done every time; a
    few more than `keep` may stand for some turns. The one just written is never removed.

    Raises:
        ValueError: The record is of a dry run.
        FamiliarError: It cannot be written; the turn itself is not touched.
    """
    if trace.turn is None:
        raise ValueError("a dry run has no trace file")
    path = traces_dir / f"{trace.turn}.json"
    try:
        write_own(path, to_bytes(trace.to_json()), durable=False)
    except OSError as error:
        raise FamiliarError(
            f"The trace of turn {trace.turn} could not be written to {str(path)!r}: {error}"
        ) from error
    if keep and _is_due(trace.turn, keep):
        _remove_oldest(traces_dir, keep, trace.turn)


def read_trace(traces_dir: Path, turn_id: int) -> Trace:
    """Return the record of the turn `turn_id`: the user's, or the reply to it.

    Raises:
        NotFoundError: There is none.
        BadInputError: The file is damaged.
        RefusedError: A newer version of this program wrote it.
    """
    ids = trace_ids(traces_dir)
    if turn_id in ids:
        return _read(traces_dir / f"{turn_id}.json")
    older = sorted((known for known in ids if known < turn_id), reverse=True)
    for known in older[:_LOOK_BACK]:
        with contextlib.suppress(FamiliarError):  # a damaged one is not the one that was asked for
            trace = _read_if(traces_dir / f"{known}.json", turn_id)
            if trace is not None:
                return trace
    raise NotFoundError(
        f"No trace of turn {turn_id}",
        hint="Run `familiar context --last`; `context.keep_traces` says how many are kept.",
    )


def latest(traces_dir: Path) -> Trace:
    """Return the record of the newest turn that has one.

    Raises:
        NotFoundError: There is none yet.
        BadInputError: The file is damaged.
        RefusedError: A newer version of this program wrote it.
    """
    ids = trace_ids(traces_dir)
    if not ids:
        raise NotFoundError("Nothing was sent to a model yet", hint='Run `familiar ask "Hello"`.')
    return _read(traces_dir / f"{max(ids)}.json")


def trace_ids(traces_dir: Path) -> set[int]:
    """Return the ids of all user turns that have a record.

    Raises:
        FamiliarError: The directory cannot be read, or is a link.
    """
    check_own(traces_dir)
    try:
        names = [entry.name for entry in traces_dir.iterdir()]
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise _unreadable(traces_dir, error) from error
    stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
    return {int(stem) for stem in stems if stem.isascii() and stem.isdigit()}


def _read(path: Path) -> Trace:
    return _parse(path, _bytes(path))


def _read_if(path: Path, reply_turn: int) -> Trace | None:
    """Return the record if it is of that reply; most others are not even parsed."""
    content = _bytes(path)
    if str(reply_turn).encode() not in content:
        return None
    trace = _parse(path, content)
    return trace if trace.reply_turn == reply_turn else None


def _bytes(path: Path) -> bytes:
    try:
        return read_plain(path)
    except OSError as error:
        raise _unreadable(path, error) from error


def _parse(path: Path, content: bytes) -> Trace:
    try:
        record = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise damaged(str(path), "it is not JSON") from error
    return Trace.from_json(record, origin=str(path))


def _unreadable(path: Path, error: OSError) -> FamiliarError:
    return FamiliarError(
        f"{str(path)!r} cannot be read: {error.strerror or error}",
        hint="Check its permissions. Traces can be deleted without loss of memory.",
    )


def _is_due(turn_id: int, keep: int) -> bool:
    """Return whether the directory is tidied after this turn; of a small one, after each."""
    step = max(keep * _LOOSE_PERCENT // 100, 1)
    return turn_id // 2 % step == 0  # halved, since every second turn is a reply


def _remove_oldest(traces_dir: Path, keep: int, written: int) -> None:
    for turn_id in sorted(trace_ids(traces_dir) - {written}, reverse=True)[keep - 1 :]:
        # Another process may have removed it, or be reading it; the next turn tries again.
        with contextlib.suppress(OSError):
            (traces_dir / f"{turn_id}.json").unlink()
