"""Chats from elsewhere: the values every format is read into, who is who, and their files."""

from __future__ import annotations

import codecs
import json
import re
import shutil
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

from familiar_cli.clock import since_1970, to_ms
from familiar_cli.errors import (
    BadInputError,
    FamiliarError,
    NotFoundError,
    RefusedError,
)
from familiar_cli.files import open_patiently
from familiar_cli.identity import Author
from familiar_cli.imports.foreign_files import MIB
from familiar_cli.memory.layout import CARD_JSON
from familiar_cli.text import fold, one_line, slugify, typed

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from datetime import datetime, tzinfo

    from familiar_cli.history.rows import Role
    from familiar_cli.memory.store.store import MemoryStore

    Row = tuple[int, str, dict[str, Any]]  # number, text and value of an object of JSON

PLAIN: Final = "plain"
SILLY_TAVERN: Final = "sillytavern"
CHATGPT: Final = "chatgpt"
CLAUDE: Final = "claude"
DISCORD: Final = "discord"
TRANSCRIPT: Final = "transcript"
TITLES: Final = {
    PLAIN: "plain lines",
    SILLY_TAVERN: "SillyTavern",
    CHATGPT: "ChatGPT export",
    CLAUDE: "Claude export",
    DISCORD: "Discord export",
    TRANSCRIPT: "transcript",
}


@dataclass(frozen=True, slots=True)
class ForeignMessage:
    """One line of a chat.

    Args:
        line: Where it stands: its line in the file, or its number in the conversation; from 1.
        role: As what a model is shown it.
        author: Who said it; None: the familiar, or nobody.
        speaker: Who said it, in the words of the source.
        text: What was said, as it was chosen.
        stated: The time in the words of the source; empty: it gives none.
        at: The time; None: there is none that can be read.
        raw: All that the source says of it, in JSON.
        hidden: No model is to be shown it.
        others: Other wordings that the source keeps.
        modality: `text` or `voice`.
        partial: It broke off before its end.
        estimated: `at` is a guess.
        message_id: What the source calls the message; empty: nothing.
        is_one_to_one: It was said to the familiar alone.
    """

    line: int
    role: Role
    author: Author | None
    speaker: str
    text: str
    stated: str
    at: datetime | None
    raw: str
    hidden: bool = False
    others: tuple[str, ...] = ()
    modality: str = "text"
    partial: bool = False
    estimated: bool = False
    message_id: str = ""
    is_one_to_one: bool = False

    @property
    def fingerprint(self) -> bytes:
        """A digest of who said what when, in the words of the source."""
        said = f"{self.role != 'assistant'}\0{self.speaker}\0{self.stated}\0{self.text}"
        return blake2b(said.encode("utf-8", errors="surrogatepass"), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Skip:
    """A line that was left out.

    Args:
        line: Where it stands, as in `Message`.
        reason: Why.
        damaged: It could not be read; otherwise it was left out on purpose.
    """

    line: int
    reason: str
    damaged: bool = True


@dataclass(frozen=True, slots=True)
class Cast:
    """Who is who in the chats that are imported.

    Args:
        known: Names that the familiar bears anywhere.
        character: Names that are the familiar's in these chats; empty: `known`.
        user: Who every person is; None: as `person` has it.
        me: Whose home it is; None: people are as the source calls them.
        mine: Names of mine in these chats; empty: whoever the source says is its user.
        before: Slugs of those who spoke before: under these accounts they go on.
        also: Slugs of my other accounts.
        is_mine: The chats come from a program of mine, so whoever it says is its user is me.
        unnamed: What the characters of a chat are when none bears a name of the familiar's: the
            chat is refused, they are the familiar under another name, or they are others.
    """

    known: tuple[str, ...] = ()
    character: tuple[str, ...] = ()
    user: Author | None = None
    unnamed: Literal["refuse", "familiar", "others"] = "refuse"
    me: Author | None = None
    mine: tuple[str, ...] = ()
    before: frozenset[str] = frozenset()
    also: frozenset[str] = frozenset()
    is_mine: bool = False

    def is_me(self, name: str, otherwise: Author, *, is_one_of_many: bool = False) -> bool:
        """Tell whether somebody in a chat, other than the familiar, is me.

        Whoever bears another name than mine is somebody else, unless a person says that it is me.

        Args:
            name: What they are called there; empty: the source gives no name.
            otherwise: Who they are if not me.
            is_one_of_many: The source has several people, and does not say which one is its user.
        """
        if fold(name) in map(fold, self.mine) or otherwise.slug in self.also:
            return True
        if self.mine:
            return False
        if self.user or self.is_mine or not name or fold(name) in _PERSONS:
            return True
        has_name = bool(self.me and self.me.display_name)
        return self.bears_my_name(name) if has_name else not is_one_of_many

    def bears_my_name(self, name: str) -> bool:
        """Tell whether somebody is called as I am here."""
        own = (self.me and self.me.display_name) or ""
        return bool(own) and fold(own) == fold(name)

    def roles_of(
        self, people: Mapping[str, Author], *, is_one_of_many: bool = False
    ) -> dict[str, SpeakerRole]:
        """Return what each person of a chat is, by name; see `is_me`.

        Args:
            people: The accounts they have if they are not me, by name.
            is_one_of_many: As `is_me` takes it.
        """
        return {
            name: "me" if self.is_me(name, who, is_one_of_many=is_one_of_many) else "person"
            for name, who in people.items()
        }

    def my_account(self, name: str, otherwise: Author) -> Author:
        """Return the account under which my lines are kept, with the name that a chat gives me.

        Args:
            name: What I am called there; empty: the source gives no name.
            otherwise: My account where none is known, or where I spoke under it before.
        """
        known = self.user or self.me
        if known is None or (self.user is None and otherwise.slug in self.before | self.also):
            return otherwise
        return replace(known, display_name=name or known.display_name)

    def person(self, name: str, otherwise: Author, *, is_one_of_many: bool = False) -> Author:
        """Return who says something in a chat, other than the familiar; see `is_me`."""
        if self.is_me(name, otherwise, is_one_of_many=is_one_of_many):
            return self.my_account(name, otherwise)
        return otherwise

    def note_strangers(
        self, roles: Mapping[str, SpeakerRole], people: Mapping[str, Author]
    ) -> tuple[str, ...]:
        """Return the note that nobody in a chat is taken for me, where a person could doubt it.

        Args:
            roles: What each speaker is.
            people: The accounts of those who are not me, by name.
        """
        names = [name for name, role in roles.items() if role == "person" and name]
        own_name = (self.me and self.me.display_name) or ""
        own = self.mine or ((own_name,) if own_name else ())
        if not (own and names) or self.user or "me" in roles.values():
            return ()
        mine = " or ".join(map(repr, own))
        if len(names) > 1:
            return (f"nobody in it is taken for you, {mine}; `--me NAME` says who you are",)
        (name,) = names
        account = typed(f"{people[name].platform}:{people[name].user_id}")
        told = f"{one_line(name)!r} is taken for somebody else than you, {mine}"
        remedy = f"add `--me {typed(name)}`, or afterwards `familiar me --also {account}`"
        return (f"{told}; if it is you, {remedy}",)

    @property
    def names(self) -> tuple[str, ...]:
        """What the familiar is called in these chats."""
        return self.character or self.known


@dataclass(frozen=True, slots=True)
class Reading:
    """How files are read.

    Args:
        cast: Who is who.
        zone: The timezone of times that have none; None: the system's.
        channels: Names for the channel of a chat, the best first; empty: made from its file's.
        format: The format of the files; empty: it is told from them.
        dates: The order of dates in numbers; None: it is told from all that a file has.
    """

    cast: Cast = Cast()
    zone: tzinfo | None = None
    channels: tuple[str, ...] = ()
    format: str = ""
    dates: DateOrder | None = None

    @property
    def insists(self) -> bool:
        """Whether a text is a transcript because a person says so."""
        return self.format == TRANSCRIPT


@dataclass(frozen=True, slots=True)
class ForeignChat:
    """One chat of a file.

    Args:
        format: Its format.
        name: What the source calls it.
        channels: Names for its channel, the best first.
        began: When it began, if the source says so.
        head: Returns what the source says of the chat as a whole, in JSON; empty: nothing.
        messages: Yields its lines, again at each call.
        key: What it is known by everywhere; empty: nothing but its lines.
        aside: How many messages of other branches stand in its head.
        parent: What the source calls the chat that it left; empty: it says nothing of one.
        is_apart: The source says which chat it is, so it is never taken for a part of another one.
        kind: What the file was taken for, in words; empty: what its format says.
        notes: What a person should know of how it was read.
        roles: What each speaker is, where a person could doubt it.
        is_whole: The source always holds the whole chat as it stands, so what it lacks was deleted.
    """

    format: str
    name: str
    channels: tuple[str, ...]
    began: datetime | None
    head: Callable[[], str]
    messages: Callable[[], Iterator[ForeignMessage | Skip]]
    key: str = ""
    aside: int = 0
    parent: str = ""
    is_apart: bool = False
    kind: str = ""
    notes: tuple[str, ...] = ()
    roles: Mapping[str, SpeakerRole] = field(default_factory=dict)
    is_whole: bool = False


SpeakerRole = Literal["familiar", "me", "person", "note"]
"""What a speaker is: the familiar, whoever imports the chat, somebody else, or nobody."""

PLATFORM: Final = "chat"
"""The platform of people of whom only the name is known."""

_FAMILIARS: Final = frozenset(("assistant", "ai", "bot", "model", "familiar", "chatgpt", "claude"))
_PERSONS: Final = frozenset(("user", "human", "me", "you", "myself"))


def known_names(memory: MemoryStore, *, familiar_id: str, name: str) -> tuple[str, ...]:
    """Return all names that a familiar bears: in its settings, on its card, and its id."""
    card = _card_fields(memory)
    found = (name, card.get("name"), card.get("nickname"), familiar_id)
    return tuple(dict.fromkeys(n for n in found if isinstance(n, str) and n.strip()))


def familiars_names(cast: Cast, names: Collection[str], *, origin: str) -> frozenset[str]:
    """Return which of `names` are the familiar's, folded.

    Args:
        cast: Who is who.
        names: Everyone in the chat who is not the person.
        origin: The chat, for messages.

    Raises:
        RefusedError: None of them is.
    """
    wanted = {fold(name) for name in cast.character or cast.known}
    slugs = {slugify(name) for name in cast.character or cast.known} - {""}
    found = frozenset(fold(n) for n in names if fold(n) in wanted or slugify(n) in slugs)
    if found or not names or cast.unnamed == "others":
        return found or frozenset(wanted)
    if cast.unnamed == "familiar":
        return frozenset(map(fold, names))
    listed = ", ".join(repr(name) for name in sorted(names)[:8])
    if cast.character:
        raise RefusedError(
            f"No speaker in {origin!r} is called {' or '.join(map(repr, cast.character))}; "
            f"it has {listed}. Nothing was imported",
            hint=f"Try `--character {min(names)!r}`.",
        )
    others = sorted(name for name in names if not cast.bears_my_name(name)) or sorted(names)
    error = RefusedError(
        f"{origin!r} is a chat with {listed}, and this familiar is "
        f"{' or '.join(map(repr, cast.known))}; nothing was imported",
        hint=f"If they are the same, add `--character {others[0]!r}`.",
    )
    choices = ((name, f"{one_line(name)} is the familiar") for name in others[:8])
    error.question = "--character", tuple(choices)
    raise error


def with_my_names(cast: Cast, names: Collection[str], *, origin: str) -> Cast:
    """Return `cast` for a chat in which people are called `names`.

    Raises:
        RefusedError: They are several, and I am none of them.
    """
    if not cast.mine or not {fold(n) for n in names}.isdisjoint(map(fold, cast.mine)):
        return cast
    if len(names) <= 1:
        return cast
    listed = ", ".join(repr(name) for name in sorted(names)[:8])
    raise RefusedError(
        f"No person in {origin!r} is called {' or '.join(map(repr, cast.mine))}; it has {listed}. "
        "Nothing was imported",
        hint=f"Try `--me {min(names)!r}`.",
    )


@dataclass(frozen=True, slots=True)
class Casting:
    """Who is who among the speakers of one chat.

    Args:
        roles: What each speaker is, by name.
        cast: Who is who in all chats.
    """

    roles: Mapping[str, SpeakerRole]
    cast: Cast

    def who(self, name: str) -> tuple[Role, Author | None]:
        """Return the role and the author of what `name` says; nobody's words are a note."""
        role = self.roles.get(name, "person") if name else "note"
        if role in ("familiar", "note"):
            return ("assistant" if role == "familiar" else "system"), None
        called = "" if is_role(name) else name
        author = Author(PLATFORM, called or "user", display_name=called or None)
        return "user", self.me(name, author) if role == "me" else author

    def me(self, name: str, otherwise: Author) -> Author:
        """Return the account of a speaker who is me, which is `otherwise` if none is known."""
        return self.cast.my_account("" if is_role(name) else name, otherwise)


def is_role(name: str) -> bool:
    """Tell whether a name says what somebody is in a chat with a model: `User`, `AI`."""
    return fold(name) in _FAMILIARS | _PERSONS


def people_on(platform: str, names: Iterable[str]) -> dict[str, Author]:
    """Return the accounts of people of whom only the name is known."""
    return {name: Author(platform, name or "user", display_name=name or None) for name in names}


def cast_speakers(cast: Cast, people: Mapping[str, Author], *, origin: str) -> Casting:
    """Return who is who among the speakers of a transcript.

    The familiar is who bears one of its names, else who is called `AI` or the like. I am who is
    named so, else who is called `Me` or the like, else the only other speaker, unless I have
    another name.

    Args:
        cast: Who is who in all chats.
        people: The account that each speaker has who is neither the familiar nor me, by name.
        origin: The chat, for messages.

    Raises:
        RefusedError: Nobody is the familiar, or several could be the one whose account is given.
    """
    speakers = tuple(people)
    my_names = {fold(name) for name in cast.mine}
    mine = {name for name in speakers if fold(name) in my_names}
    if my_names and not mine:
        raise RefusedError(
            f"No speaker in {origin!r} is called {' or '.join(map(repr, cast.mine))}; it has "
            f"{_as_strings(speakers)}. Nothing was imported",
            hint=f"Try `--me {typed(min(speakers))}`." if speakers else None,
        )
    others = [name for name in speakers if name not in mine]
    named = {n for n in others if fold(n) in _FAMILIARS} if not cast.character else set()
    if not named or {fold(name) for name in others} & {fold(name) for name in cast.known}:
        folded = familiars_names(cast, others, origin=origin)
        named = {name for name in others if fold(name) in folded}
    rest = [name for name in others if name not in named]
    several = len(rest) > 1
    alone = replace(cast, user=None) if several else cast
    mine = mine or {
        name for name in rest if alone.is_me(name, people[name], is_one_of_many=several)
    }
    if cast.user and not mine and rest:
        account = f"{cast.user.platform}:{cast.user.user_id}"
        error = RefusedError(
            f"Several people speak in {origin!r}: {_as_strings(rest)}. Which of them is {account!r}"
            " cannot be told; nothing was imported",
            hint=f"Add `--me NAME`, for example `--me {typed(min(rest))}`.",
        )
        choices = ((name, f"{one_line(name)} is {account}") for name in sorted(rest)[:8])
        error.question = "--me", tuple(choices)
        raise error
    roles: dict[str, SpeakerRole] = dict.fromkeys(rest, "person")
    roles.update(dict.fromkeys(mine, "me"))
    roles.update(dict.fromkeys(named, "familiar"))
    return Casting(roles, cast)


def _as_strings(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names)[:8])


def _card_fields(memory: MemoryStore) -> dict[str, Any]:
    try:
        data = json.loads(memory.read_file(CARD_JSON))["data"]
    except (FamiliarError, ValueError, KeyError, TypeError, RecursionError):
        return {}  # a familiar without a card, or with one that `doctor` complains of
    return data if isinstance(data, dict) else {}


DateOrder = Literal["dmy", "mdy", "ymd"]
"""What stands first, second and third in a date of numbers."""


MAX_LINE_BYTES: Final = 16 * MIB
"""Longest line, that is, one message with all its swipes."""

_WIDE: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BLOCK_BYTES: Final = MIB
_START_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class ChatFile:
    """A file in UTF-8.

    Args:
        path: Where it can be read.
        name: What it is called in messages.
    """

    path: Path
    name: str

    @property
    def stem(self) -> str:
        """Its name without suffix."""
        return Path(self.name).stem

    @property
    def changed(self) -> datetime:
        """When it was last changed."""
        return to_ms(since_1970(self._stat().st_mtime))

    @property
    def size_bytes(self) -> int:
        """How large it is."""
        return self._stat().st_size

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open it, after its byte order mark.

        Raises:
            NotFoundError: No file is there.
            BadInputError: It is a directory.
            FamiliarError: The system would not let it be read.
        """
        with _translate_errors(self.name), open_patiently(self.path) as stream:
            if stream.read(3) != codecs.BOM_UTF8:
                stream.seek(0)
            yield stream

    def _stat(self) -> os.stat_result:
        with _translate_errors(self.name):
            return self.path.stat()


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    """Turn the system's errors into ours."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError(f"No such file: {name!r}", hint="Check the path.") from error
    except IsADirectoryError as error:
        raise BadInputError(f"{name!r} is a directory, not a file") from error
    except OSError as error:
        raise FamiliarError(f"{name!r} cannot be read: {error.strerror or error}") from error


@contextmanager
def as_source(file: Path | None) -> Iterator[ChatFile]:
    """Lend a file, or all of standard input when it is None, as a source.

    Raises:
        FamiliarError: It cannot be read.
    """
    with ExitStack() as stack:
        plain = (
            ChatFile(file, str(file))
            if file
            else ChatFile(stack.enter_context(_spool_file()), "stdin")
        )
        with plain.open() as stream:
            start = stream.read(_START_BYTES)
        wide = next((name for mark, name in _WIDE if start.startswith(mark)), None)
        wide = wide or _guess_utf16(start)
        if wide:
            narrow = stack.enter_context(_scratch_directory()) / "utf-8"
            _transcode_file(plain, narrow, wide)
            plain = ChatFile(narrow, plain.name)
        yield plain


def _guess_utf16(start: bytes) -> str | None:
    """Return which UTF-16 a text without a byte order mark is in, by where its zeros are."""
    zeros = [start[place::2].count(0) for place in (0, 1)]
    most = len(start) // 4
    if zeros[0] > most and not zeros[1]:
        return "utf-16-be"
    return "utf-16-le" if zeros[1] > most and not zeros[0] else None


@contextmanager
def _scratch_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="familiar-") as directory:
        yield Path(directory)


@contextmanager
def _spool_file() -> Iterator[Path]:
    with _scratch_directory() as directory:
        with _translate_errors("stdin"), (directory / "stdin").open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield directory / "stdin"


def _transcode_file(source: ChatFile, target: Path, encoding: str) -> None:
    decoder = codecs.getincrementaldecoder(encoding)(errors="surrogatepass")
    with source.open() as stream, target.open("wb") as out:
        try:
            while block := stream.read(_BLOCK_BYTES):
                out.write(decoder.decode(block).encode("utf-8", errors="surrogatepass"))
            out.write(decoder.decode(b"", final=True).encode("utf-8", errors="surrogatepass"))
        except UnicodeError as error:
            raise BadInputError(
                f"{source.name!r} looks like {encoding.upper()}, but is not valid: {error}"
            ) from error


def readable_rows(rows: Iterable[Row | Skip]) -> Iterator[Row]:
    """Yield the rows that could be read."""
    return (row for row in rows if not isinstance(row, Skip))


def read_rows(
    rows: Iterable[Row | Skip], read: Callable[[int, str, dict[str, Any]], ForeignMessage | Skip]
) -> Iterator[ForeignMessage | Skip]:
    """Yield the message that `read` makes of each row; a `Skip` stays one."""
    return (row if isinstance(row, Skip) else read(*row) for row in rows)


MAX_ELEMENT_BYTES: Final = 64 * MIB
"""Largest element, that is, one conversation with all its branches."""

_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]"]', re.DOTALL)
_DEPTH: Final = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}


@dataclass(frozen=True, slots=True)
class ByteSpan:
    """Where an element stands in its file, in bytes."""

    start: int
    end: int

    def read(self, stream: BinaryIO) -> bytes:
        """Return the element."""
        stream.seek(self.start)
        return stream.read(self.end - self.start)


def object_spans(source: ChatFile, *, inside: int | None = None) -> Iterator[ByteSpan]:
    """Yield where each object of the array in `source` stands.

    Args:
        source: The file.
        inside: Where the array begins, in bytes, that is a member of the one object in the file;
            None: the file is the array.

    Raises:
        BadInputError: The array does not end, or an element is too large.
    """
    with source.open() as stream:
        if inside is not None:
            stream.seek(inside)
        yield from _Scan(stream, source.name, outside=inside is not None).elements()


def array_objects(source: ChatFile, *, inside: int | None = None) -> Iterator[Row | Skip]:
    """Yield number, text and value of each object of an array; see `spans`."""
    with source.open() as stream:
        for number, span in enumerate(object_spans(source, inside=inside), start=1):
            yield read_object(number, span.read(stream))


class _Scan:
    """Finds brackets outside of strings, block by block."""

    def __init__(self, stream: BinaryIO, name: str, *, outside: int) -> None:
        self._stream = stream
        self._name = name
        self._depth = outside
        self._wanted = outside + 2
        self._start = stream.tell()

    def elements(self) -> Iterator[ByteSpan]:
        offset = self._stream.tell()
        rest = b""
        while block := self._stream.read(_BLOCK_BYTES):
            rest += block
            if len(rest) > MAX_ELEMENT_BYTES or offset - self._start > MAX_ELEMENT_BYTES:
                self._refuse()
            done = 0
            for token in _TOKEN.finditer(rest):
                mark = token.group()
                if mark == b'"':  # a string that goes on in the next block
                    done = token.start()
                    break
                done = token.end()
                if mark in _DEPTH:
                    yield from self._step(_DEPTH[mark], offset + token.start())
            else:
                done = len(rest)
            offset += done
            rest = rest[done:]
        if self._depth:
            raise BadInputError(f"{self._name!r} is incomplete: its JSON ends too early")

    def _step(self, change: int, place: int) -> Iterator[ByteSpan]:
        self._depth += change
        if change > 0 and self._depth == self._wanted:
            self._start = place
        elif change < 0 and self._depth == self._wanted - 1:
            yield ByteSpan(self._start, place + 1)
            self._start = place + 1

    def _refuse(self) -> None:
        raise BadInputError(
            f"A conversation in {self._name!r} is larger than {MAX_ELEMENT_BYTES // MIB} MiB"
        )


def json_lines(source: ChatFile) -> Iterator[Row | Skip]:
    """Yield number, text and value of each line that holds an object; blank lines are passed over.

    Every other line is a `Skip`.
    """
    with source.open() as stream:
        number = 0
        while raw := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(raw) > MAX_LINE_BYTES:
                _skip_line(stream, raw)
                yield Skip(number, f"it is longer than {MAX_LINE_BYTES // MIB} MiB")
            elif raw.strip():
                yield read_object(number, raw)


def read_object(number: int, raw: bytes) -> Row | Skip:
    """Return number, text and value of the JSON object in `raw`, or why it is left out."""
    try:
        text = raw.decode("utf-8").strip()
        value = _DECODER.decode(text)
    except UnicodeDecodeError:
        return Skip(number, "it is not UTF-8")
    except RecursionError:
        return Skip(number, "it nests too deeply")
    except ValueError as error:
        return Skip(number, f"it is not JSON ({error})")
    if not isinstance(value, dict):
        return Skip(number, "it is JSON, but not an object")
    return number, text, value


def _skip_line(stream: BinaryIO, raw: bytes) -> None:
    while raw and not raw.endswith(b"\n"):
        raw = stream.readline(MAX_LINE_BYTES)


def _no_constant(name: str) -> Any:  # noqa: ANN401  # it never returns
    raise ValueError(f"{name} is not a JSON number")


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)
