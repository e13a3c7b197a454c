"""Find what turns sent, in their traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from typing import Final

from msgspec import Struct

from familiar_cli.base.errors import FamiliarError, NotFoundError
from familiar_cli.base.text import harmless, unified
from familiar_cli.context import types
from familiar_cli.context.trace import Trace, TracedMessage, latest_trace, read_trace, trace_ids
from familiar_cli.familiar import Familiar
from familiar_cli.llm.types import PreparedRequest
from familiar_cli.store.history.rows import Turn

_ASK = 'Run `familiar ask "Hello"`.'


def find_trace(familiar: Familiar, turn: int | str | None = None) -> Trace:
    """Read the trace of `turn`, or else of the newest turn.

    Raises:
        NotFoundError: There is no trace; the message says why.
        BadInputError: The trace is damaged.
        UsageError: `turn` is not a turn.
    """
    if turn is None:
        if not trace_ids(familiar.paths.traces) and _was_anybody_forgotten(familiar):
            raise NotFoundError(
                "No record of what was sent is left: those that named or quoted somebody were "
                "removed when the person was forgotten",
                hint=_ASK,
            )
        return latest_trace(familiar.paths.traces)
    number = familiar.turn_number(turn)
    try:
        return read_trace(familiar.paths.traces, number)
    except NotFoundError as error:
        raise NotFoundError(_why_missing(familiar, number), hint=_other_turns(familiar)) from error


def sent_of(trace: Trace) -> PreparedRequest:
    """Return the request that was sent.

    Raises:
        NotFoundError: None was sent.
    """
    if trace.request is None:
        raise NotFoundError(
            f"Nothing was sent for turn {trace.turn}: {trace.error or 'no request was made'}",
            hint=_ASK,
        )
    return trace.request


def messages_diff(older: Trace, newer: Trace) -> str:
    """Compare the messages of two turns as a unified diff; empty if they are equal."""
    before, after = _all_text(older.messages), _all_text(newer.messages)
    return unified(before, after, f"turn {older.turn}", f"turn {newer.turn}").rstrip("\n")


def _all_text(messages: Sequence[TracedMessage]) -> str:
    return "".join(f"--- {m.role}\n{harmless(m.content)}\n\n" for m in messages)


def _why_missing(familiar: Familiar, turn: int) -> str:
    from familiar_cli.store.history.lines import origins
    from familiar_cli.store.history.store import GREETING

    found = _find_turn(familiar, turn)
    if found is None:
        return f"No such turn: {turn}"
    if found.source.startswith("import"):
        return f"Turn {turn} was imported ({found.source}), so nothing was sent for it"
    if found.source == GREETING:
        return f"Turn {turn} is the greeting, so nothing was sent for it"
    name = origins(familiar.history, [turn]).get(turn)
    if name:
        return f"Turn {turn} was recorded on {name.instance!r}, and so was its prompt"
    keep = familiar.config.context.keep_traces
    oldest = min(trace_ids(familiar.paths.traces), default=None)
    if keep and oldest is not None and turn < oldest:
        return (
            f"What turn {turn} sent is no longer kept: context.keep_traces = {keep}, "
            f"and the oldest trace is that of turn {oldest}"
        )
    reason = "no reply was requested, or its file was deleted"
    if _was_anybody_forgotten(familiar):
        reason += ", as forgetting somebody does if it names or quotes them"
    return f"Turn {turn} has no trace: {reason}"


def _was_anybody_forgotten(familiar: Familiar) -> bool:
    from familiar_cli.store.history.forgetting import orders_of

    return familiar.paths.history.is_file() and bool(orders_of(familiar.history))


def _other_turns(familiar: Familiar) -> str:
    kept = trace_ids(familiar.paths.traces)
    if not kept:
        return _ASK
    span = f"from turn {min(kept)} to {max(kept)}" if len(kept) > 1 else f"of turn {max(kept)} only"
    return f"Traces are kept {span}: `familiar context {max(kept)}`."


def _find_turn(familiar: Familiar, turn: int) -> Turn | None:
    if not familiar.paths.history.is_file():
        return None
    from familiar_cli.store.history.store import HistoryStore

    with closing(HistoryStore(familiar.paths.history)) as store:
        return store.turn(turn)


def oldest_in_prompt(trace: Trace) -> int:
    """Return the oldest turn in a prompt; 0 if there is none, or all since the greeting are."""
    if any(p.kept and p.source == types.GREETING_SOURCE for p in trace.contributions):
        return 0
    turn_ids = (
        p.turn_id for p in trace.contributions if p.kept and p.place is types.PromptSpan.chat
    )
    return min(filter(None, (*turn_ids, trace.turn)), default=0)


_OF_MEMORY: Final = frozenset(
    {types.Layer.content, types.Layer.digest, types.Layer.pinned, types.Layer.desk}
)


def recalled_pieces(trace: Trace) -> list[types.Fragment]:
    """Return the pieces of a prompt that come from memory or old turns."""
    return [piece for piece in trace.contributions if piece.kept and piece.layer in _OF_MEMORY]


class PromptLayers(Struct, frozen=True):
    """The tokens of one prompt by layer.

    Args:
        budget_tokens: The prompt's budget.
        tokens: Tokens of each layer, in the order of the prompt.
        lost_tokens: Tokens of each layer that did not fit.
    """

    turn: int
    at: datetime
    budget_tokens: int
    tokens: Mapping[str, int]
    lost_tokens: Mapping[str, int]


def layers_over_time(
    familiar: Familiar, before: int | None = None, most: int = 40
) -> tuple[PromptLayers, ...]:
    """Return the layers of the newest `most` prompts, oldest first, skipping damaged traces.

    Args:
        before: Only turns with a lower number.
        most: Maximum number.
    """
    directory = familiar.paths.traces
    ids = sorted(n for n in trace_ids(directory) if before is None or n < before)[-most:]
    found = []
    for turn in ids:
        try:
            trace = read_trace(directory, turn)
        except FamiliarError:
            continue
        lost: dict[str, int] = {}
        for piece in trace.contributions:
            sent = piece.tokens if piece.kept else 0
            gone = max(piece.offered_tokens - sent, 0)
            lost[str(piece.layer)] = lost.get(str(piece.layer), 0) + gone
        held = {layer.name: layer.used_tokens for layer in trace.layers}
        found.append(PromptLayers(turn, trace.at, trace.budget_tokens, held, lost))
    return tuple(found)
