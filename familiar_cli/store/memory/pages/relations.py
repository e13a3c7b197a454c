"""Parse the section `## Relations` of a page: its subject's relations, one per line.

`- sister of [Robin](discord-42.md) (since 2024-03, turns laptop-7f3a:12-15)` in Mika's file says
that Mika is Robin's sister. A relation ends with `until 2025-01`, and its line is kept. The target
is a Markdown link, a wiki link, or, after a known relation, a plain name. Other sections are
ignored.

Inverse relations are defined in a table, which a memory's `relations.md` can extend:

| relation | inverse |
|---|---|
| coach of | coached by |
| bandmate of | bandmate of |
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.errors import NotFoundError
from familiar_cli.base.languages import heading_in, tables
from familiar_cli.base.markdown import TextLine, bullet, scan
from familiar_cli.base.text import fold, one_line
from familiar_cli.base.times.spans import folded, with_iso_dates
from familiar_cli.store.fts import is_unspaced
from familiar_cli.store.memory.layout import is_page
from familiar_cli.store.memory.pages import lines as memory_lines
from familiar_cli.store.memory.pages import links as page_links
from familiar_cli.store.memory.pages import visible_lines
from familiar_cli.store.memory.pages.front_matter import listed_aliases

if TYPE_CHECKING:
    from familiar_cli.store.memory.store.files import Omission
    from familiar_cli.store.memory.store.store import MemoryStore

SECTION: Final = "relations"
"""Names of the heading in all languages."""

MOST_RELATION_CHARS: Final = 80
_MOST_LINE_CHARS: Final = 2_000
_DATE: Final = r"([0-9]{4}(?:-[0-9]{2}(?:-[0-9]{2})?)?)(?![0-9])"
_TO: Final = r"\b(?:to|till|until|bis(?: zum)?|a|au|hasta|al)\b|الي|至|到"
_SPAN: Final = re.compile(rf"(?<![0-9-]){_DATE}\s{{0,3}}(?:–|—|\.\.|{_TO})\s{{0,3}}{_DATE}")
_ARTICLE: Final = r"(?:[^\W\d_]{1,5} )?"
_TURNS: Final = re.compile(rf"\bturns? ({memory_lines.BODY})")
_NOTE: Final = re.compile(r"[(（][^()（）]{0,500}[)）]")
_AROUND: Final = " \t:：—–-,;*_"


class Relation(Struct, frozen=True):
    """A line of the section.

    Args:
        relation: What the page's subject is to the target: `sister of`.
        target: The target's file; empty if only a name is given.
        name: The target's name on this line.
        since: Start, a year, month or day; empty if unknown.
        until: End; empty if ongoing.
        evidence: Supporting turns.
        line: Line number, from 1.
        private: Private scopes it belongs to; empty if public.
    """

    relation: str
    target: str
    name: str
    since: str = ""
    until: str = ""
    evidence: tuple[memory_lines.TurnRange, ...] = ()
    line: int = 0
    private: frozenset[str] = frozenset()


class RelationLines(Struct, frozen=True):
    """The parsed section.

    Args:
        relations: Valid relations.
        unread: Line numbers of bullets that could not be parsed.
    """

    relations: tuple[Relation, ...] = ()
    unread: tuple[int, ...] = ()


def relations_in(text: str, rel_path: str, known: Collection[str] = ()) -> RelationLines:
    """Return the relations of the page at `rel_path`.

    Args:
        text: The page.
        rel_path: Where it is.
        known: Folded relations that may be followed by a plain name.
    """
    relations: list[Relation] = []
    unread: list[int] = []
    lines = list(_relation_lines(text))
    if not lines:
        return RelationLines()
    bare = page_links.unhidden_text(text)
    for line, private in lines:
        said = bare[line.start : line.end].rstrip("\r\n")
        item = bullet(said)
        if item is None or len(said) > _MOST_LINE_CHARS:
            continue
        read = list(_linked_relations(said[item.words_at :], rel_path, known))
        turns = tuple(memory_lines.citations_in(line.text))
        if not read and not item.indent:
            unread.append(line.number)
        relations += (
            replace(one, evidence=(*one.evidence, *turns), line=line.number, private=private)
            for one in read
        )
    return RelationLines(tuple(relations), tuple(unread))


def line_of(one: Relation, way: str) -> str:
    """Format a relation as a line; `way` is its link address."""
    parts = [f"since {one.since}"] if one.since else []
    parts += [f"until {one.until}"] if one.until else []
    when = f" ({', '.join(parts)})" if parts else ""
    name = one_line(one.name, MOST_RELATION_CHARS).replace("[", "(").replace("]", ")")
    cited = memory_lines.citation_comment(one.evidence)
    return f"- {one.relation} [{name}]({way}){when} {cited}".rstrip()


def _relation_lines(text: str) -> Iterator[tuple[TextLine, frozenset[str]]]:
    """Yield the lines below relation headings, with their private channels."""
    folded = fold(text)
    if not any(title in folded for title in _section_titles()):
        return
    inside = 0
    for line, private in visible_lines.owned_lines(text):
        if level := line.level:
            if not inside or level <= inside:
                is_it = level > 1 and heading_in(line.title) == SECTION
                inside = level if is_it else 0
        elif inside and not line.in_code:
            yield line, private


@cache
def _section_titles() -> tuple[str, ...]:
    return tuple({fold(table.headings[SECTION]) for table in tables()})


def _linked_relations(words: str, rel_path: str, known: Collection[str]) -> Iterator[Relation]:
    """Yield the relations of a line, one for each page it links to."""
    ends = list(_relation_ends(words, rel_path))
    if not ends:
        yield from _named_relations(words, known)
        return
    relation = _relation_words(words[: ends[0][0]])
    if relation:
        since, until, evidence = _parse_span(words[ends[-1][1] :])
        for _, _, target, name in ends:
            yield Relation(relation, target, name, since, until, evidence)


def _relation_ends(words: str, rel_path: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield the targets on a line: their range, path and name."""
    items = [
        (
            place.label[0] - 1,
            words.find(")", place.end) + 1,
            place.target,
            words[slice(*place.label)],
        )
        for place in page_links.places_in(words, rel_path)
        if place.label
    ]
    items += (
        (*link.whole, "", link.name if link.label is None else f"{link.name}|{link.label}")
        for link in page_links.wiki_links(words)
    )
    yield from sorted(items)


def _named_relations(words: str, known: Collection[str]) -> Iterator[Relation]:
    """Yield the relation of a line without a link: a known relation followed by a name."""
    note = _NOTE.search(words)
    text = words[: note.start()] if note else words
    parts = text.split()
    for count in range(len(parts) - 1, 0, -1):
        relation = " ".join(parts[:count]).strip(_AROUND)
        if fold(relation) in known:
            since, until, evidence = _parse_span(words[note.start() :] if note else "")
            name = " ".join(parts[count:]).strip(_AROUND + ".")
            if name:
                yield Relation(relation, "", name, since, until, evidence)
            return


def _relation_words(words: str) -> str:
    text = one_line(words, MOST_RELATION_CHARS + 1).strip(_AROUND)
    is_one = any(map(str.isalpha, text)) and len(text) <= MOST_RELATION_CHARS
    return text if is_one else ""


def _parse_span(rest: str) -> tuple[str, str, tuple[memory_lines.TurnRange, ...]]:
    """Parse start, end and turns from the parenthesis after a link."""
    turns = _TURNS.search(rest)
    evidence = tuple(memory_lines.citations_in(f"<!-- turns {turns[1]} -->")) if turns else ()
    rest = with_iso_dates(rest.replace(turns[0], " ") if turns else rest)
    span = _SPAN.search(rest)
    if span:
        return span[1], span[2], evidence
    since, until = (_field_date(rest, field) for field in ("since_when", "until_when"))
    return since, until, evidence


def _field_date(rest: str, field: str) -> str:
    match = _date_pattern(field).search(rest)
    return next(filter(None, match.groups()), "") if match else ""


@cache
def _date_pattern(field: str) -> re.Pattern[str]:
    """Return the pattern for a start or end date in any language."""
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


def tidy_relations(text: str, rel_path: str) -> str:
    """Return a page without relations to itself or duplicates.

    Of two equal lines, one is kept with the start date and the evidence of both. Lines with several
    relations are unchanged.
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
        new[first.line] = memory_lines.citing(lines[first.line].text, both)
    if not gone:
        return text
    return "".join(
        new.get(number, line.text) for number, line in lines.items() if number not in gone
    )


_WORD: Final = re.compile(r"\w+")
_MIN_NAME_CHARS: Final = 2


class Link(Struct, frozen=True):
    """A link between two files.

    Args:
        source: File that contains it.
        target: File it points to.
        kind: `link` for a Markdown or wiki link, `mention` for a name in the text.
        relation: What the source is to the target, if stated; empty for private relations.
    """

    source: str
    target: str
    kind: str
    relation: str = ""


class LinkStep(Struct, frozen=True):
    """A file reached in a graph, its distance, and the previous file."""

    rel_path: str
    distance: int
    link: Link


class Graph(Struct, frozen=True):
    """All files, their links, broken links, and unreadable files."""

    files: tuple[str, ...]
    links: tuple[Link, ...]
    broken: tuple[Link, ...]
    skipped: tuple[Omission, ...]

    def around(self, rel_path: str, depth: int = 1) -> list[LinkStep]:
        """Return the files within `depth` links of `rel_path`, in either direction, nearest first.

        Raises:
            NotFoundError: The file is not in the graph.
        """
        if rel_path not in self.files:
            raise NotFoundError(
                f"No memory file at {rel_path!r}", hint="Run `familiar memory list`."
            )
        nearby: dict[str, list[tuple[str, Link]]] = {}
        for link in self.links:
            nearby.setdefault(link.source, []).append((link.target, link))
            nearby.setdefault(link.target, []).append((link.source, link))
        seen, edge, steps = {rel_path}, [rel_path], []
        for distance in range(1, depth + 1):
            reached: list[str] = []
            for here in edge:
                for there, link in nearby.get(here, ()):
                    if there not in seen:
                        seen.add(there)
                        reached.append(there)
                        steps.append(LinkStep(there, distance, link))
            edge = reached
        return steps


def build_graph(store: MemoryStore) -> Graph:
    """Build the graph of all text files in the memory."""
    pages = page_links.LinkedPages(store)
    texts = {rel_path: text for rel_path, text in pages.texts.items() if is_page(rel_path)}
    links: list[Link] = []
    broken: list[Link] = []
    for rel_path, text in texts.items():
        related = relations_in(text, rel_path).relations
        said = {one.target: one.relation for one in reversed(related) if not one.private}
        for target in page_links.link_targets(text, rel_path):
            link = Link(rel_path, target, "link", said.get(target, ""))
            (links if target in pages.paths else broken).append(link)
    for source, text in texts.items():
        for named in page_links.wiki_links(page_links.unhidden_text(text)) if "[[" in text else ():
            match = pages.names.find(named.name, source)
            if match != source:
                (links if match else broken).append(Link(source, match or named.name, "link"))
    links, broken = list(dict.fromkeys(links)), list(dict.fromkeys(broken))
    pairs = {(link.source, link.target) for link in links}
    links += [m for m in _find_mentions(texts) if (m.source, m.target) not in pairs]
    return Graph(tuple(sorted(pages.paths)), tuple(links), tuple(broken), pages.skipped)


def _find_mentions(texts: Mapping[str, str]) -> Iterable[Link]:
    """Yield mentions of the person or topic of another file.

    Matching is case-sensitive, so that "May" is not found in "it may rain".
    """
    names: dict[str, str] = {}
    for rel_path, text in texts.items():
        if rel_path.partition("/")[0] in page_links.NAMED_DIRS:
            for name in (page_links.title_of(text, rel_path), *listed_aliases(text)):
                if len(name) >= _MIN_NAME_CHARS:
                    names.setdefault(name, rel_path)
    find = NameFinder(names)
    for rel_path, text in texts.items():
        for target in find.all_in(text):
            if target != rel_path:
                yield Link(rel_path, target, "mention")


class NameFinder:
    """Finds many names in a text in one pass, independent of their number."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._paths: dict[tuple[str, ...] | str, list[str]] = {}  # by words, or as written
        self._lengths: dict[str, set[int]] = {}  # names by their first word or character
        for name, path in names.items():
            key = name if is_unspaced(name) else tuple(_WORD.findall(name))
            if key:
                self._paths.setdefault(key, []).append(path)
                self._lengths.setdefault(key[0], set()).add(len(key))

    def all_in(self, text: str) -> list[str]:
        """Return the paths named in `text`, each once."""
        words = tuple(_WORD.findall(text))
        return list(dict.fromkeys(chain(self._found(words), self._found(text))))

    def _found(self, whole: tuple[str, ...] | str) -> Iterator[str]:
        for place, first in enumerate(whole):
            for length in self._lengths.get(first, ()):
                yield from self._paths.get(whole[place : place + length], ())


_ALIKE: Final = (
    "sibling of",
    "twin of",
    "cousin of",
    "spouse of",
    "married to",
    "engaged to",
    "partner of",
    "ex-partner of",
    "divorced from",
    "friend of",
    "best friend of",
    "knows",
    "neighbour of",
    "neighbor of",
    "roommate of",
    "lives with",
    "works with",
    "colleague of",
    "classmate of",
    "bandmate of",
    "rival of",
    "enemy of",
    "related to",
)
_PAIRS: Final = (
    ("parent of", "child of"),
    ("mother of", "child of"),
    ("father of", "child of"),
    ("son of", "parent of"),
    ("daughter of", "parent of"),
    ("grandparent of", "grandchild of"),
    ("grandmother of", "grandchild of"),
    ("grandfather of", "grandchild of"),
    ("sister of", "sibling of"),
    ("brother of", "sibling of"),
    ("wife of", "spouse of"),
    ("husband of", "spouse of"),
    ("aunt of", "niece or nephew of"),
    ("uncle of", "niece or nephew of"),
    ("niece of", "aunt or uncle of"),
    ("nephew of", "aunt or uncle of"),
    ("boss of", "reports to"),
    ("employs", "works for"),
    ("teacher of", "student of"),
    ("mentor of", "mentored by"),
    ("owner of", "belongs to"),
    ("owns", "owned by"),
    ("pet of", "owner of"),
    ("member of", "has as a member"),
    ("part of", "has as a part"),
    ("lives in", "home of"),
    ("born in", "birthplace of"),
    ("works at", "workplace of"),
    ("located in", "location of"),
)
_ORDERS: Final = {
    "family": (
        (
            *("parent of", "mother of", "father of"),
            *("grandparent of", "grandmother of", "grandfather of"),
        ),
        ("child of", "son of", "daughter of", "grandchild of"),
    ),
    "work": (("boss of",), ("reports to",)),
    "part": (("has as a part",), ("part of",)),
    "place": (("location of",), ("located in",)),
}
_STEPS: Final = {
    relation: (order, down)
    for order, ways in _ORDERS.items()
    for relations, down in zip(ways, (True, False), strict=True)
    for relation in relations
}
_ROW: Final = re.compile(r"^\s{0,3}\|([^|\n]{1,200})\|([^|\n]{1,200})\|\s*$", re.MULTILINE)
_MOST_CHARS: Final = 80


class Kinds(Struct, frozen=True):
    """Known kinds of relations.

    Args:
        inverses: The inverse of each folded relation.
    """

    inverses: Mapping[str, str] = field(default_factory=dict)

    @property
    def known(self) -> frozenset[str]:
        """All relations of the table, folded."""
        return frozenset(self.inverses)

    def inverse(self, relation: str) -> str:
        """Return the inverse of a relation; empty if the table has none."""
        return self.inverses.get(fold(relation), "")

    def are_alike(self, relation: str, other: str) -> bool:
        """Tell whether two relations in opposite directions state the same."""
        return fold(self.inverse(relation)) == fold(other) or fold(self.inverse(other)) == fold(
            relation
        )

    def is_symmetric(self, relation: str) -> bool:
        """Tell whether a relation is its own inverse."""
        return fold(self.inverse(relation)) == fold(relation)

    def step(self, relation: str) -> tuple[str, bool] | None:
        """Return an order key and whether the first ranks above the second; None without order.

        Such an order cannot be circular: nobody is an ancestor of their own parents.
        """
        return _STEPS.get(fold(relation))


def kinds_of(text: str = "") -> Kinds:
    """Return the built-in table extended by a page, whose lines take precedence."""
    inverses = {one: one for one in _ALIKE}
    for one, other in _PAIRS:
        inverses[one] = other
        inverses.setdefault(other, one)
    for row in _ROW.finditer(text):
        one, other = (one_line(cell, _MOST_CHARS).strip(" `*_") for cell in row.groups())
        is_rule = not any(map(str.isalpha, one + other))
        if one and other and not is_rule:
            inverses[fold(one)] = other
            inverses.setdefault(fold(other), one)
    return Kinds(inverses)
