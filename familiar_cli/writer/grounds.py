"""What a batch's operations are judged by: who was there, what was said, what was shown."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from familiar_cli import fts
from familiar_cli.clock import to_zone
from familiar_cli.languages import ENGLISH
from familiar_cli.memory.layout import TOPICS_DIR
from familiar_cli.memory.pages.evidence import PLAIN, Numbering, without_references
from familiar_cli.memory.pages.privacy import private_heading, visible_in
from familiar_cli.memory.pages.similarity import KnownTexts, normal_lines, scripts_in
from familiar_cli.text import fold, slugify
from familiar_cli.visibility import split_scope

_STEM_CHARS: Final = 4
_LEAST_WORD_CHARS: Final = 3
_FEW_WORDS: Final = 4  # "Yes, both of them" says something only together with the question

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import date, tzinfo

    from familiar_cli.history.types import Turn
    from familiar_cli.languages import Phrases
    from familiar_cli.visibility import Viewer
    from familiar_cli.writer.batches import Roster
    from familiar_cli.writer.types import Batch


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A memory file as the model saw it.

    Args:
        rel_path: Which file.
        text: All of it, as it stands on disk.
        sha256: Of the file.
        shown: What the model saw: without references, and without what belongs to other channels.
        whole: The model saw all that it may change.
    """

    rel_path: str
    text: str
    sha256: str
    shown: str
    whole: bool


def stems_of(text: str) -> frozenset[str]:
    """Return the stems of content words; of unspaced scripts, all character pairs."""
    words = (word for word in fts.words(fts.indexable(text)) if word not in fts.STOP_WORDS)
    return frozenset(
        word[:_STEM_CHARS] for word in words if len(word) >= _LEAST_WORD_CHARS or not word.isascii()
    )


def seen_of(text: str, viewer: Viewer) -> str:
    """Return the part of a file that a viewer of the turns may see."""
    return without_references(visible_in(text, viewer))


@dataclass(frozen=True)
class Grounds:
    """All that a plan is held against.

    Args:
        batch: The turns.
        roster: Who said them.
        sessions: The session files of the batch, each with its turns.
        shown: The memory files that the model saw, by path.
        prompt_texts: The prompt's own instructions, and what makes the familiar who it is.
        others: Gives the slugs of everyone who is known by a name.
        name: The familiar's name.
        channel_label: What the private channel is called; empty for public turns.
        strict: The model is small: what it says must be in words that were said.
        zone: The familiar's timezone; None: the system's.
        topics: Every topic there is.
        phrases: The titles and headings of what is written.
        numbering: How turns are cited.
    """

    batch: Batch
    roster: Roster
    sessions: Mapping[str, tuple[int, ...]]
    shown: Mapping[str, ShownFile]
    prompt_texts: tuple[str, ...]
    others: Callable[[str], tuple[str, ...]]
    name: str
    channel_label: str = ""
    strict: bool = False
    zone: tzinfo | None = None
    topics: Sequence[str] = ()
    phrases: Phrases = field(default=ENGLISH, repr=False)
    numbering: Numbering = field(default=PLAIN, repr=False)

    @cached_property
    def turns(self) -> dict[int, Turn]:
        """The turns by their ids."""
        return {turn.id: turn for turn in self.batch.turns}

    @cached_property
    def instructions(self) -> KnownTexts:
        """What the prompt itself says."""
        return KnownTexts(self.prompt_texts)

    @cached_property
    def scripts(self) -> frozenset[str]:
        """Every script that the people, the character or the shown memory write in."""
        said = (turn.content for turn in self.batch.turns)
        names = (name for person in self.roster.people for name in person.names)
        return scripts_in([*said, *names, self.name, *(s.shown for s in self.shown.values())])

    def support(self, text: str, turn_ids: Iterable[int], *, alone: bool = False) -> set[int]:
        """Filter turns to those that share a word with `text`.

        A turn of a few words answers the one before it in its channel, so the words of that count.

        Args:
            text: A line.
            turn_ids: The turns that it cites.
            alone: Only what the turns say themselves counts, and what people are called does not.
        """
        wanted, turns = stems_of(text) - self._common, self.turns
        if not alone:
            return {n for n in turn_ids if n in turns and wanted & self._stems(turns[n])}
        wanted -= self._stems_of_names
        return {n for n in turn_ids if n in turns and wanted & stems_of(turns[n].content)}

    def says_more_than_names(self, text: str) -> bool:
        """Tell whether a line has any word besides names and numbers."""
        words = stems_of(text) - self._stems_of_names
        return any(not word.isdigit() for word in words)

    def _stems(self, turn: Turn) -> frozenset[str]:
        """Return the stems that a turn supports, as `stems_of` does."""
        if turn.id not in self._stems_by_turn:
            found = stems_of(turn.content)
            if len(found - self._common) < _FEW_WORDS:
                here = [t for t in self.batch.turns if t.channel_id == turn.channel_id]
                before = here[: here.index(turn)][-1:]
                found = found.union(*(stems_of(one.content) for one in before))
            self._stems_by_turn[turn.id] = found
        return self._stems_by_turn[turn.id]

    @cached_property
    def _stems_by_turn(self) -> dict[int, frozenset[str]]:
        return {}

    @cached_property
    def _common(self) -> frozenset[str]:
        return stems_of(self.phrases.common)

    @cached_property
    def _stems_of_names(self) -> frozenset[str]:
        named = [name for person in self.roster.people for name in person.names]
        return stems_of(" ".join([*named, self.name]))

    def topic(self, rel_path: str) -> str | None:
        """Return the topic there is that a path means, or None.

        It may be written as titles are, and a name without a directory means the topic of that
        name in any, first of all one that the model saw.
        """
        if rel_path in self.topics:
            return rel_path
        directory, name = posixpath.split(rel_path)
        stem = slugify(name.removesuffix(".md"))
        called = [path for path in self._topics_by_stem.get(stem, ()) if stem]
        in_it = [path for path in called if fold(posixpath.dirname(path)) == fold(directory)]
        if not in_it and directory in self.topic_directories - {TOPICS_DIR}:
            return None
        return min(in_it or called, key=lambda path: (path not in self.shown, path), default=None)

    @cached_property
    def topic_directories(self) -> frozenset[str]:
        """The directories that topics are in."""
        return frozenset((TOPICS_DIR, *map(posixpath.dirname, self.topics)))

    @cached_property
    def _topics_by_stem(self) -> dict[str, list[str]]:
        named: dict[str, list[str]] = {}
        for path in self.topics:
            stem = slugify(posixpath.basename(path).removesuffix(".md"))
            named.setdefault(stem, []).append(path)
        return named

    def recalled(self, rel_path: str) -> KnownTexts:
        """Return what memory says in other files than `rel_path`."""
        if rel_path not in self._recalled:
            others = (s.shown for s in self.shown.values() if s.rel_path != rel_path)
            self._recalled[rel_path] = KnownTexts(others)
        return self._recalled[rel_path]

    def lines_of(self, rel_path: str) -> frozenset[str]:
        """Return what a file says already, line by line, so that small differences do not count."""
        if rel_path not in self._lines:
            shown = self.shown.get(rel_path)
            self._lines[rel_path] = normal_lines(shown.text) if shown else frozenset()
        return self._lines[rel_path]

    @cached_property
    def _recalled(self) -> dict[str, KnownTexts]:
        return {}

    @cached_property
    def _lines(self) -> dict[str, frozenset[str]]:
        return {}

    @property
    def private_heading(self) -> str:
        """The heading of what is learned from a private batch."""
        assert self.batch.private is not None
        scope = self.batch.private
        return private_heading(self.channel_label or split_scope(scope)[1], scope, self.phrases)

    def words_of(self, turn_ids: Iterable[int]) -> list[str]:
        """Return what was said in these turns."""
        return [self.turns[n].content for n in turn_ids if n in self.turns]

    def day_of(self, words: str, turn_ids: Iterable[int]) -> date | None:
        """Return the day on which `words` were said, such as "yesterday"; None: it is not sure.

        That is the day of the cited turns that say them, or of the whole batch if it has only one.
        """
        said = [self.turns[n] for n in turn_ids if fold(words) in fold(self.turns[n].content)]
        days = {to_zone(turn.at, self.zone).date() for turn in said or self.batch.turns}
        return days.pop() if len(days) == 1 else None
