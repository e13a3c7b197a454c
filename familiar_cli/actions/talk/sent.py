"""What was sent to the model and why, and its reply to the same request now."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from familiar_cli.base.errors import BadReplyError, FamiliarError, NotFoundError, UsageError
from familiar_cli.base.text import harmless, unified
from familiar_cli.base.times.clock import iso, since_1970
from familiar_cli.context import types
from familiar_cli.context.trace import Trace, TracedMessage, latest_trace, read_trace, trace_ids
from familiar_cli.llm.types import Completion, PreparedRequest, Usage, with_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from familiar_cli.context.request import ContextRequest, Explains
    from familiar_cli.familiar import Familiar
    from familiar_cli.llm.slots import ResolvedSlot
    from familiar_cli.store.history.rows import Turn

_ASK = 'Run `familiar ask "Hello"`.'


def find_trace(familiar: Familiar, turn: int | str | None = None) -> Trace:
    """Read the trace of `turn`, or else of the newest turn.

    Raises:
        NotFoundError: There is no trace; the message says why.
        BadInputError: The trace is damaged.
        UsageError: `turn` is not a turn.
    """
    if turn is None:
        return latest_trace(familiar.paths.traces)
    number = familiar.numbering.turn_number(turn)
    try:
        return read_trace(familiar.paths.traces, number)
    except NotFoundError as error:
        raise NotFoundError(_why_missing(familiar, number), hint=_other_turns(familiar)) from error


def sent_of(trace: Trace) -> PreparedRequest:
    """Return the request that was sent.

    Raises:
        NotFoundError: None was sent.
    """
    if trace.request is None:
        raise NotFoundError(
            f"Nothing was sent for turn {trace.turn}: {trace.error or 'no request was made'}",
            hint=_ASK,
        )
    return trace.request


def messages_diff(older: Trace, newer: Trace) -> str:
    """Compare the messages of two turns as a unified diff; empty if they are equal."""
    before, after = _all_text(older.messages), _all_text(newer.messages)
    return unified(before, after, f"turn {older.turn}", f"turn {newer.turn}").rstrip("\n")


def _all_text(messages: Sequence[TracedMessage]) -> str:
    return "".join(f"--- {m.role}\n{harmless(m.content)}\n\n" for m in messages)


def _why_missing(familiar: Familiar, turn: int) -> str:
    from familiar_cli.store.history.lines import origins
    from familiar_cli.store.history.store import GREETING

    found = _find_turn(familiar, turn)
    if found is None:
        return f"No such turn: {turn}"
    if found.source.startswith("import"):
        return f"Turn {turn} was imported ({found.source}), so nothing was sent for it"
    if found.source == GREETING:
        return f"Turn {turn} is the greeting, so nothing was sent for it"
    written = origins(familiar.history, [turn]).get(turn)
    if written:
        return f"Turn {turn} was written down on {written.instance!r}, and what it sent is there"
    keep = familiar.config.context.keep_traces
    oldest = min(trace_ids(familiar.paths.traces), default=None)
    if keep and oldest is not None and turn < oldest:
        return (
            f"What turn {turn} sent is no longer kept: context.keep_traces = {keep}, "
            f"and the oldest kept is of turn {oldest}"
        )
    return f"Turn {turn} has no trace: no reply was requested, or its file was deleted"


def _other_turns(familiar: Familiar) -> str:
    kept = trace_ids(familiar.paths.traces)
    if not kept:
        return _ASK
    return f"Traces are kept from turn {min(kept)} to {max(kept)}: `familiar context {max(kept)}`."


def _find_turn(familiar: Familiar, turn: int) -> Turn | None:
    if not familiar.paths.history.is_file():
        return None
    from familiar_cli.store.history.store import HistoryStore

    with closing(HistoryStore(familiar.paths.history)) as store:
        return store.turn(turn)


class PromptLayers(Struct, frozen=True):
    """The tokens of one prompt by layer.

    Args:
        turn: The turn.
        at: Its time.
        budget_tokens: The prompt's budget.
        tokens: Tokens of each layer, in the order of the prompt.
        lost_tokens: Tokens of each layer that did not fit.
    """

    turn: int
    at: datetime
    budget_tokens: int
    tokens: Mapping[str, int]
    lost_tokens: Mapping[str, int]


def layers_over_time(
    familiar: Familiar, before: int | None = None, most: int = 40
) -> tuple[PromptLayers, ...]:
    """Return the layers of the newest `most` prompts, oldest first, skipping damaged traces.

    Args:
        familiar: The familiar.
        before: Only turns with a lower number.
        most: Maximum number.
    """
    directory = familiar.paths.traces
    ids = sorted(n for n in trace_ids(directory) if before is None or n < before)[-most:]
    found = []
    for turn in ids:
        try:
            trace = read_trace(directory, turn)
        except FamiliarError:
            continue
        lost: dict[str, int] = {}
        for piece in trace.contributions:
            sent = piece.tokens if piece.kept else 0
            gone = max(piece.offered_tokens - sent, 0)
            lost[str(piece.layer)] = lost.get(str(piece.layer), 0) + gone
        held = {layer.name: layer.used_tokens for layer in trace.layers}
        found.append(PromptLayers(turn, trace.at, trace.budget_tokens, held, lost))
    return tuple(found)


_OF_MEMORY: Final = frozenset(
    {types.Layer.content, types.Layer.digest, types.Layer.pinned, types.Layer.desk}
)


def recalled_pieces(trace: Trace) -> list[types.Fragment]:
    """Return the pieces of a prompt that come from memory or old turns."""
    return [piece for piece in trace.contributions if piece.kept and piece.layer in _OF_MEMORY]


Verdict = Literal["kept", "cut", "out", "absent"]
WHOLE: Final = "prompt"
"""What the whole prompt is called among its layers."""

_TURN: Final = re.compile(r"(?:turns?:)?\s*((?:[-a-z0-9]+:)?\d+)")


class Why(Struct, frozen=True):
    """Why a file or turn was in a prompt, or was not.

    Args:
        turn: The prompt's turn; None for a prompt that was not sent.
        subject: The subject: a path below `memory/`, or `turn:12`.
        verdict: `kept`, `cut` (partly in the prompt), `out` (offered, but not in it), or `absent`
            (not offered).
        contributions: Its contributions.
        layers: The layers whose budget they used, or would have used.
        rivals: Contributions served before it from those layers, if some of it did not fit.
        reasons: Why it is not complete, a sentence each.
        since: How the file has changed since; empty if it has not.
    """

    turn: int | None
    subject: str
    verdict: Verdict
    contributions: tuple[types.Fragment, ...] = ()
    layers: tuple[types.LayerUse, ...] = ()
    rivals: tuple[types.Fragment, ...] = ()
    reasons: tuple[str, ...] = ()
    since: str = ""


def explain_piece(familiar: Familiar, trace: Trace, asked: str) -> Why:
    """Explain why `asked` was in the prompt of `trace`, or was not.

    Args:
        familiar: The familiar.
        trace: The trace.
        asked: A path below `memory/`, or `turn:12`, or `turn:laptop-7f3a:12`.

    Raises:
        NotFoundError: No such file or turn, and nothing in the trace came from it.
        UsageError: It is neither.
        UnsafePathError: The path leads outside the memory.
    """
    subject = _find_subject(familiar, asked)
    pieces = _pieces_of(familiar, trace, subject)
    if pieces:
        return _explain_offered(familiar, trace, subject, pieces)
    _check_exists(familiar, subject)
    reasons = _why_absent(familiar, trace, subject)
    since = _newer_file(familiar, trace, subject)
    return Why(trace.turn, _subject_name(subject), "absent", reasons=tuple(reasons), since=since)


def _find_subject(familiar: Familiar, asked: str) -> types.Subject:
    from familiar_cli.store.memory.store.files import parse_path

    found = _TURN.fullmatch(asked.strip())
    if found:
        return types.Subject(turn_id=familiar.numbering.turn_number(found[1]))
    rel_path = parse_path(asked)
    if not rel_path:
        raise UsageError(
            "--why requires a memory file or a turn",
            hint="`--why self/description.md`, `--why turn:12`.",
        )
    return types.Subject(rel_path)


def _subject_name(subject: types.Subject) -> str:
    return subject.rel_path or f"turn:{subject.turn_id}"


def _pieces_of(familiar: Familiar, trace: Trace, subject: types.Subject) -> list[types.Fragment]:
    if subject.rel_path is not None:
        return [piece for piece in trace.contributions if piece.rel_path == subject.rel_path]
    sources = _without_number(familiar, trace, subject)
    return [
        piece
        for piece in trace.contributions
        if piece.turn_id == subject.turn_id or (piece.turn_id is None and piece.source in sources)
    ]


def _without_number(familiar: Familiar, trace: Trace, subject: types.Subject) -> set[str]:
    """Return the sources by which a turn was offered before it had a number."""
    if subject.turn_id == trace.turn:
        return {"utterance"}
    turn = familiar.history.turn(subject.turn_id or 0)
    opened = turn and turn.source == "greeting" and turn.channel_id == trace.channel_id
    return {"history.greeting"} if opened else set()


def _explain_offered(
    familiar: Familiar, trace: Trace, subject: types.Subject, pieces: list[types.Fragment]
) -> Why:
    lost = [piece for piece in pieces if piece.reason and piece.offered_tokens]
    verdict: Verdict = "cut" if any(piece.reason for piece in pieces) else "kept"
    if not any(piece.kept for piece in pieces):
        verdict = "out"
    return Why(
        turn=trace.turn,
        subject=_subject_name(subject),
        verdict=verdict,
        contributions=tuple(pieces),
        layers=_paid_from(trace, pieces),
        rivals=tuple(_served_before(trace, lost)),
        reasons=tuple(dict.fromkeys(piece.reason for piece in pieces if piece.reason)),
        since=_file_change(familiar, subject, pieces),
    )


def _paid_from(trace: Trace, pieces: list[types.Fragment]) -> tuple[types.LayerUse, ...]:
    """Return the layers of `pieces`, and the prompt as a whole."""
    names = {str(piece.layer) for piece in pieces}
    whole = types.LayerUse(WHOLE, trace.budget_tokens, trace.used_tokens)
    return (*(layer for layer in trace.layers if layer.name in names), whole)


def _served_before(trace: Trace, lost: list[types.Fragment]) -> list[types.Fragment]:
    """Return the pieces served before those that did not fit, most important first.

    If their layer had room left, the prompt as a whole was full.
    """
    if not lost:
        return []
    full = _full_layers(trace, lost)
    lowest = min(piece.priority for piece in lost)
    found = [
        piece
        for piece in trace.contributions
        if piece.kept and piece.priority >= lowest and piece not in lost
    ]
    found = [piece for piece in found if piece.layer in full] if full else found
    return sorted(found, key=lambda piece: -piece.priority)


def _full_layers(trace: Trace, lost: list[types.Fragment]) -> set[str]:
    left = {layer.name: layer.budget_tokens - layer.used_tokens for layer in trace.layers}
    wanted = ((str(piece.layer), piece.offered_tokens - piece.tokens) for piece in lost)
    return {name for name, tokens in wanted if tokens > left.get(name, 0)}


def _check_exists(familiar: Familiar, subject: types.Subject) -> None:
    if subject.rel_path is not None:
        familiar.memory.read_bytes(subject.rel_path)
    elif familiar.history.turn(subject.turn_id or 0) is None:
        last = familiar.history.last_turn()
        hint = f"The newest is turn {last.id}." if last else 'Run `familiar ask "Hello"`.'
        raise NotFoundError(f"No such turn: {subject.turn_id}", hint=hint)


def _why_absent(familiar: Familiar, trace: Trace, subject: types.Subject) -> list[str]:
    if subject.turn_id is not None and subject.turn_id == trace.reply_turn:
        return ["It is the reply to this prompt."]
    providers = _explaining_providers(familiar, trace)
    request = _restore_request(familiar, trace)
    answers = [(provider, provider.why_not(subject, request)) for provider in providers]
    reasons = [_give_reason(trace, p, answer) for p, answer in answers if answer is not None]
    if not reasons:
        reasons = ["No provider reads it. The providers are:"]
        reasons += [f"{provider.name}: {provider.looks_at}" for provider in providers]
    return [*reasons, *_failed_parts(trace, providers)]


def _explaining_providers(familiar: Familiar, trace: Trace) -> list[Explains]:
    from familiar_cli.actions.talk.prompt import pipeline, turn_setup
    from familiar_cli.context.request import Explains

    setup = turn_setup(familiar, trace.channel_id, trace.modality)
    providers = pipeline(familiar, setup).providers
    return [provider for provider in providers if isinstance(provider, Explains)]


def _give_reason(trace: Trace, provider: Explains, answer: str) -> str:
    report = next((r for r in trace.providers if r.name == provider.name), None)
    if report is None:
        return f"{provider.name}: it was not used for this prompt."
    if report.verdict != "answered":
        fate = f"it {_verdict_text(report.verdict)} ({report.reason})"
        return f"{provider.name}: {fate}, so nothing it would have offered is included."
    if answer:
        return f"{provider.name}: {answer}."
    return f"{provider.name}: it would offer it now, but did not then; something has changed since."


def _verdict_text(verdict: str) -> str:
    return "was late" if verdict == "late" else "failed"


def _failed_parts(trace: Trace, providers: list[Explains]) -> list[str]:
    """Describe each provider that failed and whose sources are unknown."""
    known = {provider.name for provider in providers}
    return [
        f"{report.name}: it {_verdict_text(report.verdict)},"
        " and what it would have offered is unknown."
        for report in trace.providers
        if report.verdict != "answered" and report.name not in known
    ]


def _restore_request(familiar: Familiar, trace: Trace) -> ContextRequest:
    """Rebuild the request, as far as trace and history allow."""
    from familiar_cli.context.request import ContextRequest
    from familiar_cli.context.turn import labels_in
    from familiar_cli.store.history.rows import place_of

    turn = familiar.history.turn(trace.turn) if trace.turn is not None else None
    said = [piece.text for piece in trace.contributions if piece.source == "utterance"]
    return ContextRequest(
        familiar_id=trace.familiar,
        channel_id=trace.channel_id,
        author=turn.author if turn else None,
        utterance=turn.content if turn else "".join(said),
        modality=types.Modality(trace.modality),
        at=trace.at,
        budget_tokens=trace.budget_tokens,
        viewer=familiar.privacy.viewer_in(trace.channel_id, turn.author if turn else None),
        layer_tokens={types.Layer(u.name): u.share_tokens or u.budget_tokens for u in trace.layers},
        most_content=next(
            (u.budget_tokens for u in trace.layers if u.name == types.Layer.content), 0
        ),
        before_id=place_of(turn) if turn else trace.turn,
        tier=trace.tier,
        labels=labels_in(
            familiar.history, trace.channel_id, familiar.name, familiar.me(trace.channel_id)
        ),
        phrases=familiar.phrases,
    )


def _file_change(familiar: Familiar, subject: types.Subject, pieces: list[types.Fragment]) -> str:
    """Describe how an offered file has changed since."""
    if subject.rel_path is None:
        return ""
    then = {piece.sha256 for piece in pieces if piece.sha256}
    try:
        now = familiar.memory.sha256(subject.rel_path)
    except FamiliarError as error:
        return str(error)
    if now is None:
        return "The file no longer exists."
    return "The file has changed since." if then and now not in then else ""


def _newer_file(familiar: Familiar, trace: Trace, subject: types.Subject) -> str:
    if subject.rel_path is None:
        return ""
    try:
        changed = since_1970((familiar.memory.root / subject.rel_path).stat().st_mtime)
    except OSError:
        return ""
    if changed <= trace.at:
        return ""
    return (
        f"The file was written at {iso(changed)}, after the prompt was made at {iso(trace.at)}; "
        "its earlier content is unknown."
    )


class ReplayedReply(Struct, frozen=True):
    """A reply and its metadata.

    Args:
        url: The server.
        model: The model, as named by the server.
        text: Its text; for the old reply, as stored in the history.
        elapsed_ms: Its duration.
        finish_reason: Why it ended.
        usage: Token usage, if reported.
    """

    url: str
    model: str
    text: str
    elapsed_ms: float | None
    finish_reason: str | None
    usage: Usage | None


class Replayed(Struct, frozen=True):
    """A request that was sent again.

    Args:
        turn: Its turn.
        slot: The slot whose server, key and limits were used.
        sent_model: The model requested now.
        model_then: The model requested then.
        url_then: The server used then.
        then: The old reply, if any.
        now: The new reply.
        error_then: Why the old reply is incomplete.
    """

    turn: int | None
    slot: str
    sent_model: str
    model_then: str
    url_then: str
    then: ReplayedReply | None
    now: ReplayedReply
    error_then: str

    @property
    def differences(self) -> tuple[str, ...]:
        """Differences between the two requests; empty if there are none."""
        found = []
        if self.sent_model != self.model_then:
            found.append(f"model: {self.model_then!r} became {self.sent_model!r}")
        if self.now.url != self.url_then:
            found.append(f"server: {self.url_then} became {self.now.url}")
        return tuple(found)

    @property
    def diff(self) -> str:
        """The unified diff of the replies; empty if they are equal or one is missing."""
        if self.then is None:
            return ""
        before, after = (f"{said.text.rstrip()}\n" for said in (self.then, self.now))
        return unified(before, after, "then", "now").rstrip("\n")

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        same_bytes = self.sent_model == self.model_then
        more = {"same_bytes": same_bytes, "differences": self.differences, "diff": self.diff}
        return {**asdict(self), **more}


async def replay_trace(
    familiar: Familiar,
    trace: Trace,
    *,
    slot: str | None = None,
    model: str | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Replayed:
    """Send the request of `trace` again and return both replies.

    The same bytes are sent, unless another model is requested: then that one field differs.

    Args:
        familiar: The familiar.
        trace: The trace.
        slot: The slot whose server, key and model are used; None for the main one's server and key,
            and the model in the trace.
        model: The model to request instead.
        on_wait: Called with a message before a busy server is retried.

    Raises:
        NotFoundError: Nothing was sent for this turn.
        ConfigError: The server is not configured.
        ModelError: There is no complete reply.
    """
    from familiar_cli.llm.slots import check_usable

    sent = sent_of(trace)
    chosen = familiar.models.slot(slot or "main")
    chosen = replace(chosen, model=model or (chosen.model if slot else sent.model))
    check_usable(chosen)
    request, completion, elapsed_ms = await _send_again(sent, chosen, on_wait)
    if not completion.text.strip():
        why = f" ({completion.finish_reason})" if completion.finish_reason else ""
        raise BadReplyError(f"The model {chosen.model!r} returned an empty reply{why}")
    return Replayed(
        turn=trace.turn,
        slot=chosen.slot,
        sent_model=chosen.model,
        model_then=sent.model,
        url_then=sent.url,
        then=_recorded_reply(familiar, trace, sent),
        now=ReplayedReply(
            request.url,
            completion.model,
            completion.text,
            elapsed_ms,
            completion.finish_reason,
            completion.usage,
        ),
        error_then=trace.error,
    )


async def _send_again(
    sent: PreparedRequest, slot: ResolvedSlot, on_wait: Callable[[str], None] | None
) -> tuple[PreparedRequest, Completion, float]:
    from familiar_cli.base.config.home import cache_dir
    from familiar_cli.base.times.clock import stopwatch_s
    from familiar_cli.llm.open import open_model

    body = sent.body if slot.model == sent.model else with_model(sent.body, slot.model)
    model = open_model(slot, cache_dir=cache_dir(), on_wait=on_wait)
    try:
        request = PreparedRequest(model.prepare(()).url, slot.model, sent.stream, body)
        start = stopwatch_s()
        completion = await model.complete(request)
        return request, completion, round(1000 * (stopwatch_s() - start), 3)
    finally:
        await model.aclose()


def _recorded_reply(
    familiar: Familiar, trace: Trace, sent: PreparedRequest
) -> ReplayedReply | None:
    turn = familiar.history.turn(trace.reply_turn) if trace.reply_turn is not None else None
    if turn is None:
        return None
    return ReplayedReply(
        sent.url, trace.model, turn.content, trace.reply_ms, trace.finish_reason, trace.usage
    )
