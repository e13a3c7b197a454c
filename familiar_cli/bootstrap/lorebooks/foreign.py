"""What the converters of other programs' formats share: map what is known, keep the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def convert(
    raw: Mapping[str, Any], known: Mapping[str, str], tool: str, more: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `raw` as an entry of a `character_book`.

    Args:
        raw: The entry as the other program writes it.
        known: Its name for a setting -> ours.
        tool: Under which name in `extensions` its other settings are kept.
        more: What the entry has where `raw` says nothing.
    """
    mapped = {ours: raw[theirs] for theirs, ours in known.items() if raw.get(theirs) is not None}
    rest = {name: value for name, value in raw.items() if known.get(name) not in mapped}
    return {**more, **mapped, "extensions": {tool: rest} if rest else {}}


def rest_of(data: Mapping[str, Any], used: Iterable[str], tool: str) -> dict[str, Any]:
    """Return a book's frame that keeps what of `data` is not in `used` under its program's name."""
    rest = {name: value for name, value in data.items() if name not in used}
    return {"extensions": {tool: rest} if rest else {}}
