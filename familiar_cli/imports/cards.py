"""Character cards: any container and version read into one form."""

from __future__ import annotations

import math
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from msgspec import Struct

from familiar_cli.base.errors import BadInputError
from familiar_cli.base.text import str_or_empty
from familiar_cli.imports.containers import SUFFIXES, V1_FIELDS, CardFile, open_container
from familiar_cli.imports.foreign_files import as_object, dump_json, text_list, to_storable
from familiar_cli.imports.import_plan import Effects
from familiar_cli.store.memory.layout import SELF_DIR
from familiar_cli.store.memory.pages.front_matter import ORIGINAL_STEM, SELF_FILES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
        if shaped is not None:
            straight[field] = shaped
        is_same = type(shaped) is type(value) and shaped == value
        if not (is_same and _fits_shape(field, shaped)):
            notes.append(_change_note(field, value, shaped))
    return straight


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


V2_SPEC: Final = ("chara_card_v2", "2.0")
V3_SPEC: Final = ("chara_card_v3", "3.0")
_FRAME: Final = ("spec", "spec_version", "data")
_PYGMALION: Final = {
    "char_name": "name",
    "char_persona": "description",
    "world_scenario": "scenario",
    "char_greeting": "first_mes",
    "example_dialogue": "mes_example",
}
_TEXTGEN: Final = {
    "name": "name",
    "context": "description",
    "greeting": "first_mes",
    "example_dialogue": "mes_example",
}
_ENOUGH_FIELDS: Final = 2
_LOREBOOK_SIGNS: Final = ("entries", "lorebookVersion")


class Card(Struct, frozen=True):
    """A character card of any version, with the fields of V3.

    Args:
        spec: The version it was in: `v1`, `v2`, `v3`, `pygmalion` or `textgen`.
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


def read_card(raw: bytes, *, origin: str) -> Card:
    """Parse a card file of any container and version.

    Args:
        raw: The file's bytes.
        origin: The file's name: for messages, and as the name of a nameless card.

    Raises:
        BadInputError: It contains no card, or is damaged or too large.
    """
    opened = open_container(raw, origin=origin)
    return card_of(opened.value, origin=origin, opened=opened, content=raw)


def card_of(
    value: object, *, origin: str, opened: CardFile | None = None, content: bytes = b""
) -> Card:
    """Parse a JSON value as a card.

    Raises:
        BadInputError: It is not a card.
    """
    if not isinstance(value, dict):
        raise BadInputError(f"{origin!r} is not a character card: it does not contain an object")
    notes = list(opened.notes if opened else ())
    shape = _shape_of(value, origin)
    lifted = _lift_fields(value, shape, notes)
    data = _by_name(straighten_fields(lifted, notes), origin, notes)
    repeated = _repeated_fields(value, shape, lifted)
    return Card(
        spec=shape,
        container=opened.container if opened else "json",
        data=data,
        raw=value,
        spec_named=_spec_named(value, shape, notes),
        top_level={k: v for k, v in value.items() if k not in (*repeated, *_FRAME)},
        repeated=repeated,
        warnings=tuple(notes),
        members=opened.members if opened else (),
        origin=origin,
        content=content,
    )


def _shape_of(value: dict[str, Any], origin: str) -> str:
    spec = str(value.get("spec", ""))
    if isinstance(value.get("data"), dict) and "lorebook" not in spec and _is_card(value):
        newer = spec != V2_SPEC[0] and (spec == V3_SPEC[0] or (_spec_version(value) or 0) >= 3)  # noqa: PLR2004
        return "v3" if newer else "v2"
    if "lorebook" in spec or any(sign in value for sign in _LOREBOOK_SIGNS):
        raise BadInputError(
            f"{origin!r} is a lorebook, not a character card",
            hint="Import it with `familiar import-lorebook`.",
        )
    if _has_fields(value):
        return "v1"
    if any(key in value for key in ("char_name", "char_persona", "char_greeting")):
        return "pygmalion"
    if "name" in value and any(key in value for key in ("context", "greeting")):
        return "textgen"
    raise BadInputError(
        f"{origin!r} is not a character card: it has none of a card's fields",
        hint="A card has at least a name and a description or a first message.",
    )


def _is_card(value: dict[str, Any]) -> bool:
    named = str(value.get("spec", "")).startswith("chara_card")
    return named or _has_fields(value["data"])


def _has_fields(value: dict[str, Any]) -> bool:
    """Tell whether enough card fields are present; plenty of other JSON has a name."""
    return sum(key in value for key in V1_FIELDS) >= _ENOUGH_FIELDS


def _spec_version(value: dict[str, Any]) -> float | None:
    try:
        version = float(str(value.get("spec_version", "")))
    except ValueError:
        return None
    return version if math.isfinite(version) else None


def _spec_named(value: dict[str, Any], shape: str, notes: list[str]) -> tuple[str, str]:
    """Return the `spec` and `spec_version` to write, noting oddities in the given ones."""
    if shape not in {"v2", "v3"}:
        if "spec" in value:
            notes.append(f"'spec' is {value['spec']!r:.60}, but the fields are not in 'data'")
        return V3_SPEC
    spec, given, version = value.get("spec"), value.get("spec_version"), _spec_version(value)
    usual = V3_SPEC if shape == "v3" else V2_SPEC
    if not isinstance(spec, str) or not spec.startswith("chara_card"):
        notes.append(f"'spec' is {spec!r:.60}; it is read as {usual[0]!r}")
        spec = usual[0]
    if version is None:
        notes.append(f"'spec_version' is {given!r:.60}; it is read as {usual[1]!r}")
        return spec, usual[1]
    if not isinstance(given, str):
        notes.append("'spec_version' is a number; it is read as text")
    if version > float(V3_SPEC[1]):
        notes.append(
            f"version {version:g} is newer than {V3_SPEC[1]}, the newest supported version"
        )
    elif int(version) != int(float(usual[1])):
        notes.append(f"'spec' is {spec!r:.60}, 'spec_version' {given!r:.60}; 'spec' is used")
        return spec, usual[1]
    return spec, str(given)


def _lift_fields(value: dict[str, Any], shape: str, notes: list[str]) -> dict[str, Any]:
    """Collect the card's fields under their V3 names, wherever they were."""
    if shape in {"pygmalion", "textgen"}:
        names = _PYGMALION if shape == "pygmalion" else _TEXTGEN
        return {field: value[key] for key, field in names.items() if key in value}
    if shape == "v1":
        later = [key for key in KNOWN_FIELDS if key in value and key not in V1_FIELDS]
        notes.extend(f"{key!r} is in a V1 card, which has no such field" for key in later)
        return {key: value[key] for key in KNOWN_FIELDS if key in value}
    data = dict(value["data"])
    for key in KNOWN_FIELDS:
        if key not in value:
            continue
        if key not in data:
            notes.append(f"{key!r} is outside 'data'; it is read as if it were inside")
            data[key] = value[key]
        elif data[key] != value[key]:
            notes.append(f"{key!r} differs inside and outside 'data'; the inner one is used")
    return data


def _repeated_fields(value: dict[str, Any], shape: str, lifted: dict[str, Any]) -> dict[str, str]:
    names = {"pygmalion": _PYGMALION, "textgen": _TEXTGEN}.get(shape) or dict(
        zip(KNOWN_FIELDS, KNOWN_FIELDS, strict=True)
    )
    return {
        key: field
        for key, field in names.items()
        if key in value and field in lifted and lifted[field] == value[key]
    }


def _by_name(data: dict[str, Any], origin: str, notes: list[str]) -> dict[str, Any]:
    name = data.get("name")
    if isinstance(name, str) and name.strip():
        return data
    stem = PurePath(origin).stem.lstrip(".") or "Unnamed"
    notes.append(f"the card has no name; it is named {stem!r} after its file")
    return {**data, "name": stem}


FILE_FIELDS: Final = tuple(entry.field for entry in SELF_FILES)
_ALWAYS_THERE: Final = ("name",)  # not worth a note
_USED: Final = {
    **dict.fromkeys(FILE_FIELDS, ""),
    "first_mes": " (opens a new conversation)",
    "alternate_greetings": " (one of them, with `--greeting`)",
    "nickname": " (what {{char}} becomes)",
    "extensions.depth_prompt": "",
}
"""The fields that put text into prompts, and how."""


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
        card: The card.
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


def dump_kept(kept: KeptCard) -> bytes:
    """Serialise `card.json`."""
    return (dump_json(kept) + "\n").encode("utf-8")


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
            yield from (f"extensions.{key}" for key in value)
        else:
            yield field
