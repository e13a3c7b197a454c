"""The trace of a turn: what was sent and why, as a value and as a file in `traces/`.

A file is named by the id of the user's turn that was answered; the id of the reply leads to the
same file. See docs/decisions/0003-a-trace-bears-the-users-turn.md.
"""

from __future__ import annotations

import base64
import contextlib
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import accumulate
from operator import attrgetter, is_
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from familiar_cli import __version__
from familiar_cli.base.errors import BadInputError, FamiliarError, NotFoundError, RefusedError
from familiar_cli.base.files import check_own, read_plain, write_own
from familiar_cli.base.times.clock import iso
from familiar_cli.context.types import Fragment, LayerUse, Report, Role
from familiar_cli.llm.types import PreparedRequest, SideCall, Usage

if TYPE_CHECKING:
    from familiar_cli.context.request import Assembled


class Malformed(ValueError):  # noqa: N818  # it says what the value is
    """A value does not have the expected form."""


_SHORT_CHARS: Final = 60  # a text no longer than saying where it stands


class TraceEncoder:
    """Encodes the traces of one turn as files.

    A turn's trace is written before the model is asked and again at the end. Most of it, the prompt
    and where it came from, stays the same, and is encoded once.
    """

    def __init__(self) -> None:
        self._prompt: tuple[object, ...] = ()
        self._lines: dict[str, bytes] = {}

    def encode(self, trace: Trace) -> bytes:
        """Return the content of the file of `trace`."""
        prompt = trace.contributions, trace.messages, trace.request
        if not (self._prompt and all(map(is_, prompt, self._prompt))):
            self._prompt, self._lines = prompt, {}
        try:
            return self._content(trace, _encode_quickly)
        except UnicodeEncodeError:  # a lone surrogate
            self._lines = {}
            return self._content(trace, _encode_any)

    def _content(self, trace: Trace, encode: _Encode) -> bytes:
        self._lines = self._lines or _to_lines(_prompt_record(trace), encode)
        rest = dict(zip(_REST, _read_rest(trace), strict=True)) | {"at": iso(trace.at)}
        if trace.side_calls:
            rest |= trace.to_json(("side_calls",))
        lines = self._lines | _to_lines(rest, encode)
        return b"{\n" + b",\n".join(map(lines.__getitem__, trace.__struct_fields__)) + b"\n}\n"


_Encode: TypeAlias = Callable[[Iterable[Any]], list[bytes]]


def _encode_quickly(values: Iterable[Any]) -> list[bytes]:
    return _ENCODER.encode_lines(values).split(b"\n")[:-1]


def _encode_any(values: Iterable[Any]) -> list[bytes]:
    return [json.dumps(msgspec.to_builtins(value)).encode("ascii") for value in values]


def _to_lines(record: dict[str, Any], encode: _Encode) -> dict[str, bytes]:
    """Encode each key in a line, and each item of a list; `indent` takes ten times as long."""
    lists = {key: value for key, value in record.items() if value and type(value) in {list, tuple}}
    values = (None if key in lists else value for key, value in record.items())
    lines = dict(zip(record, encode(values), strict=True))
    lines |= {key: b"[\n  " + b",\n  ".join(encode(lists[key])) + b"\n ]" for key in lists}
    return {key: b' "%s": %s' % (key.encode(), line) for key, line in lines.items()}


def complete_record(record: dict[str, Any]) -> dict[str, Any]:
    """Decode the plain values of a trace, with the request's body as bytes; also of an older file.

    Raises:
        Malformed: The body is damaged, or a value has the wrong type.
    """
    request = record.get("request")
    if isinstance(request, dict):
        record = _with_body(record)
        if record.get("messages", ...) is None:
            record["messages"] = _messages_in(record["request"]["body"])
    return {**record, "contributions": _replace_texts(record), "side_calls": _side_calls(record)}


def _side_calls(record: dict[str, Any]) -> object:
    """Return the calls of other models, with the bodies of their requests as bytes."""
    calls = record.get("side_calls", [])
    if not isinstance(calls, list):
        return calls
    return [_with_body(call) if isinstance(call, dict) else call for call in calls]


def _with_body(holder: dict[str, Any]) -> dict[str, Any]:
    request = holder.get("request")
    if not isinstance(request, dict):
        return holder
    return {**holder, "request": {**request, "body": body_from_json(request.get("body"))}}


def body_to_json(body: bytes) -> dict[str, str]:
    """Encode bytes as plain values: as text if possible."""
    try:
        return {"text": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode("ascii")}


def body_from_json(stored: object) -> bytes:
    """Decode the result of `body_to_json`.

    Raises:
        Malformed: It is invalid.
    """
    match stored:
        case {"text": str(text)}:
            return text.encode("utf-8", errors="surrogatepass")
        case {"base64": str(encoded)}:
            try:
                return base64.b64decode(encoded, validate=True)
            except ValueError as error:
                raise Malformed("its request's body is damaged") from error
    raise Malformed("its request has no body")


def _prompt_record(trace: Trace) -> dict[str, Any]:
    """Return the keys of `_PROMPT` as plain values that hold no text twice."""
    messages: list[Any] = msgspec.to_builtins([*trace.messages])
    is_sent = trace.request is not None and _messages_in(trace.request.body) == messages
    pieces = [_to_plain(piece) for piece in trace.contributions]
    _point_into_messages(pieces, [message["content"] for message in messages])
    record = {"contributions": pieces, "messages": None if is_sent else messages}
    return record | trace.to_json(("request",))


def _messages_in(body: bytes) -> list[Any] | None:
    """Return the messages in a request's bytes, or None if there are none."""
    try:
        messages = json.loads(body)["messages"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return messages if isinstance(messages, list) else None


def _point_into_messages(pieces: Sequence[dict[str, Any]], contents: Sequence[str]) -> None:
    """Replace texts by their first place in the messages, unless they are short or not there."""
    whole = "\0".join(contents)
    starts = list(accumulate([len(content) + 1 for content in contents], initial=0))
    for piece in pieces:
        text = piece["text"]
        at = -1 if len(text) <= _SHORT_CHARS or "\0" in text else whole.find(text)
        if at >= 0:
            number = bisect_right(starts, at) - 1
            place = {"message": number, "start": at - starts[number], "chars": len(text)}
            piece["text"] = place


def _replace_texts(record: dict[str, Any]) -> object:
    pieces = record.get("contributions")
    if not isinstance(pieces, list):
        return pieces
    messages = record.get("messages")
    return [
        {**piece, "text": _text_at(piece["text"], messages)}
        if isinstance(piece, dict) and isinstance(piece.get("text"), dict)
        else piece
        for piece in pieces
    ]


def _text_at(pointer: dict[str, Any], messages: object) -> str:
    match pointer, messages:
        case {"message": int(number), "start": int(start), "chars": int(chars)}, list():
            said = messages[number] if 0 <= number < len(messages) else None
            content = said.get("content") if isinstance(said, dict) else None
            if isinstance(content, str) and len(content[start : start + chars]) == chars:
                return content[start : start + chars]
    raise Malformed("a contribution's text is not where it says")


# The keys of a trace that do not change after the prompt was made.
_PROMPT: Final = ("contributions", "messages", "request")

TRACE_VERSION: Final = 2
"""2: the file holds no text twice. Files of version 1 are read as well."""


# The keys of a fragment in the record, in this order; `cut` follows from the others.
_PIECE_KEYS: Final = (
    *("layer", "priority", "source", "rel_path", "tokens", "kept", "reason", "offered_tokens"),
    *("place", "role", "depth", "turn_id", "text", "lines", "sha256", "score", "cause", "hidden"),
    *("cut", "turns", "origin"),
)
_read_piece: Final = attrgetter(*(key if key != "cut" else "is_cut" for key in _PIECE_KEYS))
_STORED: Final = tuple(key for key in _PIECE_KEYS if key != "cut")
_read_stored: Final = attrgetter(*_STORED)
_ENCODER: Final = msgspec.json.Encoder()


class TracedMessage(Struct, frozen=True):
    """One message of the prompt."""

    role: Role
    content: str


class Trace(Struct, frozen=True, kw_only=True):
    """The trace of one turn.

    Args:
        trace: The version of the format.
        turn: The id of the user's turn; None if nothing was stored (a dry run).
        reply_turn: The id of the reply, if any.
        familiar: The familiar's id.
        modality: The modality of the message.
        at: Time of the message, in UTC.
        counter: The token counter.
        budget_tokens: The token budget of the prompt.
        used_tokens: Tokens of the prompt.
        assemble_ms: Duration of assembling.
        layers: The budget of each layer and its use.
        contributions: Everything that was offered, with the result for each.
        providers: The outcome of each provider.
        processors: The outcome of each pre- and post-processor.
        messages: The prompt.
        request: The request that was sent; None in a dry run.
        model: The model that replied, or was or would be asked.
        reply_ms: Duration of the model's response; None if it was not asked.
        finish_reason: Why the model stopped.
        usage: Token usage.
        error: Why there is no complete reply; empty if there is one.
        notices: The notices that the person got.
        program: The version of the program; empty in traces older than this key.
        side_calls: Calls of other models, in the order in which they ended.
        raw_reply: The model's text, if the person was shown another one.
        tier: How much of the memory was used.
        budget_reason: The reason for `budget_tokens`; empty in traces older than this key.
        client: The request of a chat program as received; empty if there was none.
        thinking: The model's reasoning, apart from the reply.
    """

    trace: int
    turn: int | None
    reply_turn: int | None
    familiar: str
    channel_id: str
    modality: str
    at: datetime
    counter: str
    budget_tokens: int
    used_tokens: int
    assemble_ms: float
    layers: tuple[LayerUse, ...]
    contributions: tuple[Fragment, ...]
    providers: tuple[Report, ...]
    processors: tuple[Report, ...]
    messages: tuple[TracedMessage, ...]
    request: PreparedRequest | None
    model: str
    reply_ms: float | None
    finish_reason: str | None
    usage: Usage | None
    error: str
    notices: tuple[str, ...]
    program: str = ""
    side_calls: tuple[SideCall, ...] = ()
    raw_reply: str = ""
    tier: int
    budget_reason: str = ""
    client: str = ""
    thinking: str = ""

    def __repr__(self) -> str:
        """Name the turn only: `asyncio.run` writes out what it returns."""
        return f"Trace(turn={self.turn}, familiar={self.familiar!r})"

    def to_json(self, keys: Iterable[str] = ()) -> dict[str, Any]:
        """Return the record as plain values; a body that is not text becomes base64.

        Args:
            keys: The keys to return; none for all.
        """
        names = keys or self.__struct_fields__
        record: dict[str, Any] = {name: _to_plain(getattr(self, name)) for name in names}
        if "at" in record:
            record["at"] = iso(self.at)
        if "contributions" in record:
            record["contributions"] = [*record["contributions"]]
        if self.request and "request" in record:
            record["request"]["body"] = body_to_json(self.request.body)
        for call in record.get("side_calls", ()):
            call["request"]["body"] = body_to_json(call["request"]["body"])
        return record

    @classmethod
    def from_json(cls, record: object, *, origin: str = "trace") -> Trace:
        """Decode the result of `to_json`.

        Raises:
            BadInputError: `record` is invalid; `origin` names it.
            RefusedError: A newer version of this program wrote it.
        """
        if not isinstance(record, dict) or not isinstance(record.get("trace"), int):
            raise damaged_record(origin, "it is not marked as one")
        if record["trace"] > TRACE_VERSION:
            from familiar_cli.base.config.environment import install_command  # noqa: PLC0415

            raise RefusedError(
                f"The trace {origin!r} was written by a newer version; it was not changed",
                hint=f"Update this program: `{install_command()}`.",
            )
        try:
            return msgspec.convert(complete_record(record), cls)
        except ValueError as error:
            why = str(error)
            raise damaged_record(origin, why[:1].lower() + why[1:]) from error


_REST: Final = tuple(key for key in Trace.__struct_fields__ if key not in _PROMPT)
_read_rest: Final = attrgetter(*_REST)


def _to_plain(value: object) -> Any:  # noqa: ANN401  # what a trace holds
    """Convert records to dictionaries, also in tuples."""
    if isinstance(value, Fragment):
        return dict(zip(_PIECE_KEYS, _read_piece(value), strict=True))
    if isinstance(value, tuple):
        return tuple(map(_to_plain, value))
    return msgspec.to_builtins(value, builtin_types=(bytes, datetime))


def make_trace(assembled: Assembled, *, model: str, counter: str) -> Trace:
    """Build the trace of a prompt for which no model has been asked yet."""
    request = assembled.request
    return Trace(
        trace=TRACE_VERSION,
        turn=None,
        reply_turn=None,
        familiar=request.familiar_id,
        channel_id=request.channel_id,
        modality=str(request.modality),
        at=request.at,
        counter=counter,
        budget_tokens=request.budget_tokens,
        used_tokens=assembled.used_tokens,
        assemble_ms=assembled.elapsed_ms,
        layers=assembled.layers,
        contributions=tuple(map(_to_record, assembled.fragments)),
        providers=assembled.providers,
        processors=assembled.processors,
        messages=tuple(TracedMessage(m["role"], m["content"]) for m in assembled.messages),
        request=None,
        model=model,
        reply_ms=None,
        finish_reason=None,
        usage=None,
        error="",
        notices=(),
        program=__version__,
        side_calls=tuple(request.side_calls),
        tier=request.tier,
        budget_reason=request.budget_reason,
    )


def _to_record(fragment: Fragment) -> Fragment:
    """Reduce a fragment to what the trace stores, and compare it with its whole source."""
    kept = dict(zip(_STORED, _read_stored(fragment), strict=True))
    kept["offered_tokens"] = max(fragment.offered_tokens, fragment.whole_tokens)
    return Fragment(**kept)


def damaged_record(origin: str, why: str) -> BadInputError:
    """Build the error for an invalid trace; `origin` names it."""
    return BadInputError(
        f"{origin!r} is not a trace: {why}; it was not changed",
        hint="Traces can be deleted without loss of memory; the next turn writes its own.",
    )


_LOOK_BACK: Final = 500  # so many records before a reply are searched for the one that led to it
_LOOSE_PERCENT: Final = 2  # of the records kept, so many more may stand until they are removed


def write_trace(
    traces_dir: Path, trace: Trace, *, keep: int = 0, encoder: TraceEncoder | None = None
) -> None:
    """Write a trace atomically, and remove the oldest beyond `keep` (0 for no limit).

    Finding the oldest takes a listing of the directory, so a large one is not tidied every time,
    and may exceed `keep` for some turns. The new trace is never removed.

    Args:
        traces_dir: The directory of traces.
        keep: How many traces are kept.
        encoder: The encoder of this turn's traces; None for a new one.

    Raises:
        ValueError: The trace is of a dry run.
        FamiliarError: It cannot be written; the turn itself is not affected.
    """
    if trace.turn is None:
        raise ValueError("a dry run has no trace file")
    path = traces_dir / f"{trace.turn}.json"
    try:
        write_own(path, (encoder or TraceEncoder()).encode(trace), durable=False)
    except OSError as error:
        raise FamiliarError(
            f"The trace of turn {trace.turn} could not be written to {str(path)!r}: {error}"
        ) from error
    if keep and _is_due(trace.turn, keep):
        _remove_oldest(traces_dir, keep, trace.turn)


def read_trace(traces_dir: Path, turn_id: int) -> Trace:
    """Read the trace of the turn `turn_id`: the user's, or the reply to it.

    Raises:
        NotFoundError: There is none.
        BadInputError: The file is damaged.
        RefusedError: A newer version of this program wrote it.
    """
    ids = trace_ids(traces_dir)
    if turn_id in ids:
        return _read_file(traces_dir / f"{turn_id}.json")
    older = sorted((known for known in ids if known < turn_id), reverse=True)
    for known in older[:_LOOK_BACK]:
        with contextlib.suppress(FamiliarError):  # a damaged one is not the one that was asked for
            trace = _read_if(traces_dir / f"{known}.json", turn_id)
            if trace is not None:
                return trace
    raise NotFoundError(
        f"No trace of turn {turn_id}",
        hint="Run `familiar context --last`; `context.keep_traces` sets how many are kept.",
    )


def latest_trace(traces_dir: Path) -> Trace:
    """Read the trace of the newest turn that has one.

    Raises:
        NotFoundError: There is none yet.
        BadInputError: The file is damaged.
        RefusedError: A newer version of this program wrote it.
    """
    ids = trace_ids(traces_dir)
    if not ids:
        raise NotFoundError(
            "Nothing has been sent to a model yet", hint='Run `familiar ask "Hello"`.'
        )
    return _read_file(traces_dir / f"{max(ids)}.json")


def files_shown(traces_dir: Path, turn_ids: Iterable[int], below: str) -> list[str]:
    """Return the memory files below a directory that the prompts of these turns contained."""
    result: dict[str, None] = {}
    try:
        kept = trace_ids(traces_dir)
    except FamiliarError:
        return []
    for turn_id in kept.intersection(turn_ids):
        with contextlib.suppress(FamiliarError):  # damaged, or removed since
            content = _read_bytes(traces_dir / f"{turn_id}.json")
            trace = _parse_trace(traces_dir, content) if below.encode() in content else None
            pieces = trace.contributions if trace else ()
            result |= dict.fromkeys(p.rel_path for p in pieces if p.kept and p.rel_path)
    return sorted(path for path in result if path.startswith(below))


def trace_ids(traces_dir: Path) -> set[int]:
    """Return the ids of all user turns with a trace.

    Raises:
        FamiliarError: The directory cannot be read, or is a link.
    """
    check_own(traces_dir)
    try:
        names = [entry.name for entry in traces_dir.iterdir()]
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise _unreadable_trace(traces_dir, error) from error
    stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
    return {int(stem) for stem in stems if stem.isascii() and stem.isdigit()}


def _read_file(path: Path) -> Trace:
    return _parse_trace(path, _read_bytes(path))


def _read_if(path: Path, reply_turn: int) -> Trace | None:
    """Read a trace if it is the one of that reply; most others are not even parsed."""
    content = _read_bytes(path)
    if str(reply_turn).encode() not in content:
        return None
    trace = _parse_trace(path, content)
    return trace if trace.reply_turn == reply_turn else None


def _read_bytes(path: Path) -> bytes:
    try:
        return read_plain(path)
    except OSError as error:
        raise _unreadable_trace(path, error) from error


def _parse_trace(path: Path, content: bytes) -> Trace:
    try:
        record = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise damaged_record(str(path), "it is not JSON") from error
    return Trace.from_json(record, origin=str(path))


def _unreadable_trace(path: Path, error: OSError) -> FamiliarError:
    return FamiliarError(
        f"{str(path)!r} cannot be read: {error.strerror or error}",
        hint="Check its permissions. Traces can be deleted without loss of memory.",
    )


def _is_due(turn_id: int, keep: int) -> bool:
    """Tell whether to tidy the directory after this turn; a small one, after each."""
    step = max(keep * _LOOSE_PERCENT // 100, 1)
    return turn_id // 2 % step == 0  # halved, since every second turn is a reply


def _remove_oldest(traces_dir: Path, keep: int, written: int) -> None:
    for turn_id in sorted(trace_ids(traces_dir) - {written}, reverse=True)[keep - 1 :]:
        # Another process may have removed it, or be reading it; the next turn tries again.
        with contextlib.suppress(OSError):
            (traces_dir / f"{turn_id}.json").unlink()
