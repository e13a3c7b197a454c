"""Text on a terminal while it comes: harmless, styled, and wrapped between words at any width."""

from __future__ import annotations

import os
from itertools import groupby
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.text import Text

from familiar_cli.text import harmless, one_line
from familiar_cli.ui.stream_style import Styler
from familiar_cli.ui.stream_wrap import Wrapper
from familiar_cli.ui.terminal import console

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self, TextIO

    from familiar_cli.ui.stream_wrap import Piece

_USUAL_COLUMNS: Final = 80
_NAME_CHARS: Final = 40


def columns_of(stream: TextIO) -> int:
    """Return how many cells a line has now; `COLUMNS` does not know of a resized terminal."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL_COLUMNS
    except (OSError, ValueError):
        return _USUAL_COLUMNS


def print_wrapped(stream: TextIO, text: str, style: str = "") -> None:
    """Print lines of the program's own, wrapped between words."""
    wrapper = Wrapper(lambda: columns_of(stream) - 1)
    pieces = (*wrapper.feed(harmless(text.rstrip("\n")) + "\n"), *wrapper.end())
    shown = Text("".join(piece.shown for piece in pieces), style=style)
    console(stream).print(shown, end="", soft_wrap=True)
    stream.flush()


class StreamedText:
    """One text, piece by piece; it ends with a line break, whatever happens.

    Args:
        stream: The terminal.
        speaker: Who says it; stands before the first word.
        style: Of all of it.
    """

    def __init__(self, stream: TextIO, speaker: str = "", style: str = "") -> None:
        self._stream = stream
        self._console = console(stream)
        self._style = style
        self._styler = Styler()
        self._speaker = f"{one_line(speaker, _NAME_CHARS)}: " if speaker else ""
        # The last column stays free: some terminals begin a line when it is filled.
        self._wrapper = Wrapper(lambda: columns_of(stream) - 1, cell_len(self._speaker))
        self._ends_line = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def __call__(self, text: str) -> None:
        """Show more of it."""
        self._show_speaker()
        for part, style in self._styler.feed(harmless(text)):
            self._show(self._wrapper.feed(part, style))
        self._stream.flush()

    def end(self) -> None:
        """Show what is left."""
        for part, style in self._styler.end():
            self._show(self._wrapper.feed(part, style))
        self._show(self._wrapper.end())
        if not self._ends_line:
            self._print("\n", "")
        self._stream.flush()

    def _show_speaker(self) -> None:
        if self._speaker:
            self._print(self._speaker, "bold")
            self._speaker = ""

    def _show(self, pieces: Iterable[Piece]) -> None:
        for style, alike in groupby(pieces, key=lambda piece: piece.style):
            self._print("".join(piece.shown for piece in alike), style)

    def _print(self, shown: str, style: str) -> None:
        if shown:
            self._ends_line = shown.endswith("\n")
            text = Text(shown, style=f"{self._style} {style}".strip(), end="")
            self._console.print(text, end="", soft_wrap=True)
