"""The page of a turn for a browser: what was sent, from where, and what was cut."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import iso
from familiar_cli.ui.context_page import state_of, what
from familiar_cli.ui.html import parts
from familiar_cli.ui.html.elements import Html, el, joined

if TYPE_CHECKING:
    from familiar_cli.context.trace import Trace

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
        parts.budget(trace),
        parts.contributions(trace),
        parts.providers(trace),
        parts.fragments(trace),
        parts.messages(trace),
        *([parts.side_calls(trace)] if trace.side_calls else []),
        parts.request(trace),
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
