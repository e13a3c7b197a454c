"""Settings in World Info's spelling and in a `character_book`'s, each turned into the other.

What one side has no word for travels inside `extensions`: `world_info` in a book, `character_book`
in World Info. The way back unpacks it.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.bootstrap.lorebooks.types import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from familiar_cli.bootstrap.lorebooks.types import LoreEntry

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
    """Return the settings of `entry` as World Info spells them; `uid` only if it is a number."""
    if entry.shape == "worldinfo":
        return dict(entry.raw)
    raw, extensions = entry.raw, dict(_object(entry.raw.get("extensions")))
    odd = _pop_odd(extensions)
    world = {**deepcopy(dict(DEFAULTS)), "selective": False}
    world |= {theirs: raw[ours] for theirs, ours in _TOP.items() if raw.get(ours) is not None}
    world |= {"comment": entry.title, "addMemo": bool(entry.title), "displayIndex": place}
    world |= {"disable": not entry.enabled, "caseSensitive": raw.get("case_sensitive")}
    world["position"] = _POSITIONS.get(str(raw.get("position")), AFTER)
    world |= _pop_known(extensions, world)
    world |= {"uid": raw["id"]} if _is_number(raw.get("id")) else {}
    left = _left_of_book(entry, world) | ({"extensions": odd} if odd else {})
    unpacked = dict(_object(extensions.pop(_FROM_WORLD, None)))
    extensions |= unpacked.pop("extensions", {})
    extensions |= {_FROM_BOOK: left} if left else {}
    return world | unpacked | ({"extensions": extensions} if extensions else {})


def in_common(entry: LoreEntry) -> dict[str, Any]:
    """Return the settings of `entry` that both formats have; null means the default.

    Selecting by secondary keys means nothing without any.
    """
    world = as_world(entry, 0)
    said = {n: value for n, value in world.items() if n in _SHARED and value is not None}
    found = {**DEFAULTS, **said}
    return {n: found[n] for n in _SHARED} | {
        "selective": bool(found["selective"] and found["keysecondary"])
    }


def as_book(entry: LoreEntry) -> dict[str, Any]:
    """Return the settings of `entry` as a `character_book` has them; `id` only if it is known."""
    if entry.shape == "book":
        return dict(entry.raw)
    raw = {**deepcopy(dict(DEFAULTS)), **entry.raw}
    extensions = dict(_object(raw.get("extensions")))
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
    return book | _restored(left, entry.title) | {"extensions": extensions}


def frame_as_world(frame: Mapping[str, Any]) -> dict[str, Any]:
    """Return a book's own settings as the root of a World Info file has them."""
    extensions = dict(_object(frame.get("extensions")))
    unpacked = _object(extensions.pop(_FROM_WORLD, None))
    rest = {name: value for name, value in frame.items() if name != "extensions"}
    return {**rest, **unpacked, **({"extensions": extensions} if extensions else {})}


def frame_as_book(frame: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the root of a World Info file says as a book's own settings."""
    known = {name: frame[name] for name in _FRAME if name in frame}
    rest = {n: value for n, value in frame.items() if n not in known and n != "extensions"}
    extensions = dict(_object(frame.get("extensions")))
    return {**known, "extensions": {**extensions, **({_FROM_WORLD: rest} if rest else {})}}


def _pop_known(extensions: dict[str, Any], world: dict[str, Any]) -> dict[str, Any]:
    """Take out of `extensions` what World Info has a word for; null means what `world` says."""
    found: dict[str, Any] = {}
    for name, spellings in _EXTENSIONS.items():
        values = [extensions.pop(spelling) for spelling in spellings if spelling in extensions]
        if values and (values[0] is not None or name == "role"):
            found[name] = values[0]
    return {**world, **found}


def _pop_odd(extensions: dict[str, Any]) -> dict[str, Any]:
    """Take out of a book's `extensions` what stands under a name that means something else here."""
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
    """Take out of `extensions` what the way here packed under `name`, if that is what it is."""
    return dict(extensions.pop(name)) if _is_packed(extensions.get(name), known) else {}


def _is_packed(value: object, known: frozenset[str]) -> bool:
    """Say whether `value` could have been packed: nothing in it has a place of its own."""
    if not isinstance(value, dict) or not value:
        return False
    return isinstance(value.get("extensions", {}), dict) and not known & value.keys()


def _left_of_book(entry: LoreEntry, world: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a book's entry that `world` does not say."""
    raw = entry.raw
    said = {**dict.fromkeys(_BOOK_FIELDS), "extensions": None}
    left = {name: value for name, value in raw.items() if name not in said}
    if "name" in raw:
        left |= {"comment": raw["comment"]} if "comment" in raw else {}
    for name, meant in (
        ("id", world.get("uid")),
        ("position", _position_name(world["position"])),
        ("case_sensitive", world["caseSensitive"]),
        ("use_regex", any(map(_is_regex, entry.keys))),
    ):
        if name in left and left[name] is not None and left[name] == meant:
            del left[name]
    return left


def _restored(left: dict[str, Any], title: str) -> dict[str, Any]:
    """Return what `_left_of_book` kept, with a title that was edited since in its place."""
    if "name" not in left:
        return left
    field = "name" if str(left["name"] or "").strip() else "comment"
    both = left["name"] == left.get("comment")
    return {**left, field: title, **({"comment": title} if both else {})}


def _position_name(position: object) -> str:
    return "before_char" if position == BEFORE else "after_char"


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_regex(key: str) -> bool:
    return len(key) > 2 and key.startswith("/") and "/" in key[1:]  # noqa: PLR2004  # `//` is none
