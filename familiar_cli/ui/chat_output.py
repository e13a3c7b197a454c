"""Where the words of a chat go: what the program tells is dim, and wrapped between words."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.ui.emit import Output, print_error

if TYPE_CHECKING:
    from familiar_cli.errors import FamiliarError

_DIM: Final = "dim"


@dataclass(frozen=True, slots=True)
class ChatOutput(Output):
    """The words of a chat with a person."""

    def note(self, text: str) -> None:
        """Tell what is going on, on stderr."""
        if self.quiet or not sys.stderr.isatty():
            Output.note(self, text)
        else:
            _print(text, _DIM)


def tell_error(error: FamiliarError) -> None:
    """Tell of an error, and what to do about it; the chat goes on."""
    if not sys.stderr.isatty():
        print_error(error)
        return
    _print(f"error: {error}", "red")
    if error.hint:
        _print(f"hint: {error.hint}", _DIM)


def _print(text: str, style: str) -> None:
    from familiar_cli.ui.stream_text import print_wrapped

    print_wrapped(sys.stderr, text, style)
