"""How many tokens a prompt and each of its layers may have, when nobody says otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.config.channel_kinds import MODES
from familiar_cli.context.types import Layer
from familiar_cli.errors import ConfigError

if TYPE_CHECKING:
    from familiar_cli.config.channel_kinds import ChannelMode
    from familiar_cli.config.schema import BudgetSettings

LOCAL_TOKENS: Final = 1500
"""Most tokens for the model inside the program: two cores read about 200 of them in a second."""

PERCENT: Final = {
    Layer.core: 10,
    Layer.character: 40,
    Layer.content: 15,
    Layer.history_summary: 10,
    Layer.recent_history: 45,
    Layer.author_note: 5,
    Layer.depth_inject: 5,
    Layer.digest: 30,
    Layer.desk: 5,
    Layer.pinned: 10,
}
"""Most of a prompt that each layer may take. Together they are more than the whole, so that what
one leaves is there for another; with all others full, a tenth is left for the newest turns."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many tokens there are.

    Args:
        total: For the whole prompt.
        layers: For each layer.
        notice: Why `total` is not what the settings say; empty when it is.
    """

    total: int
    layers: dict[Layer, int]
    notice: str = ""


def allowance(
    settings: BudgetSettings,
    *,
    mode: ChannelMode,
    preset: str,
    context_tokens: int,
    max_tokens: int,
) -> Allowance:
    """Return how many tokens a prompt may have: what was set, else the mode's default.

    The reply's `max_tokens` stay free in what the model can read and write together.

    Raises:
        ConfigError: The reply alone would fill the model.
    """
    room = context_tokens - max_tokens
    if room <= 0:
        raise ConfigError(
            f"A reply of {max_tokens} tokens leaves no room for a prompt in a model of "
            f"{context_tokens}",
            hint="Lower it: `familiar config set llm.max_tokens 512`.",
        )
    usual = MODES[mode].total_tokens
    usual = min(usual, LOCAL_TOKENS) if preset == "local" else usual
    total = min(settings.total or usual, room)
    return Allowance(total, _layers(settings, total), _notice(settings, room))


def _layers(settings: BudgetSettings, total: int) -> dict[Layer, int]:
    """Return each layer's limit; none is above the total, whatever the settings say."""
    usual = {layer: total * percent // 100 for layer, percent in PERCENT.items()}
    return {layer: min(getattr(settings, layer) or usual[layer], total) for layer in Layer}


def _notice(settings: BudgetSettings, room: int) -> str:
    if settings.total <= room:
        return ""
    return (
        f"budget.total is {settings.total}, but the model has room for only {room} tokens; "
        f"the prompt is limited to {room}"
    )
