"""Foreign chats: the common form of all formats, the cast, and their files."""

from __future__ import annotations

import codecs
import json
import re
import shutil
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base import errors
from familiar_cli.base.files import open_patiently
from familiar_cli.base.text import fold, one_line, slugify, typed
from familiar_cli.base.times.clock import since_1970, to_ms
from familiar_cli.base.who.identity import Author
from familiar_cli.imports.foreign_files import MARKS, MIB, no_constant
from familiar_cli.store.memory.layout import CARD_JSON

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from datetime import datetime, tzinfo

    from familiar_cli.store.history.rows import Role
    from familiar_cli.store.memory.store.store import MemoryStore

Row = tuple[int, str, dict[str, Any]]  # number, text and value of a JSON object

PLAIN: Final = "plain"
SILLY_TAVERN: Final = "sillytavern"
CHATGPT: Final = "chatgpt"
CLAUDE: Final = "claude"
DISCORD: Final = "discord"
TRANSCRIPT: Final = "transcript"
LEGACY: Final = "legacy"
TITLES: Final = {
    PLAIN: "plain lines",
    SILLY_TAVERN: "SillyTavern",
    CHATGPT: "ChatGPT export",
    CLAUDE: "Claude export",
    DISCORD: "Discord export",
    TRANSCRIPT: "transcript",
    LEGACY: "history of an earlier program",
}


class ForeignMessage(Struct, frozen=True):
    """A message of a chat.

    Args:
        line: Its line in the file, or its number in the conversation; from 1.
        role: Its role in a prompt.
        author: Its author; None: the familiar, or nobody.
        speaker: The speaker's name in the source.
        text: Its text, the selected alternative.
        stated: The time as the source writes it; empty: none.
        at: The time; None: none is readable.
        raw: The original record, in JSON.
        hidden: Whether to leave it out of prompts.
        others: Its alternatives in the source.
        modality: `text` or `voice`.
        partial: Whether it was cut off before its end.
        estimated: Whether `at` is a guess.
        message_id: Its id in the source; empty: none.
        is_one_to_one: Whether it was said to the familiar alone.
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
        """A digest of speaker, time and words as the source has them."""
        said = f"{self.role != 'assistant'}\0{self.speaker}\0{self.stated}\0{self.text}"
        return blake2b(said.encode("utf-8", errors="surrogatepass"), digest_size=16).digest()


class Skip(Struct, frozen=True):
    """A skipped line.

    Args:
        line: Its position, as in `ForeignMessage`.
        reason: Why.
        damaged: Whether it was unreadable; otherwise it was skipped on purpose.
    """

    line: int
    reason: str
    damaged: bool = True


class Cast(Struct, frozen=True):
    """Identities of the speakers in the chats that are imported.

    Args:
        known: All names of the familiar.
        character: Names of the familiar in these chats; empty: `known`.
        user: The author for every person; None: as `person` decides.
        me: The owner's identity; None: people have the names the source gives them.
        mine: The owner's names in these chats; empty: whoever the source says is its user.
        before: Slugs of previous speakers, whose accounts are reused.
        also: Slugs of the owner's other accounts.
        is_mine: Whether the chats come from the owner's own program, so that its user is the owner.
        unnamed: How to treat the characters of a chat in which none has a name of the familiar's:
            refuse the chat, take them for the familiar, or for others.
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
        """Tell whether a speaker other than the familiar is the owner.

        A speaker with a different name is somebody else, unless a person says otherwise.

        Args:
            name: Their name there; empty: the source gives none.
            otherwise: The author to use if they are not the owner.
            is_one_of_many: Whether there are several people and the source does not mark its user.
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
        """Tell whether a speaker has the owner's name."""
        own = (self.me and self.me.display_name) or ""
        return bool(own) and fold(own) == fold(name)

    def roles_of(
        self, people: Mapping[str, Author], *, is_one_of_many: bool = False
    ) -> dict[str, SpeakerRole]:
        """Return the role of each person in a chat, by name; see `is_me`.

        Args:
            people: Their accounts if they are not the owner, by name.
            is_one_of_many: As for `is_me`.
        """
        return {
            name: "me" if self.is_me(name, who, is_one_of_many=is_one_of_many) else "person"
            for name, who in people.items()
        }

    def my_account(self, name: str, otherwise: Author) -> Author:
        """Return the account for the owner's lines, with the name used in the chat.

        Args:
            name: The owner's name there; empty: the source gives none.
            otherwise: The account to use if none is known, or if the owner used it before.
        """
        known = self.user or self.me
        if known is None or (self.user is None and otherwise.slug in self.before | self.also):
            return otherwise
        return replace(known, display_name=name or known.display_name)

    def person(self, name: str, otherwise: Author, *, is_one_of_many: bool = False) -> Author:
        """Return the author of a speaker other than the familiar; see `is_me`."""
        if self.is_me(name, otherwise, is_one_of_many=is_one_of_many):
            return self.my_account(name, otherwise)
        return otherwise

    def note_strangers(
        self, roles: Mapping[str, SpeakerRole], people: Mapping[str, Author]
    ) -> tuple[str, ...]:
        """Note that nobody in a chat was taken for the owner, if that is doubtful.

        Args:
            roles: The role of each speaker.
            people: The accounts of everyone but the owner, by name.
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
        """The familiar's names in these chats."""
        return self.character or self.known


class Reading(Struct, frozen=True):
    """Options for reading chat files.

    Args:
        cast: Identities of the speakers.
        zone: The timezone of times without one; None: the system's.
        channels: Channel names for a chat, best first; empty: derived from its file's.
        format: The format of the files; empty: detect it.
        dates: The order of numeric dates; None: infer it from all dates of a file.
    """

    cast: Cast = Cast()
    zone: tzinfo | None = None
    channels: tuple[str, ...] = ()
    format: str = ""
    dates: DateOrder | None = None

    @property
    def insists(self) -> bool:
        """Whether the user states that the text is a transcript."""
        return self.format == TRANSCRIPT


class ForeignChat(Struct, frozen=True):
    """One chat of a file.

    Args:
        format: Its format.
        name: Its name in the source.
        channels: Channel names, best first.
        began: Its start, if the source states it.
        head: Returns the source's metadata for the whole chat, in JSON; empty: none.
        messages: Yields its lines, afresh at each call.
        key: Its globally stable key; empty: only its lines identify it.
        aside: Number of messages of other branches in its metadata.
        parent: The source's name of the chat it branched off; empty: none stated.
        is_apart: Whether the source identifies the chat, so that it is never merged into another.
        kind: The detected kind of file, in words; empty: as its format says.
        notes: Remarks on how it was read.
        roles: The role of each speaker where it could be doubted.
        is_whole: Whether the source always contains the whole current chat, so that missing
            messages were deleted.
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
    """Return all names of a familiar: in its settings, on its card, and its id."""
    card = _card_fields(memory)
    found = (name, card.get("name"), card.get("nickname"), familiar_id)
    return tuple(dict.fromkeys(n for n in found if isinstance(n, str) and n.strip()))


def familiars_names(cast: Cast, names: Collection[str], *, origin: str) -> frozenset[str]:
    """Return the case-folded ones of `names` that are the familiar's.

    Args:
        cast: Identities of the speakers.
        names: Everyone in the chat except the person.
        origin: The chat, for messages.

    Raises:
        RefusedError: None of them is the familiar.
    """
    wanted = {fold(name) for name in cast.character or cast.known}
    slugs = {slugify(name) for name in cast.character or cast.known} - {""}
    found = frozenset(fold(n) for n in names if fold(n) in wanted or slugify(n) in slugs)
    if found or not names or cast.unnamed == "others":
        return found or frozenset(wanted)
    if cast.unnamed == "familiar":
        return frozenset(map(fold, names))
    listed = _as_strings(names)
    if cast.character:
        raise errors.RefusedError(
            f"No speaker in {origin!r} is called {' or '.join(map(repr, cast.character))}; "
            f"it has {listed}. Nothing was imported",
            hint=f"Try `--character {min(names)!r}`.",
        )
    others = sorted(name for name in names if not cast.bears_my_name(name)) or sorted(names)
    error = errors.RefusedError(
        f"{origin!r} is a chat with {listed}, and this familiar is "
        f"{' or '.join(map(repr, cast.known))}; nothing was imported",
        hint=f"If they are the same, add `--character {others[0]!r}`.",
    )
    choices = ((name, f"{one_line(name)} is the familiar") for name in others[:8])
    error.question = "--character", tuple(choices)
    raise error


def with_my_names(cast: Cast, names: Collection[str], *, origin: str) -> Cast:
    """Adapt `cast` to a chat with the people in `names`.

    Raises:
        RefusedError: There are several, and none is the owner.
    """
    is_there = not {fold(n) for n in names}.isdisjoint(map(fold, cast.mine))
    if not cast.mine or is_there or len(names) <= 1:
        return cast
    raise errors.RefusedError(
        f"No person in {origin!r} is called {' or '.join(map(repr, cast.mine))}; it has "
        f"{_as_strings(names)}. Nothing was imported",
        hint=f"Try `--me {min(names)!r}`.",
    )


class Casting(Struct, frozen=True):
    """Identities of the speakers in one chat.

    Args:
        roles: The role of each speaker, by name.
        cast: Identities across all chats.
    """

    roles: Mapping[str, SpeakerRole]
    cast: Cast

    def who(self, name: str) -> tuple[Role, Author | None]:
        """Return role and author for the messages of `name`; those of nobody are notes."""
        role = self.roles.get(name, "person") if name else "note"
        if role in ("familiar", "note"):
            return ("assistant" if role == "familiar" else "system"), None
        called = "" if is_role(name) else name
        author = Author(PLATFORM, called or "user", display_name=called or None)
        return "user", self.me(name, author) if role == "me" else author

    def me(self, name: str, otherwise: Author) -> Author:
        """Return the owner's account for a speaker, or `otherwise` if none is known."""
        return self.cast.my_account("" if is_role(name) else name, otherwise)


def is_role(name: str) -> bool:
    """Tell whether a name is a role in a chat with a model: `User`, `AI`."""
    return fold(name) in _FAMILIARS | _PERSONS


def people_on(platform: str, names: Iterable[str]) -> dict[str, Author]:
    """Return accounts for people known only by name."""
    return {name: Author(platform, name or "user", display_name=name or None) for name in names}


def cast_speakers(cast: Cast, people: Mapping[str, Author], *, origin: str) -> Casting:
    """Identify the speakers of a transcript.

    The familiar is whoever has one of its names, else whoever is called `AI` or the like. The owner
    is whoever has the owner's name, else whoever is called `Me` or the like, else the only other
    speaker, unless the owner has a different name.

    Args:
        cast: Identities across all chats.
        people: The account of each speaker who is neither the familiar nor the owner, by name.
        origin: The chat, for messages.

    Raises:
        RefusedError: Nobody is the familiar, or several speakers could be the owner.
    """
    speakers = tuple(people)
    my_names = {fold(name) for name in cast.mine}
    mine = {name for name in speakers if fold(name) in my_names}
    if my_names and not mine:
        raise errors.RefusedError(
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
        error = errors.RefusedError(
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
    except (errors.FamiliarError, ValueError, KeyError, TypeError, RecursionError):
        return {}  # no card, or a damaged one that `doctor` reports
    return data if isinstance(data, dict) else {}


DateOrder = Literal["dmy", "mdy", "ymd"]
"""What stands first, second and third in a date of numbers."""


MAX_LINE_BYTES: Final = 16 * MIB
"""Longest line, that is, one message with all its swipes."""


_BLOCK_BYTES: Final = MIB
_START_BYTES: Final = 1024


class ChatFile(Struct, frozen=True):
    """A file in UTF-8.

    Args:
        path: Its path.
        name: Its name in messages.
    """

    path: Path
    name: str

    @property
    def stem(self) -> str:
        """Its name without suffix."""
        return Path(self.name).stem

    @property
    def changed(self) -> datetime:
        """Time of its last change."""
        return to_ms(since_1970(self._stat().st_mtime))

    @property
    def size_bytes(self) -> int:
        """Its size."""
        return self._stat().st_size

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open it, skipping the byte order mark.

        Raises:
            NotFoundError: The file does not exist.
            BadInputError: It is a directory.
            FamiliarError: The file cannot be read.
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
    """Translate the system's errors into ours."""
    try:
        yield
    except FileNotFoundError as error:
        raise errors.NotFoundError(f"No such file: {name!r}", hint="Check the path.") from error
    except IsADirectoryError as error:
        raise errors.BadInputError(f"{name!r} is a directory, not a file") from error
    except OSError as error:
        raise errors.FamiliarError(f"{name!r} cannot be read: {error.strerror or error}") from error


@contextmanager
def as_source(file: Path | None) -> Iterator[ChatFile]:
    """Yield a file, or all of standard input if it is None, as a source.

    Raises:
        FamiliarError: It cannot be read.
    """
    with ExitStack() as stack:
        if file:
            plain = ChatFile(file, str(file))
        else:
            plain = ChatFile(_scratch_directory(stack) / "stdin", "stdin")
            with _translate_errors("stdin"), plain.path.open("wb") as copy:
                shutil.copyfileobj(sys.stdin.buffer, copy)
        with plain.open() as stream:
            start = stream.read(_START_BYTES)
        wide = next((name for mark, name in MARKS if start.startswith(mark)), None)
        wide = wide or _guess_utf16(start)
        if wide:
            narrow = _scratch_directory(stack) / "utf-8"
            _transcode_file(plain, narrow, wide)
            plain = ChatFile(narrow, plain.name)
        yield plain


def _guess_utf16(start: bytes) -> str | None:
    """Guess the UTF-16 byte order of a text without a mark, by where its zeros are."""
    zeros = [start[place::2].count(0) for place in (0, 1)]
    most = len(start) // 4
    if zeros[0] > most and not zeros[1]:
        return "utf-16-be"
    return "utf-16-le" if zeros[1] > most and not zeros[0] else None


def _scratch_directory(stack: ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="familiar-")))


def _transcode_file(source: ChatFile, target: Path, encoding: str) -> None:
    decoder = codecs.getincrementaldecoder(encoding)(errors="surrogatepass")
    with source.open() as stream, target.open("wb") as out:
        try:
            while block := stream.read(_BLOCK_BYTES):
                out.write(decoder.decode(block).encode("utf-8", errors="surrogatepass"))
            out.write(decoder.decode(b"", final=True).encode("utf-8", errors="surrogatepass"))
        except UnicodeError as error:
            raise errors.BadInputError(
                f"{source.name!r} looks like {encoding.upper()}, but is not valid: {error}"
            ) from error


def readable_rows(rows: Iterable[Row | Skip]) -> Iterator[Row]:
    """Yield the readable rows."""
    return (row for row in rows if not isinstance(row, Skip))


def read_rows(
    rows: Iterable[Row | Skip], read: Callable[[int, str, dict[str, Any]], ForeignMessage | Skip]
) -> Iterator[ForeignMessage | Skip]:
    """Apply `read` to each row; a `Skip` is passed on."""
    return (row if isinstance(row, Skip) else read(*row) for row in rows)


MAX_ELEMENT_BYTES: Final = 64 * MIB
"""Largest element, that is, one conversation with all its branches."""

_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]"]', re.DOTALL)
_DEPTH: Final = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}


class ByteSpan(Struct, frozen=True):
    """Byte range of an element in its file."""

    start: int
    end: int

    def read(self, stream: BinaryIO) -> bytes:
        """Read the element."""
        stream.seek(self.start)
        return stream.read(self.end - self.start)


def object_spans(source: ChatFile, *, inside: int | None = None) -> Iterator[ByteSpan]:
    """Yield the byte range of each object of the array in `source`.

    Args:
        source: The file.
        inside: Byte offset of the array if it is a member of the file's single object; None: the
            file is the array.

    Raises:
        BadInputError: The array is unterminated, or an element is too large.
    """
    with source.open() as stream:
        if inside is not None:
            stream.seek(inside)
        yield from _Scan(stream, source.name, outside=inside is not None).elements()


def array_objects(source: ChatFile, *, inside: int | None = None) -> Iterator[Row | Skip]:
    """Yield number, text and value of each object of an array; see `object_spans`."""
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
                if mark == b'"':  # a string that continues in the next block
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
            raise errors.BadInputError(f"{self._name!r} is incomplete: its JSON ends too early")

    def _step(self, change: int, place: int) -> Iterator[ByteSpan]:
        self._depth += change
        if change > 0 and self._depth == self._wanted:
            self._start = place
        elif change < 0 and self._depth == self._wanted - 1:
            yield ByteSpan(self._start, place + 1)
            self._start = place + 1

    def _refuse(self) -> None:
        raise errors.BadInputError(
            f"A conversation in {self._name!r} is larger than {MAX_ELEMENT_BYTES // MIB} MiB"
        )


def json_lines(source: ChatFile) -> Iterator[Row | Skip]:
    """Yield number, text and value of each line that is an object, skipping blank lines.

    Any other line yields a `Skip`.
    """
    with source.open() as stream:
        number = 0
        while raw := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(raw) > MAX_LINE_BYTES:
                while raw and not raw.endswith(b"\n"):
                    raw = stream.readline(MAX_LINE_BYTES)
                yield Skip(number, f"it is longer than {MAX_LINE_BYTES // MIB} MiB")
            elif raw.strip():
                yield read_object(number, raw)


def read_object(number: int, raw: bytes) -> Row | Skip:
    """Parse the JSON object in `raw`; a `Skip` with the reason if it is not one."""
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


_DECODER: Final = json.JSONDecoder(parse_constant=no_constant)
