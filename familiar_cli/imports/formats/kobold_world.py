"""World info of KoboldAI Lite, a bare list of entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from familiar_cli.imports.book_mapping import OFF, BookMapping
from familiar_cli.imports.contract import Format, certain_if
from familiar_cli.imports.foreign_files import object_list

if TYPE_CHECKING:
    from familiar_cli.imports.lorebook import Lorebook

_SIGNS: Final = ("widisabled", "keyanti", "wigroup")
_MAPPING: Final = BookMapping(
    source="KoboldAI Lite",
    tool="kobold",
    known={
        "comment": "name",
        "content": "content",
        "key": "keys",
        "keysecondary": "secondary_keys",
        "constant": "constant",
        "selective": "selective",
    },
    order=lambda _: 100,
    off={**OFF, "widisabled": (True, "true", "1"), "probability": (0, "0")},
    comma_lists=("key", "keysecondary"),
)


def is_world(value: object) -> bool:
    """Tell whether a value is a list of such entries."""
    return any(key in item for item in object_list(value) for key in _SIGNS)


def read_world(value: list[Any], name: str, origin: str) -> Lorebook:
    """Read a list of entries as a book.

    Raises:
        BadInputError: None of them is one.
    """
    return _MAPPING.read({"name": name, "entries": value}, origin)


FORMAT: Final = Format(
    name="kobold_world",
    program="world info of KoboldAI Lite",
    forms=("lorebook",),
    sniff=lambda source: certain_if(is_world(source.value)),
    read=lambda source, _: [read_world(source.value, source.stem, source.name)],
)
