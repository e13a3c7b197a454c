"""The values a prompt is made of: the request, the pieces offered for it, what became of each."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime  # noqa: TC003  # the trace's reader resolves these annotations
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal, Protocol, Self, runtime_checkable

from familiar_cli.config.schema import DEFAULT_TIER
from familiar_cli.identity import NO_LABELS, Author, Labels, check_id, english_phrases, parse_author

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from familiar_cli.context.replies import PartialReply
    from familiar_cli.history.rows import Turn
    from familiar_cli.languages import Phrases
    from familiar_cli.llm.types import Message, SideCall
    from familiar_cli.memory.pages.lines import KnownTexts
    from familiar_cli.visibility import Viewer

    Refill = Callable[[Sequence["Contribution"], int], Sequence["Contribution"]]

Role = Literal["system", "user", "assistant"]


class Modality(StrEnum):
    """How a turn reaches the familiar."""

    text = "text"
    voice = "voice"


class Layer(StrEnum):
    """The budget that a piece is paid from."""

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
    """Where a piece stands in the prompt, from its beginning to its end.

    `depth` pieces stand between the turns of the chat, counted from the newest.
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
    """How a piece may be shortened when there is too little room.

    `cut`: its end goes, at the end of a sentence. `queue`: as `cut`, and once one of its layer and
    priority was cut or left out, none after it gets anything. `newest`: as `queue`, but the last
    one is served first, and the others from there backwards. `whole`: all of it or nothing. `run`:
    a turn of the chat; the oldest go first, without a gap. `required`: it is never left out.
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
    """Something that was said and is not in the history.

    Args:
        role: As whose words a model is shown it.
        text: The words.
        author: Who said it; None is the familiar.
    """

    role: Role
    text: str
    author: Author | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """Something a person says to the familiar.

    Args:
        text: The words.
        author: Who says it; None when nobody in particular does.
        channel_id: The id of the channel.
        modality: Text or voice.
        greeting: Which greeting opens a channel that has no turns yet: 1 is the card's first
            message, the alternatives follow; 0: none; None: the first there is, unless the
            channel's settings want none.
        source: Through what it came, e.g. `cli`.
        kind: What the conversation is, one of `config.channel_kinds.KINDS`; empty: nobody says.
        off_record: Nothing of this turn is kept.
        remembered: What was said off the record just before, oldest first.
        tier: How much of the memory the prompt is made of; None: as the channel has it.
        message_id: What the platform calls the message. One that is kept already is not added
            again, but answered if it has no reply.
        reply_to: A kept turn that is to be answered. Then its words, author and channel count.
        instead_of: The reply to that turn, whose place the new one takes.
        beside: What the prompt of a chat program says itself, for which only memory is wanted.
        remake: `again` asks for another reply in place of the channel's last one; `continue` lets
            that one go on. Then nothing else is said.
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
        """Check who speaks and where, unless a kept turn says so.

        Raises:
            UsageError: An id is unusable; see `identity.check_id`.
        """
        if self.reply_to is not None:
            return
        check_id(self.channel_id, "The channel id")
        if self.message_id:
            check_id(self.message_id, "The message id")
        if self.author:
            parse_author(f"{self.author.platform}:{self.author.user_id}")


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """The request for a prompt.

    Args:
        familiar_id: Whose prompt it is.
        channel_id: Where it was said.
        author: Who said it; None when nobody did.
        utterance: What was said.
        modality: How it was said.
        at: When it was said, in UTC.
        budget_tokens: Most tokens of the whole prompt.
        viewer: Who will read the reply: nothing that is hidden from them is in the prompt.
        budget_reason: What `budget_tokens` follows from, in words.
        layer_tokens: Most tokens of each layer; a layer that is missing has no limit of its own.
        before_id: Only turns older than this one are history; None: all there are.
        opening: The greeting of a channel that has no turns yet, ready to be shown; or empty.
        seed: What `{{random:…}}` and `{{roll:…}}` are drawn from; the same seed, the same prompt.
        guild_id: The server the channel belongs to; only for a person who reads the trace.
        pending_turns: What people said since the familiar last spoke, oldest first; the utterance
            is not among them. They stand in the history already.
        tier: How much of the memory it is made of; see `context.tiers`.
        off_record: Nothing of this turn is kept.
        labels: What people are called in the prompt.
        phrases: The titles and labels of the prompt, in the familiar's language.
        reply_to: The turn of the history that is answered; None: what was said is not there yet.
        begun: The reply so far, which is to go on; None: there is none.
        beside: What stands in the prompt already, by the hand of a chat program.
        side_calls: Here is written down whichever other models are asked on the way.
        most_content: Most tokens of memory and recall, free room included; 0: no limit.
        refills: Here a provider leaves what packs its contributions anew when room is left.
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
    """One piece that a provider offers.

    Args:
        layer: Whose budget pays for it.
        priority: The higher is served first.
        text: What is offered; of a `problem`, nothing.
        source: Who offers it, e.g. `character.description`.
        place: Where it goes.
        rel_path: The memory file it comes from.
        turn_id: The turn of the history it comes from.
        turns: The first and the last turn, when it comes from several.
        origin: The conversation that they are from, e.g. `#general, 2026-01-31`.
        author: Who said it; for a person's turn of the chat.
        role: As whose words a model is shown it, where it becomes a message of its own.
        depth: How many turns of the chat stand below it; for `Place.depth`.
        fit: What may be done when there is too little room.
        dialogue: The text as messages; for `Place.example`.
        estimated_tokens: The provider's own guess; 0: none. The budget counts for itself.
        lines: The first and the last line of `rel_path` that it comes from, counted from 1.
        sha256: Of `rel_path` as it was read; empty when it is not known.
        score: How well it fits what was said, where something was searched for; higher is better.
        cause: Why it is offered, where the source does not say it all.
        shortened: Why it is only a part of what there is; empty: it is all.
        whole_tokens: About what all of it would cost, when it is a part; 0: not known.
        hidden: The familiar may read it, and no person may be shown it in a reply.
        problem: Why there is nothing to offer although there should be.
        remark: It is for the record alone, and this is why; nobody is warned.
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
    """A contribution after the budget had its say.

    `text` is what is in the prompt of it, or what was offered when nothing of it is.

    Args:
        tokens: What that costs, its share of the message around it included.
        offered_tokens: What the whole would have cost.
        kept: Any of it is in the prompt.
        reason: Why not all of it is; empty when all is.
    """

    tokens: int = 0
    offered_tokens: int = 0
    kept: bool = False
    reason: str = ""

    @classmethod
    def of(cls, offered: Contribution, tokens: int, offered_tokens: int, reason: str) -> Self:
        """Return the fragment of `offered`; it is kept when it has any tokens."""
        return cls(*(*_OFFERED(offered), tokens, offered_tokens, tokens > 0, reason))

    @property
    def is_cut(self) -> bool:
        """A part of it is in the prompt, and that is not all there is."""
        return self.kept and self.tokens < self.offered_tokens


@dataclass(frozen=True, slots=True)
class LayerUse:
    """How much of its budget a layer used.

    Args:
        name: The layer's.
        budget_tokens: What it could have: its share, and what was left to it of the prompt.
        used_tokens: What it had.
        share_tokens: What it is guaranteed; 0 in records older than this key.
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
        reason: What went wrong; empty when nothing did.
        deadline_s: How long it might have taken; 0: no limit.
    """

    name: str
    verdict: Verdict
    elapsed_ms: float
    reason: str = ""
    deadline_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Assembled:
    """A prompt, and how it came to be. No model was asked for it.

    Args:
        request: What it was wanted for.
        messages: What would be sent.
        fragments: Everything that was offered, in the providers' order, and what became of it.
        layers: The budget of each layer and its use.
        providers: What each provider did, in their order.
        processors: What each pre-processor did, in their order.
        used_tokens: What the messages cost together.
        elapsed_ms: How long it took.
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
    """Offers pieces of a prompt.

    It runs beside the others, in a thread and an event loop of its own: whatever it does, the
    prompt is made at its deadline. When it is late it is cancelled, and may still be running
    afterwards. So it reads, and never writes.
    """

    @property
    def name(self) -> str:
        """The name in a trace."""

    @property
    def deadline_s(self) -> float | None:
        """How long it may take before the prompt is made without it; None: it never is."""

    async def contribute(self, request: ContextRequest) -> Sequence[Contribution]:
        """Return its contributions; equals keep this order."""


@runtime_checkable
class Explains(Protocol):
    """A provider that can say why something is not in a prompt."""

    @property
    def name(self) -> str:
        """The name in a trace."""

    @property
    def looks_at(self) -> str:
        """The files or turns it reads at all, in words."""

    def why_not(self, subject: Subject, request: ContextRequest) -> str | None:
        """Explain why it would offer nothing of `subject` for `request`, as things are now.

        Returns:
            A reason, as the end of a sentence; empty when nothing speaks against it; None when it
            never looks at such a thing.
        """


class PreProcessor(Protocol):
    """Changes what was offered, before the budget is filled."""

    @property
    def name(self) -> str:
        """The name in a trace."""

    @property
    def deadline_s(self) -> float:
        """How long it may take before the prompt is made without it."""

    async def process(
        self, request: ContextRequest, contributions: Sequence[Contribution]
    ) -> Sequence[Contribution]:
        """Return the contributions that take the place of those given."""


class PostProcessor(Protocol):
    """Changes a reply, before it is shown and kept."""

    @property
    def name(self) -> str:
        """The name in a trace."""

    @property
    def deadline_s(self) -> float:
        """How long it may take before the reply stays as it is."""

    async def process(self, request: ContextRequest, reply: str) -> str:
        """Return the text that takes the reply's place."""
