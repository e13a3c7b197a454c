"""Turns are judged beside the lore that was shown with them, which is no evidence."""

from __future__ import annotations

import asyncio

import pytest

from tests.writing.writer.support import ANNAS, SESSION, op, rails, reply

CITADEL = "lore/imported/keep/old-citadel.md"
PAGE = """# The Old Citadel

- Citadel

The Citadel fell in the third age, when the mist swallowed its seven towers.
"""


@pytest.fixture
def shown(world):
    """A conversation about a place of a lorebook, which its prompts contained."""
    world.store.write_file(CITADEL, PAGE)
    world.say("I love the Citadel and want to climb up there with my sister.")
    world.say("It fell in the third age, and the mist took its towers.", author=None)

    def write(*operations):
        writer = world.writer(reply(*operations))
        writer.lore_shown = lambda turns: [CITADEL] if 1 in turns else []
        return asyncio.run(writer.run())

    world.with_lore = write
    return world


def test_a_line_about_an_entry_links_to_it(shown) -> None:
    line = "Anna loves the citadel and wants to climb the citadel with her sister."
    report = shown.with_lore(op(lines=[line]), op("set_summary", SESSION, ["Anna loves it."]))
    assert rails(report) == []
    link = "[citadel](../lore/imported/keep/old-citadel.md)"
    assert f"- Anna loves the {link} and wants to climb the citadel with" in shown.read(ANNAS)


def test_the_entry_is_shown_between_marks_and_is_no_evidence(shown) -> None:
    shown.with_lore()
    assert '<lore name="The Old Citadel">\nThe Citadel fell' in shown.prompt
    assert "It is not evidence" in shown.prompt


@pytest.mark.parametrize(
    "line",
    [
        "The Citadel fell in the third age, when the mist swallowed its seven towers.",
        "The Citadel was lost in the mist of the third age.",
    ],
)
def test_nothing_that_only_lore_says_becomes_a_memory(shown, line) -> None:
    report = shown.with_lore(
        op("create", "topics/citadel.md", [line], turns=(1, 2)), op(lines=[line], turns=(1, 2))
    )
    assert rails(report) == ["lore", "lore"]
    assert not {ANNAS, "topics/citadel.md"} & set(shown.files())


def test_of_a_summary_only_the_sentence_of_lore_is_left_out(shown) -> None:
    lines = ["Anna wants to climb up to the Citadel. Mist swallowed its seven towers."]
    report = shown.with_lore(op("set_summary", SESSION, lines, turns=(1, 2)))
    assert rails(report) == ["lore"]
    assert "climb up to" in shown.read(SESSION)
    assert "swallowed" not in shown.read(SESSION)
