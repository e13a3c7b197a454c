"""The section `## Relations` of a page: who or what its subject belongs to, one line each.

`- sister of [Robin](discord-42.md) (since 2024-03, turns laptop-7f3a:12-15)` in Mika's file says
that Mika is Robin's sister. A relation ends with `until 2025-01`; its line stays. What leads there
is a Markdown link, a wiki link, or, behind a relation of the table, a name alone. Nothing is read
out of any other section.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from familiar_cli.languages import heading_in, tables
from familiar_cli.markdown import bullet, scan
from familiar_cli.memory.pages.evidence import BODY, Cited, cited, reference, without_references
from familiar_cli.memory.pages.links import places_in, unhidden
from familiar_cli.memory.pages.privacy import owned
from familiar_cli.memory.pages.wiki import wiki_links
from familiar_cli.spans import folded, with_iso_dates
from familiar_cli.text import fold, one_line

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from familiar_cli.markdown import TextLine

SECTION: Final = "relations"
"""What the heading is called in the tables of the languages."""

MOST_RELATION_CHARS: Final = 80
_MOST_LINE_CHARS: Final = 2_000
_DATE: Final = r"([0-9]{4}(?:-[0-9]{2}(?:-[0-9]{2})?)?)(?![0-9])"
_TO: Final = r"\b(?:to|till|until|bis(?: zum)?|a|au|hasta|al)\b|الي|至|到"
_SPAN: Final = re.compile(rf"(?<![0-9-]){_DATE}\s{{0,3}}(?:–|—|\.\.|{_TO})\s{{0,3}}{_DATE}")
_ARTICLE: Final = r"(?:[^\W\d_]{1,5} )?"
_TURNS: Final = re.compile(rf"\bturns? ({BODY})")
_NOTE: Final = re.compile(r"[(（][^()（）]{0,500}[)）]")
_AROUND: Final = " \t:：—–-,;*_"


@dataclass(frozen=True, slots=True)
class Relation:
    """One line of the section.

    Args:
        relation: What the subject of the page is to the other: `sister of`.
        target: The other's file; empty: only a name is said.
        name: What the other is called there.
        since: When it began, as far as it is known: a year, a month or a day; empty: it is not.
        until: When it ended; empty: it has not.
        evidence: The turns that it rests on.
        line: Its number in the file, from 1.
        private: The scopes that it is private to; none: it is for all.
    """

    relation: str
    target: str
    name: str
    since: str = ""
    until: str = ""
    evidence: tuple[Cited, ...] = ()
    line: int = 0
    private: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RelationLines:
    """What stands in the section.

    Args:
        relations: Those that can be read.
        unread: The numbers of the bullets that say none.
    """

    relations: tuple[Relation, ...] = ()
    unread: tuple[int, ...] = ()


def relations_in(text: str, rel_path: str, known: Collection[str] = ()) -> RelationLines:
    """Return the relations of the page at `rel_path`.

    Args:
        text: The page.
        rel_path: Where it is.
        known: Relations after which a name alone is read, folded.
    """
    found: list[Relation] = []
    unread: list[int] = []
    lines = list(_lines(text))
    if not lines:
        return RelationLines()
    bare = unhidden(text)
    for line, private in lines:
        said = bare[line.start : line.end].rstrip("\r\n")
        item = bullet(said)
        if item is None or len(said) > _MOST_LINE_CHARS:
            continue
        read = list(_relations(said[item.words_at :], rel_path, known))
        turns = tuple(cited(line.text))
        if not read and not item.indent:
            unread.append(line.number)
        found += (
            replace(one, evidence=(*one.evidence, *turns), line=line.number, private=private)
            for one in read
        )
    return RelationLines(tuple(found), tuple(unread))


def line_of(one: Relation, way: str) -> str:
    """Return a relation as a line of the section; `way` is what its link says."""
    told = [f"since {one.since}"] if one.since else []
    told += [f"until {one.until}"] if one.until else []
    when = f" ({', '.join(told)})" if told else ""
    name = one_line(one.name, MOST_RELATION_CHARS).replace("[", "(").replace("]", ")")
    return f"- {one.relation} [{name}]({way}){when} {reference(one.evidence)}".rstrip()


def _lines(text: str) -> Iterator[tuple[TextLine, frozenset[str]]]:
    """Yield the lines below such headings, with the private channels that each belongs to."""
    if not any(title in fold(text) for title in _titles()):
        return
    inside = 0
    for line, private in owned(text):
        if level := line.level:
            if not inside or level <= inside:
                is_it = level > 1 and heading_in(line.title) == SECTION
                inside = level if is_it else 0
        elif inside and not line.in_code:
            yield line, private


@cache
def _titles() -> tuple[str, ...]:
    return tuple({fold(table.headings[SECTION]) for table in tables()})


def _relations(words: str, rel_path: str, known: Collection[str]) -> Iterator[Relation]:
    """Yield what one line says: a relation to each page that it leads to."""
    ends = list(_ends(words, rel_path))
    if not ends:
        yield from _named(words, known)
        return
    relation = _relation(words[: ends[0][0]])
    if relation:
        since, until, evidence = _when(words[ends[-1][1] :])
        for _, _, target, name in ends:
            yield Relation(relation, target, name, since, until, evidence)


def _ends(words: str, rel_path: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield what a line leads to: from where to where it says so, the path, and the name."""
    found = [
        (
            place.label[0] - 1,
            words.find(")", place.end) + 1,
            place.target,
            words[slice(*place.label)],
        )
        for place in places_in(words, rel_path)
        if place.label
    ]
    found += (
        (*link.whole, "", link.name if link.label is None else f"{link.name}|{link.label}")
        for link in wiki_links(words)
    )
    yield from sorted(found)


def _named(words: str, known: Collection[str]) -> Iterator[Relation]:
    """Yield the relation of a line without a link: one of the table, and a name behind it."""
    note = _NOTE.search(words)
    said = words[: note.start()] if note else words
    parts = said.split()
    for count in range(len(parts) - 1, 0, -1):
        relation = " ".join(parts[:count]).strip(_AROUND)
        if fold(relation) in known:
            since, until, evidence = _when(words[note.start() :] if note else "")
            name = " ".join(parts[count:]).strip(_AROUND + ".")
            if name:
                yield Relation(relation, "", name, since, until, evidence)
            return


def _relation(words: str) -> str:
    said = one_line(words, MOST_RELATION_CHARS + 1).strip(_AROUND)
    is_one = any(map(str.isalpha, said)) and len(said) <= MOST_RELATION_CHARS
    return said if is_one else ""


def _when(rest: str) -> tuple[str, str, tuple[Cited, ...]]:
    """Return since and until when, and the turns, as the notes behind a link say."""
    turns = _TURNS.search(rest)
    evidence = tuple(cited(f"<!-- turns {turns[1]} -->")) if turns else ()
    rest = with_iso_dates(rest.replace(turns[0], " ") if turns else rest)
    span = _SPAN.search(rest)
    if span:
        return span[1], span[2], evidence
    since, until = (_dated(rest, field) for field in ("since_when", "until_when"))
    return since, until, evidence


def _dated(rest: str, field: str) -> str:
    found = _dates(field).search(rest)
    return next(filter(None, found.groups()), "") if found else ""


@cache
def _dates(field: str) -> re.Pattern[str]:
    """Return what finds a date that is said to be the beginning, or the end, in any language."""
    forms: list[str] = []
    for table in tables():
        before, _, after = folded(getattr(table, field)).partition("{}")
        begin, end = re.escape(before.strip()), re.escape(after.strip())
        forms.append(
            rf"{begin}\s{{0,3}}{_DATE}\s{{0,3}}{end}"
            if end
            else rf"{begin}\s{{0,3}}{_ARTICLE}{_DATE}"
        )
    return re.compile("|".join(forms))


def tidied(text: str, rel_path: str) -> str:
    """Return a page without relations to itself, and with each other one once.

    Two lines that say the same become the one that also says since when; it rests on the turns of
    both. Lines that say several relations stay as they are.
    """
    found = relations_in(text, rel_path).relations
    many = Counter(one.line for one in found)
    lines = {line.number: line for line in scan(text)}
    gone = {one.line for one in found if one.target == rel_path and many[one.line] == 1}
    kept: dict[tuple[object, ...], Relation] = {}
    new: dict[int, str] = {}
    for one in found:
        if one.line in gone or many[one.line] > 1:
            continue
        key = (fold(one.relation), one.target or fold(one.name), one.until, one.private)
        known = kept.setdefault(key, one)
        if known is one or (known.since and one.since and known.since != one.since):
            continue
        first, second = (one, known) if one.since and not known.since else (known, one)
        both = tuple(dict.fromkeys((*first.evidence, *second.evidence)))
        kept[key] = replace(first, evidence=both)
        gone.add(second.line)
        new[first.line] = _with_evidence(lines[first.line].text, both)
    if not gone:
        return text
    return "".join(
        new.get(number, line.text) for number, line in lines.items() if number not in gone
    )


def _with_evidence(line: str, evidence: tuple[Cited, ...]) -> str:
    """Return a line that rests on these turns; those that stand in its brackets stay there too."""
    bare = line.rstrip("\r\n")
    end = line[len(bare) :]
    return f"{without_references(bare).rstrip()} {reference(evidence)}".rstrip() + end
