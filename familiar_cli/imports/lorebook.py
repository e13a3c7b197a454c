"""A lorebook and its entries, and the spelling of settings in World Info and in cards.

Settings without an equivalent on the other side are packed into `extensions`: `world_info` in a
book, `character_book` in World Info. Converting back unpacks them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.text import sha256_of
from familiar_cli.imports.foreign_files import as_object

Shape = Literal["worldinfo", "book"]
"""How settings are spelled: as SillyTavern's World Info does, or as a card's `character_book`."""

BookFormat = Literal["worldinfo", "v3", "card"]

KEYS: Final[Mapping[Shape, str]] = {"worldinfo": "key", "book": "keys"}
"""Which setting holds an entry's keys."""

DEFAULTS: Final[Mapping[str, Any]] = {
    "key": [],
    "keysecondary": [],
    "comment": "",
    "content": "",
    "constant": False,
    "vectorized": False,
    "selective": True,
    "selectiveLogic": 0,
    "addMemo": False,
    "order": 100,
    "position": 0,
    "disable": False,
    "ignoreBudget": False,
    "excludeRecursion": False,
    "preventRecursion": False,
    "matchPersonaDescription": False,
    "matchCharacterDescription": False,
    "matchCharacterPersonality": False,
    "matchCharacterDepthPrompt": False,
    "matchScenario": False,
    "matchCreatorNotes": False,
    "delayUntilRecursion": 0,
    "probability": 100,
    "useProbability": True,
    "depth": 4,
    "outletName": "",
    "group": "",
    "groupOverride": False,
    "groupWeight": 100,
    "scanDepth": None,
    "caseSensitive": None,
    "matchWholeWords": None,
    "useGroupScoring": None,
    "automationId": "",
    "role": 0,
    "sticky": None,
    "cooldown": None,
    "delay": None,
    "triggers": [],
    "characterFilter": {"isExclude": False, "names": [], "tags": []},
}
"""What an entry of World Info has where it says nothing.

Source: docs/reference/lorebooks.md, "World Info".
"""

_SILENT: Final[Mapping[Shape, Mapping[str, Any]]] = {
    "worldinfo": DEFAULTS,
    "book": {"constant": False, "selective": False, "secondary_keys": [], "use_regex": False},
}
_UID: Final[Mapping[Shape, str]] = {"worldinfo": "uid", "book": "id"}


class LoreEntry(Struct, frozen=True):
    """An entry, with every setting of its source.

    Args:
        shape: The spelling of `raw`.
        raw: The entry as JSON; keys, content, title and the on/off switch have their proper types.
        slot: Its key in the source's `entries` object, or empty if that was a list.
    """

    shape: Shape
    raw: Mapping[str, Any]
    slot: str = ""

    @property
    def title(self) -> str:
        """Its title; may be empty."""
        return str(self.raw.get(self.title_field) or "")

    @property
    def other_titles(self) -> tuple[str, ...]:
        """Its alternative titles."""
        names = (str(self.raw.get(name) or "") for name in ("name", "comment"))
        return tuple(name for name in names if name != self.title)

    @property
    def title_field(self) -> str:
        """The setting that holds the title: a book's entry may have `name`, `comment` or both."""
        if self.shape == "book" and str(self.raw.get("name") or "").strip():
            return "name"
        return "comment"

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that trigger it."""
        return tuple(self.raw.get(KEYS[self.shape], ()))

    @property
    def content(self) -> str:
        """Its text, including decorators."""
        return str(self.raw.get("content", ""))

    @property
    def enabled(self) -> bool:
        """Whether it is switched on."""
        if self.shape == "worldinfo":
            return not self.raw.get("disable", False)
        return bool(self.raw.get("enabled", True))

    @property
    def uid(self) -> str:
        """Its number or name in the source, or an empty string."""
        value = self.raw.get(_UID[self.shape])
        return "" if value is None else str(value)

    @property
    def core(self) -> str:
        """A digest of what a reader sees: title, keys and content."""
        return json_digest([self.title, self.keys, self.content])

    @property
    def meaning(self) -> str:
        """A digest of all its settings, with defaults filled in."""
        return json_digest({**_SILENT[self.shape], **self.raw})

    def edited(self, changes: Mapping[str, Any]) -> LoreEntry:
        """Return a copy with new values for some of `title`, `keys`, `content` and `enabled`."""
        raw = dict(self.raw)
        if "title" in changes:
            also = ("name", "comment") if raw.get("name") == raw.get("comment") else ()
            raw.update(dict.fromkeys((self.title_field, *also), changes["title"]))
        if "keys" in changes:
            raw[KEYS[self.shape]] = list(changes["keys"])
        if "content" in changes:
            raw["content"] = changes["content"]
        if "enabled" in changes:
            on = bool(changes["enabled"])
            raw.update({"disable": not on} if self.shape == "worldinfo" else {"enabled": on})
        return replace(self, raw=raw)


class Lorebook(Struct, frozen=True):
    """A lorebook, normalised to one of the two `Shape`s.

    Args:
        name: Its own name, else the file's stem; never a path.
        shape: The spelling of its settings.
        entries: In source order.
        frame: The book's own settings: everything except the entries.
        outer: Fields around a standalone `lorebook_v3`, besides `spec` and `data`.
        source: Its original format, for people.
        warnings: Oddities and how they were read.
        unreadable: Values among the entries that are not valid entries; kept, never exported.
    """

    name: str
    shape: Shape
    entries: tuple[LoreEntry, ...] = ()
    frame: Mapping[str, Any] = field(default_factory=dict)
    outer: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    warnings: tuple[str, ...] = ()
    unreadable: tuple[Any, ...] = ()

    @property
    def digest(self) -> str:
        """A digest of all its entries and settings."""
        return json_digest(
            [book_settings(self.frame), sorted(entry.meaning for entry in self.entries)]
        )


def book_settings(frame: Mapping[str, Any]) -> dict[str, Any]:
    """Return a book's own settings, dropping empty extensions."""
    return {name: value for name, value in frame.items() if name != "extensions" or value}


def json_digest(value: object) -> str:
    """Return the SHA-256 of `value` as JSON, independent of the order of keys."""
    return sha256_of(json.dumps(value, sort_keys=True, separators=(",", ":")))


BEFORE, AFTER = 0, 1
_POSITIONS: Final = {"before_char": BEFORE, "after_char": AFTER}
_FRAME: Final = ("name", "description", "scan_depth", "token_budget", "recursive_scanning")
_FROM_WORLD: Final = "world_info"
_FROM_BOOK: Final = "character_book"

_EXTENSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "position": ("position",),
    "depth": ("depth",),
    "role": ("role",),
    "probability": ("probability",),
    "group": ("group",),
    "vectorized": ("vectorized",),
    "sticky": ("sticky",),
    "cooldown": ("cooldown",),
    "delay": ("delay",),
    "triggers": ("triggers",),
    # SillyTavern itself reads these two in camel case, others in snake case: both are written.
    "useProbability": ("useProbability", "use_probability"),
    "selectiveLogic": ("selectiveLogic", "selective_logic"),
    "excludeRecursion": ("exclude_recursion",),
    "preventRecursion": ("prevent_recursion",),
    "delayUntilRecursion": ("delay_until_recursion",),
    "displayIndex": ("display_index",),
    "outletName": ("outlet_name",),
    "groupOverride": ("group_override",),
    "groupWeight": ("group_weight",),
    "scanDepth": ("scan_depth",),
    "caseSensitive": ("case_sensitive",),
    "matchWholeWords": ("match_whole_words",),
    "useGroupScoring": ("use_group_scoring",),
    "automationId": ("automation_id",),
    "ignoreBudget": ("ignore_budget",),
    "addMemo": ("add_memo",),
    "characterFilter": ("character_filter",),
    "matchPersonaDescription": ("match_persona_description",),
    "matchCharacterDescription": ("match_character_description",),
    "matchCharacterPersonality": ("match_character_personality",),
    "matchCharacterDepthPrompt": ("match_character_depth_prompt",),
    "matchScenario": ("match_scenario",),
    "matchCreatorNotes": ("match_creator_notes",),
}
_TOP: Final = {
    "key": "keys",
    "keysecondary": "secondary_keys",
    "comment": "comment",
    "content": "content",
    "constant": "constant",
    "selective": "selective",
    "order": "insertion_order",
}
_WORLD_FIELDS: Final = frozenset((*_EXTENSIONS, *_TOP, "uid", "disable"))
_SHARED: Final = tuple(name for name in DEFAULTS if name != "addMemo")
_BOOK_FIELDS: Final = frozenset((*_TOP.values(), "enabled"))
_SPELLINGS: Final = frozenset(name for names in _EXTENSIONS.values() for name in names)


def as_world(entry: LoreEntry, place: int) -> dict[str, Any]:
    """Convert the settings of `entry` to World Info; `uid` only if it is a number."""
    if entry.shape == "worldinfo":
        return dict(entry.raw)
    raw, extensions = entry.raw, dict(as_object(entry.raw.get("extensions")))
    odd = _pop_odd(extensions)
    world = {**deepcopy(dict(DEFAULTS)), "selective": False}
    world |= {theirs: raw[ours] for theirs, ours in _TOP.items() if raw.get(ours) is not None}
    world |= {"comment": entry.title, "addMemo": bool(entry.title), "displayIndex": place}
    world |= {"disable": not entry.enabled, "caseSensitive": raw.get("case_sensitive")}
    world["position"] = _POSITIONS.get(str(raw.get("position")), AFTER)
    world |= _pop_known(extensions, world)
    world |= {"uid": raw["id"]} if _is_number(raw.get("id")) else {}
    left = _left_of_book(entry, world) | ({"extensions": odd} if odd else {})
    unpacked = dict(as_object(extensions.pop(_FROM_WORLD, None)))
    extensions |= unpacked.pop("extensions", {})
    extensions |= {_FROM_BOOK: left} if left else {}
    return world | unpacked | ({"extensions": extensions} if extensions else {})


def in_common(entry: LoreEntry) -> dict[str, Any]:
    """Return the settings of `entry` that both formats have; null means the default.

    Selective matching has no effect without secondary keys.
    """
    world = as_world(entry, 0)
    said = {n: value for n, value in world.items() if n in _SHARED and value is not None}
    result = {**DEFAULTS, **said}
    return {n: result[n] for n in _SHARED} | {
        "selective": bool(result["selective"] and result["keysecondary"])
    }


def as_book(entry: LoreEntry) -> dict[str, Any]:
    """Convert the settings of `entry` to a `character_book`; `id` only if known."""
    if entry.shape == "book":
        return dict(entry.raw)
    raw = {**deepcopy(dict(DEFAULTS)), **entry.raw}
    extensions = dict(as_object(raw.get("extensions")))
    left = _pop_packed(extensions, _FROM_BOOK, _BOOK_FIELDS - {"comment"})
    book = {ours: raw[theirs] for theirs, ours in _TOP.items()}
    book |= {"enabled": entry.enabled, "use_regex": any(map(_is_regex, entry.keys))}
    book["position"] = _position_name(raw["position"])
    book |= {"id": raw["uid"]} if raw.get("uid") is not None else {}
    book |= {"case_sensitive": raw["caseSensitive"]} if raw["caseSensitive"] is not None else {}
    unknown = {n: value for n, value in raw.items() if n not in _WORLD_FIELDS | {"extensions"}}
    taken = (_SPELLINGS | {_FROM_WORLD, _FROM_BOOK}) & extensions.keys()
    unknown |= {"extensions": {name: extensions.pop(name) for name in taken}} if taken else {}
    for name, spellings in _EXTENSIONS.items():
        extensions |= {spelling: raw[name] for spelling in spellings if name in raw}
    extensions |= {_FROM_WORLD: unknown} if unknown else {}
    extensions |= left.pop("extensions", {})
    return book | _restore_book(left, entry.title) | {"extensions": extensions}


def frame_as_world(frame: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a book's own settings to the root of a World Info file."""
    extensions = dict(as_object(frame.get("extensions")))
    unpacked = as_object(extensions.pop(_FROM_WORLD, None))
    rest = {name: value for name, value in frame.items() if name != "extensions"}
    return {**rest, **unpacked, **({"extensions": extensions} if extensions else {})}


def frame_as_book(frame: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the root of a World Info file to a `character_book`'s own settings."""
    known = {name: frame[name] for name in _FRAME if name in frame}
    rest = {n: value for n, value in frame.items() if n not in known and n != "extensions"}
    extensions = dict(as_object(frame.get("extensions")))
    return {**known, "extensions": {**extensions, **({_FROM_WORLD: rest} if rest else {})}}


def _pop_known(extensions: dict[str, Any], world: dict[str, Any]) -> dict[str, Any]:
    """Remove from `extensions` what World Info has a setting for; null defers to `world`."""
    result: dict[str, Any] = {}
    for name, spellings in _EXTENSIONS.items():
        values = [extensions.pop(spelling) for spelling in spellings if spelling in extensions]
        if values and (values[0] is not None or name == "role"):
            result[name] = values[0]
    return {**world, **result}


def _pop_odd(extensions: dict[str, Any]) -> dict[str, Any]:
    """Remove from a book's `extensions` keys that have a different meaning here."""
    odd = {name: extensions.pop(name) for name in (_FROM_BOOK,) if name in extensions}
    if "position" in extensions and not _is_number(extensions["position"]):
        odd["position"] = extensions.pop("position")
    if _FROM_WORLD in extensions and not _is_packed(extensions[_FROM_WORLD], _WORLD_FIELDS):
        odd[_FROM_WORLD] = extensions.pop(_FROM_WORLD)
    for first, *others in _EXTENSIONS.values():
        for other in others:
            if (
                first in extensions
                and extensions.get(other, extensions[first]) != extensions[first]
            ):
                odd[other] = extensions.pop(other)
    return odd


def _pop_packed(extensions: dict[str, Any], name: str, known: frozenset[str]) -> dict[str, Any]:
    """Remove from `extensions` what a conversion packed under `name`, if it did."""
    return dict(extensions.pop(name)) if _is_packed(extensions.get(name), known) else {}


def _is_packed(value: object, known: frozenset[str]) -> bool:
    """Tell whether `value` could have been packed: none of it has a setting of its own."""
    if not isinstance(value, dict) or not value:
        return False
    return isinstance(value.get("extensions", {}), dict) and not known & value.keys()


def _left_of_book(entry: LoreEntry, world: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a book's entry that `world` does not express."""
    raw = entry.raw
    said = {**dict.fromkeys(_BOOK_FIELDS), "extensions": None}
    left = {name: value for name, value in raw.items() if name not in said}
    if "name" in raw:
        left |= {"comment": raw["comment"]} if "comment" in raw else {}
    for name, target in (
        ("id", world.get("uid")),
        ("position", _position_name(world["position"])),
        ("case_sensitive", world["caseSensitive"]),
        ("use_regex", any(map(_is_regex, entry.keys))),
    ):
        if name in left and left[name] is not None and left[name] == target:
            del left[name]
    return left


def _restore_book(left: dict[str, Any], title: str) -> dict[str, Any]:
    """Restore the settings that `_left_of_book` kept, under the current title."""
    if "name" not in left:
        return left
    field = "name" if str(left["name"] or "").strip() else "comment"
    both = left["name"] == left.get("comment")
    return {**left, field: title, **({"comment": title} if both else {})}


def _position_name(position: object) -> str:
    return "before_char" if position == BEFORE else "after_char"


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_regex(key: str) -> bool:
    return len(key) > 2 and key.startswith("/") and "/" in key[1:]  # noqa: PLR2004  # `//` is none
