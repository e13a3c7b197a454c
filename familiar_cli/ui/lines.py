"""Where the lines of a conversation come from: a person at a terminal, or a pipe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from familiar_cli.errors import UsageError
from familiar_cli.files import ON_WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterator

PROMPT = "> "


def can_edit() -> bool:
    """Return whether there is line editing; on Windows it needs stdout to be the console."""
    return not ON_WINDOWS or sys.stdout.isatty()


def is_terminal() -> bool:
    """Return whether a person can type here, and see what they type."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def asked_lines() -> Iterator[str]:
    """Yield what a person types where there is no line editing, until Ctrl-D."""
    while True:
        sys.stderr.write(PROMPT)
        sys.stderr.flush()
        try:
            line = sys.stdin.readline()
        except KeyboardInterrupt:
            sys.stderr.write("\n")
            continue
        if not line:
            return
        yield line.rstrip("\r\n")


def piped_lines() -> Iterator[str]:
    """Yield the lines of standard input.

    Raises:
        UsageError: A line is not UTF-8.
    """
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise UsageError(
                f"Line {number} of standard input is not UTF-8 text; it was not sent"
            ) from error
