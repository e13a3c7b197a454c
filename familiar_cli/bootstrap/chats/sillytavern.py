"""SillyTavern chats: JSON lines, the first of which says what the chat is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypedDict

from familiar_cli.bootstrap.chats.sources import json_lines
from familiar_cli.bootstrap.chats.times import read_time, stated_time
from familiar_cli.bootstrap.chats.types import (
    SILLY_TAVERN,
    ForeignChat,
    ForeignMessage,
    Skip,
    familiars_names,
    with_my_names,
)
from familiar_cli.identity import Author
from familiar_cli.text import fold, str_or_empty

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from familiar_cli.bootstrap.chats.sources import ChatFile
    from familiar_cli.bootstrap.chats.types import Reading
    from familiar_cli.history.types import Role

PLATFORM: Final = "sillytavern"
"""The platform of people who are known by their name in such a chat."""

CHARACTERS: Final = "sillytavern_character"
"""The platform of other characters in a group."""


class ChatHead(TypedDict):
    """The first line of a chat."""

    user_name: str
    character_name: str
    create_date: str
    chat_metadata: dict[str, object]


class ChatMessage(TypedDict):
    """Every other line, as SillyTavern writes it; what is read may lack anything but `mes`."""

    name: str
    is_user: bool
    is_system: bool
    send_date: str
    mes: str
    extra: dict[str, str]


HEAD_KEYS: Final = frozenset(ChatHead.__annotations__)
_SURE: Final = HEAD_KEYS - {"create_date"}  # which cards have, too
_FIRST: Final = 500  # lines in which names are looked for


def is_head(value: Mapping[str, Any]) -> bool:
    """Tell whether a line says what the chat is."""
    return "mes" not in value and not _SURE.isdisjoint(value)


def is_message(value: Mapping[str, Any]) -> bool:
    """Tell whether a line is a message."""
    return "mes" in value


def read_chat(source: ChatFile, reading: Reading, *, channels: tuple[str, ...]) -> ForeignChat:
    """Return the chat in `source`.

    Raises:
        RefusedError: It is not told who in it is the familiar, or who is the person.
    """
    lines = list(islice(json_lines(source), _FIRST))
    found = [line for line in lines if not isinstance(line, Skip)]
    head = found[0] if found and is_head(found[0][2]) else None
    names = {_name(value) for _, _, value in found if _is_character(value)}
    familiar = familiars_names(reading.cast, names, origin=source.name)
    times = [value.get("create_date") or value.get("send_date") for _, _, value in found[:2]]
    began = next((at for t in times if (at := read_time(t, reading.zone))), None)
    people = {name for _, _, v in found if v.get("is_user") and (name := _name(v))}
    reading = replace(reading, cast=with_my_names(reading.cast, people, origin=source.name))
    reader = _Reader(source, reading, familiar, head[0] if head else 0)
    return ForeignChat(
        format=SILLY_TAVERN,
        name=source.stem,
        channels=channels,
        began=began,
        head=lambda: head[1] if head else "",
        messages=reader.messages,
        parent=_parent(head[2]) if head else "",
        is_whole=True,
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the messages of one file.

    Args:
        source: The file.
        reading: How it is read.
        familiar: Folded names that are the familiar's.
        head_line: The line that is the head; 0: none.
    """

    source: ChatFile
    reading: Reading
    familiar: frozenset[str]
    head_line: int

    def messages(self) -> Iterator[ForeignMessage | Skip]:
        for found in json_lines(self.source):
            if isinstance(found, Skip):
                yield found
            elif found[0] != self.head_line:
                yield self._message(*found)

    def _message(self, line: int, raw: str, value: dict[str, Any]) -> ForeignMessage | Skip:
        text = value.get("mes")
        if not isinstance(text, str):
            return Skip(line, _no_message(value))
        role, author = self._who(value)
        stated = value.get("send_date")
        return ForeignMessage(
            line=line,
            role=role,
            author=author,
            speaker=_name(value),
            text=text,
            stated=stated_time(stated),
            at=read_time(stated, self.reading.zone),
            raw=raw,
            hidden=bool(value.get("is_system")),
            others=swipes_of(value),
        )

    def _who(self, value: dict[str, Any]) -> tuple[Role, Author | None]:
        name = _name(value)
        if value.get("is_user"):
            return "user", self._person(name)
        if fold(name) in self.familiar:
            return "assistant", None
        if value.get("is_system") or _is_narrator(value):
            return "system", None
        return "user", Author(CHARACTERS, name or "unknown", display_name=name or None)

    def _person(self, name: str) -> Author:
        otherwise = Author(PLATFORM, name or "user", display_name=name or None)
        return self.reading.cast.person(name, otherwise)


def _parent(head: Mapping[str, Any]) -> str:
    """Return the name of the chat that a branch or a checkpoint left."""
    about = head.get("chat_metadata")
    return str_or_empty(about.get("main_chat")) if isinstance(about, dict) else ""


def _name(value: Mapping[str, Any]) -> str:
    name = value.get("name")
    return name if isinstance(name, str) else ""


def _is_character(value: Mapping[str, Any]) -> bool:
    aside = value.get("is_user") or value.get("is_system") or _is_narrator(value)
    return is_message(value) and not aside and bool(_name(value).strip())


def _is_narrator(value: Mapping[str, Any]) -> bool:
    extra = value.get("extra")
    return isinstance(extra, dict) and extra.get("type") == "narrator"


def swipes_of(value: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the texts of a message, of which one is shown; none where it has only that one."""
    swipes = value.get("swipes")
    return tuple(s for s in swipes if isinstance(s, str)) if isinstance(swipes, list) else ()


def _no_message(value: Mapping[str, Any]) -> str:
    if is_head(value):
        return "it is a chat header, but not the first line"
    if "mes" not in value:
        return "it is not a message: there is no 'mes'"
    return f"it is not a message: 'mes' is {type(value['mes']).__name__}, not text"
