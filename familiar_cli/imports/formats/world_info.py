"""Lorebooks of SillyTavern and of cards: World Info, character_book and lorebook_v3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from familiar_cli.imports.contract import CERTAIN, Format, Sighting, possible_if
from familiar_cli.imports.lorebook import Lorebook
from familiar_cli.imports.lorebook_reading import (
    is_book,
    is_entry_list,
    not_a_lorebook,
    read_entries,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.imports.foreign_chat import Reading
    from familiar_cli.imports.source import ForeignFile

_V3: Final = "lorebook_v3"
_OF_WORLD: Final = frozenset({"uid", "key", "keysecondary", "content"})


def _sniff(source: ForeignFile) -> Sighting:
    value = source.value
    if isinstance(value, dict) and (value.get("spec") == _V3 or _is_world(value)):
        return CERTAIN
    return possible_if(is_book(value) or is_entry_list(value))


def _is_world(value: dict[str, Any]) -> bool:
    """Tell whether all entries have what SillyTavern gives each of its own."""
    entries = value.get("entries")
    return (
        isinstance(entries, dict)
        and bool(entries)
        and all(isinstance(one, dict) and one.keys() >= _OF_WORLD for one in entries.values())
    )


def _read(source: ForeignFile, _: Reading) -> Iterator[Lorebook]:
    yield _read_value(source.value, source.name)


def _read_value(value: Any, origin: str) -> Lorebook:  # noqa: ANN401  # JSON holds anything
    if isinstance(value, list):
        book = read_entries({"entries": value}, origin, "a bare list of entries")
        return replace(book, warnings=("the file is a bare list of entries", *book.warnings))
    if value.get("spec") != _V3:
        return read_entries(value, origin, "")
    outer = {name: setting for name, setting in value.items() if name not in ("spec", "data")}
    return replace(read_embedded(value.get("data"), origin, _V3), outer=outer)


def read_embedded(data: object, origin: str, source: str) -> Lorebook:
    """Read the book of a card or of a `lorebook_v3`.

    Raises:
        BadInputError: It is not a lorebook.
    """
    if data is None:
        notes = ("the book is null: it has no entries",)
        return Lorebook("", "book", source=source, warnings=notes)
    if isinstance(data, dict) and data.get("spec") == _V3:
        return _read_value(data, origin)
    if not isinstance(data, dict):
        raise not_a_lorebook(data, origin)
    return read_entries(data, origin, source)


FORMAT: Final = Format(
    name="world_info", program="a lorebook", forms=("lorebook",), sniff=_sniff, read=_read
)
