"""Lorebooks of NovelAI, alone or in a scenario, whose categories can be switched off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from familiar_cli.imports.contract import Format, Reading
from familiar_cli.imports.foreign_files import as_object, object_at
from familiar_cli.imports.lorebook_reading import OFF, BookMapping

if TYPE_CHECKING:
    from familiar_cli.imports.lorebook import Lorebook
    from familiar_cli.imports.source import ForeignFile

_DEFAULT_ORDER: Final = 400  # NovelAI's own
_SIGN: Final = "lorebookVersion"
_NOT_READ: Final = "the scenario's prompt, memory and author's note are not imported"


def _order(raw: Mapping[str, Any]) -> Any:  # noqa: ANN401  # repaired later, like all settings
    return object_at(raw, "contextConfig").get("budgetPriority", _DEFAULT_ORDER)


_MAPPING: Final = BookMapping(
    source="NovelAI",
    tool="novelai",
    known={
        "displayName": "name",
        "text": "content",
        "keys": "keys",
        "enabled": "enabled",
        "forceActivation": "constant",
        "id": "id",
    },
    order=_order,
    off=OFF,
    parents=("categories", "id", "category"),
)


def _book(source: ForeignFile) -> dict[str, Any]:
    value = as_object(source.value)
    return value if _SIGN in value else object_at(value, "lorebook")


def _read(source: ForeignFile, _: Reading) -> Iterator[Lorebook]:
    data = _book(source)
    book = _MAPPING.read(data, source.name)
    if data is source.value:
        yield book
    else:
        title = str(source.value.get("title") or "")
        yield replace(book, name=book.name or title, warnings=(_NOT_READ, *book.warnings))


FORMAT: Final = Format(
    "novelai", "a lorebook of NovelAI", ("lorebook",), lambda source: _SIGN in _book(source), _read
)
