"""A long name takes several lines, and none begins amid a word."""

from __future__ import annotations

import io

from rich.cells import cell_len
from rich.console import Console

from familiar_cli.pages.page import Name
from familiar_cli.pages.terminal import column_table
from tests.support.cases import each


def shown(text: str, width: int) -> list[str]:
    buffer = io.StringIO()
    Console(file=buffer, width=width, color_system=None).print(column_table([[Name(text)]]))
    return [line.rstrip() for line in buffer.getvalue().splitlines()]


@each(
    ("text", "width", "lines"),
    [
        ("people/discord-4711.md", 30, ["people/discord-4711.md"]),
        ("people/discord-4711.md", 16, ["people/discord-", "4711.md"]),
        ("character.post_history_instructions", 20, ["character.post_", "history_instructions"]),
        ("abcdefghijkl", 7, ["abcdefg", "hijkl"]),
        ("people/日本語の名前.md", 12, ["people/", "日本語の名前", ".md"]),
        ("", 10, [""]),
    ],
)
def test_a_name_is_parted_where_its_parts_end(text, width, lines) -> None:
    assert shown(text, width) == lines
    assert all(cell_len(line) <= width for line in lines)


def test_a_name_steers_no_terminal() -> None:
    assert shown("a\x1b[2J\u202eb", 30) == ["a[2Jb"]
