"""Build foreign chats from what a program's file says of each message."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import RefusedError
from familiar_cli.base.text import (
    counted,
    digest_of,
    fold,
    join_names,
    slugify,
    str_or_empty,
    typed,
)
from familiar_cli.base.who.identity import Author
from familiar_cli.imports.cast import (
    SILLY_TAVERN,
    Cast,
    SpeakerRole,
    another_character,
    cast_speakers,
    check_owner,
    familiars_names,
    is_model,
    is_role,
    with_my_names,
)
from familiar_cli.imports.chat_times import read_time, stated_time
from familiar_cli.imports.contract import ForeignChat, ForeignMessage, Format, Reading
from familiar_cli.imports.foreign_files import as_object, json_line, text_at, text_list
from familiar_cli.imports.source import (
    ByteSpan,
    ForeignFile,
    Skip,
    lines_or_whole,
    object_spans,
    read_object,
)

if TYPE_CHECKING:
    from familiar_cli.store.history.rows import Role

_ID_CHARS: Final = 8  # characters of an id that distinguish conversations of one title
_FIRST: Final = 3  # messages searched for the start of a chat


class SourceMessage(Struct, frozen=True):
    """A message as its program states it.

    Args:
        text: Its text, the selected alternative.
        role: Its role; None: only the speaker's name says whose it is.
        speaker: The speaker's name; empty: the program gives none.
        account: The speaker's stable id on the program's platform; empty: their name.
        time: The time, in any form that `read_time` accepts.
        raw: The original record.
        id: Its id in the source; empty: none.
        others: Its alternatives in the source.
        hidden: Whether it was no part of the conversation; notes never are.
        line: Its line in the file; 0: its number.
        username: The speaker's unique name on the platform, if that differs from `speaker`.
        aside: Whether it is a note unless the familiar said it.
        at: The time, if the format reads it itself.
        estimated: Whether that is a guess.
    """

    text: str
    role: Role | None = None
    speaker: str = ""
    account: str = ""
    time: object = None
    raw: object = None
    id: str = ""
    others: tuple[str, ...] = ()
    hidden: bool = False
    line: int = 0
    username: str = ""
    aside: bool = False
    at: datetime | None = None
    estimated: bool = False


class SourceChat(Struct, frozen=True):
    """A conversation as its program states it.

    Args:
        lines: Yields its messages, afresh at each call.
        name: Its title.
        id: Its stable id; empty: only its lines identify it.
        began: Its start, in any form that `read_time` accepts.
        about: All other data, including other branches.
        aside: Number of messages of other branches in `about`.
        channels: Channel names, best first; empty: from its title and id, or its file.
        kind: The detected kind of file, in words; empty: as its format says.
        parent: The name of the chat that it branched off.
        is_whole: Whether the source always has the whole current chat.
        notes: Remarks on how it was read.
        users: Names of its user besides those that speak.
        is_apart: Whether its id keeps it from being merged into another chat.
        is_private: Whether its program says that it is private; None: it does not say.
        owner: The owner's account, as their export states it; empty: it does not say.
        is_broadcast: Whether nobody converses in it: a channel that only its owner writes in.
    """

    lines: Callable[[], Iterable[SourceMessage | Skip]]
    name: str = ""
    id: str = ""
    began: object = None
    about: object = None
    aside: int = 0
    channels: tuple[str, ...] = ()
    kind: str = ""
    parent: str = ""
    is_whole: bool = False
    notes: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    is_apart: bool = True
    is_private: bool | None = None
    owner: str = ""
    is_broadcast: bool = False


class Program(Struct, frozen=True):
    """Where a conversation comes from.

    Args:
        format: The name of its format.
        platform: The platform of its people; empty: the same.
    """

    format: str
    platform: str = ""

    def account(self, line: SourceMessage) -> Author:
        """Return the speaker's own account."""
        name = "" if is_role(line.speaker) else line.speaker
        known = line.account or name or "user"
        return Author(self.platform or self.format, known, line.username or None, name or None)


def read_conversations(
    source: ForeignFile,
    reading: Reading,
    program: Program,
    parse: Callable[[dict[str, Any]], Iterable[SourceChat]],
) -> Iterator[ForeignChat | Skip]:
    """Yield the conversations in each object of a file, and a `Skip` for anything else.

    Of several, one without an id is known by its beginning, which a file that grows keeps.
    """
    several: Counter[str] = Counter()

    def build(chat: SourceChat, again: Callable[[], SourceChat] | None = None) -> ForeignChat:
        made = build_chat(source, reading, program, chat, again)
        if chat.id:
            return made
        beginning = _beginning_of(chat)
        several[beginning] += 1
        key = f"{program.format}:{source.stem}:{beginning}:{several[beginning]}"
        return replace(made, key=key, channels=made.channels[:1])

    if source.shape == "object" and source.value is None:
        for row in lines_or_whole(source):
            yield from (row,) if isinstance(row, Skip) else map(build, parse(row[2]))
        return
    if source.shape != "array":
        chats = list(parse(source.first))
        whole = partial(build_chat, source, reading, program)
        yield from map(build if len(chats) > 1 else whole, chats)
        return
    for number, span in enumerate(object_spans(source), start=1):
        read = _read_span(source, span, number)
        if isinstance(read, Skip):
            yield read
            continue
        for place, chat in enumerate(parse(read)):
            yield build(chat, partial(_parse_again, source, span, parse, place))


def _beginning_of(chat: SourceChat) -> str:
    """Return a digest of the messages up to the first that is neither a reply nor a notice."""
    said = []
    for line in chat.lines():
        if isinstance(line, Skip):
            continue
        said.append((line.role, line.speaker, str(line.time), line.text))
        if line.role in {None, "user"}:
            break
    return digest_of(repr(said), 8).hex()


def _read_span(source: ForeignFile, span: ByteSpan, number: int) -> dict[str, Any] | Skip:
    with source.open() as stream:
        read = read_object(number, span.read(stream))
    return read if isinstance(read, Skip) else read[2]


def _parse_again(
    source: ForeignFile,
    span: ByteSpan,
    parse: Callable[[dict[str, Any]], Iterable[SourceChat]],
    place: int,
) -> SourceChat:
    with source.open() as stream:
        return next(islice(parse(json.loads(span.read(stream))), place, None))


def conversation_format(
    name: str,
    program: str,
    is_chat: Callable[[dict[str, Any]], object],
    parse: Callable[[dict[str, Any]], Iterable[SourceChat]],
) -> Format:
    """Return a format whose files have conversations in each of their objects.

    Args:
        name: Its name.
        program: The program, for people.
        is_chat: Tells whether the first object of a file is such a conversation.
        parse: Yields the conversations of an object.
    """
    where = Program(name)
    return Format(
        name,
        program,
        ("chat",),
        lambda source: is_chat(source.first),
        lambda source, reading: read_conversations(source, reading, where, parse),
    )


def build_chat(
    source: ForeignFile,
    reading: Reading,
    program: Program,
    chat: SourceChat,
    again: Callable[[], SourceChat] | None = None,
) -> ForeignChat:
    """Build the chat of a conversation.

    Args:
        source: Its file.
        reading: Options for reading it.
        program: Where it comes from.
        chat: The conversation; not kept if `again` reads it again.
        again: Reads it again; None: it stays in memory.

    Raises:
        RefusedError: Which speaker is the familiar is ambiguous.
    """
    speakers = _Speakers(chat, reading, program, source.name)
    get = again or (lambda: chat)
    roles, notes, stranger = speakers.roles, speakers.notes, speakers.stranger
    messages = partial(_messages, get, speakers.people, reading)
    first = (m.at for m in islice(messages(), _FIRST) if isinstance(m, ForeignMessage))
    stated = read_time(chat.began, reading.zone)
    return ForeignChat(
        format=program.format,
        name=chat.name or chat.id or source.stem,
        channels=reading.channels or chat.channels or _channel_names(source, chat),
        began=stated or next(filter(None, first), None),
        head=lambda: _as_json(get().about),
        messages=messages,
        key=f"{program.format}:{chat.id}" if chat.id else "",
        aside=chat.aside,
        parent=chat.parent,
        is_apart=bool(chat.id) and chat.is_apart,
        kind=chat.kind,
        notes=(*chat.notes, *notes),
        roles=roles,
        is_whole=chat.is_whole,
        stranger=stranger,
        is_private=chat.is_private,
        is_broadcast=chat.is_broadcast,
    )


def _channel_names(source: ForeignFile, chat: SourceChat) -> tuple[str, ...]:
    """Suggest channel names: from title and id, else from the file's name."""
    if chat.id:
        names = (slugify(chat.name, max_chars=40), slugify(chat.id)[:_ID_CHARS].strip("-"))
        return ("-".join(filter(None, names)) or "chat",)
    return file_channels(source)


def file_channels(source: ForeignFile) -> tuple[str, ...]:
    """Suggest channel names for a file's chat, best first."""
    path = Path(source.name)
    stem = slugify(path.stem) or "chat"
    above = slugify(path.resolve().parent.name)
    if path.name == "_chat.txt" and above:  # WhatsApp names the directory, or its archive
        return (above, f"{above}-{stem}")
    return (stem, f"{above}-{stem}") if above else (stem,)


def _as_json(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json_line(value)


class People(Struct, frozen=True):
    """Who speaks in a conversation.

    Args:
        program: Where it comes from.
        roles: The role of each speaker whose lines state none, by name.
        familiar: The case-folded names of the familiar among the characters.
        cast: Identities across all chats.
        namesakes: The accounts of others who share a speaker's name.
    """

    program: Program
    roles: dict[str, SpeakerRole]
    familiar: frozenset[str]
    cast: Cast
    namesakes: frozenset[Author] = frozenset()

    def who(self, line: SourceMessage) -> tuple[Role, Author | None]:
        """Return role and author of a message."""
        if line.role == "system" or (line.role is None and not line.speaker):
            return "system", None
        if line.role == "assistant":
            is_own = not line.speaker and self.cast.unnamed != "nobody"
            if is_own or fold(line.speaker) in self.familiar:
                return "assistant", None
            return ("system", None) if line.aside else ("user", another_character(line.speaker))
        role = self.roles.get(line.speaker, "person")
        if line.role is None and role == "familiar":
            return "assistant", None
        is_bare = role == "person" and not (line.role or line.account)
        if is_bare and self.cast.unnamed == "nobody" and is_model(line.speaker):
            return "user", another_character(line.speaker)
        otherwise, name = self.program.account(line), "" if is_role(line.speaker) else line.speaker
        is_me = role == "me" and otherwise not in self.namesakes
        return "user", self.cast.my_account(name, otherwise) if is_me else otherwise


class _Speakers:
    """Finds out who speaks in a conversation, in one pass through it."""

    def __init__(self, found: SourceChat, reading: Reading, program: Program, origin: str) -> None:
        self._characters: dict[str, None] = {}
        self._users: dict[str, Author] = {}
        self._named: dict[str, Author] = {}
        self._accounts: dict[str, set[Author]] = {}
        for line in found.lines():
            if isinstance(line, Skip) or line.role == "system" or line.aside:
                continue
            where = self._users if line.role else self._named
            if line.role == "assistant":
                self._characters[line.speaker] = None
            elif line.role or line.speaker:
                account = program.account(line)
                first = where.setdefault(line.speaker, account)
                if account != first:
                    self._accounts.setdefault(line.speaker, {first}).add(account)
                is_stated = bool(found.owner) and line.account == found.owner
                if is_stated or account.slug in reading.cast.also:
                    where[line.speaker] = account
        self._found = found
        self._cast = reading.cast
        self._program = program
        self._origin = origin

    @cached_property
    def people(self) -> People:
        cast, roles = self._with_evidence(), dict[str, SpeakerRole]()
        if self._named:
            roles |= cast_speakers(cast, self._named, origin=self._origin)
        characters = [name for name in self._characters if name]
        familiar = familiars_names(cast, characters, origin=self._origin)
        names = [name for name in self._users if name]
        cast = with_my_names(cast, names, origin=self._origin)
        if self._program.format == SILLY_TAVERN and {*map(fold, cast.mine)}.isdisjoint(
            map(fold, names)
        ):
            cast = replace(cast, mine=(), is_mine=True)  # a person's own program
        if not cast.mine and any(map(cast.bears_my_name, (*names, *self._found.users))):
            cast = replace(cast, is_mine=True)  # whatever other personas the user had in it
        roles |= cast.roles_of(self._users)
        known = set(self._named.values()) if self._found.owner else set()
        twins = {
            one
            for accounts in self._accounts.values()
            for one in accounts - known
            if one.slug not in cast.also
        }
        shared = [name for name, accounts in self._accounts.items() if accounts <= twins]
        if mine := [name for name in shared if fold(name) in map(fold, self._cast.mine)]:
            raise self._several_accounts(mine[0])
        roles |= {name: "person" for name in shared if roles.get(name) == "me"}
        return People(self._program, roles, familiar, cast, frozenset(twins))

    def _several_accounts(self, name: str) -> RefusedError:
        accounts = sorted(f"{a.platform}:{a.user_id}" for a in self._accounts[name])
        shown = join_names(accounts, "and")
        return RefusedError(
            f"{name!r} is the name of several accounts in {self._origin!r}, {shown}; nothing was "
            "imported",
            hint=f"Say which one is yours, `familiar me --also {typed(accounts[0])}`, and then "
            "leave out `--me`.",
        )

    def _with_evidence(self) -> Cast:
        """Return the cast with what the source itself says of who the owner is, and who is not."""
        cast, found = self._cast, self._found
        owner = Author(self._program.platform or self._program.format, found.owner)
        if found.owner and cast.user and cast.user.platform == owner.platform:
            check_owner(cast.user, owner, origin=self._origin)
        if found.owner or found.is_broadcast:
            own = tuple(n for n, who in self._named.items() if who.user_id == found.owner)
            rest = frozenset(map(fold, self._named)) - {*map(fold, own)}
            is_said = not {*map(fold, cast.mine)}.isdisjoint(map(fold, self._named))
            cast = cast if is_said else replace(cast, mine=own, user=cast.user if own else None)
            return replace(cast, others=cast.others | rest, namesakes=cast.namesakes | rest)
        vague = (n for n, who in self._named.items() if self._is_doubtful(n, who))
        return replace(cast, namesakes=cast.namesakes.union(map(fold, vague)))

    def _is_doubtful(self, name: str, who: Author) -> bool:
        """Tell whether the name of an account with an id of its own tells nothing of its owner.

        Anybody may use it in public, and the owner's account on the platform may be another.
        """
        if who.user_id == name or name in self._accounts:
            return name in self._accounts
        own = f"{who.platform}-"
        has_other = who.slug not in self._cast.also and any(
            slug.startswith(own) for slug in self._cast.also
        )
        people = {*map(fold, self._named)} - {*map(fold, self._cast.names)}
        return has_other or (len(people) > 1 and not self._found.is_private)

    @property
    def roles(self) -> dict[str, SpeakerRole]:
        roles = self._cast.shown_roles(self.people.roles)
        return {name or "user": role for name, role in roles.items()}

    @property
    def stranger(self) -> Author | None:
        if self._accounts:  # several people share a name
            return None
        return self.people.cast.find_stranger(self.people.roles, self._users | self._named)

    @property
    def notes(self) -> tuple[str, ...]:
        everyone = self._users | self._named
        if self._found.owner or self._found.is_broadcast:
            return ()
        return self.people.cast.note_strangers(self.people.roles, everyone)


def _messages(
    get: Callable[[], SourceChat], people: People, reading: Reading
) -> Iterator[ForeignMessage | Skip]:
    for number, line in enumerate(get().lines(), start=1):
        yield line if isinstance(line, Skip) else _message(number, line, people, reading)


def _message(number: int, line: SourceMessage, people: People, reading: Reading) -> ForeignMessage:
    role, author = people.who(line)
    return ForeignMessage(
        line=line.line or number,
        role=role,
        author=author,
        speaker=line.speaker or line.role or "",
        text=line.text,
        stated=stated_time(line.time),
        at=line.at or read_time(line.time, reading.zone),
        estimated=line.estimated,
        raw=_as_json(line.raw),
        hidden=line.hidden or (role == "system" and not line.aside),
        others=line.others,
        message_id=line.id,
    )


def shown_branch(nodes: Mapping[str, Mapping[str, Any]], parent: str, leaf: str) -> list[str]:
    """Return the nodes from the root to `leaf`; a missing parent or a cycle ends the path.

    Args:
        nodes: The nodes.
        parent: The name of their field for their parent.
        leaf: The last node of the active branch.
    """
    branch: dict[str, None] = {}
    while leaf and leaf in nodes and leaf not in branch:
        branch[leaf] = None
        leaf = text_at(nodes[leaf], parent)
    return list(branch)[::-1]


def shown_messages(
    messages: list[dict[str, Any]], names: tuple[str, str], leaf: str
) -> list[dict[str, Any]]:
    """Return the messages from the first to `leaf`; all of them if they are no tree.

    If a tree with several branches states no leaf, its last message is the leaf.

    Args:
        messages: The messages of all branches.
        names: The names of their fields for their id and their parent.
        leaf: The id of the last message of the active branch.
    """
    by_id = {text_at(message, names[0]): message for message in messages}
    is_tree = len(by_id) == len(messages) and any(text_at(m, names[1]) for m in messages)
    parents = [text_at(message, names[1]) for message in messages]
    known = [parent for parent in parents if parent in by_id]
    is_forked = len({*known}) < len(known) == len(messages) - 1
    if is_tree and is_forked and leaf not in by_id:
        leaf = text_at(messages[-1], names[0])
    if leaf not in by_id or not is_tree:
        return messages
    return [by_id[name] for name in shown_branch(by_id, names[1], leaf)]


def swipes_of(value: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the alternative texts of a SillyTavern message; empty if it has only one."""
    return tuple(text_list(value.get("swipes")))


_ROLES: Final[dict[str, Role]] = {
    **dict.fromkeys(("user", "human", "prompter"), "user"),
    **dict.fromkeys(
        ("assistant", "gpt", "chatgpt", "bard", "bing", "model", "ai", "bot"), "assistant"
    ),
}


def role_of(name: object) -> Role:
    """Return the role that a program calls `name`; system for any other."""
    return _ROLES.get(name.lower(), "system") if isinstance(name, str) else "system"


def named_files(names: Iterable[str]) -> list[str]:
    """Return a line for each file that a message shows, by its name if it has one."""
    return [f"[attachment: {name}]" if name else "[attachment]" for name in dict.fromkeys(names)]


def files_note(count: int) -> tuple[str, ...]:
    """Say what becomes of the files of a chat, if it has any."""
    told = f"{counted(count, 'attachment')}: named in the turns; the rest is kept in the source"
    return (f"{told} record",) if count else ()


def plain_text(content: object) -> str:
    """Return the text of a message whose content may be a list of parts."""
    if not isinstance(content, list):
        return str_or_empty(content)
    texts = (part if isinstance(part, str) else as_object(part).get("text") for part in content)
    return "\n".join(text for text in texts if isinstance(text, str) and text)
