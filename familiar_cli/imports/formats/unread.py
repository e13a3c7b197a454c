"""Files that belong to programs one comes from, and hold nothing to import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from msgspec import Struct

from familiar_cli.base.errors import BadInputError
from familiar_cli.imports.contract import NO, Format, Reading, Sighting, certain_if
from familiar_cli.imports.foreign_files import as_object

if TYPE_CHECKING:
    from familiar_cli.imports.source import ForeignFile

_ADVICE: Final = (
    "It contains no character, lorebook or chat. Export those from the program and import them; "
    "`familiar import-sillytavern DIR` imports everything from SillyTavern."
)


class _FileKind(Struct, frozen=True):
    """A kind of file that is known by its fields.

    Args:
        title: What it is, for people.
        all: Fields that it has.
        values: Values of some of them.
    """

    title: str
    all: tuple[str, ...]
    values: dict[str, object] = {}  # msgspec copies it

    def is_like(self, value: dict[str, Any]) -> bool:
        return value.keys() >= set(self.all) and all(
            value.get(key) == said for key, said in self.values.items()
        )


_KNOWN: Final = (
    _FileKind("a SillyTavern group", ("members", "chat_id")),
    _FileKind("a SillyTavern group", ("members", "chats", "avatar_url")),
    _FileKind("a scenario of Agnai", ("kind", "text"), {"kind": "scenario"}),
    _FileKind("a preset of SillyTavern's prompts", ("prompts", "prompt_order")),
    _FileKind("a preset of sampling settings", ("temperature",)),
    _FileKind("a preset of sampling settings", ("temp", "rep_pen")),
    _FileKind("a set of SillyTavern's quick replies", ("qrList",)),
    _FileKind("a set of SillyTavern's quick replies", ("quickReplySlots",)),
    _FileKind("a theme of SillyTavern", ("main_text_color",)),
    _FileKind("a theme of SillyTavern", ("blur_strength",)),
    _FileKind("a context template of SillyTavern", ("story_string",)),
    _FileKind("an instruct template of SillyTavern", ("input_sequence",)),
    _FileKind("the manifest of a SillyTavern extension", ("display_name", "js")),
    _FileKind("a script of regular expressions", ("scriptName", "findRegex")),
    _FileKind("a package of npm", ("name", "version", "main")),
    _FileKind("a package of npm", ("name", "version", "scripts")),
    _FileKind("a package of npm", ("name", "version", "dependencies")),
)


def _title_of(source: ForeignFile) -> str:
    value = as_object(source.value)
    return next((kind.title for kind in _KNOWN if kind.is_like(value)), "")


def _sniff(source: ForeignFile) -> Sighting:
    title = _title_of(source) if source.shape == "object" else ""
    return certain_if(title, title) if title else NO


def _read(source: ForeignFile, _: Reading) -> NoReturn:
    raise BadInputError(
        f"{source.name!r} is {_title_of(source)}; nothing was imported", hint=_ADVICE
    )


FORMAT: Final = Format(
    "unread", "a file of another kind", ("settings",), _sniff, _read, advice=_ADVICE
)
