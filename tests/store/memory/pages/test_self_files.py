"""The files of `self/` give a card's text back byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.store.memory.pages.front_matter import (
    SELF_FILES,
    field_markdown,
    field_text,
    self_file,
)
from tests.support.cases import each

FIELDS = [entry.field for entry in SELF_FILES]


@given(st.sampled_from(FIELDS), st.text())
def test_any_text_comes_back_unchanged(field, text) -> None:
    assert field_text(field_markdown(field, text)) == text


@each(
    "text", ["# A title of its own\n\nx", "\n\nbegins with blank lines", "a\r\nb  \n", "\r\nx", ""]
)
def test_text_that_looks_like_the_frame_comes_back_unchanged(text) -> None:
    assert field_text(field_markdown("description", text)) == text


def test_a_file_without_its_title_is_all_text() -> None:
    assert field_text("Just words.\n") == "Just words.\n"


def test_a_file_saved_with_windows_line_ends_still_loses_its_title() -> None:
    assert field_text("# Scenario\r\n\r\nRain.\r\n") == "Rain.\r\n"


def test_front_matter_above_the_title_is_no_text() -> None:
    assert field_text("---\npinned: true\n---\n# Scenario\n\nRain.\n") == "Rain.\n"
    assert field_text("---\nNo title.\n---\nRain.\n") == "---\nNo title.\n---\nRain.\n"


def test_a_title_alone_is_no_text() -> None:
    assert field_text("# Scenario") == ""


def test_each_field_has_a_file_named_after_it() -> None:
    assert self_file("first_mes").rel_path == "self/first_mes.md"


def test_a_field_without_a_file_is_unknown() -> None:
    with pytest.raises(KeyError):
        self_file("nickname")
