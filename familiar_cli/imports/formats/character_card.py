"""Character cards: of the specifications V1 to V3, of Pygmalion, text-generation and sites."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.imports.cards import KNOWN_FIELDS, V2_SPEC, V3_SPEC, Card, build_card
from familiar_cli.imports.containers import V1_FIELDS
from familiar_cli.imports.contract import (
    CERTAIN,
    Format,
    Reading,
    Sighting,
    certain_if,
    possible_if,
)
from familiar_cli.imports.foreign_files import as_object, object_at

if TYPE_CHECKING:
    from familiar_cli.imports.source import ForeignFile

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
_OWN_FIELDS: Final = ("first_mes", "mes_example")  # hardly anything but a card has them
_ENOUGH_FIELDS: Final = 4
_V3: Final = 3
_WRAPPERS: Final = ("card", "character", "char")


def _sniff(source: ForeignFile) -> Sighting:
    value = _unwrap_card(source.value)
    if _is_named(value):
        return CERTAIN
    return possible_if(_shape_of(value) or _is_textgen_yaml(value, source))


def _read(source: ForeignFile, _: Reading) -> Iterator[Card]:
    value = _unwrap_card(source.value)
    yield read_value(value, source)


def read_value(value: dict[str, Any], source: ForeignFile) -> Card:
    """Read a card's JSON."""
    notes: list[str] = []
    shape = _shape_of(value) or ("textgen" if _is_textgen_yaml(value, source) else "v1")
    lifted = _lift_fields(value, shape, notes)
    repeated = _repeated_fields(value, shape, lifted)
    return build_card(
        source,
        shape,
        lifted,
        notes,
        raw=value,
        spec_named=_spec_named(value, shape, notes),
        top_level={k: v for k, v in value.items() if k not in (*repeated, *_FRAME)},
        repeated=repeated,
    )


def _unwrap_card(value: object) -> dict[str, Any]:
    """Return the card that an object wraps, if it holds nothing else of a card's."""
    outer = as_object(value)
    inner = next((outer[key] for key in _WRAPPERS if isinstance(outer.get(key), dict)), None)
    is_wrapper = inner is not None and not _shape_of(outer) and bool(_shape_of(inner))
    return inner if is_wrapper and inner is not None else outer


def _is_named(value: dict[str, Any]) -> bool:
    named = str(value.get("spec", "")).startswith("chara_card")
    return named and isinstance(value.get("data"), dict)


def _shape_of(value: dict[str, Any]) -> str:
    spec, data = str(value.get("spec", "")), value.get("data")
    if _is_named(value) or (
        isinstance(data, dict) and "lorebook" not in spec and _is_character(data)
    ):
        newer = spec != V2_SPEC[0] and (spec == V3_SPEC[0] or (_spec_version(value) or 0) >= _V3)
        return "v3" if newer else "v2"
    if _is_character(value):
        return "v1"
    if any(_has_text(value.get(key)) for key in ("char_persona", "char_greeting")):
        return "pygmalion"
    said = [_has_text(value.get(key)) for key in ("context", "greeting")]
    return "textgen" if _has_text(value.get("name")) and all(said) else ""


def _is_textgen_yaml(value: dict[str, Any], source: ForeignFile) -> bool:
    texts = any(_has_text(value.get(key)) for key in ("context", "greeting"))
    return source.shape == "text" and _has_text(value.get("name")) and texts


def _is_character(value: dict[str, Any]) -> bool:
    """Tell whether there is text that only a card has; plenty of other JSON has a name."""
    texts = [key for key in V1_FIELDS if _has_text(value.get(key))]
    known = sum(key in value for key in V1_FIELDS)
    is_own = any(key in value for key in _OWN_FIELDS) or known >= _ENOUGH_FIELDS
    return is_own and len(texts) > 1


def _has_text(value: object) -> bool:
    return isinstance(value, str | list) and bool(str(value).strip())


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


FORMAT: Final = Format("card", "a character card", ("card",), _sniff, _read)


# Characters as sites hand them out: Chub's API, and JanitorAI, which spell fields alike.
_SITE_FIELDS: Final = {
    "name": "name",
    "personality": "description",  # what the model reads
    "tavern_personality": "personality",
    "scenario": "scenario",
    "first_message": "first_mes",
    "example_dialogs": "mes_example",
    "system_prompt": "system_prompt",
    "post_history_instructions": "post_history_instructions",
    "alternate_greetings": "alternate_greetings",
    "embedded_lorebook": "character_book",
    "description": "creator_notes",  # what the site shows
    "tags": "tags",
}
_SITE_SIGNS: Final = ("first_message", "first_messages", "example_dialogs")


def _site_definition(source: ForeignFile) -> tuple[dict[str, Any], str]:
    """Return the object with the character's fields, and the site that it comes from."""
    outer = as_object(source.value)
    node = object_at(outer, "node") or outer
    inner = object_at(node, "definition")
    if any(key in inner for key in _SITE_SIGNS):
        return inner, "chub"
    for value in (outer, object_at(outer, "character"), object_at(outer, "data")):
        if "personality" in value and any(key in value for key in _SITE_SIGNS):
            return value, "janitor"
    return {}, ""


def _sniff_site(source: ForeignFile) -> Sighting:
    _, site = _site_definition(source)
    return certain_if(site, f"a character of {'Chub' if site == 'chub' else 'JanitorAI'}")


def _read_site(source: ForeignFile, _: Reading) -> Iterator[Card]:
    value, site = _site_definition(source)
    fields = {ours: value[key] for key, ours in _SITE_FIELDS.items() if value.get(key) is not None}
    greetings = value.get("first_messages")
    if isinstance(greetings, list) and greetings and not fields.get("first_mes"):
        fields["first_mes"], *fields["alternate_greetings"] = greetings
    kept = {key: value[key] for key in value if key not in (*_SITE_FIELDS, "first_messages")}
    fields["extensions"] = {**as_object(kept.pop("extensions", None)), site: kept}
    yield build_card(source, site, fields, [])


SITE: Final = Format("site_card", "a character of a site", ("card",), _sniff_site, _read_site)
