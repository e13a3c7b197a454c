"""Make the question about one batch, within what the model can read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import ConfigError
from familiar_cli.languages import ENGLISH
from familiar_cli.llm.asking import voice_excerpt
from familiar_cli.memory.people.same_person import main_slug
from familiar_cli.writer.batches import Caps
from familiar_cli.writer.contract import bounds_for, schema
from familiar_cli.writer.gather import gather, names_in
from familiar_cli.writer.grounds import Grounds
from familiar_cli.writer.prompts import (
    INSTRUCTIONS,
    SIMPLE,
    cut,
    instructions,
    question,
    transcript_line,
)
from familiar_cli.writer.roster import roster_of
from familiar_cli.writer.slots import session_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import tzinfo

    from familiar_cli.history.types import Turn
    from familiar_cli.identity import Author, Labels, Who
    from familiar_cli.llm.types import ChatModel
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.review.draft import Draft
    from familiar_cli.writer.contract import Bounds
    from familiar_cli.writer.settings import WriterSettings
    from familiar_cli.writer.types import Batch

_SAFETY: Final = 0.95  # of a model's context: servers count in another way than this program
_TRANSCRIPT_SHARE: Final = 0.6  # of the room beside instructions and reply; memory has the rest
_LEAST_ROOM_TOKENS: Final = 200
_LEAST_REPLY_TOKENS: Final = 128
_FRAME_TOKENS: Final = 100  # headings and marks of a question, and the request to try again
_LISTED_TOKENS: Final = 24  # a person, a session or a channel in a list


@dataclass(frozen=True, slots=True)
class Question:
    """What to ask about a batch.

    Args:
        system: The instructions.
        user: Who, where, what is known, and what was said.
        schema: What the reply may be.
        grounds: What the reply is judged by.
        cut_turns: Turns that were too long to be shown whole.
    """

    system: str
    user: str
    schema: dict[str, Any]
    grounds: Grounds
    cut_turns: tuple[int, ...]


@dataclass(frozen=True)
class Questions:
    """Makes questions for one model.

    Args:
        store: The memory.
        model: Who will be asked.
        count: Counts tokens.
        who: Who the familiar is.
        settings: How to work.
        zone: The familiar's timezone; None: the system's.
        label: Gives what a channel is called; None: unknown.
        called: Gives the slugs of everyone who is known by a name.
        public: Gives an author with the names that everybody may know.
        labels: Gives what people are called.
    """

    store: MemoryStore
    model: ChatModel
    count: Callable[[str], int]
    who: Who
    settings: WriterSettings
    zone: tzinfo | None
    label: Callable[[str], str | None]
    called: Callable[[str], tuple[str, ...]]
    public: Callable[[Author], Author]
    labels: Callable[[], Labels]

    @cached_property
    def caps(self) -> Caps:
        """How large a step may be.

        Raises:
            ConfigError: The model reads or writes too little for this work.
        """
        set_to = self.settings
        if self._room < _LEAST_ROOM_TOKENS or set_to.reply_tokens < _LEAST_REPLY_TOKENS:
            raise ConfigError(
                f"{self.model.name!r} reads {self.model.context_tokens} tokens and writes "
                f"{set_to.reply_tokens}: too few to write memory",
                hint="Raise its context_tokens, or use another model: `familiar "
                "config set llm.slots.memory_writer.model NAME`.",
            )
        tokens = min(set_to.batch_tokens, int(self._room * _TRANSCRIPT_SHARE))
        return Caps(set_to.batch_turns, tokens, set_to.quiet_gap_s)

    def cost(self, turn: Turn) -> int:
        """Return the tokens of a turn; one that does not stand is not shown."""
        return 0 if not turn.stands else self.count(self._line(turn)) + 1

    def about(self, batch: Batch, draft: Draft) -> Question:
        """Return the question about a batch, with memory as `draft` would have it."""
        turns, private = batch.turns, batch.private
        called = self.labels().joined(turn.author for turn in turns)
        roster = roster_of(
            turns,
            lambda path: names_in(draft, path),
            lambda slug: main_slug(self.store, slug),
            self.public if private is not None else lambda author: author,
            called,
        )
        sessions = {} if private is not None else session_files(turns, self.zone)
        labels = self._labels(turns)
        transcript, cut_turns = self._transcript(turns, labels, called)
        listed = len(roster.people) + len(sessions) + len(labels)
        used = self.count(transcript) + self.count(self._voice) + _LISTED_TOKENS * listed
        gathered = gather(
            batch,
            roster,
            sessions,
            draft,
            self.store,
            room_tokens=self._room - used,
            count=self.count,
        )
        user = question(
            name=self.who.name,
            voice=self._voice,
            channels=list(labels.values()),
            roster=roster,
            sessions=sessions,
            gathered=gathered,
            transcript=transcript,
        )
        grounds = Grounds(
            batch,
            roster,
            sessions,
            gathered.shown,
            prompt_texts=(INSTRUCTIONS, SIMPLE, self.who.voice, *self.who.texts),
            others=self.called,
            name=self.who.name,
            channel_label=self._heading_of(turns) if private is not None else "",
            strict=self._bounds.simple,
            zone=self.zone,
            topics=gathered.known,
            phrases=self.who.phrases,
            numbering=self.settings.numbering,
        )
        named = [path for path in (*gathered.shown, *gathered.topics) if path in gathered.known]
        files = [*sessions, *(person.rel_path for person in roster.people)]
        form = schema(
            self._bounds,
            files=files,
            turns=[turn.id for turn in turns],
            topics=None if private is not None else named,
            any_letters=self.who.phrases is not ENGLISH,
        )
        return Question(self._system(private=private is not None), user, form, grounds, cut_turns)

    @cached_property
    def _bounds(self) -> Bounds:
        return bounds_for(self.settings.reply_tokens)

    def _heading_of(self, turns: Sequence[Turn]) -> str:
        """Return the label of the newest channel of private turns."""
        return self.label(turns[-1].channel_id) or turns[-1].channel_id

    def _system(self, *, private: bool) -> str:
        return instructions(self.who.name, self._bounds, private=private, phrases=self.who.phrases)

    @cached_property
    def _room(self) -> int:
        """How many tokens turns, memory and lists may have together."""
        all_of_it = int(self.model.context_tokens * _SAFETY) - self.settings.reply_tokens
        return all_of_it - self.count(self._system(private=True)) - _FRAME_TOKENS

    @cached_property
    def _voice(self) -> str:
        """The beginning of what makes the familiar itself, in whole sentences where it has any."""
        if self._bounds.simple:
            return ""  # a small model takes it for what was said
        return voice_excerpt(self.who.voice, self._room, self.count)

    def _labels(self, turns: Sequence[Turn]) -> dict[str, str]:
        """Return what the channels of some turns are called; unknown ones are left out."""
        names = {c: self.label(c) for c in dict.fromkeys(turn.channel_id for turn in turns)}
        return {channel: name for channel, name in names.items() if name}

    def _transcript(
        self, turns: Sequence[Turn], labels: dict[str, str], called: Labels
    ) -> tuple[str, tuple[int, ...]]:
        """Return the turns as text, and those that were too long for it."""
        several = labels if len({turn.channel_id for turn in turns}) > 1 else {}
        whole = [self._line(turn, several.get(turn.channel_id, ""), called) for turn in turns]
        shown = [cut(line, self.caps.tokens, self.count) for line in whole]
        lost = [t.id for t, a, b in zip(turns, whole, shown, strict=True) if a != b]
        return "\n".join(shown), tuple(lost)

    def _line(self, turn: Turn, channel: str = "", labels: Labels | None = None) -> str:
        labels = labels or self.labels().joined([turn.author])
        return transcript_line(turn, self.who.name, self.zone, channel, labels)
