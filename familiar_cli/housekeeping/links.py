"""Links that lead nowhere, topics that nothing links to, files and sections that are too long."""

from __future__ import annotations

import posixpath
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from familiar_cli.fts import content_words, is_unspaced
from familiar_cli.housekeeping.lines import DAY, Check, Finding, Quote, quotes, words_in
from familiar_cli.markdown import bullet, newline_of, sections
from familiar_cli.memory.layout import NOTES, TOPICS_DIR
from familiar_cli.memory.pages.lines import private_spans
from familiar_cli.memory.pages.links import SUFFIXES, link_places, title_of, way_to
from familiar_cli.review.pending import PlannedFile
from familiar_cli.text import fold, slugify
from familiar_cli.visibility import NOBODY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from familiar_cli.housekeeping.lines import Corpus, MemoryText, Options
    from familiar_cli.markdown import Section, TextLine
    from familiar_cli.memory.pages.links import LinkPlace


# "example.org/tea" lacks only its scheme.
_ADDRESS: Final = re.compile(r"(?:[a-z0-9-]+\.)+[a-z]{2,}(?=/|$)", re.IGNORECASE)
_FILES: Final = (*SUFFIXES, ".json", ".toml", ".yaml", ".yml", ".csv", ".png", ".jpg", ".jpeg")
_MOST_NAMED: Final = 8


@dataclass(frozen=True, slots=True)
class _Broken:
    """A link that leads nowhere.

    Args:
        target: What it means.
        start: Where the text begins that says so.
        end: Where that ends.
        mend: What to write there; empty: nobody knows.
    """

    target: str
    start: int
    end: int
    mend: str = ""


def check_links(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each file with links that lead nowhere."""
    del options
    named: dict[str, list[str]] = defaultdict(list)
    for path in corpus.paths:
        named[fold(posixpath.basename(path))].append(path)
    for note in corpus.notes:
        broken = [*_markdown(note, corpus, named), *_wiki(note, corpus)]
        if broken:
            yield _finding(note, sorted(broken, key=lambda link: link.start))


def _markdown(note: MemoryText, corpus: Corpus, named: dict[str, list[str]]) -> Iterator[_Broken]:
    for place in note.links:
        written = note.text[place.start : place.end]
        if not corpus.names.has(place.target) and not _is_address(written):
            target = _moved_to(place, named)
            mend = _link(note.rel_path, target, written) if target else ""
            yield _Broken(place.target, place.start, place.end, mend)


def _wiki(note: MemoryText, corpus: Corpus) -> Iterator[_Broken]:
    for link in note.wiki_links:
        if corpus.names.find(link.name, note.rel_path) is None:
            bare = posixpath.basename(link.name)
            there = corpus.names.named(bare)
            mend = corpus.names.name_of(there[0], note.rel_path, bare) if len(there) == 1 else ""
            yield _Broken(link.name, link.start, link.end, mend)


def _finding(note: MemoryText, broken: list[_Broken]) -> Finding:
    parts, at = [], 0
    for link in broken:
        if link.mend:
            parts += [note.text[at : link.start], link.mend]
            at = link.end
    after = "".join((*parts, note.text[at:]))
    targets = list(dict.fromkeys(link.target for link in broken))
    more = f" and {len(targets) - _MOST_NAMED} more" if len(targets) > _MOST_NAMED else ""
    return Finding(
        LINKS_CHECK.name,
        (note.rel_path,),
        f"links to missing files: {', '.join(targets[:_MOST_NAMED])}{more}",
        quotes(note, dict.fromkeys(_lines_of(note.text, broken))),
        repair=(PlannedFile(note.rel_path, note.text, after),) if at else (),
        hint="A file of that name is elsewhere; `--propose` plans to link to it."
        if at
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


def _moved_to(place: LinkPlace, named: dict[str, list[str]]) -> str | None:
    """Return the one file that bears the name of the file that is missing."""
    found = named.get(fold(posixpath.basename(place.target)), [])
    return found[0] if len(found) == 1 else None


def _link(source: str, target: str, written: str) -> str:
    """Return the way to a file, with the place in it that the old link named."""
    return way_to(target, source) + "".join(re.findall(r"[#?].*", written)[:1])


LINKS_CHECK: Final = Check("links", "Broken links", check_links)


_LEAST_CHARS: Final = 2


def check_orphans(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each topic that nothing leads to and that leads nowhere."""
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
            ORPHANS_CHECK.name,
            (note.rel_path,),
            "no other file links to this topic or mentions it",
            quotes(note, [1]),
            hint="Link to it from the person or topic it belongs to.",
        )


class _Subjects:
    """What topics are about, and whether a file speaks of one.

    It does if it holds all words of the title, or of the topic's file name, in whatever order; of
    unspaced scripts the title itself.

    Args:
        topics: The files.
    """

    def __init__(self, topics: Iterable[MemoryText]) -> None:
        self._by_word: dict[str, list[tuple[frozenset[str], str]]] = defaultdict(list)
        self._inside: dict[str, str] = {}
        said: list[tuple[frozenset[str], str]] = []
        for note in topics:
            stem = posixpath.splitext(posixpath.basename(note.rel_path))[0]
            for name in (title_of(note.text, note.rel_path), stem):
                if is_unspaced(name):
                    self._inside[name.casefold().strip()] = note.rel_path
                elif words := frozenset(map(_stem, words_in(" ".join(content_words(name))))):
                    said.append((words, note.rel_path))
        often = Counter(word for words, _ in said for word in words)
        for words, path in said:
            rarest = min(words, key=lambda word: (often[word], word))
            for form in (rarest, f"{rarest}s"):
                self._by_word[form].append((words, path))
        self._lengths: dict[str, set[int]] = defaultdict(set)
        for name in self._inside:
            self._lengths[name[0]].add(len(name))

    def found_in(self, note: MemoryText) -> set[str]:
        """Return the topics that a file speaks of, itself left out; each is told of once only."""
        words = set(words_in(note.folded))
        found: set[str] = set()
        for word in words:
            asked = self._by_word.get(word)
            if asked:
                told = [
                    (needed, path)
                    for needed, path in asked
                    if path != note.rel_path
                    and all(one in words or f"{one}s" in words for one in needed)
                ]
                found.update(path for _, path in told)
                if told:
                    self._by_word[word] = [one for one in asked if one[1] not in found]
        if self._inside and not note.folded.isascii():
            found |= self._in_runs(note.folded)
        return found

    def _in_runs(self, folded: str) -> set[str]:
        return {
            self._inside[folded[at : at + length]]
            for at, char in enumerate(folded)
            for length in self._lengths.get(char, ())
            if folded[at : at + length] in self._inside
        }


def _stem(word: str) -> str:
    """Return a word without the `s` of a plural, as far as that can be told."""
    return word.removesuffix("s") if len(word) > _LEAST_CHARS else word


ORPHANS_CHECK: Final = Check("orphans", "Topics without links", check_orphans)


NEAR: Final = 0.8
"""From which share of the largest size on a file is named."""


def check_size(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each file near or over the largest size."""
    most = options.max_file_bytes
    for note in corpus.notes:
        if note.size_bytes >= NEAR * most:
            share = round(100 * note.size_bytes / most)
            state = "is full" if note.size_bytes > most else "is nearly full"
            yield Finding(
                SIZE_CHECK.name,
                (note.rel_path,),
                f"{state}: {note.size_bytes:,} bytes, {share} % of what a file may hold",
                (),
                hint="Move part of it to a new file, and link the two.",
            )


SIZE_CHECK: Final = Check("size", "Long files", check_size)


LEAST_LINES: Final = 5
LEAST_CHARS: Final = 600
"""A section with so many lines, or so much text, is ready."""
_SHOWN: Final = 3
_MOST_PLANS: Final = 20  # each holds the whole file twice


def check_topics(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each section of the notes that could be a topic."""
    del options
    note = next((n for n in corpus.notes if n.rel_path == NOTES), None)
    if note is None:
        return
    newline = newline_of(note.text)
    below = (path for path in sorted(corpus.paths) if path.startswith(f"{TOPICS_DIR}/"))
    taken = {slugify(posixpath.splitext(posixpath.basename(path))[0]): path for path in below}
    plans = 0
    for section in _public(note.text):
        said = [line for line in section.below if line.text.strip()]
        if len(said) < LEAST_LINES and len(section.body.strip()) < LEAST_CHARS:
            continue
        if DAY.search(section.title) or any(map(_is_to_do, said)):
            continue  # a diary and a list of things to do are no topic
        slug = slugify(section.title)
        is_free = bool(slug) and slug not in taken
        path = taken.setdefault(slug, f"{TOPICS_DIR}/{slug}.md")
        plans += is_free
        yield Finding(
            TOPICS_CHECK.name,
            (NOTES,),
            f"the section {section.title!r} is long enough for a topic: {len(said)} lines",
            _first_of(section),
            repair=_repair(note, section, path, newline)
            if is_free and plans <= _MOST_PLANS
            else (),
            hint=_hint(path, is_free=is_free, is_late=plans > _MOST_PLANS),
        )


def _hint(path: str, *, is_free: bool, is_late: bool) -> str:
    if not is_free:
        return f"{path} already exists; move what it lacks by hand."
    if is_late:
        return f"`--propose` plans {_MOST_PLANS} at a time; propose again once those are reviewed."
    return f"`--propose` plans to move it to {path}."


def _public(text: str) -> Iterator[Section]:
    """Yield the H2 sections, but those that hold what was said in private."""
    private = [start for start, _ in private_spans(text, NOBODY)]
    for section in sections(text, 2):
        holds = any(section.start <= start < section.end for start in private)
        if section.level == 2 and not holds:  # noqa: PLR2004
            yield section


def _is_to_do(line: TextLine) -> bool:
    item = None if line.in_code else bullet(line.text)
    return item is not None and bool(item.box)


def _repair(note: MemoryText, section: Section, path: str, newline: str) -> tuple[PlannedFile, ...]:
    heading = section.lines[0].text.rstrip()
    left = f"{heading}{newline}{newline}- [{section.title}]({path}){newline}"
    rest = note.text[section.end :]
    after = note.text[: section.start] + left + (newline + rest if rest else "")
    moved = _moved(section.body.strip(), path)
    topic = f"# {section.title}{newline}{newline}{moved}{newline}"
    return (PlannedFile(path, None, topic), PlannedFile(NOTES, note.text, after))


def _first_of(section: Section) -> tuple[Quote, ...]:
    said = (line for line in section.lines if line.text.strip())
    return tuple(Quote(NOTES, line.number, line.text) for line in islice(said, _SHOWN))


def _moved(body: str, path: str) -> str:
    """Return text of the notes as it stands in another directory: its links lead where they led."""
    parts, at = [], 0
    for place in link_places(body, NOTES):
        written = body[place.start : place.end]
        if not written.startswith("/"):
            way = "../" * path.count("/")
            parts += [body[at : place.start], way + written.removeprefix("./")]
            at = place.end
    return "".join((*parts, body[at:]))


TOPICS_CHECK: Final = Check("topics", "Sections to move to topics", check_topics)
