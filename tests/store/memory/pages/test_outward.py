"""A page as other programs hold it, and their words put back."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from familiar_cli.base.errors import RefusedError
from familiar_cli.base.who.visibility import (
    NOBODY,
    OWNERS,
    Evidence,
    PrivacyRules,
    Viewer,
    person_scope,
)
from familiar_cli.store.memory.pages.visible_lines import (
    holds_back,
    outward_text,
    put_back,
    visible_in,
)

LINES = st.sampled_from(
    ["# A\n", "## B\n", "- x\n", "\n", "text\n", "```\n", "## In private: D <!-- private d -->\n"]
)
PAGES = st.builds(
    lambda front, lines: front + "".join(lines),
    st.sampled_from(["", "---\na: b\n---\n", "---\na: b\n---\n\n"]),
    st.lists(LINES, max_size=12),
)
WORDS = st.lists(st.sampled_from(["# A\n", "- y\n", "\n", "new\n"]), max_size=6).map("".join)


@given(PAGES)
def test_what_was_given_out_and_comes_back_changes_nothing(page) -> None:
    assert put_back(page, outward_text(page, NOBODY), NOBODY) == page


@given(PAGES, WORDS)
def test_other_words_replace_what_was_given_out_and_nothing_else(page, words) -> None:
    new = words.strip("\n") + "\n"
    try:
        made = put_back(page, new, NOBODY)
    except RefusedError:  # what is private begins inside a code block
        assume(False)
    assert outward_text(made, NOBODY).split() == new.split()
    assert sorted(_private(made).split()) == sorted(_private(page).split())


@given(PAGES)
def test_nothing_private_is_given_out(page) -> None:
    assert "private" not in outward_text(page, NOBODY)
    assert holds_back(page, NOBODY) == (visible_in(page, NOBODY) != page)


def _private(page: str) -> str:
    shown = visible_in(page, NOBODY).splitlines()
    left = page.splitlines()
    for line in shown:
        left.remove(line)
    return "\n".join(left)


RULES = PrivacyRules(
    evidence=Evidence(
        lambda texts: [frozenset({OWNERS} if "turn 5" in one else ()) for one in texts],
        lambda *_: frozenset(),
        lambda *_: False,
    )
)
BOB = Viewer(RULES, frozenset({person_scope("discord-bob")}))


@pytest.mark.parametrize("to", ["", " @discord%2Dalice", " @discord%2Dbob"])
def test_a_program_publishes_nothing_to_anybody(to) -> None:
    page = "# Tea\n\n- green\n- secret <!-- turn 5 -->\n"
    new = f"# Tea\n\n- green\n\n## Mine <!-- public{to} -->\n\n- x\n"
    with pytest.raises(RefusedError):
        put_back(page, new, BOB, "topics/tea.md")


def test_what_a_person_published_can_be_edited_by_a_program() -> None:
    page = "# Tea <!-- public -->\n\n- green <!-- turn 5 -->\n"
    seen = outward_text(page, BOB, "topics/tea.md")
    assert "- white" in put_back(page, seen + "- white\n", BOB, "topics/tea.md")


def test_what_is_hidden_stays_where_it_was() -> None:
    page = "# Tea\n\n## Mine\n\n- secret <!-- turn 5 -->\n\n## Ours\n\n- green\n"
    new = outward_text(page, BOB, "topics/tea.md").replace("green", "white")
    assert "Mine" not in new
    assert put_back(page, new, BOB, "topics/tea.md") == page.replace("green", "white")


def test_a_record_of_sources_that_is_nested_too_deeply_hides_the_page() -> None:
    page = f'---\nsources: {{"a": {"[" * 100_000}}}\n---\n# Week\n\n- tea\n'
    assert visible_in(page, BOB, "weekly/2026-W01.md") == ""


def test_of_an_imported_page_others_see_what_they_said_alone() -> None:
    said = replace(RULES.evidence, imported=lambda path, _: path == "topics/tea.md")
    page = "# Tea\n\n- green\n- white <!-- turn 4 -->\n"
    viewer = replace(BOB, rules=replace(RULES, evidence=said))
    assert visible_in(page, viewer, "topics/tea.md") == "# Tea\n\n- white <!-- turn 4 -->\n"
    assert visible_in(page, viewer, "topics/mine.md") == page
    opened = page.replace("Tea", "Tea <!-- public -->")
    assert visible_in(opened, viewer, "topics/tea.md") == opened


@pytest.mark.parametrize("path", ["topics/tea.md", "topics/@all/tea.md"])
def test_if_notes_are_the_owners_what_was_typed_leaves_no_trace(path) -> None:
    viewer = replace(BOB, rules=replace(RULES, notes_are_owners=True))
    page = "# Tea\n\n## Ours\n\n- green <!-- turn 4 -->\n\n"
    assert visible_in(page, viewer, path) == page
    assert visible_in(page.replace("- green", "- brown\n- green"), viewer, path) == page
    assert visible_in("# Tea\n\n## Ours\n", viewer, path) == ""
    assert visible_in("# Tea <!-- public -->\n", viewer, path)
