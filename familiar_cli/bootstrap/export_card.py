"""Make a card out of the memory directory again, with every edit made since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from familiar_cli.bootstrap.card_fields import KNOWN_FIELDS, REQUIRED, REQUIRED_V3
from familiar_cli.bootstrap.card_json import FILE_FIELDS, storable
from familiar_cli.bootstrap.cards import V2_SPEC, V3_SPEC
from familiar_cli.bootstrap.containers import SUFFIXES
from familiar_cli.bootstrap.export_lorebook import export_book
from familiar_cli.bootstrap.import_silly_tavern import load_book
from familiar_cli.bootstrap.json_text import OWN_DEPTH, dump_json, read_json
from familiar_cli.bootstrap.lorebooks import book_settings
from familiar_cli.bootstrap.lorebooks.shelf import same_book
from familiar_cli.bootstrap.packing import Carried, pack_charx, pack_json, pack_png
from familiar_cli.errors import BadInputError, LimitError, NotFoundError
from familiar_cli.memory.layout import CARD_JSON, SELF_DIR
from familiar_cli.memory.pages.self_files import ORIGINAL_STEM, field_text, self_file

if TYPE_CHECKING:
    from familiar_cli.bootstrap.card_json import KeptCard
    from familiar_cli.memory.store.store import MemoryStore

CardFormat = Literal["png", "json", "charx"]
FORMATS: Final = ("png", "json", "charx")


@dataclass(frozen=True, slots=True)
class Exported:
    """A card made from memory.

    Args:
        content: The file's bytes.
        left_out: What the original file carries and this kind of file cannot.
    """

    content: bytes
    left_out: tuple[str, ...] = ()


def export_card(store: MemoryStore, card_format: CardFormat, *, default_name: str) -> Exported:
    """Return the familiar as a card, edits included.

    Args:
        store: The familiar's memory.
        card_format: The kind of file.
        default_name: The name of a familiar that came from no card.

    Raises:
        NotFoundError: There is nothing in `self/` to make a card of.
        BadInputError: `self/card.json` or the original can no longer be read.
    """
    value = current_value(store, default_name=default_name)
    carried = Carried.of(*_original(store))
    if card_format == "json":
        packed, left_out = pack_json(value, carried)
        return Exported((dump_json(packed) + "\n").encode("utf-8"), left_out)
    pack = pack_png if card_format == "png" else pack_charx
    content, left_out = pack(value, carried)
    return Exported(content, left_out)


def current_value(store: MemoryStore, *, default_name: str) -> dict[str, Any]:
    """Return the card's JSON value as memory has it now, in the version it came in.

    Raises:
        NotFoundError: As `export_card`.
        BadInputError: As `export_card`.
    """
    kept = _kept(store)
    spec = kept.get("spec") or V3_SPEC[0]
    data = dict(kept.get("data") or {})
    data.setdefault("name", default_name)
    for field in FILE_FIELDS:
        _put_text(store, field, data)
    _put_book(store, kept.get("book"), data)
    required = REQUIRED if spec == V2_SPEC[0] else REQUIRED_V3
    for field, empty in required.items():
        data.setdefault(field, empty())
    value = {
        key: data[field] for key, field in (kept.get("repeated") or {}).items() if field in data
    }
    value |= kept.get("top_level") or {}
    version = kept.get("spec_version") or V3_SPEC[1]
    return value | {"spec": spec, "spec_version": version, "data": _in_order(data)}


def _kept(store: MemoryStore) -> KeptCard:
    if not store.exists(CARD_JSON):
        if not any(store.exists(self_file(field).rel_path) for field in FILE_FIELDS):
            raise NotFoundError(
                "There is nothing in self/ to export",
                hint="Write `self/description.md`, or start with `familiar init`.",
            )
        return {}
    kept, _ = read_json(store.read_bytes(CARD_JSON), origin=CARD_JSON, max_depth=OWN_DEPTH)
    parts = ("data", "top_level", "repeated")
    objects = isinstance(kept, dict) and all(isinstance(kept.get(p, {}), dict) for p in parts)
    if objects and all(isinstance(field, str) for field in kept.get("repeated", {}).values()):
        return cast("KeptCard", kept)
    raise BadInputError(
        f"{CARD_JSON!r} is not an object with an object 'data' in it",
        hint="Unpack the card again with `familiar init --from-card FILE --overwrite`.",
    )


def _put_text(store: MemoryStore, field: str, data: dict[str, Any]) -> None:
    """Set the field to what its file says now; a file that was taken away leaves it empty."""
    rel_path = self_file(field).rel_path
    kept = data.get(field)
    if not store.exists(rel_path):
        if isinstance(kept, str) and storable(kept) != kept:
            data[field] = ""
        return
    text = field_text(store.read_file(rel_path))
    # Half characters cannot stand in a file; as long as it is unedited, they go out as they came.
    if not (isinstance(kept, str) and storable(kept) == text):
        data[field] = text


def _put_book(store: MemoryStore, directory: object, data: dict[str, Any]) -> None:
    if not isinstance(directory, str):
        return
    try:
        data["character_book"] = export_book(
            store, directory=directory, book_format="card", book_id=_own_book(store, directory)
        )
    except NotFoundError:
        return


def _own_book(store: MemoryStore, directory: str) -> str:
    """Return the id of the card's own book among several in one directory; empty: not known."""
    settings = book_settings.load(store, directory)
    if len(settings.books) <= 1:
        return ""
    content, origin = _original(store)
    try:
        return same_book(settings, load_book(content, origin=origin)) or ""
    except (BadInputError, LimitError):
        return ""


def _original(store: MemoryStore) -> tuple[bytes, str]:
    """Return the original file and its name; no bytes when it is gone or there never was one."""
    for suffix in dict.fromkeys(SUFFIXES.values()):
        rel_path = f"{SELF_DIR}/{ORIGINAL_STEM}{suffix}"
        if store.exists(rel_path):
            return store.read_bytes(rel_path), rel_path
    return b"", ""


def _in_order(data: dict[str, Any]) -> dict[str, Any]:
    known = {field: data[field] for field in KNOWN_FIELDS if field in data}
    return known | data
