"""Find lines that rest on turns which were replaced or withdrawn."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import Final

from familiar_cli.base.markdown import TextLine, body_start, bullet, comments, scan
from familiar_cli.base.text import counted, sentence_ends
from familiar_cli.store.memory.pages import lines as memory_lines
from familiar_cli.writing.housekeeping.lines import (
    DERIVED,
    MOST_CHARS,
    Corpus,
    Finding,
    MemoryText,
    Options,
    goes_on,
    quote_lines,
)
from familiar_cli.writing.pending import PlannedFile

_LEAST_SHARE: Final = 0.5  # share of a withdrawn line's words in a sentence that repeats it
_MOST_REASONS: Final = 3
_MOST_TURNS: Final = 1_000  # per line; a typo could cite millions


def check_withdrawn(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield files with lines based on withdrawn turns, and digests that repeat them."""
    numbering = options.numbering
    gone, standing = list[str](), list[str]()
    for note in corpus.notes:
        if note.directory in DERIVED or "<!-- turn" not in note.text:
            continue
        lines = [
            (line, memory_lines.turn_ids(line.text, numbering)) for line in _citing_lines(note)
        ]
        fallen = options.fallen({turn for _, turns in lines for turn in turns})
        for line, _ in lines:
            is_gone = fallen and not numbering.without(memory_lines.citations_in(line.text), fallen)
            (gone if is_gone else standing).append(line.text)
        if fallen:
            yield _withdrawn_finding(note, lines, fallen, numbering)
    if gone:
        repeated = _RepetitionFilter(gone, standing)
        for note in corpus.notes:
            if note.directory in DERIVED:
                yield from _find_repeating(note, repeated)


class _RepetitionFilter:
    """Recognises sentences that repeat only withdrawn lines.

    Args:
        gone: Lines without any standing turn.
        standing: Other lines that cite turns.
    """

    def __init__(self, gone: list[str], standing: list[str]) -> None:
        self._gone = [
            (text, memory_lines.EvidenceText(text))
            for text in map(memory_lines.without_references, gone)
        ]
        self._standing = [
            memory_lines.EvidenceText(memory_lines.without_references(text)) for text in standing
        ]

    def is_said(self, sentence: str) -> bool:
        """Tell whether a sentence repeats a withdrawn line and no other one."""
        said = memory_lines.EvidenceText(sentence)
        shares = [
            evidence.share(sentence)
            for text, evidence in self._gone
            if said.share(text) >= _LEAST_SHARE
        ]
        most = max(shares, default=0.0)
        return most >= memory_lines.SAID_SHARE and all(
            one.share(sentence) < most for one in self._standing
        )


def _find_repeating(note: MemoryText, repeated: _RepetitionFilter) -> Iterator[Finding]:
    """Yield a finding if a generated file repeats withdrawn lines."""
    texts = note.text.split("\n")
    whole, by_hand = list[int](), list[int]()
    start = note.text.count("\n", 0, body_start(note.text))
    for line in scan(note.text):
        if line.level or line.in_code or line.number <= start or len(line.text) > MOST_CHARS:
            continue
        text = memory_lines.TAG.sub(
            "", memory_lines.shown_between(line.text, 0, len(line.text), comments(line.text))
        ).strip(" \t\r-*+")
        parts = [text[a:b] for a, b in pairwise([0, *sentence_ends(text), len(text)])]
        said = [repeated.is_said(part) for part in parts if part.strip()]
        if not any(said):
            continue
        is_alone = all(said) and not _stands_over_others(texts, line.number - 1)
        (whole if is_alone else by_hand).append(line.number)
    if not (whole or by_hand):
        return
    gone = set(whole)
    after = "\n".join(text for number, text in enumerate(texts, 1) if number not in gone)
    count = len(whole) + len(by_hand)
    yield Finding(
        (note.rel_path,),
        f"{counted(count, 'line')} {'repeats' if count == 1 else 'repeat'} text "
        "based on replaced or withdrawn turns",
        quote_lines(note, sorted([*whole, *by_hand])),
        repair=(PlannedFile(note.rel_path, note.text, after),) if whole else (),
        hint=_hint(whole, [], by_hand),
    )


def _citing_lines(note: MemoryText) -> Iterator[TextLine]:
    """Yield the lines of a file that cite turns, unless they cite implausibly many."""
    for line in scan(note.text):
        is_cited = "<!-- turn" in line.text and not line.in_code
        if is_cited and memory_lines.turn_count(line.text) <= _MOST_TURNS:
            yield line


def _withdrawn_finding(
    note: MemoryText,
    resting: list[tuple[TextLine, tuple[int, ...]]],
    fallen: Mapping[int, str],
    numbering: memory_lines.Numbering,
) -> Finding:
    texts = note.text.split("\n")
    now = dict(enumerate(texts))
    whole, parts, by_hand = list[int](), list[int](), list[int]()
    for line, turns in resting:
        if not any(turn in fallen for turn in turns):
            continue
        left = numbering.without(memory_lines.citations_in(line.text), fallen)
        at = line.number - 1
        if left:
            parts.append(line.number)
            now[at] = memory_lines.citing(texts[at], left)
        elif line.level or _stands_over_others(texts, at):
            by_hand.append(line.number)
        else:
            whole.append(line.number)
            del now[at]
    numbers = sorted([*whole, *parts, *by_hand])
    after = "\n".join(now.values())
    gone = {turn for _, turns in resting for turn in turns if turn in fallen}
    return Finding(
        (note.rel_path,),
        f"{_finding_line(whole, parts, by_hand)}: {_reason_words(gone, fallen)}",
        quote_lines(note, numbers),
        repair=(PlannedFile(note.rel_path, note.text, after),) if whole or parts else (),
        hint=_hint(whole, parts, by_hand),
    )


def _stands_over_others(texts: list[str], at: int) -> bool:
    """Tell whether a bullet has nested lines, so that it cannot be removed alone."""
    item = bullet(texts[at])
    return item is not None and goes_on(texts, at, len(item.indent.expandtabs(4)))


def _finding_line(whole: list[int], parts: list[int], by_hand: list[int]) -> str:
    alone, some = len(whole) + len(by_hand), len(parts)
    if not alone:
        return (
            f"{counted(some, 'line')} {_based_words(some)} in part on replaced or withdrawn turns"
        )
    and_some = f", and {some} more in part" if some else ""
    return (
        f"{counted(alone, 'line')} {_based_words(alone)} on replaced or withdrawn turns{and_some}"
    )


def _based_words(count: int) -> str:
    return "is based" if count == 1 else "are based"


def _reason_words(gone: Collection[int], fallen: Mapping[int, str]) -> str:
    parts = [fallen[turn] for turn in sorted(gone)]
    more = len(parts) - _MOST_REASONS
    return ", ".join([*parts[:_MOST_REASONS], *([f"and {more} more"] if more > 0 else [])])


def _hint(whole: list[int], parts: list[int], by_hand: list[int]) -> str:
    plans = [
        *([f"takes out {counted(len(whole), 'line')}"] if whole else []),
        *([f"keeps {counted(len(parts), 'line')} on the other turns"] if parts else []),
    ]
    hints = [f"`--propose` makes a plan that {' and '.join(plans)}."] if plans else []
    if by_hand:
        lines = "line" if len(by_hand) == 1 else "lines"
        hints.append(f"Edit {lines} {', '.join(map(str, by_hand))} by hand.")
    return " ".join(hints)
