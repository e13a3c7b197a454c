"""What is told of a conversation between machines: one JSON object a line.

A turn is named by the instance that wrote it down and its number there, as `laptop-7f3a:12`. Fields
that are empty are left out; a kind of line that is not known here is no error.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast, get_args

from familiar_cli.clock import to_ms
from familiar_cli.errors import BadInputError
from familiar_cli.history.types import Role
from familiar_cli.identity import Author

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

VERSION: Final = 1
"""The version of the lines that are written here."""

MARKS: Final = ("superseded", "withdrawn", "hidden")
"""What a turn can be marked as, in lines and in the log of events."""

MOST: Final = 2**53 - 1
"""The largest number in a line: any program's JSON can hold it."""

_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*:[1-9][0-9]{0,15}")


class BadLineError(BadInputError):
    """A line of another instance is not what it should be."""

    code = "bad_turn_line"


class TurnName(NamedTuple):
    """What a turn is called between machines: the instance that wrote it down, its number there."""

    instance: str
    id: int

    def __str__(self) -> str:
        return f"{self.instance}:{self.id}"


@dataclass(frozen=True, slots=True)
class Imported:
    """What the source of an imported turn said of it.

    Args:
        chat: The key of its chat.
        identity: What it is known by in its channel.
        estimated: Its time is a guess.
        raw: The line as it came, in JSON.
        nth: Its number among equal lines; 0: it equals none; None: nobody said.
    """

    chat: str
    identity: bytes
    estimated: bool
    raw: str
    nth: int | None = None


@dataclass(frozen=True, slots=True)
class TurnLine:
    """One turn.

    Args:
        id: Its number where it was written down.
        after: The turn that it followed; None: it was the first, or stands in another's place.
        channel: Where it was said.
        role: As what a model is shown it.
        author: Who said it; None: the familiar.
        content: The words.
        at: When, in UTC.
        modality: `text` or `voice`.
        source: What wrote it down.
        partial: It broke off.
        hidden: No model is shown it.
        message_id: What its platform calls it; empty: nobody said.
        reply_to: The turn that it replies to.
        instead_of: A turn at whose place it stands.
        imported: What its source said of it; None: it was said there.
        one_to_one: The only person who had spoken in the channel by then; None: there were several.
        more: What a newer version says of it besides, in JSON; empty: nothing.
    """

    id: int
    after: TurnName | None
    channel: str
    role: Role
    author: Author | None
    content: str
    at: datetime
    modality: str
    source: str
    partial: bool = False
    hidden: bool = False
    message_id: str = ""
    reply_to: TurnName | None = None
    instead_of: TurnName | None = None
    imported: Imported | None = None
    one_to_one: Author | None = None
    more: str = ""


@dataclass(frozen=True, slots=True)
class MarkLine:
    """A mark on a turn: `value` is the turn that stands in its place, or 1; 0 takes it back."""

    id: int
    clock: int
    turn: TurnName
    mark: str
    value: TurnName | int
    at: datetime


@dataclass(frozen=True, slots=True)
class ChannelMarkLine:
    """A whole channel was withdrawn, or is back."""

    id: int
    clock: int
    channel: str
    withdrawn: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class BranchLine:
    """A channel left another one after a turn; None: before its first."""

    id: int
    clock: int
    channel: str
    parent: str
    turn: TurnName | None
    at: datetime


@dataclass(frozen=True, slots=True)
class ChatLine:
    """A chat that was brought in."""

    id: int
    clock: int
    channel: str
    key: str
    chat_kind: str
    format: str
    name: str
    head: str


@dataclass(frozen=True, slots=True)
class ThroughLine:
    """How far the lines before it reach: the last turn and the last fact; and what was distilled.

    Args:
        turn: All turns up to this one stand in the files.
        fact: All marks, branches and chats up to this one do.
        written: The writer of that instance has read all turns up to this one,
        waiting: but for those from the first through the last of each pair.
    """

    turn: int
    fact: int
    written: int = 0
    waiting: tuple[tuple[int, int], ...] = ()


Fact = MarkLine | ChannelMarkLine | BranchLine | ChatLine
Line = TurnLine | Fact | ThroughLine
_KINDS: Final[Mapping[str, type[Any]]] = {
    "turn": TurnLine,
    "mark": MarkLine,
    "channel-mark": ChannelMarkLine,
    "branch": BranchLine,
    "chat": ChatLine,
    "through": ThroughLine,
}
_KIND_OF: Final = {kind: name for name, kind in _KINDS.items()}


def dumped(line: Line) -> bytes:
    """Return a line with its end. The same line is always the same bytes."""
    told: dict[str, Any] = {"v": VERSION, "kind": _KIND_OF[type(line)]}
    for field in fields(line):
        if field.name == "more":
            continue
        value = _plain(getattr(line, field.name))
        if value is not None and value is not False and value not in ("", ()):
            told[field.name] = value
    if isinstance(line, TurnLine) and "content" not in told:
        told["content"] = ""
    try:
        return f"{_json(told, ascii_only=False)}\n".encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can hold
        return f"{_json(told, ascii_only=True)}\n".encode()


def parsed(text: str | bytes) -> Line | None:
    """Parse a line; None if a newer version wrote a kind that is unknown here.

    Raises:
        BadLineError: It is no such line.
    """
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadLineError(f"it is not JSON ({error})") from error
    if not isinstance(told, dict):
        raise BadLineError("it is not an object")
    version, kind = told.get("v"), told.get("kind")
    if not isinstance(version, int) or version < 1 or not isinstance(kind, str):
        raise BadLineError("it says neither its version nor its kind")
    read = _READERS.get(kind)
    if read is None:
        return None
    return read(_Fields(told))


def _json(told: Mapping[str, Any], *, ascii_only: bool) -> str:
    return json.dumps(told, ensure_ascii=ascii_only, separators=(",", ":"))


def _plain(value: object) -> object:
    if isinstance(value, TurnName):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, Author):
        told = {
            "platform": value.platform,
            "user_id": value.user_id,
            "username": value.username,
            "display_name": value.display_name,
        }
        return {key: text for key, text in told.items() if text is not None}
    if isinstance(value, Imported):
        estimated = {"estimated": True} if value.estimated else {}
        about = {"chat": value.chat, "identity": value.identity.hex()}
        nth = {} if value.nth is None else {"nth": value.nth}
        return {**about, **estimated, **nth, "raw": value.raw}
    return value


class _Fields:
    """The fields of a line, each read as what it must be."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.told = told

    def text(self, key: str, *, needed: bool = True) -> str:
        value = self.told.get(key, None if needed else "")
        if not isinstance(value, str):
            raise BadLineError(f"its {key!r} is not text")
        return value

    def flag(self, key: str) -> bool:
        value = self.told.get(key, False)
        if not isinstance(value, bool):
            raise BadLineError(f"its {key!r} is neither true nor false")
        return value

    def number(self, key: str, least: int = 1, otherwise: int | None = None) -> int:
        return _whole(self.told.get(key, otherwise), key, least)

    def at(self) -> datetime:
        try:
            return to_ms(datetime.fromisoformat(self.text("at"))).astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise BadLineError("its 'at' is no time") from error

    def name(self, key: str) -> TurnName | None:
        value = self.told.get(key)
        return None if value is None else _name(value, key)

    def inner(self, key: str) -> _Fields | None:
        value = self.told.get(key)
        if value is not None and not isinstance(value, dict):
            raise BadLineError(f"its {key!r} is not an object")
        return None if value is None else _Fields(value)


def _whole(value: object, key: str, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MOST:
        raise BadLineError(f"its {key!r} is no number that can be")
    return value


def _name(value: object, key: str) -> TurnName:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise BadLineError(f"its {key!r} names no turn")
    instance, _, number = value.rpartition(":")
    return TurnName(instance, int(number))


def _turn(line: _Fields) -> TurnLine:
    role = line.text("role")
    if role not in get_args(Role):
        raise BadLineError(f"its role is {role!r:.40}")
    known = {"v", "kind", *(field.name for field in fields(TurnLine))}
    more = {key: value for key, value in line.told.items() if key not in known}
    return TurnLine(
        line.number("id"),
        line.name("after"),
        line.text("channel"),
        cast("Role", role),
        _author(line.inner("author")),
        line.text("content"),
        line.at(),
        line.text("modality"),
        line.text("source"),
        line.flag("partial"),
        line.flag("hidden"),
        line.text("message_id", needed=False),
        line.name("reply_to"),
        line.name("instead_of"),
        _imported(line.inner("imported")),
        _author(line.inner("one_to_one")),
        _json(more, ascii_only=True) if more else "",
    )


def _author(line: _Fields | None) -> Author | None:
    if line is None:
        return None
    names = (line.text(k) if k in line.told else None for k in ("username", "display_name"))
    return Author(line.text("platform"), line.text("user_id"), *names)


def _imported(line: _Fields | None) -> Imported | None:
    if line is None:
        return None
    raw = line.text("raw")
    _check_object(raw)
    try:
        identity = bytes.fromhex(line.text("identity"))
    except ValueError as error:
        raise BadLineError("its 'identity' is no number in base 16") from error
    nth = line.number("nth", 0) if "nth" in line.told else None
    return Imported(line.text("chat"), identity, line.flag("estimated"), raw, nth)


def _check_object(text: str) -> None:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadLineError("what its source said cannot be read") from error
    if not isinstance(told, dict):
        raise BadLineError("what its source said is not an object")


def _mark(line: _Fields) -> MarkLine:
    turn, mark, value = line.name("turn"), line.text("mark"), line.told.get("value")
    if turn is None or mark not in MARKS:
        raise BadLineError("it marks nothing")
    meant: TurnName | int = (
        _name(value, "value") if isinstance(value, str) else _whole(value, "value", 0)
    )
    if isinstance(meant, int) and meant and (mark == "superseded" or meant > 1):
        raise BadLineError("its 'value' is no number that can be")
    if isinstance(meant, TurnName) and mark != "superseded":
        raise BadLineError("its 'value' is no number")
    return MarkLine(line.number("id"), line.number("clock"), turn, mark, meant, line.at())


def _channel_mark(line: _Fields) -> ChannelMarkLine:
    about = line.number("id"), line.number("clock"), line.text("channel")
    return ChannelMarkLine(*about, line.flag("withdrawn"), line.at())


def _branch(line: _Fields) -> BranchLine:
    about = line.number("id"), line.number("clock"), line.text("channel"), line.text("parent")
    return BranchLine(*about, line.name("turn"), line.at())


def _chat(line: _Fields) -> ChatLine:
    if line.told.get("head"):
        _check_object(line.text("head"))
    return ChatLine(
        line.number("id"),
        line.number("clock"),
        line.text("channel", needed=False),
        line.text("key", needed=False),
        line.text("chat_kind", needed=False),
        line.text("format", needed=False),
        line.text("name", needed=False),
        line.text("head", needed=False),
    )


def _through(line: _Fields) -> ThroughLine:
    pairs = line.told.get("waiting", [])
    if not isinstance(pairs, list) or not all(isinstance(p, list) and len(p) == 2 for p in pairs):  # noqa: PLR2004
        raise BadLineError("its 'waiting' is no list of pairs")
    waiting = tuple((_whole(a, "waiting", 1), _whole(b, "waiting", 1)) for a, b in pairs)
    turn, fact, written = (line.number(key, 0, 0) for key in ("turn", "fact", "written"))
    return ThroughLine(turn, fact, written, waiting)


_READERS: Final[Mapping[str, Callable[[_Fields], Line]]] = {
    "turn": _turn,
    "mark": _mark,
    "channel-mark": _channel_mark,
    "branch": _branch,
    "chat": _chat,
    "through": _through,
}
