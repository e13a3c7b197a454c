"""What a page holds for the program is shown to no reader, whatever a file looks like."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.store.memory.pages.lines import machine_spans, readable_text, with_references
from tests.support.cases import each

RECORD = """---
made_by: familiar
sources: {"daily/2026-04-07_laptop.md": "0123456789abcdef"}
blocks: 1a2b3c4d 5e6f7a8b
---
"""


@each(
    ("page", "shown"),
    [
        ("Bees. <!-- turns 1-2 -->\nHoney.", "Bees.\nHoney."),
        (f"{RECORD}\n# Week\n\nBees.", "# Week\n\nBees."),
        ("\ufeff---\r\ntags: [a]\r\n---\r\n# Week\r\n\r\nBees.\r\n", "# Week\n\nBees."),
        ("<!--\nblocks: 1a2b3c4d\n-->\nBees.", "Bees."),
        ("Bees. <!-- a <!-- b --> c --> Honey.", "Bees.  Honey."),
        ("Bees. <!-- turns 1\n- Honey. <!-- turns 2 -->", "Bees.\n- Honey."),
        ("Bees.\n\n<!-- never closed\n\nHoney.", "Bees."),
        ("Bees. <!--> Honey.", "Bees.  Honey."),
        ("```\nx <!-- turns 3 -->\n```\nBees.", "```\nx\n```\nBees."),
        ("```\n<!-- never closed\n```\nBees.", "```\n\n```\nBees."),
        ("~~~ html <!-- turns 3 -->\nx\n~~~\nBees.", "~~~ html\nx\n~~~\nBees."),
        ("<!--\n```\n-->\nBees. <!-- turns 3 -->", "Bees."),
        ("- Bees. [chat:cli] [via:laptop] <!-- turns 3 -->", "- Bees."),
        ("Bees.\nmade_by: familiar\nblocks: 1a2b3c4d\nHoney.", "Bees.\n\nHoney."),
    ],
)
def test_what_is_there_for_the_program_is_not_shown(page, shown) -> None:
    assert readable_text(page) == shown


LINKS = "- [Night](../sessions/2026-01-02-night.md)\n- [Anna](../people/cli-anna.md)\n"


@each(
    ("page", "shown"),
    [
        (f"# Bees\n\nThey hum.\n\n## Sessions\n\n{LINKS}", "# Bees\n\nThey hum."),
        (f"# Bees\n\n## Sessions\n\n{LINKS}\n## Facts\n\n- Hum.", "# Bees\n\n## Facts\n\n- Hum."),
        (f"# Bees\n\nThey hum.\n\n{LINKS}", "# Bees\n\nThey hum."),
        (f"# Bees\n\n## All\n\n{LINKS}\n### Hive\n\nOak.", "# Bees\n\n## All\n\n### Hive\n\nOak."),
        ("- [Night](../sessions/a.md), [Day](../b.md) <!-- turns 3 -->\n\nHum.", "Hum."),
    ],
)
def test_lists_that_only_link_to_pages_are_not_shown(page, shown) -> None:
    assert readable_text(page) == shown


@each(
    "page",
    [
        "See [Anna](../people/cli-anna.md).",
        "- [Anna](../people/cli-anna.md) keeps bees.",
        f"{LINKS}- Bees hum.",
        "- [Anna](../people/cli-anna.md)\n  keeps bees.",
        "- [Anna](../people/cli-anna.md)\nkeeps bees.",
        "- [Lemon pasta](https://example.org/pasta.md)",
        f"```\n{LINKS}```",
    ],
)
def test_what_says_more_than_a_link_stays(page) -> None:
    assert readable_text(page) == page.strip()


def test_the_turns_can_be_kept() -> None:
    page = f"{RECORD}Bees. <!-- turns 1-2 --> <!-- other -->"
    assert with_references(page) == "Bees. <!-- turns 1-2 -->"


parts = st.sampled_from(
    [
        "<!--",
        "-->",
        "\n",
        "```",
        "~~~",
        "- ",
        "# ",
        "x",
        " ",
        "---\n",
        "[a](b.md)",
        "<!-- turns 1 -->",
    ]
)


@given(st.lists(parts, max_size=30).map("".join))
def test_spans_stand_in_order_and_no_comment_is_left(text) -> None:
    spans = machine_spans(text)
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert list(spans) == sorted(spans)
    assert "<!--" not in readable_text(text)


@each(
    "text", ["<!--" * 20_000, "a <!-- b --> " * 8000, "```\n<!--\n" * 10_000, "a <!-- b\n" * 10_000]
)
def test_no_text_takes_long(text) -> None:
    assert "<!--" not in readable_text(text)
