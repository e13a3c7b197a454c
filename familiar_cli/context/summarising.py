"""`Summariser`: folds turns that no prompt shows any more into the rolling summary, step by step.

Each step takes the summary so far and some turns after it, and is kept before the next begins. A
step that fails leaves everything as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import now
from familiar_cli.context.budget import MESSAGE_TOKENS, PROMPT_TOKENS
from familiar_cli.context.summary_prompt import summary_messages, turn_text
from familiar_cli.errors import BadReplyError
from familiar_cli.history.summaries import Summary
from familiar_cli.history.types import place_of
from familiar_cli.identity import Labels
from familiar_cli.truncate import cut_to, sentence_ends

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo

    from familiar_cli.history.summaries import Summaries
    from familiar_cli.history.types import Turn
    from familiar_cli.llm.types import ChatModel, Completion
    from familiar_cli.tokens import TokenCounter
    from familiar_cli.visibility import PrivacyRules

RATIO: Final = 10
"""Turns to summary, in tokens."""

LEAST_TOKENS: Final = 80
"""A summary may always have as many; fewer say nothing."""

MOST_STEPS: Final = 4
"""Steps of one refresh. A long backlog is caught up with over several, each after a reply."""

LOCAL_STEPS: Final = 1
"""The same for the model inside the program, of which each step takes ten seconds and more."""

TURNS_AT_ONCE: Final = 400
_SHRINK: Final = 3  # a summary that loses more than two thirds of itself has lost its past
_WORDS_PER_TOKEN: Final = 0.75
_LEAST_ROOM: Final = 100


@dataclass(frozen=True, slots=True)
class SummaryLimits:
    """How much a step may read and write.

    Args:
        summary_tokens: Most tokens of a summary.
        batch_tokens: Most tokens of turns in one step.
        steps: Most steps of one refresh.
    """

    summary_tokens: int
    batch_tokens: int
    steps: int = MOST_STEPS


class Summariser:
    """Makes summaries with a model.

    Args:
        summaries: Where they are kept, and the turns.
        model: Who writes them.
        counter: What counts tokens.
        limits: How much a step may read and write.
        name: What the familiar is called.
        label: Says what a channel is called.
        zone: The timezone of the times in a summary; None: the system's.
        labels: Gives what people are called.
    """

    def __init__(
        self,
        summaries: Summaries,
        model: ChatModel,
        counter: TokenCounter,
        limits: SummaryLimits,
        *,
        name: str,
        label: Callable[[str], str],
        zone: tzinfo | None = None,
        labels: Callable[[], Labels] = Labels,
    ) -> None:
        self._summaries = summaries
        self._model = model
        self._counter = counter
        self._limits = limits
        self._name = name
        self._label = label
        self._zone = zone
        self._labels = labels

    async def refresh(self, scope: str, through_id: int, rules: PrivacyRules) -> int:
        """Bring the summary of a scope forward, and return how many steps that took.

        Args:
            scope: Which summary.
            through_id: The last turn that it shall cover.
            rules: What is private now.

        Raises:
            ModelError: A step failed; the summary stays as the steps before it left it.
            FamiliarError: A step could not be kept.
        """
        if self._summaries.latest(scope, rules) is None:
            self._summaries.forget(scope)  # what it was made of has become private since
        for step in range(self._limits.steps):
            old = self._summaries.latest(scope, rules)
            after_id = old.last_turn_id if old else 0
            turns = self._summaries.turns(scope, after_id, through_id, TURNS_AT_ONCE, rules)
            if not turns:
                return step
            await self._step(scope, old, turns, rules)
        return self._limits.steps

    async def _step(
        self, scope: str, old: Summary | None, turns: list[Turn], rules: PrivacyRules
    ) -> None:
        """Keep one step, unless a turn was edited or withdrawn while the model wrote."""
        before = old.text if old else ""
        texts, batch = self._batch(before, turns)
        words = self._words(before, texts)
        messages = summary_messages(before, texts, name=self._name, words=words)
        completion = await self._model.complete(self._model.prepare(messages, stream=False))
        text, cut = self._checked(completion, before)
        last = place_of(batch[-1])
        after_id = old.last_turn_id if old else 0

        def is_current() -> bool:
            there = self._summaries.turns(scope, after_id, last, len(batch), rules)
            is_same = [turn.id for turn in there] == [turn.id for turn in batch]
            return is_same and self._summaries.latest(scope, rules) == old

        summary = Summary(scope, last, text, now(), completion.model, cut)
        told = {turn.channel_id for turn in batch}
        inherited = self._summaries.channels(old.scope) if old and old.scope != scope else ()
        self._summaries.keep(summary, told.union(inherited), is_current=is_current)

    def _batch(self, before: str, turns: list[Turn]) -> tuple[list[str], list[Turn]]:
        """Return the texts of the first turns for which there is room, and those turns.

        Raises:
            BadReplyError: The model can read nothing beside the instructions.
        """
        room = min(self._limits.batch_tokens, self._room(before))
        if room < _LEAST_ROOM:
            raise BadReplyError(
                f"The model {self._model.name!r} can read only {self._model.context_tokens} "
                "tokens: too few to summarise turns",
                hint="Give the slot `history_summary` a model with a larger context.",
            )
        texts: list[str] = []
        labels = self._labels().joined(turn.author for turn in turns)
        for turn in turns:
            text = turn_text(
                turn, name=self._name, label=self._label, zone=self._zone, labels=labels
            )
            cost = self._counter.count(text) + 1
            if cost > room and not texts:
                text, cost = cut_to(text, room - 2, self._counter.count) + " …", room
            if cost > room:
                break
            texts.append(text)
            room -= cost
        return texts, turns[: len(texts)]

    def _room(self, before: str) -> int:
        frame = summary_messages(before, (), name=self._name, words=1000)
        used = sum(MESSAGE_TOKENS + self._counter.count(m["content"]) for m in frame)
        return self._model.context_tokens - self._model.max_tokens - PROMPT_TOKENS - used

    @property
    def _most_tokens(self) -> int:
        """Most tokens of a summary: what a prompt has for it, and what the model can write."""
        return max(min(self._limits.summary_tokens, self._model.max_tokens * 9 // 10), 1)

    def _words(self, before: str, texts: list[str]) -> int:
        new = sum(self._counter.count(text) for text in texts)
        wanted = max(self._counter.count(before) + new // RATIO, LEAST_TOKENS)
        return max(int(min(wanted, self._most_tokens) * _WORDS_PER_TOKEN), 10)

    def _checked(self, completion: Completion, before: str) -> tuple[str, bool]:
        """Return the new summary, and whether it lost its end.

        Raises:
            BadReplyError: It is blank, or has lost what was in the one before.
        """
        text, cut = completion.text.strip(), False
        if not text:
            raise self._bad("was blank")
        if completion.finish_reason == "content_filter":
            raise self._bad("was stopped by the server's content filter")
        if completion.finish_reason == "length":
            text, cut = text[: max(sentence_ends(text), default=len(text))].rstrip(), True
        if self._counter.count(text) > self._most_tokens:
            text, cut = cut_to(text, self._most_tokens, self._counter.count), True
        was, is_now = self._counter.count(before), self._counter.count(text)
        if not text or is_now * _SHRINK < was:
            raise self._bad(f"would have shrunk from {was} to {is_now} tokens")
        return text, cut

    def _bad(self, what: str) -> BadReplyError:
        return BadReplyError(
            f"The new summary of {self._model.name!r} {what}; the previous one is kept",
            hint="It is retried later. To use another model: `familiar config set "
            "llm.slots.history_summary.model NAME`.",
        )
