"""The fields of a card: which version brought them, and the shape of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable


class CardV1(TypedDict, total=False):
    """The fields of a V1 card, as they should be; what a card has may be anything."""

    name: str
    description: str
    personality: str
    scenario: str
    first_mes: str
    mes_example: str


class CardV2(CardV1, total=False):
    """What V2 brought. Source: Character Card V2."""

    creator_notes: str
    system_prompt: str
    post_history_instructions: str
    alternate_greetings: list[str]
    character_book: dict[str, Any]
    tags: list[str]
    creator: str
    character_version: str
    extensions: dict[str, Any]


class CardV3(CardV2, total=False):
    """What V3 brought. Source: Character Card V3."""

    assets: list[dict[str, str]]
    nickname: str
    creator_notes_multilingual: dict[str, str]
    source: list[str]
    group_only_greetings: list[str]
    creation_date: int
    modification_date: int


V1_FIELDS: Final = tuple(CardV1.__annotations__)


KNOWN_FIELDS: Final = tuple(CardV3.__annotations__)


# What a writer must put where a card has nothing.
REQUIRED: Final[dict[str, Callable[[], Any]]] = {
    **dict.fromkeys(V1_FIELDS, str),
    **dict.fromkeys(("creator_notes", "system_prompt", "post_history_instructions"), str),
    **dict.fromkeys(("creator", "character_version"), str),
    **dict.fromkeys(("alternate_greetings", "tags"), list),
    "extensions": dict,
}


REQUIRED_V3: Final = REQUIRED | {"group_only_greetings": list}


_LISTS: Final = ("alternate_greetings", "tags", "source", "group_only_greetings")


_TEXTS: Final = (
    *V1_FIELDS,
    "creator_notes",
    "system_prompt",
    "post_history_instructions",
    "creator",
    "character_version",
    "nickname",
)


_DATES: Final = ("creation_date", "modification_date")


def straighten(data: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return `data` with each known field in the shape it should have.

    What was changed is added to `notes`. A value that no rule can turn stays as it is, and so does
    every unknown field.
    """
    straight: dict[str, Any] = {}
    for field, value in data.items():
        shaped = _shaped(field, value) if field in KNOWN_FIELDS else value
        if shaped is not None or field not in KNOWN_FIELDS:
            straight[field] = shaped
        if field in KNOWN_FIELDS and not (_same(shaped, value) and _fits(field, shaped)):
            notes.append(_note(field, value, shaped))
    return straight


def is_text(value: object) -> bool:
    """Return whether `value` is text that is worth a file."""
    return isinstance(value, str) and value != ""


def _shaped(field: str, value: object) -> object:
    """Return the value in its field's shape; None when it stands for nothing."""
    if field in _TEXTS:
        return _text(value)
    if field in _LISTS:
        return _list(value, split=field in {"tags", "source"})
    if field == "character_book" and isinstance(value, list):
        return {"entries": value}
    if field == "extensions" and value is None:
        return {}
    if field in _DATES and isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    return value


def _text(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "\n".join(value)
    return str(value) if isinstance(value, int | float) else value


def _list(value: object, *, split: bool) -> object:
    if value is None:
        return []
    if isinstance(value, str):
        parts = value.split(",") if split else [value]
        return [part.strip() if split else part for part in parts if part.strip()]
    if isinstance(value, list):
        return [_text(part) for part in value if part is not None]
    return value


def _same(shaped: object, value: object) -> bool:
    return type(shaped) is type(value) and shaped == value


def _fits(field: str, value: object) -> bool:
    if field in _TEXTS:
        return isinstance(value, str)
    if field in _LISTS:
        return isinstance(value, list) and all(isinstance(part, str) for part in value)
    if field == "assets":
        return isinstance(value, list) and all(isinstance(part, dict) for part in value)
    if field in _DATES:
        return isinstance(value, int | float)
    return isinstance(value, dict)


def _note(field: str, value: object, shaped: object) -> str:
    was = _NAMES.get(type(value), "something else")
    if shaped is None:
        return f"{field!r} is {was}; it is treated as missing"
    if not _fits(field, shaped):
        return f"{field!r} has the wrong type ({was}); it is kept unchanged but not used"
    if type(shaped) is type(value):
        return f"{field!r} contains items that are not text; they were converted to text"
    return f"{field!r} is {was}; it is read as {_NAMES[type(shaped)]}"


_NAMES: Final[dict[type, str]] = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}
