"""The HTML page of one turn: what was sent, where it came from, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from familiar_cli.base.text import sha256_of
from familiar_cli.base.times.clock import iso
from familiar_cli.pages.context_page import origin_of, row_key, state_of, turn_words
from familiar_cli.servers.web.html.elements import Html, environment, joined
from familiar_cli.servers.web.html.pictures import NARROW, WIDE, flows_of, lay_out, sankey_svg

if TYPE_CHECKING:
    from types import SimpleNamespace

    from familiar_cli.context.trace import Trace
    from familiar_cli.context.types import Fragment


def page(trace: Trace) -> str:
    """Render the whole page, without scripts or external resources."""
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return draw_part("page", trace, Html(style)) + "\n"


def draw_part(name: str, trace: Trace, *more: object) -> Html:
    """Render one section of the page, or all `sections`.

    Args:
        name: Its macro in `templates/trace.html`.
        trace: The turn.
        more: Further arguments of the macro.
    """
    return Html(getattr(_macros(), name)(trace, *more).strip())


@cache
def _macros() -> SimpleNamespace:
    known = {
        "alike_pieces": _alike_pieces,
        "diagrams": _diagrams,
        "iso": iso,
        "origin_of": origin_of,
        "sha256_of": sha256_of,
        "state_of": state_of,
        "tiles": _tiles_element,
        "tokens_of": _tokens_of,
        "what": turn_words,
    }
    template = environment("familiar_cli.servers.web.html").get_template(
        "trace.html", globals=known
    )
    return template.module  # type: ignore[return-value]  # its macros are attributes


def _diagrams(trace: Trace) -> Html:
    """Render the budget diagram for wide and for narrow pages."""
    flows = flows_of(trace)
    total = (trace.used_tokens, trace.budget_tokens)
    label = (
        f"Diagram: {trace.used_tokens} of {trace.budget_tokens} tokens flow from the prompt "
        f"through {len({flow.layer for flow in flows})} layers to {len(flows)} pieces. "
        "The tables below say the same."
    )
    return joined(
        *(sankey_svg(lay_out(flows, trace.layers, total, f), label) for f in (WIDE, NARROW))
    )


def _alike_pieces(trace: Trace) -> list[tuple[int, list[Fragment]]]:
    """Group the pieces that share a row, with the number of the first in each."""
    numbered = enumerate(trace.contributions, start=1)
    groups = groupby(numbered, key=lambda one: (row_key(one[1]), one[1].reason))
    rows = (list(alike) for _, alike in groups)
    return [(row[0][0], [piece for _, piece in row]) for row in rows]


def _tokens_of(pieces: Sequence[Fragment]) -> str:
    sent = sum(piece.tokens for piece in pieces if piece.kept)
    offered = sum(piece.offered_tokens for piece in pieces)
    return str(sent) if sent == offered else f"{sent} of {offered}"


def _tiles_element(trace: Trace) -> list[tuple[str, str, str]]:
    """Render the numbers at the top: label, value and note."""
    fates = Counter(state_of(piece) for piece in trace.contributions)
    tiles = [
        ("tokens", f"{trace.used_tokens:,}", f"of {trace.budget_tokens:,}, by {trace.counter}")
    ]
    if trace.budget_reason:
        tiles.append(("budget", f"{trace.budget_tokens:,}", trace.budget_reason))
    tiles += [
        ("pieces", f"{fates['kept']} kept", f"{fates['cut']} cut, {fates['out']} left out"),
        ("assembled in", f"{trace.assemble_ms:.0f} ms", ""),
        ("model", trace.model, ""),
    ]
    if trace.reply_ms is not None:
        tiles.append(("answered in", f"{trace.reply_ms / 1000:.1f} s", trace.finish_reason or ""))
    if usage := trace.usage:
        counted = f"{usage.prompt_tokens or 0:,} + {usage.completion_tokens or 0:,}"
        cost = "" if usage.cost is None else f"; cost {usage.cost:g}"
        tiles.append(("the server counted", counted, f"tokens read + written{cost}"))
    return tiles
