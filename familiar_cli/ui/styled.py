"""Styled lines: what a page without tables is made of. Rich is loaded for a terminal alone."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from familiar_cli.text import harmless

Span = tuple[str, str]
"""Text from outside, and its style: `bold`, `dim`, `cyan` or empty."""

_INDENT = 4


@dataclass(frozen=True, slots=True)
class Styled:
    """One or more lines of a page.

    Args:
        spans: Their text, piece by piece.
        is_indented: They stay indented where a terminal wraps them.
    """

    spans: tuple[Span, ...]
    is_indented: bool = False

    def plain(self) -> str:
        """Return the lines as they are printed into a pipe."""
        indent = " " * (_INDENT * self.is_indented)
        lines = "".join(harmless(text) for text, _ in self.spans).split("\n")
        return "".join(f"{indent}{line}".rstrip(" ") + "\n" for line in lines)


def print_styled(page: list[Styled]) -> None:
    """Print a page on stdout: with styles on a terminal, else as plain text."""
    if not sys.stdout.isatty():
        sys.stdout.write("".join(map(Styled.plain, page)))
        sys.stdout.flush()
    elif page:
        from familiar_cli.ui.terminal import assembled, indented, print_page

        texts = [(assembled(one.spans), one.is_indented) for one in page]
        print_page(*(indented(text, _INDENT) if moved else text for text, moved in texts))
