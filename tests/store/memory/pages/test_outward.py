"""A page as other programs hold it, and their words put back."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from familiar_cli.base.errors import RefusedError
from familiar_cli.base.who.visibility import NOBODY
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
