"""The HTML page of one turn: what was sent, where it came from, and why."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import iso
from familiar_cli.text import sha256_of
from familiar_cli.ui.context_page import origin_of, row_key, state_of, what
from familiar_cli.ui.html.elements import Html, el, joined
from familiar_cli.ui.html.sankey import MARKS, NARROW, WIDE, flows, lay_out, svg

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from familiar_cli.context.trace import Trace
    from familiar_cli.context.types import Fragment, Report


_WORDS = {"kept": "kept", "cut": "cut", "out": "left out"}
_FEW = 3  # so few messages are shown open


def budget(trace: Trace) -> Html:
    """Return the diagram of where the budget went, and each layer's use as a table."""
    found = flows(trace)
    total = (trace.used_tokens, trace.budget_tokens)
    label = (
        f"Diagram: {trace.used_tokens} of {trace.budget_tokens} tokens flow from the prompt "
        f"through {len({flow.layer for flow in found})} layers to {len(found)} pieces. "
        "The tables below say the same."
    )
    pictures = [svg(lay_out(found, trace.layers, total, frame), label) for frame in (WIDE, NARROW)]
    legend = el(
        "span",
        el("span", el("i", class_="sent"), "● kept: in the prompt"),
        el("span", el("i", class_="lost"), "◐ cut: the hatched part is missing"),
        el("span", el("i", class_="lost"), "○ left out: all hatched"),
        class_="legend",
    )
    figure = el("figure", *pictures, el("figcaption", legend))
    return _section("Where the budget went", "budget", figure, el("p", " "), _layers(trace))


def contributions(trace: Trace) -> Html:
    """Return the table of everything that was offered."""
    scored = any(piece.score is not None for piece in trace.contributions)
    names = [
        "layer",
        "source",
        "from",
        "priority",
        "tokens",
        *(["score"] if scored else []),
        "fate",
    ]
    numbered = enumerate(trace.contributions, start=1)
    rows = [
        _contribution(list(alike), scored=scored)
        for _, alike in groupby(numbered, key=lambda one: (row_key(one[1]), one[1].reason))
    ]
    table = _table(names, rows, numbers={"priority", "tokens", "score"})
    return _section("What was offered", "offered", table)


def fragments(trace: Trace) -> Html:
    """Return every piece, closed; each opens to its text."""
    made = [_fragment(number, piece) for number, piece in enumerate(trace.contributions, start=1)]
    return _section("The pieces, word for word", "pieces", *made)


def providers(trace: Trace) -> Html:
    """Return how long each part took, as bars."""
    parts = [_reports("Providers, side by side", trace.providers)]
    if trace.processors:
        parts.append(_reports("Processors, one after another", trace.processors))
    return _section("Timing", "time", *parts)


def messages(trace: Trace) -> Html:
    """Return the prompt as it was sent."""
    short = len(trace.messages) <= _FEW
    made = [
        el(
            "details",
            el(
                "summary",
                el("strong", f"{number} {message.role}"),
                el("span", f"  {len(message.content):,} characters", class_="soft"),
            ),
            el("pre", message.content, class_=f"role-{message.role}", dir="auto"),
            open=short or number in {1, len(trace.messages)},
        )
        for number, message in enumerate(trace.messages, start=1)
    ]
    return _section("The messages as sent", "messages", *made)


def side_calls(trace: Trace) -> Html:
    """Return the calls of other models that the turn took, each with what it was told and said."""
    made = []
    for call in trace.side_calls:
        told = f"  {call.model}, {call.elapsed_ms:.0f} ms, {len(call.request.body):,} bytes  "
        head = el("summary", el("strong", call.name), el("span", told, class_="soft"))
        fate = [el("p", call.error, class_="reason")] if call.error else []
        sent = call.request.body.decode("utf-8", errors="replace")
        texts = [el("h3", "sent"), el("pre", sent, dir="auto")]
        texts += [el("h3", "reply"), el("pre", call.reply, dir="auto")] if call.reply else []
        made.append(el("details", head, *fate, *texts))
    return _section("Calls of other models", "side-calls", *made)


def request(trace: Trace) -> Html:
    """Return what is known of the bytes that went out."""
    sent = trace.request
    if sent is None:
        return _section("The request", "request", el("p", "Nothing was sent."))
    facts = {
        "address": sent.url,
        "model": sent.model,
        "size": f"{len(sent.body):,} bytes",
        "SHA-256": sha256_of(sent.body),
        "streamed": "yes" if sent.stream else "no",
    }
    rows = [
        el("tr", el("th", name, scope="row"), el("td", el("code", value)))
        for name, value in facts.items()
    ]
    hint = f"familiar context {trace.turn} --raw" if trace.turn is not None else ""
    more = [el("p", "The exact bytes: ", el("code", hint), class_="soft")] if hint else []
    return _section("The request", "request", el("table", el("tbody", *rows)), *more)


def _section(title: str, name: str, *parts: Html) -> Html:
    heading = el("h2", title, id=f"{name}-title")
    return el("section", heading, *parts, id=name, aria_labelledby=f"{name}-title")


def _table(names: Sequence[str], rows: Iterable[Html], numbers: Iterable[str] = ()) -> Html:
    right = set(numbers)
    heads = [
        el("th", name, scope="col", class_="number" if name in right else None) for name in names
    ]
    head = el("thead", el("tr", *heads))
    return el("div", el("table", head, el("tbody", *rows), class_="stack"), class_="scroll")


def _layers(trace: Trace) -> Html:
    rows = []
    for layer in trace.layers:
        share = min(layer.used_tokens / layer.budget_tokens, 1.0) if layer.budget_tokens else 0.0
        bar = el("rect", width=f"{100 * share:.1f}%", height="100%")
        meter = el("svg", bar, class_="meter", aria_hidden="true")
        color = f"layer-{layer.name.replace('_', '-')}"
        rows.append(
            el(
                "tr",
                el("td", el("span", class_="swatch"), layer.name, class_="nowrap"),
                el("td", meter),
                el("td", str(layer.used_tokens), class_="number", data_name="used"),
                el(
                    "td",
                    str(layer.share_tokens or layer.budget_tokens),
                    class_="number",
                    data_name="guaranteed",
                ),
                el("td", str(layer.budget_tokens), class_="number", data_name="of"),
                class_=color,
            )
        )
    head = ("layer", "share of its budget", "used", "guaranteed", "budget")
    return _table(head, rows, {"used", "guaranteed", "budget"})


def _contribution(alike: Sequence[tuple[int, Fragment]], *, scored: bool) -> Html:
    """Return the row of one piece, or of several turns that had the same fate."""
    pieces = [piece for _, piece in alike]
    number, first = alike[0]
    origin = origin_of(pieces)
    count = f" ×{len(pieces)}" if len(pieces) > 1 else ""
    name = el("a", f"{first.source}{count}", href=f"#piece-{number}")
    score = "" if first.score is None else f"{first.score:.3g}"
    cells = [
        el("td", el("span", class_="swatch"), str(first.layer), class_="nowrap"),
        el("td", name, class_="source"),
        el("td", el("span", origin, class_="mono") if origin else "", class_="from"),
        el("td", str(first.priority), class_="number", data_name="priority"),
        el("td", _tokens(pieces), class_="number", data_name="tokens"),
        *([el("td", score, class_="number", data_name="score")] if scored else []),
        el("td", _state(first), *_why(first), class_="fate"),
    ]
    return el("tr", *cells, class_=_color(str(first.layer)))


def _tokens(pieces: Sequence[Fragment]) -> str:
    sent = sum(piece.tokens for piece in pieces if piece.kept)
    offered = sum(piece.offered_tokens for piece in pieces)
    return str(sent) if sent == offered else f"{sent} of {offered}"


def _why(piece: Fragment) -> list[Html]:
    """Return why a piece was offered, and why it is not all there."""
    return [
        joined(el("br"), el("span", reason, class_="soft"))
        for reason in (piece.cause, piece.reason)
        if reason
    ]


def _fragment(number: int, piece: Fragment) -> Html:
    origin = origin_of([piece])
    where = el("span", f"  {origin}", class_="soft mono") if origin else Html("")
    size = el("span", f"  {_tokens([piece])} tokens  ", class_="soft")
    head = el(
        "summary",
        el("span", class_="swatch"),
        el("strong", piece.source),
        where,
        size,
        _state(piece),
    )
    reason = [el("p", piece.reason, class_="reason")] if piece.reason else []
    body = (
        el("pre", piece.text, dir="auto")
        if piece.text
        else el("p", "It has no text.", class_="soft")
    )
    return el("details", head, *reason, body, id=f"piece-{number}", class_=_color(str(piece.layer)))


def _state(piece: Fragment) -> Html:
    state = state_of(piece)
    return el("span", f"{MARKS[state]} {_WORDS[state]}", class_=f"state {state}")


def _reports(title: str, reports: Sequence[Report]) -> Html:
    longest = max([report.elapsed_ms for report in reports], default=0.0) or 1.0
    rows = [_report(report, longest) for report in reports]
    return joined(el("h3", title), _table(("name", "time", "ms", "verdict"), rows, {"ms"}))


def _report(report: Report, longest_ms: float) -> Html:
    deadline_ms = 1000 * report.deadline_s
    marks = [el("rect", width=f"{100 * report.elapsed_ms / longest_ms:.1f}%", height="100%")]
    if 0 < deadline_ms <= longest_ms:
        at = f"{100 * deadline_ms / longest_ms:.1f}%"
        marks.append(el("line", x1=at, x2=at, y1="0", y2="100%"))
    of = f", allowed {report.deadline_s:g} s" if deadline_ms else ""
    label = f"{report.name}: {report.verdict} after {report.elapsed_ms:.1f} ms{of}"
    bar = el("svg", el("title", label), *marks, class_=f"time {report.verdict}", role="img")
    told = report.verdict + (f": {report.reason}" if report.reason else "")
    state = "kept" if report.verdict == "answered" else "out"
    return el(
        "tr",
        el("td", report.name, class_="nowrap"),
        el("td", bar),
        el("td", f"{report.elapsed_ms:.1f}", class_="number", data_name="ms"),
        el("td", el("span", told, class_=f"state {state} long")),
    )


def _color(layer: str) -> str:
    return f"layer-{layer.replace('_', '-')}"


# Even if something were to slip through, a browser would neither run nor load it.
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


def page(trace: Trace) -> str:
    """Return the whole page. It needs no network and holds no script."""
    title = f"{trace.familiar}: {what(trace)}"
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="referrer", content="no-referrer"),
        el("title", title),
        el("style", Html(_style())),
    )
    sections = (
        budget(trace),
        contributions(trace),
        providers(trace),
        fragments(trace),
        messages(trace),
        *([side_calls(trace)] if trace.side_calls else []),
        request(trace),
    )
    body = el("body", joined(_header(trace), el("main", joined(*sections)), _footer(trace)))
    return f"<!DOCTYPE html>\n{el('html', joined(head, body), lang='en')}\n"


def _style() -> str:
    return Path(__file__).with_name("page.css").read_text(encoding="utf-8")


def _header(trace: Trace) -> Html:
    where = f"{trace.familiar} · {trace.channel_id} · {trace.modality} · {iso(trace.at)}"
    told = [*([trace.error] if trace.error else []), *trace.notices]
    return el(
        "header",
        el("h1", f"What was sent: {what(trace)}"),
        el("p", where, class_="lead"),
        *(el("p", line, class_="callout") for line in told),
        _tiles(trace),
    )


def _tiles(trace: Trace) -> Html:
    fates = Counter(state_of(piece) for piece in trace.contributions)
    tiles = [
        ("tokens", f"{trace.used_tokens:,}", f"of {trace.budget_tokens:,}, by {trace.counter}"),
        *(
            [("budget", f"{trace.budget_tokens:,}", trace.budget_reason)]
            * bool(trace.budget_reason)
        ),
        ("pieces", f"{fates['kept']} kept", f"{fates['cut']} cut, {fates['out']} left out"),
        ("assembled in", f"{trace.assemble_ms:.0f} ms", ""),
        ("model", trace.model, ""),
    ]
    if trace.reply_ms is not None:
        tiles.append(("answered in", f"{trace.reply_ms / 1000:.1f} s", trace.finish_reason or ""))
    usage = trace.usage
    if usage:
        counted = f"{usage.prompt_tokens or 0:,} + {usage.completion_tokens or 0:,}"
        cost = "" if usage.cost is None else f"; cost {usage.cost:g}"
        tiles.append(("the server counted", counted, f"tokens read + written{cost}"))
    made = [
        el(
            "div",
            el("dt", name),
            el("dd", value, *([el("small", note)] if note else [])),
            class_="tile",
        )
        for name, value, note in tiles
    ]
    return el("dl", *made, class_="tiles")


def _footer(trace: Trace) -> Html:
    version = f" {trace.program}" if trace.program else ""
    return el(
        "footer",
        el("p", f"Written by familiar{version}. This page loads nothing and runs no scripts."),
    )
