"""Tell a program of the person's own that a digest was made."""

from __future__ import annotations

import subprocess  # a command that the person set, as a list, without a shell
from typing import TYPE_CHECKING

from familiar_cli.config.environment import found_program

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN_CHARS = 200
_SCRIPTS = (".bat", ".cmd")
# Windows has a shell read the words of such a script, and the message may hold a name from a card.
_SIGNS = str.maketrans(dict.fromkeys('"%!^&|<>()\r\n', " "))


def notify(command: Sequence[str], message: str, *, timeout_s: float) -> str:
    """Run `command` with `message` as its last argument; return what went wrong, or nothing.

    It runs without a shell, reads nothing, and is ended when it takes too long.

    Args:
        command: A program and its arguments; empty: nothing is run.
        message: What to tell.
        timeout_s: Longest it may take.
    """
    if not command:
        return ""
    program = found_program(command)
    if program[0].lower().endswith(_SCRIPTS):
        message = message.translate(_SIGNS)
    try:
        done = subprocess.run(  # noqa: S603
            [*program, message],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"The notification {command[0]!r} took longer than {timeout_s:g} s and was ended"
    except (OSError, ValueError) as error:
        return f"The notification {command[0]!r} could not be run: {error}"
    if done.returncode:
        said = " ".join(done.stderr.decode("utf-8", errors="replace").split())[:_SHOWN_CHARS]
        return f"The notification {command[0]!r} failed with {done.returncode}: {said}"
    return ""
