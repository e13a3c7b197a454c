"""How many tokens there are, when nobody says otherwise and when somebody does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.config.channel_kinds import ChannelMode
from familiar_cli.base.config.schema import BudgetSettings
from familiar_cli.base.errors import ConfigError
from familiar_cli.context.budget import PERCENT, SOURCES, Window, prompt_allowance
from familiar_cli.context.types import Layer
from tests.support.cases import each


def tokens(
    mode=ChannelMode.text_conversation_rp,
    preset="custom",
    room=(32_000, 1000),
    known="preset",
    character=0,
    **budget,
):
    window = Window(*room, known, preset == "local")
    return prompt_allowance(
        BudgetSettings(**budget), mode=mode, window=window, character_tokens=character
    )


@each(
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


@each(
    ("mode", "window", "total"),
    [
        ("text_conversation_rp", 8192, 6000),
        ("text_conversation_rp", 20_000, 10_000),
        ("text_conversation_rp", 1_000_000, 16_000),
        ("full_rp", 40_000, 20_000),
        ("full_rp", 1_000_000, 24_000),
        ("imitate_voice", 1_000_000, 2000),
        ("text_conversation_rp", 4096, 3096),
    ],
)
@each("known", ["setting", "server", "model"])
def test_where_the_window_is_known_the_total_follows_it(mode, window, total, known) -> None:
    assert tokens(ChannelMode(mode), room=(window, 1000), known=known).total == total


def test_a_local_model_with_a_larger_window_gets_half_of_it() -> None:
    assert tokens(preset="local", room=(4096, 512), known="model").total == 2048
    assert tokens(preset="local", room=(1536, 256), known="model").total == 1280


@given(st.integers(600, 200_000), st.integers(0, 20_000), st.sampled_from(sorted(SOURCES)))
def test_a_total_that_is_set_is_never_overridden(window, character, known) -> None:
    found = tokens(room=(window, 500), known=known, character=character, total=700)
    assert found.total == min(700, window - 500)
    assert found.layers[Layer.character] == found.total * PERCENT[Layer.character] // 100
    assert found.widened_tokens == 0


@given(st.integers(600, 200_000), st.integers(0, 20_000), st.sampled_from(list(ChannelMode)))
def test_a_large_character_takes_nothing_from_the_other_layers(window, character, mode) -> None:
    usual = tokens(mode, room=(window, 500), known="server")
    found = tokens(mode, room=(window, 500), known="server", character=character)

    assert found.total <= window - 500
    assert found.total - usual.total == found.widened_tokens
    assert found.layers == usual.layers | {
        Layer.character: usual.layers[Layer.character] + found.widened_tokens
    }
    lacking = character - usual.layers[Layer.character]
    assert found.widened_tokens == max(0, min(lacking, window - 500 - usual.total))


def test_a_share_of_the_character_that_is_set_widens_nothing() -> None:
    window = Window(32_000, 1000)
    settings = BudgetSettings(character=1000)
    mode = ChannelMode.full_rp
    found = prompt_allowance(settings, mode=mode, window=window, character_tokens=5000)
    assert (found.total, found.layers[Layer.character]) == (8000, 1000)


def test_the_reason_says_where_the_total_comes_from() -> None:
    assert tokens().reason == "the default of mode text_conversation_rp"
    assert tokens(total=900).reason == "set by budget.total"
    assert tokens(known="server").reason == (
        "half of the model's context window (32,000 tokens, as its server says)"
    )
    assert tokens(room=(4096, 512)).reason == (
        "the model's context window without the reply (4,096 tokens, assumed by the preset)"
    )
    assert tokens(character=3000).reason == (
        "the default of mode text_conversation_rp; 600 more for a character larger than its share"
    )


def test_what_is_set_wins() -> None:
    found = tokens(total=900, content=50)

    assert (found.total, found.layers[Layer.content]) == (900, 50)


def test_memory_is_guaranteed_more_of_a_larger_prompt() -> None:
    shares = [tokens(total=total).layers[Layer.content] / total for total in (1500, 6400, 8000)]
    assert shares == pytest.approx([0.15, 0.2, 0.25])


def test_memory_takes_free_room_unless_a_number_is_set() -> None:
    assert tokens().most_content == 6000
    assert tokens(content=900).most_content == 900


def test_the_reply_stays_free_in_the_model() -> None:
    assert tokens(room=(4096, 512)).total == 3584


def test_a_total_the_model_cannot_read_is_told() -> None:
    found = tokens(room=(4096, 512), total=9000)

    assert found.total == 3584
    assert "9000" in found.notice
    assert "3584" in found.notice


def test_a_reply_that_fills_the_model_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="no room"):
        tokens(room=(512, 512))


def test_each_layer_has_its_share_and_none_is_above_the_total() -> None:
    window = Window(32_000, 1000)
    settings = BudgetSettings(total=1000, character=5000)
    found = prompt_allowance(settings, mode=ChannelMode.full_rp, window=window)

    assert set(found.layers) == set(Layer) == set(PERCENT)
    assert max(found.layers.values()) == 1000


def test_with_all_other_layers_full_a_tenth_is_left_for_the_newest_turns() -> None:
    # Digests stand below the turns and leave them the room they may still take.
    later = {Layer.recent_history, Layer.digest}
    others = [share for layer, share in PERCENT.items() if layer not in later]

    assert sum(others) <= 100
    # Nor does the summary come before the turns, or anything of the desk but reminders.
    assert sum(others) - PERCENT[Layer.history_summary] <= 90
