"""The Markdown links of a memory file: where they stand, and which path each of them means."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from familiar_cli import markdown
from familiar_cli.memory.layout import PEOPLE_DIR, TOPICS_DIR, is_in_conflicts

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIXES: Final = (".md", ".markdown", ".txt")
NAMED_DIRS: Final = (PEOPLE_DIR, TOPICS_DIR)
"""Directories whose files are each about one thing that has a name."""

# Every repetition has a limit, so that no text takes long. After the target only a title may stand:
# "[smiles](be nice)" is talk, and "[^1]: See" a footnote.
_TARGET: Final = r"(?:<([^>\n]{1,1000}+)>|([^)\s]{1,1000}+))"
_TITLE: Final = (
    r"""(?:[ \t]{1,9}(?:"[^"\n]{0,300}"|'[^'\n]{0,300}'|\([^)\n]{0,300}\)))?[ \t]{0,9}"""
)
_INLINE: Final = re.compile(rf"\[((?:[^\]\\\n]|\\.){{0,300}})\]\(\s{{0,9}}{_TARGET}{_TITLE}\)")
_REFERENCE: Final = re.compile(
    rf"^ {{0,3}}\[(?!\^)[^\]\n]{{1,300}}\]:\s{{0,9}}{_TARGET.replace('[^)', '[^')}{_TITLE}\r?$",
    re.MULTILINE,
)
_TICKS: Final = re.compile(r"`[^`\n]{1,1000}`")
_UNSAFE: Final = re.compile(r"[\s%#?()<>\[\]\\`]")  # what would end a link, or mean more
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:|//|#")
# `%%` hides text in Obsidian: within a line, or between two lines that hold nothing else.
_HIDDEN: Final = re.compile(
    r"(?<!%)%%(?!%)[^%\n]{1,1000}%%|^%%[ \t]*\r?\n(?:.*\n)*?%%[ \t]*\r?$", re.MULTILINE
)


def is_page(rel_path: str) -> bool:
    """Return whether a file is text of the memory: searched, linked to, shown to a model.

    The other version of a file in conflict is none, or it would be taken for a second memory.
    """
    return rel_path.lower().endswith(SUFFIXES) and not is_in_conflicts(rel_path)


@dataclass(frozen=True, slots=True)
class LinkPlace:
    """Where a link stands.

    Args:
        target: The path that it means.
        start: Where the text begins that says so.
        end: Where that ends.
        label: From where to where it says what is shown; None: it stands apart from that.
    """

    target: str
    start: int
    end: int
    label: tuple[int, int] | None = None


def targets(text: str, rel_path: str) -> list[str]:
    """Return the memory paths that the Markdown links of the file at `rel_path` lead to, in order.

    A link is taken relative to its file; one that begins with `/`, from the memory's root. Links
    that leave the memory or name another scheme are left out. What is code holds no links.
    """
    found = (place for place in places_in(unhidden(text), rel_path) if place.target != rel_path)
    return list(dict.fromkeys(place.target for place in found))


def places(text: str, rel_path: str) -> list[LinkPlace]:
    """Return where the links of the file at `rel_path` stand, in order; see `targets`."""
    found = (place for place in places_in(unhidden(text), rel_path) if place.target != rel_path)
    return sorted(found, key=lambda place: place.start)


def places_in(bare: str, rel_path: str) -> Iterator[LinkPlace]:
    """Yield the links of a text in which code and comments are blank, also those to itself."""
    for match in _INLINE.finditer(bare):
        group = 2 if match[2] else 3
        if target := resolved(match[group], rel_path):
            yield LinkPlace(target, *match.span(group), match.span(1))
    for match in _REFERENCE.finditer(bare):
        group = 1 if match[1] else 2
        if target := resolved(match[group], rel_path):
            yield LinkPlace(target, *match.span(group))


def way_to(target: str, source: str) -> str:
    """Return what a Markdown link in the file `source` says to lead to `target`."""
    way = posixpath.relpath(target, posixpath.dirname(source) or ".")
    return _UNSAFE.sub(lambda found: quote(found[0], safe=""), way)


def unhidden(text: str) -> str:
    """Return `text` with spaces where code and comments are; all else keeps its place."""
    bare = without_code(text)
    if "<!--" in bare:
        parts, at = [], 0
        for start, end in markdown.comments(bare):
            parts += [bare[at:start], _blank(bare[start:end])]
            at = end
        bare = "".join((*parts, bare[at:]))
    return _HIDDEN.sub(lambda hidden: _blank(hidden[0]), bare) if "%%" in bare else bare


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


def resolved(link: str, rel_path: str) -> str | None:
    """Return the path that a link means in the file at `rel_path`; None: none of the memory."""
    if _SCHEME.match(link):
        return None
    path = unquote(re.split(r"[#?]", link, maxsplit=1)[0])
    if not path or "\x00" in path or "\\" in path:
        return None
    base = "" if path.startswith("/") else posixpath.dirname(rel_path)
    joined = posixpath.normpath(posixpath.join(base, path.lstrip("/")))
    return None if joined in {".", ".."} or joined.startswith("../") else joined
