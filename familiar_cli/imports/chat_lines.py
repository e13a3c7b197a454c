"""Read and write chats as JSON lines: our own plain format and SillyTavern's."""

from __future__ import annotations

import json
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec.structs import replace

from familiar_cli.base.errors import NotFoundError, UsageError
from familiar_cli.base.text import fold, str_or_empty
from familiar_cli.base.times.clock import iso
from familiar_cli.base.who.identity import Author, Me, parse_author
from familiar_cli.base.who.visibility import OWNER, Viewer
from familiar_cli.imports.chat_times import read_time, stated_time
from familiar_cli.imports.foreign_chat import (
    PLAIN,
    PLATFORM,
    SILLY_TAVERN,
    Cast,
    ChatFile,
    ForeignChat,
    ForeignMessage,
    Reading,
    Skip,
    array_objects,
    familiars_names,
    json_lines,
    people_on,
    read_rows,
    readable_rows,
    with_my_names,
)
from familiar_cli.imports.foreign_files import as_object, json_line, text_list
from familiar_cli.store.history.matching import stated_id
from familiar_cli.store.history.selection import (
    Kept,
    TurnFilter,
    imported_from,
    kept_turns,
    select_turns,
)
from familiar_cli.store.history.store import HistoryStore, marked_count, turn_statuses

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from familiar_cli.store.history.rows import Role, Turn

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
_WORDS: Final = ("content", "text")
_FIRST: Final = 500  # lines searched for names
_TIMES: Final = ("at", "timestamp", "time", "date")


def is_plain_message(value: Mapping[str, Any]) -> bool:
    """Tell whether a line is a message or a header of this format."""
    return PLAIN_HEAD in value or ("role" in value and any(key in value for key in _WORDS))


def read_plain(
    source: ChatFile, reading: Reading, *, channels: tuple[str, ...], is_array: bool
) -> Iterator[ForeignChat]:
    """Yield the chats in `source`: one, or one per channel named in its header."""
    rows = partial(array_objects if is_array else json_lines, source)
    begun = list(readable_rows(islice(rows(), _FIRST)))
    head = begun[0] if begun and PLAIN_HEAD in begun[0][2] else None
    times = (
        read_time(_plain_time(value), reading.zone)
        for *_, value in readable_rows(islice(rows(), 3))
    )
    began = next(filter(None, times), None)
    names = {_name_of_person(value) for *_, value in begun} - {""}
    reading = replace(reading, cast=with_my_names(reading.cast, names, origin=source.name))
    people = people_on(PLATFORM, sorted(names))
    roles = reading.cast.roles_of(people, is_one_of_many=len(names) > 1)
    read = partial(_plain_message, reading=reading, has_many_names=len(names) > 1)
    about = head[2] if head else {}
    several = list(filter(None, text_list(about.get("channels"))))
    key = str_or_empty(about.get("id"))

    def messages(channel: str) -> Iterator[ForeignMessage | Skip]:
        here = (
            row
            for row in rows()
            if isinstance(row, Skip)
            or (PLAIN_HEAD not in row[2] and (not channel or row[2].get("channel") == channel))
        )
        return read_rows(here, read)

    for channel in several or [str_or_empty(about.get("channel"))]:
        yield ForeignChat(
            format=PLAIN,
            name=str_or_empty(about.get("name")) or channel or source.stem,
            channels=(channel,) if channel else channels,
            began=began,
            head=lambda: head[1] if head else "",
            messages=partial(messages, channel if several else ""),
            key=f"{PLAIN}:{key}" + (f":{channel}" if several else "") if key else "",
            is_apart=bool(key or channel),
            notes=reading.cast.note_strangers(roles, people),
            roles=roles,
        )


def _plain_message(
    line: int, raw: str, value: dict[str, Any], *, reading: Reading, has_many_names: bool
) -> ForeignMessage | Skip:
    role = _ROLES.get(str_or_empty(value.get("role")).lower())
    text = next((value[key] for key in _WORDS if key in value), None)
    if role is None:
        return Skip(line, f"its role is {value.get('role')!r:.40}, not user, assistant or system")
    if not isinstance(text, str):
        return Skip(line, "it has no text in 'content'")
    stated = _plain_time(value)
    who = value.get("author") or value.get("name") or ""
    author = _plain_author(value, reading.cast, is_one_of_many=has_many_names)
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
        others=tuple(filter(None, text_list(value.get("alternatives")))),
        modality="voice" if value.get("modality") == "voice" else "text",
        partial=bool(value.get("partial")),
        message_id=stated_id(value),
        is_one_to_one=bool(value.get("one_to_one")),
    )


def _plain_author(value: Mapping[str, Any], cast: Cast, *, is_one_of_many: bool) -> Author:
    given = value.get("author")
    name = str_or_empty(value.get("name"))
    if isinstance(given, str):
        try:
            return parse_author(given, display_name=name or None)
        except UsageError:
            if ":" in given:  # an invalid account is not attributed to anybody else
                return Author(PLATFORM, given, display_name=name or None)
            name = name or given
    if isinstance(given, dict):
        return _read_author(given)
    otherwise = Author(PLATFORM, name or "user", display_name=name or None)
    return cast.person(name, otherwise, is_one_of_many=is_one_of_many)


def _name_of_person(value: Mapping[str, Any]) -> str:
    """Return the speaker's name if nothing else is known of a person."""
    is_person = _ROLES.get(str_or_empty(value.get("role")).lower()) == "user"
    given = value.get("author", "")
    if not is_person or not isinstance(given, str) or ":" in given:
        return ""
    return str_or_empty(value.get("name")) or given


def _read_author(given: Mapping[str, Any]) -> Author:
    name = str_or_empty(given.get("display_name")) or str_or_empty(given.get("name"))
    username = str_or_empty(given.get("username"))
    user_id = given.get("user_id", given.get("id"))
    known = str(user_id) if isinstance(user_id, str | int) else name or username or "user"
    platform = str_or_empty(given.get("platform")) or PLATFORM
    return Author(platform, known, username or None, name or None)


def _plain_time(value: Mapping[str, Any]) -> object:
    return next((value[key] for key in _TIMES if value.get(key) is not None), None)


SILLY_TAVERN_PLATFORM: Final = "sillytavern"
"""The platform of people who are known by their name in such a chat."""

CHARACTERS: Final = "sillytavern_character"
"""The platform of other characters in a group."""

_HEAD_KEYS: Final = frozenset(("user_name", "character_name", "chat_metadata"))


def is_silly_tavern(value: Mapping[str, Any]) -> bool:
    """Tell whether a line is a SillyTavern message or chat header."""
    return "mes" in value or _is_head(value)


def _is_head(value: Mapping[str, Any]) -> bool:
    return "mes" not in value and not _HEAD_KEYS.isdisjoint(value)


def read_silly_tavern(
    source: ChatFile, reading: Reading, *, channels: tuple[str, ...]
) -> ForeignChat:
    """Read the chat in `source`.

    Raises:
        RefusedError: Which speaker is the familiar, or the user, is ambiguous.
    """
    found = list(readable_rows(islice(json_lines(source), _FIRST)))
    head = found[0] if found and _is_head(found[0][2]) else None
    values = [value for *_, value in found]
    names = {_user_name(value) for value in values if _is_character(value)}
    familiar = familiars_names(reading.cast, names, origin=source.name)
    times = [value.get("create_date") or value.get("send_date") for value in values[:2]]
    names = {name for value in values if value.get("is_user") and (name := _user_name(value))}
    cast = with_my_names(reading.cast, names, origin=source.name)
    user = str_or_empty(head[2].get("user_name")) if head else ""
    if not cast.mine and any(map(cast.bears_my_name, {*names, user})):
        cast = replace(cast, is_mine=True)  # whatever other personas the user had in it
    reading = replace(reading, cast=cast)
    people = people_on(SILLY_TAVERN_PLATFORM, sorted(names))
    roles = cast.roles_of(people)
    read = partial(_silly_tavern_message, reading=reading, familiar=familiar)

    def messages() -> Iterator[ForeignMessage | Skip]:
        # The header was readable before, so it is again.
        return read_rows((row for row in json_lines(source) if row != head), read)

    about = as_object(head[2].get("chat_metadata")) if head else {}
    return ForeignChat(
        format=SILLY_TAVERN,
        name=source.stem,
        channels=channels,
        began=next((at for t in times if (at := read_time(t, reading.zone))), None),
        head=lambda: head[1] if head else "",
        messages=messages,
        parent=str_or_empty(about.get("main_chat")),  # the chat that a branch or a checkpoint left
        notes=cast.note_strangers(roles, people),
        roles=roles,
        is_whole=True,
    )


def _silly_tavern_message(
    line: int, raw: str, value: dict[str, Any], *, reading: Reading, familiar: frozenset[str]
) -> ForeignMessage | Skip:
    text = value.get("mes")
    if not isinstance(text, str):
        return Skip(line, _no_message(value))
    role, author = _silly_tavern_speaker(value, reading.cast, familiar)
    stated = value.get("send_date")
    return ForeignMessage(
        line=line,
        role=role,
        author=author,
        speaker=_user_name(value),
        text=text,
        stated=stated_time(stated),
        at=read_time(stated, reading.zone),
        raw=raw,
        hidden=bool(value.get("is_system")),
        others=swipes_of(value),
    )


def _silly_tavern_speaker(
    value: dict[str, Any], cast: Cast, familiar: frozenset[str]
) -> tuple[Role, Author | None]:
    name = _user_name(value)
    if value.get("is_user"):
        otherwise = Author(SILLY_TAVERN_PLATFORM, name or "user", display_name=name or None)
        return "user", cast.person(name, otherwise)
    if fold(name) in familiar:
        return "assistant", None
    if value.get("is_system") or _is_narrator(value):
        return "system", None
    return "user", Author(CHARACTERS, name or "unknown", display_name=name or None)


def _user_name(value: Mapping[str, Any]) -> str:
    return str_or_empty(value.get("name"))


def _is_character(value: Mapping[str, Any]) -> bool:
    aside = value.get("is_user") or value.get("is_system") or _is_narrator(value)
    return "mes" in value and not aside and bool(_user_name(value).strip())


def _is_narrator(value: Mapping[str, Any]) -> bool:
    return as_object(value.get("extra")).get("type") == "narrator"


def swipes_of(value: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a message's alternative texts; empty if it has only one."""
    return tuple(text_list(value.get("swipes")))


def _no_message(value: Mapping[str, Any]) -> str:
    if _is_head(value):
        return "it is a chat header, but not the first line"
    if "mes" not in value:
        return "it is not a message: there is no 'mes'"
    return f"it is not a message: 'mes' is {type(value['mes']).__name__}, not text"


_AT_ONCE: Final = 200
_OF_ONE: Final = ("gen_started", "gen_finished")  # metadata of the swipe that is shown


def with_others(
    history: HistoryStore, turns: Iterable[Kept]
) -> Iterator[tuple[Kept, tuple[Kept, ...]]]:
    """Yield each turn with all non-withdrawn turns at its place, itself included."""
    if not marked_count(history):
        yield from ((kept, (kept,)) for kept in turns)
        return
    rest = iter(turns)
    while some := list(islice(rest, _AT_ONCE)):
        became = turn_statuses(history, [kept.turn.id for kept in some])
        wanted = {i for found in became.values() for i in found.alternatives}
        withdrawn = {i for i, found in turn_statuses(history, wanted).items() if found.withdrawn}
        others = kept_turns(history, wanted - withdrawn)
        for kept in some:
            group = became[kept.turn.id].alternatives
            yield kept, tuple(others[i] for i in group if i in others) or (kept,)


def as_message(kept: Kept, group: Sequence[Kept], made: Mapping[str, Any]) -> dict[str, Any] | None:
    """Build the message for a turn and its alternatives; None if the imported one is unchanged.

    Args:
        kept: The turn.
        group: All turns at its place, in order of arrival.
        made: The turn as a newly built message.
    """
    imported = {k.turn.id: json.loads(k.raw) for k in group if k.format == SILLY_TAVERN}
    own = imported.get(kept.turn.id)
    base: dict[str, Any] = own or next(iter(imported.values()), {})
    if kept.turn.role != "assistant":
        return None if own else {**made, **base, "mes": kept.turn.content}
    swipes: dict[str, dict[str, Any]] = {}
    for one in group:
        for text, info in _swipe_texts(one, imported.get(one.turn.id, {})):
            swipes.setdefault(text, info)
    if own and swipes.keys() <= {text for text, _ in _swipe_texts(kept, own)}:
        return None
    if len(swipes) == 1:
        return dict(made)
    told = {key: value for key, value in base.items() if own or key not in _OF_ONE}
    return {
        **made,
        **told,
        "send_date": base["send_date"] if own and "send_date" in base else made["send_date"],
        "mes": kept.turn.content,
        "extra": base.get("extra", {}) if own else made["extra"],
        "swipes": list(swipes),
        "swipe_id": list(swipes).index(kept.turn.content),
        "swipe_info": list(swipes.values()),
    }


def _swipe_texts(kept: Kept, raw: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the texts of one turn, with the metadata of each."""
    texts = swipes_of(raw)
    if kept.turn.content not in texts:
        date = raw.get("send_date") or iso(kept.turn.at)
        return [(kept.turn.content, {"send_date": date, "extra": raw.get("extra") or {}})]
    given = raw.get("swipe_info")
    infos = given if isinstance(given, list) and len(given) == len(texts) else [None] * len(texts)
    otherwise: dict[str, Any] = {
        "send_date": raw.get("send_date") or iso(kept.turn.at),
        "extra": {},
    }
    pairs = zip(texts, infos, strict=True)
    return [(text, info if isinstance(info, dict) else otherwise) for text, info in pairs]


ExportFormat = Literal["sillytavern", "jsonl"]
PLAIN_VERSION: Final = 1
"""The version of the plain format."""


def export_chat(
    history: HistoryStore,
    channel_id: str | None,
    chat_format: ExportFormat,
    *,
    familiar_name: str,
    me: Me = Me(),  # noqa: B008  # frozen
    viewer: Viewer = OWNER,
) -> Iterator[str]:
    """Yield the lines of a channel, or of all channels, without line ends.

    Args:
        history: The history.
        channel_id: The channel; None: the only one, or all of them as plain lines.
        chat_format: The output format.
        familiar_name: The familiar's name where the source does not state one.
        me: The owner's identity.
        viewer: Turns hidden from this viewer are left out.

    Raises:
        NotFoundError: The channel has no turns.
        UsageError: There are several channels, but a SillyTavern chat holds one.
    """
    there = [found.channel_id for found in history.channels()]
    channels = [channel for channel in there if viewer.sees_channel(channel)]
    if not channels:
        raise NotFoundError("There are no turns yet", hint='Start with `familiar ask "Hello"`.')
    known = {*channels, *(branch.channel_id for branch in history.branches())}
    if channel_id is not None and channel_id not in known:
        raise NotFoundError(
            f"There are no turns in channel {channel_id!r}", hint="Run `familiar history ls`."
        )
    if chat_format == "jsonl":
        chosen = [channel_id] if channel_id is not None else sorted(channels)
        return _plain_lines(history, chosen, me, viewer)
    if channel_id is None and len(channels) > 1:
        raise UsageError(
            f"There are {len(channels)} channels, but a SillyTavern chat holds only one",
            hint=f"Add `--channel {channels[0]}`, or `--format jsonl` for all.",
        )
    return _silly_tavern(history, channel_id or channels[0], familiar_name, me, viewer)


def _silly_tavern(
    history: HistoryStore, channel_id: str, name: str, me: Me, viewer: Viewer
) -> Iterator[str]:
    heads = [c.head for c in imported_from(history, channel_id) if c.format == SILLY_TAVERN]
    headless = heads and not heads[0]  # its file had no header either
    if not headless:
        yield heads[0] if heads else json_line(_chat_head(history, channel_id, name, me, viewer))
    for kept, group in with_others(history, select_turns(history, TurnFilter(viewer, channel_id))):
        if kept.format == SILLY_TAVERN and len(group) == 1:
            yield kept.raw
            continue
        message = as_message(kept, group, _chat_message(kept.turn, name, me))
        yield kept.raw if message is None else json_line(message)


def _chat_head(
    history: HistoryStore, channel_id: str, name: str, me: Me, viewer: Viewer
) -> dict[str, object]:
    first = next(select_turns(history, TurnFilter(viewer, channel_id)), None)
    people = history.recent_distinct_authors(channel_id, 1 if viewer.sees_everything else 0)
    if not people and first and first.turn.author:
        people = [first.turn.author]
    return {
        "user_name": me.name_of(people[0]) if people else "User",
        "character_name": name,
        "create_date": iso(first.turn.at) if first else "",
        "chat_metadata": {},
    }


def _chat_message(turn: Turn, name: str, me: Me) -> dict[str, object]:
    """Convert a turn that was not imported from SillyTavern to a message."""
    person = turn.author is not None and turn.author.platform != CHARACTERS
    speaker = name if turn.role == "assistant" else "System"
    if turn.author is not None:
        speaker = me.name_of(turn.author)
    extra = {"type": "narrator"} if turn.role == "system" else {}
    return {
        "name": speaker,
        "is_user": person or (turn.role == "user" and turn.author is None),
        "is_system": turn.hidden,
        "send_date": iso(turn.at),
        "mes": turn.content,
        "extra": extra,
    }


def _plain_lines(
    history: HistoryStore, channels: list[str], me: Me, viewer: Viewer
) -> Iterator[str]:
    one = len(channels) == 1
    where = {"channel": channels[0]} if one else {"channels": channels}
    heads = [c.head for c in imported_from(history, channels[0]) if c.format == PLAIN and c.head]
    about = json.loads(heads[0]) if one and heads else {}
    yield json_line({PLAIN_HEAD: PLAIN_VERSION} | about | where)
    for channel_id in channels:
        for kept in select_turns(history, TurnFilter(viewer, channel_id)):
            line = _history_line(kept, "" if one else channel_id)
            only = kept.turn.one_to_one
            yield json_line(line | {"one_to_one": True} if only and not me.owner(only) else line)


def _history_line(kept: Kept, channel_id: str) -> dict[str, Any]:
    where = {"channel": channel_id} if channel_id else {}
    if kept.format == PLAIN:
        return dict(json.loads(kept.raw)) | where
    turn = kept.turn
    line: dict[str, Any] = {"role": turn.role, "content": turn.content, "at": iso(turn.at)}
    if kept.message_id:
        line["id"] = kept.message_id
    if turn.author is not None:
        line["author"] = _author_fields(turn.author)
    if turn.hidden or turn.role == "system":
        line["hidden"] = turn.hidden
    if turn.modality != "text":
        line["modality"] = turn.modality
    marks = {"partial": turn.partial, "at_estimated": kept.estimated}
    line |= {key: True for key, said in marks.items() if said}
    if kept.raw:
        line["from"] = {"format": kept.format, "raw": json.loads(kept.raw)}
    return line | {"source": turn.source} | where


def _author_fields(author: Author) -> dict[str, str]:
    found = {
        "platform": author.platform,
        "user_id": author.user_id,
        "username": author.username,
        "display_name": author.display_name,
    }
    return {key: value for key, value in found.items() if value is not None}
