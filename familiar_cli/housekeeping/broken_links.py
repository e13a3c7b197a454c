"""Links that lead to no file."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from familiar_cli.housekeeping.lines import line_at, line_text
from familiar_cli.housekeeping.types import Check, Edit, Finding, Quote
from familiar_cli.memory.links import SUFFIXES, places
from familiar_cli.text import fold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.housekeeping.types import Corpus, Note, Options
    from familiar_cli.memory.links import LinkPlace


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
        if not note.rel_path.lower().endswith(SUFFIXES) or "]" not in note.text:
            continue
        broken = [
            place
            for place in places(note.text, note.rel_path)
            if place.target not in corpus.paths and place.target not in directories
        ]
        if broken:
            yield _finding(note, broken, named)


def _finding(note: Note, broken: list[LinkPlace], named: dict[str, list[str]]) -> Finding:
    moved = [(place, _moved_to(place, named)) for place in broken]
    parts, at = [], 0
    for place, target in moved:
        if target:
            parts += [note.text[at : place.start], _link(note.rel_path, target)]
            at = place.end
    after = "".join((*parts, note.text[at:]))
    targets = ", ".join(dict.fromkeys(place.target for place in broken))
    numbers = dict.fromkeys(line_at(note.text, place.start) for place in broken)
    return Finding(
        CHECK.name,
        (note.rel_path,),
        f"links to what is not there: {targets}",
        tuple(Quote(note.rel_path, number, line_text(note.text, number)) for number in numbers),
        repair=(Edit(note.rel_path, note.text, after),) if at else (),
        hint="A file of that name is elsewhere; `--propose` makes a plan that leads there."
        if at
        else "Make the file, or take the link out.",
    )


def _moved_to(place: LinkPlace, named: dict[str, list[str]]) -> str | None:
    """Return the one file that bears the name of the file that is missing."""
    found = named.get(fold(posixpath.basename(place.target)), [])
    return found[0] if len(found) == 1 else None


def _link(source: str, target: str) -> str:
    return quote(posixpath.relpath(target, posixpath.dirname(source) or "."), safe="/-_.~()")


CHECK: Final = Check("links", "links that lead to no file", check_links)
