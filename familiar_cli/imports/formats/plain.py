"""Plain JSON lines: the familiar's own format for chats, read and written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from familiar_cli.base.errors import UsageError
from familiar_cli.base.times.clock import iso
from familiar_cli.base.who.identity import Author, Me, parse_author
from familiar_cli.imports.cast import PLATFORM, Cast, another_character, people_on, with_my_names
from familiar_cli.imports.chat_times import read_time, stated_time
from familiar_cli.imports.contract import ForeignChat, ForeignMessage, Format, Reading
from familiar_cli.imports.conversation import file_channels, plain_text, swipes_of
from familiar_cli.imports.foreign_files import json_line, object_at, text_at, text_list
from familiar_cli.imports.source import (
    ForeignFile,
    Skip,
    array_objects,
    json_lines,
    read_rows,
    readable_rows,
)
from familiar_cli.store.history.same_message import stated_id
from familiar_cli.store.history.selection import (
    SourcedTurn,
    TurnFilter,
    imported_from,
    people_in,
    select_turns,
)

if TYPE_CHECKING:
    from familiar_cli.base.who.visibility import Viewer
    from familiar_cli.imports.source import Row
    from familiar_cli.store.history.rows import Role
    from familiar_cli.store.history.store import HistoryStore

PLAIN: Final = "plain"
PLAIN_VERSION: Final = 1
"""The version of the plain format."""


PLAIN_HEAD: Final = "familiar_chat"
"""The key by which the line before the messages is known; its value is the format's version."""

_ROLES: Final[dict[str, Role]] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "familiar": "assistant",
    "model": "assistant",
    "ai": "assistant",
    "bot": "assistant",
    "system": "system",
}
_OWNER: Final = "owner"
_WORDS: Final = ("content", "text")
_HEADS: Final = "heads"  # of the chats' own sources, by channel
_FIRST: Final = 500  # lines searched for names
_TIMES: Final = ("at", "timestamp", "time", "date")


def _is_chat(source: ForeignFile) -> bool:
    """Tell whether a line is a message or a header of this format."""
    value = source.first
    return PLAIN_HEAD in value or ("role" in value and any(key in value for key in _WORDS))


def _read(source: ForeignFile, reading: Reading) -> Iterator[ForeignChat]:
    """Yield the chats in `source`: one, or one per channel named in its header."""
    is_array = source.shape == "array"
    rows = partial(array_objects, source) if is_array else partial(json_lines, source, is_own=True)
    channels = reading.channels or file_channels(source)
    begun = list(readable_rows(islice(rows(), _FIRST)))
    head = begun[0] if begun and PLAIN_HEAD in begun[0][2] else None
    times = (
        read_time(_plain_time(value), reading.zone)
        for *_, value in readable_rows(islice(rows(), 3))
    )
    began = next(filter(None, times), None)
    names = dict.fromkeys(filter(None, (_name_of_person(value) for *_, value in begun)))
    reading = replace(reading, cast=with_my_names(reading.cast, names, origin=source.name))
    people = people_on(PLATFORM, sorted(names))
    roles = reading.cast.roles_of(people, is_one_of_many=len(names) > 1)
    read = partial(_plain_message, reading=reading, has_many_names=len(names) > 1)
    about = head[2] if head else {}
    several = list(filter(None, text_list(about.get("channels"))))
    key, parents = text_at(about, "id"), object_at(about, "branches")

    def messages(channel: str) -> Iterator[ForeignMessage | Skip]:
        def is_here(row: Row | Skip) -> bool:
            if isinstance(row, Skip):
                return channel in ("", *several[:1])  # it is named once
            return PLAIN_HEAD not in row[2] and (not channel or row[2].get("channel") == channel)

        return read_rows(filter(is_here, rows()), read)

    for channel in several or [text_at(about, "channel")]:
        yield ForeignChat(
            format=PLAIN,
            name=text_at(about, "name") or channel or source.stem,
            channels=(channel,) if channel else channels,
            began=began,
            head=partial(_head_of, channel, *head[1:]) if head else str,
            messages=partial(messages, channel if several else ""),
            key=f"{PLAIN}:{key}" + (f":{channel}" if several else "") if key else "",
            parent=text_at(parents, channel),
            is_apart=bool(key or channel) and not text_at(parents, channel),
            notes=reading.cast.note_strangers(roles, people),
            roles=reading.cast.shown_roles(roles),
            stranger=reading.cast.find_stranger(roles, people),
        )


def _head_of(channel: str, line: str, about: Mapping[str, Any]) -> str:
    """Return the head of one of a file's chats; it holds that of the chat's own source, if any."""
    held = object_at(object_at(about, _HEADS), channel)
    return json_line(_without_places(about) | {"from": held}) if held else line


def _without_places(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details of a header's own chat, without those of the file's other chats."""
    apart = {"channels", "branches", _HEADS, "from"}
    return {key: said for key, said in about.items() if key not in apart}


def _plain_message(
    line: int, raw: str, value: dict[str, Any], *, reading: Reading, has_many_names: bool
) -> ForeignMessage | Skip:
    role = _ROLES.get(text_at(value, "role").lower())
    text = next((value[key] for key in _WORDS if key in value), None)
    text = (plain_text(text) or None) if isinstance(text, list) else text
    if role is None:
        return Skip(line, f"its role is {value.get('role')!r:.40}, not user, assistant or system")
    if not isinstance(text, str):
        return Skip(line, "it has no text in 'content'")
    stated = _plain_time(value)
    who = value.get("author") or value.get("name") or ""
    author = _plain_author(value, reading.cast, is_one_of_many=has_many_names)
    if role == "assistant" and reading.cast.unnamed == "nobody":
        role, author = "user", another_character(text_at(value, "name"))
    return ForeignMessage(
        line=line,
        role=role,
        author=author if role == "user" else None,
        speaker=who if isinstance(who, str) else json.dumps(who, sort_keys=True),
        text=text,
        stated=stated_time(stated),
        at=None if value.get("at_estimated") else read_time(stated, reading.zone),
        raw=raw,
        hidden=bool(value.get("hidden", role == "system")),
        others=tuple(filter(None, text_list(value.get("alternatives"))))
        or swipes_of(object_at(object_at(value, "from"), "raw")),
        modality="voice" if value.get("modality") == "voice" else "text",
        partial=bool(value.get("partial")),
        message_id=stated_id(value),
        is_one_to_one=bool(value.get("one_to_one")),
        is_owners=value.get("one_to_one") == _OWNER,
    )


def _plain_author(value: Mapping[str, Any], cast: Cast, *, is_one_of_many: bool) -> Author:
    author = value.get("author")
    name = text_at(value, "name")
    if isinstance(author, str):
        try:
            return parse_author(author, display_name=name or None)
        except UsageError:
            if ":" in author:  # an invalid account is not attributed to anybody else
                return Author(PLATFORM, author, display_name=name or None)
            name = name or author
    if isinstance(author, dict):
        return _read_author(author)
    otherwise = Author(PLATFORM, name or "user", display_name=name or None)
    return cast.person(name, otherwise, is_one_of_many=is_one_of_many)


def _name_of_person(value: Mapping[str, Any]) -> str:
    """Return the speaker's name if nothing else is known of a person."""
    is_person = _ROLES.get(text_at(value, "role").lower()) == "user"
    author = value.get("author", "")
    if not is_person or not isinstance(author, str) or ":" in author:
        return ""
    return text_at(value, "name") or author


def _read_author(given: Mapping[str, Any]) -> Author:
    name = text_at(given, "display_name", "name")
    username = text_at(given, "username")
    user_id = given.get("user_id", given.get("id"))
    known = str(user_id) if isinstance(user_id, str | int) else name or username or "user"
    platform = text_at(given, "platform") or PLATFORM
    return Author(platform, known, username or None, name or None)


def _plain_time(value: Mapping[str, Any]) -> object:
    return next((value[key] for key in _TIMES if value.get(key) is not None), None)


def write_lines(
    history: HistoryStore, channels: list[str], me: Me, viewer: Viewer
) -> Iterator[str]:
    """Yield the lines of channels, without line ends."""
    one = len(channels) == 1
    where = {"channel": channels[0]} if one else {"channels": channels}
    heads = [c.head for c in imported_from(history, channels[0]) if c.format == PLAIN and c.head]
    about = _without_places(json.loads(heads[0]) if one and heads else {})
    made = {name: [chat.original() for chat in imported_from(history, name)] for name in channels}
    sources = {
        name: {"format": chat_format, "head": head}
        for name, chats in made.items()
        for chat_format, head in reversed(chats)  # the first one counts
        if chat_format != PLAIN
    }
    parents = {one.channel_id: one.parent for one in history.branches() if one.turn_id}
    branches = {name: parents[name] for name in channels if parents.get(name) in channels}
    stated = {key: of for key, of in (("branches", branches), (_HEADS, sources)) if of}
    yield json_line({PLAIN_HEAD: PLAIN_VERSION} | about | where | stated)
    people = people_in(history, channels)
    for channel_id in channels:
        is_group = len(people.get(channel_id, ())) > 1
        for selection in select_turns(history, TurnFilter(viewer, channel_id)):
            line = _history_line(selection, "" if one else channel_id)
            only = selection.turn.one_to_one
            if only and (is_group or not me.owner(only)):
                line["one_to_one"] = _OWNER if me.owner(only) else True
            yield json_line(line)


def _history_line(selection: SourcedTurn, channel_id: str) -> dict[str, Any]:
    where = {"channel": channel_id} if channel_id else {}
    if selection.format == PLAIN:
        return dict(json.loads(selection.raw)) | where
    turn = selection.turn
    line: dict[str, Any] = {"role": turn.role, "content": turn.content, "at": iso(turn.at)}
    if selection.message_id:
        line["id"] = selection.message_id
    if turn.author is not None:
        line["author"] = _author_fields(turn.author)
    if turn.hidden or turn.role == "system":
        line["hidden"] = turn.hidden
    if turn.modality != "text":
        line["modality"] = turn.modality
    marks = {"partial": turn.partial, "at_estimated": selection.estimated}
    line |= {key: True for key, said in marks.items() if said}
    if selection.raw:
        line["from"] = {"format": selection.format, "raw": json.loads(selection.raw)}
    return line | {"source": turn.source} | where


def _author_fields(author: Author) -> dict[str, str]:
    result = {
        "platform": author.platform,
        "user_id": author.user_id,
        "username": author.username,
        "display_name": author.display_name,
    }
    return {key: value for key, value in result.items() if value is not None}


FORMAT: Final = Format(PLAIN, "plain lines", ("chat",), _is_chat, _read, write_lines)
