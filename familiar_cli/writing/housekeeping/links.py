"""Find broken links and relations, unlinked topics, and files that are too long."""

from __future__ import annotations

import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from familiar_cli.base import markdown
from familiar_cli.base.text import counted, fold, shorten_list, slugify
from familiar_cli.base.who.visibility import NOBODY
from familiar_cli.store.fts import content_words, is_unspaced
from familiar_cli.store.memory.layout import NOTES, RELATION_KINDS, SUFFIXES, TOPICS_DIR
from familiar_cli.store.memory.pages.lines import citations_in, citing
from familiar_cli.store.memory.pages.links import link_places, title_of, way_to
from familiar_cli.store.memory.pages.relations import (
    Kinds,
    NameFinder,
    Relation,
    kinds_of,
    relations_in,
)
from familiar_cli.store.memory.pages.visible_lines import private_spans
from familiar_cli.store.memory.relation_index import DIRS
from familiar_cli.writing.housekeeping.lines import (
    DAY,
    Corpus,
    Finding,
    MemoryText,
    Options,
    Quote,
    quote_lines,
    words_in,
)
from familiar_cli.writing.pending import PlannedFile

# "example.org/tea" lacks only its scheme.
_ADDRESS: Final = re.compile(r"(?:[a-z0-9-]+\.)+[a-z]{2,}(?=/|$)", re.IGNORECASE)
_FILES: Final = (*SUFFIXES, ".json", ".toml", ".yaml", ".yml", ".csv", ".png", ".jpg", ".jpeg")
_MOST_NAMED: Final = 8


class _Broken(Struct, frozen=True):
    """A broken link.

    Args:
        target: Its intended target.
        start: Start of its text.
        end: End of its text.
        mend: Replacement text; empty: unknown.
    """

    target: str
    start: int
    end: int
    mend: str = ""


def check_links(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each file with broken links."""
    del options
    named: dict[str, list[str]] = defaultdict(list)
    for path in corpus.paths:
        named[fold(posixpath.basename(path))].append(path)
    for note in corpus.notes:
        broken = [*_broken_links(note, corpus, named), *_broken_wiki_links(note, corpus)]
        if broken:
            yield _make_finding(note, sorted(broken, key=lambda link: link.start))


def _broken_links(
    note: MemoryText, corpus: Corpus, named: dict[str, list[str]]
) -> Iterator[_Broken]:
    for place in note.links:
        written = note.text[place.start : place.end]
        if not corpus.names.has(place.target) and not _is_address(written):
            items = named.get(fold(posixpath.basename(place.target)), [])
            target = items[0] if len(items) == 1 else None
            mend = _new_link(note.rel_path, target, written) if target else ""
            yield _Broken(place.target, place.start, place.end, mend)


def _broken_wiki_links(note: MemoryText, corpus: Corpus) -> Iterator[_Broken]:
    for link in note.wiki_links:
        if corpus.names.find(link.name, note.rel_path) is None:
            bare = posixpath.basename(link.name)
            there = corpus.names.named(bare)
            mend = corpus.names.name_of(there[0], note.rel_path, bare) if len(there) == 1 else ""
            yield _Broken(link.name, link.start, link.end, mend)


def _make_finding(note: MemoryText, broken: list[_Broken]) -> Finding:
    mended = [(link.start, link.end, link.mend) for link in broken if link.mend]
    after = markdown.replace_spans(note.text, mended)
    targets = dict.fromkeys(link.target for link in broken)
    return Finding(
        (note.rel_path,),
        f"links to missing files: {shorten_list(targets, _MOST_NAMED)}",
        quote_lines(note, dict.fromkeys(_lines_of(note.text, broken))),
        repair=(PlannedFile(note.rel_path, note.text, after),) if mended else (),
        hint="A file of that name is elsewhere; `--propose` plans to link to it."
        if mended
        else "Create the file, or remove the link.",
    )


def _lines_of(text: str, broken: list[_Broken]) -> Iterator[int]:
    number, at = 1, 0
    for place in broken:
        number += text.count("\n", at, place.start)
        at = place.start
        yield number


def _is_address(link: str) -> bool:
    found = _ADDRESS.match(link)
    return found is not None and not found[0].lower().endswith(_FILES)


def _new_link(source: str, target: str, text: str) -> str:
    """Build a link to a file, keeping the fragment of the old one."""
    return way_to(target, source) + "".join(re.findall(r"[#?].*", text)[:1])


_LEAST_CHARS: Final = 2


def check_orphans(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each topic without links to or from it."""
    del options
    notes = [note for note in corpus.notes if note.rel_path.lower().endswith(SUFFIXES)]
    alone = {note.rel_path: note for note in notes if note.directory == TOPICS_DIR}
    subjects = _Subjects(alone.values())
    for note in notes:
        out = corpus.led_to(note) - {note.rel_path}
        if out:
            alone.pop(note.rel_path, None)
        for target in (*out, *subjects.found_in(note)):
            if target != note.rel_path:
                alone.pop(target, None)
    for note in alone.values():
        yield Finding(
            (note.rel_path,),
            "no other file links to this topic or mentions it",
            quote_lines(note, [1]),
            hint="Link to it from the person or topic it belongs to.",
        )


class _Subjects:
    """Index of topics by the words that identify them.

    A file mentions a topic if it contains all words of its title or file name, in any order; in
    unspaced scripts, the title itself.

    Args:
        topics: The files.
    """

    def __init__(self, topics: Iterable[MemoryText]) -> None:
        self._by_word: dict[str, list[tuple[frozenset[str], str]]] = defaultdict(list)
        inside: dict[str, str] = {}
        said: list[tuple[frozenset[str], str]] = []
        for note in topics:
            stem = posixpath.splitext(posixpath.basename(note.rel_path))[0]
            for name in (title_of(note.text, note.rel_path), stem):
                if is_unspaced(name):
                    inside[name.casefold().strip()] = note.rel_path
                elif words := frozenset(map(_word_stem, words_in(" ".join(content_words(name))))):
                    said.append((words, note.rel_path))
        often = Counter(word for words, _ in said for word in words)
        for words, path in said:
            rarest = min(words, key=lambda word: (often[word], word))
            for form in (rarest, f"{rarest}s"):
                self._by_word[form].append((words, path))
        self._inside = NameFinder(inside) if inside else None

    def found_in(self, note: MemoryText) -> set[str]:
        """Return the topics that a file mentions, except itself; each is reported only once."""
        words = set(words_in(note.folded))
        items: set[str] = set()
        for word in words:
            asked = self._by_word.get(word)
            if asked:
                told = [
                    (needed, path)
                    for needed, path in asked
                    if path != note.rel_path
                    and all(one in words or f"{one}s" in words for one in needed)
                ]
                items.update(path for _, path in told)
                if told:
                    self._by_word[word] = [one for one in asked if one[1] not in items]
        if self._inside and not note.folded.isascii():
            items.update(self._inside.all_in(note.folded))
        return items


def _word_stem(word: str) -> str:
    """Strip a plural `s` from a word, if it seems to be one."""
    return word.removesuffix("s") if len(word) > _LEAST_CHARS else word


NEAR: Final = 0.8
"""From which share of the largest size on a file is named."""


def check_size(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each file near or over the size limit."""
    most = options.max_file_bytes
    for note in corpus.notes:
        if note.size_bytes >= NEAR * most:
            share = round(100 * note.size_bytes / most)
            state = "is full" if note.size_bytes > most else "is nearly full"
            yield Finding(
                (note.rel_path,),
                f"{state}: {note.size_bytes:,} bytes, {share} % of what a file may hold",
                (),
                hint="Move part of it to a new file, and link the two.",
            )


LEAST_LINES: Final = 5
LEAST_CHARS: Final = 600
"""A section with so many lines, or so much text, is ready."""
_SHOWN: Final = 3
_MOST_PLANS: Final = 20  # each contains the whole file twice


def check_topics(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each section of the notes that could become a topic."""
    del options
    note = next((n for n in corpus.notes if n.rel_path == NOTES), None)
    if note is None:
        return
    newline = markdown.newline_of(note.text)
    below = (path for path in sorted(corpus.paths) if path.startswith(f"{TOPICS_DIR}/"))
    taken = {slugify(posixpath.splitext(posixpath.basename(path))[0]): path for path in below}
    plans = 0
    for section in _public_sections(note.text):
        lines = [line for line in section.below if line.text.strip()]
        if len(lines) < LEAST_LINES and len(section.body.strip()) < LEAST_CHARS:
            continue
        if DAY.search(section.title) or any(map(_is_to_do, lines)):
            continue  # diaries and to-do lists are not topics
        slug = slugify(section.title)
        is_free = bool(slug) and slug not in taken
        path = taken.setdefault(slug, f"{TOPICS_DIR}/{slug}.md")
        plans += is_free
        yield Finding(
            (NOTES,),
            f"the section {section.title!r} is long enough for a topic: {len(lines)} lines",
            _first_of(section),
            repair=_plan_repair(note, section, path, newline)
            if is_free and plans <= _MOST_PLANS
            else (),
            hint=_repair_hint(path, is_free=is_free, is_late=plans > _MOST_PLANS),
        )


def _repair_hint(path: str, *, is_free: bool, is_late: bool) -> str:
    if not is_free:
        return f"{path} already exists; move what it lacks by hand."
    if is_late:
        return f"`--propose` plans {_MOST_PLANS} at a time; propose again once those are reviewed."
    return f"`--propose` plans to move it to {path}."


def _public_sections(text: str) -> Iterator[markdown.Section]:
    """Yield the H2 sections except private ones."""
    private = [start for start, _ in private_spans(text, NOBODY)]
    for section in markdown.sections(text, 2):
        holds = any(section.start <= start < section.end for start in private)
        if section.level == 2 and not holds:  # noqa: PLR2004
            yield section


def _is_to_do(line: markdown.TextLine) -> bool:
    item = None if line.in_code else markdown.bullet(line.text)
    return item is not None and bool(item.box)


def _plan_repair(
    note: MemoryText, section: markdown.Section, path: str, newline: str
) -> tuple[PlannedFile, ...]:
    heading = section.lines[0].text.rstrip()
    link = citing(f"- [{section.title}]({path})", citations_in(section.body))
    left = f"{heading}{newline}{newline}{link}{newline}"
    rest = note.text[section.end :]
    after = note.text[: section.start] + left + (newline + rest if rest else "")
    moved = _move_links(section.body.strip(), path)
    topic = f"# {section.title}{newline}{newline}{moved}{newline}"
    return (PlannedFile(path, None, topic), PlannedFile(NOTES, note.text, after))


def _first_of(section: markdown.Section) -> tuple[Quote, ...]:
    said = (line for line in section.lines if line.text.strip())
    return tuple(Quote(NOTES, line.number, line.text) for line in islice(said, _SHOWN))


def _move_links(body: str, path: str) -> str:
    """Rewrite relative links in text of the notes for its new directory."""
    way = "../" * path.count("/")
    written = ((one.start, one.end, body[one.start : one.end]) for one in link_places(body, NOTES))
    return markdown.replace_spans(
        body,
        (
            (start, end, way + link.removeprefix("./"))
            for start, end, link in written
            if not link.startswith("/")
        ),
    )


_MOST_STEPS: Final = 50


class _LocatedRelation(Struct, frozen=True):
    """A relation with its location and the page it refers to."""

    note: MemoryText
    relation: Relation
    target: str


def check_relations(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield findings for invalid relations."""
    del options
    table = next((note.text for note in corpus.notes if note.rel_path == RELATION_KINDS), "")
    kinds = kinds_of(table)
    stated: list[_LocatedRelation] = []
    for note in corpus.notes:
        if note.directory not in DIRS:
            continue
        lines = relations_in(note.text, note.rel_path, kinds.known)
        if lines.unread:
            yield _relation_finding(
                note,
                lines.unread,
                f"{counted(len(lines.unread), 'line')} below Relations refers to nobody",
                "Write `- sister of [Robin](discord-42.md)`: a relation, then a link.",
            )
        leads = ((one, _target_page(one, note, corpus)) for one in lines.relations)
        stated += (_LocatedRelation(note, one, target) for one, target in leads if target)
        yield from _find_wrong(note, lines.relations, corpus)
    yield from _find_contradictions(stated, kinds)
    yield from _find_circles(stated, kinds)


def _target_page(one: Relation, note: MemoryText, corpus: Corpus) -> str:
    """Return the page that a relation refers to; empty: none."""
    path = one.target or corpus.names.find(one.name.partition("|")[0], note.rel_path) or ""
    return path if path in corpus.paths else ""


def _find_wrong(
    note: MemoryText, relations: tuple[Relation, ...], corpus: Corpus
) -> Iterator[Finding]:
    """Yield findings for individually invalid relations of a page."""
    lines = [one.line for one in relations if not _target_page(one, note, corpus)]
    if lines:
        yield _relation_finding(
            note,
            lines,
            f"{counted(len(lines), 'relation')} to somebody without a file",
            "Create the file, or correct the link.",
        )
    own = [one.line for one in relations if _target_page(one, note, corpus) == note.rel_path]
    if own:
        yield _relation_finding(note, own, "is related to itself", "Remove the line.")
    ends = [one.line for one in relations if one.since and one.until and one.until < one.since]
    if ends:
        yield _relation_finding(
            note, ends, "a relation ends before it begins", "Correct `since` or `until`."
        )


def _find_contradictions(stated: list[_LocatedRelation], kinds: Kinds) -> Iterator[Finding]:
    """Yield findings for pairs of pages that each claim the same asymmetric relation."""
    above: dict[tuple[str, str, str], _LocatedRelation] = {}
    for order, upper, lower, one in _current_steps(stated, kinds):
        above.setdefault((order, upper, lower), one)
    for (order, upper, lower), one in above.items():
        other = above.get((order, lower, upper))
        if other is not None and upper < lower:
            yield Finding(
                tuple(dict.fromkeys((one.note.rel_path, other.note.rel_path))),
                f"{one.relation.relation!r} and {other.relation.relation!r} contradict each other",
                (
                    *quote_lines(one.note, [one.relation.line]),
                    *quote_lines(other.note, [other.relation.line]),
                ),
                hint="Correct one of them, or end it with `until`.",
            )


def _current_steps(
    stated: list[_LocatedRelation], kinds: Kinds
) -> Iterator[tuple[str, str, str, _LocatedRelation]]:
    """Yield the order, the upper and the lower page of each relation that puts one above."""
    for one in stated:
        step = kinds.step(one.relation.relation)
        if step and not one.relation.until and not one.relation.private:
            ends = (one.note.rel_path, one.target)
            yield step[0], *(ends if step[1] else ends[::-1]), one


def _find_circles(stated: list[_LocatedRelation], kinds: Kinds) -> Iterator[Finding]:
    """Yield findings for impossible cycles of three or more pages, each once."""
    below: dict[str, dict[str, dict[str, _LocatedRelation]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for order, upper, lower, one in _current_steps(stated, kinds):
        below[order][upper].setdefault(lower, one)
    for edges in below.values():
        for circle in _found_circles(edges):
            steps = [edges[a][b] for a, b in zip(circle, (*circle[1:], circle[0]), strict=True)]
            yield Finding(
                tuple(dict.fromkeys(one.note.rel_path for one in steps)),
                f"{len(circle)} relations form a cycle",
                tuple(q for one in steps for q in quote_lines(one.note, [one.relation.line])),
                hint="One of them is wrong: nobody is above themselves.",
            )


def _found_circles(edges: dict[str, dict[str, _LocatedRelation]]) -> Iterator[tuple[str, ...]]:
    """Yield each cycle once, from the page of it that comes first by path."""
    for start in sorted(edges):
        came: dict[str, str] = {}
        level = [start]
        for _ in range(_MOST_STEPS):
            level = [
                lower
                for upper in level
                for lower in edges.get(upper, ())
                if lower >= start and came.setdefault(lower, upper) == upper
            ]
            if not level or start in came:
                break
        path = [start]
        while start in came and came[path[-1]] != start and len(path) <= _MOST_STEPS:
            path.append(came[path[-1]])
        if start in came and len(path) > 2:  # noqa: PLR2004  # two are a contradiction
            yield (path[0], *reversed(path[1:]))


def _relation_finding(
    note: MemoryText, lines: list[int] | tuple[int, ...], what: str, hint: str
) -> Finding:
    return Finding((note.rel_path,), what, quote_lines(note, lines), hint=hint)
