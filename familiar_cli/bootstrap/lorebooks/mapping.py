"""Settings in World Info's spelling and in a `character_book`'s, each turned into the other.

What one side has no word for travels inside `extensions`: `world_info` in a book, `character_book`
in World Info. The way back unpacks it.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.bootstrap.lorebooks.world_info import DEFAULTS

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
_WORLD_FIELDS: Final = frozenset((*_EXTENSIONS, *_TOP, "uid", "disable", "extensions"))
_BOOK_FIELDS: Final = frozenset(
    (*_TOP.values(), "id", "enabled", "extensions", "position", "case_sensitive", "name")
)
_TAKEN: Final = frozenset(
    (_FROM_WORLD, *(name for names in _EXTENSIONS.values() for name in names))
)


def as_world(entry: LoreEntry, place: int) -> dict[str, Any]:
    """Return the settings of `entry` as World Info spells them; `uid` only if it is a number."""
    if entry.shape == "worldinfo":
        return dict(entry.raw)
    raw = entry.raw
    extensions = dict(_object(raw.get("extensions")))
    world = {**deepcopy(dict(DEFAULTS)), "selective": False}
    world |= {theirs: raw[ours] for theirs, ours in _TOP.items() if raw.get(ours) is not None}
    world |= {"comment": entry.title, "addMemo": bool(entry.title), "displayIndex": place}
    world |= {"disable": not entry.enabled, "caseSensitive": raw.get("case_sensitive")}
    world["position"] = _POSITIONS.get(str(raw.get("position")), AFTER)
    for name, spellings in _EXTENSIONS.items():
        values = [extensions.pop(spelling) for spelling in spellings if spelling in extensions]
        world[name] = next((value for value in values if value is not None), world.get(name))
    if _is_number(raw.get("id")):
        world["uid"] = raw["id"]
    left = _left_of_book(entry)
    unpacked = dict(_object(extensions.pop(_FROM_WORLD, None)))
    extensions |= _object(unpacked.pop("extensions", None))
    extensions |= {_FROM_BOOK: left} if left else {}
    return world | unpacked | ({"extensions": extensions} if extensions else {})


def as_book(entry: LoreEntry) -> dict[str, Any]:
    """Return the settings of `entry` as a `character_book` has them; `id` only if it is known."""
    if entry.shape == "book":
        return dict(entry.raw)
    raw = {**deepcopy(dict(DEFAULTS)), **entry.raw}
    extensions = dict(_object(raw.get("extensions")))
    left = dict(_object(extensions.pop(_FROM_BOOK, None)))
    book = {ours: raw[theirs] for theirs, ours in _TOP.items()}
    book |= {"enabled": entry.enabled, "use_regex": any(map(_is_regex, entry.keys))}
    book["position"] = "before_char" if raw["position"] == BEFORE else "after_char"
    book |= {"id": raw["uid"]} if raw.get("uid") is not None else {}
    book |= {"case_sensitive": raw["caseSensitive"]} if raw["caseSensitive"] is not None else {}
    unknown = {name: value for name, value in raw.items() if name not in _WORLD_FIELDS}
    clash = {name: extensions.pop(name) for name in _TAKEN & extensions.keys()}
    unknown |= {"extensions": clash} if clash else {}
    for name, spellings in _EXTENSIONS.items():
        extensions |= {spelling: raw[name] for spelling in spellings if name in raw}
    extensions |= {_FROM_WORLD: unknown} if unknown else {}
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


def _left_of_book(entry: LoreEntry) -> dict[str, Any]:
    """Return the settings of a book's entry for which World Info has no word."""
    raw = entry.raw
    left = {name: value for name, value in raw.items() if name not in _BOOK_FIELDS}
    if "name" in raw:
        left |= {"name": raw["name"], "comment": raw.get("comment")}
    if "id" in raw and not _is_number(raw["id"]):
        left["id"] = raw["id"]
    if "position" in raw and str(raw["position"]) not in _POSITIONS:
        left["position"] = raw["position"]
    return left


def _restored(left: dict[str, Any], title: str) -> dict[str, Any]:
    """Return what `_left_of_book` kept, with a title that was edited since in its place."""
    if "name" not in left:
        return left
    name, comment = left["name"], left.pop("comment", None)
    field = "name" if str(name or "").strip() else "comment"
    both = {"name": name} | ({"comment": comment} if comment is not None else {})
    return left | both | {field: title} | ({"comment": title} if name == comment else {})


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_regex(key: str) -> bool:
    return len(key) > 2 and key.startswith("/") and "/" in key[1:]  # noqa: PLR2004  # `//` is none
