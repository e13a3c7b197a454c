"""Pages of turns: recent ones, each with its request, the timeline, and search."""

from __future__ import annotations

from typing import Any, Final

from familiar_cli.actions.memory.search import search_sessions
from familiar_cli.actions.talk import sent
from familiar_cli.actions.talk.explain_piece import explain_piece
from familiar_cli.actions.talk.replay import replay_trace
from familiar_cli.actions.talk.sent import layers_over_time
from familiar_cli.actions.talk.why import UsedMemory, explain_reply, omit_gone_files
from familiar_cli.base.errors import FamiliarError, NotFoundError
from familiar_cli.context.trace import Trace, trace_ids
from familiar_cli.servers.web.asking import (
    Data,
    PageRequest,
    PageView,
    Redirect,
    WebPage,
    with_speakers,
)
from familiar_cli.servers.web.drawing import render_markdown
from familiar_cli.servers.web.fact_rows import page_of_file
from familiar_cli.servers.web.html.elements import Html, el, spoken
from familiar_cli.store.history.marks import restore_turns, turn_statuses
from familiar_cli.store.history.selection import TurnFilter, newest_turns, turns_around

_A_PAGE: Final = 40
_CHARTED: Final = 40


def show_turns(request: PageRequest) -> PageView:
    """Return a page of turns."""
    from familiar_cli.store.history.rows import place_of

    query = request.query.get("q", "").strip()
    channel, everything = request.query.get("channel", ""), "all" in request.query
    values = {"q": query, "channel": channel, "everything": everything}
    span = TurnFilter(request.viewer, channel or None, everything=everything)
    if query:
        days = search_sessions(
            request.familiar, query, viewer=request.viewer, channel=channel or None
        )
        return PageView("turns", {**values, "days": days, "turns": []})
    history, before = request.familiar.history, request.number("before")
    turns = [selection.turn for selection in newest_turns(history, span, _A_PAGE + 1, before)]
    more = place_of(turns[1]) if len(turns) > _A_PAGE else None
    said = with_speakers(request.familiar, turns[-_A_PAGE:][::-1])
    return PageView("turns", {**values, "turns": said, "days": [], "more": more, "before": before})


def show_layers(request: PageRequest) -> PageView:
    """Chart the size of each layer in the prompts of the last turns."""
    before = request.number("before")
    layers = layers_over_time(request.familiar, before, _CHARTED)
    older = layers[0].turn if len(layers) == _CHARTED else None
    return PageView("layers", {"prompts": layers, "older": older, "before": before})


_AROUND: Final = 3


def show_turn(request: PageRequest) -> PageView:
    """Return the page of a turn."""
    return PageView("turn", _turn_values(request))


def send_bytes(request: PageRequest) -> Data:
    """Return the exact request bytes."""
    turn = request.familiar.turn_number(request.path["turn"])
    body = sent.sent_of(sent.find_trace(request.familiar, turn)).body
    return Data(body, "application/octet-stream", f"turn-{turn}.json")


def show_replay(request: PageRequest) -> PageView | Redirect:
    """Replay a request, and show both replies without storing anything."""
    trace = sent.find_trace(request.familiar, request.path["turn"])

    replayed = request.run(replay_trace(request.familiar, trace))
    return PageView("turn", {**_turn_values(request), "replayed": replayed})


def _turn_values(request: PageRequest) -> dict[str, Any]:
    from familiar_cli.actions.talk.served_log import SOURCE, match_of
    from familiar_cli.servers.web.html.page import draw_part

    familiar = request.familiar
    number = request.familiar.turn_number(request.path["turn"])
    turn = familiar.history.turn(number)
    if turn is None or not request.viewer.sees_turn(turn):
        last = familiar.history.newest_id()
        hint = f"The newest is turn {last}." if last else "Nothing was said yet."
        raise NotFoundError(f"There is no turn {number}", hint=hint)
    near = [
        selection.turn
        for selection in turns_around(
            familiar.history, turn, _AROUND, _AROUND, viewer=request.viewer, everything=True
        )
    ]
    became = turn_statuses(familiar.history, [number]).get(number)
    trace, why_none = _find_trace(request, number)
    return {
        "turn": turn,
        "match": match_of(turn) if turn.source == SOURCE else "",
        "near": with_speakers(familiar, near),
        "became": became,
        "trace": trace,
        "why_none": why_none,
        "reason": show_reason(request, trace) if trace else None,
        "budget": draw_part("budget", trace) if trace else "",
        "sections": draw_part("details", trace) if trace else "",
        "why": _explain_asked(request, trace),
        "asked_why": request.query.get("why", ""),
        "against": _compare_before(request, trace),
        "replayed": None,
    }


def show_reason(request: PageRequest, trace: Trace) -> dict[str, Any]:
    """Return a reply's explanation: a sentence, and the memories as HTML with their addresses."""
    explanation = omit_gone_files(request.familiar, explain_reply(request.familiar, trace))
    pieces = [
        (used, _memory_address(request, used), _memory_html(request, used))
        for used in explanation.memories
    ]
    return {"sentence": explanation.sentence, "pieces": pieces, "problems": explanation.problems}


def _memory_address(request: PageRequest, used: UsedMemory) -> str:
    if used.rel_path:
        return page_of_file(request, used.rel_path)
    return request.to("turns", used.turns[0]) if used.turns else ""


def _memory_html(request: PageRequest, used: UsedMemory) -> Html:
    if used.rel_path is None:
        return el("div", spoken(used.text), class_="words", dir="auto")
    numbering = request.familiar.numbering
    html = render_markdown(used.text, used.rel_path, request.base, numbering, request.viewer)
    return el("div", html, class_="prose", dir="auto")


def restore_turn(request: PageRequest) -> Redirect:
    """Restore a withdrawn turn."""
    number = request.familiar.turn_number(request.path["turn"])
    done = restore_turns(request.familiar.history, [number])
    text = "It is current again." if done else "It is already current; nothing was changed."
    return Redirect(request.to("turns", number), (text,))


def _find_trace(request: PageRequest, turn: int) -> tuple[Trace | None, str]:
    try:
        return sent.find_trace(request.familiar, turn), ""
    except FamiliarError as error:
        return None, str(error)


def _explain_asked(request: PageRequest, trace: Trace | None) -> object:
    """Explain why the requested file or turn was or was not in the prompt."""
    target = request.query.get("why", "").strip()
    if trace is None or not target:
        return None
    try:
        return explain_piece(request.familiar, trace, target, viewer=request.viewer)
    except FamiliarError as error:
        return str(error)


def _compare_before(request: PageRequest, trace: Trace | None) -> dict[str, Any] | None:
    """Return the diff to the previous turn's messages, if requested."""
    if trace is None or trace.turn is None:
        return None
    ids = trace_ids(request.familiar.paths.traces)
    before = request.number("diff") or max((n for n in ids if n < (trace.turn or 0)), default=None)
    if before is None or "diff" not in request.query:
        return {"turn": before, "diff": None} if before else None
    return {
        "turn": before,
        "diff": sent.messages_diff(sent.find_trace(request.familiar, before), trace),
    }


PAGES: Final = (
    WebPage("/turns", show_turns),
    WebPage("/turns/layers", show_layers),
    WebPage("/turns/{turn}", show_turn),
    WebPage("/turns/{turn}/raw", send_bytes),
    WebPage("/turns/{turn}/restore", restore_turn, "POST"),
    WebPage("/turns/{turn}/replay", show_replay, "POST", is_long=True),
)
