"""Find dated facts that contradict each other, or that time has overtaken.

A fact has a key: `City: Oslo (2024-01-02)`. Two of one key contradict each other if they have
different values on different days; a key with several values on one day is a list.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING, Final

from familiar_cli.base.markdown import replace_spans
from familiar_cli.base.text import fold
from familiar_cli.base.times.spans import Span, folded, times_in
from familiar_cli.store.memory.pages import visible_lines
from familiar_cli.store.memory.pages.facts import ended_on, goes_on_below, with_end
from familiar_cli.writing.housekeeping.lines import (
    DAY,
    Corpus,
    Finding,
    MemoryText,
    Options,
    Statement,
    find_statements,
    quote_lines,
)
from familiar_cli.writing.pending import PlannedFile

if TYPE_CHECKING:
    from familiar_cli.base.languages import Phrases

    Key = tuple[str, ...]  # headings above a fact, then its label
    Value = tuple[date, int, str]  # day, line and words

_LABEL: Final = re.compile(
    r"(?:\*\*|__)?(?P<label>[^:：*_\n\d]{1,40}?)(?:\*\*|__)?[ \t]*"
    r"(?::(?:\*\*|__)?[ \t]|：(?:\*\*|__)?)[ \t]*(?P<value>\S.*)"
)
_NOTE: Final = re.compile(r"[(（\[][^()（）\[\]]{0,80}[)）\]]")
_WORDS: Final = re.compile(r"\w+")
_MOST_CHARS: Final = 400
_MOST_WORDS: Final = 4  # of a label
_MOST_VALUES: Final = 100
_GRACE_DAYS: Final = 7
_YEAR_DAYS: Final = 365.25
_MOST_AGE: Final = 150


def check_contradictions(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding per file and key with different values on different days."""
    for note in corpus.notes:
        if note.holds_beliefs:
            yield from _contradictions_in(note, options)


def check_stale(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding per file with times to come that have passed, or with old facts."""
    for note in corpus.notes:
        if not note.holds_beliefs:
            continue
        statements = [s for s in find_statements(note, options) if _still_holds(s)]
        past = [s for s in statements if _has_passed(s, note, options)]
        numbers = {statement.line for statement in past}
        old = [s for s in statements if s.line not in numbers and _is_old(s, options)]
        if past:
            what = "mentions a future time that has long passed"
            yield _describe(note, past, what, _PAST_HINT)
        if old:
            what = f"holds facts that are older than {options.stale_days} days"
            yield _describe(note, old, what, _OLD_HINT)


def find_fact(text: str) -> tuple[str, str] | None:
    """Return label and plain value of a statement, or None if it has no label."""
    found = _LABEL.match(DAY.sub("", text[:_MOST_CHARS]).lstrip(" -–—.,()"))
    if found is None:
        return None
    label = " ".join(fold(found["label"]).split())
    words = _WORDS.findall(fold(_NOTE.sub(" ", found["value"])))
    is_key = 0 < len(label.split()) <= _MOST_WORDS
    return (label, " ".join(words)) if is_key and words else None


def _contradictions_in(note: MemoryText, options: Options) -> Iterator[Finding]:
    facts: dict[Key, list[Value]] = defaultdict(list)
    for statement in find_statements(note, options):
        fact = find_fact(statement.text)
        if fact and statement.day and _still_holds(statement):
            above = (heading for heading in statement.heading[:3] if not DAY.search(heading))
            facts[*above, fact[0]].append((statement.day, statement.line, fact[1]))
    for (*_, label), values in facts.items():
        ordered = sorted(values)[-_MOST_VALUES:]
        if not _do_differ(ordered):
            continue
        after = _with_ends(note, ordered, options.phrases)
        hint = "If the newest is right, add an end date to the older one, or remove it."
        yield Finding(
            (note.rel_path,),
            f"{label}: {len({value for *_, value in values})} values on different days; the newest"
            f" is from {ordered[-1][0]}",
            quote_lines(note, (at for _, at, _ in ordered)),
            repair=() if after == note.text else (PlannedFile(note.rel_path, note.text, after),),
            hint=hint if after == note.text else f"{hint} `--propose` makes a plan that says so.",
        )


def _do_differ(values: list[Value]) -> bool:
    """Tell whether values of one key contradict each other, unless the key is a list."""
    days = [day for day, *_ in values]
    return len(set(days)) == len(days) and any(
        not _do_agree(one, other) for at, one in enumerate(values) for other in values[at + 1 :]
    )


def _do_agree(one: Value, other: Value) -> bool:
    """Tell whether two values are compatible: `Oslo` and `Oslo, Norway`, or a growing age."""
    (day, _, value), (later, _, another) = one, other
    if value.isdecimal() and another.isdecimal() and max(int(value), int(another)) < _MOST_AGE:
        return abs(int(another) - int(value) - (later - day).days / _YEAR_DAYS) <= 1
    return _is_within(value, another) or _is_within(another, value)


def _is_within(one: str, other: str) -> bool:
    return f" {one} " in f" {other} " or (not one.isascii() and one in other)


def _with_ends(note: MemoryText, ordered: list[Value], phrases: Phrases) -> str:
    """Return the file with older values of a key marked as ended by the newest.

    Only list items are marked, and only if the newest value is in the same privacy scope.
    """
    newest = ordered[-1]
    older = sorted(value[1] for value in ordered[:-1] if not _do_agree(value, newest))
    lines = {line.number: (line, scopes) for line, scopes in visible_lines.owned_lines(note.text)}
    edits = [
        (line.start, line.end, with_end(line.text, newest[0], phrases))
        for line, scopes in (lines[number] for number in older)
        if scopes == lines[newest[1]][1] and line.is_item and not goes_on_below(note.text, line)
    ]
    return replace_spans(note.text, edits)


def _still_holds(statement: Statement) -> bool:
    """Tell whether a line claims something, and is not marked as ended."""
    text = statement.text
    is_question = _NOTE.sub("", text).rstrip().endswith(("?", "？", "؟"))
    return not (is_question or statement.is_record or "~~" in text or ended_on(text))


def _has_passed(statement: Statement, note: MemoryText, options: Options) -> bool:
    """Tell whether a time that was to come when a line was written has passed.

    A line without a date is at most as new as the last change of its file.
    """
    day = statement.day or note.modified.date()
    if (options.today - day).days <= _GRACE_DAYS:
        return False
    spans = [time_phrase.span for time_phrase in times_in(folded(DAY.sub("", statement.text)), day)]
    coming = [span.last for span in spans if isinstance(span, Span) and span.first > day]
    return bool(coming) and (options.today - max(coming)).days > _GRACE_DAYS


def _is_old(statement: Statement, options: Options) -> bool:
    """Tell whether a line is a fact of long ago that nobody has confirmed."""
    day = statement.own_day
    return (
        day is not None
        and (options.today - day).days > options.stale_days
        and not statement.is_confirmed
        and find_fact(statement.text) is not None
    )


def _describe(note: MemoryText, statements: list[Statement], what: str, hint: str) -> Finding:
    days = sorted({(statement.day or note.modified.date()).isoformat() for statement in statements})
    text = " to ".join(dict.fromkeys((days[0], days[-1])))
    evidence = quote_lines(note, (statement.line for statement in statements))
    return Finding((note.rel_path,), f"{what}: of {text}", evidence, hint=hint)


_PAST_HINT: Final = "Write what became of it, with the date, or remove it."
_OLD_HINT: Final = (
    "Ask whether it is still true; then give it today's date, confirm it, or add an end date."
)
