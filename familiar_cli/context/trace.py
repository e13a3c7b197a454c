"""What one turn sent and why: the whole record, as a value. `trace_files` has its file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime  # noqa: TC003  # `from_json` reads the annotations
from typing import TYPE_CHECKING, Any, Final

from familiar_cli import __version__
from familiar_cli.clock import iso
from familiar_cli.config.fields import DEFAULT_TIER
from familiar_cli.context._stored import Malformed, body_to_json, complete, decode
from familiar_cli.context.types import Layer, LayerUse, PromptSpan, Report, Role  # noqa: TC001
from familiar_cli.errors import BadInputError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.context.types import Assembled, Fragment, SideCall
    from familiar_cli.llm.types import Completion, PreparedRequest

TRACE_VERSION: Final = 2
"""2: the file holds no text twice. Files of version 1 are read as well."""


@dataclass(frozen=True, slots=True)
class TracedContribution:
    """One piece that was offered, and what became of it; see `Contribution` and `Fragment`.

    `text` is what was sent of it, or what was offered when nothing of it was sent. `lines` are the
    first and the last line of `rel_path`, and `sha256` is of that file, as it was then. `cut` tells
    that it is not all there is: fewer tokens than `offered_tokens`. `turns` are the first and the
    last of several turns, and `origin` the conversation that they are from.
    """

    layer: Layer
    priority: int
    source: str
    rel_path: str | None
    tokens: int
    kept: bool
    reason: str
    offered_tokens: int
    place: PromptSpan
    role: Role
    depth: int
    turn_id: int | None
    text: str
    lines: tuple[int, int] | None = None
    sha256: str = ""
    score: float | None = None
    cause: str = ""
    hidden: bool = False
    cut: bool = False
    turns: tuple[int, int] | None = None
    origin: str = ""


@dataclass(frozen=True, slots=True)
class TracedMessage:
    """One message of the prompt."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class TracedRequest:
    """What went out. `body` is the very bytes."""

    url: str
    model: str
    stream: bool
    body: bytes


@dataclass(frozen=True, slots=True)
class TracedUsage:
    """What the server said that it cost."""

    prompt_tokens: int | None
    completion_tokens: int | None
    cost: float | None


@dataclass(frozen=True, slots=True)
class TracedSideCall:
    """A call of another model that the turn took; see `SideCall`."""

    name: str
    request: TracedRequest
    reply: str
    model: str
    finish_reason: str | None
    usage: TracedUsage | None
    elapsed_ms: float
    error: str


@dataclass(frozen=True, slots=True)
class Trace:
    """The whole record of one turn.

    Args:
        trace: The version of this record.
        turn: The id of the user's turn; None when nothing was stored (a dry run).
        reply_turn: The id of the reply; None when there is none.
        familiar: The familiar's id.
        channel_id: Where it was said.
        modality: How it was said.
        at: When it was said, in UTC.
        counter: What counted the tokens.
        budget_tokens: Most tokens the prompt could have.
        used_tokens: What it had.
        assemble_ms: How long assembling took.
        layers: The budget of each layer and its use.
        contributions: Everything that was offered, and what became of it.
        providers: What each provider did.
        processors: What each pre- and post-processor did.
        messages: The prompt.
        request: What went out; None in a dry run.
        model: The model that answered, or was asked, or would be.
        reply_ms: How long the model took; None when it was not asked.
        finish_reason: Why the model stopped.
        usage: What it cost.
        error: Why there is no whole reply; empty when there is one.
        notices: What the person who spoke was told.
        program: The version of the program that wrote it; empty in records older than this key.
        side_calls: The calls of other models, in the order in which they ended.
        raw_reply: What the model said, where that is not what the person was shown.
        tier: How much of the memory it was made of; the usual one in records older than this key.
        budget_reason: What `budget_tokens` followed from; empty in records older than this key.
        client: What a chat program asked for, as it sent it; empty: none did.
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
    contributions: tuple[TracedContribution, ...]
    providers: tuple[Report, ...]
    processors: tuple[Report, ...]
    messages: tuple[TracedMessage, ...]
    request: TracedRequest | None
    model: str
    reply_ms: float | None
    finish_reason: str | None
    usage: TracedUsage | None
    error: str
    notices: tuple[str, ...]
    program: str = ""
    side_calls: tuple[TracedSideCall, ...] = ()
    raw_reply: str = ""
    tier: int = DEFAULT_TIER
    budget_reason: str = ""
    client: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain values; the body becomes text, or base64 if it is none."""
        record = asdict(self)
        record["at"] = iso(self.at)
        if self.request is not None:
            record["request"]["body"] = body_to_json(self.request.body)
        for call in record["side_calls"]:
            call["request"]["body"] = body_to_json(call["request"]["body"])
        return record

    @classmethod
    def from_json(cls, record: object, *, origin: str = "trace") -> Trace:
        """Return the record that `to_json` wrote.

        Raises:
            BadInputError: `record` is not one; `origin` names it.
            RefusedError: A newer version of this program wrote it.
        """
        if not isinstance(record, dict) or not isinstance(record.get("trace"), int):
            raise damaged(origin, "it is not marked as one")
        if record["trace"] > TRACE_VERSION:
            raise RefusedError(
                f"The trace {origin!r} was written by a newer version; it was not changed",
                hint="Update this program: `pip install --upgrade familiar-memory`.",
            )
        try:
            return decode(cls, complete(record))
        except Malformed as error:
            raise damaged(origin, str(error)) from error


def make_trace(assembled: Assembled, *, model: str, counter: str) -> Trace:
    """Return the record of a prompt for which no model was asked yet."""
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
        contributions=tuple(_traced(fragment) for fragment in assembled.fragments),
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
        side_calls=traced_side_calls(request.side_calls),
        tier=request.tier,
        budget_reason=request.budget_reason,
    )


def traced_side_calls(calls: Sequence[SideCall]) -> tuple[TracedSideCall, ...]:
    """Return the calls of other models, as the record keeps them."""
    return tuple(_traced_side_call(call) for call in calls)


def traced_request(prepared: PreparedRequest) -> TracedRequest:
    """Return what went out, as the record keeps it."""
    return TracedRequest(prepared.url, prepared.model, prepared.stream, prepared.body)


def traced_usage(completion: Completion) -> TracedUsage | None:
    """Return what a reply cost, as the record keeps it."""
    usage = completion.usage
    if usage is None:
        return None
    return TracedUsage(usage.prompt_tokens, usage.completion_tokens, usage.cost)


def damaged(origin: str, why: str) -> BadInputError:
    """Return the error for what is no record; `origin` names it."""
    return BadInputError(
        f"{origin!r} is not a trace: {why}; it was not changed",
        hint="Traces can be deleted without loss of memory; the next turn writes its own.",
    )


def _traced(fragment: Fragment) -> TracedContribution:
    offered = fragment.offered
    offered_tokens = max(fragment.offered_tokens, offered.whole_tokens)
    return TracedContribution(
        layer=offered.layer,
        priority=offered.priority,
        source=offered.source,
        rel_path=offered.rel_path,
        tokens=fragment.tokens,
        kept=fragment.kept,
        reason=fragment.reason,
        offered_tokens=offered_tokens,
        place=offered.place,
        role=offered.role,
        depth=offered.depth,
        turn_id=offered.turn_id,
        text=fragment.text if fragment.kept else offered.text,
        lines=offered.lines,
        sha256=offered.sha256,
        score=offered.score,
        cause=offered.cause,
        hidden=offered.hidden,
        cut=fragment.kept and fragment.tokens < offered_tokens,
        turns=offered.turns,
        origin=offered.origin,
    )


def _traced_side_call(call: SideCall) -> TracedSideCall:
    done = call.completion
    return TracedSideCall(
        name=call.name,
        request=traced_request(call.sent),
        reply=done.text if done else "",
        model=done.model if done else call.sent.model,
        finish_reason=done.finish_reason if done else None,
        usage=traced_usage(done) if done else None,
        elapsed_ms=call.elapsed_ms,
        error=call.error,
    )
