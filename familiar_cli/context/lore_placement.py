"""Where the entries of lorebooks stand in a prompt: their books place what is shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.context.character import Macros, numbered_blocks
from familiar_cli.context.types import (
    PLACED,
    Contribution,
    ExampleLine,
    Fit,
    Fragment,
    Layer,
    PromptSpan,
    Role,
)
from familiar_cli.store.memory.layout import LORE_DIR

if TYPE_CHECKING:
    from familiar_cli.store.memory.pages.lore_settings import LoreSettings

_MOST_ORDER: Final = 1_000_000
_DEPTH: Final = 4  # where SillyTavern has the author's note
_UNSETTLED: Final = frozenset({PromptSpan.author_note, PromptSpan.outlet})
_OUTLET: Final = re.compile(r"\{\{\s*outlet\s*::?\s*([^{}]*?)\s*\}\}", re.IGNORECASE)
_WITH_OUTLETS: Final = frozenset(
    {Layer.core, Layer.character, Layer.author_note, Layer.depth_inject}
)
# The span of each position, whether it stands before or after what is there, and its name.
_SPANS: Final = (
    (PromptSpan.world_before, 0, "before the character"),
    (PromptSpan.world_after, 0, "after the character"),
    (PromptSpan.author_note, -1, "above the author's note"),
    (PromptSpan.author_note, 1, "below the author's note"),
    (PromptSpan.depth, 0, "at depth {depth}, as {role}"),
    (PromptSpan.example, -1, "before the examples"),
    (PromptSpan.example, 1, "after the examples"),
    (PromptSpan.outlet, 0, "in its outlet {outlet!r}"),
)


class LorePlace(Struct, frozen=True):
    """The place that a book gives an entry.

    Args:
        order: Pieces of one place are sorted by it, the lowest first.
        depth: Number of messages below it, for `PromptSpan.depth`.
        outlet: The outlet's name, for `PromptSpan.outlet`.
        words: The place in words.
    """

    span: PromptSpan
    order: int
    depth: int
    role: Role
    outlet: str
    words: str


def place_of(entry: LoreSettings) -> LorePlace | None:
    """Return the place that a book gives an entry; None if it does not say."""
    if entry.position is None:
        return None
    span, side, words = _SPANS[entry.position]
    is_deep = span is PromptSpan.depth
    order = min(entry.order, _MOST_ORDER - 1)
    order = -order if span is PromptSpan.outlet else order + side * _MOST_ORDER
    words = words.format(depth=entry.depth, role=entry.role, outlet=entry.outlet)
    role: Role = entry.role if is_deep else "system"
    return LorePlace(span, order, entry.depth if is_deep else 0, role, entry.outlet, words)


def place_piece(
    piece: Contribution, place: LorePlace | None, body: str, macros: Macros
) -> Contribution:
    """Return a piece at the place that its book gives it.

    Args:
        body: Its text without a heading, which stands only where the system speaks.
        macros: The names that begin the lines of an example.
    """
    if place is None:
        return piece
    is_example = place.span is PromptSpan.example
    is_bare = is_example or place.outlet or place.role != "system"
    blocks = numbered_blocks(body, macros) if is_example else ()
    dialogue = tuple(line for _, block in blocks for line in block)
    return replace(
        piece,
        text=body if is_bare else piece.text,
        place=place.span,
        order=place.order,
        depth=place.depth,
        role=place.role,
        outlet=place.outlet,
        dialogue=(dialogue or (ExampleLine("system", body),)) if is_example else (),
        fit=Fit.whole if is_example else piece.fit,
        cause=f"{piece.cause}{PLACED}{place.words}",
    )


def settle_places(pieces: Sequence[Contribution]) -> list[Contribution]:
    """Put entries beside the author's note, and leave out those of an outlet that no text has."""
    notes = (piece for piece in pieces if piece.layer is Layer.author_note and piece.text)
    note = next(notes, None)
    place = note.place if note else PromptSpan.depth
    depth, role = (note.depth, note.role) if note else (_DEPTH, "system")
    if not [piece for piece in pieces if piece.place in _UNSETTLED]:
        return list(pieces)
    names = {
        name
        for piece in pieces
        if _may_have_outlets(piece)
        for text in (piece.text, *(line.text for line in piece.dialogue))
        for name in _OUTLET.findall(text)
    }

    def settle(piece: Contribution) -> Contribution:
        if piece.place is PromptSpan.author_note:
            return replace(piece, place=place, depth=depth, role=role)
        if piece.outlet not in names and not piece.remark:
            return replace(piece, remark=f"no text has `{{{{outlet::{piece.outlet}}}}}`")
        return piece

    return [settle(piece) if piece.place in _UNSETTLED else piece for piece in pieces]


def fill_outlets(fragments: Iterable[Fragment]) -> tuple[Fragment, ...]:
    """Put the entries of outlets where texts of the character, or of settings, have them."""
    fragments = tuple(fragments)
    texts: dict[str, list[str]] = {}
    offered = [piece for piece in fragments if piece.place is PromptSpan.outlet and piece.kept]
    for piece in sorted(offered, key=lambda piece: piece.order):
        texts.setdefault(piece.outlet, []).append(piece.text.strip())

    def fill(text: str) -> str:
        return _OUTLET.sub(lambda match: "\n".join(texts.get(match[1], ())), text)

    filled = [
        replace(
            piece,
            text=fill(piece.text),
            dialogue=tuple(replace(line, text=fill(line.text)) for line in piece.dialogue),
        )
        if "{{" in (f"{piece.text}{piece.dialogue}" if piece.dialogue else piece.text)
        and _may_have_outlets(piece)
        else piece
        for piece in fragments
    ]
    return tuple(filled)


def _may_have_outlets(piece: Contribution) -> bool:
    """Tell whether macros count in a piece: not in what people say, or in other memory."""
    is_lore = (piece.rel_path or "").startswith(f"{LORE_DIR}/")
    return piece.place is not PromptSpan.outlet and (piece.layer in _WITH_OUTLETS or is_lore)
