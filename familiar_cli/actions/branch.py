"""Let a conversation go on from one of its turns in a new channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.history.branches import Branch


@dataclass(frozen=True, slots=True)
class Branched:
    """A branch, and whether what is said there stays there."""

    branch: Branch
    private: bool

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "channel": self.branch.channel_id,
            "parent": self.branch.parent,
            "parent_turn": self.branch.turn_id,
            "private": self.private,
            "changed": self.branch.is_new,
        }


def branch_channel(
    familiar: Familiar, channel_id: str, turn_id: int, parent: str | None = None
) -> Branched:
    """Begin a channel whose past is that of another one up to a turn, with its settings.

    Args:
        familiar: Whose.
        channel_id: The new channel.
        turn_id: The last turn that it shares.
        parent: The channel that it leaves; None: that of the turn.

    Raises:
        NotFoundError: There is no such turn, or it is not in the past of `parent`.
        ConflictError: The new channel has turns already, or is another branch.
        RefusedError: The turn was replaced or withdrawn.
        ConfigError: The parent's settings cannot be read or written; there is no branch.
    """
    familiar.channels.path(channel_id)  # it has a name
    turn = familiar.history.turn(turn_id)
    if turn is not None:
        familiar.channels.read(parent or turn.channel_id)
    branch = familiar.history.branch(channel_id, turn_id, parent)
    familiar.channels.copy(branch.parent, channel_id)
    return Branched(branch, channel_id in familiar.channels.private())
