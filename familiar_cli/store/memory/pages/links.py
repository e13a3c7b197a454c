"""Links in memory files: find them, resolve them, and update them after a move.

Wiki links such as `[[tea#Green|a cup]]` resolve as in Obsidian. When files are moved or merged,
links keep their targets, and every other byte is unchanged.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from msgspec import Struct

from familiar_cli.base import markdown
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.markdown import body_start, replace_spans
from familiar_cli.base.text import fold, sha256_of
from familiar_cli.store.memory.layout import PEOPLE_DIR, SUFFIXES, TOPICS_DIR, is_page
from familiar_cli.store.memory.pages.front_matter import listed_aliases
from familiar_cli.store.memory.pages.imported import ImportedPages
from familiar_cli.store.memory.pages.visible_lines import with_owners_audience
from familiar_cli.store.memory.store import files

if TYPE_CHECKING:
    from re import Match

    from familiar_cli.store.memory.store.store import MemoryStore

NAMED_DIRS: Final = (PEOPLE_DIR, TOPICS_DIR)
"""Directories whose files are each about one named thing."""

# Repetitions are bounded to keep matching fast. Only a title may follow the target:
# "[smiles](be nice)" is speech, and "[^1]: See" a footnote.
_TARGET: Final = r"(?:<([^>\n]{1,1000}+)>|([^)\s]{1,1000}+))"
_TITLE: Final = (
    r"""(?:[ \t]{1,9}(?:"[^"\n]{0,300}"|'[^'\n]{0,300}'|\([^)\n]{0,300}\)))?[ \t]{0,9}"""
)
_INLINE: Final = re.compile(rf"\[((?:[^\]\\\n]|\\.){{0,300}}+)\]\(\s{{0,9}}{_TARGET}{_TITLE}\)")
_REFERENCE: Final = re.compile(
    rf"^ {{0,3}}\[(?!\^)[^\]\n]{{1,300}}\]:\s{{0,9}}{_TARGET.replace('[^)', '[^')}{_TITLE}\r?$",
    re.MULTILINE,
)
_TICKS: Final = re.compile(r"`[^`\n]{1,1000}`")
_UNSAFE: Final = re.compile(r"[\s%#?()<>\[\]\\`]")  # what would end a link, or mean more
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:|//|#")
# `%%` hides text in Obsidian: within a line, or between two lines of its own.
_HIDDEN: Final = re.compile(
    r"(?<!%)%%(?!%)[^%\n]{1,1000}%%|^%%[ \t]*\r?\n(?:.*\n)*?%%[ \t]*\r?$", re.MULTILINE
)


class LinkPlace(Struct, frozen=True):
    """A link and its position.

    Args:
        target: Resolved path.
        start: Start of the target text.
        end: End of the target text.
        label: Range of the link text; None if separate from the link.
    """

    target: str
    start: int
    end: int
    label: tuple[int, int] | None = None


def link_targets(text: str, rel_path: str) -> list[str]:
    """Return the memory paths linked from the file at `rel_path`, in order.

    Links are relative to their file, or to the memory root if they begin with `/`. Links that leave
    the memory or have a URL scheme are left out, and so are links in code.
    """
    return list(dict.fromkeys(place.target for place in _outgoing(text, rel_path)))


def _outgoing(text: str, rel_path: str) -> Iterator[LinkPlace]:
    return (p for p in places_in(unhidden_text(text), rel_path) if p.target != rel_path)


def link_places(text: str, rel_path: str) -> list[LinkPlace]:
    """Return the links in the file at `rel_path`, in order; see `link_targets`."""
    return sorted(_outgoing(text, rel_path), key=lambda place: place.start)


def places_in(bare: str, rel_path: str) -> Iterator[LinkPlace]:
    """Yield the links of a text with code and comments blanked, including links to itself."""
    for match in _INLINE.finditer(bare):
        group = 2 if match[2] else 3
        if target := resolve_target(match[group], rel_path):
            yield LinkPlace(target, *match.span(group), match.span(1))
    for match in _REFERENCE.finditer(bare):
        group = 1 if match[1] else 2
        if target := resolve_target(match[group], rel_path):
            yield LinkPlace(target, *match.span(group))


def way_to(target: str, source: str) -> str:
    """Return the Markdown link address from the file `source` to `target`."""
    way = posixpath.relpath(target, posixpath.dirname(source) or ".")
    return _UNSAFE.sub(lambda match: quote(match[0], safe=""), way)


def unhidden_text(text: str) -> str:
    """Replace code and comments with spaces, preserving all offsets."""
    bare = without_code(text)
    if "<!--" in bare:
        spans = markdown.comments(bare)
        bare = replace_spans(bare, ((*span, _blank_text(bare[slice(*span)])) for span in spans))
    return _HIDDEN.sub(lambda hidden: _blank_text(hidden[0]), bare) if "%%" in bare else bare


def without_code(text: str) -> str:
    """Replace code with spaces, preserving all offsets."""
    if "`" not in text and "~~~" not in text:
        return text
    bare = (_blank_text(line.text) if line.in_code else line.text for line in markdown.scan(text))
    return _TICKS.sub(lambda code: _blank_text(code[0]), "".join(bare))


def _blank_text(code: str) -> str:
    return re.sub(r"[^\n]", " ", code)


def title_of(text: str, rel_path: str) -> str:
    """Return the first H1 of a file, or its name without extension."""
    return markdown.title_of(text) or posixpath.splitext(posixpath.basename(rel_path))[0]


def resolve_target(link: str, rel_path: str) -> str | None:
    """Resolve a link in the file at `rel_path`; None if it leaves the memory."""
    if _SCHEME.match(link):
        return None
    path = unquote(re.split(r"[#?]", link, maxsplit=1)[0])
    if not path or "\x00" in path or "\\" in path:
        return None
    base = "" if path.startswith("/") else posixpath.dirname(rel_path)
    joined = posixpath.normpath(posixpath.join(base, path.lstrip("/")))
    return None if joined in {".", ".."} or joined.startswith("../") else joined


_WIKI: Final = re.compile(
    r"\[\[([^\[\]|#\n]{1,300})(#[^\[\]|\n]{0,300})?(?:\|([^\[\]\n]{0,300}))?\]\]"
)
_RELATIVE: Final = ("./", "../")
UNNAMEABLE: Final = re.compile(r"[\[\]#|^\n]")
"""Characters that a wiki link cannot contain."""


class WikiLink(Struct, frozen=True):
    """A wiki link in a text.

    Args:
        name: Its target name.
        start: Start of the name.
        end: End of the name.
        whole: Range of the whole link with brackets.
        place: Heading or block in the page with its `#`; empty for the page itself.
        label: Displayed text instead of the name, or None.
    """

    name: str
    start: int
    end: int
    whole: tuple[int, int]
    place: str
    label: str | None


def wiki_links(bare: str) -> Iterator[WikiLink]:
    """Yield the wiki links of a text with code and comments blanked."""
    if "[[" not in bare:
        return
    for match in _WIKI.finditer(bare):
        said = match[1].rstrip("\\") if match[3] is not None else match[1]  # `\|` in a table
        name = said.strip()
        if name:
            start = match.start(1) + len(said) - len(said.lstrip())
            place = (match[2] or "").rstrip("\\")
            yield WikiLink(name, start, start + len(name), match.span(), place, match[3])


def words_of_links(text: str) -> str:
    """Return a text with each link replaced by what a reader sees of it."""
    text = _WIKI.sub(lambda match: match[3] or match[1], text) if "[[" in text else text
    return _INLINE.sub(r"\1", text) if "](" in text else text


def bare_of(rel_path: str) -> str:
    """Return a path without the extension of a text file."""
    return posixpath.splitext(rel_path)[0] if rel_path.lower().endswith(SUFFIXES) else rel_path


class PageNames:
    """Resolves wiki link names.

    A name is the end of a path, with or without extension: `tea`, `food/tea`. Of several matches it
    means the exact path, else a file below the link's directory, else the shortest path. A name
    that no path ends with can be an alias or title of a page. Case is ignored.

    Args:
        paths: All files that can be linked.
        texts: Contents of the pages.
    """

    def __init__(self, paths: Collection[str], texts: Mapping[str, str]) -> None:
        self._paths = paths
        self._texts = texts

    def has(self, rel_path: str) -> bool:
        """Tell whether a file or directory exists."""
        return rel_path in self._paths or rel_path in self._directories

    def find(self, name: str, source: str) -> str | None:
        """Return the file that `name` refers to in the file `source`, or None."""
        return self.find_path(name, source) or self._declared_names.get(fold(name.strip("/")))

    def find_path(self, name: str, source: str) -> str | None:
        """Return the file whose path ends with `name`; see `find`."""
        here = posixpath.dirname(source)
        if name.startswith(_RELATIVE):
            name = "/" + posixpath.normpath(posixpath.join(here, name))
        target = fold(name)
        fits = [
            (path, how)
            for path in self._by_name.get(posixpath.basename(target), ())
            for how in [_name_fit(target, path)]
            if how
        ]
        below = f"{here}/" if here else ""
        best = min(
            fits,
            key=lambda fit: (
                fit[1] != "whole",
                not fit[0].startswith(below),
                len(fit[0]),
                not fit[0].endswith(".md"),
                fit[0],
            ),
            default=None,
        )
        return best[0] if best else None

    def named(self, name: str) -> Sequence[str]:
        """Return the files called `name` in any directory."""
        return self._by_name.get(fold(name), ())

    def name_of(self, target: str, source: str, like: str) -> str:
        """Return the link name for `target` in the file `source`, in the style of `like`."""
        keeps = like.lower().endswith(SUFFIXES)
        full = target if keeps else bare_of(target)
        if like.startswith(_RELATIVE):
            way = posixpath.relpath(full, posixpath.dirname(source) or ".")
            return way if way.startswith("../") else f"./{way}"
        if like.startswith("/"):
            return f"/{full}"
        short = posixpath.basename(full)
        alone = len(self.named(short)) == 1
        if "/" not in like and alone and self.find_path(short, source) == target:
            return short
        return full if self.find_path(full, source) == target else f"/{target}"

    @cached_property
    def _directories(self) -> frozenset[str]:
        items: set[str] = set()
        for path in self._paths:
            above = posixpath.dirname(path)
            while above and above not in items:
                items.add(above)
                above = posixpath.dirname(above)
        return frozenset(items)

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        for path in self._paths:
            last = posixpath.basename(path)
            for text in dict.fromkeys((last, bare_of(last))):
                names.setdefault(fold(text), []).append(path)
        return names

    @cached_property
    def _declared_names(self) -> dict[str, str]:
        """Aliases and titles declared by pages; aliases take precedence."""
        pages = sorted(self._texts.items())
        names = [(name, path) for path, text in pages for name in listed_aliases(text)]
        names += [(title_of(text, path), path) for path, text in pages]
        return {fold(name): path for name, path in reversed(names)}


def _name_fit(target: str, path: str) -> str:
    """Tell how a folded name matches a path: `whole`, `end`, or an empty string."""
    for text in (fold(path), fold(bare_of(path))):
        if text == target.removeprefix("/"):
            return "whole"
        if not target.startswith("/") and text.endswith(f"/{target}"):
            return "end"
    return ""


CANVAS: Final = ".canvas"
"""Extension of a canvas: JSON, whose nodes name files or hold Markdown."""

_CANVAS_TEXT: Final = re.compile(r'("(file|text)"\s{0,9}:\s{0,9})("(?:[^"\\]|\\.)*+")')
_ANCHOR: Final = re.compile(r"[#?].*", re.DOTALL)
Edit = tuple[int, int, str]


class Relabel(Struct, frozen=True):
    """Update the displayed title in links to a file."""

    rel_path: str
    old: str
    new: str


class LinkChanges(Struct, frozen=True, dict=True):
    """Changes to apply to links.

    Args:
        before: Names of the files before.
        after: Names of the files after.
        to: New target of links, by old path.
        relabel: Titles to update in links to a file.
    """

    before: PageNames
    after: PageNames
    to: Mapping[str, str]
    relabel: Relabel | None = None

    def text(self, text: str, was_at: str, is_at: str | None = None) -> str:
        """Return the text of a file with its links updated.

        Args:
            text: Markdown, or a canvas.
            was_at: Old path of the file.
            is_at: New path; None if it does not move.
        """
        is_at = was_at if is_at is None else is_at
        if was_at.lower().endswith(CANVAS):
            return self._canvas(text, was_at, is_at)
        if "]" not in text:
            return text
        return replace_spans(text, sorted(self._edits(text, was_at, is_at)))

    def _edits(self, text: str, was_at: str, is_at: str) -> Iterator[Edit]:
        bare = unhidden_text(text)
        for place in places_in(bare, was_at):
            yield from self._markdown(text, place, is_at)
        front = body_start(text)
        for link in wiki_links(bare):
            yield from self._wiki(text, link, was_at, is_at, is_yaml=link.end < front)

    def _markdown(self, text: str, place: LinkPlace, is_at: str) -> Iterator[Edit]:
        wanted = self.to.get(place.target, place.target)
        written = text[place.start : place.end]
        is_known = place.target in self.to or self.before.has(place.target)
        if is_known and resolve_target(written, is_at) != wanted:
            yield place.start, place.end, way_to(wanted, is_at) + _anchor_of(written)
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
        yield *link.whole, _write_wiki_link(text, link, name, label, way, is_yaml=is_yaml)

    def _shows_old(self, target: str, text: str | None) -> bool:
        change = self.relabel
        return change is not None and (target, text) == (change.rel_path, change.old)

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


class RelinkedFile(Struct, frozen=True):
    """A file with updated links.

    Args:
        rel_path: Its current path.
        before: Current text.
        after: Text to write.
    """

    rel_path: str
    before: str
    after: str


class MoveResult(Struct, frozen=True):
    """What a move did, or would do.

    Args:
        applied: Result of the transaction.
        relinked: Files with updated links, under their new names.
        skipped: Unreadable files, whose links are unchanged.
    """

    applied: files.WriteResult
    relinked: tuple[str, ...]
    skipped: tuple[files.Omission, ...]


class LinkedPages:
    """Pages that may hold links, read once.

    Args:
        read: Returns the text of a file; None to read from disk.
        more: Files not on disk yet.
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
                    skipped.append(files.Omission(rel_path, str(error)))
                    continue
                self.texts[rel_path] = text or ""
        self.skipped: Final = tuple(skipped)

    @cached_property
    def names(self) -> PageNames:
        """Names that wiki links can refer to."""
        pages = {path: text for path, text in self.texts.items() if not path.endswith(CANVAS)}
        return PageNames(self.paths, pages)

    def relinked(self, change: LinkChanges, *, moved: bool = True) -> Iterator[RelinkedFile]:
        """Yield each file whose links change.

        Args:
            change: The changes to apply.
            moved: Whether link targets are moved; otherwise they stay.
        """
        for rel_path, text in self.texts.items():
            after = change.text(text, rel_path, change.to.get(rel_path) if moved else None)
            if after != text:
                yield RelinkedFile(rel_path, text, after)


def move_with_links(store: MemoryStore, old: str, new: str, *, dry_run: bool) -> MoveResult:
    """Move a file and update all links, in one transaction.

    An imported page is marked as the owner's, since it is no longer where it was imported.
    """
    old, new = files.parse_old_path(old), files.parse_new_path(new)
    pages = LinkedPages(store)
    changed: list[RelinkedFile] = []
    if old in pages.paths and new not in pages.paths:
        texts = {new if path == old else path: text for path, text in pages.texts.items()}
        after = PageNames((pages.paths - {old}) | {new}, texts)
        changed += pages.relinked(LinkChanges(pages.names, after, {old: new}))
    with store.transaction("human", f"mv {old} {new}", dry_run=dry_run) as tx:
        tx.move(old, new)
        for file in changed:
            there = new if file.rel_path == old else file.rel_path
            tx.write(there, file.after, expect=sha256_of(file.before), any_size=True)
        imported = ImportedPages(store.root)
        if imported.has(old) and imported.may_have(new) and is_page(old):
            relinked = next((file.after for file in changed if file.rel_path == old), None)
            stem = new.rpartition("/")[2].removesuffix(".md")
            text = with_owners_audience(relinked or store.read_file(old), stem)
            tx.write(new, text, any_size=True)
    return MoveResult(tx.result, tuple(file.rel_path for file in changed), pages.skipped)


def _anchor_of(text: str) -> str:
    match = _ANCHOR.search(text)
    return match[0] if match else ""


def _write_wiki_link(
    text: str, link: WikiLink, name: str, label: str | None, way: str, *, is_yaml: bool
) -> str:
    """Render a wiki link with another name and label."""
    start, end = link.whole
    if UNNAMEABLE.search(name):  # only a Markdown link can express it
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
