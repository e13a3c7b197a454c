"""Wiki links, `[[tea#Green|a cup]]`, and which file each of them leads to, as Obsidian has it."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from familiar_cli.memory.pages.front_matter import listed_aliases
from familiar_cli.memory.pages.links import SUFFIXES, title_of
from familiar_cli.text import fold

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

_WIKI: Final = re.compile(
    r"\[\[([^\[\]|#\n]{1,300})(#[^\[\]|\n]{0,300})?(?:\|([^\[\]\n]{0,300}))?\]\]"
)
_RELATIVE: Final = ("./", "../")
UNNAMEABLE: Final = re.compile(r"[\[\]#|^\n]")
"""What no wiki link can say."""


@dataclass(frozen=True, slots=True)
class WikiLink:
    """One wiki link of a text.

    Args:
        name: What it names.
        start: Where the name begins.
        end: Where it ends.
        whole: From where to where the link goes, brackets included.
        place: The heading or block in the page, with its `#`; empty: the page.
        label: What it shows in the place of the name; None: the name.
    """

    name: str
    start: int
    end: int
    whole: tuple[int, int]
    place: str
    label: str | None


def wiki_links(bare: str) -> Iterator[WikiLink]:
    """Yield the wiki links of a text in which code and comments are blank."""
    if "[[" not in bare:
        return
    for found in _WIKI.finditer(bare):
        said = found[1].rstrip("\\") if found[3] is not None else found[1]  # `\|` in a table
        name = said.strip()
        if name:
            start = found.start(1) + len(said) - len(said.lstrip())
            place = (found[2] or "").rstrip("\\")
            yield WikiLink(name, start, start + len(name), found.span(), place, found[3])


def bare_of(rel_path: str) -> str:
    """Return a path without the ending of a text file."""
    return posixpath.splitext(rel_path)[0] if rel_path.lower().endswith(SUFFIXES) else rel_path


class PageNames:
    """What wiki links may name.

    A name is the end of a path, with or without the ending of a text file: `tea`, `food/tea`. Of
    several files it means the one with just this path, else one below the directory of the link,
    else the one with the shortest path. A name that no path ends with is an alias that a page
    lists, or its title. Capitals do not matter.

    Args:
        paths: Every file that may be named.
        texts: What the pages say.
    """

    def __init__(self, paths: Collection[str], texts: Mapping[str, str]) -> None:
        self._paths = paths
        self._texts = texts

    def has(self, rel_path: str) -> bool:
        """Return whether there is such a file or directory."""
        return rel_path in self._paths or rel_path in self._directories

    def find(self, name: str, source: str) -> str | None:
        """Return the file that `name` means in the file `source`; None: there is none."""
        return self.find_path(name, source) or self._said.get(fold(name.strip("/")))

    def find_path(self, name: str, source: str) -> str | None:
        """Return the file whose path ends with `name`; see `find`."""
        here = posixpath.dirname(source)
        if name.startswith(_RELATIVE):
            name = "/" + posixpath.normpath(posixpath.join(here, name))
        wanted = fold(name)
        fits = [
            (path, how)
            for path in self._by_name.get(posixpath.basename(wanted), ())
            for how in [_fit(wanted, path)]
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
        """Return the files that are called `name`, wherever they are."""
        return self._by_name.get(fold(name), ())

    def name_of(self, target: str, source: str, like: str) -> str:
        """Return what to call `target` in the file `source`, in the manner of the name `like`."""
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
        found: set[str] = set()
        for path in self._paths:
            above = posixpath.dirname(path)
            while above and above not in found:
                found.add(above)
                above = posixpath.dirname(above)
        return frozenset(found)

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        for path in self._paths:
            last = posixpath.basename(path)
            for said in dict.fromkeys((last, bare_of(last))):
                names.setdefault(fold(said), []).append(path)
        return names

    @cached_property
    def _said(self) -> dict[str, str]:
        """What pages call themselves; aliases that are listed come before titles."""
        names: dict[str, str] = {}
        for names_of in (_aliases, _title):
            for path in sorted(self._texts):
                for name in names_of(self._texts[path], path):
                    names.setdefault(fold(name), path)
        return names


def _fit(wanted: str, path: str) -> str:
    """Return how a folded name fits a path: `whole`, `end`, or not at all."""
    for said in (fold(path), fold(bare_of(path))):
        if said == wanted.removeprefix("/"):
            return "whole"
        if not wanted.startswith("/") and said.endswith(f"/{wanted}"):
            return "end"
    return ""


def _aliases(text: str, rel_path: str) -> Iterable[str]:
    del rel_path
    return listed_aliases(text)


def _title(text: str, rel_path: str) -> Iterable[str]:
    return (title_of(text, rel_path),)
