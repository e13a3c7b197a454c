"""The record in a page's front matter, also after another program wrote it its own way."""

from __future__ import annotations

import yaml
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.writing.consolidation.pages import MadePage, Record, page_text, read_page
from tests.writing.consolidation.support import MONDAY, Life, week_of_sessions

RECORD = Record(
    {"daily/2026-04-07_laptop.md": "0123456789012345", "daily/a: b.md": "12e4567890123456"},
    ("1a2b3c4d", "00123456", "12345678"),
    "2026-04-08T05:00:00Z",
)
BODY = "# April\n\n- It rained.\n"

OBSIDIAN = """\
---
tags:
  - weather
# what I added
aliases: ["Rain month"]
blocks: "1a2b3c4d 00123456 12345678"
made_by: 'familiar'
sources:
  daily/2026-04-07_laptop.md: "0123456789012345"
  "daily/a: b.md": 12e4567890123456
cssclass: wide
made_at: 2026-04-08T05:00:00Z
---
"""


def dumped(text: str, **style) -> str:
    """Return a page whose front matter a YAML library has written again."""
    _, head, body = text.split("---\n", 2)
    values = yaml.load(head, Loader=yaml.BaseLoader)
    return f"---\n{yaml.safe_dump(values, allow_unicode=True, **style)}---\n{body}"


def test_a_record_in_blocks_with_other_quotes_and_in_another_order_is_read() -> None:
    page = read_page(OBSIDIAN + BODY)
    assert page.record == RECORD
    assert page.body == BODY


def test_keys_and_comments_of_others_stay_and_the_record_is_written_once() -> None:
    written = page_text(read_page(OBSIDIAN + BODY))
    assert written.startswith(
        '---\ntags:\n  - weather\n# what I added\naliases: ["Rain month"]\ncssclass: wide\n'
        "made_by: familiar\n"
    )
    for key in ("made_by", "made_at", "sources", "blocks"):
        assert written.count(f"\n{key}:") == 1
    assert read_page(written).record == RECORD
    assert page_text(read_page(written)) == written


def test_marks_in_a_list_are_read() -> None:
    text = page_text(MadePage(BODY, RECORD)).replace(
        "blocks: 1a2b3c4d 00123456 12345678", "blocks:\n- 1a2b3c4d\n- '00123456'\n- '12345678'"
    )
    assert read_page(text).record == RECORD


def test_two_records_of_which_one_was_written_below_become_one() -> None:
    twice = OBSIDIAN.replace("cssclass: wide\n", "cssclass: wide\nmade_by: familiar\n") + BODY
    assert page_text(read_page(twice)).count("made_by") == 1


@given(
    st.dictionaries(
        st.text("ab/. -:'\"#é日1", min_size=1, max_size=12),
        st.text("0123456789abcdef", max_size=16),
    ),
    st.lists(st.text("0123456789abcdef", min_size=8, max_size=8), max_size=4),
    st.sampled_from([{}, {"default_flow_style": False}, {"default_style": '"'}, {"width": 20}]),
)
def test_whatever_style_a_yaml_library_writes_the_record_is_the_same(sources, marks, style) -> None:
    record = Record(sources, tuple(marks))
    text = page_text(MadePage(BODY, record, ("mine: yes",)))
    again = read_page(dumped(text, **style))
    assert again.record == record
    assert page_text(again).count("made_by") == 1


def test_front_matter_that_is_no_yaml_or_no_record_of_ours_is_a_persons() -> None:
    for head in ("made_by: familiar\nsources: [\nblocks: x", "sources: a\nblocks: b\nmade_by: me"):
        text = f"---\n{head}\n---\n{BODY}"
        assert read_page(text).record is None
        assert page_text(read_page(text)) == text


def test_a_day_that_another_editor_rewrote_is_made_again_when_its_session_changes(tmp_path) -> None:
    life = Life(tmp_path)
    week_of_sessions(life)
    life.run()
    day = f"daily/{MONDAY}_laptop.md"
    shown = dumped(life.file(day)).replace("---\n", "---\ntags: [garden]\n", 1)
    life.store.write_file(day, shown)
    life.session(MONDAY, "- Anna planted a pear tree.\n")
    life.run()
    made = life.file(day)
    assert "pear tree" in made
    assert made.count("made_by: familiar") == 1
    assert "tags: [garden]" in made
