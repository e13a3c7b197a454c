"""Summarise a card and find what is wrong or unusual in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import starmap
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from familiar_cli.base.macros import unknown_macros
from familiar_cli.base.text import harmless, one_line, str_or_empty
from familiar_cli.imports import containers
from familiar_cli.imports.cards import FILE_FIELDS, KNOWN_FIELDS, Card
from familiar_cli.imports.containers import ASSET_SCHEME
from familiar_cli.imports.foreign_files import as_object, object_list, to_storable
from familiar_cli.store.memory.pages.front_matter import SELF_FILES

if TYPE_CHECKING:
    from familiar_cli.llm.tokens import TokenCounter


Severity = Literal["error", "warning", "note"]

# Tokens of a card in every prompt; small models have a context of about 4,000.
MANY_TOKENS: Final = 2000
_MOST_MACROS: Final = 8  # named in one line
_ALWAYS_SENT: Final = (
    "description",
    "personality",
    "scenario",
    "system_prompt",
    "post_history_instructions",
)
_MS_SINCE: Final = 10**11  # read as seconds, the year 5138
_ROLES: Final = ("system", "user", "assistant", 0, 1, 2)  # SillyTavern also writes numbers
_START: Final = re.compile(r"<START>", re.IGNORECASE)


class CardFinding(Struct, frozen=True):
    """Something wrong or unusual in a card.

    Args:
        severity: `error`: something is lost or does not work; `warning`: it may not do what its
            author intended; `note`: unusual, but harmless.
        where: The field or part.
        message: The finding and its consequence.
    """

    severity: Severity
    where: str
    message: str


_Row = tuple[Severity, str, str]  # of a finding


def check_card(card: Card, counter: TokenCounter) -> list[CardFinding]:
    """Find problems and oddities in `card`, worst first."""
    findings = [CardFinding("warning", "format", warning) for warning in card.warnings]
    checks = (
        *(_check_speech, _check_texts, _check_macros, _check_greetings),
        *(_depth_prompt, _check_assets, _check_dates, _check_book),
    )
    rows = [row for check in checks for row in check(card)]
    findings += starmap(CardFinding, (*rows, *_check_size(card, counter)))
    order = ("error", "warning", "note")
    return sorted(findings, key=lambda finding: order.index(finding.severity))


def sent_tokens(card: Card, counter: TokenCounter) -> int:
    """Count the card's tokens that are in every prompt."""
    return sum(counter.count(card.text(field)) for field in _ALWAYS_SENT)


def _check_speech(card: Card) -> Iterator[_Row]:
    if not (card.text("description").strip() or card.text("personality").strip()):
        yield "error", "description", "empty, and so is personality: the model knows only the name"
    if not card.text("first_mes").strip():
        yield "warning", "first_mes", "empty: the character will not open the conversation"
    examples = card.text("mes_example")
    if examples.strip() and not _START.search(examples):
        what = "has no <START>: it counts as one block and is cut as a whole"
        yield "warning", "mes_example", what


def _check_texts(card: Card) -> Iterator[_Row]:
    for field in KNOWN_FIELDS:
        for text in (card.text(field), *card.texts(field)):
            if to_storable(text) != text:
                yield "warning", field, "contains half a character; it is kept, and shown as \ufffd"
            elif harmless(text) != text.replace("\r\n", "\n"):
                what = "holds control characters or marks that reorder text; never printed raw"
                yield "warning", field, what


def _check_macros(card: Card) -> Iterator[_Row]:
    for field in (*FILE_FIELDS, "alternate_greetings"):
        for text in (card.text(field), *card.texts(field)):
            if text.count("{{") != text.count("}}"):
                yield "warning", field, "has a {{ without a matching }}: it is sent as is"
    for field in (*FILE_FIELDS, "alternate_greetings"):
        unknown = unknown_macros((card.text(field), *card.texts(field)))
        if unknown:
            named = ", ".join(f"{{{{{one_line(name, 40)}}}}}" for name in unknown[:_MOST_MACROS])
            yield "warning", field, f"has macros that are not filled: {named}"
    for field in ("description", "personality", "scenario"):
        if "{{original}}" in card.text(field).lower():
            yield "warning", field, "{{original}} has a meaning only in system_prompt"


def _check_greetings(card: Card) -> Iterator[_Row]:
    others = card.texts("alternate_greetings")
    if any(not greeting.strip() for greeting in others):
        yield "note", "alternate_greetings", "contains an empty greeting"
    greetings = [greeting for greeting in (card.text("first_mes"), *others) if greeting.strip()]
    if len(set(greetings)) < len(greetings):
        yield "note", "alternate_greetings", "contains the same greeting twice"


def _depth_prompt(card: Card) -> Iterator[_Row]:
    depth_prompt = card.extensions.get("depth_prompt")
    if depth_prompt is None:
        return
    where = "extensions.depth_prompt"
    if not isinstance(depth_prompt, dict) or not isinstance(depth_prompt.get("prompt", ""), str):
        yield "error", where, "is not an object with a text 'prompt': it is not sent"
        return
    depth = depth_prompt.get("depth", 4)
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 0:
        yield "warning", where, f"has the depth {depth!r:.40}, which is not a number of messages"
    if depth_prompt.get("role", "system") not in _ROLES:
        yield "warning", where, f"has the role {depth_prompt.get('role')!r:.40}, which is unknown"


def _check_assets(card: Card) -> Iterator[_Row]:
    assets = card.data.get("assets")
    there = {path for path, _ in card.members}
    for asset in assets if isinstance(assets, list) else []:
        uri = asset.get("uri") if isinstance(asset, dict) else None
        if not isinstance(uri, str):
            yield "error", "assets", f"contains an asset without an address: {asset!r:.60}"
            continue
        for scheme in (*containers.SCHEMES, ASSET_SCHEME):
            if uri.startswith(scheme) and uri.removeprefix(scheme) not in there:
                yield "error", "assets", f"names {uri!r:.80}, which is not in the file"


def _check_dates(card: Card) -> Iterator[_Row]:
    for field in ("creation_date", "modification_date"):
        value = card.data.get(field)
        if isinstance(value, int | float) and value > _MS_SINCE:
            yield "warning", field, "is in milliseconds; programs will read it as seconds"


def _check_book(card: Card) -> Iterator[_Row]:
    for number, entry in enumerate(book_entries(card), start=1):
        where = f"character_book entry {number}"
        if not isinstance(entry, dict):
            yield "error", where, "is not an object: it is not read"
            continue
        missing = [
            key for key in ("keys", "content", "enabled", "insertion_order") if key not in entry
        ]
        if missing:
            yield "note", where, f"has no {', '.join(missing)}: the default is used"
        if not entry.get("keys") and not entry.get("constant") and "key" not in entry:
            yield "warning", where, "has no keys and is not constant: it is never used"
        if not str(entry.get("content") or "").strip():
            yield "note", where, "is empty"


def book_entries(card: Card) -> list[Any]:
    """Return the raw entries of the card's book; for a mapping, its values."""
    entries = as_object(card.data.get("character_book")).get("entries")
    if isinstance(entries, dict):
        return list(entries.values())
    return entries if isinstance(entries, list) else []


def _check_size(card: Card, counter: TokenCounter) -> Iterator[_Row]:
    tokens = sent_tokens(card, counter)
    if tokens > MANY_TOKENS:
        what = f"{tokens} tokens are in every prompt: a small model has little room left to talk"
        yield "warning", "size", what


DEFAULT_DEPTH: Final = 4


class FieldSummary(Struct, frozen=True):
    """A text field of the card, with its length."""

    field: str
    title: str
    tokens: int
    text: str


class EntrySummary(Struct, frozen=True):
    """An entry of the card's book."""

    title: str
    keys: tuple[str, ...]
    enabled: bool
    constant: bool
    content: str


class CardSummary(Struct, frozen=True):
    """Overview of a card before it is imported.

    Args:
        sent_tokens: Number of its tokens that are in every prompt.
        counter: Name of the token counter.
        greetings: The first message and its alternatives.
        example_blocks: Number of example dialogues.
        depth_prompt: Its depth prompt's `depth`, `role` and `prompt`, if any.
        assets: Type, name and URI of each asset.
        members: Path and size in bytes of each embedded file.
        other: Names of the fields kept for other programs.
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


def summarise_card(card: Card, counter: TokenCounter) -> CardSummary:
    """Summarise `card`, with token counts by `counter`."""
    book = as_object(card.data.get("character_book"))
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
        fields=tuple(
            FieldSummary(entry.field, entry.title, counter.count(text), text)
            for entry in SELF_FILES
            if (text := card.text(entry.field))
        ),
        sent_tokens=sent_tokens(card, counter),
        counter=counter.name,
        greetings=(*first, *card.texts("alternate_greetings")),
        example_blocks=sum(1 for block in _START.split(card.text("mes_example")) if block.strip()),
        depth_prompt=_depth_prompt_text(card),
        book_name=str_or_empty(book.get("name")),
        book=tuple(map(_entry_summary, object_list(book_entries(card)))),
        assets=tuple(
            (str_or_empty(a.get("type")), str_or_empty(a.get("name")), str_or_empty(a.get("uri")))
            for a in object_list(card.data.get("assets"))
        ),
        members=card.members,
        other=_other_fields(card),
        warnings=card.warnings,
    )


def _depth_prompt_text(card: Card) -> dict[str, Any] | None:
    depth_prompt = card.extensions.get("depth_prompt")
    if not isinstance(depth_prompt, dict) or not str_or_empty(depth_prompt.get("prompt")):
        return None
    return {
        "depth": depth_prompt.get("depth", DEFAULT_DEPTH),
        "role": str_or_empty(depth_prompt.get("role")) or "system",
        "prompt": str_or_empty(depth_prompt.get("prompt")),
    }


def _entry_summary(entry: dict[str, Any]) -> EntrySummary:
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


_SHOWN: Final = (
    *(entry.field for entry in SELF_FILES),
    *("name", "nickname", "character_version", "creator", "creator_notes", "tags"),
    *("alternate_greetings", "character_book", "assets"),
)


def _other_fields(card: Card) -> tuple[str, ...]:
    empty: tuple[object, ...] = ("", [], {}, None)
    plain = [
        field
        for field, value in card.data.items()
        if field not in (*_SHOWN, "extensions") and value not in empty
    ]
    extensions = [f"extensions.{key}" for key in card.extensions if key != "depth_prompt"]
    return (*plain, *extensions, *(f"top_level.{key}" for key in card.top_level or {}))
