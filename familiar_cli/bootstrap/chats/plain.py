"""Plain JSON lines, our own format: `{"role": "user", "content": "Hi", "at": "2026-01-31T12:00Z"}`.

See docs/reference/chat-formats.md.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.bootstrap.chats.services import spans
from familiar_cli.bootstrap.chats.sources import json_lines, read_object
from familiar_cli.bootstrap.chats.times import read_time, stated_time
from familiar_cli.bootstrap.chats.types import (
    PLAIN,
    PLATFORM,
    ForeignChat,
    ForeignMessage,
    Skip,
    with_my_names,
)
from familiar_cli.errors import UsageError
from familiar_cli.history.matching import stated_id
from familiar_cli.identity import Author, parse_author
from familiar_cli.text import str_or_empty

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from familiar_cli.bootstrap.chats.sources import ChatFile
    from familiar_cli.bootstrap.chats.types import Reading
    from familiar_cli.history.types import Role

HEAD: Final = "familiar_chat"
"""The key by which the line before the messages is known; its value is the format's version."""

ROLES: Final[dict[str, Role]] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "familiar": "assistant",
    "model": "assistant",
    "ai": "assistant",
    "bot": "assistant",
    "system": "system",
}
_WORDS: Final = ("content", "text")
_FIRST: Final = 500  # lines in which names are looked for
_TIMES: Final = ("at", "timestamp", "time", "date")
Found = tuple[int, str, dict[str, Any]]


def is_message(value: Mapping[str, Any]) -> bool:
    """Tell whether a line is a message or a head of this format."""
    return HEAD in value or ("role" in value and any(key in value for key in _WORDS))


def read_chats(
    source: ChatFile, reading: Reading, *, channels: tuple[str, ...], is_array: bool
) -> Iterator[ForeignChat]:
    """Yield the chats in `source`: one, or one for each of the channels that its head names."""
    reader = _Reader(source, reading, is_array)
    begun = [line for line in islice(reader.lines(), _FIRST) if not isinstance(line, Skip)]
    first = begun[0] if begun else None
    names = {_name_of_person(value) for *_, value in begun} - {""}
    reading = replace(reading, cast=with_my_names(reading.cast, names, origin=source.name))
    head = first if first and HEAD in first[2] else None
    about = head[2] if head else {}
    several = [name for name in _listed(about.get("channels")) if name]
    own = str_or_empty(about.get("channel"))
    for channel in several or [own]:
        key = str_or_empty(about.get("id"))
        yield ForeignChat(
            format=PLAIN,
            name=str_or_empty(about.get("name")) or channel or source.stem,
            channels=(channel,) if channel else channels,
            began=reader.began(),
            head=lambda: head[1] if head else "",
            messages=_Reader(
                source, reading, is_array, channel if several else "", len(names) > 1
            ).messages,
            key=f"{PLAIN}:{key}" + (f":{channel}" if several else "") if key else "",
            is_apart=bool(key or channel),
        )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the messages of one file, or those of one of its channels."""

    source: ChatFile
    reading: Reading
    is_array: bool
    channel: str = ""
    has_many_names: bool = False

    def lines(self) -> Iterator[Found | Skip]:
        if self.is_array:
            with self.source.open() as stream:
                for number, span in enumerate(spans(self.source), start=1):
                    yield read_object(number, span.read(stream))
        else:
            yield from json_lines(self.source)

    def messages(self) -> Iterator[ForeignMessage | Skip]:
        for found in self.lines():
            if isinstance(found, Skip):
                yield found
            elif HEAD not in found[2] and self._is_here(found[2]):
                yield self._message(*found)

    def began(self) -> Any:  # noqa: ANN401  # a moment or None
        first = (line for line in islice(self.lines(), 3) if not isinstance(line, Skip))
        return next(
            (at for *_, v in first if (at := read_time(_stated(v), self.reading.zone))), None
        )

    def _is_here(self, value: Mapping[str, Any]) -> bool:
        return not self.channel or value.get("channel") == self.channel

    def _message(self, line: int, raw: str, value: dict[str, Any]) -> ForeignMessage | Skip:
        role = ROLES.get(str_or_empty(value.get("role")).lower())
        text = next((value[key] for key in _WORDS if key in value), None)
        if role is None:
            return Skip(
                line, f"its role is {value.get('role')!r:.40}, not user, assistant or system"
            )
        if not isinstance(text, str):
            return Skip(line, "it has no text in 'content'")
        stated = _stated(value)
        author = self._author(value) if role == "user" else None
        hidden = value.get("hidden", role == "system")
        return ForeignMessage(
            line=line,
            role=role,
            author=author,
            speaker=_speaker(value),
            text=text,
            stated=stated_time(stated),
            at=None if value.get("at_estimated") else read_time(stated, self.reading.zone),
            raw=raw,
            hidden=bool(hidden),
            others=tuple(t for t in _listed(value.get("alternatives")) if t),
            modality="voice" if value.get("modality") == "voice" else "text",
            partial=bool(value.get("partial")),
            message_id=stated_id(value),
        )

    def _author(self, value: Mapping[str, Any]) -> Author:
        given = value.get("author")
        name = str_or_empty(value.get("name"))
        if isinstance(given, str):
            try:
                return parse_author(given, display_name=name or None)
            except UsageError:
                if ":" in given:  # an account that is unusable is nobody else's
                    return Author(PLATFORM, given, display_name=name or None)
                name = name or given
        if isinstance(given, dict):
            return _author(given)
        otherwise = Author(PLATFORM, name or "user", display_name=name or None)
        cast = self.reading.cast
        return cast.person(name, otherwise, is_one_of_many=self.has_many_names)


def _name_of_person(value: Mapping[str, Any]) -> str:
    """Return the name of who speaks, where that is all that is known of a person."""
    is_person = ROLES.get(str_or_empty(value.get("role")).lower()) == "user"
    return str_or_empty(value.get("name")) if is_person and "author" not in value else ""


def _author(given: Mapping[str, Any]) -> Author:
    name = str_or_empty(given.get("display_name")) or str_or_empty(given.get("name"))
    username = str_or_empty(given.get("username"))
    user_id = given.get("user_id", given.get("id"))
    known = str(user_id) if isinstance(user_id, str | int) else name or username or "user"
    platform = str_or_empty(given.get("platform")) or PLATFORM
    return Author(platform, known, username or None, name or None)


def _speaker(value: Mapping[str, Any]) -> str:
    who = value.get("author") or value.get("name") or ""
    return who if isinstance(who, str) else json.dumps(who, sort_keys=True)


def _stated(value: Mapping[str, Any]) -> object:
    return next((value[key] for key in _TIMES if value.get(key) is not None), None)


def _listed(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
