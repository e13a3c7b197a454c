"""Look a card over: what is wrong or unusual in it, and what that means for who uses it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from familiar_cli.bootstrap import charx
from familiar_cli.bootstrap.card_fields import KNOWN_FIELDS
from familiar_cli.bootstrap.card_json import FILE_FIELDS
from familiar_cli.bootstrap.containers import ASSET_SCHEME
from familiar_cli.text import harmless

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.bootstrap.cards import Card
    from familiar_cli.tokens import TokenCounter

Severity = Literal["error", "warning", "note"]

# Of a card's fields that are in every prompt; small models have about 4,000 tokens in all.
MANY_TOKENS: Final = 2000
_ALWAYS_SENT: Final = (
    "description",
    "personality",
    "scenario",
    "system_prompt",
    "post_history_instructions",
)
_MS_SINCE: Final = 10**11  # as seconds that would be the year 5138
_ROLES: Final = ("system", "user", "assistant", 0, 1, 2)  # SillyTavern also writes numbers
_START: Final = re.compile(r"<START>", re.IGNORECASE)
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class CardFinding:
    """One thing that is wrong or unusual.

    Args:
        severity: `error`: something is lost or does not work; `warning`: it may not do what its
            author wanted; `note`: unusual, but harmless.
        where: The field or part.
        message: What it is, and what it means.
    """

    severity: Severity
    where: str
    message: str


def check_card(card: Card, counter: TokenCounter) -> list[CardFinding]:
    """Return what is wrong or unusual in `card`, the worst first."""
    found = [CardFinding("warning", "format", warning) for warning in card.warnings]
    for look in (_speech, _texts, _macros, _greetings, _depth_prompt, _assets, _dates, _book):
        found.extend(look(card))
    found.extend(_size(card, counter))
    order = ("error", "warning", "note")
    return sorted(found, key=lambda finding: order.index(finding.severity))


def sent_tokens(card: Card, counter: TokenCounter) -> int:
    """Return how many tokens of the card are in every prompt."""
    return sum(counter.count(card.text(field)) for field in _ALWAYS_SENT)


def _speech(card: Card) -> Iterator[CardFinding]:
    if not (card.text("description").strip() or card.text("personality").strip()):
        yield CardFinding(
            "error", "description", "empty, and so is personality: the model knows only the name"
        )
    if not card.text("first_mes").strip():
        yield CardFinding(
            "warning", "first_mes", "empty: the character will not open the conversation"
        )
    examples = card.text("mes_example")
    if examples.strip() and not _START.search(examples):
        yield CardFinding(
            "warning", "mes_example", "has no <START>: it counts as one block and is cut as a whole"
        )


def _texts(card: Card) -> Iterator[CardFinding]:
    for field in KNOWN_FIELDS:
        for text in (card.text(field), *card.texts(field)):
            if _SURROGATE.search(text):
                yield CardFinding(
                    "warning", field, "holds half a character; it is kept, and shown as \ufffd"
                )
            elif harmless(text) != text.replace("\r\n", "\n"):
                yield CardFinding(
                    "warning",
                    field,
                    "holds control characters or marks that reorder text; never printed raw",
                )


def _macros(card: Card) -> Iterator[CardFinding]:
    for field in (*FILE_FIELDS, "alternate_greetings"):
        for text in (card.text(field), *card.texts(field)):
            if text.count("{{") != text.count("}}"):
                yield CardFinding(
                    "warning", field, "has a {{ without a matching }}: it is sent as is"
                )
    for field in ("description", "personality", "scenario"):
        if "{{original}}" in card.text(field).lower():
            yield CardFinding("warning", field, "{{original}} has a meaning only in system_prompt")


def _greetings(card: Card) -> Iterator[CardFinding]:
    others = card.texts("alternate_greetings")
    if any(not greeting.strip() for greeting in others):
        yield CardFinding("note", "alternate_greetings", "contains an empty greeting")
    spoken = [greeting for greeting in (card.text("first_mes"), *others) if greeting.strip()]
    if len(set(spoken)) < len(spoken):
        yield CardFinding("note", "alternate_greetings", "contains the same greeting twice")


def _depth_prompt(card: Card) -> Iterator[CardFinding]:
    extensions = card.data.get("extensions")
    given = extensions.get("depth_prompt") if isinstance(extensions, dict) else None
    if given is None:
        return
    where = "extensions.depth_prompt"
    if not isinstance(given, dict) or not isinstance(given.get("prompt", ""), str):
        yield CardFinding("error", where, "is not an object with a text 'prompt': it is not sent")
        return
    depth = given.get("depth", 4)
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 0:
        yield CardFinding(
            "warning", where, f"has the depth {depth!r:.40}, which is not a number of messages"
        )
    if given.get("role", "system") not in _ROLES:
        yield CardFinding(
            "warning", where, f"has the role {given.get('role')!r:.40}, which is unknown"
        )


def _assets(card: Card) -> Iterator[CardFinding]:
    assets = card.data.get("assets")
    there = {path for path, _ in card.members}
    for asset in assets if isinstance(assets, list) else []:
        uri = asset.get("uri") if isinstance(asset, dict) else None
        if not isinstance(uri, str):
            yield CardFinding(
                "error", "assets", f"contains an asset without an address: {asset!r:.60}"
            )
            continue
        for scheme in (*charx.SCHEMES, ASSET_SCHEME):
            if uri.startswith(scheme) and uri.removeprefix(scheme) not in there:
                yield CardFinding("error", "assets", f"names {uri!r:.80}, which is not in the file")


def _dates(card: Card) -> Iterator[CardFinding]:
    for field in ("creation_date", "modification_date"):
        value = card.data.get(field)
        if isinstance(value, int | float) and value > _MS_SINCE:
            yield CardFinding("warning", field, "is in milliseconds; readers take it for seconds")


def _book(card: Card) -> Iterator[CardFinding]:
    for number, entry in enumerate(book_entries(card), start=1):
        where = f"character_book entry {number}"
        if not isinstance(entry, dict):
            yield CardFinding("error", where, "is not an object: it is not read")
            continue
        missing = [
            key for key in ("keys", "content", "enabled", "insertion_order") if key not in entry
        ]
        if missing:
            yield CardFinding("note", where, f"has no {', '.join(missing)}: the default is used")
        if not entry.get("keys") and not entry.get("constant") and "key" not in entry:
            yield CardFinding("warning", where, "has no keys and is not constant: it is never used")
        if not str(entry.get("content") or "").strip():
            yield CardFinding("note", where, "is empty")


def book_entries(card: Card) -> list[Any]:
    """Return the entries of the card's book as they stand; a mapping gives its values."""
    book = card.data.get("character_book")
    entries = book.get("entries") if isinstance(book, dict) else None
    if isinstance(entries, dict):
        return list(entries.values())
    return entries if isinstance(entries, list) else []


def _size(card: Card, counter: TokenCounter) -> Iterator[CardFinding]:
    tokens = sent_tokens(card, counter)
    if tokens > MANY_TOKENS:
        yield CardFinding(
            "warning",
            "size",
            f"{tokens} tokens are in every prompt: a small model has little room left to talk",
        )
