"""Memories in the interchange forms PAM 1.0 and MIF 2, which are one JSON object each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from familiar_cli.base.text import str_or_empty
from familiar_cli.imports.contract import ForeignMemory, Format, certain_if
from familiar_cli.imports.foreign_files import as_object, object_list
from familiar_cli.imports.memory_lists import build_memories, read_day

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.imports.source import ForeignFile

_PAM: Final = "portable-ai-memory"
_GONE: Final = frozenset({"superseded", "retracted"})
_DAYS: Final = ("valid_from", "created_at", "updated_at")


def _name(source: ForeignFile) -> str:
    """Return the form's name; empty if it is neither."""
    value = as_object(source.value)
    if not isinstance(value.get("memories"), list):
        return ""
    if value.get("schema") == _PAM:
        return "PAM"
    return "MIF" if "mif_version" in value else ""


def _read(source: ForeignFile) -> Iterator[ForeignMemory]:
    for number, row in enumerate(object_list(as_object(source.value).get("memories")), 1):
        if row.get("status") not in _GONE:
            yield ForeignMemory(str_or_empty(row.get("content")), number, _day(row), _about(row))


def _day(row: dict[str, Any]) -> Any:  # noqa: ANN401  # a date or None
    places = (as_object(row.get("temporal")), row)
    days = (read_day(place.get(name)) for place in places for name in _DAYS)
    return next(filter(None, days), None)


def _about(row: dict[str, Any]) -> str:
    """Return the only entity that a memory names, if it is no user."""
    entities = object_list(row.get("entities"))
    names = [str_or_empty(one.get("name")) for one in entities]
    return names[0] if len(names) == 1 and names[0].casefold() not in {"user", "me"} else ""


def _notes(source: ForeignFile) -> list[str]:
    rows = object_list(as_object(source.value).get("memories"))
    gone = sum(row.get("status") in _GONE for row in rows)
    return [f"{gone} superseded or retracted memories are left out"] if gone else []


FORMAT: Final = Format(
    name="memory-interchange",
    program="memories for interchange (PAM or MIF)",
    forms=("memories",),
    sniff=lambda source: certain_if(_name(source), f"memories for interchange ({_name(source)})"),
    read=lambda source, _: [
        build_memories(_name(source), source.stem, _read(source), *_notes(source))
    ],
)
