"""The page of `familiar context --why`: why something was, or was not, in a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding

from familiar_cli.ui.context_page import origin_of, state_of
from familiar_cli.ui.page import Bar, Name
from familiar_cli.ui.terminal import columns, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from familiar_cli.actions.sent import Why
    from familiar_cli.context.types import Fragment

_VERDICTS = {
    "kept": "is in {prompt}.",
    "cut": "is only partly in {prompt}.",
    "out": "was offered, but left out of {prompt}.",
    "absent": "is not in {prompt}; no part of it was offered.",
}
_MOST_RIVALS = 12


def why_page(found: Why) -> RenderableType:
    """Return the whole page."""
    prompt = "the prompt" if found.turn is None else f"the prompt of turn {found.turn}"
    verdict = _VERDICTS[found.verdict].format(prompt=prompt)
    parts: list[RenderableType] = [plain(f"{found.subject} {verdict}", "bold")]
    parts += [plain(f"  {reason}") for reason in found.reasons]
    parts += [plain(f"  {found.since}", "yellow")] if found.since else []
    if found.contributions:
        parts += [plain(""), plain("Offered pieces", "bold"), _pieces(found.contributions)]
        parts += [plain(""), plain("Paid from", "bold"), _layers(found)]
    if found.rivals:
        parts += [plain(""), plain("Served before it", "bold"), _rivals(found.rivals)]
    return Group(*parts)


def _pieces(pieces: Sequence[Fragment]) -> RenderableType:
    rows: list[list[RenderableType]] = [
        [
            Name(piece.source),
            Name(origin_of([piece])),
            plain(f"priority {piece.priority}", "dim"),
            plain("" if piece.score is None else f"score {piece.score:.2f}", "dim"),
            plain(f"{piece.tokens} of {piece.offered_tokens} tokens"),
            plain(state_of(piece)),
            plain(piece.cause, "dim"),
        ]
        for piece in pieces
    ]
    return Padding(columns(rows), (0, 0, 0, 2))


def _layers(found: Why) -> RenderableType:
    rows: list[list[RenderableType]] = [
        [
            plain(layer.name),
            Bar(layer.used_tokens, layer.budget_tokens),
            plain(f"{layer.used_tokens} of {layer.budget_tokens} tokens"),
        ]
        for layer in found.layers
    ]
    return Padding(columns(rows), (0, 0, 0, 2))


def _rivals(pieces: Sequence[Fragment]) -> RenderableType:
    shown = pieces[:_MOST_RIVALS]
    rows: list[list[RenderableType]] = [
        [
            Name(piece.source),
            Name(origin_of([piece])),
            plain(f"priority {piece.priority}", "dim"),
            plain(f"{piece.tokens} tokens"),
        ]
        for piece in shown
    ]
    more = len(pieces) - len(shown)
    rest = [plain(f"and {more} more", "dim")] if more else []
    return Padding(Group(columns(rows), *rest), (0, 0, 0, 2))
