"""Two files in `people/` that may be about one person: a name in common, and no link between."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, Final

from familiar_cli.housekeeping.lines import quotes
from familiar_cli.housekeeping.types import Check, Finding
from familiar_cli.memory.people.alias_section import names_of
from familiar_cli.memory.people.aliases import slug_in
from familiar_cli.memory.people.mentions import key_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.housekeeping.types import Corpus, Note, Options, Quote

_LEAST_CHARS: Final = 2
# So many people who share a name are a family or a fashion, not one person.
_MOST_SHARING: Final = 4


def check_twins(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each two people who share a name and do not link to each other."""
    del options
    people = [note for note in corpus.notes if slug_in(note.rel_path)]
    by_path = {note.rel_path: note for note in people}
    called: dict[str, list[str]] = defaultdict(list)
    for note in people:
        for key in dict.fromkeys(map(key_of, names_of(note.text))):
            if len(key) >= _LEAST_CHARS:
                called[key].append(note.rel_path)
    shared: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key, paths in called.items():
        if 1 < len(paths) <= _MOST_SHARING:
            for pair in combinations(sorted(paths), 2):
                shared[pair].append(key)
    for (one, other), keys in sorted(shared.items()):
        notes = by_path[one], by_path[other]
        if other not in corpus.led_to(notes[0]) and one not in corpus.led_to(notes[1]):
            names = ", ".join(repr(key) for key in keys)
            yield Finding(
                CHECK.name,
                (one, other),
                f"look like one person: both are called {names}",
                tuple(quote for key in keys for note in notes for quote in _naming(note, key)),
                hint=_HINT,
            )


def _naming(note: Note, key: str) -> tuple[Quote, ...]:
    """Return the line of a file that gives the name; its first line when none does alone."""
    lines = [key_of(line.strip(" \t\r#*-+`")) for line in note.text.split("\n")]
    return quotes(note, [next((at for at, line in enumerate(lines, 1) if line == key), 1)])


_HINT: Final = (
    "If they are the same, run `familiar people merge`; if not, a link (`not [the other](…)`) "
    "silences this finding."
)
CHECK: Final = Check("twins", "People who may be the same", check_twins)
