"""How much a model is asked at once, and where one way of working ends and another begins."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from familiar_cli.base.errors import ConfigError, UnusableReplyError
from familiar_cli.base.who.identity import Who
from familiar_cli.llm.asking import Asker
from familiar_cli.llm.types import ScriptedModel
from familiar_cli.writing.consolidation import composing
from familiar_cli.writing.consolidation.composing import Composer, fit_budget
from familiar_cli.writing.consolidation.periods import (
    DraftedSummary,
    PlannedDigest,
    Point,
    SourceItem,
)
from tests.support.cases import each
from tests.writing.consolidation.support import reply

VOICE = "Aria tends a lighthouse."
LATIN = frozenset({"LATIN"})
PLENTY = 100_000


def composer(*replies, reply_tokens=1200, part_tokens=6000, context_tokens=PLENTY) -> Composer:
    """Return a composer that counts a character as a token."""
    model = ScriptedModel(replies, context_tokens=context_tokens)
    asker = Asker(model, len, Path, "consolidation", reply_tokens=reply_tokens)
    return Composer(asker, Who("Aria", VOICE), part_tokens)


def wanted(*sizes) -> PlannedDigest:
    """Return a file that is wanted of sources with so many characters."""
    items = tuple(SourceItem(f"day {n}", "x" * size) for n, size in enumerate(sizes))
    return PlannedDigest("w", "weekly/w.md", "W", {}, items, guidance="Read.", budget_tokens=PLENTY)


def asked(model, number=-1) -> dict:
    return json.loads(model.requests[number].body)


async def schema_for(reply_tokens) -> dict:
    made = composer(reply("All was quiet in the harbour."), reply_tokens=reply_tokens)
    await made.compose(
        PlannedDigest("w", "w.md", "W", {}, (SourceItem("a", "All was quiet in the harbour."),))
    )
    return asked(made.model)["response_format"]["json_schema"]["schema"]["properties"]


@each(("reply_tokens", "most"), [(200, 1), (269, 1), (270, 2), (1200, 17), (1590, 24), (9000, 24)])
async def test_a_longer_reply_may_hold_more_points_up_to_a_bound(reply_tokens, most) -> None:
    assert (await schema_for(reply_tokens))["points"]["maxItems"] == most


@each(("reply_tokens", "most"), [(400, 200), (404, 203), (1200, 800), (2800, 2000), (9000, 2000)])
async def test_a_longer_reply_may_hold_a_longer_summary_up_to_a_bound(reply_tokens, most) -> None:
    assert (await schema_for(reply_tokens))["summary"]["maxLength"] == most


@pytest.mark.parametrize(("reply_tokens", "is_told"), [(599, False), (600, True)])
async def test_only_a_model_that_writes_enough_is_told_of_the_voice(reply_tokens, is_told) -> None:
    said = "All was quiet in the harbour."
    made = composer(reply(said), reply_tokens=reply_tokens)
    await made.compose(
        PlannedDigest("w", "w.md", "W", {}, (SourceItem("a", said),), budget_tokens=900)
    )
    assert (VOICE in asked(made.model)["messages"][1]["content"]) is is_told


async def test_a_model_with_just_enough_room_is_asked_and_one_with_less_is_not() -> None:
    work = wanted(10)
    around = len(composer()._system(work, is_part=True)) + len(
        composing.compose_question((), voice=VOICE)
    )
    least = around + 1200 + 150 + 200  # the reply, a repair, and the least part
    made = composer(reply(), context_tokens=least)
    await made.compose(work)
    assert len(made.model.requests) == 1
    with pytest.raises(ConfigError, match="too few"):
        await composer(reply(), context_tokens=least - 1).compose(work)


@pytest.mark.parametrize(("second", "questions"), [(240, 1), (241, 3)])
async def test_what_fits_one_part_just_so_is_one_question(second, questions) -> None:
    made = composer(*[reply()] * questions, part_tokens=500)
    await made.compose(wanted(200, second))  # each with 30 tokens around it
    assert len(made.model.requests) == questions


@pytest.mark.parametrize(("point", "pieces"), [(288, 2), (289, 1)])
async def test_points_stay_apart_as_long_as_that_saves_a_quarter(point, pieces) -> None:
    made = composer(reply("s" * 400, ("p" * point, [1])))
    part = (
        SourceItem("a", "x" * 470),
        SourceItem("b", "x" * 470),
    )  # 1,000 tokens with what is around them
    assert len(await made._fold("w", "Read.", part, LATIN)) == pieces


async def test_parts_that_stay_as_long_as_they_were_are_given_up() -> None:
    made = composer(*[reply("s" * 400)] * 5, part_tokens=500)
    with pytest.raises(UnusableReplyError, match="as long as the parts"):
        await made.compose(wanted(400, 400))
    assert len(made.model.requests) == 2


async def test_parts_that_become_a_little_shorter_are_gone_on_with() -> None:
    short = [reply("s" * 100)] * 2
    made = composer(reply("s" * 400), reply("s" * 399), *short, reply("All."), part_tokens=500)
    assert (await made.compose(wanted(400, 400))).summary == "All."


def fact(source: str, n: int = 0) -> Point:
    return Point(f"Fact {n} of {source} is about the garden.", (source,))


YEAR = [f"2026-{month:02}" for month in range(1, 13)]


def test_an_over_long_reply_lost_the_newest_months_of_a_year() -> None:
    plan = DraftedSummary("A year.", tuple(fact(month, n) for month in YEAR for n in range(2)))
    room = len("A year.") + sum(len(point.text) + 1 for point in plan.points[::2])

    kept = fit_budget(plan, room, len)

    assert [point.sources[0] for point in kept.points] == YEAR
    assert {point.text[:6] for point in kept.points} == {"Fact 0"}
    assert len(kept.refused) == 12
    assert "it is of 2026-12" in kept.refused[-1].reason


@each("few", range(1, 13))
def test_where_only_some_sources_have_room_they_lie_far_apart(few) -> None:
    plan = DraftedSummary("", tuple(map(fact, YEAR)))

    kept = fit_budget(plan, few * (len(fact("2026-01").text) + 1), len)

    months = [YEAR.index(point.sources[0]) for point in kept.points]
    assert (len(months), months[-1]) == (few, 11)
    gaps = [b - a for a, b in pairwise([-1, *months])]
    assert max(gaps) <= 2 * 16 // few + 1


async def test_the_model_is_told_how_long_the_text_may_be() -> None:
    made = composer(reply("All was quiet in the harbour."), reply_tokens=1200)
    items = (SourceItem("a", "All was quiet in the harbour."),)
    await made.compose(PlannedDigest("w", "w.md", "W", {}, items, budget_tokens=300))
    assert "at most 200 words in all" in asked(made.model)["messages"][0]["content"]
