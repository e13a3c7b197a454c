"""Where the lines of a conversation come from: a person at a terminal, or a pipe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from familiar_cli.errors import UsageError
from familiar_cli.files import ON_WINDOWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROMPT = "> "


def is_terminal() -> bool:
    """Return whether a person can type here, and see what they type."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def typed_lines(past: Sequence[str]) -> Iterator[str]:
    """Yield what a person types, with line editing, until Ctrl-D; Ctrl-C drops a line.

    The prompt stands on stderr, so that stdout carries the replies alone.

    Args:
        past: What was said before, oldest first; the arrow keys lead back to it.
    """
    if ON_WINDOWS and not sys.stdout.isatty():  # its line editor needs stdout to be the console
        yield from _asked_lines()
        return
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import InMemoryHistory
    from prompt_toolkit.output import create_output

    session: PromptSession[str] = PromptSession(
        history=InMemoryHistory(past), output=create_output(stdout=sys.stderr)
    )
    while True:
        try:
            line = session.prompt(PROMPT)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        yield line


def _asked_lines() -> Iterator[str]:
    """Yield what a person types, without line editing."""
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
