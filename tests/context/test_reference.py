"""The reference page says what the program does."""

from __future__ import annotations

import re
from pathlib import Path

from familiar_cli.base.text import USEFUL_TOKENS
from familiar_cli.context import processors
from familiar_cli.context.budget import PERCENT
from familiar_cli.context.pipeline import UTTERANCE_PRIORITY
from familiar_cli.context.providers import (
    character,
    content_search,
    history,
    memory_files,
    people,
    pins,
)
from familiar_cli.context.tiers import LONG, MID, SHORT
from familiar_cli.context.types import PromptSpan

ROOT = Path(__file__).parents[2]
PAGE = ROOT.joinpath("docs/reference/placement-and-budgets.md").read_text("utf-8")


def column(first: str) -> list[str]:
    return re.findall(first, PAGE, re.MULTILINE)


def test_the_places_stand_in_their_order() -> None:
    places = PAGE.partition("## Places")[2].partition("## Priorities")[0]
    found = re.findall(r"^\| `(\w+)` \|", places, re.MULTILINE)

    assert found == [place.value for place in PromptSpan]


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
        pins.NOTE,
        pins.INJECT,
        memory_files.DUE,
        people.PRIORITY,
        history.RECENT,
        history.SUMMARY,
        content_search.PRIORITY,
        processors.THINKING_PRIORITY,
        people.WAITING_PRIORITY,
        people.REST_PRIORITY,
        character.EXAMPLES,
        memory_files.PRIORITIES[SHORT],
        memory_files.PRIORITIES[MID],
        memory_files.PRIORITIES[LONG],
        character.TIERS_TEXT,
        history.ELSEWHERE,
        memory_files.TASKS_PRIORITY,
        memory_files.SCRATCH_PRIORITY,
    ]


def test_the_useful_size_is_the_programs() -> None:
    assert f"fewer than {USEFUL_TOKENS} tokens" in PAGE
