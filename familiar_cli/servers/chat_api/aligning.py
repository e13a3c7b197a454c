"""Align a chat program's messages with a stored conversation. Pure functions.

A chat program sends its whole conversation with each request and does not say what it changed. The
request is aligned with the stored conversation: the same beginning followed by a new message
continues it; the same last question asks for another reply; a different past makes a branch; a
missing beginning was cut off by the program to save tokens and is not an edit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from msgspec import Struct

from familiar_cli.base.who.identity import Author
from familiar_cli.store.history.same_message import is_same_text, normal_words

Step = Literal["say", "answer", "again", "branch"]

_TRUSTED_LINES: Final = 3  # a run of this length is no coincidence
_TRUSTED_CHARS: Final = 40  # nor is this much text
_MOST_STEPS: Final = 2_000_000  # thousands of equal lines form too many runs


@dataclass(frozen=True, slots=True)
class RequestLine:
    """One message of a request.

    Args:
        role: As in stored turns; `assistant` is the familiar, `system` a narrator.
        name: The speaker's name as the program sent it; empty if unknown.
        author: The author, if neither the familiar nor the current speaker.
    """

    role: Literal["user", "assistant", "system"]
    text: str
    name: str = field(default="", compare=False)
    author: Author | None = field(default=None, compare=False)


class KeptLine(Struct, frozen=True):
    """One turn of a stored conversation.

    Args:
        turn_id: The turn's id.
        role: The author's role.
        alternatives: Texts of the turns that it replaced or that could replace it, by id.
        is_greeting: The familiar opened the conversation with it; a program may not know it.
    """

    turn_id: int
    role: str
    text: str
    alternatives: Mapping[int, str]
    is_greeting: bool = False


class Placement(Struct, frozen=True):
    """Where a request belongs in a conversation, and what to do with it.

    Args:
        step: `say` the new message; `answer` a stored message without a reply; generate another
            reply (`again`); or `branch` and say the message there.
        common: Length of the aligned run of lines.
        is_whole: Whether the run starts at the beginning of the conversation.
        after: The last turn that both have, if any.
        question: The stored turn to answer, for `answer` and `again`.
        reply: The turn that the new reply replaces, for `again`.
        chosen: The alternative reply that the program shows.
        revised: The turn that was edited in the program; `words` has its new text.
        words: See `revised`.
        unknown: The request's lines that are not stored yet, oldest first.
    """

    step: Step
    common: int
    is_whole: bool
    after: int | None = None
    question: int | None = None
    reply: int | None = None
    chosen: int | None = None
    revised: int | None = None
    words: str = ""
    unknown: tuple[RequestLine, ...] = ()


def align_lines(lines: Sequence[RequestLine], kept: Sequence[KeptLine]) -> Placement | None:
    """Place the last of `lines` in a stored conversation; None if it belongs elsewhere.

    Args:
        lines: The request's lines, oldest first; the last is the current message.
        kept: The stored conversation as it stands, oldest first.
    """
    past, line = lines[:-1], lines[-1]
    start, common = _best_run(past, kept)
    is_whole = start <= _first_place(kept)
    if not is_whole and not _is_trusted(past[:common]):
        return None
    if past and not common:
        return None
    return _make_placement(past, line, kept, start, common, is_whole=is_whole)


def _make_placement(
    past: Sequence[RequestLine],
    line: RequestLine,
    lines: Sequence[KeptLine],
    start: int,
    common: int,
    *,
    is_whole: bool,
) -> Placement:
    end = start + common
    unknown, ahead = tuple(past[common:]), lines[end:]
    last = lines[end - 1] if common else None
    after = last.turn_id if last else None
    chosen = _find_alternative(past[common - 1], last) if last and end == len(lines) else None

    def placed(step: Step, **more: object) -> Placement:
        return Placement(step, common, is_whole, after, **more)  # type: ignore[arg-type]

    if not unknown and not ahead:
        return placed("say", chosen=chosen)
    if not unknown and _is_same(line, ahead[0]):
        if len(ahead) == 1:
            return placed("answer", question=ahead[0].turn_id)
        if len(ahead) == 2 and ahead[1].role == "assistant":  # noqa: PLR2004  # and its reply
            return placed("again", question=ahead[0].turn_id, reply=ahead[1].turn_id)
    if not ahead:
        return placed("say", unknown=unknown)
    if len(unknown) == len(ahead) == 1 and unknown[0].role == ahead[0].role == "assistant":
        return placed("say", revised=ahead[0].turn_id, words=unknown[0].text)
    return placed("branch", unknown=unknown)


def _best_run(past: Sequence[RequestLine], lines: Sequence[KeptLine]) -> tuple[int, int]:
    """Find the longest run in `lines` that starts like `past`; return its start and length.

    Of equally long runs, one at the beginning wins, else the latest.
    """
    first = _first_place(lines)
    if not past:
        return (first, 0)
    compared = _Comparison(past, lines)
    best = (first if first and not compared.is_same(0, 0) else 0, 0)
    for start in range(len(lines)):
        length = 0
        while (
            length < len(past)
            and start + length < len(lines)
            and compared.is_same(length, start + length)
        ):
            length += 1
        if length > best[1] or (length == best[1] and length and best[0] > first):
            best = (start, length)
        if compared.steps > _MOST_STEPS or (start <= first and length == len(past)):
            break
    return best


class _Comparison:
    """Compares request lines with stored ones, normalising each text once.

    Args:
        past: The request's lines.
        kept: The stored lines.
    """

    def __init__(self, past: Sequence[RequestLine], kept: Sequence[KeptLine]) -> None:
        self._said = [(line.role, normal_words(line.text)) for line in past]
        self._kept = [
            (line.role, tuple(map(normal_words, (line.text, *line.alternatives.values()))))
            for line in kept
        ]
        self.steps = 0

    def is_same(self, number: int, of_kept: int) -> bool:
        """Tell whether two lines have the same text."""
        self.steps += 1
        (role, said), (kept_role, texts) = self._said[number], self._kept[of_kept]
        return role == kept_role and any(is_same_text(said, text, role) for text in texts)


def _first_place(lines: Sequence[KeptLine]) -> int:
    return 1 if lines and lines[0].is_greeting else 0


def _is_trusted(run: Sequence[RequestLine]) -> bool:
    chars = sum(len(line.text) for line in run)
    return len(run) >= _TRUSTED_LINES or (len(run) > 1 and chars >= _TRUSTED_CHARS)


def _is_same(line: RequestLine, kept: KeptLine) -> bool:
    if line.role != kept.role:
        return False
    said = normal_words(line.text)
    texts = (kept.text, *kept.alternatives.values())
    return any(is_same_text(said, normal_words(text), line.role) for text in texts)


def _find_alternative(line: RequestLine, kept: KeptLine) -> int | None:
    """Find the alternative turn that a program shows in place of the standing one."""
    said = normal_words(line.text)
    if is_same_text(said, normal_words(kept.text), line.role):
        return None
    return next(
        (
            turn_id
            for turn_id, text in kept.alternatives.items()
            if is_same_text(said, normal_words(text), line.role)
        ),
        None,
    )
