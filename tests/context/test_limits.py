"""How many tokens there are, when nobody says otherwise and when somebody does."""

from __future__ import annotations

import pytest

from familiar_cli.config.channel_kinds import ChannelMode
from familiar_cli.config.schema import BudgetSettings
from familiar_cli.context.limits import PERCENT, allowance
from familiar_cli.context.types import Layer
from familiar_cli.errors import ConfigError


def tokens(mode=ChannelMode.text_conversation_rp, preset="custom", room=(32_000, 1000), **budget):
    context, reply = room
    return allowance(
        BudgetSettings(**budget),
        mode=mode,
        preset=preset,
        context_tokens=context,
        max_tokens=reply,
    )


@pytest.mark.parametrize(
    ("mode", "preset", "total"),
    [
        ("text_conversation_rp", "openai", 6000),
        ("full_rp", "openai", 8000),
        ("imitate_voice", "openai", 2000),
        ("text_conversation_rp", "local", 1500),
        ("full_rp", "local", 1500),
        ("imitate_voice", "local", 1500),
    ],
)
def test_a_mode_has_its_default(mode, preset, total) -> None:
    assert tokens(ChannelMode(mode), preset).total == total


def test_what_is_set_wins() -> None:
    given = tokens(total=900, content=50)

    assert (given.total, given.layers[Layer.content]) == (900, 50)


def test_the_reply_stays_free_in_the_model() -> None:
    assert tokens(room=(4096, 512)).total == 3584


def test_a_total_the_model_cannot_read_is_told() -> None:
    given = tokens(room=(4096, 512), total=9000)

    assert given.total == 3584
    assert "9000" in given.notice
    assert "3584" in given.notice


def test_a_reply_that_fills_the_model_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="no room"):
        tokens(room=(512, 512))


def test_each_layer_has_its_share_and_none_is_above_the_total() -> None:
    given = tokens(total=1000, character=5000)

    assert set(given.layers) == set(Layer) == set(PERCENT)
    assert max(given.layers.values()) == 1000


def test_with_all_other_layers_full_a_tenth_is_left_for_the_newest_turns() -> None:
    # Digests stand below the turns and leave them the room they may still take.
    later = {Layer.recent_history, Layer.digest}
    others = [share for layer, share in PERCENT.items() if layer not in later]

    assert sum(others) <= 100
    # Nor does the summary come before the turns, or anything of the desk but reminders.
    assert sum(others) - PERCENT[Layer.history_summary] <= 90
