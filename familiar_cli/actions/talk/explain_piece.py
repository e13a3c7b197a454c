"""Explain why a piece of memory was in a prompt, or why it was not."""

from __future__ import annotations

import re
from typing import Final, Literal

from msgspec import Struct

from familiar_cli.actions.talk.prompt import pipeline
from familiar_cli.actions.talk.turn_setup import turn_setup
from familiar_cli.base.errors import FamiliarError, NotFoundError, UsageError
from familiar_cli.base.times.clock import iso, since_1970
from familiar_cli.base.who.visibility import Viewer
from familiar_cli.context import types
from familiar_cli.context.request import ContextRequest, Explains
from familiar_cli.context.trace import Trace
from familiar_cli.context.turn import labels_in
from familiar_cli.familiar import Familiar
from familiar_cli.store.history.rows import place_of
from familiar_cli.store.memory.layout import told_path
from familiar_cli.store.memory.pages.visible_lines import private_spans, sha256_seen, visible_in
from familiar_cli.store.memory.store.files import parse_path

Verdict = Literal["kept", "cut", "out", "absent"]
WHOLE: Final = "prompt"
"""What the whole prompt is called among its layers."""

_TURN: Final = re.compile(r"(?:turns?:)?\s*((?:[^\s/.]+:)?\d+)")


class Why(Struct, frozen=True):
    """Why a file or turn was in a prompt, or was not.

    Args:
        turn: The prompt's turn; None for a prompt that was not sent.
        subject: The subject: a path below `memory/`, or `turn:12`.
        verdict: `kept`, `cut` (partly in the prompt), `out` (offered, but not in it), or `absent`
            (not offered).
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


def explain_piece(familiar: Familiar, trace: Trace, question: str, *, viewer: Viewer) -> Why:
    """Explain why `question` was in the prompt of `trace`, or was not.

    Of a page that is hidden in part, it only tells whether what is visible was sent: a reason may
    rest on the rest.

    Args:
        question: A path below `memory/`, or `turn:12`, or `turn:laptop-7f3a:12`.
        viewer: Who asks.

    Raises:
        NotFoundError: No such file or turn is visible, and nothing in the trace came from it.
        UsageError: It is neither.
        UnsafePathError: The path leads outside the memory.
    """
    subject = _find_subject(familiar, question)
    hides_some = not viewer.sees_everything and _check_visible(familiar, subject, viewer)
    pieces = _pieces_of(familiar, trace, subject)
    pieces = [piece for piece in pieces if is_piece_visible(familiar, piece, viewer)]
    if pieces:
        return _explain_offered(familiar, trace, subject, pieces)
    if hides_some:
        return Why(trace.turn, _subject_name(subject), "absent")
    _check_exists(familiar, subject)
    reasons = _why_absent(familiar, trace, subject)
    since = _newer_file(familiar, trace, subject)
    return Why(trace.turn, _subject_name(subject), "absent", reasons=tuple(reasons), since=since)


def _check_visible(familiar: Familiar, subject: types.Subject, viewer: Viewer) -> bool:
    """Tell whether a viewer sees only a part of what is asked about.

    Raises:
        NotFoundError: They see nothing of it; the error does not say whether it exists.
    """
    if subject.rel_path is None:
        turn = familiar.history.turn(subject.turn_id or 0)
        if turn is None or not viewer.sees_turn(turn):
            raise NotFoundError(f"No open channel has a turn {subject.turn_id}")
        return False
    text = familiar.memory.readable(subject.rel_path)
    if not visible_in(text, viewer, subject.rel_path).strip():
        raise NotFoundError(f"There is no memory file {told_path(subject.rel_path)!r}")
    return bool(private_spans(text, viewer, subject.rel_path))


def is_piece_visible(familiar: Familiar, piece: types.Fragment, viewer: Viewer) -> bool:
    """Tell whether a viewer sees all sources of a piece now."""
    if viewer.sees_everything:
        return True
    first, last = piece.turns or (piece.turn_id or 0, piece.turn_id or -1)
    turns = (familiar.history.turn(number) for number in range(first, last + 1))
    if not all(turn is None or viewer.sees_turn(turn) for turn in turns):
        return False
    if not piece.rel_path:
        return True
    try:
        text = familiar.memory.read_file(piece.rel_path)
        return not private_spans(text, viewer, piece.rel_path)
    except FamiliarError:  # no longer known
        return False


def _find_subject(familiar: Familiar, question: str) -> types.Subject:

    match = _TURN.fullmatch(question.strip())
    if match:
        return types.Subject(turn_id=familiar.turn_number(match[1]))
    rel_path = parse_path(question)
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
    fragments = [piece for piece in pieces if piece.reason and piece.offered_tokens]
    verdict: Verdict = "cut" if any(piece.reason for piece in pieces) else "kept"
    if not any(piece.kept for piece in pieces):
        verdict = "out"
    return Why(
        turn=trace.turn,
        subject=_subject_name(subject),
        verdict=verdict,
        contributions=tuple(pieces),
        layers=_paid_from(trace, pieces),
        rivals=tuple(_served_before(trace, fragments)),
        reasons=tuple(dict.fromkeys(piece.reason for piece in pieces if piece.reason)),
        since=_file_change(familiar, trace, subject, pieces),
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
    fragments = [
        piece
        for piece in trace.contributions
        if piece.kept and piece.priority >= lowest and piece not in lost
    ]
    fragments = [piece for piece in fragments if piece.layer in full] if full else fragments
    return sorted(fragments, key=lambda piece: -piece.priority)


def _full_layers(trace: Trace, fragments: list[types.Fragment]) -> set[str]:
    left = {layer.name: layer.budget_tokens - layer.used_tokens for layer in trace.layers}
    wanted = ((str(piece.layer), piece.offered_tokens - piece.tokens) for piece in fragments)
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

    setup = turn_setup(familiar, trace.channel_id, trace.modality)
    providers = pipeline(familiar, setup).providers
    return [provider for provider in providers if isinstance(provider, Explains)]


def _give_reason(trace: Trace, provider: Explains, answer: str) -> str:
    report = next((r for r in trace.providers if r.name == provider.name), None)
    if report is None:
        return f"{provider.name}: it was not used for this prompt."
    if report.verdict != "answered":
        fate = f"it {_verdict_text(report.verdict)} ({report.reason})"
        return f"{provider.name}: {fate}, so nothing that it would have offered is included."
    if answer:
        return f"{provider.name}: {answer}."
    return (
        f"{provider.name}: it would offer this now, but did not then; something has changed since."
    )


def _verdict_text(verdict: str) -> str:
    return "was late" if verdict == "late" else "failed"


def _failed_parts(trace: Trace, providers: list[Explains]) -> list[str]:
    """Describe each provider that failed and whose sources are unknown."""
    names = {provider.name for provider in providers}
    return [
        f"{report.name}: it {_verdict_text(report.verdict)}, so what it would offer is unknown."
        for report in trace.providers
        if report.verdict != "answered" and report.name not in names
    ]


def _restore_request(familiar: Familiar, trace: Trace) -> ContextRequest:
    """Rebuild the request, as far as trace and history allow."""
    turn = familiar.history.turn(trace.turn) if trace.turn is not None else None
    texts = [piece.text for piece in trace.contributions if piece.source == "utterance"]
    viewer = familiar.privacy.viewer_in(trace.channel_id, turn.author if turn else None)
    return ContextRequest(
        familiar_id=trace.familiar,
        channel_id=trace.channel_id,
        author=turn.author if turn else None,
        utterance=turn.content if turn else "".join(texts),
        modality=types.Modality(trace.modality),
        at=trace.at,
        budget_tokens=trace.budget_tokens,
        viewer=viewer,
        layer_tokens={types.Layer(u.name): u.share_tokens or u.budget_tokens for u in trace.layers},
        most_content=next(
            (u.budget_tokens for u in trace.layers if u.name == types.Layer.content), 0
        ),
        before_id=place_of(turn) if turn else trace.turn,
        tier=trace.tier,
        labels=labels_in(
            familiar.history, trace.channel_id, familiar.name, familiar.me(trace.channel_id), viewer
        ),
        phrases=familiar.phrases,
    )


def _file_change(
    familiar: Familiar, trace: Trace, subject: types.Subject, pieces: list[types.Fragment]
) -> str:
    """Describe how an offered file has changed since."""
    if subject.rel_path is None:
        return ""
    then = {piece.sha256 for piece in pieces if piece.sha256}
    try:
        now = familiar.memory.sha256(subject.rel_path)
        text = familiar.memory.read_file(subject.rel_path) if now else ""
    except FamiliarError as error:
        return str(error)
    if now is None:
        return "The file no longer exists."
    viewer = _restore_request(familiar, trace).viewer
    now = sha256_seen(text, now, viewer, subject.rel_path)
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
