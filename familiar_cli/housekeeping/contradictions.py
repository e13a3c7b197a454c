"""Statements of one thing with different values on different days, such as two homes.

Only what has one value at a time is compared: a home, a job, an age, a favourite. And only where
both statements have a day, so that a person can see which of them is the newer.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from familiar_cli.housekeeping.attributes import HEADS, PAST, attribute
from familiar_cli.housekeeping.lines import DAY, quotes, statements
from familiar_cli.housekeeping.types import Check, Finding
from familiar_cli.housekeeping.wording import Wordings, words_in
from familiar_cli.text import fold

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from familiar_cli.housekeeping.attributes import Attribute
    from familiar_cli.housekeeping.lines import Statement
    from familiar_cli.housekeeping.types import Corpus, Note, Options

    Subject = tuple[str, ...]
    Said = tuple[date, int, str]

_PAST: Final = Wordings.of(
    PAST, "fino | até | tidligere | entinen | до | раньше | бывший | бывшая | 까지 | 이전"
)
_YEAR_DAYS: Final = 365.25
_MOST_VALUES: Final = 100
_AGE_DIGITS: Final = 3


def check_contradictions(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each attribute of one file with different values on different days."""
    for note in corpus.notes:
        if note.holds_beliefs and not note.known.isdisjoint(HEADS):
            yield from _in_note(note, options)


def _in_note(note: Note, options: Options) -> Iterator[Finding]:
    said: dict[tuple[Subject, str], list[Said]] = defaultdict(list)
    for statement in statements(note, HEADS, options):
        found = attribute(statement.text)
        if found and statement.day and _holds(statement):
            key = (_subject(statement, found), found.kind)
            said[key].append((statement.day, statement.line, found.value))
    for (_, kind), values in said.items():
        ordered = sorted(values)[-_MOST_VALUES:]
        if not _differ(kind, ordered):
            continue
        yield Finding(
            CHECK.name,
            (note.rel_path,),
            f"{kind}: {len({value for *_, value in values})} values on different days; the newest"
            f" is of {ordered[-1][0]}",
            quotes(note, (at for _, at, _ in ordered)),
            hint="If the newest is right, say until when the older was, or remove it.",
        )


def _holds(statement: Statement) -> bool:
    """Tell whether a line does not say itself that it is over."""
    return "~~" not in statement.text and not _PAST.is_in(statement.text)


def _subject(statement: Statement, found: Attribute) -> Subject:
    """Return whom a statement is about: the headings above it, but for those that only date it.

    A name that the line gives stands beside them, unless it is in the title of the file.
    """
    above = tuple(h for h in statement.heading[:3] if not DAY.search(h))
    is_named = found.who and found.who not in words_in(fold(" ".join(statement.heading[:1])))
    return (*above, found.who) if is_named else above


def _differ(kind: str, values: list[Said]) -> bool:
    """Tell whether two values of different days contradict each other."""
    return any(
        day != other_day and not _agree(kind, (day, value), (other_day, other))
        for at, (day, _, value) in enumerate(values)
        for other_day, _, other in values[at + 1 :]
    )


def _agree(kind: str, one: tuple[date, str], other: tuple[date, str]) -> bool:
    """Tell whether both may hold: `Oslo` is in `Oslo, Norway`, and who ages grows older."""
    (day, value), (other_day, another) = one, other
    if kind == "age":
        words = f"{value} {another}".split()
        ages = [int(word) for word in words if word.isdecimal() and len(word) <= _AGE_DIGITS]
        years = (other_day - day).days / _YEAR_DAYS
        return len(ages) != 2 or abs(ages[1] - ages[0] - years) <= 1  # noqa: PLR2004
    return _within(value, another) or _within(another, value)


def _within(one: str, other: str) -> bool:
    return f" {one} " in f" {other} " or (not one.isascii() and one in other)


CHECK: Final = Check(
    "contradictions",
    "Contradictions",
    check_contradictions,
    HEADS,
)
