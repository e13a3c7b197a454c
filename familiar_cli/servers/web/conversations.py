"""The conversations of a familiar, each with its title and the people who can hear it."""

from __future__ import annotations

import re
from datetime import datetime
from itertools import islice
from typing import Final

from msgspec import Struct

from familiar_cli.actions.talk.channels import audiences_of
from familiar_cli.base.text import one_line
from familiar_cli.base.who.visibility import Viewer
from familiar_cli.familiar import Familiar
from familiar_cli.pages.stream import spoken_text
from familiar_cli.store.history.rows import pack

MAIN: Final = "cli"
"""The conversation shared with the commands, so that it continues everywhere."""

_MOST: Final = 20
_TITLE_CHARS: Final = 60
_READ_CHARS: Final = 400  # of the first message, for a title
_MADE_BY_PROGRAM: Final = re.compile(r"[0-9a-f]{8}|\d{5}", re.IGNORECASE)
_FIRST_SAID: Final = (
    "SELECT content FROM turns WHERE channel_id = ? AND role = 'user' ORDER BY id LIMIT 1"
)


class ListedConversation(Struct, frozen=True):
    """A conversation in the list of all.

    Args:
        id: Its channel.
        title: What a person calls it.
        audience: Who can hear it.
        last_at: Time of its last turn; None before the first.
    """

    id: str
    title: str
    audience: str
    last_at: datetime | None = None


def list_conversations(
    familiar: Familiar, viewer: Viewer, current: str
) -> list[ListedConversation]:
    """Return the most recent conversations that a viewer may know of, and the current one."""
    summaries = (one for one in familiar.history.channels() if viewer.sees_channel(one.channel_id))
    last_at = {one.channel_id: one.last_at for one in islice(summaries, _MOST)}
    channels = dict.fromkeys([*last_at, *([] if current in last_at else [current])])
    audiences = audiences_of(familiar, channels)
    return [
        ListedConversation(one, title_of_channel(familiar, one), audiences[one], last_at.get(one))
        for one in channels
    ]


def title_of_channel(familiar: Familiar, channel_id: str) -> str:
    """Return the title of a conversation: its name, or its first words if it has none."""
    if channel_id == MAIN:
        return "Main conversation"
    label = familiar.channels.label(channel_id)
    if channel_id in label and _MADE_BY_PROGRAM.search(channel_id):
        for (content,) in familiar.history.rows(_FIRST_SAID, (pack(channel_id),)):
            return one_line(spoken_text(content[:_READ_CHARS]), _TITLE_CHARS) or label
    return label if familiar.channels.declared_kind(channel_id) else label.lstrip("#")
