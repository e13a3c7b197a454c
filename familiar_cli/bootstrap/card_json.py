"""`self/card.json`: every field of a card that has no file of its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypedDict

from familiar_cli.bootstrap.card_fields import is_text
from familiar_cli.bootstrap.import_report import Effects
from familiar_cli.bootstrap.json_text import dump_json
from familiar_cli.memory.pages.self_files import SELF_FILES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.bootstrap.cards import Card

FILE_FIELDS: Final = tuple(entry.field for entry in SELF_FILES)
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_ALWAYS_THERE: Final = ("name",)  # not worth a mention
_USED: Final = {
    **dict.fromkeys(FILE_FIELDS, ""),
    "first_mes": " (opens a new conversation)",
    "alternate_greetings": " (one of them, with `--greeting`)",
    "nickname": " (what {{char}} becomes)",
    "extensions.depth_prompt": "",
}
"""The fields that put text into prompts, and how."""


class KeptCard(TypedDict, total=False):
    """What `card.json` holds.

    Args:
        spec: As the card names it.
        spec_version: As the card names it.
        data: Its fields that have no file.
        top_level: What stood beside them.
        repeated: What stood there once more: its name there -> the field.
        book: The directory that its lorebook went to.
    """

    spec: str
    spec_version: str
    data: dict[str, Any]
    top_level: dict[str, Any]
    repeated: dict[str, str]
    book: str


def storable(text: str) -> str:
    """Return `text` as UTF-8 can hold it: a lone surrogate becomes U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def kept_of(card: Card, *, book_dir: str | None) -> KeptCard:
    """Return what `card.json` holds for `card`.

    Text with lone surrogates stays here besides its file, so that it can go out as it came.

    Args:
        card: The card.
        book_dir: Where its book went, or None when the book has to stay here too.
    """
    spec, spec_version = card.spec_named
    kept: KeptCard = {"spec": spec, "spec_version": spec_version}
    kept["data"] = {
        field: value for field, value in card.data.items() if _stays(field, value, book_dir)
    }
    if card.top_level:
        kept["top_level"] = card.top_level
    if card.repeated:
        kept["repeated"] = card.repeated
    if book_dir:
        kept["book"] = book_dir
    return kept


def dump_kept(kept: KeptCard) -> bytes:
    """Return the bytes of `card.json`."""
    return (dump_json(kept) + "\n").encode("utf-8")


def effects_of_card(card: Card, *, book_dir: str | None) -> Effects:
    """Return what prompts have of the fields of a card, and what is kept without effect."""
    kept = kept_of(card, book_dir=book_dir)
    names = [field for field in FILE_FIELDS if is_text(card.data.get(field))]
    names += _names(kept["data"])
    used = [f"{name}{_USED[name]}" for name in names if name in _USED]
    rest = [name for name in names if name not in _USED]
    rest += [f"top_level.{key}" for key in kept.get("top_level", {})]
    rest += [f"file {path}" for path, _ in card.members]
    return Effects(in_every_prompt=tuple(used), kept=tuple(rest))


def _stays(field: str, value: object, book_dir: str | None) -> bool:
    if field == "character_book":
        return book_dir is None
    if field in FILE_FIELDS and isinstance(value, str):
        return not is_text(value) or storable(value) != value
    return True


def _names(data: dict[str, Any]) -> Iterator[str]:
    for field, value in data.items():
        if value in ("", [], {}, None) or field in (*_ALWAYS_THERE, *FILE_FIELDS):
            continue
        if field == "extensions" and isinstance(value, dict):
            yield from (f"extensions.{key}" for key in value)
        else:
            yield field
