"""Links between memory files: what a file points to, what points to it, whom it mentions."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from familiar_cli import markdown
from familiar_cli.errors import FamiliarError, NotFoundError
from familiar_cli.fts import is_unspaced
from familiar_cli.memory.layout import PEOPLE_DIR, TOPICS_DIR
from familiar_cli.memory.pages.listed_aliases import listed_aliases

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.types import Skipped

SUFFIXES: Final = (".md", ".markdown", ".txt")
NAMED_DIRS: Final = (PEOPLE_DIR, TOPICS_DIR)
"""Directories whose files are each about one thing that has a name."""

# Every repetition has a limit, so that no text takes long. After the target only a title may stand:
# "[smiles](be nice)" is talk, and "[^1]: See" a footnote.
_TARGET: Final = r"(?:<([^>\n]{1,1000}+)>|([^)\s]{1,1000}+))"
_TITLE: Final = (
    r"""(?:[ \t]{1,9}(?:"[^"\n]{0,300}"|'[^'\n]{0,300}'|\([^)\n]{0,300}\)))?[ \t]{0,9}"""
)
_INLINE: Final = re.compile(rf"\[(?:[^\]\\\n]|\\.){{0,300}}\]\(\s{{0,9}}{_TARGET}{_TITLE}\)")
_REFERENCE: Final = re.compile(
    rf"^ {{0,3}}\[(?!\^)[^\]\n]{{1,300}}\]:\s{{0,9}}{_TARGET.replace('[^)', '[^')}{_TITLE}\r?$",
    re.MULTILINE,
)
_WIKI: Final = re.compile(
    r"\[\[([^\[\]|#\n]{1,300})(?:#[^\[\]|\n]{0,300})?(?:\|[^\[\]\n]{0,300})?\]\]"
)
_TICKS: Final = re.compile(r"`[^`\n]{1,1000}`")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:|//|#")
_WORD: Final = re.compile(r"\w+")
_MIN_NAME_CHARS: Final = 2


@dataclass(frozen=True, slots=True)
class Link:
    """One file leads to another.

    Args:
        source: The file that holds it.
        target: The file it leads to.
        kind: `link` for a Markdown or a wiki link, `mention` for a name in the text.
    """

    source: str
    target: str
    kind: str


@dataclass(frozen=True, slots=True)
class LinkPlace:
    """Where a link stands: `text[start:end]` is what it says, `target` the path that it means."""

    target: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class LinkStep:
    """A file that was reached, over how many links, and by which one."""

    rel_path: str
    distance: int
    link: Link


@dataclass(frozen=True, slots=True)
class Graph:
    """All files, the links between them, links that lead nowhere, and files that cannot be read."""

    files: tuple[str, ...]
    links: tuple[Link, ...]
    broken: tuple[Link, ...]
    skipped: tuple[Skipped, ...]

    def around(self, rel_path: str, depth: int = 1) -> list[LinkStep]:
        """Return the files within `depth` links of `rel_path`, in either direction, nearest first.

        Raises:
            NotFoundError: No such file is in the graph.
        """
        if rel_path not in self.files:
            raise NotFoundError(f"No memory file at {rel_path!r}", hint="Run `familiar memory ls`.")
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


def targets(text: str, rel_path: str) -> list[str]:
    """Return the memory paths that the Markdown links of the file at `rel_path` lead to, in order.

    A link is taken relative to its file; one that begins with `/`, from the memory's root. Links
    that leave the memory or name another scheme are left out. What is code holds no links.
    """
    found = sorted(_places(text, rel_path), key=lambda place: place[0])
    return list(dict.fromkeys(place.target for _, place in found))


def places(text: str, rel_path: str) -> list[LinkPlace]:
    """Return where the links of the file at `rel_path` stand, in order; see `targets`."""
    return sorted((place for _, place in _places(text, rel_path)), key=lambda place: place.start)


def _places(text: str, rel_path: str) -> Iterator[tuple[int, LinkPlace]]:
    """Yield each link with the number of its form: in the text, or as a reference below it."""
    bare = without_code(text)
    for number, pattern in enumerate((_INLINE, _REFERENCE)):
        for match in pattern.finditer(bare):
            group = 1 if match[1] else 2
            target = _resolved(match[group], rel_path)
            if target and target != rel_path:
                yield number, LinkPlace(target, match.start(group), match.end(group))


def without_code(text: str) -> str:
    """Return `text` with spaces where code is, so that every other character keeps its place."""
    if "`" not in text and "~~~" not in text:
        return text
    bare = (_blank(line.text) if line.in_code else line.text for line in markdown.scan(text))
    return _TICKS.sub(lambda code: _blank(code[0]), "".join(bare))


def _blank(code: str) -> str:
    return re.sub(r"[^\n]", " ", code)


def title_of(text: str, rel_path: str) -> str:
    """Return the first H1 of a file, else its name without the ending."""
    return markdown.title_of(text) or posixpath.splitext(posixpath.basename(rel_path))[0]


def graph(store: MemoryStore) -> Graph:
    """Return the graph of all text files of the memory."""
    walk = store.walk()
    texts: dict[str, str] = {}
    skipped = list(walk.skipped)
    for entry in walk.files:
        if entry.rel_path.lower().endswith(SUFFIXES):
            try:
                texts[entry.rel_path] = store.read_file(entry.rel_path)
            except FamiliarError as error:
                skipped.append(_skipped(entry.rel_path, error))
    there = {entry.rel_path for entry in walk.files}
    links: list[Link] = []
    broken: list[Link] = []
    for rel_path, text in texts.items():
        for target in targets(text, rel_path):
            link = Link(rel_path, target, "link")
            (links if target in there else broken).append(link)
    for link, is_there in _wiki_links(texts, there):
        (links if is_there else broken).append(link)
    links, broken = list(dict.fromkeys(links)), list(dict.fromkeys(broken))
    pairs = {(link.source, link.target) for link in links}
    links += [m for m in _mentions(texts) if (m.source, m.target) not in pairs]
    return Graph(tuple(sorted(there)), tuple(links), tuple(broken), tuple(skipped))


def wiki_names(text: str) -> list[str]:
    """Return what the wiki links of a text name, in order: of `[[Anna#Bees|her]]`, `Anna`."""
    bare = without_code(text)
    return list(dict.fromkeys(found[1].strip() for found in _WIKI.finditer(bare)))


def _wiki_links(texts: Mapping[str, str], there: set[str]) -> Iterator[tuple[Link, bool]]:
    """Yield each wiki link, and whether it leads to a file.

    A name is a path from the memory's root, the name of a file wherever it is, or an alias that a
    file lists, in this order and with or without the ending; capitals do not matter.
    """
    if not any("[[" in text for text in texts.values()):
        return
    paths: dict[str, str] = {}
    ways = (
        lambda path: [path],
        lambda path: [posixpath.basename(path)],
        lambda path: [*listed_aliases(texts.get(path, "")), title_of(texts.get(path, ""), path)],
    )
    for names_of in ways:
        for path in sorted(there):
            for name in names_of(path):
                bare = posixpath.splitext(name)[0] if name.endswith(SUFFIXES) else name
                for said in (name, bare):
                    paths.setdefault(said.casefold(), path)
    for source, text in texts.items():
        for name in wiki_names(text):
            target = paths.get(name.strip("/").casefold())
            if target != source:
                yield Link(source, target or name, "link"), target is not None


def _skipped(rel_path: str, error: FamiliarError) -> Skipped:
    from familiar_cli.memory.store.types import Skipped

    return Skipped(rel_path, str(error))


def _resolved(link: str, rel_path: str) -> str | None:
    if _SCHEME.match(link):
        return None
    path = unquote(re.split(r"[#?]", link, maxsplit=1)[0])
    if not path or "\x00" in path or "\\" in path:
        return None
    base = "" if path.startswith("/") else posixpath.dirname(rel_path)
    joined = posixpath.normpath(posixpath.join(base, path.lstrip("/")))
    return None if joined in {".", ".."} or joined.startswith("../") else joined


def _mentions(texts: Mapping[str, str]) -> Iterable[Link]:
    """Yield where the text of one file names the person or topic that another is about.

    A name counts as written, capitals included, so that "May" is no month in "it may rain".
    """
    names: dict[str, str] = {}
    for rel_path, text in texts.items():
        if rel_path.partition("/")[0] in NAMED_DIRS:
            for name in (title_of(text, rel_path), *listed_aliases(text)):
                if len(name) >= _MIN_NAME_CHARS:
                    names.setdefault(name, rel_path)
    find = _Names(names)
    for rel_path, text in texts.items():
        for target in find.all_in(text):
            if target != rel_path:
                yield Link(rel_path, target, "mention")


class _Names:
    """Finds many names in a text at once, in a time that does not grow with how many there are."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._paths: dict[tuple[str, ...] | str, list[str]] = {}  # by words, or as it is
        self._lengths: dict[str, set[int]] = {}  # of names, by their first word or character
        for name, path in names.items():
            key = name if is_unspaced(name) else tuple(_WORD.findall(name))
            if key:
                self._paths.setdefault(key, []).append(path)
                self._lengths.setdefault(key[0], set()).add(len(key))

    def all_in(self, text: str) -> list[str]:
        """Return the paths of those that `text` names, each once."""
        words = tuple(_WORD.findall(text))
        return list(dict.fromkeys(chain(self._found(words), self._found(text))))

    def _found(self, whole: tuple[str, ...] | str) -> Iterator[str]:
        for place, first in enumerate(whole):
            for length in self._lengths.get(first, ()):
                yield from self._paths.get(whole[place : place + length], ())
