"""Chats of JSON lines, read and written: our own plain format, and SillyTavern's."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from familiar_cli.clock import iso
from familiar_cli.errors import NotFoundError, UsageError
from familiar_cli.history.matching import stated_id
from familiar_cli.history.selection import TurnFilter, imported_from, kept_turns, select
from familiar_cli.history.store import marked_count, standings
from familiar_cli.identity import Author, Me, parse_author
from familiar_cli.imports.chat_services import spans
from familiar_cli.imports.chat_times import read_time, stated_time
from familiar_cli.imports.foreign_chat import (
    PLAIN,
    PLATFORM,
    SILLY_TAVERN,
    ForeignChat,
    ForeignMessage,
    Skip,
    familiars_names,
    json_lines,
    read_object,
    with_my_names,
)
from familiar_cli.imports.foreign_files import dump_json
from familiar_cli.text import fold, str_or_empty
from familiar_cli.visibility import OWNER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from familiar_cli.history.rows import Role, Turn
    from familiar_cli.history.selection import Kept
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.imports.foreign_chat import ChatFile, Reading

PLAIN_HEAD: Final = "familiar_chat"
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


def is_plain_message(value: Mapping[str, Any]) -> bool:
    """Tell whether a line is a message or a head of this format."""
    return PLAIN_HEAD in value or ("role" in value and any(key in value for key in _WORDS))


def read_plain(
    source: ChatFile, reading: Reading, *, channels: tuple[str, ...], is_array: bool
) -> Iterator[ForeignChat]:
    """Yield the chats in `source`: one, or one for each of the channels that its head names."""
    reader = _PlainReader(source, reading, is_array)
    begun = [line for line in islice(reader.lines(), _FIRST) if not isinstance(line, Skip)]
    first = begun[0] if begun else None
    names = {_name_of_person(value) for *_, value in begun} - {""}
    reading = replace(reading, cast=with_my_names(reading.cast, names, origin=source.name))
    head = first if first and PLAIN_HEAD in first[2] else None
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
            messages=_PlainReader(
                source, reading, is_array, channel if several else "", len(names) > 1
            ).messages,
            key=f"{PLAIN}:{key}" + (f":{channel}" if several else "") if key else "",
            is_apart=bool(key or channel),
        )


@dataclass(frozen=True, slots=True)
class _PlainReader:
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
            elif PLAIN_HEAD not in found[2] and self._is_here(found[2]):
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


SILLY_TAVERN_PLATFORM: Final = "sillytavern"
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


def is_silly_tavern_head(value: Mapping[str, Any]) -> bool:
    """Tell whether a line says what the chat is."""
    return "mes" not in value and not _SURE.isdisjoint(value)


def is_silly_tavern_message(value: Mapping[str, Any]) -> bool:
    """Tell whether a line is a message."""
    return "mes" in value


def read_silly_tavern(
    source: ChatFile, reading: Reading, *, channels: tuple[str, ...]
) -> ForeignChat:
    """Return the chat in `source`.

    Raises:
        RefusedError: It is not told who in it is the familiar, or who is the person.
    """
    lines = list(islice(json_lines(source), _FIRST))
    found = [line for line in lines if not isinstance(line, Skip)]
    head = found[0] if found and is_silly_tavern_head(found[0][2]) else None
    names = {_name(value) for _, _, value in found if _is_character(value)}
    familiar = familiars_names(reading.cast, names, origin=source.name)
    times = [value.get("create_date") or value.get("send_date") for _, _, value in found[:2]]
    began = next((at for t in times if (at := read_time(t, reading.zone))), None)
    people = {name for _, _, v in found if v.get("is_user") and (name := _name(v))}
    reading = replace(reading, cast=with_my_names(reading.cast, people, origin=source.name))
    reader = _SillyTavernReader(source, reading, familiar, head[0] if head else 0)
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
class _SillyTavernReader:
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
        otherwise = Author(SILLY_TAVERN_PLATFORM, name or "user", display_name=name or None)
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
    return is_silly_tavern_message(value) and not aside and bool(_name(value).strip())


def _is_narrator(value: Mapping[str, Any]) -> bool:
    extra = value.get("extra")
    return isinstance(extra, dict) and extra.get("type") == "narrator"


def swipes_of(value: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the texts of a message, of which one is shown; none where it has only that one."""
    swipes = value.get("swipes")
    return tuple(s for s in swipes if isinstance(s, str)) if isinstance(swipes, list) else ()


def _no_message(value: Mapping[str, Any]) -> str:
    if is_silly_tavern_head(value):
        return "it is a chat header, but not the first line"
    if "mes" not in value:
        return "it is not a message: there is no 'mes'"
    return f"it is not a message: 'mes' is {type(value['mes']).__name__}, not text"


_AT_ONCE: Final = 200
_OF_ONE: Final = ("gen_started", "gen_finished")  # what is said of the swipe that is shown


def with_others(
    history: HistoryStore, turns: Iterable[Kept]
) -> Iterator[tuple[Kept, tuple[Kept, ...]]]:
    """Yield each turn with all that stood at its place and was not withdrawn, itself among them."""
    if not marked_count(history):
        yield from ((kept, (kept,)) for kept in turns)
        return
    rest = iter(turns)
    while some := list(islice(rest, _AT_ONCE)):
        became = standings(history, [kept.turn.id for kept in some])
        wanted = {i for found in became.values() for i in found.alternatives}
        withdrawn = {i for i, found in standings(history, wanted).items() if found.withdrawn}
        others = kept_turns(history, wanted - withdrawn)
        for kept in some:
            group = became[kept.turn.id].alternatives
            yield kept, tuple(others[i] for i in group if i in others) or (kept,)


def as_message(kept: Kept, group: Sequence[Kept], made: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the message that holds a turn and what it replaced; None: what was imported does.

    Args:
        kept: The turn.
        group: All of which it is the one that stands, in the order in which they came.
        made: The turn as a message of its own.
    """
    imported = {k.turn.id: json.loads(k.raw) for k in group if k.format == SILLY_TAVERN}
    own = imported.get(kept.turn.id)
    base: dict[str, Any] = own or next(iter(imported.values()), {})
    if kept.turn.role != "assistant":
        return None if own else {**made, **base, "mes": kept.turn.content}
    swipes: dict[str, dict[str, Any]] = {}
    for one in group:
        for text, info in _swipes(one, imported.get(one.turn.id, {})):
            swipes.setdefault(text, info)
    if own and swipes.keys() <= {text for text, _ in _swipes(kept, own)}:
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


def _swipes(kept: Kept, raw: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the texts of one turn, with what is said of each."""
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
) -> Iterator[str]:
    """Return the lines of a channel, or of all channels, without their ends.

    Args:
        history: The history.
        channel_id: The channel; None: the only one there is, or all of them as plain lines.
        chat_format: As what.
        familiar_name: What the familiar is called where the source does not say.
        me: Whose home it is.

    Raises:
        NotFoundError: Nothing was said there.
        UsageError: There are several channels, and a SillyTavern chat holds one.
    """
    channels = [found.channel_id for found in history.channels()]
    if not channels:
        raise NotFoundError("There are no turns yet", hint='Start with `familiar ask "Hello"`.')
    known = {*channels, *(branch.channel_id for branch in history.branches())}
    if channel_id is not None and channel_id not in known:
        raise NotFoundError(
            f"There are no turns in channel {channel_id!r}", hint="Run `familiar history ls`."
        )
    if chat_format == "jsonl":
        return _plain(history, [channel_id] if channel_id is not None else sorted(channels))
    if channel_id is None and len(channels) > 1:
        raise UsageError(
            f"There are {len(channels)} channels, but a SillyTavern chat holds only one",
            hint=f"Add `--channel {channels[0]}`, or `--format jsonl` for all.",
        )
    return _silly_tavern(history, channel_id or channels[0], familiar_name, me)


def _silly_tavern(history: HistoryStore, channel_id: str, name: str, me: Me) -> Iterator[str]:
    heads = [c.head for c in imported_from(history, channel_id) if c.format == SILLY_TAVERN]
    headless = heads and not heads[0]  # its file had no such line either
    if not headless:
        yield heads[0] if heads else dump_json(_head(history, channel_id, name, me), indent=None)
    for kept, group in with_others(history, select(history, TurnFilter(OWNER, channel_id))):
        if kept.format == SILLY_TAVERN and len(group) == 1:
            yield kept.raw
            continue
        message = as_message(kept, group, _message(kept.turn, name, me))
        yield kept.raw if message is None else dump_json(message, indent=None)


def _head(history: HistoryStore, channel_id: str, name: str, me: Me) -> ChatHead:
    people = history.recent_distinct_authors(channel_id, 1)
    first = next(select(history, TurnFilter(OWNER, channel_id)), None)
    return {
        "user_name": me.name_of(people[0]) if people else "User",
        "character_name": name,
        "create_date": iso(first.turn.at) if first else "",
        "chat_metadata": {},
    }


def _message(turn: Turn, name: str, me: Me) -> ChatMessage:
    """Return a turn that was not in a SillyTavern chat as one of its messages."""
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


def _plain(history: HistoryStore, channels: list[str]) -> Iterator[str]:
    one = len(channels) == 1
    where = {"channel": channels[0]} if one else {"channels": channels}
    heads = [c.head for c in imported_from(history, channels[0]) if c.format == PLAIN and c.head]
    about = json.loads(heads[0]) if one and heads else {}
    yield dump_json({PLAIN_HEAD: PLAIN_VERSION} | about | where, indent=None)
    for channel_id in channels:
        for kept in select(history, TurnFilter(OWNER, channel_id)):
            yield dump_json(_line(kept, "" if one else channel_id), indent=None)


def _line(kept: Kept, channel_id: str) -> dict[str, Any]:
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
    line |= {key: True for key, said in _marks(kept) if said}
    if kept.raw:
        line["from"] = {"format": kept.format, "raw": json.loads(kept.raw)}
    return line | {"source": turn.source} | where


def _marks(kept: Kept) -> tuple[tuple[str, bool], ...]:
    return ("partial", kept.turn.partial), ("at_estimated", kept.estimated)


def _author_fields(author: Author) -> dict[str, str]:
    found = {
        "platform": author.platform,
        "user_id": author.user_id,
        "username": author.username,
        "display_name": author.display_name,
    }
    return {key: value for key, value in found.items() if value is not None}
