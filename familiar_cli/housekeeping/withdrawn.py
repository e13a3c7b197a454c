"""Lines that rest on turns which were replaced or withdrawn since."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from familiar_cli.housekeeping.lines import DERIVED, MOST_CHARS, Check, Finding, goes_on, quotes
from familiar_cli.markdown import body_start, bullet, comments, scan
from familiar_cli.memory.pages.lines import (
    SAID_SHARE,
    TAG,
    EvidenceText,
    citations_in,
    reference,
    shown_between,
    turn_count,
    turn_ids,
    without_references,
)
from familiar_cli.review.pending import PlannedFile
from familiar_cli.text import counted, sentence_ends

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from familiar_cli.housekeeping.lines import Corpus, MemoryText, Options
    from familiar_cli.markdown import TextLine
    from familiar_cli.memory.pages.lines import Cited, Numbering

_LEAST_SHARE: Final = 0.5  # of a withdrawn line, in a sentence that repeats it
_MOST_REASONS: Final = 3
_MOST_TURNS: Final = 1_000  # of one line; a slip of the pen names millions


def check_withdrawn(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield the files with such lines, and those of days, weeks and digests that repeat them."""
    numbering = options.numbering
    gone, standing = list[str](), list[str]()
    for note in corpus.notes:
        if note.directory in DERIVED or "<!-- turn" not in note.text:
            continue
        lines = [(line, turn_ids(line.text, numbering)) for line in _lines(note)]
        fallen = options.fallen({turn for _, turns in lines for turn in turns})
        for line, _ in lines:
            is_gone = fallen and not numbering.without(citations_in(line.text), fallen)
            (gone if is_gone else standing).append(line.text)
        if fallen:
            yield _finding(note, lines, fallen, numbering)
    if gone:
        repeated = _Repeated(gone, standing)
        for note in corpus.notes:
            if note.directory in DERIVED:
                yield from _repeating(note, repeated)


class _Repeated:
    """Tells sentences that say what only withdrawn lines say.

    Args:
        gone: The lines that rest on no turn that stands.
        standing: The other lines that rest on turns.
    """

    def __init__(self, gone: list[str], standing: list[str]) -> None:
        self._gone = [(text, EvidenceText(text)) for text in map(without_references, gone)]
        self._standing = [EvidenceText(without_references(text)) for text in standing]

    def is_said(self, sentence: str) -> bool:
        """Return whether a sentence says what a withdrawn line says, and no other line."""
        said = EvidenceText(sentence)
        shares = [
            evidence.share(sentence)
            for text, evidence in self._gone
            if said.share(text) >= _LEAST_SHARE
        ]
        most = max(shares, default=0.0)
        return most >= SAID_SHARE and all(one.share(sentence) < most for one in self._standing)


def _repeating(note: MemoryText, repeated: _Repeated) -> Iterator[Finding]:
    """Yield a file that is made of others, if it repeats what was withdrawn."""
    lines: list[str | None] = list(note.text.split("\n"))
    whole, by_hand = list[int](), list[int]()
    start = note.text.count("\n", 0, body_start(note.text))
    for line in scan(note.text):
        if line.level or line.in_code or line.number <= start or len(line.text) > MOST_CHARS:
            continue
        text = TAG.sub("", shown_between(line.text, 0, len(line.text), comments(line.text))).strip(
            " \t\r-*+"
        )
        parts = [text[a:b] for a, b in pairwise([0, *sentence_ends(text), len(text)])]
        said = [repeated.is_said(part) for part in parts if part.strip()]
        if not any(said):
            continue
        texts = note.text.split("\n")
        if all(said) and not _stands_over_others(texts, line.number - 1):
            whole.append(line.number)
            lines[line.number - 1] = None
        else:
            by_hand.append(line.number)
    if not (whole or by_hand):
        return
    after = "\n".join(text for text in lines if text is not None)
    count = len(whole) + len(by_hand)
    yield Finding(
        CHECK.name,
        (note.rel_path,),
        f"{counted(count, 'line')} {'repeats' if count == 1 else 'repeat'} what rests on turns "
        "that no longer stand",
        quotes(note, sorted([*whole, *by_hand])),
        repair=(PlannedFile(note.rel_path, note.text, after),) if whole else (),
        hint=_hint(whole, [], by_hand),
    )


def _lines(note: MemoryText) -> Iterator[TextLine]:
    """Yield the lines of a file that name turns, but not more than anything rests on."""
    for line in scan(note.text):
        is_cited = "<!-- turn" in line.text and not line.in_code
        if is_cited and turn_count(line.text) <= _MOST_TURNS:
            yield line


def _finding(
    note: MemoryText,
    resting: list[tuple[TextLine, tuple[int, ...]]],
    fallen: Mapping[int, str],
    numbering: Numbering,
) -> Finding:
    lines: list[str | None] = list(note.text.split("\n"))
    texts = note.text.split("\n")
    whole, parts, by_hand = list[int](), list[int](), list[int]()
    for line, turns in resting:
        if not any(turn in fallen for turn in turns):
            continue
        left = numbering.without(citations_in(line.text), fallen)
        at = line.number - 1
        if left:
            parts.append(line.number)
            lines[at] = _resting_on(texts[at], left)
        elif line.level or _stands_over_others(texts, at):
            by_hand.append(line.number)
        else:
            whole.append(line.number)
            lines[at] = None
    numbers = sorted([*whole, *parts, *by_hand])
    after = "\n".join(text for text in lines if text is not None)
    gone = {turn for _, turns in resting for turn in turns if turn in fallen}
    return Finding(
        CHECK.name,
        (note.rel_path,),
        f"{_told(whole, parts, by_hand)}: {_reasons(gone, fallen)}",
        quotes(note, numbers),
        repair=(PlannedFile(note.rel_path, note.text, after),) if whole or parts else (),
        hint=_hint(whole, parts, by_hand),
    )


def _resting_on(text: str, turns: Collection[Cited]) -> str:
    """Return a line with these turns as its only evidence."""
    end = "\r" if text.endswith("\r") else ""
    return f"{without_references(text).rstrip()} {reference(turns)}{end}"


def _stands_over_others(texts: list[str], at: int) -> bool:
    """Tell whether a bullet has more than its line, so that it cannot be taken out alone."""
    item = bullet(texts[at])
    return item is not None and goes_on(texts, at, len(item.indent.expandtabs(4)))


def _told(whole: list[int], parts: list[int], by_hand: list[int]) -> str:
    alone, some = len(whole) + len(by_hand), len(parts)
    if not alone:
        return f"{counted(some, 'line')} {_rest(some)} in part on turns that no longer stand"
    and_some = f", and {some} more in part" if some else ""
    return f"{counted(alone, 'line')} {_rest(alone)} on turns that no longer stand{and_some}"


def _rest(count: int) -> str:
    return "rests" if count == 1 else "rest"


def _reasons(gone: Collection[int], fallen: Mapping[int, str]) -> str:
    told = [fallen[turn] for turn in sorted(gone)]
    more = len(told) - _MOST_REASONS
    return ", ".join([*told[:_MOST_REASONS], *([f"and {more} more"] if more > 0 else [])])


def _hint(whole: list[int], parts: list[int], by_hand: list[int]) -> str:
    plans = [
        *([f"takes out {counted(len(whole), 'line')}"] if whole else []),
        *([f"keeps {counted(len(parts), 'line')} on the other turns"] if parts else []),
    ]
    hints = [f"`--propose` makes a plan that {' and '.join(plans)}."] if plans else []
    if by_hand:
        hints.append(f"Edit {'line' if len(by_hand) == 1 else 'lines'} {_list(by_hand)} by hand.")
    return " ".join(hints)


def _list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))


CHECK: Final = Check("withdrawn", "Based on turns that were replaced or withdrawn", check_withdrawn)
