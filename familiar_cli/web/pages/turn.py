"""A turn: what was said, what was sent for it, from where, and what was cut."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import FamiliarError, NotFoundError
from familiar_cli.web.asking import Data, Redirect, Shown, WebPage, with_speakers

if TYPE_CHECKING:
    from familiar_cli.context.trace import Trace
    from familiar_cli.ui.html.elements import Html
    from familiar_cli.web.asking import PageRequest

_AROUND: Final = 3


def show(asked: PageRequest) -> Shown:
    """Return the page of a turn."""
    return Shown("turn", _values(asked))


def raw(asked: PageRequest) -> Data:
    """Return the exact bytes that went out."""
    from familiar_cli.actions.sent import find_trace, request_bytes

    turn = asked.familiar.turn_number(asked.path["turn"])
    body = request_bytes(find_trace(asked.familiar, turn))
    return Data(body, "application/octet-stream", f"turn-{turn}.json")


def replay(asked: PageRequest) -> Shown | Redirect:
    """Send it again, and show both replies; nothing is kept."""
    from familiar_cli.actions.sent import find_trace
    from familiar_cli.actions.sent import replay as send_again

    trace = find_trace(asked.familiar, asked.path["turn"])

    async def send() -> Any:  # noqa: ANN401  # the pair of replies
        try:
            return await send_again(asked.familiar, trace)
        finally:
            await asked.familiar.aclose()

    return Shown("turn", {**_values(asked), "replayed": asyncio.run(send())})


def _values(asked: PageRequest) -> dict[str, Any]:
    from familiar_cli.actions.client_chat import SOURCE, match_of
    from familiar_cli.history.selection import around
    from familiar_cli.history.store import standings

    familiar = asked.familiar
    number = asked.familiar.turn_number(asked.path["turn"])
    turn = familiar.history.turn(number)
    if turn is None or not asked.viewer.sees_turn(turn):
        last = familiar.history.newest_id()
        hint = f"The newest is turn {last}." if last else "Nothing was said yet."
        raise NotFoundError(f"There is no turn {number}", hint=hint)
    near = [
        kept.turn
        for kept in around(
            familiar.history, turn, _AROUND, _AROUND, viewer=asked.viewer, everything=True
        )
    ]
    became = standings(familiar.history, [number]).get(number)
    trace, why_none = _trace(asked, number)
    return {
        "turn": turn,
        "match": match_of(turn) if turn.source == SOURCE else "",
        "near": with_speakers(familiar, near),
        "became": became,
        "trace": trace,
        "why_none": why_none,
        "sections": _sections(trace) if trace else [],
        "why": _why(asked, trace),
        "asked_why": asked.query.get("why", ""),
        "against": _against(asked, trace),
        "replayed": None,
    }


def _trace(asked: PageRequest, turn: int) -> tuple[Trace | None, str]:
    from familiar_cli.actions.sent import find_trace

    try:
        return find_trace(asked.familiar, turn), ""
    except FamiliarError as error:
        return None, str(error)


def _sections(trace: Trace) -> list[Html]:
    from familiar_cli.ui.html import page

    return [
        page.budget(trace),
        page.contributions(trace),
        page.providers(trace),
        page.fragments(trace),
        page.messages(trace),
        *([page.side_calls(trace)] if trace.side_calls else []),
        page.request(trace),
    ]


def _why(asked: PageRequest, trace: Trace | None) -> object:
    """Return the answer to why a file or a turn was, or was not, in the prompt."""
    from familiar_cli.actions.sent import why

    wanted = asked.query.get("why", "").strip()
    if trace is None or not wanted:
        return None
    try:
        return why(asked.familiar, trace, wanted)
    except FamiliarError as error:
        return str(error)


def _against(asked: PageRequest, trace: Trace | None) -> dict[str, Any] | None:
    """Return how the messages differ from those of the turn before, if that is asked."""
    from familiar_cli.actions.sent import find_trace, messages_diff
    from familiar_cli.context.trace import trace_ids

    if trace is None or trace.turn is None:
        return None
    ids = trace_ids(asked.familiar.paths.traces)
    before = asked.number("diff") or max((n for n in ids if n < (trace.turn or 0)), default=None)
    if before is None or "diff" not in asked.query:
        return {"turn": before, "diff": None} if before else None
    return {"turn": before, "diff": messages_diff(find_trace(asked.familiar, before), trace)}


PAGES: Final = (
    WebPage("/turns/{turn}", show),
    WebPage("/turns/{turn}/raw", raw),
    WebPage("/turns/{turn}/replay", replay, "POST", is_long=True),
)
