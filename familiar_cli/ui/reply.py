"""A reply on stdout, piece by piece, as it comes."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from familiar_cli.text import harmless
from familiar_cli.ui.emit import exact

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from familiar_cli.ui.emit import Output


class ReplyPrinter:
    """Prints pieces of a reply, and ends it with a newline whatever happens.

    Args:
        silent: Print nothing.
        begun: What stands before the first piece.
    """

    def __init__(self, *, silent: bool = False, begun: str = "") -> None:
        self._silent = silent
        self._begun = begun
        self._last = ""

    def __call__(self, piece: str) -> None:
        """Print one piece."""
        if piece and not self._silent:
            exact(self._begun + piece)
            self._begun, self._last = "", piece

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._last and not self._last.endswith("\n"):
            exact("\n")


class SpokenReply:
    """Shows a reply to a person who waits for it: who is writing, then their words.

    Args:
        out: Where notes go meanwhile.
        name: Whose reply it is.
        begun: What stands before the first piece.
    """

    def __init__(self, out: Output, name: str, begun: str = "") -> None:
        from familiar_cli.ui.stream import StreamedText

        self._out = out
        self._begun = begun
        self._text = StreamedText(sys.stdout, name)
        self._waiting = f"{harmless(name)} is writing …"
        self._waits = False

    def __call__(self, piece: str) -> None:
        """Show one piece."""
        if piece:
            self._stop_waiting()
            self._text(self._begun + piece)
            self._begun = ""

    def note(self, text: str) -> None:
        """Tell what is going on before the reply comes."""
        self._stop_waiting()
        self._out.note(text)

    def __enter__(self) -> Self:
        from familiar_cli.ui.stream import columns_of
        from familiar_cli.ui.terminal import console, plain

        self._waits = True
        shown = plain(self._waiting, "dim")
        shown.truncate(columns_of(sys.stdout) - 1)
        console(sys.stdout).print(shown, end="", soft_wrap=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_waiting()
        self._text.end()
        exact("\n")

    def _stop_waiting(self) -> None:
        if self._waits:
            self._waits = False
            sys.stdout.write("\r\x1b[K")
            sys.stdout.flush()


@contextmanager
def keys_kept() -> Iterator[None]:
    """Keep what is typed meanwhile off the screen, for the line editor that comes next.

    Ctrl-C goes on to be heard.
    """
    try:
        import termios
    except ImportError:  # Windows
        yield
        return
    here = sys.stdin.fileno()
    before = termios.tcgetattr(here)
    quiet = termios.tcgetattr(here)
    quiet[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(here, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(here, termios.TCSANOW, before)
