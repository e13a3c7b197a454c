"""What a card is, at a glance."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.bootstrap.card_findings import book_entries, sent_tokens
from familiar_cli.memory.pages.self_files import SELF_FILES
from familiar_cli.text import str_or_empty

if TYPE_CHECKING:
    from familiar_cli.bootstrap.cards import Card
    from familiar_cli.tokens import TokenCounter

DEFAULT_DEPTH: Final = 4
_START: Final = re.compile(r"<START>", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """One of the card's texts, with its length."""

    field: str
    title: str
    tokens: int
    text: str


@dataclass(frozen=True, slots=True)
class EntrySummary:
    """One entry of the card's book."""

    title: str
    keys: tuple[str, ...]
    enabled: bool
    constant: bool
    content: str


@dataclass(frozen=True, slots=True)
class CardSummary:
    """All that a person wants to know of a card before bringing it in.

    Args:
        sent_tokens: How many tokens of it are in every prompt.
        counter: What the tokens were counted with.
        greetings: The first message and its alternatives.
        example_blocks: How many examples of talk there are.
        depth_prompt: Its `depth`, `role` and `prompt`, if it has one.
        assets: Type, name and address of each.
        members: Path and size in bytes of each file it carries.
        other: Names of the fields that are kept for others.
    """

    name: str
    nickname: str
    spec: str
    container: str
    origin: str
    version: str
    creator: str
    creator_notes: str
    tags: tuple[str, ...]
    fields: tuple[FieldSummary, ...]
    sent_tokens: int
    counter: str
    greetings: tuple[str, ...]
    example_blocks: int
    depth_prompt: dict[str, Any] | None
    book_name: str
    book: tuple[EntrySummary, ...]
    assets: tuple[tuple[str, str, str], ...]
    members: tuple[tuple[str, int], ...]
    other: tuple[str, ...]
    warnings: tuple[str, ...]


def summarise(card: Card, counter: TokenCounter) -> CardSummary:
    """Return what `card` is, with its lengths as `counter` counts them."""
    book = card.data.get("character_book")
    first = [card.text("first_mes")] if card.text("first_mes").strip() else []
    return CardSummary(
        name=card.name,
        nickname=card.text("nickname"),
        spec=card.spec,
        container=card.container,
        origin=card.origin,
        version=card.text("character_version"),
        creator=card.text("creator"),
        creator_notes=card.text("creator_notes"),
        tags=tuple(card.texts("tags")),
        fields=_fields(card, counter),
        sent_tokens=sent_tokens(card, counter),
        counter=counter.name,
        greetings=(*first, *card.texts("alternate_greetings")),
        example_blocks=_example_blocks(card.text("mes_example")),
        depth_prompt=_depth_prompt(card),
        book_name=str_or_empty(book.get("name")) if isinstance(book, dict) else "",
        book=tuple(_entry(entry) for entry in book_entries(card) if isinstance(entry, dict)),
        assets=_assets(card),
        members=card.members,
        other=_other(card),
        warnings=card.warnings,
    )


def _fields(card: Card, counter: TokenCounter) -> tuple[FieldSummary, ...]:
    return tuple(
        FieldSummary(entry.field, entry.title, counter.count(text), text)
        for entry in SELF_FILES
        if (text := card.text(entry.field))
    )


def _example_blocks(text: str) -> int:
    return sum(1 for block in _START.split(text) if block.strip())


def _depth_prompt(card: Card) -> dict[str, Any] | None:
    given = _extensions(card).get("depth_prompt")
    if not isinstance(given, dict) or not str_or_empty(given.get("prompt")):
        return None
    return {
        "depth": given.get("depth", DEFAULT_DEPTH),
        "role": str_or_empty(given.get("role")) or "system",
        "prompt": str_or_empty(given.get("prompt")),
    }


def _extensions(card: Card) -> dict[str, Any]:
    given = card.data.get("extensions")
    return given if isinstance(given, dict) else {}


def _entry(entry: dict[str, Any]) -> EntrySummary:
    keys = entry.get("keys", entry.get("key", []))
    listed = keys.split(",") if isinstance(keys, str) else keys
    named = tuple(str(key).strip() for key in listed) if isinstance(listed, list) else ()
    return EntrySummary(
        title=str_or_empty(entry.get("comment"))
        or str_or_empty(entry.get("name"))
        or ", ".join(named[:1]),
        keys=named,
        enabled=entry.get("enabled") is not False and entry.get("disable") is not True,
        constant=entry.get("constant") is True,
        content=str_or_empty(entry.get("content")),
    )


def _assets(card: Card) -> tuple[tuple[str, str, str], ...]:
    assets = card.data.get("assets")
    return tuple(
        (str_or_empty(a.get("type")), str_or_empty(a.get("name")), str_or_empty(a.get("uri")))
        for a in (assets if isinstance(assets, list) else [])
        if isinstance(a, dict)
    )


_SHOWN: Final = (
    *(entry.field for entry in SELF_FILES),
    *("name", "nickname", "character_version", "creator", "creator_notes", "tags"),
    *("alternate_greetings", "character_book", "assets"),
)


def _other(card: Card) -> tuple[str, ...]:
    empty: tuple[object, ...] = ("", [], {}, None)
    plain = [
        field
        for field, value in card.data.items()
        if field not in (*_SHOWN, "extensions") and value not in empty
    ]
    extensions = [f"extensions.{key}" for key in _extensions(card) if key != "depth_prompt"]
    return (*plain, *extensions, *(f"top_level.{key}" for key in card.top_level or {}))
