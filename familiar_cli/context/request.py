"""A request for a reply, the prompt assembled for it, and the parts that assembling is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct, field

from familiar_cli.base.config.schema import DEFAULT_TIER
from familiar_cli.base.languages import ENGLISH, Phrases
from familiar_cli.base.who.identity import NO_LABELS, Author, Labels
from familiar_cli.base.who.visibility import Viewer
from familiar_cli.context.replies import PartialReply
from familiar_cli.context.types import (
    Contribution,
    Fragment,
    Layer,
    LayerUse,
    Modality,
    Report,
    Subject,
)
from familiar_cli.llm.types import Message, SideCall
from familiar_cli.store.history.rows import Turn
from familiar_cli.store.memory.pages.lines import KnownTexts

Repack = Callable[[Sequence[Contribution], int], Sequence[Contribution]]


class Refill(Struct, frozen=True):
    """Packs a provider's contributions again, into more room.

    Args:
        repack: Returns all contributions, the provider's own packed into a number of tokens.
        before_digests: They answer a question that no digest does, so they take its room, too.
    """

    repack: Repack
    before_digests: bool = False


class ContextRequest(Struct, frozen=True):
    """The request for a prompt.

    Args:
        author: The author; None if there is none.
        utterance: The message.
        at: Its time, in UTC.
        budget_tokens: Maximum tokens of the whole prompt.
        viewer: The reader of the reply: nothing hidden from them is in the prompt.
        budget_reason: The reason for `budget_tokens`, in words.
        layer_tokens: Maximum tokens of each layer; a missing layer has no limit of its own.
        before_id: Only turns before this one are history; None for all.
        opening: The greeting of a channel without turns, with macros expanded; or empty.
        seed: Seed of `{{random:…}}` and `{{roll:…}}`; the same seed gives the same prompt.
        guild_id: The server of the channel, for readers of the trace.
        pending_turns: People's turns since the familiar last spoke, oldest first, without the
            utterance. They are in the history already.
        tier: How much of the memory is used; see `context.tiers`.
        off_record: Store nothing of this turn.
        labels: Labels of people in the prompt.
        phrases: Titles and labels of the prompt, in the familiar's language.
        reply_to: The turn of the history that is answered; None for a new message.
        begun: The partial reply to be continued, if any.
        is_again: It asks for another reply to a message that has one.
        is_complement: Another program makes the prompt, so nothing has a place in it.
        beside: What a chat program has already put into the prompt.
        side_calls: Collects calls of other models.
        most_content: Maximum tokens of memory and recall, including free room; 0 for no limit.
        refills: Collects functions that pack a provider's contributions again if there is room.
    """

    familiar_id: str
    channel_id: str
    author: Author | None
    utterance: str
    modality: Modality
    at: datetime
    budget_tokens: int
    viewer: Viewer
    layer_tokens: dict[Layer, int] = field(default_factory=dict)
    before_id: int | None = None
    opening: str = ""
    seed: str = ""
    guild_id: str | None = None
    pending_turns: tuple[Turn, ...] = ()
    tier: int = DEFAULT_TIER
    off_record: bool = False
    labels: Labels = NO_LABELS
    phrases: Phrases = ENGLISH
    reply_to: int | None = None
    budget_reason: str = ""
    begun: PartialReply | None = None
    is_again: bool = False
    is_complement: bool = False
    beside: KnownTexts | None = None
    side_calls: list[SideCall] = field(default_factory=list)
    most_content: int = 0
    refills: list[Refill] = field(default_factory=list)

    @property
    def is_content_set(self) -> bool:
        """Whether a person has set how many tokens memory and recall take."""
        return 0 < self.most_content == self.layer_tokens.get(Layer.content)

    @property
    def query(self) -> str:
        """The search query: the utterance, without its middle if it is very long."""
        from familiar_cli.store.fts import bounded_query  # noqa: PLC0415  # what shows a trace needs none

        return bounded_query(self.utterance)


class Assembled(Struct, frozen=True):
    """An assembled prompt. The model has not been asked.

    Args:
        fragments: The result for each contribution, in the providers' order.
        layers: The budget of each layer and its use.
        providers: The outcome of each provider, in order.
        processors: The outcome of each pre-processor, in order.
        used_tokens: Total tokens of the messages.
        elapsed_ms: Duration of assembling.
    """

    request: ContextRequest
    messages: tuple[Message, ...]
    fragments: tuple[Fragment, ...]
    layers: tuple[LayerUse, ...]
    providers: tuple[Report, ...]
    processors: tuple[Report, ...]
    used_tokens: int
    elapsed_ms: float


REFRESH_SHARE: Final = 0.05
"""Share of a deadline in which a provider reads changed files; the rest is read after the reply."""


class ContextProvider(Protocol):
    """Provides contributions to a prompt.

    It runs in parallel with others, in a thread and an event loop of its own; the prompt is made at
    its deadline in any case. A late provider is cancelled, but may still be running afterwards. So
    it reads, and never writes.
    """

    @property
    def name(self) -> str:
        """The name in a trace."""

    @property
    def deadline_s(self) -> float | None:
        """Maximum time before the prompt is made without it; None for no limit."""

    async def contribute(self, request: ContextRequest) -> Sequence[Contribution]:
        """Return its contributions; equals keep this order."""


@runtime_checkable
class Explains(Protocol):
    """A provider that can explain why something is not in a prompt."""

    @property
    def name(self) -> str:
        """The name in a trace."""

    @property
    def looks_at(self) -> str:
        """The files or turns that it reads, in words."""

    def why_not(self, subject: Subject, request: ContextRequest) -> str | None:
        """Explain why it would not offer `subject` for `request` now.

        Returns:
            A reason, as the end of a sentence; empty if nothing prevents it; None if it never reads
            such a subject.
        """


class PreProcessor(Protocol):
    """Changes contributions before the budget is filled."""

    @property
    def name(self) -> str:
        """The name in a trace."""

    @property
    def deadline_s(self) -> float:
        """Maximum time before the prompt is made without it."""

    async def process(
        self, request: ContextRequest, contributions: Sequence[Contribution]
    ) -> Sequence[Contribution]:
        """Return the contributions that replace the given ones."""


class PostProcessor(Protocol):
    """Changes a reply before it is shown and stored."""

    @property
    def name(self) -> str:
        """The name in a trace."""

    @property
    def deadline_s(self) -> float:
        """Maximum time before the reply stays as it is."""

    async def process(self, request: ContextRequest, reply: str) -> str:
        """Return the text that replaces the reply."""
