"""A page taken apart and put together is the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.store.memory.merge.blocks import parse_blocks, render_blocks

LINES = st.sampled_from(
    [
        *("# T", "## A", "## A ##", "### deep", "## P <!-- private dm -->", "---", "| a | b |"),
        *("- a", "* b", "  - c", "\t- tab", "- [ ] do", "1. one", "- x <!-- turns 1-3 -->", "> q"),
        *("  more", "lazy", "", "  ", "```", "~~~", "<!-- open", "close -->", "<!-- whole -->"),
        *("a\r", "\ufeff"),
    ]
)


@given(st.lists(LINES, max_size=20), st.sampled_from(["", "\n", "\n\n"]), st.booleans())
def test_a_page_put_together_is_the_same(lines: list[str], end: str, has_front: bool) -> None:
    text = ("---\na: b\n---\n" if has_front else "") + "\n".join(lines) + end

    assert render_blocks(parse_blocks(text)) == text


def test_sub_items_and_paragraphs_belong_to_their_item() -> None:
    root = parse_blocks("- a\n  more\n\n  text\n  - b\n- c\n").root

    first, second = root.inside
    assert first.lines == ["- a", "  more"]
    assert [block.kind for block in first.inside] == ["text", "item"]
    assert second.lines == ["- c"]
