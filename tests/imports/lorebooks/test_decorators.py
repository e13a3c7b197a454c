"""Decorators are taken off the text, and nothing else is."""

from __future__ import annotations

from hypothesis import given

from familiar_cli.store.memory.pages.lore_settings import read_decorators, split_decorators
from tests.support.cases import each
from tests.support.lorebooks import texts


@given(texts, texts)
def test_the_two_parts_are_the_whole(first, second) -> None:
    content = f"{first}\n{second}"

    assert "".join(split_decorators(content)) == content


@each(
    ("content", "head", "text"),
    [
        ("@@depth 4\ntext", "@@depth 4\n", "text"),
        ("@@depth 4\n@@@scan_depth 2\n\ntext", "@@depth 4\n@@@scan_depth 2\n\n", "text"),
        ("@@activate\r\ntext\r\n", "@@activate\r\n", "text\r\n"),
        ("@@dont_activate", "@@dont_activate", ""),
        ("text\n@@depth 4", "", "text\n@@depth 4"),
        ("@@ no name\ntext", "", "@@ no name\ntext"),
        ("@@@@four\ntext", "", "@@@@four\ntext"),
        ("\n@@depth 4", "", "\n@@depth 4"),
    ],
)
def test_only_lines_at_the_top_are_decorators(content, head, text) -> None:
    assert split_decorators(content) == (head, text)


def test_fallbacks_are_named_with_the_others() -> None:
    assert read_decorators("@@new_thing x\n@@@depth 2\ntext") == {"new_thing": "x", "depth": "2"}
