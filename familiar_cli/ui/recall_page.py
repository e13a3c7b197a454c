"""What memory gave to a reply: which files and turns, how near they were, and how they begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.text import counted, one_line
from familiar_cli.ui.context_page import origin_of
from familiar_cli.ui.page import Group, Indented, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.context.trace import TracedContribution
    from familiar_cli.ui.page import Part

_EXCERPT_CHARS: Final = 200


def recall_page(found: Sequence[TracedContribution]) -> Part:
    """Return the page."""
    parts: list[Part] = []
    for piece in found:
        head = plain(origin_of([piece]) or piece.source, "bold")
        score = "" if piece.score is None else f", score {piece.score:.2f}"
        head.append(f"  {counted(piece.tokens, 'token')}{score}", "dim")
        parts += [head, Indented(plain(one_line(piece.text, _EXCERPT_CHARS), "dim"), 2)]
    return Group(parts)
