"""The scanner sees the code blocks and headings of CommonMark, and only a newline ends a line."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import familiar_cli
from familiar_cli.base.markdown import (
    as_paragraph,
    body_start,
    bullet,
    code_in,
    scan,
    sections,
    split_front_matter,
    split_lines,
    title_of,
    without_marker,
)
from tests.support.cases import each

# No white space at a line's beginning but up to three spaces, no list and no quotation: what stands
# inside another block is not this scanner's matter.
pieces = st.sampled_from(
    [
        *("```", "````", "~~~", "~~~~ x", "```py", "``` a`b", "``` ", " ```", "   ~~~", "``"),
        *("# a", "## b ##", "###", "####### c", "#d", " # e", "   ## f \t", "words", ""),
        *("\u2028# x", "\x0c"),
    ]
)
texts = st.lists(pieces, max_size=12).map("\n".join)


def _as_parsed(text: str) -> tuple[list[int], dict[int, tuple[int, str]]]:
    """Return the lines of code blocks, and the headings by their line, as markdown-it has them."""
    tokens = MarkdownIt("commonmark").disable(["lheading", "html_block"]).parse(text)
    code = [n for t in tokens if t.type == "fence" and t.map for n in range(*t.map)]
    heads = {
        head.map[0]: (int(head.tag[1]), words.content)
        for head, words in pairwise(tokens)
        if head.type == "heading_open" and head.map
    }
    return code, heads


@given(texts)
@example("````\n```\n# a\n````\n# b")
@example("```\n~~~\n# a\n``` x\n# b")
def test_code_and_headings_are_those_of_commonmark(text) -> None:
    code, heads = _as_parsed(text)
    read = list(scan(text))
    assert [line.number - 1 for line in read if line.in_code] == [n for n in code if n < len(read)]
    assert {n.number - 1: (n.level, n.title) for n in read if n.level} == heads


@given(st.text(st.sampled_from("ab#`~-* \t\r\n\x0b\x0c\x1c\x85\u2028\u2029"), max_size=60))
def test_lines_and_sections_are_the_text(text) -> None:
    read = list(scan(text))
    assert [line.text for line in read] == split_lines(text)
    assert all(text[line.start : line.end] == line.text for line in read)
    assert len(read) == text.count("\n") + (not text.endswith("\n") and bool(text))
    parts = list(sections(text, 2))
    assert "".join(text[part.start : part.end] for part in parts) == text
    assert [part.level for part in parts[1:]] == [n.level for n in read if 0 < n.level < 3]


@each(
    ("line", "box", "words"),
    [
        ("- a", "", "a"),
        ("  * a\n", "", "a\n"),
        ("12) a", "", "a"),
        ("-\n", "", "\n"),
        ("- [x] a", "x", "a"),
        ("+ [ ]\r\n", " ", "\r\n"),
        ("- [y] a", "", "[y] a"),
        ("- [x]a", "", "[x]a"),
    ],
)
def test_a_list_item_and_its_box(line, box, words) -> None:
    found = bullet(line)
    assert found is not None
    assert (found.box, line[found.words_at :]) == (box, words)


@each("line", ["-a", "* * *", "---", "- - -\n", "1234567890. a", "a - b", "٣. a"])
def test_what_is_no_list_item(line) -> None:
    assert bullet(line) is None
    assert without_marker(line) == line


@given(texts)
def test_a_line_that_is_written_as_words_begins_no_block(text) -> None:
    line = as_paragraph(" ".join(text.split()))
    (read, *_) = [*scan(line), None]
    assert read is None or not (read.level or read.in_code)


def test_the_title_is_the_first_h1_that_is_no_code() -> None:
    assert title_of("```\n# code\n```\n## b\n# C# #\n# d\n") == "C#"
    assert title_of("\ufeff# a\r\n") == "a"
    assert title_of("Anna\n====\n") == "Anna"
    assert title_of("~~~\na\n==\n~~~\n") == ""


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("# A day <!-- private @discord-1 -->", "A day"),
        ("# A day <!-- a --> <!-- b -->  ", "A day"),
        ("A day <!-- a -->\n===", "A day"),
        ("# The mark `<!-- x -->`", "The mark `<!-- x -->`"),
        ("# Half <!-- a --> of -->", "Half <!-- a --> of -->"),
        ("# --> <!-", "--> <!-"),
        ("# <!-- only -->", ""),
    ],
)
def test_a_title_is_without_the_comments_at_its_end(heading, title) -> None:
    assert title_of(f"{heading}\n\nWords.\n") == title


def test_many_comments_in_a_heading_are_read_in_moments() -> None:
    assert title_of("# A " + "<!-- x -->" * 100_000 + "\n") == "A"
    assert title_of("# A " + "<!--" * 100_000 + "-->--> -->\n").startswith("A <!--")


def test_code_is_what_stands_between_the_fences() -> None:
    assert list(code_in("a\n```py\nb\n```\n~~~\nc\n```\n")) == ["b\n", "c\n```\n"]


@pytest.mark.parametrize("text", ["---\na: b\n---\nc", "\ufeff---\r\na: b\r\n---\r\nc"])
def test_front_matter_ends_where_the_text_begins(text) -> None:
    front, body = split_front_matter(text)
    assert front is not None
    assert (front.strip(), body, text[body_start(text) :]) == ("a: b", "c", "c")


@each("text", ["", "a\n---\nb\n---\n", "---\na: b\n", "--- a\n---\n"])
def test_there_may_be_no_front_matter(text) -> None:
    assert split_front_matter(text) == (None, text)
    assert body_start(text) == 0


def test_one_module_knows_what_a_code_fence_is() -> None:
    package = Path(familiar_cli.__file__).parent
    pattern = re.compile(r"[`~]\{3|```\|~~~|~~~\|```|(?:```|~~~)\+")
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if pattern.search(path.read_text(encoding="utf-8"))
    }
    assert found == {"base/markdown.py"}
