"""A character card: its fields in one form, whatever its version and container."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from msgspec import Struct

from familiar_cli.base.text import str_or_empty
from familiar_cli.imports.containers import SUFFIXES, V1_FIELDS, CardFile
from familiar_cli.imports.foreign_files import as_object, dump_json, text_list, to_storable
from familiar_cli.imports.import_plan import Effects
from familiar_cli.store.memory.layout import SELF_DIR
from familiar_cli.store.memory.pages.front_matter import ORIGINAL_STEM, SELF_FILES

if TYPE_CHECKING:
    from familiar_cli.imports.source import ForeignFile
    from familiar_cli.store.memory.store.store import MemoryStore

FieldKind = Literal["text", "texts", "object", "objects", "date"]

# Each field and its type, in the order of the specifications.
_V2_KINDS: Final[dict[str, FieldKind]] = {
    **dict.fromkeys(V1_FIELDS, "text"),
    "creator_notes": "text",
    "system_prompt": "text",
    "post_history_instructions": "text",
    "alternate_greetings": "texts",
    "character_book": "object",
    "tags": "texts",
    "creator": "text",
    "character_version": "text",
    "extensions": "object",
}
_KINDS: Final[dict[str, FieldKind]] = {
    **_V2_KINDS,
    "assets": "objects",
    "nickname": "text",
    "creator_notes_multilingual": "object",
    "source": "texts",
    "group_only_greetings": "texts",
    "creation_date": "date",
    "modification_date": "date",
}
KNOWN_FIELDS: Final = tuple(_KINDS)
_SPLIT_AT_COMMAS: Final = ("tags", "source")
_EMPTY: Final[dict[FieldKind, Callable[[], Any]]] = {"text": str, "texts": list, "object": dict}
# Required values for fields that a card leaves out.
REQUIRED: Final = {
    field: _EMPTY[kind] for field, kind in _V2_KINDS.items() if field != "character_book"
}
REQUIRED_V3: Final = REQUIRED | {"group_only_greetings": list}
_TYPE_NAMES: Final[dict[type, str]] = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}


def straighten_fields(data: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return `data` with each known field coerced to its proper type.

    Changes are reported in `notes`. Values that cannot be coerced stay as they are, and so do
    unknown fields.
    """
    straight: dict[str, Any] = {}
    for field, value in data.items():
        if field not in _KINDS:
            straight[field] = value
            continue
        shaped = _to_shape(field, value)
        if isinstance(shaped, str) and (mended := _encoded_once(shaped)) != shaped:
            notes.append(f"{field!r} was encoded twice; it is read as it was meant")
            straight[field] = mended
            continue
        if shaped is not None:
            straight[field] = shaped
        is_same = type(shaped) is type(value) and shaped == value
        if not (is_same and _fits_shape(field, shaped)):
            notes.append(_change_note(field, value, shaped))
    return straight


def _encoded_once(text: str) -> str:
    """Return a text whose UTF-8 was read as Windows-1252 and encoded again."""
    if not _TWICE.search(text):
        return text
    for encoding in ("cp1252", "latin-1"):
        try:
            return text.encode(encoding).decode("utf-8")
        except UnicodeError:
            continue
    return text


def is_text(value: object) -> bool:
    """Tell whether `value` is a non-blank string, worth a file."""
    return isinstance(value, str) and value != ""


def _to_shape(field: str, value: object) -> object:
    """Coerce a value to its field's type; None if it is empty."""
    kind = _KINDS[field]
    if kind == "text":
        return _as_text(value)
    if kind == "texts":
        return _as_texts(value, split=field in _SPLIT_AT_COMMAS)
    if field == "character_book" and isinstance(value, list):
        return {"entries": value}
    if field == "extensions" and value is None:
        return {}
    if kind == "date" and isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    return value


def _as_text(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "\n".join(value)
    return str(value) if isinstance(value, int | float) else value


def _as_texts(value: object, *, split: bool) -> object:
    if value is None:
        return []
    if isinstance(value, str):
        parts = value.split(",") if split else [value]
        return [part.strip() if split else part for part in parts if part.strip()]
    if isinstance(value, list):
        return [_as_text(part) for part in value if part is not None]
    return value


def _fits_shape(field: str, value: object) -> bool:
    match _KINDS[field]:
        case "text":
            return isinstance(value, str)
        case "texts" | "objects" as kind:
            item = str if kind == "texts" else dict
            return isinstance(value, list) and all(isinstance(part, item) for part in value)
        case "date":
            return isinstance(value, int | float)
        case _:
            return isinstance(value, dict)


def _change_note(field: str, value: object, shaped: object) -> str:
    was = _TYPE_NAMES.get(type(value), "something else")
    if shaped is None:
        return f"{field!r} is {was}; it is treated as missing"
    if not _fits_shape(field, shaped):
        return f"{field!r} has the wrong type ({was}); it is kept unchanged but not used"
    if type(shaped) is type(value):
        return f"{field!r} contains items that are not text; they were converted to text"
    return f"{field!r} is {was}; it is read as {_TYPE_NAMES[type(shaped)]}"


_TWICE: Final = re.compile("[\u00c2-\u00f4][\u0080-\u00bf\u0152-\u2122]")
MAIN_INSTRUCTION: Final = "{{original}}\n\n"
"""Stands above instructions that add to the main one and do not replace it."""

V2_SPEC: Final = ("chara_card_v2", "2.0")
V3_SPEC: Final = ("chara_card_v3", "3.0")


class Card(Struct, frozen=True):
    """A character card of any version, with the fields of V3.

    Args:
        spec: The version it was in (`v1`, `v2`, `v3`, `pygmalion`, `textgen`), or its program.
        container: The type of file it was in, or `template`.
        data: Its fields by their V3 names, coerced; unknown ones stay.
        raw: The JSON value it was read from.
        spec_named: `spec` and `spec_version` to write.
        top_level: Unknown fields outside `data`.
        repeated: Key at the top level -> the field that it duplicates.
        warnings: Oddities, one sentence each.
        members: Path and size in bytes of every other file in its container.
        origin: Name of its file.
        content: The file's bytes.
    """

    spec: str
    container: str
    data: dict[str, Any]
    raw: Any
    spec_named: tuple[str, str] = V3_SPEC
    top_level: dict[str, Any] | None = None
    repeated: dict[str, str] | None = None
    warnings: tuple[str, ...] = ()
    members: tuple[tuple[str, int], ...] = ()
    origin: str = ""
    content: bytes = b""

    @property
    def name(self) -> str:
        """The character's name, never empty."""
        return str(self.data["name"])

    def text(self, field: str) -> str:
        """Return the field if it is text, else an empty string."""
        return str_or_empty(self.data.get(field))

    def texts(self, field: str) -> list[str]:
        """Return the texts of a field that is a list, else an empty list."""
        return text_list(self.data.get(field))

    @property
    def extensions(self) -> dict[str, Any]:
        """Settings of other programs; empty if not an object."""
        return as_object(self.data.get("extensions"))


def build_card(
    source: ForeignFile,
    spec: str,
    fields: dict[str, Any],
    notes: list[str],
    **details: Any,  # noqa: ANN401  # of `Card`
) -> Card:
    """Build the card of a file from its fields by their V3 names.

    Args:
        source: The file.
        spec: The version or the program, as in `Card`.
        fields: The fields, of any type.
        notes: Oddities so far.
        **details: Other values of `Card`.
    """
    opened = source.card_file if isinstance(source.card_file, CardFile) else CardFile("json", None)
    notes = [*opened.notes, *notes]
    data = _by_name(straighten_fields(fields, notes), source.name, notes)
    return Card(
        **{
            "spec": spec,
            "container": opened.container,
            "data": data,
            "raw": opened.value,
            "warnings": tuple(notes),
            "members": opened.members,
            "origin": source.name,
            "content": source.raw,
            **details,
        }
    )


def _by_name(data: dict[str, Any], origin: str, notes: list[str]) -> dict[str, Any]:
    name = data.get("name")
    if isinstance(name, str) and name.strip():
        return data
    stem = PurePath(origin).stem.lstrip(".") or "Unnamed"
    notes.append(f"the card has no name; it is named {stem!r} after its file")
    return {**data, "name": stem}


FILE_FIELDS: Final = tuple(entry.field for entry in SELF_FILES)
_ALWAYS_THERE: Final = ("name",)  # not worth a note
# The fields that put text into prompts, and how.
_USED: Final = {
    **dict.fromkeys(FILE_FIELDS, ""),
    "first_mes": " (opens a new conversation)",
    "alternate_greetings": " (one of them, with `--greeting`)",
    "nickname": " (what {{char}} becomes)",
    "extensions.depth_prompt": "",
}


class KeptCard(TypedDict, total=False):
    """The contents of `card.json`.

    Args:
        spec: As stated by the card.
        spec_version: As stated by the card.
        data: Its fields that have no file of their own.
        top_level: Unknown fields outside `data`.
        repeated: Key at the top level -> the field that it duplicates.
        book: The directory of its lorebook.
    """

    spec: str
    spec_version: str
    data: dict[str, Any]
    top_level: dict[str, Any]
    repeated: dict[str, str]
    book: str


def kept_of(card: Card, *, book_dir: str | None) -> KeptCard:
    """Build the contents of `card.json` for `card`.

    Text with lone surrogates is kept here as well as in its file, so that it can be exported
    unchanged.

    Args:
        book_dir: The directory of its book, or None if the book must be kept here too.
    """
    spec, spec_version = card.spec_named
    kept: KeptCard = {"spec": spec, "spec_version": spec_version}
    kept["data"] = {
        field: value for field, value in card.data.items() if _stays_in_card(field, value, book_dir)
    }
    if card.top_level:
        kept["top_level"] = card.top_level
    if card.repeated:
        kept["repeated"] = card.repeated
    if book_dir:
        kept["book"] = book_dir
    return kept


def dump_kept(card: KeptCard) -> bytes:
    """Serialise `card.json`."""
    return (dump_json(card) + "\n").encode("utf-8")


ORIGINALS: Final = tuple(
    dict.fromkeys(f"{SELF_DIR}/{ORIGINAL_STEM}{suffix}" for suffix in SUFFIXES.values())
)
"""Where the file may be that a familiar was made of."""


def original_file(store: MemoryStore) -> tuple[bytes, str]:
    """Return the original file and its path; no bytes if there is none (any more)."""
    for rel_path in ORIGINALS:
        if store.exists(rel_path):
            return store.read_bytes(rel_path), rel_path
    return b"", ""


def effects_of_card(card: Card, *, book_dir: str | None) -> Effects:
    """Describe which fields of a card reach prompts, and which are only kept."""
    kept = kept_of(card, book_dir=book_dir)
    names = [field for field in FILE_FIELDS if is_text(card.data.get(field))]
    names += _name_fields(kept["data"])
    used = [f"{name}{_USED[name]}" for name in names if name in _USED]
    rest = [name for name in names if name not in _USED]
    rest += [f"top_level.{key}" for key in kept.get("top_level", {})]
    rest += [f"file {path}" for path, _ in card.members]
    return Effects(in_every_prompt=tuple(used), kept_unmapped=tuple(rest))


def _stays_in_card(field: str, value: object, book_dir: str | None) -> bool:
    if field == "character_book":
        return book_dir is None
    if field in FILE_FIELDS and isinstance(value, str):
        return not is_text(value) or to_storable(value) != value
    return True


def _name_fields(data: dict[str, Any]) -> Iterator[str]:
    for field, value in data.items():
        if value in ("", [], {}, None) or field in (*_ALWAYS_THERE, *FILE_FIELDS):
            continue
        if field == "extensions" and isinstance(value, dict):
            empty = not as_object(value.get("depth_prompt")).get("prompt")
            names = (key for key in value if not (empty and key == "depth_prompt"))
            yield from (f"extensions.{key}" for key in names)
        else:
            yield field
