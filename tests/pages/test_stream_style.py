"""A reply is styled while it comes; no sign of it is lost, and no escape sequence gets through."""

from __future__ import annotations

import io
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.pages.stream import (
    ACTION,
    BOLD,
    CITED,
    CODE,
    ITEM,
    QUOTE,
    StreamedText,
    Styler,
    shown_runs,
)
from tests.support.cases import each

marked = st.text('ab *_`"“”->#\n', max_size=40)


def styled(text: str, size: int = 1000) -> list[tuple[str, str]]:
    styler, parts = Styler(), []
    for at in range(0, len(text), size):
        parts += styler.feed(text[at : at + size])
    return [*parts, *styler.end()]


def shown(text: str, size: int = 1000) -> str:
    styler, pieces = Styler(), [text[at : at + size] for at in range(0, len(text), size)]
    parts = chain(*map(styler.feed, pieces), styler.end())
    return "".join(run for run, _ in shown_runs(styler, parts))


def of_style(text: str, style: str) -> str:
    return "".join(part for part, has in styled(text) if style in has.split())


@given(marked)
def test_nothing_is_lost(text) -> None:
    assert "".join(part for part, _ in styled(text)) == text


@given(marked, st.integers(min_value=1, max_value=5))
def test_it_is_the_same_whatever_the_pieces_are_that_come(text, size) -> None:
    assert styled(text, size) == styled(text)


@each(
    ("text", "style", "expected"),
    [
        ("*nods* yes", ACTION, "*nods*"),
        ("a **big** dog", BOLD, "**big**"),
        ('"Yes," she says', QUOTE, '"Yes,"'),
        ("“Yes,” she says", QUOTE, "“Yes,”"),
        ("「はい」と言う", QUOTE, "「はい」"),
        ("run `ls *` now", CODE, "`ls *`"),
        ("```\na * b\n```\nok", CODE, "```a * b```"),
        ('*says "yes"*', QUOTE, '"yes"'),
        ("***both***", BOLD, "***both***"),
        ("5 * 3 and 4*3*2", ACTION, ""),
        ("* an item\n* another", ACTION, ""),
        ("5'10\" tall", QUOTE, ""),
        ("*never closed\n\nnext", ACTION, "*never closed"),
        ('"never closed\nnext', QUOTE, '"never closed'),
        ("`never closed\nnext", CODE, "`never closed"),
        ("_nods_ yes", ACTION, "_nods_"),
        ("snake_case_name stays", ACTION, ""),
        ("__big__ dog", BOLD, "__big__"),
        ("## The boat\nHeron", BOLD, "## The boat"),
        ("#1 of #2", BOLD, ""),
        ("- one\n- *two*\nend", ITEM, "- one\n- *two*\n"),
        ("-5 degrees", ITEM, ""),
        ("> he said\nI said", CITED, "> he said\n"),
    ],
)
def test_what_is_marked_has_its_style(text, style, expected) -> None:
    assert of_style(text, style) == expected


@each(
    ("text", "expected"),
    [
        ("*nods* **yes** `ls` ***both***", "nods yes ls both"),
        ("- one\n  * two\n+ three", "• one\n  • two\n• three"),
        ("> said", "│ said"),
        ("# Heron", "Heron"),
        ("```py\na * b\n```\nok", "a * b\nok"),
        ("before\n---\nafter", "before\n———\nafter"),
        ("5 * 3, 4*3*2 and a_b", "5 * 3, 4*3*2 and a_b"),
        ("5 > 3 - 2", "5 > 3 - 2"),
    ],
)
def test_marks_are_not_shown(text, expected) -> None:
    assert shown(text) == expected


@given(marked, st.integers(min_value=1, max_value=5))
def test_what_is_shown_does_not_depend_on_the_pieces(text, size) -> None:
    assert shown(text, size) == shown(text)


@given(st.text(max_size=60), st.integers(min_value=1, max_value=5))
def test_no_control_character_reaches_a_terminal(text, size) -> None:
    stream = io.StringIO()
    with StreamedText(stream, "Ada\x1b[2J") as shown:
        for at in range(0, len(text), size):
            shown(text[at : at + size])
    got = stream.getvalue()
    assert not [c for c in got if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0]


def test_escape_sequences_and_marks_that_turn_text_around_are_left_out() -> None:
    stream = io.StringIO()
    with StreamedText(stream, "Ada") as shown:
        shown("a\x1b")
        shown("]0;title\x07b \u202ec\u2066d [bold]e[/bold]")
    assert stream.getvalue() == "Ada: a]0;titleb cd [bold]e[/bold]\n"
