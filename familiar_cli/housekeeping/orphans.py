"""Topics that no other file links to or names, so that only a search finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.housekeeping.lines import line_text
from familiar_cli.housekeeping.naming import Names
from familiar_cli.housekeeping.types import Check, Finding, Quote
from familiar_cli.memory.links import SUFFIXES, targets, title_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.housekeeping.types import Corpus, Note, Options

_TOPICS: Final = "topics"


def check_orphans(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each topic that nothing leads to and that leads nowhere."""
    del options
    notes = [note for note in corpus.notes if note.rel_path.lower().endswith(SUFFIXES)]
    topics = [note for note in notes if note.directory == _TOPICS]
    names = Names({title_of(note.text, note.rel_path): note.rel_path for note in topics})
    alone = {note.rel_path: note for note in topics}
    for note in notes:
        out = [t for t in _links(note) if t in corpus.paths]
        if out:
            alone.pop(note.rel_path, None)
        for target in (*out, *names.in_text(note.text)):
            if target != note.rel_path:
                alone.pop(target, None)
    for note in alone.values():
        yield Finding(
            CHECK.name,
            (note.rel_path,),
            "no other file links to this topic or names it",
            (Quote(note.rel_path, 1, line_text(note.text, 1)),),
            hint="Link it from the person or the topic that it belongs to.",
        )


def _links(note: Note) -> list[str]:
    return targets(note.text, note.rel_path) if "]" in note.text else []


CHECK: Final = Check("orphans", "topics that no other file links to or names", check_orphans)
