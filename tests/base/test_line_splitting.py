from __future__ import annotations

import ast
from pathlib import Path

from familiar_cli.base.text import bare_lines

PACKAGE = Path(__file__).parents[2] / "familiar_cli"
SEPARATORS = "\r \u2028 \u2029 \u0085 \x0b \x0c \x1c \x1d \x1e"
# Prompts: any kind of line end could make a word look like a speaker's label. The others are bytes.
OTHERS = {
    "context/processors.py",
    "context/providers/past_turns.py",
    "context/summarising.py",
    "store/journal/objects.py",
    "store/journal/past.py",
    "store/memory/merge/files.py",
    "store/memory/store/transactions.py",
    "writing/writer/prompts.py",
}


def test_only_line_feeds_end_a_line() -> None:
    assert bare_lines(f"{SEPARATORS}\nb\r\n\nc") == [SEPARATORS, "b", "", "c"]


def test_a_line_feed_at_the_end_begins_no_line() -> None:
    assert (bare_lines(""), bare_lines("a\n"), bare_lines("\n")) == ([], ["a"], [""])


def test_text_is_split_by_the_helpers_alone() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "splitlines" in (text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr == "splitlines"
    }
    assert found == OTHERS
