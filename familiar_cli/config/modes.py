"""The modes of a channel: how one talks there, and what that means for a prompt."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ChannelMode(StrEnum):
    """How one talks in a channel."""

    full_rp = "full_rp"
    text_conversation_rp = "text_conversation_rp"
    imitate_voice = "imitate_voice"


@dataclass(frozen=True, slots=True)
class ModeDefaults:
    """What holds in a channel of a mode unless somebody says otherwise.

    Args:
        about: The mode in words.
        total_tokens: Most tokens of a prompt.
        recent_turns: Most recent turns in it.
        stepped_thinking: Whether the model thinks before it replies, where that is set up.
        recast: Whether a reply is tidied up, where that is set up.
    """

    about: str
    total_tokens: int
    recent_turns: int
    stepped_thinking: bool
    recast: bool


# A voice must answer at once: a short prompt, and no second call to a model.
MODES: Final = {
    ChannelMode.full_rp: ModeDefaults("full roleplay", 8000, 60, True, True),  # noqa: FBT003
    ChannelMode.text_conversation_rp: ModeDefaults("a text chat", 6000, 40, True, True),  # noqa: FBT003
    ChannelMode.imitate_voice: ModeDefaults("spoken words", 2000, 20, False, False),  # noqa: FBT003
}
OF_MODALITY: Final = {
    "text": ChannelMode.text_conversation_rp,
    "voice": ChannelMode.imitate_voice,
}
"""The mode of a channel that has none of its own."""
