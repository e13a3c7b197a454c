"""The rules that a model's words must pass before they become memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING, Any, Final, TypeVar

from familiar_cli.consolidation.pages import key_of
from familiar_cli.consolidation.periods import DraftedSummary, Point, Refused
from familiar_cli.errors import UnusableReplyError
from familiar_cli.llm.asking import values_in
from familiar_cli.markdown import split_lines
from familiar_cli.memory.pages.evidence import as_line
from familiar_cli.memory.pages.similarity import SAID_SHARE, EvidenceText, main_script
from familiar_cli.text import one_line
from familiar_cli.truncate import sentence_ends

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from familiar_cli.consolidation.periods import SourceItem
    from familiar_cli.memory.pages.similarity import KnownTexts


T = TypeVar("T")


def best(sources: Iterable[tuple[T, EvidenceText]], text: str) -> list[T]:
    """Return what belongs to the sources that have most words of `text`; none may say it."""
    shares = [(thing, source.share(text)) for thing, source in sources]
    most = max([SAID_SHARE, *(share for _, share in shares)])
    return [thing for thing, share in shares if share >= most]


def sentences(text: str) -> list[str]:
    """Return the sentences of a line."""
    cuts = [0, *sentence_ends(text), len(text)]
    found = (text[start:end].strip() for start, end in pairwise(cuts))
    return [sentence for sentence in found if sentence]


MOST_LINE_CHARS: Final = 600
MOST_SUMMARY_CHARS: Final = 4_000
_SHOWN_CHARS: Final = 200
_NOT_SAID: Final = "it rests on none of the sources"


def read_reply(text: str, items: Sequence[SourceItem], *, strict: bool = False) -> DraftedSummary:
    """Return what a reply proposes; its numbers become the labels of the sources.

    Args:
        text: The reply.
        items: The sources that were shown, in the order of their numbers.
        strict: The model is small: it rests on sources that have its words, whichever it names, and
            sentences of its summary that no source has the words of are left out.

    Raises:
        UnusableReplyError: It holds no such JSON.
    """
    for value in values_in(text):
        if isinstance(value, dict) and isinstance(value.get("summary"), str):
            points = value.get("points", [])
            rows = points if isinstance(points, list) else []
            plan = DraftedSummary(value["summary"], tuple(_point(row, items) for row in rows))
            return _in_words_of(plan, items) if strict else plan
    raise UnusableReplyError('it contains no complete JSON object with the key "summary"')


def judge(
    plan: DraftedSummary, *, instructions: KnownTexts, scripts: Collection[str], kept: str
) -> DraftedSummary:
    """Return what of a plan may be written, tidied, with what was refused.

    Args:
        plan: As the model proposed it.
        instructions: The prompt's own words, which nobody said.
        scripts: The scripts that the sources are written in.
        kept: What stands in the file already and stays.

    Raises:
        UnusableReplyError: Nothing is left.
    """
    refused = list(plan.refused)
    summary = as_line(plan.summary)
    useless = _problem(summary, MOST_SUMMARY_CHARS, instructions, scripts)
    if useless:
        summary = ""
        if plan.summary:
            refused.append(Refused(*useless, one_line(plan.summary, _SHOWN_CHARS)))
    there = {key_of(as_line(line)) for line in split_lines(kept)} | {key_of(summary)}
    points: list[Point] = []
    for proposed in plan.points:
        point = Point(as_line(proposed.text), proposed.sources)
        problem = _problem(point.text, MOST_LINE_CHARS, instructions, scripts)
        if problem is None and not point.sources:
            problem = ("evidence", _NOT_SAID)
        if problem is None and key_of(point.text) in there:
            problem = ("duplicate", "it is already said")
        if problem:
            refused.append(Refused(*problem, one_line(proposed.text, _SHOWN_CHARS)))
            continue
        there.add(key_of(point.text))
        points.append(point)
    if useless and not points:
        raise UnusableReplyError(f"its summary is unusable: {useless[1]}")
    return DraftedSummary(summary, tuple(points), tuple(refused))


def within(plan: DraftedSummary, budget_tokens: int, count: Callable[[str], int]) -> DraftedSummary:
    """Return a plan that fits its budget: each source keeps about as many points as the others."""
    room = budget_tokens - count(plan.summary)
    kept: set[int] = set()
    for number in _evenly(plan.points):
        cost = count(plan.points[number].text) + 1
        if cost <= room:
            kept.add(number)
            room -= cost
    points = tuple(point for number, point in enumerate(plan.points) if number in kept)
    lost = (point for number, point in enumerate(plan.points) if number not in kept)
    why = f"the text would have more than {budget_tokens:,} tokens"
    refused = (Refused("budget", f"{why}; {_of(p)}", one_line(p.text, _SHOWN_CHARS)) for p in lost)
    return DraftedSummary(plan.summary, points, (*plan.refused, *refused))


def _of(point: Point) -> str:
    return f"it is of {one_line(', '.join(point.sources), _SHOWN_CHARS)}"


def _evenly(points: Sequence[Point]) -> list[int]:
    """Return the places of points so that the first of them are of as many sources as can be.

    First comes the first point of each source, then the second of each; among these, the newest
    source is first and each next one far from those before.
    """
    of: dict[str, list[int]] = {}
    for number, point in enumerate(points):
        of.setdefault(point.sources[-1] if point.sources else "", []).append(number)
    rounds = zip_longest(*(of[label] for label in sorted(of, reverse=True)))
    return [n for found in rounds for n in _far_apart([n for n in found if n is not None])]


def _far_apart(numbers: list[int]) -> list[int]:
    """Return `numbers` so that whichever of them come first are spread over all."""
    bits = max(len(numbers) - 1, 1).bit_length()
    order = sorted(range(len(numbers)), key=lambda n: int(f"{n:0{bits}b}"[::-1], 2))
    return [numbers[n] for n in order]


def _problem(
    text: str, most_chars: int, instructions: KnownTexts, scripts: Collection[str]
) -> tuple[str, str] | None:
    if not any(map(str.isalnum, text)):
        return "blank", "it is empty"
    if len(text) > most_chars:
        return "size", f"it has more than {most_chars} characters"
    script = main_script(text)
    if script is not None and script not in scripts:
        return "language", f"nobody here writes in {script.capitalize()} letters"
    if instructions.has(text):
        return "instructions", "it repeats the prompt, not the sources"
    return None


def _in_words_of(plan: DraftedSummary, items: Sequence[SourceItem]) -> DraftedSummary:
    """Return a plan so that all of it has the words of what it rests on."""
    found = [(item.rests_on, EvidenceText(item.text)) for item in items]
    points = []
    for point in plan.points:
        having = best(found, point.text)
        named = [on for on in having if set(on) & set(point.sources)]
        labels = dict.fromkeys(label for on in named or having for label in on)
        points.append(replace(point, sources=tuple(labels)))
    whole = EvidenceText("\n".join(item.text for item in items))
    told = {key_of(sentence): sentence for sentence in sentences(plan.summary)}
    lost = [sentence for sentence in told.values() if not whole.says(sentence)]
    refused = [Refused("evidence", _NOT_SAID, one_line(text, _SHOWN_CHARS)) for text in lost]
    summary = " ".join(sentence for sentence in told.values() if sentence not in lost)
    return DraftedSummary(summary, tuple(points), (*plan.refused, *refused))


def _point(row: Any, items: Sequence[SourceItem]) -> Point:  # noqa: ANN401
    if isinstance(row, str):
        row = {"text": row}
    value = row if isinstance(row, dict) else {}
    text = value.get("text")
    given = value.get("from", [])
    numbers = given if isinstance(given, list) else [given]
    known = {n for n in numbers if type(n) is int and 1 <= n <= len(items)}
    named = [items[n - 1] for n in sorted(known)]
    if not named and len(items) == 1:
        named = [items[0]]
    labels = dict.fromkeys(label for item in named for label in item.rests_on)
    return Point(text if isinstance(text, str) else "", tuple(labels))
