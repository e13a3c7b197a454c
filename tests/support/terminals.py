"""Run a command in this process with streams of any kind: terminals, old code pages, pipes."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
from typing import Any

import typer.testing

from familiar_cli.cli.app import app
from tests.support.processes import Process
from tests.support.writing import environment


def call(argv, *, stdout, stderr=None, stdin=None) -> int:
    """Run a command on these streams and return its exit code."""
    old = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = stdin or _nothing(), stdout, stderr or stdout
    try:
        typer.testing._get_command(app)(list(argv))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stdin, sys.stdout, sys.stderr = old
    return 0


def _nothing() -> Any:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8")


def on_terminal(*argv: str) -> tuple[int, str]:
    """Run a command on a pseudo-terminal; return its exit code and all that the terminal got."""
    import pty

    main, other = pty.openpty()
    got: list[bytes] = []
    reader = threading.Thread(target=_read_all, args=(main, got))
    reader.start()
    with os.fdopen(other, "w", encoding="utf-8") as stream:
        code = call(argv, stdout=stream)
    reader.join()
    os.close(main)
    return code, b"".join(got).decode("utf-8", errors="backslashreplace")


def _read_all(descriptor: int, got: list[bytes]) -> None:
    with contextlib.suppress(OSError):  # the other end is closed
        while piece := os.read(descriptor, 65536):
            got.append(piece)


def encoded(encoding: str, *argv: str) -> tuple[int, bytes, bytes]:
    """Run a command into pipes of an encoding; return exit code, stdout and stderr."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    code = call(argv, stdout=out, stderr=err)
    out.flush(), err.flush()
    return code, out.buffer.getvalue(), err.buffer.getvalue()


def into_closed_pipe(*argv: str) -> tuple[int, str]:
    """Run a command whose reader has gone already; return its exit code and stderr."""
    reading, writing = os.pipe()
    os.close(reading)
    err = io.StringIO()
    stream = os.fdopen(writing, "w", encoding="utf-8")
    try:
        code = call(argv, stdout=stream, stderr=err)
    finally:
        with contextlib.suppress(BrokenPipeError):
            stream.close()
    return code, err.getvalue()


# Makes the pseudo-terminal its own, so that Ctrl-C typed there reaches it as a signal.
_OWNING_ITS_TERMINAL = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from familiar_cli.cli.app import main
main()
"""


def answering(*argv: str, prompt: str, answers: list[str], columns: int = 80) -> tuple[int, str]:
    """Run a command in a process on a pseudo-terminal, and type an answer at each prompt.

    Args:
        argv: The command.
        prompt: What the program prints before it wants an answer.
        answers: What is typed then, one at each prompt; "\\x03" is Ctrl-C, "\\x04" is Ctrl-D.
        columns: How wide the terminal is.

    Returns:
        The exit code, and all that the terminal got.
    """
    import fcntl
    import pty
    import struct
    import termios

    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with Process(
        [sys.executable, "-c", _OWNING_ITS_TERMINAL, *argv],
        stdin=other,
        stdout=other,
        stderr=other,
        start_new_session=True,
        env={**environment(), "TERM": "xterm-256color"},
    ) as process:
        os.close(other)
        got, typed = b"", 0
        with contextlib.suppress(OSError):  # the other end is closed
            while piece := os.read(main, 65536):
                got += piece
                if got.count(prompt.encode()) > typed < len(answers):
                    os.write(main, answers[typed].encode())
                    typed += 1
        os.close(main)
    return process.returncode, got.decode("utf-8", errors="backslashreplace").replace("\r\n", "\n")
