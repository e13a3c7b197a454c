"""Markdown is cut by its own rules, and no character is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.store.search.chunking import parse_blocks, without_marks
from tests.support.cases import each

PIECES = [
    "# A\n",
    "## B\n",
    "text\n",
    "\n",
    "- x\n",
    "> q\n",
    "```\n",
    "---\n",
    "a: b\n",
    "|a|b|\n",
    "|-|-|\n",
]
PIECES += [
    "Ada: hi\n",
    "**Bo:** yes\r\n",
    "===\n",
    "    code\n",
    "日本\r",
    "\ufeff",
    "<p>\n",
    "\x00",
    "1. y\n",
]


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join) | st.text(max_size=80))
def test_every_character_lies_in_exactly_one_block(text) -> None:
    blocks = parse_blocks(text).blocks
    assert "".join(text[b.start : b.end] for b in blocks) == text
    assert [b.end for b in blocks[:-1]] == [b.start for b in blocks[1:]]


def headings(text: str) -> list[str]:
    return [b.heading for b in parse_blocks(text).blocks if b.level]


def test_setext_headings_count() -> None:
    assert headings("Title\n=====\n\ntext\n\nPart\n---\n") == ["Title", "Part"]


def test_a_hash_in_a_fence_is_no_heading() -> None:
    assert headings("# Real\n\n```sh\n# not\n```\n\n    # nor this\n") == ["Real"]


def test_front_matter_is_read_and_is_no_heading() -> None:
    page = parse_blocks('---\ntitle: "Rome"\ndate: 2026-01-03\n---\n# H\n')
    assert page.front == {"title": "Rome", "date": "2026-01-03"}
    assert [b.heading for b in page.blocks] == ["", "H"]


def test_a_byte_order_mark_hides_no_heading() -> None:
    assert headings("\ufeff# Title\n") == ["Title"]


@each(
    ("line", "speaker"),
    [
        ("Ada: hi", "Ada"),
        ("**Ada:** hi", "Ada"),
        ("**Ada**: hi", "Ada"),
        ("**Ada Byron** (14:02): hi", "Ada Byron"),
        ("- Ada: hi", "Ada"),
        ("[14:02] Ada: hi", "Ada"),
        ("Zoë: hi", "Zoë"),
        ("愛: hi", "愛"),
        ("no speaker here", ""),
        ("https://example.org", ""),
        ("# Ada: a heading", ""),
    ],
)
def test_who_speaks_is_seen(line, speaker) -> None:
    assert parse_blocks(line).blocks[0].speaker == speaker


def test_turns_on_lines_of_their_own_are_apart_without_blank_lines() -> None:
    assert [b.speaker for b in parse_blocks("Ada: one\nstill one\nBo: two\n").blocks] == [
        "Ada",
        "Bo",
    ]


def test_marks_go_and_words_stay() -> None:
    assert (
        without_marks("**Ada** likes [tea](x.md), `a_b` and snake_case")
        == "Ada likes tea, a_b and snake_case"
    )
