"""What the files of a data folder say of each other: groups, and which books are whose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from familiar_cli.bootstrap.json_text import read_json
from familiar_cli.bootstrap.outside import read_foreign
from familiar_cli.errors import BadInputError
from familiar_cli.text import str_or_empty

if TYPE_CHECKING:
    from collections.abc import Mapping

    from familiar_cli.bootstrap.cards import Card
    from familiar_cli.bootstrap.sillytavern.folder import FoundFile


@dataclass(frozen=True, slots=True)
class Group:
    """A group of characters.

    Args:
        name: What it is called.
        members: The names of their files in `characters/`.
        chats: The stems of its files in `group chats/`.
    """

    name: str
    members: frozenset[str]
    chats: frozenset[str]


@dataclass(frozen=True, slots=True)
class BookLinks:
    """Which books the settings put where, by the stems of files.

    Args:
        everywhere: Books that are used in all chats.
        of_character: Books that a character has besides the one that its card names.
    """

    everywhere: frozenset[str] = frozenset()
    of_character: Mapping[str, frozenset[str]] | None = None

    def of(self, character: str, card: Card) -> frozenset[str]:
        """Return the books of a character.

        Args:
            character: The stem of its file.
            card: Its card.
        """
        extensions = card.data.get("extensions")
        named = str_or_empty(extensions.get("world")) if isinstance(extensions, dict) else ""
        more = (self.of_character or {}).get(character, frozenset())
        return self.everywhere | more | ({named} if named else set())


def read_group(file: FoundFile) -> Group:
    """Return the group in a file.

    Raises:
        FamiliarError: It cannot be read, or is none.
    """
    value = _object(file)
    members, chats = _texts(value.get("members")), _texts(value.get("chats"))
    if not isinstance(value.get("members"), list):
        raise BadInputError(f"{file.rel_path!r} is not a group: it names no members")
    current = str_or_empty(value.get("chat_id")) or str_or_empty(value.get("id"))
    name = str_or_empty(value.get("name")).strip() or file.stem
    # A name with a directory in it leads nowhere.
    inside = {m for m in members if PurePath(m).name == m}
    return Group(name, frozenset(inside), frozenset({*chats, current} - {""}))


def read_book_links(file: FoundFile) -> BookLinks:
    """Return what the settings in a file say of books.

    Raises:
        FamiliarError: It cannot be read, or holds no object.
    """
    value = _object(file)
    outer = value.get("world_info_settings")
    info = outer.get("world_info") if isinstance(outer, dict) else value.get("world_info")
    if not isinstance(info, dict):
        return BookLinks()
    given = info.get("charLore")
    rows = [row for row in given if isinstance(row, dict)] if isinstance(given, list) else []
    return BookLinks(
        frozenset(_texts(info.get("globalSelect"))),
        {str_or_empty(row.get("name")): frozenset(_texts(row.get("extraBooks"))) for row in rows},
    )


def _object(file: FoundFile) -> dict[str, Any]:
    value, _ = read_json(read_foreign(file.path), origin=file.rel_path)
    if not isinstance(value, dict):
        raise BadInputError(f"{file.rel_path!r} is not a JSON object")
    return value


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
