"""Keep a message that wants no reply, whatever else is going on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.clock import now, to_ms
from familiar_cli.context.turn import check_said
from familiar_cli.history.messages import Heard, keep_once
from familiar_cli.history.types import HEARD, Turn

if TYPE_CHECKING:
    from datetime import datetime

    from familiar_cli.context.types import Said
    from familiar_cli.familiar import Familiar


def hear(familiar: Familiar, said: Said, at: datetime | None = None) -> Heard:
    """Keep what is said, and return its turn; the familiar sees it when it is next asked.

    It never waits for a reply that is being made. A message whose id is there already is not added
    again: its turn is returned as it was kept.

    Args:
        familiar: Who hears it.
        said: What is said, by whom and where; its `message_id` is what it is known by.
        at: When it was said; None: now. Where turns are shown, it stands at that time.

    Raises:
        UsageError: There are no words, or no such kind of conversation.
        RefusedError: The channel is private, and the speaker has never spoken there.
        LockedError: Another process kept writing to the history for too long.
        FamiliarError: The history cannot be written to.
    """
    check_said(said)
    familiar.privacy.enter(said.channel_id, said.author, said.kind)
    turn = Turn(
        id=0,
        channel_id=said.channel_id,
        author=said.author,
        role="user",
        content=said.text,
        at=to_ms(at or now()),
        modality=str(said.modality),
        source=HEARD,
        partial=False,
    )
    return keep_once(familiar.history, turn, said.message_id)
