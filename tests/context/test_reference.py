"""The reference page says what the program does."""

from __future__ import annotations

import re
from pathlib import Path

from familiar_cli.context.limits import LOCAL_TOKENS, MODE_TOKENS, PERCENT
from familiar_cli.context.pipeline import UTTERANCE_PRIORITY
from familiar_cli.context.providers import character, history
from familiar_cli.context.truncate import USEFUL_TOKENS
from familiar_cli.context.types import Place

PAGE = (
    Path(__file__).parents[2].joinpath("docs/reference/placement-and-budgets.md").read_text("utf-8")
)


def column(first: str) -> list[str]:
    return re.findall(first, PAGE, re.MULTILINE)


def test_the_places_stand_in_their_order() -> None:
    assert column(r"^\| `(\w+)` \|.*\|.*\|.*\|$") == [place.value for place in Place]


def test_the_shares_are_the_programs() -> None:
    shares = dict(column(r"^\| `(\w+)` \| (\d+) %"))

    assert shares == {layer.value: str(share) for layer, share in PERCENT.items()}


def test_the_priorities_are_the_programs() -> None:
    assert [int(number) for number in column(r"^\| (\d+) \|")] == [
        UTTERANCE_PRIORITY,
        character.MAIN,
        character.POST_HISTORY,
        character.DESCRIPTION,
        character.DEPTH_PROMPT,
        character.PERSONALITY,
        character.SCENARIO,
        history.RECENT,
        character.EXAMPLES,
    ]


def test_the_totals_are_the_programs() -> None:
    totals = [int(n.replace(",", "")) for n in column(r"^\| [\w ,`]+ \| (\d,\d{3}) \|")]

    assert totals == [
        MODE_TOKENS["text"],
        MODE_TOKENS["full_rp"],
        MODE_TOKENS["voice"],
        LOCAL_TOKENS,
    ]


def test_the_useful_size_is_the_programs() -> None:
    assert f"fewer than {USEFUL_TOKENS} tokens" in PAGE
