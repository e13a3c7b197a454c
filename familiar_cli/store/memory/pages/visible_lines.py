"""Decide which lines of a page a viewer may see: by its place, its marks and what it rests on."""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from datetime import date, timedelta
from functools import cache, lru_cache
from itertools import pairwise
from typing import Final
from urllib.parse import quote, unquote

from msgspec import Struct

from familiar_cli.base import markdown
from familiar_cli.base.errors import RefusedError
from familiar_cli.base.languages import ENGLISH, Phrases, heading_in, tables
from familiar_cli.base.text import fold, matching_blocks, one_line, sha256_of
from familiar_cli.base.who.identity import NEUTRAL
from familiar_cli.base.who.visibility import (
    OWNERS,
    PUBLIC,
    SHARED,
    Evidence,
    PrivacyRules,
    Viewer,
    channel_scope,
    either_scope,
    person_scope,
    split_scope,
)
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.pages.lines import only_links

_PRIVATE: Final = re.compile(r"<!-- private ([^\s<>]+) -->")
_MEANT_MARK: Final = re.compile(r"<!--[ \t]*priv")
_USUAL_LEVEL: Final = 2
_HASHES: Final = re.compile(r"(?:^\ufeff?|\r)[ \t>*_+-]*(#{1,6})(?!#)")
_PERSON: Final = "@"  # precedes the slug in a mark; a channel id is encoded
_NOBODY: Final = channel_scope("\0")  # no channel has this name
_LABEL_CHARS: Final = 80
_OF_SOURCE: Final = "remembered by "
_OWNERS_MARK: Final = re.escape("@" + NEUTRAL.slug.replace("-", "%2D"))
_PUBLISHED: Final = re.compile(r"<!-- public(?: ([^\s<>]+))? -->")
_COMMENT: Final = re.compile(r"<!--.*?-->")
_AUDIENCE: Final = re.compile(rf"[ \t]*<!-- (?:public(?: [^\s<>]+)?|private {_OWNERS_MARK}) -->")
_SAME: Final = "<!-- same person as "  # tells another account
_EVER: Final = (date(1, 1, 9), date(9999, 1, 9))  # a digest of a digest does not say of which days
_OF_LINKS: Final = ("sessions", "people", "topics")  # headings of the writer's links
_LOWEST: Final = 7  # below all levels of headings
_MOST_CHARS: Final = 32_768  # the structure of a longer page is not cached, to save memory
# What is in effect at a line: the level of the section, its scopes, and whether it is published.
_Marks = tuple[tuple[int, frozenset[str], bool], ...]
_Block = tuple[str, list[bool]]  # a text, and which of its lines are headings
_Structure = tuple[tuple[markdown.TextLine, ...], list[_Marks], list[_Block]]
_OF_PERIODS: Final = tuple(f"{name}/" for name in layout.SCOPED_DIRS)
_SOURCES: Final = re.compile(r"^sources: (\{.*\})[ \t\r]*$", re.MULTILINE)
_DAY_IN_PATH: Final = re.compile(
    r"/([0-9]{4})(?:-W([0-9]{2})|-([0-9]{2})(?:-([0-9]{2}))?)?(?![0-9])"
)


@cache
def _private_beginnings() -> tuple[str, ...]:
    """Return how such a heading starts, in all languages."""
    return tuple(f"{table.in_private}{table.colon.rstrip()}" for table in tables())


@cache
def _private_pattern() -> re.Pattern[str]:
    """Return a pattern for lines that resemble the start of a private section.

    It accepts damaged headings and marks, also quoted, indented or in a list.
    """
    begin = f"(?:{'|'.join(map(re.escape, _private_beginnings()))})"
    # Some programs end lines with a lone carriage return.
    return re.compile(rf"<!--[ \t]*priv|(?:^\ufeff?|\r)[ \t>#*_]*(?:[-+][ \t>]*#+[ \t]*)?{begin}")


def private_heading(label: str, scope: str, phrases: Phrases = ENGLISH) -> str:
    """Return the H2 of a scope's private section."""
    text = one_line(label, _LABEL_CHARS).replace("<", "").replace(">", "")
    return f"## {phrases.in_private}{phrases.colon}{text} {_private_mark(scope)}"


def source_heading(program: str, phrases: Phrases = ENGLISH) -> str:
    """Return the H2 of what another program remembers, which is the owner's."""
    return private_heading(f"{_OF_SOURCE}{program}", OWNERS, phrases)


def is_of_source(heading: str) -> bool:
    """Tell whether a heading is that of what another program remembers."""
    return _OF_SOURCE in heading


def _private_mark(scope: str) -> str:
    kind, name = split_scope(scope)
    marked = quote(name, safe="", errors="surrogatepass").replace("-", "%2D")
    return f"<!-- private {_PERSON if kind == 'person' else ''}{marked} -->"


def as_private(text: str, scope: str, title: str) -> str:
    """Mark every title of a page as belonging to a private scope.

    Args:
        text: A page, as `as_public` returns it.
        scope: The scope.
        title: H1 to add if it does not start with one.
    """
    return text if scope == SHARED else _with_mark(text, _private_mark(scope), title)


def _with_mark(text: str, mark: str, title: str) -> str:
    """Add a mark to every H1, of which a page has at least one then."""
    start = markdown.body_start(text)
    lines = list(markdown.scan(text[start:]))
    first = next((line for line in lines if line.text.strip()), None)
    head = "" if first and _is_h1(first) else f"# {title} {mark}{markdown.newline_of(text)}"
    return text[:start] + head + _mark_lines(lines, mark, _is_h1)


def _mark_lines(
    lines: Iterable[markdown.TextLine], mark: str, is_chosen: Callable[[markdown.TextLine], bool]
) -> str:
    return "".join(
        f"{line.text.rstrip()} {mark}{line.text[len(line.text.rstrip()) :]}"
        if is_chosen(line) and mark not in line.text
        else line.text
        for line in lines
    )


def told_to(scope: str) -> str:
    """Return the scope of text that is told to the owner and to those of `scope`."""
    return scope if scope in {PUBLIC, OWNERS} else either_scope(OWNERS, scope)


def with_audience(text: str, section: str, scope: str, title: str) -> str | None:
    """Mark a page, or its sections of a title, as told to a scope; None if there is none.

    Args:
        text: A page.
        section: The title of a section; empty: the whole page.
        scope: `PUBLIC`, `OWNERS`, or as `told_to` returns it.
        title: H1 to add to a page without one.
    """
    mark = _private_mark(scope) if scope == OWNERS else "<!-- public -->"
    if scope not in {PUBLIC, OWNERS}:
        mark = _private_mark(scope.split("\n")[1]).replace("private", "public", 1)
    is_all = scope == OWNERS and not section  # no section stays published then
    bare = "".join(
        _AUDIENCE.sub("", line.text)
        if _is_chosen(line, section) or (is_all and line.level and not line.in_code)
        else line.text
        for line in markdown.scan(text)
    )
    if not section:
        return _with_mark(bare, mark, title)
    marked = _mark_lines(markdown.scan(bare), mark, lambda line: _is_chosen(line, section))
    return None if marked == bare else marked


def with_owners_audience(text: str, title: str) -> str:
    """Mark a page as the owner's, unless a title of it says who is told."""
    lines = markdown.scan(text)
    is_marked = any(_is_h1(line) and _AUDIENCE.search(line.text) for line in lines)
    return text if is_marked else _with_mark(text, _private_mark(OWNERS), title)


def _is_chosen(line: markdown.TextLine, section: str) -> bool:
    if not line.text.startswith("#") or line.in_code:
        return False
    words = fold(_COMMENT.sub("", line.text).strip("# \t\r\n"))
    return words == fold(section) if section else line.level == 1


def as_public(text: str, scope: str) -> str:
    """Return a page of a private scope without the marks in its titles."""
    mark = f" {_private_mark(scope)}"
    return "".join(
        line.text.replace(mark, "") if _is_h1(line) else line.text for line in markdown.scan(text)
    )


def _is_h1(line: markdown.TextLine) -> bool:
    return line.level == 1 and not line.in_code and line.text.startswith("#")


def private_wishes_heading(scope: str, phrases: Phrases = ENGLISH) -> str:
    """Return the H2 of a scope's standing wishes, which every prompt with the person includes."""
    marked = private_heading("", scope, phrases)
    return f"{phrases.heading('wishes')} {marked[marked.index('<!--') :]}"


def private_scope(heading: str) -> str | None:
    """Return the private scope of a heading's section, or None."""
    match = _PRIVATE.search(heading)
    return _scope_of_mark(match[1]) if match else None


def visible_in(text: str, viewer: Viewer, rel_path: str = "") -> str:
    """Remove what is hidden from a viewer from Markdown `text`; see `owned_lines`."""
    return without_spans(text, private_spans(text, viewer, rel_path))


def without_spans(text: str, hidden: Iterable[tuple[int, int]]) -> str:
    """Return a text without some ranges, which are sorted."""
    shown, at = [], 0
    for start, end in hidden:
        shown.append(text[at:start])
        at = end
    return "".join((*shown, text[at:]))


def private_spans(text: str, viewer: Viewer, rel_path: str = "") -> list[tuple[int, int]]:
    """Return the line ranges that `visible_in` removes, as character offsets."""
    if not _may_hide_from(viewer, text, rel_path):
        return []
    seen = _seen_lines(text, viewer, rel_path)
    return [(line.start, line.end) for line, is_seen in seen if not is_seen]


def sha256_seen(text: str, sha256: str, viewer: Viewer, rel_path: str) -> str:
    """Return the hash of what a viewer sees of a page; `sha256`, of the file, if that is all."""
    seen = visible_in(text, viewer, rel_path)
    return sha256 if seen == text or not sha256 else sha256_of(seen)


def visible_place(hidden: Sequence[tuple[int, int]], place: int) -> int:
    """Return where a character of a page is once `private_spans` are taken out."""
    return place - sum(min(end, place) - start for start, end in hidden if start < place)


def numbered_text(text: str, viewer: Viewer, rel_path: str = "") -> str:
    """Return the text in which lines and characters are counted for a viewer.

    It is the page on disk for the owner; for others, numbers there would tell of hidden lines.
    """
    return text if viewer.is_owner else visible_in(text, viewer, rel_path)


def line_for(
    text: str,
    place: int,
    viewer: Viewer,
    rel_path: str = "",
    *,
    private: Sequence[tuple[int, int]] | None = None,
) -> int:
    """Return the number, from 1, of the line at a character, counted in `numbered_text`.

    Args:
        private: The `private_spans` of the page, if they are known.
    """
    if viewer.is_owner:
        return 1 + text.count("\n", 0, place)
    hidden = private_spans(text, viewer, rel_path) if private is None else private
    return 1 + without_spans(text, hidden).count("\n", 0, visible_place(hidden, place))


def may_hide(text: str, rel_path: str = "") -> bool:
    """Tell whether a text may hold a private section; fast, with false positives only."""
    if layout.scope_of_path(rel_path) or layout.is_owners_page(rel_path):
        return True
    marked = "<!--" in text and ("<!-- public " in text or _MEANT_MARK.search(text))
    return bool(marked) or any(begin in text for begin in _private_beginnings())


def _may_hide_from(viewer: Viewer, text: str, rel_path: str) -> bool:
    rules = viewer.rules
    if viewer.sees_everything or rules.shares:
        return False
    has_evidence = rules.evidence and ("<!-- turn" in text or rel_path.startswith(_OF_PERIODS))
    return bool(
        has_evidence
        or _is_of_owner(rel_path, rules)
        or rules.notes_are_owners
        or may_hide(text, rel_path)
        or _is_imported(rules, rel_path, text)
    )


def _is_of_owner(rel_path: str, rules: PrivacyRules) -> bool:
    """Tell whether a page is about an owner."""
    directory, _, name = rel_path.partition("/")
    return directory == layout.PEOPLE_DIR and name.removesuffix(".md") in rules.own


def _is_imported(rules: PrivacyRules, rel_path: str, text: str) -> bool:
    return rules.evidence is not None and rules.evidence.imported(rel_path, text)


def _seen_lines(text: str, viewer: Viewer, rel_path: str) -> list[tuple[markdown.TextLine, bool]]:
    """Return each line and whether a viewer may see it.

    A heading above nothing but hidden lines is hidden as well, since its words may come from the
    same turns, and so is everything on a page where only headings would be left.
    """
    owned = list(owned_lines(text, rel_path, viewer.rules))
    sees = {scopes: viewer.sees(scopes) for scopes in {scopes for _, scopes in owned}}
    seen = [sees[scopes] for _, scopes in owned]
    if not viewer.rules.evidence:
        return [(line, is_seen) for (line, _), is_seen in zip(owned, seen, strict=True)]
    if all(seen):
        return [(line, True) for line, _ in owned]
    start, levels = markdown.body_start(text), [False] * (_LOWEST + 1)
    is_empty = True
    for n in reversed(range(len(owned))):
        line = owned[n][0]
        if line.start < start or not _says_something(line):
            continue
        if line.level and not line.in_code:
            seen[n] = seen[n] and any(levels[line.level :])
            levels[line.level :] = [False] * len(levels[line.level :])
            levels[line.level - 1] |= seen[n]
        elif seen[n]:
            levels[_LOWEST], is_empty = True, False
    if is_empty:
        return [(line, False) for line, _ in owned]
    _close_gaps([line for line, _ in owned], seen)
    return [(line, is_seen) for (line, _), is_seen in zip(owned, seen, strict=True)]


def _close_gaps(lines: Sequence[markdown.TextLine], seen: list[bool]) -> None:
    """Show the blank lines that a page without the hidden lines would have.

    Of those above and below the hidden lines, the longer run is shown; at the start of a page, the
    first; at its end, the last.
    """
    places = [n for n, line in enumerate(lines) if line.text.strip()]
    shown = [-1, *(n for n in places if seen[n]), len(lines)]
    for above, below in pairwise(shown):
        hidden = places[bisect_right(places, above) : bisect_left(places, below)]
        start, end = (hidden[0], hidden[-1] + 1) if hidden else (below, above + 1)
        before, after = range(above + 1, start), range(end, below)
        is_first = above < 0 or (below < len(lines) and len(before) >= len(after))
        for n in range(above + 1, below):
            seen[n] = n in (before if is_first else after)


class AudiencePart(Struct, frozen=True):
    """The lines of a page that the same people may see, with the headings above them.

    Args:
        audience: Its private scopes; a viewer needs all of them.
        spans: Its ranges on the page, as character offsets.
    """

    audience: frozenset[str]
    spans: tuple[tuple[int, int], ...]


def parts_by_audience(text: str, rel_path: str, rules: PrivacyRules) -> list[AudiencePart]:
    """Split a page so that each part is the same whatever the others contain.

    The whole page is one part if nobody sees only some of it.
    """
    whole = ((0, len(text)),)
    if not _may_hide_from(Viewer(rules, frozenset()), text, rel_path):
        return [AudiencePart(frozenset(), whole)]
    owned = list(owned_lines(text, rel_path, rules))
    start = markdown.body_start(text)
    held: dict[frozenset[str], list[bool]] = {}
    said: set[frozenset[str]] = set()
    for n, (line, scopes) in enumerate(owned):
        if line.start < start or line.level or not line.text.strip():
            continue
        held.setdefault(scopes, [False] * len(owned))[n] = True
        if _says_something(line):
            said.add(scopes)
    every = frozenset[str]().union(*(scopes for _, scopes in owned))
    if not said or said == {every}:
        return [AudiencePart(every, whole)]
    return [
        AudiencePart(audience, _spans_of_part(owned, start, audience, is_in))
        for audience, is_in in held.items()
        if audience in said
    ]


def _spans_of_part(
    owned: Sequence[tuple[markdown.TextLine, frozenset[str]]],
    start: int,
    audience: frozenset[str],
    is_in: list[bool],
) -> tuple[tuple[int, int], ...]:
    """Add the front matter, headings and blank lines that belong to the lines of a part."""
    levels = [False] * (_LOWEST + 1)
    for n in reversed(range(len(owned))):
        line, scopes = owned[n]
        if line.start < start:
            is_in[n] = scopes <= audience
        elif is_in[n]:
            levels[_LOWEST] = True
        elif line.level:
            is_in[n] = scopes <= audience and any(levels[line.level :])
            levels[line.level :] = [False] * len(levels[line.level :])
            levels[line.level - 1] |= is_in[n]
    spans: list[tuple[int, int]] = []
    is_blank = True
    for (line, scopes), is_one in zip(owned, is_in, strict=True):
        if not (is_one or (scopes <= audience and not is_blank and not line.text.strip())):
            continue
        is_blank = not line.text.strip()
        if spans and spans[-1][1] == line.start:
            spans[-1] = (spans[-1][0], line.end)
        else:
            spans.append((line.start, line.end))
    return tuple(spans)


def _says_something(line: markdown.TextLine) -> bool:
    return any(map(str.isalnum, _COMMENT.sub("", line.text)))


def is_damaged(line: str) -> bool:
    """Tell whether a line resembles the start of a private section but has no valid mark."""
    return _private_pattern().search(line) is not None and not _PRIVATE.search(line)


def owned_lines(
    text: str, rel_path: str = "", rules: PrivacyRules | None = None
) -> Iterator[tuple[markdown.TextLine, frozenset[str]]]:
    """Yield each line with its private scopes; a viewer needs all of them.

    A page in a private conversation's folder belongs to it entirely, and one of the desk or a
    moment to the owner: pass `rel_path` if known. With `rules`, a line also has the scopes of the
    turns that it cites, and a page of a period those of all its sources. A published section has
    the scope that its heading states, instead of these.
    Ambiguous structure stays private: a heading with a damaged mark hides its section from
    everyone, only an unindented heading ends a section, and one started inside a code block extends
    to the end.
    """
    read = _structure_of if len(text) <= _MOST_CHARS else _structure_of.__wrapped__
    structure = lines, marks, _ = read(text)
    rests_on = _scopes_of_lines(text, structure, rel_path, rules)
    for line, of_line, owners in zip(lines, marks, rests_on, strict=True):
        for _, scopes, is_published in of_line:
            owners = scopes if is_published else owners | scopes  # noqa: PLW2901
        yield line, owners


@lru_cache(maxsize=128)  # one question after another finds the same pages
def _structure_of(text: str) -> _Structure:
    lines = tuple(markdown.scan(text))
    blocks = _blocks(lines, markdown.body_start(text))
    texts = [("".join(x.text for x in block), [x.level > 0 for x in block]) for block in blocks]
    return lines, list(_marks_of_lines(lines)), texts


def _marks_of_lines(lines: Iterable[markdown.TextLine]) -> Iterator[_Marks]:
    opened: _Marks = ()
    for line in lines:
        if line.text.startswith("#") and (level := line.level):
            opened = tuple(
                one for one in opened if one[0] < level or (level == 1 < one[0] and not one[2])
            )
        if "<!-- private " in line.text and (marks := _PRIVATE.findall(line.text)):
            opened += ((_intended_level(line), frozenset(map(_scope_of_mark, marks)), False),)
        elif is_damaged(line.text):
            opened += ((_intended_level(line), frozenset({_NOBODY}), False),)
        elif line.level and not line.in_code and (mark := _PUBLISHED.search(line.text)):
            to = frozenset(told_to(_scope_of_mark(mark)) for mark in mark.groups() if mark)
            opened += ((line.level, to, True),)
        yield opened


def _scopes_of_lines(
    text: str, structure: _Structure, rel_path: str, rules: PrivacyRules | None
) -> list[frozenset[str]]:
    """Return what each line rests on, apart from marks."""
    lines, _, blocks = structure
    owners = frozenset({OWNERS})
    page = frozenset(filter(None, (layout.scope_of_path(rel_path),)))
    is_period = rel_path.startswith(_OF_PERIODS)
    is_apart = page and (is_period or not (rules and rules.notes_are_owners))
    if layout.is_owners_page(rel_path):
        page |= owners
    evidence = rules and rules.evidence
    if not evidence or not rules or is_apart:
        return [page] * len(lines)
    is_imported = _is_imported(rules, rel_path, text)
    texts = [of_block for of_block, _ in blocks]
    citations = evidence.cited(texts)
    if is_period:
        page = page.union(*citations, _made_from(text, evidence), owners if is_imported else ())
        return [page] * len(lines)
    is_note = rules.notes_are_owners and not rel_path.startswith(
        (f"{layout.SELF_DIR}/", f"{layout.LORE_DIR}/")
    )
    if is_note or is_imported:
        if all(all(headings) or not text.strip() for text, headings in blocks):
            page |= owners  # they typed or imported the headings, too
        citations = [
            scopes if "<!-- turn" in text else scopes | owners
            for text, scopes in zip(texts, citations, strict=True)
        ]
    citations = _with_links_apart(texts, citations)
    result: list[frozenset[str]] = []
    for (_, headings), scopes in zip(blocks, citations, strict=True):
        of_block = page | scopes if scopes else page
        result += [page if is_heading else of_block for is_heading in headings]
    if _is_of_owner(rel_path, rules):
        return list(_with_names_apart(text, lines, result, evidence.names()))
    return result


def _with_names_apart(
    text: str,
    lines: Iterable[markdown.TextLine],
    scopes: Iterable[frozenset[str]],
    public: Container[str],
) -> Iterator[frozenset[str]]:
    """Yield the scopes of the lines about an owner, whose names may be known from private turns."""
    start, is_listed = markdown.body_start(text), False
    for line, owners in zip(lines, scopes, strict=True):
        if line.level:
            is_listed = heading_in(line.title) == "aliases"
        is_name = line.start < start or line.level == 1 or (is_listed and not line.level)
        name = _COMMENT.sub("", line.title if line.level else markdown.without_marker(line.text))
        is_hidden = is_name and name.strip() and fold(name.strip()) not in public
        yield owners | {OWNERS} if is_hidden or _SAME in line.text else owners


def _with_links_apart(
    texts: Sequence[str], citations: Sequence[frozenset[str]]
) -> list[frozenset[str]]:
    """Return the scopes of blocks; some links without a citation have those of their whole page.

    The writer once added links that cite nothing, below headings of its own; elsewhere, a person
    typed them.
    """
    every, heading, result = frozenset[str]().union(*citations), "", list[frozenset[str]]()
    for text, scopes in zip(texts, citations, strict=True):
        heading = heading_in(text.strip("# \t\r\n")) if text.startswith("#") else heading
        is_old = heading in _OF_LINKS and "<!-- turn" not in text and only_links(text)
        result.append(every if every and is_old else scopes)
    return result


def _blocks(lines: Sequence[markdown.TextLine], start: int) -> Iterator[list[markdown.TextLine]]:
    """Yield the headings, list items and runs of paragraphs of a page, with all their lines.

    A citation ends what it supports: several paragraphs may have one in common.
    """
    block: list[markdown.TextLine] = []
    is_item = has_gap = False
    for line in lines:
        if line.start < start:
            yield [line]
            continue
        is_new = line.level or (line.is_item and not line.in_code)
        is_outside = is_item and has_gap and line.text.strip() and not line.text[:1].isspace()
        if block and (is_new or block[0].level or is_outside):
            yield block
            block = []
        if not block:
            is_item = bool(line.is_item)
        block.append(line)
        has_gap = not line.text.strip()
    if block:
        yield block


def _made_from(text: str, evidence: Evidence) -> frozenset[str]:
    """Return the owner's scope if the sources of a page of a period may hold what they said."""
    record = _SOURCES.search(text, 0, markdown.body_start(text))
    try:
        sources = json.loads(record[1]) if record else {}
    except (ValueError, RecursionError):
        return frozenset({OWNERS})
    days = [day for path in sources for day in days_of_path(path)]
    if not sources:
        return frozenset()
    return evidence.between(*((min(days), max(days)) if days else _EVER))


def days_of_path(rel_path: str) -> tuple[date, ...]:
    """Return the first and last day that a source may be about; none if its path tells none."""
    match = _DAY_IN_PATH.search(rel_path)
    if match is None:
        return ()
    year, week, month, day = (int(part or 0) for part in match.groups())
    try:
        if week:
            return date.fromisocalendar(year, week, 1), date.fromisocalendar(year, week, 7)
        if day:
            return (date(year, month, day),)
        # The weeks of a month, or of a year, begin before it or end after it.
        return (
            date(year, month or 1, 1) - timedelta(weeks=1),
            date(year, month or 12, 28) + timedelta(weeks=1),
        )
    except (ValueError, OverflowError):
        return ()


def _intended_level(line: markdown.TextLine) -> int:
    """Return the intended heading level of a line."""
    if line.in_code:
        return 0
    levels = [len(hashes) for hashes in _HASHES.findall(line.text)]
    return line.level or min(levels, default=_USUAL_LEVEL)


def _scope_of_mark(mark: str) -> str:
    if mark.startswith(_PERSON):
        return person_scope(unquote(mark[1:], errors="surrogatepass"))
    return channel_scope(unquote(mark, errors="surrogatepass"))


def outward_text(text: str, viewer: Viewer, rel_path: str = "") -> str:
    """Return the part of a page that another program may see.

    Args:
        text: The page.
        viewer: Viewer of the result.
        rel_path: Path of the page, if known.
    """
    seen = visible_in(text, viewer, rel_path)
    shown = seen[_words_start(seen) :].strip("\n")
    return f"{shown}\n" if shown else ""


def holds_back(text: str, viewer: Viewer, rel_path: str = "") -> bool:
    """Tell whether `outward_text` leaves out private parts of a page."""
    return bool(private_spans(text, viewer, rel_path))


def put_back(text: str, new: str, viewer: Viewer, rel_path: str = "") -> str:
    """Apply another program's version `new` to a page, keeping what it could not see.

    Private parts stay behind the line that they follow. If others could see them there, they move
    to the end, where they cannot capture other lines. Lines keep their marks; see `keep_comments`.

    Args:
        text: Current page; empty if there is none.
        new: Edited result of `outward_text`.
        viewer: The viewer passed to `outward_text`.
        rel_path: Path of the page, as passed to `outward_text`.

    Raises:
        RefusedError: The private parts could not be kept private, or something is published.
    """
    seen = outward_text(text, viewer, rel_path)
    new = keep_comments(seen, new)
    if seen == new:
        return text
    if Counter(_PUBLISHED.findall(new)) - Counter(_PUBLISHED.findall(seen)):
        raise RefusedError(
            "A program cannot decide who may see a part of a file; nothing was changed",
            hint="Leave out the mark; a person can run `familiar memory publish`.",
        )
    start = _words_start(text)
    hidden = private_spans(text, viewer, rel_path)
    made = text[:start] + _in_their_places(text[start:], new, hidden, start)
    if outward_text(made, viewer, rel_path) == outward_text(new, viewer, rel_path):
        return made
    kept = "".join(text[max(first, start) : end] for first, end in hidden if end > start)
    kept = kept.lstrip("\r\n")
    gap = "" if not kept or new.endswith("\n\n") else "\n" if new.endswith("\n") else "\n\n"
    made = text[:start] + new + gap + kept
    if kept and outward_text(made, viewer, rel_path) != outward_text(new, viewer, rel_path):
        raise RefusedError(
            "The private parts of the file could not be kept separate; nothing was changed",
            hint="A person can edit the file itself.",
        )
    return made


def keep_comments(seen: str, new: str) -> str:
    """Return a program's version of a page, with the marks and citations that it left out.

    They decide who may see a line. The page's own mark stays even if its title is another one.
    """
    marked = (line for line in seen.split("\n") if "<!--" in line)
    known = {bare: line for line in marked if (bare := _COMMENT.sub("", line).strip())}
    new = "\n".join(known.get(line.strip(), line) for line in new.split("\n"))
    marks = (_AUDIENCE.search(line.text) for line in markdown.scan(seen) if _is_h1(line))
    if not (mark := next(filter(None, marks), None)) or not new.strip():
        return new
    is_marked = any(_is_h1(line) and _AUDIENCE.search(line.text) for line in markdown.scan(new))
    return new if is_marked else _with_mark(new, mark[0].strip(), markdown.title_of(seen))


def _in_their_places(body: str, new: str, hidden: Sequence[tuple[int, int]], start: int) -> str:
    """Return an edited page with the hidden lines behind the lines that they follow.

    Args:
        body: The page without its front matter.
        new: Its visible part, edited.
        hidden: Ranges of hidden lines in the whole page.
        start: Where `body` begins in it.
    """
    seen: list[str] = []
    private: dict[int, str] = {}  # by the number of visible lines before
    at = start
    for line in markdown.split_lines(body):
        if any(first <= at < end for first, end in hidden):
            private[len(seen)] = private.get(len(seen), "") + line.rstrip("\n") + "\n"
        else:
            seen.append(line)
        at += len(line)
    lines = markdown.split_lines(new if new.endswith("\n") or not new else f"{new}\n")
    place = {0: 0}
    for i, j, length in matching_blocks(seen, lines):
        place |= {i + n + 1: j + n + 1 for n in range(length)}
    for before in sorted(private, reverse=True):
        nearest = max(known for known in place if known <= before)
        lines.insert(place[nearest], private[before])
    return "".join(lines)


def _words_start(text: str) -> int:
    """Return the offset of a page's text, after front matter and the blank line there."""
    start = markdown.body_start(text)
    return len(text) - len(text[start:].lstrip("\n"))
