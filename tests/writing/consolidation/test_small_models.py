"""A small model is told less, and taken at the word of the sources only."""

from __future__ import annotations

import asyncio
import json

import pytest
from markdown_it import MarkdownIt

from familiar_cli.base.config.schema import LLMSettings
from familiar_cli.llm.open import open_model
from familiar_cli.llm.slots import resolve_slot
from familiar_cli.store.memory.pages.lines import EvidenceText
from familiar_cli.writing.consolidation.composing import split_sentences
from familiar_cli.writing.consolidation.pages import read_page
from tests.support.cases import at_night, each
from tests.writing.consolidation.support import (
    MONDAY,
    Life,
    RuleModel,
    names,
    reply,
    week_of_sessions,
)

SMALL = 384


@pytest.fixture
def life(tmp_path):
    made = Life(tmp_path)
    made.reply_tokens = SMALL
    made.session(MONDAY, "- Anna moved the beehives behind the house.\n")
    made.session(MONDAY.replace(day=8), "- Ben lost the key of the cellar.\n")
    return made


def weekly(life, said):
    life.model = RuleModel(say=lambda _: said)
    return life.run(tiers=("daily", "weekly"))


@each(
    ("text", "is_said"),
    [
        ("Anna moved the beehives.", True),
        ("The beehive is behind a house; Anna moves it.", True),
        ("Anna bought a castle in Spain.", False),
        ("{", False),
        ("[{text: 'Anna moved the beehives'}]", False),
        ("Ben", False),
        ("2024-15", False),
    ],
)
def test_a_source_says_what_has_its_words_in_any_order_and_form(text, is_said) -> None:
    assert EvidenceText("- Anna moved the beehives behind the house.").says(text) is is_said


def test_a_script_without_spaces_is_held_against_its_signs() -> None:
    source = EvidenceText("安娜把蜂箱搬到了房子后面。")
    assert source.says("安娜搬到了房子后面")
    assert not source.says("本在海边买了一座城堡")


def test_sentences_are_told_apart() -> None:
    assert split_sentences("One. Two! 三。四。") == ["One.", "Two!", "三。", "四。"]
    assert split_sentences("Dr. Smith came. And then") == ["Dr. Smith came.", "And then"]


def test_what_a_small_model_makes_up_is_left_out_and_told(life) -> None:
    said = reply(
        "Anna moved the beehives. They now live in a castle in Spain.",
        ("Ben lost the key of the cellar.", [2]),
        ("The new car has wooden wheels.", [1]),
    )
    report = weekly(life, said)
    text = life.file("weekly/2026-W15.md")
    assert "Anna moved the beehives.\n\n- Ben lost the key" in text
    assert "Spain" not in text
    assert "car" not in text
    assert [r.text for r in report.refused["2026-W15"]] == [
        "They now live in a castle in Spain.",
        "The new car has wooden wheels.",
    ]


def test_a_small_model_that_names_the_wrong_source_is_put_right(life) -> None:
    weekly(life, reply("Anna moved the beehives.", ("Ben lost the cellar key.", [1])))
    assert "- Ben lost the cellar key. <!-- from 2026-04-08 -->\n" in life.file(
        "weekly/2026-W15.md"
    )


def test_a_small_model_that_repeats_itself_is_heard_once(life) -> None:
    weekly(life, reply("Anna moved the beehives. Anna moved the beehives."))
    assert life.file("weekly/2026-W15.md").count("beehives") == 1


def test_points_stand_without_a_summary_that_is_no_use(life) -> None:
    report = weekly(life, reply("{", ("Ben lost the cellar key.", [2])))
    assert [r.text for r in report.refused["2026-W15"]] == ["{"]
    assert life.file("weekly/2026-W15.md").endswith(
        "to 12 April 2026\n\n- Ben lost the cellar key. <!-- from 2026-04-08 -->\n"
    )


def test_a_reply_of_which_nothing_can_be_used_leaves_the_period_due(life) -> None:
    report = weekly(life, reply("{", ("The new car has wooden wheels.", [1])))
    assert "its summary is unusable" in report.waiting["2026-W15"]
    assert len(life.kept_replies) == 2
    assert not life.store.exists("weekly/2026-W15.md")


def test_a_large_model_may_use_its_own_words(life) -> None:
    life.reply_tokens = 1200
    weekly(life, reply("It was a week of gardening and mishaps.", ("Keys went missing.", [2])))
    assert "gardening and mishaps" in life.file("weekly/2026-W15.md")


def test_a_small_model_is_told_less_and_finds_the_points_first(life) -> None:
    weekly(life, reply("Anna moved the beehives."))
    asked = json.loads(life.model.requests[-1].body)
    assert "lighthouse" not in json.dumps(asked["messages"])
    shape = asked["response_format"]["json_schema"]["schema"]["properties"]
    assert list(shape) == ["points", "summary"]


@at_night
def test_the_real_small_model_makes_valid_files_of_its_sources_and_then_rests(
    tmp_path, model_cache
) -> None:
    pytest.importorskip("xllamacpp")
    life = Life(tmp_path)
    week_of_sessions(life)
    life.model = model = open_model(resolve_slot(LLMSettings()), cache_dir=model_cache)
    life.reply_tokens = SMALL
    report = life.run(tiers=("daily", "weekly"))
    made = "2026-W15" in names(report)
    assert made or report.waiting["2026-W15"]  # its replies may all be of no use
    assert life.composer.asker.spent.calls <= 4
    if made:
        page = read_page(life.file("weekly/2026-W15.md"))
        days = [f"daily/2026-04-{day:02}_laptop.md" for day in range(6, 13)]
        assert MarkdownIt().parse(page.body)[0].tag == "h1"
        assert list(page.record.sources) == days
        before, calls = life.tree(), life.composer.asker.spent.calls
        assert life.run(tiers=("daily", "weekly")).done == []
        assert (life.tree(), life.composer.asker.spent.calls) == (before, calls)
    asyncio.run(model.aclose())
