"""A reply on stdout, piece by piece, as it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.ui.emit import exact

if TYPE_CHECKING:
    from typing import Self


class ReplyPrinter:
    """Prints pieces of a reply, and ends it with a newline whatever happens.

    Args:
        silent: Print nothing.
    """

    def __init__(self, *, silent: bool = False) -> None:
        self._silent = silent
        self._last = ""

    def __call__(self, piece: str) -> None:
        """Print one piece."""
        if piece and not self._silent:
            self._last = piece
            exact(piece)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._last and not self._last.endswith("\n"):
            exact("\n")
