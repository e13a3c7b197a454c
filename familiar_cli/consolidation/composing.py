"""Ask a model what of some sources to remember, in as many parts as it takes."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.consolidation import prompts
from familiar_cli.consolidation.folding import folded, folded_as_one, in_parts
from familiar_cli.consolidation.rails import judge, read_reply, within
from familiar_cli.consolidation.replies import key_of
from familiar_cli.consolidation.types import DraftedSummary, Item
from familiar_cli.errors import ConfigError, UnusableReplyError
from familiar_cli.llm.asking import voice_excerpt
from familiar_cli.memory.pages.similarity import KnownTexts, scripts_in
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from familiar_cli.consolidation.replies import Replies
    from familiar_cli.consolidation.types import Wanted
    from familiar_cli.identity import Who
    from familiar_cli.llm.asking import Asker
    from familiar_cli.llm.types import ChatModel, Completion

_MOST_POINTS: Final = 24
_POINT_TOKENS: Final = 60  # with its braces and numbers
_SUMMARY_TOKENS: Final = 150
_SUMMARY_CHARS: Final = (200, 2000)
_SUMMARY_FROM_TOKENS: Final = 400  # a longer reply has a longer summary
_CHARS_PER_TOKEN: Final = 3
_WORDS_OF_TOKENS: Final = (2, 3)  # so many words have so many tokens, with the braces around them
_LEAST_WORDS: Final = 20
_LABEL_TOKENS: Final = 30  # of the tags around one source
_LEAST_PART_TOKENS: Final = 200
_SIMPLE_TOKENS: Final = 600  # a model that writes no more is a small one
_LABELS_CHARS: Final = 400
_REPAIR_TOKENS: Final = 150
# Points keep the sources that they rest on as long as a part becomes so much shorter by that.
_SHORTER: Final = 0.75


@dataclass(slots=True)
class Composer:
    """Asks one model.

    Args:
        asker: Asks the model.
        who: Who the familiar is.
        part_tokens: Most tokens of sources in one question; a small model gets fewer.
        replies: Usable replies, so that a file of many parts that failed is not begun anew.
    """

    asker: Asker
    who: Who
    part_tokens: int
    replies: Replies | None = None

    async def compose(self, wanted: Wanted, kept: Sequence[str] = ()) -> DraftedSummary:
        """Return what of the items of `wanted` is to be remembered.

        Args:
            wanted: The file that is to be made.
            kept: Blocks that a person wrote into it, which stay.

        Raises:
            UnusableReplyError: No reply could be used; they are kept in the quarantine.
            ConfigError: The model reads too little for this work.
            ModelError: The model could not be asked.
        """
        items = tuple(wanted.items)
        system = self._system(wanted, is_part=True)
        room = self._room(system, kept)
        scripts = scripts_in([item.text for item in items])
        while len(parts := in_parts(items, room, self._cost)) > 1:
            folds = [await self._fold(wanted.name, system, part, scripts) for part in parts]
            shorter = tuple(item for fold in folds for item in fold)
            if self._total(shorter) >= self._total(items):  # else it would never end
                raise self._too_wordy(wanted.name)
            items = shorter
        system = self._system(wanted, is_part=False)
        plan = await self._ask(wanted.name, system, parts[0] if parts else (), kept, scripts)
        return within(plan, wanted.budget_tokens, self.asker.count)

    def forget(self, name: str) -> None:
        """Throw away what was kept of the replies about a file: it is made."""
        if self.replies:
            self.replies.forget(name)

    def _cost(self, text: str) -> int:
        return self.asker.count(text) + _LABEL_TOKENS

    def _total(self, items: Iterable[Item]) -> int:
        return sum(self._cost(item.text) for item in items)

    async def _fold(
        self, name: str, system: str, part: Sequence[Item], scripts: frozenset[str]
    ) -> tuple[Item, ...]:
        """Return what stands for a part."""
        plan = await self._ask(name, system, part, (), scripts)
        everything = tuple(dict.fromkeys(label for item in part for label in item.rests_on))
        each = folded(plan, everything)
        is_short = self._total(each) <= _SHORTER * self._total(part)
        return each if is_short else (folded_as_one(plan, everything),)

    async def _ask(
        self,
        name: str,
        system: str,
        items: Sequence[Item],
        kept: Sequence[str],
        scripts: frozenset[str],
    ) -> DraftedSummary:
        user = prompts.question(items, voice=self._voice, kept=kept)
        known = KnownTexts([prompts.INSTRUCTIONS, system, *self.who.texts, self.who.voice])

        def judged(text: str) -> DraftedSummary:
            plan = read_reply(text, items, strict=self._is_simple)
            return judge(plan, instructions=known, scripts=scripts, kept="\n".join(kept))

        def judged_and_kept(completion: Completion) -> DraftedSummary:
            plan = judged(completion.text)
            if self.replies:
                self.replies.keep(name, key, completion.text)
            return plan

        key = key_of(self.model.name, system, user)
        reply = self.replies.find(name, key) if self.replies else None
        if reply is not None:
            with suppress(UnusableReplyError):  # the rules have become stricter since
                return judged(reply)
        schema = self._schema(len(items))
        return await self.asker.ask(
            system, user, schema=schema, shape=prompts.SHAPE, read=judged_and_kept
        )

    def _schema(self, sources: int) -> dict[str, Any]:
        longer = max(self._reply_tokens - _SUMMARY_FROM_TOKENS, 0) * _CHARS_PER_TOKEN // 4
        summary_chars = min(_SUMMARY_CHARS[0] + longer, _SUMMARY_CHARS[1])
        return prompts.schema(sources, self._most_points, summary_chars, simple=self._is_simple)

    @property
    def model(self) -> ChatModel:
        """Who is asked."""
        return self.asker.model

    @property
    def _reply_tokens(self) -> int:
        return self.asker.reply_tokens

    @property
    def _is_simple(self) -> bool:
        """Whether the model is a small one: told less, and taken at the sources' word only."""
        return self._reply_tokens < _SIMPLE_TOKENS

    @property
    def _voice(self) -> str:
        if self._is_simple:
            return ""
        return voice_excerpt(self.who.voice, self.model.context_tokens, self.asker.count)

    @property
    def _most_points(self) -> int:
        return max(1, min(_MOST_POINTS, (self._reply_tokens - _SUMMARY_TOKENS) // _POINT_TOKENS))

    def _system(self, wanted: Wanted, *, is_part: bool) -> str:
        return prompts.instructions(
            self.who.name,
            wanted.guidance,
            self._most_points,
            is_part=is_part,
            simple=self._is_simple,
            most_words=self._most_words(0 if is_part else wanted.budget_tokens),
        )

    def _most_words(self, budget_tokens: int) -> int:
        """Return how many words fit into a reply, and into what becomes of it; 0: no budget."""
        tokens = min(budget_tokens or self._reply_tokens, self._reply_tokens)
        return max(tokens * _WORDS_OF_TOKENS[0] // _WORDS_OF_TOKENS[1], _LEAST_WORDS)

    def _room(self, system: str, kept: Sequence[str]) -> int:
        """Return how many tokens of sources one question may have."""
        question = prompts.question((), voice=self._voice, kept=kept)
        around = self.asker.count(system) + self.asker.count(question)
        free = self.model.context_tokens - self._reply_tokens - around - _REPAIR_TOKENS
        room = min(self.part_tokens, free)
        if room < _LEAST_PART_TOKENS:
            raise ConfigError(
                f"{self.model.name!r} reads {self.model.context_tokens:,} tokens, which is too few "
                "for this work; nothing was written",
                hint=f"Raise `llm.slots.{self.asker.slot}.context_tokens`, or use another model "
                "there.",
            )
        return room

    def _too_wordy(self, name: str) -> UnusableReplyError:
        return UnusableReplyError(
            f"What {self.model.name!r} wrote about the parts of {name} is as long as the parts "
            "themselves; nothing was written",
            hint="Use a model with a larger context: "
            f"`familiar config set llm.slots.{self.asker.slot}.model NAME`.",
        )


def as_items(labelled: Iterable[tuple[str, str]]) -> tuple[Item, ...]:
    """Return texts with their labels as items; what says nothing is left out."""
    return tuple(Item(label, text) for label, text in labelled if text.strip())


def told(plan: DraftedSummary) -> str:
    """Return a plan as the body of a file, below its H1."""
    points = "".join(
        f"- {point.text} <!-- from {_quiet(', '.join(point.sources))} -->\n"
        for point in plan.points
    )
    summary = f"{plan.summary}\n" if plan.summary else ""
    return "\n".join(part for part in (summary, points) if part)


def _quiet(text: str) -> str:
    """Return labels so that they cannot end the comment that they stand in."""
    return re.sub(r"-{2,}|[<>]", "-", one_line(text, _LABELS_CHARS))
