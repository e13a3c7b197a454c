"""`context` and `why`: what a prompt would hold, and why something was in one or not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import FamiliarError, NotFoundError
from familiar_cli.mcp_server.tool import COUNT, TEXT, WHOLE, Answer, Tool, ToolItem
from familiar_cli.mcp_server.tools.reading import open_channel
from familiar_cli.memory.pages.lines import private_spans

if TYPE_CHECKING:
    from familiar_cli.context.trace import Trace
    from familiar_cli.context.types import Fragment
    from familiar_cli.mcp_server.tool import Arguments, Caller

CHANNEL: Final = "mcp"
"""Where a caller speaks that has no channel of its own."""


def context(caller: Caller, arguments: Arguments) -> Answer:
    """Return what a prompt would hold if somebody said something now; nothing is kept.

    Raises:
        NotFoundError: The channel is unknown, or private and of others.
        LimitError: The message is longer than a prompt may be.
    """
    from familiar_cli.actions.talk import assemble
    from familiar_cli.context.types import Said

    channel = open_channel(caller, arguments) or caller.channel_id or CHANNEL
    said = Said(arguments["message"], caller.familiar.me(channel).author, channel, greeting=0)
    trace = asyncio.run(assemble(caller.familiar, said, viewer=caller.viewer))
    pieces = [piece for piece in trace.contributions if piece.kept]
    more = {"tokens": trace.used_tokens, "budget": trace.budget_tokens}
    return Answer([_item(piece) for piece in pieces], trace.notices, more)


def why(caller: Caller, arguments: Arguments) -> Answer:
    """Return why a file or a turn was in a prompt, or was not.

    Raises:
        NotFoundError: There is no such prompt, file or turn that the caller may hear of.
    """
    from familiar_cli.actions.sent import why as why_of

    found = why_of(caller.familiar, _trace(caller, arguments), arguments["subject"])
    _check_open(caller, found.subject)
    reasons = [*found.reasons, *filter(None, [found.since])]
    more = {"verdict": found.verdict, "turn": found.turn, "reasons": reasons}
    items = [_item(piece) for piece in found.contributions if _is_visible(caller, piece)]
    return Answer(items, [f"Verdict: {found.verdict}.", *reasons], more)


def _trace(caller: Caller, arguments: Arguments) -> Trace:
    from familiar_cli.actions.sent import find_trace

    turn = arguments.get("turn") or _newest_prompt(caller)
    asked = caller.familiar.history.turn(turn) if turn else None
    if turn and (asked is None or not caller.viewer.sees_turn(asked)):
        raise NotFoundError(f"No open channel has a turn {turn}", hint="See `recent`.")
    return find_trace(caller.familiar, turn)


def _newest_prompt(caller: Caller) -> int | None:
    """Return the newest turn whose prompt the caller may hear of; None: there is none at all."""
    from familiar_cli.actions.sent import find_trace

    history, viewer = caller.familiar.history, caller.viewer
    trace = find_trace(caller.familiar)
    asked = history.turn(trace.turn) if trace.turn else None
    if asked and viewer.sees_turn(asked):
        return trace.turn
    for turn in reversed(history.since(0, 1000)):
        if turn.role == "user" and viewer.sees_turn(turn):
            return turn.id
    raise NotFoundError("There is no prompt in an open channel yet")


def _check_open(caller: Caller, subject: str) -> None:
    """Make sure that a turn which was asked about is of an open channel.

    Raises:
        NotFoundError: It is not.
    """
    kind, _, number = subject.partition(":")
    turn = caller.familiar.history.turn(int(number)) if kind == "turn" else None
    if turn and not caller.viewer.sees_turn(turn):
        raise NotFoundError(f"No open channel has a turn {number}", hint="See `recent`.")


def _is_visible(caller: Caller, piece: Fragment) -> bool:
    """Tell whether no source of a piece is hidden from the caller now."""
    viewer, familiar = caller.viewer, caller.familiar
    first, last = piece.turns or (piece.turn_id or 0, piece.turn_id or -1)
    turns = (familiar.history.turn(number) for number in range(first, last + 1))
    if not all(turn is None or viewer.sees_turn(turn) for turn in turns):
        return False
    if not piece.rel_path:
        return True
    try:
        return not private_spans(familiar.memory.read_file(piece.rel_path), viewer)
    except FamiliarError:  # nobody can tell any more
        return False


def _item(piece: Fragment) -> ToolItem:
    about: dict[str, Any] = {"layer": str(piece.layer), "source": piece.source}
    if piece.rel_path:
        about["path"] = piece.rel_path
    if piece.lines:
        about["lines"] = f"{piece.lines[0]}-{piece.lines[1]}"
    turns = piece.turns or (piece.turn_id and (piece.turn_id, piece.turn_id))
    if turns:
        about["turns"] = f"{turns[0]}-{turns[1]}"
    about["tokens"] = piece.tokens
    if piece.reason:
        about["reason"] = piece.reason
    return ToolItem(about, piece.text)


TOOLS: Final = (
    Tool(
        "context",
        "What a prompt for this message would hold.",
        {"message": TEXT, "channel": TEXT},
        context,
        needs=("message",),
        gives={"tokens": WHOLE, "budget": WHOLE},
        pages=True,
    ),
    Tool(
        "why",
        "Why a file or turn (`turn:12`) was in a prompt, or not.",
        {"subject": TEXT, "turn": COUNT},
        why,
        needs=("subject",),
        gives={"verdict": TEXT},
        pages=True,
    ),
)
