"""The values a prompt is made of: the request, the contributions, and the result for each."""

from __future__ import annotations

from enum import StrEnum
from operator import attrgetter
from typing import Final, Literal, Self

from msgspec import Struct

from familiar_cli.base.errors import UsageError
from familiar_cli.base.who.identity import Author, check_id, parse_author
from familiar_cli.base.who.visibility import Viewer  # as the next
from familiar_cli.store.history.rows import Turn  # `help()` resolves these annotations

Role = Literal["system", "user", "assistant"]

KEPT_BACK: Final = "its book holds it back now"
"""Begins the reason for which an entry of a lorebook is not offered in a turn."""

GREETING_SOURCE: Final = "history.greeting"
"""The source of the greeting that begins a conversation."""


def held_back(viewer: Viewer) -> str:
    """Return the note for a piece whose private parts were left out; only the owner gets it."""
    return "without what was said in private elsewhere" if viewer.is_owner else ""


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

    `depth` pieces are inserted between the turns of the chat, counted from the newest. Those of
    `author_note` go where the note is, and those of an `outlet` into the texts that have its macro.
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
    author_note = "author_note"
    outlet = "outlet"


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


class ExampleLine(Struct, frozen=True):
    """One message of an example dialogue."""

    role: Role
    text: str


class Spoken(Struct, frozen=True):
    """A message that is not in the history.

    Args:
        role: Its role in the prompt.
        author: The author; None for the familiar.
    """

    role: Role
    text: str
    author: Author | None = None


class Said(Struct, frozen=True):
    """A message to the familiar.

    Args:
        author: The author; None if there is none in particular.
        modality: Text or voice.
        greeting: The greeting of a channel without turns: 1 is the card's first message, its
            alternatives follow; 0 for none; None for the default, unless the channel's settings
            want none.
        source: Where the message came from, e.g. `cli`.
        kind: Kind of the conversation, of `base.config.channel_kinds.KINDS`; empty if not stated.
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
        notices: Notices for the speaker, in addition to the reply.
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
    notices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check author and channel, unless a stored turn determines them.

        Raises:
            UsageError: An id is invalid; see `base.who.identity.check_id`.
        """
        if self.reply_to is not None:
            return
        check_id(self.channel_id, "The channel id")
        if self.message_id:
            check_id(self.message_id, "The message id")
        if self.author:
            parse_author(f"{self.author.platform}:{self.author.user_id}")

    def check(self, *, is_sent: bool = True) -> None:
        """Check that the message has text.

        Args:
            is_sent: It asks for a reply; otherwise it is only saved.

        Raises:
            UsageError: It is empty, or not valid text.
        """
        undone = "sent" if is_sent else "saved"
        if not self.text.strip():
            hint = "Run `familiar chat`." if is_sent else 'Run `familiar hear "Good morning"`.'
            raise UsageError(f"The message is empty; nothing was {undone}", hint=hint)
        try:
            self.text.encode()
        except UnicodeEncodeError:
            raise UsageError(
                f"The message contains bytes that are not UTF-8 text; nothing was {undone}"
            ) from None


class Contribution(Struct, frozen=True):
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
        sha256: Hash of what the prompt's viewer sees of `rel_path`; empty if unknown.
        score: How well it matches the message, if it was searched for; higher is better.
        cause: Why it is offered, if the source does not show that.
        shortened: Why it is only a part; empty if it is complete.
        whole_tokens: Approximate tokens of the whole, if it is a part; 0 if unknown.
        order: Its rank among the pieces of one place, the lowest first.
        outlet: The outlet that it is for; for `Place.outlet`.
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
    order: int = 0
    outlet: str = ""
    hidden: bool = False
    problem: str = ""
    remark: str = ""


class Subject(Struct, frozen=True):
    """A memory file or a turn whose absence from a prompt is to be explained."""

    rel_path: str | None = None
    turn_id: int | None = None


_OFFERED: Final = attrgetter(*Contribution.__struct_fields__)


PLACED: Final = "; its book places it "
"""In the cause of a piece, before the place in words."""


class Fragment(Contribution, frozen=True):
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


class LayerUse(Struct, frozen=True):
    """How much of its budget a layer used.

    Args:
        name: The layer.
        budget_tokens: Its limit: its share, and its part of the free room.
        share_tokens: Its guarantee; 0 in traces older than this key.
    """

    name: str
    budget_tokens: int
    used_tokens: int
    share_tokens: int = 0


Verdict = Literal["answered", "late", "failed"]


class Report(Struct, frozen=True):
    """The outcome of one provider or processor.

    Args:
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
