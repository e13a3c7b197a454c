"""Let links lead where they led when files move or become one, and leave every other byte."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from familiar_cli.errors import FamiliarError
from familiar_cli.markdown import body_start
from familiar_cli.memory.pages.links import is_page, places_in, resolved, unhidden, way_to
from familiar_cli.memory.pages.wiki import UNNAMEABLE, PageNames, wiki_links
from familiar_cli.memory.store import paths
from familiar_cli.memory.store.types import Skipped
from familiar_cli.text import sha256_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from re import Match

    from familiar_cli.memory.pages.links import LinkPlace
    from familiar_cli.memory.pages.wiki import WikiLink
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.memory.store.types import Applied

CANVAS: Final = ".canvas"
"""How the name of a canvas ends: JSON, whose nodes name files or hold Markdown."""

_CANVAS_TEXT: Final = re.compile(r'("(file|text)"\s{0,9}:\s{0,9})("(?:[^"\\]|\\.)*+")')
_ANCHOR: Final = re.compile(r"[#?].*", re.DOTALL)
Edit = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Relabel:
    """Links to a file that show its old title are to show its new one."""

    rel_path: str
    old: str
    new: str


@dataclass(frozen=True)
class Relinking:
    """What becomes of links.

    Args:
        before: The files as they were, with their names.
        after: The files as they will be.
        to: Where links to some of the files lead from now on, by the path that they had.
        relabel: What links to one of them are to show.
    """

    before: PageNames
    after: PageNames
    to: Mapping[str, str]
    relabel: Relabel | None = None

    def text(self, text: str, was_at: str, is_at: str | None = None) -> str:
        """Return the text of a file with links that lead where they should.

        Args:
            text: Markdown, or a canvas.
            was_at: Where the file was.
            is_at: Where it will be; None: there, too.
        """
        is_at = was_at if is_at is None else is_at
        if was_at.lower().endswith(CANVAS):
            return self._canvas(text, was_at, is_at)
        if "]" not in text:
            return text
        parts, at = [], 0
        for start, end, new in sorted(self._edits(text, was_at, is_at)):
            if start >= at:
                parts += [text[at:start], new]
                at = end
        return "".join((*parts, text[at:]))

    def _edits(self, text: str, was_at: str, is_at: str) -> Iterator[Edit]:
        bare = unhidden(text)
        for place in places_in(bare, was_at):
            yield from self._markdown(text, place, is_at)
        front = body_start(text)
        for link in wiki_links(bare):
            yield from self._wiki(text, link, was_at, is_at, is_yaml=link.end < front)

    def _markdown(self, text: str, place: LinkPlace, is_at: str) -> Iterator[Edit]:
        wanted = self.to.get(place.target, place.target)
        written = text[place.start : place.end]
        is_known = place.target in self.to or self.before.has(place.target)
        if is_known and resolved(written, is_at) != wanted:
            yield place.start, place.end, way_to(wanted, is_at) + _anchor(written)
        if self._shows_old(wanted, place.label and text[slice(*place.label)]) and place.label:
            assert self.relabel
            yield *place.label, self.relabel.new

    def _wiki(
        self, text: str, link: WikiLink, was_at: str, is_at: str, *, is_yaml: bool
    ) -> Iterator[Edit]:
        target = self.before.find(link.name, was_at)
        if target is None:
            return
        wanted = self.to.get(target, target)
        by_path = self.before.find_path(link.name, was_at) is not None
        find = self.after.find_path if by_path else self.after.find
        is_old = self._shows_old(wanted, link.label if link.label is not None else link.name)
        if find(link.name, is_at) == wanted and not is_old:
            return
        name, label = link.name, link.label
        if is_old and self.relabel:
            label = None if label is None else self.relabel.new
            name = name if by_path else self.relabel.new
        if find(name, is_at) != wanted:
            label = name if label is None and not by_path else label
            name = self.after.name_of(wanted, is_at, link.name if by_path else "")
        way = way_to(wanted, is_at)
        yield *link.whole, _written(text, link, name, label, way, is_yaml=is_yaml)

    def _shows_old(self, target: str, shown: str | None) -> bool:
        change = self.relabel
        return change is not None and (target, shown) == (change.rel_path, change.old)

    def _canvas(self, text: str, was_at: str, is_at: str) -> str:
        def changed(found: Match[str]) -> str:
            try:
                said = json.loads(found[3])
            except ValueError:
                return found[0]
            now = self.to.get(said, said)
            if found[2] == "text":
                now = self.text(said, was_at + ".md", is_at + ".md")
            return found[0] if now == said else found[1] + json.dumps(now, ensure_ascii=False)

        return _CANVAS_TEXT.sub(changed, text)


@dataclass(frozen=True, slots=True)
class Relinked:
    """A file whose links change.

    Args:
        rel_path: Where it is now.
        before: What it says now.
        after: What it is to say.
    """

    rel_path: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class MoveResult:
    """What a move did, or would do.

    Args:
        applied: To the files.
        relinked: The files whose links were changed with it, as they are called now.
        skipped: What could not be read, so that its links are as they were.
    """

    applied: Applied
    relinked: tuple[str, ...]
    skipped: tuple[Skipped, ...]


class LinkedPages:
    """Every page of a memory that may hold links, read once.

    Args:
        store: The memory.
        read: Gives the text of a file; None: as it is on disk.
        more: Files that are not on disk yet.
    """

    def __init__(
        self,
        store: MemoryStore,
        read: Callable[[str], str | None] | None = None,
        *,
        more: Iterable[str] = (),
    ) -> None:
        walk = store.walk()
        self.paths: Final = frozenset((*more, *(entry.rel_path for entry in walk.files)))
        self.texts: Final[dict[str, str]] = {}
        skipped = list(walk.skipped)
        for rel_path in sorted(self.paths):
            if is_page(rel_path) or rel_path.lower().endswith(CANVAS):
                try:
                    text = (read or store.read_file)(rel_path)
                except FamiliarError as error:
                    skipped.append(Skipped(rel_path, str(error)))
                    continue
                self.texts[rel_path] = text or ""
        self.skipped: Final = tuple(skipped)

    @cached_property
    def names(self) -> PageNames:
        """What wiki links may name."""
        pages = {path: text for path, text in self.texts.items() if not path.endswith(CANVAS)}
        return PageNames(self.paths, pages)

    def relinked(self, change: Relinking, *, moved: bool = True) -> Iterator[Relinked]:
        """Yield each file of which a link changes.

        Args:
            change: What becomes of links.
            moved: Files that links lead away from are elsewhere now; else they stay.
        """
        for rel_path, text in self.texts.items():
            after = change.text(text, rel_path, change.to.get(rel_path) if moved else None)
            if after != text:
                yield Relinked(rel_path, text, after)


def move_with_links(store: MemoryStore, old: str, new: str, *, dry_run: bool) -> MoveResult:
    """Move a file, and let every link lead where it led, all in one transaction."""
    old, new = paths.parse_old(old), paths.parse_new(new)
    pages = LinkedPages(store)
    changed: list[Relinked] = []
    if old in pages.paths and new not in pages.paths:
        texts = {new if path == old else path: text for path, text in pages.texts.items()}
        after = PageNames((pages.paths - {old}) | {new}, texts)
        changed += pages.relinked(Relinking(pages.names, after, {old: new}))
    with store.transaction("human", f"mv {old} {new}", dry_run=dry_run) as tx:
        tx.move(old, new)
        for file in changed:
            there = new if file.rel_path == old else file.rel_path
            tx.write(there, file.after, expect=sha256_of(file.before), any_size=True)
    return MoveResult(tx.result, tuple(file.rel_path for file in changed), pages.skipped)


def _anchor(written: str) -> str:
    found = _ANCHOR.search(written)
    return found[0] if found else ""


def _written(
    text: str, link: WikiLink, name: str, label: str | None, way: str, *, is_yaml: bool
) -> str:
    """Return a wiki link with another name and label."""
    start, end = link.whole
    if UNNAMEABLE.search(name):  # only a Markdown link can say it
        return f"[{link.name if label is None else label}]({way}{quote(link.place, safe='#')})"
    rest = text[link.end : end]
    if label != link.label:
        bar = "\\|" if "\\|" in rest else "|"
        rest = f"{link.place}{bar}{label}]]"
    mark = text[start - 1 : start] if is_yaml else ""
    if mark == "'":
        name = name.replace("'", "''")
    elif mark == '"':
        name = json.dumps(name, ensure_ascii=False)[1:-1]
    return f"{text[start : link.start]}{name}{rest}"
