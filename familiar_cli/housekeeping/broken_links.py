"""Links that lead to no file."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.housekeeping.lines import quotes
from familiar_cli.housekeeping.types import Check, Finding
from familiar_cli.memory.pages.links import SUFFIXES, way_to
from familiar_cli.review.pending import PlannedFile
from familiar_cli.text import fold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.housekeeping.types import Corpus, Note, Options
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


def _markdown(note: Note, corpus: Corpus, named: dict[str, list[str]]) -> Iterator[_Broken]:
    for place in note.links:
        written = note.text[place.start : place.end]
        if not corpus.names.has(place.target) and not _is_address(written):
            target = _moved_to(place, named)
            mend = _link(note.rel_path, target, written) if target else ""
            yield _Broken(place.target, place.start, place.end, mend)


def _wiki(note: Note, corpus: Corpus) -> Iterator[_Broken]:
    for link in note.wiki_links:
        if corpus.names.find(link.name, note.rel_path) is None:
            bare = posixpath.basename(link.name)
            there = corpus.names.named(bare)
            mend = corpus.names.name_of(there[0], note.rel_path, bare) if len(there) == 1 else ""
            yield _Broken(link.name, link.start, link.end, mend)


def _finding(note: Note, broken: list[_Broken]) -> Finding:
    parts, at = [], 0
    for link in broken:
        if link.mend:
            parts += [note.text[at : link.start], link.mend]
            at = link.end
    after = "".join((*parts, note.text[at:]))
    targets = list(dict.fromkeys(link.target for link in broken))
    more = f" and {len(targets) - _MOST_NAMED} more" if len(targets) > _MOST_NAMED else ""
    return Finding(
        CHECK.name,
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


CHECK: Final = Check("links", "Broken links", check_links)
