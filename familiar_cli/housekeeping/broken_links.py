"""Links that lead to no file."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from familiar_cli.housekeeping.lines import quotes
from familiar_cli.housekeeping.types import Check, Finding
from familiar_cli.memory.pages.links import SUFFIXES
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


def check_links(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each file with links that lead nowhere."""
    del options
    named: dict[str, list[str]] = defaultdict(list)
    directories = {""}
    for path in corpus.paths:
        named[fold(posixpath.basename(path))].append(path)
        above = posixpath.dirname(path)
        while above and above not in directories:
            directories.add(above)
            above = posixpath.dirname(above)
    for note in corpus.notes:
        broken = [
            place
            for place in note.links
            if place.target not in corpus.paths
            and place.target not in directories
            and not _is_address(note.text[place.start : place.end])
        ]
        if broken:
            yield _finding(note, broken, named)


def _finding(note: Note, broken: list[LinkPlace], named: dict[str, list[str]]) -> Finding:
    moved = [(place, _moved_to(place, named)) for place in broken]
    parts, at = [], 0
    for place, target in moved:
        if target:
            written = note.text[place.start : place.end]
            parts += [note.text[at : place.start], _link(note.rel_path, target, written)]
            at = place.end
    after = "".join((*parts, note.text[at:]))
    targets = list(dict.fromkeys(place.target for place in broken))
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


def _lines_of(text: str, broken: list[LinkPlace]) -> Iterator[int]:
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
    way = quote(posixpath.relpath(target, posixpath.dirname(source) or "."), safe="/-_.~")
    return way + "".join(re.findall(r"[#?].*", written)[:1])


CHECK: Final = Check("links", "Broken links", check_links)
