"""Find what a turn sent, or say why there is no record of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.diffs import unified
from familiar_cli.errors import NotFoundError
from familiar_cli.text import harmless

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.context.trace import Trace, TracedMessage, TracedRequest
    from familiar_cli.familiar import Familiar
    from familiar_cli.history.types import Turn

_ASK = 'Run `familiar ask "Hello"`.'


def find_trace(familiar: Familiar, turn: int | str | None = None) -> Trace:
    """Return what the turn `turn`, or else the newest, sent.

    Raises:
        NotFoundError: There is no record; the message says why.
        BadInputError: The record is damaged.
        UsageError: `turn` names no turn.
    """
    from familiar_cli.context.trace_files import latest, read_trace

    if turn is None:
        return latest(familiar.paths.traces)
    number = familiar.turn_number(turn)
    try:
        return read_trace(familiar.paths.traces, number)
    except NotFoundError as error:
        raise NotFoundError(_why(familiar, number), hint=_instead(familiar)) from error


def request_bytes(trace: Trace) -> bytes:
    """Return the exact bytes that went out. Raises as `sent_of`."""
    return sent_of(trace).body


def sent_of(trace: Trace) -> TracedRequest:
    """Return the request that went out.

    Raises:
        NotFoundError: None did.
    """
    if trace.request is None:
        raise NotFoundError(
            f"Nothing was sent for turn {trace.turn}: {trace.error or 'no request was made'}",
            hint=_ASK,
        )
    return trace.request


def messages_diff(older: Trace, newer: Trace) -> str:
    """Return how the messages of two turns differ, as a unified diff; empty when they do not."""
    before, after = _text(older.messages), _text(newer.messages)
    return unified(before, after, f"turn {older.turn}", f"turn {newer.turn}").rstrip("\n")


def _text(messages: Sequence[TracedMessage]) -> str:
    return "".join(f"--- {m.role}\n{harmless(m.content)}\n\n" for m in messages)


def _why(familiar: Familiar, turn: int) -> str:
    from familiar_cli.history.elsewhere import origins

    found = _turn(familiar, turn)
    if found is None:
        return f"No such turn: {turn}"
    if found.source.startswith("import"):
        return f"Turn {turn} was imported ({found.source}), so nothing was sent for it"
    written = origins(familiar.history, [turn]).get(turn)
    if written:
        return f"Turn {turn} was written down on {written.instance!r}, and what it sent is there"
    keep = familiar.config.context.keep_traces
    oldest = min(_kept(familiar), default=None)
    if keep and oldest is not None and turn < oldest:
        return (
            f"What turn {turn} sent is no longer kept: context.keep_traces = {keep}, "
            f"and the oldest kept is of turn {oldest}"
        )
    return f"Turn {turn} has no trace: no reply was requested, or its file was deleted"


def _instead(familiar: Familiar) -> str:
    kept = _kept(familiar)
    if not kept:
        return _ASK
    return f"Traces are kept from turn {min(kept)} to {max(kept)}: `familiar context {max(kept)}`."


def _kept(familiar: Familiar) -> set[int]:
    from familiar_cli.context.trace_files import trace_ids

    return trace_ids(familiar.paths.traces)


def _turn(familiar: Familiar, turn: int) -> Turn | None:
    if not familiar.paths.history.is_file():
        return None
    from familiar_cli.history.store import HistoryStore

    store = HistoryStore(familiar.paths.history)
    try:
        return store.turn(turn)
    finally:
        store.close()
