"""What stands below the line of a chat, in as many cells as there are."""

from __future__ import annotations

from familiar_cli.ui.chat_prompt import fit_parts
from tests.support.cases import each


@each(
    ("width", "expected"),
    [
        (80, "Yuzu · cli · writing memory"),
        (26, "cli · writing memory"),
        (16, "writing memory"),
        (7, "writing"),
    ],
)
def test_what_is_under_way_is_the_last_to_go(width, expected) -> None:
    assert fit_parts(["Yuzu", "cli", "writing memory"], width) == expected


def test_nothing_is_nothing() -> None:
    assert fit_parts([], 80) == ""
