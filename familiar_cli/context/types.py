"""The values a prompt is made of: the request, the contributions, and the result for each."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime  # noqa: TC003  # the trace's reader resolves these annotations
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, Self, runtime_checkable

from familiar_cli.config.schema import DEFAULT_TIER
from familiar_cli.errors import UsageError
from familiar_cli.identity import NO_LABELS, Author, Labels, check_id, english_phrases, parse_author

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from familiar_cli.context.replies import PartialReply
    from familiar_cli.history.rows import Turn
    from familiar_cli.languages import Phrases
    from familiar_cli.llm.types import Message, SideCall
    from familiar_cli.memory.pages.lines import KnownTexts
    from familiar_cli.visibility import Viewer

    Repack = Callable[[Sequence["Contribution"], int], Sequence["Contribution"]]

Role = Literal["system", "user", "assistant"]


class Modality(StrEnum):
    """How a turn reaches the familiar."""

    text = "text"
    voice = "voice"


class Layer(StrEnum):
    """The layer whose budget a piece uses."""

    core = "core"
    character = "character"
    content = "content"
    history_summary = "history_summary"
    recent_history = "recent_history"
    author_note = "author_note"
    depth_inject = "depth_inject"
    digest = "digest"
    desk = "desk"
    pinned = "pinned"


class PromptSpan(StrEnum):
    """The place of a piece in the prompt, from start to end.

    `depth` pieces are inserted between the turns of the chat, counted from the newest.
    """

    main = "main"
    world_before = "world_before"
    persona = "persona"
    description = "description"
    personality = "personality"
    scenario = "scenario"
    digest = "digest"
    world_after = "world_after"
    desk = "desk"
    example = "example"
    summary = "summary"
    chat = "chat"
    depth = "depth"
    post_history = "post_history"
    begun = "begun"


class Fit(StrEnum):
    """How a piece may be shortened to fit.

    `cut`: truncate it at the end of a sentence. `queue`: as `cut`, and once one of its layer and
    priority was cut or left out, none after it is served. `newest`: as `queue`, but served from the
    last one backwards. `whole`: all or nothing. `run`: a turn of the chat; the oldest are dropped
    first, without a gap. `required`: never left out.
    """

    cut = "cut"
    queue = "queue"
    newest = "newest"
    whole = "whole"
    run = "run"
    required = "required"


@dataclass(frozen=True, slots=True)
class ExampleLine:
    """One message of an example dialogue."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Spoken:
    """A message that is not in the history.

    Args:
        role: Its role in the prompt.
        text: The text.
        author: The author; None for the familiar.
    """

    role: Role
    text: str
    author: Author | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """A message to the familiar.

    Args:
        text: The text.
        author: The author; None if there is none in particular.
        channel_id: The channel.
        modality: Text or voice.
        greeting: The greeting of a channel without turns: 1 is the card's first message, its
            alternatives follow; 0 for none; None for the default, unless the channel's settings
            want none.
        source: Where the message came from, e.g. `cli`.
        kind: Kind of the conversation, one of `config.channel_kinds.KINDS`; empty if not stated.
        off_record: Store nothing of this turn.
        remembered: Off-the-record messages just before it, oldest first.
        tier: The tier of the prompt; None for the channel's.
        message_id: The message's id on its platform. A stored message is not added again, but
            answered if it has no reply.
        reply_to: A stored turn to answer, whose text, author and channel apply.
        instead_of: The reply to that turn, which the new one replaces.
        beside: The prompt of a chat program that only wants memory added.
        remake: `again` replaces the channel's last reply; `continue` continues it. There is no new
            message then.
    """

    text: str
    author: Author | None
    channel_id: str = "cli"
    modality: Modality = Modality.text
    greeting: int | None = None
    source: str = "cli"
    kind: str = ""
    off_record: bool = False
    remembered: tuple[Spoken, ...] = ()
    tier: int | None = None
    message_id: str = ""
    reply_to: int | None = None
    instead_of: Turn | None = None
    beside: tuple[str, ...] = ()
    remake: Literal["", "again", "continue"] = ""

    def __post_init__(self) -> None:
        """Check author and channel, unless a stored turn determines them.

        Raises:
            UsageError: An id is invalid; see `identity.check_id`.
        """
        if self.reply_to is not None:
            return
        check_id(self.channel_id, "The channel id")
        if self.message_id:
            check_id(self.message_id, "The message id")
        if self.author:
            parse_author(f"{self.author.platform}:{self.author.user_id}")

    def check(self) -> None:
        """Check that the message has text.

        Raises:
            UsageError: It is empty, or not valid text.
        """
        if not self.text.strip():
            raise UsageError("The message is empty; nothing was sent", hint="Run `familiar chat`.")
        if any("\ud800" <= character <= "\udfff" for character in self.text):
            raise UsageError("The message contains bytes that are not UTF-8 text; nothing was sent")


class Refill(NamedTuple):
    """Packs a provider's contributions again, into more room.

    Args:
        repack: Returns all contributions, the provider's own packed into a number of tokens.
        before_digests: They answer a question that no digest does, so they take its room, too.
    """

    repack: Repack
    before_digests: bool = False


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """The request for a prompt.

    Args:
        familiar_id: The familiar.
        channel_id: The channel.
        author: The author; None if there is none.
        utterance: The message.
        modality: Its modality.
        at: Its time, in UTC.
        budget_tokens: Maximum tokens of the whole prompt.
        viewer: The reader of the reply: nothing hidden from them is in the prompt.
        budget_reason: What `budget_tokens` follows from, in words.
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
        beside: What a chat program has already put into the prompt.
        side_calls: Collects calls of other models.
        most_content: Maximum tokens of memory and recall, including free room; 0 for no limit.
        refills: Collects what packs a provider's contributions again if there is room.
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
    phrases: Phrases = field(default_factory=english_phrases, repr=False)
    reply_to: int | None = None
    budget_reason: str = ""
    begun: PartialReply | None = None
    beside: KnownTexts | None = None
    side_calls: list[SideCall] = field(default_factory=list, compare=False, repr=False)
    most_content: int = 0
    refills: list[Refill] = field(default_factory=list, compare=False, repr=False)

    @property
    def query(self) -> str:
        """The search query: the utterance, without its middle if it is very long."""
        from familiar_cli.fts import bounded_query  # noqa: PLC0415  # what shows a trace needs none

        return bounded_query(self.utterance)


@dataclass(frozen=True, slots=True)
class Contribution:
    """A piece that a provider offers for the prompt.

    Args:
        layer: The layer whose budget it uses.
        priority: Higher ones are served first.
        text: The text; empty for a `problem`.
        source: The provider and part, e.g. `character.description`.
        place: Its place in the prompt.
        rel_path: The memory file it comes from.
        turn_id: The turn it comes from.
        turns: The first and the last turn, if it comes from several.
        origin: Their conversation, e.g. `#general, 2026-01-31`.
        author: The author of a person's turn in the chat.
        role: The role of its message, if it becomes one of its own.
        depth: Number of chat turns below it; for `Place.depth`.
        fit: How it may be shortened.
        dialogue: The text as messages; for `Place.example`.
        estimated_tokens: The provider's estimate; 0 for none. The budget counts for itself.
        lines: The first and the last line of `rel_path` it comes from, from 1.
        sha256: Hash of `rel_path` as it was read; empty if unknown.
        score: How well it matches the message, if it was searched for; higher is better.
        cause: Why it is offered, where the source does not tell.
        shortened: Why it is only a part; empty if it is complete.
        whole_tokens: Approximate tokens of the whole, if it is a part; 0 if unknown.
        hidden: The familiar may read it, but no reply may show it.
        problem: Why there is nothing to offer although there should be.
        remark: An explanation for the trace only; nobody is warned.
    """

    layer: Layer
    priority: int
    text: str
    source: str
    place: PromptSpan
    rel_path: str | None = None
    turn_id: int | None = None
    turns: tuple[int, int] | None = None
    origin: str = ""
    author: Author | None = None
    role: Role = "system"
    depth: int = 0
    fit: Fit = Fit.cut
    dialogue: tuple[ExampleLine, ...] = ()
    estimated_tokens: int = 0
    lines: tuple[int, int] | None = None
    sha256: str = ""
    score: float | None = None
    cause: str = ""
    shortened: str = ""
    whole_tokens: int = 0
    hidden: bool = False
    problem: str = ""
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """A memory file or a turn whose absence from a prompt is to be explained."""

    rel_path: str | None = None
    turn_id: int | None = None


_OFFERED: Final = attrgetter(*(entry.name for entry in fields(Contribution)))


@dataclass(frozen=True, slots=True)
class Fragment(Contribution):
    """The result of the budget for a contribution.

    `text` is its part in the prompt, or all that was offered if it is left out.

    Args:
        tokens: Its tokens, including its share of the message around it.
        offered_tokens: Tokens of the whole.
        kept: Any of it is in the prompt.
        reason: Why it is not complete; empty if it is.
    """

    tokens: int = 0
    offered_tokens: int = 0
    kept: bool = False
    reason: str = ""

    @classmethod
    def of(cls, offered: Contribution, tokens: int, offered_tokens: int, reason: str) -> Self:
        """Return the fragment of `offered`; it is kept if it has any tokens."""
        return cls(*(*_OFFERED(offered), tokens, offered_tokens, tokens > 0, reason))

    @property
    def is_cut(self) -> bool:
        """Whether only a part of it is in the prompt."""
        return self.kept and self.tokens < self.offered_tokens


@dataclass(frozen=True, slots=True)
class LayerUse:
    """How much of its budget a layer used.

    Args:
        name: The layer.
        budget_tokens: Its limit: its share, and its part of the free room.
        used_tokens: Tokens used.
        share_tokens: Its guarantee; 0 in traces older than this key.
    """

    name: str
    budget_tokens: int
    used_tokens: int
    share_tokens: int = 0


Verdict = Literal["answered", "late", "failed"]


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of one provider or processor.

    Args:
        name: Its name.
        verdict: `answered` in time, `late`, or `failed`.
        elapsed_ms: How long it was waited for.
        reason: The error; empty on success.
        deadline_s: Its deadline; 0 for none.
    """

    name: str
    verdict: Verdict
    elapsed_ms: float
    reason: str = ""
    deadline_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Assembled:
    """An assembled prompt. The model has not been asked.

    Args:
        request: The request.
        messages: The messages.
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
