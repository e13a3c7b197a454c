"""By what a character is known again: which familiar was made of which card."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.bootstrap.cards import read_card
from familiar_cli.bootstrap.containers import SUFFIXES
from familiar_cli.errors import FamiliarError
from familiar_cli.memory.layout import SELF_DIR
from familiar_cli.memory.pages.self_files import ORIGINAL_STEM
from familiar_cli.text import fold, sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from familiar_cli.bootstrap.cards import Card
    from familiar_cli.memory.store.store import MemoryStore

_TEXTS: Final = ("description", "personality", "scenario", "first_mes", "mes_example")


@dataclass(frozen=True, slots=True)
class Face:
    """What a card looks like to whoever wants to know it again.

    Args:
        meaning: A digest of all that it says of the character.
        name: The character's name, folded.
        texts: Field and digest of each of its longer texts.
    """

    meaning: str
    name: str
    texts: frozenset[tuple[str, str]]

    def likeness(self, other: Face) -> int:
        """Return how much another card is like this one; 0: it is another character's."""
        if self.meaning == other.meaning:
            return len(_TEXTS) + 1
        return len(self.texts & other.texts) if self.name == other.name else 0


def face_of(card: Card) -> Face:
    """Return what a card looks like."""
    texts = {(field, sha256_of(card.text(field).strip())) for field in _TEXTS if card.text(field)}
    return Face(_meaning(card), fold(card.name), frozenset(texts))


def _meaning(card: Card) -> str:
    data = dict(card.data)
    extensions = data.get("extensions")
    if isinstance(extensions, dict):  # what it is to its owner is noted in the card, too
        data["extensions"] = {key: value for key, value in extensions.items() if key != "fav"}
    return sha256_of(json.dumps(data, sort_keys=True, default=str))


def original_card(store: MemoryStore) -> Card | None:
    """Return the card that a familiar was made of; None: it was made of none."""
    for suffix in SUFFIXES.values():
        rel_path = f"{SELF_DIR}/{ORIGINAL_STEM}{suffix}"
        if store.exists(rel_path):
            try:
                return read_card(store.read_bytes(rel_path), origin=rel_path)
            except FamiliarError:
                return None
    return None


def recognised(wanted: Mapping[str, Face], known: Mapping[str, Face]) -> dict[str, str]:
    """Return which of the known each of the wanted is; no two of the wanted are one.

    Args:
        wanted: Cards by any key.
        known: The cards of familiars, by the familiar's id.
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for _, key, familiar_id in sorted(_pairs(wanted, known)):
        if key not in found and familiar_id not in taken:
            found[key] = familiar_id
            taken.add(familiar_id)
    return found


def _pairs(wanted: Mapping[str, Face], known: Mapping[str, Face]) -> Iterator[tuple[int, str, str]]:
    """Yield what may be one, the likeliest with the lowest number."""
    by_name: dict[str, list[str]] = {}
    by_content: dict[str, list[str]] = {}
    for familiar_id, face in known.items():
        by_name.setdefault(face.name, []).append(familiar_id)
        by_content.setdefault(face.meaning, []).append(familiar_id)
    for key, face in wanted.items():
        candidates: Iterable[str] = {*by_name.get(face.name, ()), *by_content.get(face.meaning, ())}
        for familiar_id in candidates:
            likeness = face.likeness(known[familiar_id])
            if likeness:
                yield -likeness, key, familiar_id
