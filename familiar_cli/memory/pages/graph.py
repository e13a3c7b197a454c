"""Which memory files lead to which: by links, and by the people and topics that they name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import FamiliarError, NotFoundError
from familiar_cli.fts import is_unspaced
from familiar_cli.memory.pages.front_matter import listed_aliases
from familiar_cli.memory.pages.links import NAMED_DIRS, is_page, targets, title_of, unhidden
from familiar_cli.memory.pages.relations import relations_in
from familiar_cli.memory.pages.wiki import PageNames, wiki_links

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.types import Skipped

_WORD: Final = re.compile(r"\w+")
_MIN_NAME_CHARS: Final = 2


@dataclass(frozen=True, slots=True)
class Link:
    """One file leads to another.

    Args:
        source: The file that holds it.
        target: The file it leads to.
        kind: `link` for a Markdown or a wiki link, `mention` for a name in the text.
        relation: What the source is to the target, where a link says so; what is private is not
            told.
    """

    source: str
    target: str
    kind: str
    relation: str = ""


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


def graph(store: MemoryStore) -> Graph:
    """Return the graph of all text files of the memory."""
    walk = store.walk()
    texts: dict[str, str] = {}
    skipped = list(walk.skipped)
    for entry in walk.files:
        if is_page(entry.rel_path):
            try:
                texts[entry.rel_path] = store.read_file(entry.rel_path)
            except FamiliarError as error:
                skipped.append(_skipped(entry.rel_path, error))
    there = {entry.rel_path for entry in walk.files}
    links: list[Link] = []
    broken: list[Link] = []
    for rel_path, text in texts.items():
        related = relations_in(text, rel_path).relations
        said = {one.target: one.relation for one in reversed(related) if not one.private}
        for target in targets(text, rel_path):
            link = Link(rel_path, target, "link", said.get(target, ""))
            (links if target in there else broken).append(link)
    names = PageNames(there, texts)
    for source, text in texts.items():
        for named in wiki_links(unhidden(text)) if "[[" in text else ():
            found = names.find(named.name, source)
            if found != source:
                (links if found else broken).append(Link(source, found or named.name, "link"))
    links, broken = list(dict.fromkeys(links)), list(dict.fromkeys(broken))
    pairs = {(link.source, link.target) for link in links}
    links += [m for m in _mentions(texts) if (m.source, m.target) not in pairs]
    return Graph(tuple(sorted(there)), tuple(links), tuple(broken), tuple(skipped))


def _skipped(rel_path: str, error: FamiliarError) -> Skipped:
    from familiar_cli.memory.store.types import Skipped

    return Skipped(rel_path, str(error))


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
