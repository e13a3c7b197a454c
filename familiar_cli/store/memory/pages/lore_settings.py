"""Settings of lore entries that restrict them, as `.lorebook.json` keeps them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import FamiliarError

if TYPE_CHECKING:
    from familiar_cli.store.memory.store.store import MemoryStore

LORE_SETTINGS: Final = ".lorebook.json"
"""Name of the file, in each directory of lore, that keeps the books' own settings."""

_AT_DEPTH, _OUTLET = 4, 7  # positions
_DEPTH: Final = 4
_SCAN_DEPTH: Final = 2  # messages, as SillyTavern has it where a book says nothing
_ALWAYS: Final = 100
_ANY_TYPE: Final = frozenset[str]()
_NUMBER: Final = re.compile(r"[ \t]*(\d{1,9})")

# Decorators that have an effect here, or would only add an entry.
_KNOWN: Final = frozenset(
    {
        *("activate_only_after", "activate_only_every", "keep_activate_after_match", "constant"),
        *("dont_activate_after_match", "depth", "role", "scan_depth", "position", "exclude_keys"),
        *("additional_keys", "dont_activate", "activate"),
    }
)

_ROLES: Final = ("system", "user", "assistant")
_SPANS: Final = {"before_desc": 0, "after_desc": 1}
# Texts beside the chat in which SillyTavern may look for keys: `matchScenario` and so on.
_MATCHED: Final = (
    *("PersonaDescription", "CharacterDescription", "CharacterPersonality", "Scenario"),
    *("CharacterDepthPrompt", "CreatorNotes"),
)

# `@@@` is a fallback, used if the decorator before it is unknown.
_DECORATOR: Final = re.compile(r"@@@?([A-Za-z_]\w*)(?:[ \t]([^\r\n]*))?(?:\r?\n|\Z)")
_BLANK: Final = re.compile(r"(?:[ \t]*\r?\n)+")

# Settings that a card's book has at the top of an entry; all others stand in `extensions`.
_OF_BOOK: Final = {
    "key": "keys",
    "keysecondary": "secondary_keys",
    "order": "insertion_order",
    "caseSensitive": "case_sensitive",
    "constant": "constant",
    "selective": "selective",
}


_GATES: Final = frozenset(
    {
        *("characterFilter", "cooldown", "delay", "group", "groupOverride", "groupWeight"),
        *("keysecondary", "probability", "selectiveLogic", "triggers", "useProbability"),
        *("@@dont_activate", "@@dont_activate_after_match", "@@exclude_keys", "@@scan_depth"),
        *("@@activate_only_after", "@@activate_only_every", "secondary_keys", "selective"),
        *("scanDepth", "caseSensitive", "case_sensitive", "matchWholeWords"),
        *("delayUntilRecursion", "useGroupScoring", "@@additional_keys", "token_budget"),
        *(f"match{name}" for name in _MATCHED),
    }
)
_PLACES: Final = frozenset(
    {
        *("position", "depth", "role", "order", "insertion_order", "outletName"),
        *("ignoreBudget", "@@position", "@@depth", "@@role"),
    }
)


def is_gate(name: str) -> bool:
    """Tell whether a setting, in either spelling, restricts when an entry is shown."""
    return name in _GATES or _in_camel_case(name) in _GATES


def is_placement(name: str) -> bool:
    """Tell whether a setting, in either spelling, says where an entry stands in a prompt."""
    return name in _PLACES or _in_camel_case(name) in _PLACES


def _in_camel_case(name: str) -> str:
    parts = name.removeprefix("extensions.").split("_")
    return "".join([parts[0], *map(str.capitalize, parts[1:])])


def split_decorators(content: str) -> tuple[str, str]:
    """Split `content` into its leading decorators, verbatim, and the text below.

    Joined again, they are `content`. Blank lines between the two go with the decorators.
    """
    end = 0
    while line := _DECORATOR.match(content, end):
        end = line.end()
    if end and (blank := _BLANK.match(content, end)):
        end = blank.end()
    return content[:end], content[end:]


def read_decorators(content: str) -> dict[str, str]:
    """Return the leading decorators of `content` by name, with their values."""
    return {name: value for _, name, value in _decorators(content)}


def _decorators(content: str) -> list[tuple[bool, str, str]]:
    """Return the leading decorators: whether it is a fallback, its name and its value."""
    head = split_decorators(content)[0]
    return [
        (line[0].startswith("@@@"), line[1], (line[2] or "").strip())
        for line in _DECORATOR.finditer(head)
    ]


def effective_decorators(content: str) -> dict[str, str]:
    """Return the decorators that count: the first of a name, a fallback only for an unknown one."""
    result: dict[str, str] = {}
    is_unknown = False
    for is_fallback, name, value in _decorators(content):
        if is_fallback and not is_unknown:
            continue
        is_unknown = name not in _KNOWN
        if not is_unknown:
            result.setdefault(name, value)
    return result


class LoreSettings(Struct, frozen=True):
    """What restricts an entry, in SillyTavern's terms.

    Args:
        keys: Its primary keys.
        secondary: Its secondary keys; empty if they do not count.
        logic: 0 AND ANY, 1 NOT ALL, 2 NOT ANY, 3 AND ALL.
        is_constant: It needs no key.
        is_vectorized: It is found by meaning, so it needs no key.
        probability: Percent, 0 to 100.
        delay: Least number of messages.
        cooldown: Messages for which it rests after a match.
        sticky: Messages for which it stays after a match; its rest begins then.
        scan_depth: Number of newest messages in which keys are looked for.
        is_case_sensitive: Keys match in their own case only.
        is_whole_word: Keys match whole words only.
        groups: Inclusion groups: one entry of a group at a time.
        weight: Its chance within a group.
        is_preferred: It wins its group by order, not by chance.
        order: Its insertion order.
        characters: Names of the characters it is for, or not for.
        excludes_characters: It is not for these characters.
        triggers: Kinds of replies it is for; empty for all.
        exclude_keys: Words that forbid it.
        after: Least number of messages, by its decorator.
        every: It is due at each such number of messages; 0 for always.
        is_single: It rests for good after its first match.
        is_off: Its decorator forbids it.
        required: Words of which one must have been said, besides the others.
        recursion_level: It waits for another entry of its book to be shown; 0 if it does not.
        spreads: Its text may bring such entries.
        is_scored: It leaves its group to entries of which more keys were said.
        tags: Tags of the characters it is for, or not for.
        matched: Texts beside the chat in which its keys count, as in `matchScenario`.
        position: 0 before and 1 after the character, 2 and 3 before and after the author's note, 4
            at a depth, 5 and 6 before and after the examples, 7 an outlet; None for no wish.
        depth: Number of messages below it, for position 4.
        role: Its role, for position 4.
        outlet: The outlet's name, for position 7.
        book_tokens: Most tokens of its book in a prompt; 0 for no limit.
        ignores_budget: That limit does not count for it.
        place: Its number in its book.
        book: The id of its book.
        path: The last known path of its file.
    """

    keys: tuple[str, ...] = ()
    secondary: tuple[str, ...] = ()
    logic: int = 0
    is_constant: bool = False
    is_vectorized: bool = False
    probability: int = _ALWAYS
    delay: int = 0
    cooldown: int = 0
    sticky: int = 0
    scan_depth: int = _SCAN_DEPTH
    is_case_sensitive: bool = False
    is_whole_word: bool = False
    groups: tuple[str, ...] = ()
    weight: int = _ALWAYS
    is_preferred: bool = False
    order: int = _ALWAYS
    characters: tuple[str, ...] = ()
    excludes_characters: bool = False
    triggers: frozenset[str] = _ANY_TYPE
    exclude_keys: tuple[str, ...] = ()
    after: int = 0
    every: int = 0
    is_single: bool = False
    is_off: bool = False
    required: tuple[str, ...] = ()
    recursion_level: int = 0
    spreads: bool = True
    is_scored: bool = False
    tags: tuple[str, ...] = ()
    matched: tuple[str, ...] = ()
    position: int | None = None
    depth: int = _DEPTH
    role: Literal["system", "user", "assistant"] = "system"
    outlet: str = ""
    book_tokens: int = 0
    ignores_budget: bool = False
    place: int = 0
    book: str = ""
    path: str = ""

    @property
    def is_timed(self) -> bool:
        """Whether it depends on earlier matches in the conversation."""
        return bool(self.cooldown or self.is_single or self.sticky)


def load_lore_settings(store: MemoryStore, directory: str) -> dict[str, LoreSettings]:
    """Load the settings of the entries in a directory, by entry id.

    Raises:
        FamiliarError: The file is damaged.
    """
    path = f"{directory}/{LORE_SETTINGS}"
    if not store.exists(path):
        return {}
    try:
        data = json.loads(store.read_bytes(path))
        frames = {key: book.get("frame") or {} for key, book in data["books"].items()}
        return {
            entry_id: replace(
                read_lore_settings(
                    record["shape"], record["raw"], frames.get(record.get("book"), {})
                ),
                place=int(record.get("place", 0)),
                book=str(record.get("book", "")),
                path=str(record.get("path", "")),
            )
            for entry_id, record in data["entries"].items()
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FamiliarError(f"{path!r}, which keeps the settings of lore, is damaged") from error


def read_lore_settings(
    shape: str, raw: Mapping[str, Any], frame: Mapping[str, Any]
) -> LoreSettings:
    """Read what restricts an entry; a value of the wrong type counts as absent.

    Args:
        shape: `worldinfo`, or `book` for the spelling of cards.
        raw: The entry as imported.
        frame: The settings of its book.
    """

    def find(name: str) -> Any:  # noqa: ANN401  # foreign JSON
        return _find_setting(shape, raw, name)

    said = effective_decorators(str(raw.get("content") or ""))
    scope = find("characterFilter")
    scope = scope if isinstance(scope, dict) else {}
    is_selective = find("selective")
    is_selective = shape == "worldinfo" if is_selective is None else bool(is_selective)
    depths = (find("scanDepth"), said.get("scan_depth"), frame.get("scan_depth"))
    position, depth, role = _placement(shape, raw, said, find)
    return LoreSettings(
        keys=_texts(find("key")),
        secondary=_texts(find("keysecondary"), blanks=True) if is_selective else (),
        logic=_number(find("selectiveLogic"), 0),
        is_constant=bool(find("constant")) or bool({"constant", "activate"} & said.keys()),
        is_vectorized=bool(find("vectorized")),
        probability=_probability(find),
        delay=_number(find("delay"), 0),
        cooldown=_number(find("cooldown"), 0),
        sticky=_number(find("sticky"), 0),
        scan_depth=next((d for d in (_number(v, -1) for v in depths) if d >= 0), _SCAN_DEPTH),
        is_case_sensitive=bool(find("caseSensitive")),
        is_whole_word=bool(find("matchWholeWords")),
        groups=_listed(find("group")),
        weight=_number(find("groupWeight"), _ALWAYS),
        is_preferred=bool(find("groupOverride")),
        order=_number(find("order"), _ALWAYS),
        characters=_texts(scope.get("names")),
        excludes_characters=bool(scope.get("isExclude")),
        triggers=frozenset(_texts(find("triggers"))),
        exclude_keys=_listed(said.get("exclude_keys")),
        after=_number(said.get("activate_only_after"), 0),
        every=_number(said.get("activate_only_every"), 0),
        is_single="dont_activate_after_match" in said,
        is_off="dont_activate" in said and "activate" not in said,
        required=_listed(said.get("additional_keys")),
        recursion_level=_number(
            find("delayUntilRecursion"), int(find("delayUntilRecursion") is True)
        ),
        spreads=not find("preventRecursion"),
        is_scored=bool(find("useGroupScoring")),
        tags=_texts(scope.get("tags")),
        matched=tuple(name for name in _MATCHED if find(f"match{name}")),
        position=position,
        depth=depth,
        role=role,
        outlet=str(find("outletName") or ""),
        book_tokens=_number(frame.get("token_budget"), 0),
        ignores_budget=bool(find("ignoreBudget")),
    )


def _probability(find: Callable[[str], Any]) -> int:
    chance = find("probability")
    if find("useProbability") is False or chance is None:
        return _ALWAYS
    is_negative = isinstance(chance, int | float) and chance < 0
    return 0 if is_negative else _number(chance, _ALWAYS)


def _placement(
    shape: str, raw: Mapping[str, Any], said: Mapping[str, str], find: Callable[[str], Any]
) -> tuple[int | None, int, Literal["system", "user", "assistant"]]:
    """Return the position, depth and role of an entry; its decorators take precedence."""
    usual = 0 if shape == "worldinfo" else None
    if shape == "book" and raw.get("position") in {"before_char", "after_char"}:
        usual = int(raw["position"] == "after_char")
    asked = _number(find("position"), -1)
    position = asked if 0 <= asked <= _OUTLET else usual
    depth, role = _number(find("depth"), _DEPTH), find("role")
    role = role if role in _ROLES else _ROLES[n if (n := _number(role, 0)) < len(_ROLES) else 0]
    if said.get("role") in _ROLES:
        role = said["role"]
    if said.get("position") in _SPANS:
        position = _SPANS[said["position"]]
    elif "depth" in said:
        position, depth = _AT_DEPTH, _number(said["depth"], depth)
    return position, depth, role


def _find_setting(shape: str, raw: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401  # JSON
    if shape == "worldinfo":
        return raw.get(name)
    if raw.get(_OF_BOOK.get(name, "")) is not None:
        return raw[_OF_BOOK[name]]
    extensions = raw.get("extensions")
    extensions = extensions if isinstance(extensions, dict) else {}
    packed = extensions.get("world_info")
    snake = re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", name)
    places = (extensions, packed if isinstance(packed, dict) else {})
    items = (place[key] for place in places for key in (name, snake) if place.get(key) is not None)
    return next(items, None)


def _texts(value: object, *, blanks: bool = False) -> tuple[str, ...]:
    values = value if isinstance(value, list) else []
    return tuple(text for text in values if isinstance(text, str) and (blanks or text.strip()))


def _listed(value: object) -> tuple[str, ...]:
    """Split a list that is separated by commas."""
    return tuple(text.strip() for text in str(value or "").split(",") if text.strip())


def _number(value: object, default: int) -> int:
    """Read a whole number >= 0, also one in a string."""
    if isinstance(value, str) and (found := _NUMBER.match(value)):
        return int(found[1])
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value < 10**9 else default  # type: ignore[operator, call-overload]
