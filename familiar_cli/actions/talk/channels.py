"""The channels of a familiar: their turns and settings, and messages that are only heard there."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from familiar_cli.base.config.channel_kinds import PRIVATE_KINDS
from familiar_cli.base.config.home import check_here, who_speaks
from familiar_cli.base.errors import ConfigError, UsageError
from familiar_cli.base.times.clock import iso, now, to_ms
from familiar_cli.base.who.identity import CHARACTERS, Author
from familiar_cli.base.who.visibility import EVERYBODY, OWNER, OWNERS, PUBLIC, audience_words
from familiar_cli.context.types import Said
from familiar_cli.familiar import Familiar
from familiar_cli.store.history.events import Branch
from familiar_cli.store.history.marks import withdrawn_channels
from familiar_cli.store.history.rows import HEARD, ChannelSummary, new_turn
from familiar_cli.store.history.selection import only_speaker
from familiar_cli.store.history.store import KeptMessage, keep_once
from familiar_cli.store.memory.layout import people_path

if TYPE_CHECKING:
    from familiar_cli.base.config.channel import Channel

_MOST_PEOPLE: Final = 12  # of a channel, that are looked at for its audience


class ListedChannel(Struct, frozen=True):
    """A channel in the list of channels.

    Args:
        label: Its label, e.g. `#general`.
        mode: Its mode for text.
        private: Its turns are private.
        turns: Number of turns.
        last_at: Time of the last turn, if any.
        subscribed: Modalities it is subscribed with: `text`, `voice`, both or neither.
        problem: Why its file cannot be used; it then counts as private.
        withdrawn: It is left out of prompts, memory and search.
        parent: The channel from which it branched, if any.
        parent_turn: The last shared turn, if any.
        heard_by: Who can hear what is said there, in the owner's words.
    """

    id: str
    label: str
    kind: str
    mode: str
    private: bool
    turns: int
    last_at: str | None
    subscribed: tuple[str, ...]
    problem: str = ""
    withdrawn: bool = False
    parent: str | None = None
    parent_turn: int | None = None
    heard_by: str = ""


class ShownChannel(Struct, frozen=True):
    """A channel with its effective settings and its token budget."""

    channel: Channel
    listed: ListedChannel
    path: str
    total_tokens: int
    layers: dict[str, int]
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        settings = [asdict(value) for value in self.channel.held]
        budget = {"total": self.total_tokens, "layers": self.layers, "reason": self.reason}
        return {**asdict(self.listed), "path": self.path, "budget": budget, "settings": settings}


def channels_of(familiar: Familiar) -> list[ListedChannel]:
    """List the channels that have turns, settings or a subscription, most recent first.

    Raises:
        ConfigError: The familiar's settings or subscriptions cannot be read.
    """
    with_turns = {summary.channel_id: summary for summary in familiar.history.channels()}
    branches = {branch.channel_id: branch for branch in familiar.history.branches()}
    subscribed = (s.channel_id for s in familiar.subscriptions.all())
    others = {*familiar.channels.known(), *subscribed, *branches}
    ids = [*with_turns, *sorted(others - with_turns.keys())]
    out, private = withdrawn_channels(familiar.history), familiar.channels.private()
    found = [
        _list_channel(familiar, i, with_turns.get(i), branches.get(i), out=out, private=private)
        for i in ids
    ]
    heard = audiences_of(familiar, (one.id for one in found if not one.problem))
    return [replace(one, heard_by=heard.get(one.id, "")) for one in found]


def shown_channel(familiar: Familiar, channel_id: str, modality: str = "text") -> ShownChannel:
    """Return the settings of a channel for messages of `modality`.

    Raises:
        UsageError: No such modality.
        ConfigError: The channel's file is invalid.
    """
    from familiar_cli.actions.talk.turn_setup import allowance_in, channel_in

    if modality not in {"text", "voice"}:
        raise UsageError(f"No such modality: {modality!r}", hint="Use text or voice.")
    channel = channel_in(familiar, channel_id, modality)
    summary = next((c for c in familiar.history.channels() if c.channel_id == channel_id), None)
    branches = {branch.channel_id: branch for branch in familiar.history.branches()}
    allowed = allowance_in(familiar, channel)
    listed = _list_channel(
        familiar,
        channel_id,
        summary,
        branches.get(channel_id),
        out=withdrawn_channels(familiar.history),
        private=familiar.channels.private(),
    )
    return ShownChannel(
        channel,
        replace(listed, heard_by=audiences_of(familiar, [channel_id])[channel_id]),
        str(familiar.channels.path(channel_id)),
        allowed.total,
        {str(layer): tokens for layer, tokens in allowed.layers.items()},
        allowed.reason,
    )


def _list_channel(
    familiar: Familiar,
    channel_id: str,
    summary: ChannelSummary | None,
    branch: Branch | None,
    *,
    out: Collection[str],
    private: Collection[str],
) -> ListedChannel:
    kind = mode = problem = ""
    try:
        channel = familiar.channel(channel_id)
        kind, mode = channel.context.kind, str(channel.mode)
    except ConfigError as error:
        problem = str(error)
    return ListedChannel(
        id=channel_id,
        label=familiar.channels.label(channel_id),
        kind=kind,
        mode=mode,
        private=channel_id in private or bool(problem),
        turns=summary.turns if summary else 0,
        last_at=iso(summary.last_at) if summary else None,
        subscribed=familiar.subscriptions.listens_to(channel_id),
        problem=problem,
        withdrawn=channel_id in out,
        parent=branch.parent if branch else None,
        parent_turn=branch.turn_id or None if branch else None,
    )


def hear(familiar: Familiar, said: Said, at: datetime | None = None) -> KeptMessage:
    """Store a message without a reply, and return its turn.

    Never waits for a reply in progress. A message with a known id is not added again: its stored
    turn is returned.

    Args:
        said: The message with its author and channel; `message_id` identifies it.
        at: Time of the message, which determines its display order; defaults to the current time.

    Raises:
        UsageError: There are no words, or no such kind of conversation.
        RefusedError: The familiar was moved away, or the channel is private, and the speaker has
            never spoken there.
        LockedError: Another process kept writing to the history for too long.
        FamiliarError: The history cannot be written to.
    """
    said.check(is_sent=False)
    check_here(familiar.paths)
    notices = familiar.privacy.enter(said.channel_id, said.author, said.kind)
    turn = new_turn(
        said.channel_id,
        "user",
        said.text,
        to_ms(at or now()),
        author=said.author,
        modality=str(said.modality),
        source=HEARD,
    )
    message = keep_once(familiar.history, turn, said.message_id)
    return replace(message, notices=notices if message.is_new else ())


def audiences_of(familiar: Familiar, channels: Iterable[str]) -> dict[str, str]:
    """Describe to the owner who can hear each channel."""
    rules, history = familiar.privacy.rules(), familiar.history
    own = rules.own | familiar.me().slugs
    others: dict[str, list[Author] | None] = {}
    for channel_id in channels:
        has_begun, only = only_speaker(history, channel_id)
        first = only if has_begun else who_speaks(None, None, familiar.me(channel_id))
        scope = rules.scope_said(channel_id, first)
        if scope in (PUBLIC, OWNERS):
            others[channel_id] = [] if scope else None
            continue
        authors = history.recent_distinct_authors(channel_id, _MOST_PEOPLE, viewer=OWNER)
        people = (one for one in authors if one.platform != CHARACTERS)
        others[channel_id] = [author for author in people if author.slug not in own]
    names = names_of_speakers(familiar, chain.from_iterable(filter(None, others.values())))
    return {
        one: EVERYBODY if some is None else audience_words([names[author] for author in some])
        for one, some in others.items()
    }


def audience_for(familiar: Familiar, said: Said) -> str:
    """Describe to a speaker who will hear them; only the owner is told names."""
    privacy, channel_id = familiar.privacy, said.channel_id
    rules, kind = privacy.rules(), privacy.new_kind(channel_id, said.author, said.kind)
    kind = kind or familiar.channels.declared_kind(channel_id)
    has_begun, only = only_speaker(familiar.history, channel_id)
    others = {who.slug for who in (only, said.author) if who} - rules.own
    is_group = (has_begun and not only) or len(others) > 1
    is_public = rules.scope_said(channel_id, None if is_group else said.author or only) == PUBLIC
    if is_public if not kind else kind not in PRIVATE_KINDS:
        return EVERYBODY
    if said.author is None or said.author.slug in rules.own:
        return audiences_of(familiar, [channel_id])[channel_id]
    return "only this conversation"


def names_of_speakers(familiar: Familiar, authors: Iterable[Author | None]) -> dict[Author, str]:
    """Return the name of each author, from their page if the account has none."""
    found = [author for author in authors if author]
    labels = familiar.labels(found)

    @cache
    def page_name(slug: str) -> str:
        from familiar_cli.store.memory.aliases import names_of

        return next(iter(names_of(familiar.memory.readable(people_path(slug)))), "")

    def has_name(author: Author) -> bool:
        return bool(author.display_name or author.username) or familiar.me().is_me(author)

    return {
        one: labels.of(one) if has_name(one) else page_name(one.slug) or labels.of(one)
        for one in found
    }
