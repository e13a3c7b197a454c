"""A part of a file changes, and front matter stays."""

from __future__ import annotations

import pytest

from familiar_cli.writing.writer.page_text import summary_of, with_bullets, with_summary

FRONT = "---\npinned: true\naliases: [Annie]\n---\n"


@pytest.mark.parametrize("title", ["# Anna\n", ""])
def test_a_new_summary_leaves_front_matter_and_title(title) -> None:
    text = f"{FRONT}{title}\nOld.\n\n## Facts\n\n- bees\n"
    made = with_summary(text, ["New."])
    assert made.startswith(f"{FRONT}{title}")
    assert "Old." not in made
    assert made.endswith("New.\n\n## Facts\n\n- bees\n")
    assert (summary_of(text), summary_of(made)) == ("Old.", "New.")


def test_front_matter_alone_is_no_summary() -> None:
    assert summary_of(FRONT) == ""
    made = with_summary(FRONT, ["New."])
    assert made.startswith(FRONT)
    assert summary_of(made) == "New."


def test_a_file_without_front_matter_or_title_is_all_summary() -> None:
    assert summary_of("Old.\n") == "Old."
    assert with_summary("Old.\n", ["New."]) == "New.\n"


def test_bullets_leave_front_matter() -> None:
    assert with_bullets(f"{FRONT}# Anna\n", "## Facts", ["- bees"]).startswith(f"{FRONT}# Anna\n")
