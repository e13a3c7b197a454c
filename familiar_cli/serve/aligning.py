"""Where in a kept conversation the messages of a chat program stand. Pure: values in, values out.

A chat program sends its whole conversation each time and says nothing of what it did to it. What it
sends is laid beside what is kept: the same beginning and a new message go on; the same question
again wants another reply; another past is a branch; a beginning that is missing was cut off by the
program, to save tokens, and is not an edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from familiar_cli.history.matching import normal_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from familiar_cli.identity import Author

Step = Literal["say", "answer", "again", "branch"]

_TRUSTED_LINES: Final = 3  # so many in a row are no coincidence
_TRUSTED_CHARS: Final = 40  # nor is so much text
_MOST_STEPS: Final = 2_000_000  # thousands of equal lines stand in a row in too many places
_KEPT_SHARE: Final = 0.5  # of a reply whose end a program has cut


@dataclass(frozen=True, slots=True)
class RequestLine:
    """One message of a conversation: who says it, and the words.

    Args:
        role: As what it is kept; `assistant` is the familiar, `system` a narrator.
        text: The words.
        name: Who says it, in the program's words; empty: it does not say.
        author: Who says it, where that is neither the familiar nor whoever speaks now.
    """

    role: Literal["user", "assistant", "system"]
    text: str
    name: str = field(default="", compare=False)
    author: Author | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class KeptLine:
    """One turn of a kept conversation.

    Args:
        turn_id: Its number.
        role: Who says it.
        text: The words.
        alternatives: The words of the turns that it replaced or that could stand in its place, by
            number.
        is_greeting: The familiar opened the conversation with it, and a program may not know it.
    """

    turn_id: int
    role: str
    text: str
    alternatives: Mapping[int, str]
    is_greeting: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """What is to be done in a conversation with what a program sent.

    Args:
        step: `say` what is new; `answer` a kept message that has no reply; give another reply
            `again`; or `branch` off, and say it there.
        common: How many lines of the program's stand in a row in the conversation.
        is_whole: They reach from the conversation's beginning.
        after: The last turn that both have; None: there is none.
        question: The kept turn to be answered, for `answer` and `again`.
        reply: The turn whose place the new reply takes, for `again`.
        chosen: The reply that the program holds in place of the one that stands.
        revised: The turn that the program holds in other words, which are in `words`.
        words: See `revised`.
        unknown: The program's lines that are not kept yet, oldest first.
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
    """Return where the last of `lines` belongs in a kept conversation; None: not in this one.

    Args:
        lines: What the program sent, oldest first; the last is what somebody says now.
        kept: The conversation as it stands, oldest first.
    """
    past, said = lines[:-1], lines[-1]
    start, common = _best_run(past, kept)
    is_whole = start <= _first_place(kept)
    if not is_whole and not _is_trusted(past[:common]):
        return None
    if past and not common:
        return None
    return _make_placement(past, said, kept, start, common, is_whole=is_whole)


def _make_placement(
    past: Sequence[RequestLine],
    said: RequestLine,
    kept: Sequence[KeptLine],
    start: int,
    common: int,
    *,
    is_whole: bool,
) -> Placement:
    end = start + common
    unknown, ahead = tuple(past[common:]), kept[end:]
    last = kept[end - 1] if common else None
    after = last.turn_id if last else None
    chosen = _find_alternative(past[common - 1], last) if last and end == len(kept) else None

    def placed(step: Step, **more: object) -> Placement:
        return Placement(step, common, is_whole, after, **more)  # type: ignore[arg-type]

    if not unknown and not ahead:
        return placed("say", chosen=chosen)
    if not unknown and _is_same(said, ahead[0]):
        if len(ahead) == 1:
            return placed("answer", question=ahead[0].turn_id)
        if len(ahead) == 2 and ahead[1].role == "assistant":  # noqa: PLR2004  # and its reply
            return placed("again", question=ahead[0].turn_id, reply=ahead[1].turn_id)
    if not ahead:
        return placed("say", unknown=unknown)
    if len(unknown) == len(ahead) == 1 and unknown[0].role == ahead[0].role == "assistant":
        return placed("say", revised=ahead[0].turn_id, words=unknown[0].text)
    return placed("branch", unknown=unknown)


def _best_run(past: Sequence[RequestLine], kept: Sequence[KeptLine]) -> tuple[int, int]:
    """Return where in `kept` the longest run begins that `past` begins with, and its length.

    Of two that are equally long the one at the beginning counts, else the later one.
    """
    first = _first_place(kept)
    if not past:
        return (first, 0)
    compared = _Comparison(past, kept)
    best = (first if first and not compared.is_same(0, 0) else 0, 0)
    for start in range(len(kept)):
        length = 0
        while (
            length < len(past)
            and start + length < len(kept)
            and compared.is_same(length, start + length)
        ):
            length += 1
        if length > best[1] or (length == best[1] and length and best[0] > first):
            best = (start, length)
        if compared.steps > _MOST_STEPS or (start <= first and length == len(past)):
            break
    return best


class _Comparison:
    """Compares lines of a program's with kept ones, the words of each made comparable once.

    Args:
        past: The program's.
        kept: The kept ones.
    """

    def __init__(self, past: Sequence[RequestLine], kept: Sequence[KeptLine]) -> None:
        self._said = [(line.role, normal_words(line.text)) for line in past]
        self._kept = [
            (line.role, tuple(map(normal_words, (line.text, *line.alternatives.values()))))
            for line in kept
        ]
        self.steps = 0

    def is_same(self, number: int, of_kept: int) -> bool:
        """Tell whether two lines say the same."""
        self.steps += 1
        (role, said), (kept_role, texts) = self._said[number], self._kept[of_kept]
        return role == kept_role and any(_holds_text(said, text, role) for text in texts)


def _first_place(kept: Sequence[KeptLine]) -> int:
    return 1 if kept and kept[0].is_greeting else 0


def _is_trusted(run: Sequence[RequestLine]) -> bool:
    chars = sum(len(line.text) for line in run)
    return len(run) >= _TRUSTED_LINES or (len(run) > 1 and chars >= _TRUSTED_CHARS)


def _is_same(line: RequestLine, kept: KeptLine) -> bool:
    if line.role != kept.role:
        return False
    said = normal_words(line.text)
    texts = (kept.text, *kept.alternatives.values())
    return any(_holds_text(said, normal_words(text), line.role) for text in texts)


def _holds_text(said: str, text: str, role: str) -> bool:
    """Return whether `said` is `text`, or a reply that a program has cut at a sentence."""
    if said == text:
        return True
    is_cut = role == "assistant" and len(said) >= _KEPT_SHARE * len(text) > 0
    return is_cut and text.startswith(said)


def _find_alternative(line: RequestLine, kept: KeptLine) -> int | None:
    """Return the turn whose words a program holds in place of those that stand."""
    said = normal_words(line.text)
    if _holds_text(said, normal_words(kept.text), line.role):
        return None
    return next(
        (
            turn_id
            for turn_id, text in kept.alternatives.items()
            if _holds_text(said, normal_words(text), line.role)
        ),
        None,
    )
