"""Topics that no other file links to or speaks of, so that only a search finds them."""

from __future__ import annotations

import posixpath
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from familiar_cli.fts import content_words, is_unspaced
from familiar_cli.housekeeping.lines import quotes
from familiar_cli.housekeeping.types import Check, Finding
from familiar_cli.housekeeping.wording import words_in
from familiar_cli.memory.layout import TOPICS_DIR
from familiar_cli.memory.pages.links import SUFFIXES, title_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from familiar_cli.housekeeping.types import Corpus, Note, Options

_LEAST_CHARS: Final = 2


def check_orphans(corpus: Corpus, options: Options) -> Iterator[Finding]:
    """Yield a finding for each topic that nothing leads to and that leads nowhere."""
    del options
    notes = [note for note in corpus.notes if note.rel_path.lower().endswith(SUFFIXES)]
    alone = {note.rel_path: note for note in notes if note.directory == TOPICS_DIR}
    subjects = _Subjects(alone.values())
    for note in notes:
        out = corpus.led_to(note) - {note.rel_path}
        if out:
            alone.pop(note.rel_path, None)
        for target in (*out, *subjects.found_in(note)):
            if target != note.rel_path:
                alone.pop(target, None)
    for note in alone.values():
        yield Finding(
            CHECK.name,
            (note.rel_path,),
            "no other file links to this topic or mentions it",
            quotes(note, [1]),
            hint="Link to it from the person or topic it belongs to.",
        )


class _Subjects:
    """What topics are about, and whether a file speaks of one.

    It does if it holds all words of the title, or of the topic's file name, in whatever order; of
    unspaced scripts the title itself.

    Args:
        topics: The files.
    """

    def __init__(self, topics: Iterable[Note]) -> None:
        self._by_word: dict[str, list[tuple[frozenset[str], str]]] = defaultdict(list)
        self._inside: dict[str, str] = {}
        said: list[tuple[frozenset[str], str]] = []
        for note in topics:
            stem = posixpath.splitext(posixpath.basename(note.rel_path))[0]
            for name in (title_of(note.text, note.rel_path), stem):
                if is_unspaced(name):
                    self._inside[name.casefold().strip()] = note.rel_path
                elif words := frozenset(map(_stem, words_in(" ".join(content_words(name))))):
                    said.append((words, note.rel_path))
        often = Counter(word for words, _ in said for word in words)
        for words, path in said:
            rarest = min(words, key=lambda word: (often[word], word))
            for form in (rarest, f"{rarest}s"):
                self._by_word[form].append((words, path))
        self._lengths: dict[str, set[int]] = defaultdict(set)
        for name in self._inside:
            self._lengths[name[0]].add(len(name))

    def found_in(self, note: Note) -> set[str]:
        """Return the topics that a file speaks of, itself left out; each is told of once only."""
        words = set(words_in(note.folded))
        found: set[str] = set()
        for word in words:
            asked = self._by_word.get(word)
            if asked:
                told = [
                    (needed, path)
                    for needed, path in asked
                    if path != note.rel_path
                    and all(one in words or f"{one}s" in words for one in needed)
                ]
                found.update(path for _, path in told)
                if told:
                    self._by_word[word] = [one for one in asked if one[1] not in found]
        if self._inside and not note.folded.isascii():
            found |= self._in_runs(note.folded)
        return found

    def _in_runs(self, folded: str) -> set[str]:
        return {
            self._inside[folded[at : at + length]]
            for at, char in enumerate(folded)
            for length in self._lengths.get(char, ())
            if folded[at : at + length] in self._inside
        }


def _stem(word: str) -> str:
    """Return a word without the `s` of a plural, as far as that can be told."""
    return word.removesuffix("s") if len(word) > _LEAST_CHARS else word


CHECK: Final = Check("orphans", "Topics without links", check_orphans)
