"""What a channel can be: its mode, its kind, and what it is called."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Final

from msgspec import Struct

from familiar_cli.base.errors import UsageError
from familiar_cli.base.text import one_line


class ChannelMode(StrEnum):
    """The style of a channel's conversation."""

    full_rp = "full_rp"
    text_conversation_rp = "text_conversation_rp"
    imitate_voice = "imitate_voice"


class ModeDefaults(Struct, frozen=True):
    """What holds in a channel of a mode unless somebody says otherwise.

    Args:
        about: The mode in words.
        total_tokens: Most tokens of a prompt.
        most_tokens: The same where the model is known to read at least twice as many.
        recent_turns: Most recent turns in it.
        stepped_thinking: Whether the model thinks before it replies, where that is set up.
        recast: Whether a reply is tidied up, where that is set up.
    """

    about: str
    total_tokens: int
    most_tokens: int
    recent_turns: int
    stepped_thinking: bool
    recast: bool


# A voice must answer at once: a short prompt, and no second call to a model.
MODES: Final = {
    ChannelMode.full_rp: ModeDefaults("full roleplay", 8000, 24_000, 60, True, True),  # noqa: FBT003
    ChannelMode.text_conversation_rp: ModeDefaults("a text chat", 6000, 16_000, 40, True, True),  # noqa: FBT003
    ChannelMode.imitate_voice: ModeDefaults("spoken words", 2000, 2000, 20, False, False),  # noqa: FBT003
}
OF_MODALITY: Final = {"text": ChannelMode.text_conversation_rp, "voice": ChannelMode.imitate_voice}
"""The mode of a channel that has none of its own."""


KINDS: Final = (
    "text",
    "thread",
    "forum",
    "forum_root",
    "voice",
    "stage",
    "category",
    "dm",
    "group_dm",
    "private",
)
PRIVATE_KINDS: Final = frozenset({"dm", "group_dm", "private"})
"""What is said in such a channel is shown nowhere else."""

SHARED_KINDS: Final = frozenset({"group_dm", "private"})
"""Kinds of private channels of several people: what is said is private to the channel."""

_LABELS: Final = {
    "text": "#{name}",
    "thread": "#{parent} -> {name}",
    "forum": "forum:{parent} -> {name}",
    "forum_root": "forum-root:#{name}",
    "voice": "voice:#{name}",
    "stage": "stage:#{name}",
    "category": "category:#{name}",
    "dm": "DM:{name}",
    "group_dm": "GroupDM:{name}",
    "private": "private:{name}",
}
_ORPHANS: Final = {"thread": "#{name}", "forum": "forum:{name}"}  # nobody said what they belong to
_NAME_CHARS: Final = 60


def check_kind(kind: str) -> str:
    """Return `kind` if it is a known kind of conversation.

    Raises:
        UsageError: It cannot.
    """
    if kind not in KINDS:
        raise UsageError(
            f"{kind!r:.80} is not a kind of conversation", hint=f"Known: {', '.join(KINDS)}."
        )
    return kind


class ChannelContext(Struct, frozen=True):
    """What a channel is called.

    Args:
        name: Its name, without a mark before it.
        kind: One of `KINDS`.
        parent_name: The channel that a thread, or the forum that a post belongs to; or empty.
    """

    name: str
    kind: str = "text"
    parent_name: str = ""

    @property
    def label(self) -> str:
        """The channel in one line, e.g. `#general -> plans` or `DM:alice`."""
        return _label_of(self)


@lru_cache(maxsize=128)  # a prompt names the channels of all that it recalls
def _label_of(channel: ChannelContext) -> str:
    pattern = _LABELS[channel.kind]
    if not channel.parent_name:
        pattern = _ORPHANS.get(channel.kind, pattern)
    return pattern.format(
        name=one_line(channel.name, _NAME_CHARS).lstrip("#"),
        parent=one_line(channel.parent_name, _NAME_CHARS).lstrip("#"),
    )
