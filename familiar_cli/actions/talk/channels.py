"""The channels of a familiar: their turns and settings, and messages that are only heard there."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003  # public functions can be asked for their types
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from familiar_cli.base.config.home import check_here
from familiar_cli.base.errors import ConfigError, UsageError
from familiar_cli.base.times.clock import iso, now, to_ms
from familiar_cli.context.types import Said  # noqa: TC001  # public functions can be asked for their types
from familiar_cli.familiar import Familiar  # noqa: TC001  # public functions can be asked for their types
from familiar_cli.store.history.rows import HEARD, new_turn
from familiar_cli.store.history.store import KeptMessage, keep_once, withdrawn_channels

if TYPE_CHECKING:
    from collections.abc import Collection

    from familiar_cli.base.config.channel import Channel
    from familiar_cli.store.history.events import Branch
    from familiar_cli.store.history.rows import ChannelSummary


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
        settings = [asdict(held) for held in self.channel.held]
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
    return [
        _list_channel(familiar, i, with_turns.get(i), branches.get(i), out=out, private=private)
        for i in ids
    ]


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
    found = next((c for c in familiar.history.channels() if c.channel_id == channel_id), None)
    branches = {branch.channel_id: branch for branch in familiar.history.branches()}
    allowed = allowance_in(familiar, channel)
    return ShownChannel(
        channel,
        _list_channel(
            familiar,
            channel_id,
            found,
            branches.get(channel_id),
            out=withdrawn_channels(familiar.history),
            private=familiar.channels.private(),
        ),
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
    familiar.privacy.enter(said.channel_id, said.author, said.kind)
    turn = new_turn(
        said.channel_id,
        "user",
        said.text,
        to_ms(at or now()),
        author=said.author,
        modality=str(said.modality),
        source=HEARD,
    )
    return keep_once(familiar.history, turn, said.message_id)
