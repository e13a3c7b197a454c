"""Why a memory file, or a turn, was in a prompt or was not.

What was offered and what became of it stands in the record. Why something was not offered is for
the providers to say; they are asked as they are now, and the answer says where that may differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from familiar_cli.clock import iso
from familiar_cli.context.types import Subject
from familiar_cli.errors import FamiliarError, NotFoundError, UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from familiar_cli.context.protocols import Explains
    from familiar_cli.context.trace import Trace, TracedContribution
    from familiar_cli.context.types import ContextRequest, LayerUse
    from familiar_cli.familiar import Familiar

Verdict = Literal["kept", "cut", "out", "absent"]
WHOLE: Final = "prompt"
"""What the whole prompt is called among its layers."""

_TURN: Final = re.compile(r"(?:turns?:)?\s*((?:[-a-z0-9]+:)?\d+)")


@dataclass(frozen=True, slots=True)
class Why:
    """The answer.

    Args:
        turn: The turn whose prompt it is about; None for a prompt that was not sent.
        subject: What was asked about: a path below `memory/`, or `turn:12`.
        verdict: `kept`, `cut` (some of it is in the prompt), `out` (it was offered, and nothing of
            it is), or `absent` (nothing of it was offered).
        contributions: What was offered of it.
        layers: The layers that it was paid from, or would have been.
        rivals: What was served before it from those layers, if something of it had no room.
        reasons: Why it is not all there, a sentence each.
        since: What has happened to the file since then; empty: nothing.
    """

    turn: int | None
    subject: str
    verdict: Verdict
    contributions: tuple[TracedContribution, ...] = ()
    layers: tuple[LayerUse, ...] = ()
    rivals: tuple[TracedContribution, ...] = ()
    reasons: tuple[str, ...] = ()
    since: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        from dataclasses import asdict

        return asdict(self)


def why(familiar: Familiar, trace: Trace, asked: str) -> Why:
    """Return why `asked` was, or was not, in the prompt of `trace`.

    Args:
        familiar: Whose prompt it is.
        trace: Its record.
        asked: A path below `memory/`, or `turn:12`, or `turn:laptop-7f3a:12`.

    Raises:
        NotFoundError: There is no such file or turn, and nothing in the record came from it.
        UsageError: It is neither.
        UnsafePathError: The path leads outside the memory.
    """
    subject = _subject(familiar, asked)
    pieces = _pieces(familiar, trace, subject)
    if pieces:
        return _offered(familiar, trace, subject, pieces)
    _check_exists(familiar, subject)
    reasons = _why_absent(familiar, trace, subject)
    since = _newer(familiar, trace, subject)
    return Why(trace.turn, _name(subject), "absent", reasons=tuple(reasons), since=since)


def _subject(familiar: Familiar, asked: str) -> Subject:
    from familiar_cli.memory.store.paths import parse

    found = _TURN.fullmatch(asked.strip())
    if found:
        return Subject(turn_id=familiar.turn_number(found[1]))
    rel_path = parse(asked)
    if not rel_path:
        raise UsageError(
            "--why requires a memory file or a turn",
            hint="`--why self/description.md`, `--why turn:12`.",
        )
    return Subject(rel_path)


def _name(subject: Subject) -> str:
    return subject.rel_path or f"turn:{subject.turn_id}"


def _pieces(familiar: Familiar, trace: Trace, subject: Subject) -> list[TracedContribution]:
    if subject.rel_path is not None:
        return [piece for piece in trace.contributions if piece.rel_path == subject.rel_path]
    sources = _without_number(familiar, trace, subject)
    return [
        piece
        for piece in trace.contributions
        if piece.turn_id == subject.turn_id or (piece.turn_id is None and piece.source in sources)
    ]


def _without_number(familiar: Familiar, trace: Trace, subject: Subject) -> set[str]:
    """Return as which sources a turn is there that had no number yet when it was offered."""
    if subject.turn_id == trace.turn:
        return {"utterance"}
    turn = familiar.history.turn(subject.turn_id or 0)
    opened = turn and turn.source == "greeting" and turn.channel_id == trace.channel_id
    return {"history.greeting"} if opened else set()


def _offered(
    familiar: Familiar, trace: Trace, subject: Subject, pieces: list[TracedContribution]
) -> Why:
    lost = [piece for piece in pieces if piece.reason and piece.offered_tokens]
    return Why(
        turn=trace.turn,
        subject=_name(subject),
        verdict=_verdict(pieces),
        contributions=tuple(pieces),
        layers=_paid_from(trace, pieces),
        rivals=tuple(_rivals(trace, lost)),
        reasons=tuple(dict.fromkeys(piece.reason for piece in pieces if piece.reason)),
        since=_changed(familiar, subject, pieces),
    )


def _verdict(pieces: list[TracedContribution]) -> Verdict:
    if not any(piece.kept for piece in pieces):
        return "out"
    return "cut" if any(piece.reason for piece in pieces) else "kept"


def _paid_from(trace: Trace, pieces: list[TracedContribution]) -> tuple[LayerUse, ...]:
    """Return the layers of `pieces`, and the prompt as a whole."""
    from familiar_cli.context.types import LayerUse

    names = {str(piece.layer) for piece in pieces}
    whole = LayerUse(WHOLE, trace.budget_tokens, trace.used_tokens)
    return (*(layer for layer in trace.layers if layer.name in names), whole)


def _rivals(trace: Trace, lost: list[TracedContribution]) -> list[TracedContribution]:
    """Return what was served before those that had no room, the most important first.

    Where their layer had room left, it is the prompt as a whole that was full.
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


def _full_layers(trace: Trace, lost: list[TracedContribution]) -> set[str]:
    left = {layer.name: layer.budget_tokens - layer.used_tokens for layer in trace.layers}
    wanted = ((str(piece.layer), piece.offered_tokens - piece.tokens) for piece in lost)
    return {name for name, tokens in wanted if tokens > left.get(name, 0)}


def _check_exists(familiar: Familiar, subject: Subject) -> None:
    if subject.rel_path is not None:
        familiar.memory.read_bytes(subject.rel_path)
    elif familiar.history.turn(subject.turn_id or 0) is None:
        last = familiar.history.last_turn()
        hint = f"The newest is turn {last.id}." if last else 'Run `familiar ask "Hello"`.'
        raise NotFoundError(f"No such turn: {subject.turn_id}", hint=hint)


def _why_absent(familiar: Familiar, trace: Trace, subject: Subject) -> list[str]:
    if subject.turn_id is not None and subject.turn_id == trace.reply_turn:
        return ["It is the reply to this prompt."]
    providers = _explaining(familiar, trace)
    request = _request(familiar, trace)
    answers = [(provider, provider.why_not(subject, request)) for provider in providers]
    reasons = [_reason(trace, p, answer) for p, answer in answers if answer is not None]
    if not reasons:
        reasons = ["No provider reads it. The providers are:"]
        reasons += [f"{provider.name}: {provider.looks_at}" for provider in providers]
    return [*reasons, *_silent(trace, providers)]


def _explaining(familiar: Familiar, trace: Trace) -> list[Explains]:
    from familiar_cli.actions.prompt import pipeline, turn_setup
    from familiar_cli.context.protocols import Explains

    setup = turn_setup(familiar, trace.channel_id, trace.modality)
    providers = pipeline(familiar, setup).providers
    return [provider for provider in providers if isinstance(provider, Explains)]


def _reason(trace: Trace, provider: Explains, answer: str) -> str:
    report = next((r for r in trace.providers if r.name == provider.name), None)
    if report is None:
        return f"{provider.name}: it was not used for this prompt."
    if report.verdict != "answered":
        fate = f"it {_fate(report.verdict)} ({report.reason})"
        return f"{provider.name}: {fate}, so nothing it would have offered is included."
    if answer:
        return f"{provider.name}: {answer}."
    return f"{provider.name}: it would offer it now, but did not then; something has changed since."


def _fate(verdict: str) -> str:
    return "was late" if verdict == "late" else "failed"


def _silent(trace: Trace, providers: list[Explains]) -> list[str]:
    """Return a line for each part that failed, and that cannot be asked what it looks at."""
    known = {provider.name for provider in providers}
    return [
        f"{report.name}: it {_fate(report.verdict)}, and what it would have offered is unknown."
        for report in trace.providers
        if report.verdict != "answered" and report.name not in known
    ]


def _request(familiar: Familiar, trace: Trace) -> ContextRequest:
    """Return the request as it was, as far as the record and the history still know it."""
    from familiar_cli.context.turn import labels_in
    from familiar_cli.context.types import ContextRequest, Layer, Modality
    from familiar_cli.history.types import place_of

    turn = familiar.history.turn(trace.turn) if trace.turn is not None else None
    said = [piece.text for piece in trace.contributions if piece.source == "utterance"]
    return ContextRequest(
        familiar_id=trace.familiar,
        channel_id=trace.channel_id,
        author=turn.author if turn else None,
        utterance=turn.content if turn else "".join(said),
        modality=Modality(trace.modality),
        at=trace.at,
        budget_tokens=trace.budget_tokens,
        viewer=familiar.privacy.viewer_in(trace.channel_id, turn.author if turn else None),
        layer_tokens={Layer(u.name): u.share_tokens or u.budget_tokens for u in trace.layers},
        before_id=place_of(turn) if turn else trace.turn,
        tier=trace.tier,
        labels=labels_in(
            familiar.history, trace.channel_id, familiar.name, familiar.me(trace.channel_id)
        ),
        phrases=familiar.phrases,
    )


def _changed(familiar: Familiar, subject: Subject, pieces: list[TracedContribution]) -> str:
    """Return what has become of a file that something was offered of."""
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


def _newer(familiar: Familiar, trace: Trace, subject: Subject) -> str:
    changed = _modified(familiar, subject)
    if changed is None or changed <= trace.at:
        return ""
    return (
        f"The file was written at {iso(changed)}, after the prompt was made at {iso(trace.at)}; "
        "its earlier content is unknown."
    )


def _modified(familiar: Familiar, subject: Subject) -> datetime | None:
    from familiar_cli.clock import since_1970

    if subject.rel_path is None:
        return None
    try:
        status = (familiar.memory.root / subject.rel_path).stat()
    except OSError:
        return None
    return since_1970(status.st_mtime)
