"""A real terminal, as wide as one likes, that a program runs in and whose screen can be read."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import pytest

from tests.support.writing import environment

TMUX = shutil.which("tmux")
needs_tmux = pytest.mark.skipif(TMUX is None, reason="needs tmux")
_PASSED_ON = ("FAMILIAR_", "PYTHON", "NO_COLOR", "PATH", "HOME")


class Tmux:
    """A terminal that runs `familiar` with these arguments; see what it shows, type, resize."""

    def __init__(
        self,
        *argv: str,
        columns: int = 80,
        rows: int = 40,
        stdout: Path | None = None,
        stderr: Path | None = None,
    ) -> None:
        self._socket = f"familiar-{os.getpid()}-{time.monotonic_ns()}"
        passed = {k: v for k, v in environment().items() if k.startswith(_PASSED_ON)}
        settings = [f"{name}={value}" for name, value in passed.items()]
        program = shlex.join(["env", *settings, sys.executable, "-m", "familiar_cli", *argv])
        into = f" > {shlex.quote(str(stdout))}" if stdout else ""
        into += f" 2> {shlex.quote(str(stderr))}" if stderr else ""
        size = ("-x", str(columns), "-y", str(rows))
        self._call(
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-s",
            "it",
            *size,
            f"{program}{into}; echo ENDED $?; cat",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._call("kill-server")

    @property
    def screen(self) -> str:
        """All that can be seen, and what has scrolled away, each line without trailing spaces."""
        return self._call("capture-pane", "-p", "-t", "it", "-S", "-1000")

    @property
    def styled(self) -> str:
        """The same, with the escape sequences that draw it."""
        return self._call("capture-pane", "-e", "-p", "-t", "it", "-S", "-1000")

    def type(self, text: str) -> None:
        self._call("send-keys", "-t", "it", "-l", text)

    def press(self, *keys: str) -> None:
        """Press keys by their names, such as Enter, C-c or M-Enter."""
        self._call("send-keys", "-t", "it", *keys)

    def say(self, line: str) -> None:
        self.type(line)
        self.press("Enter")

    def paste(self, text: str, *, bracketed: bool = True) -> None:
        """Paste as a terminal does, in brackets if it can and the program asks for them."""
        self._call("set-buffer", text)
        self._call("paste-buffer", *(["-p"] if bracketed else []), "-t", "it")

    def resize(self, columns: int, rows: int = 40) -> None:
        self._call("resize-window", "-t", "it", "-x", str(columns), "-y", str(rows))

    def see(self, text: str, times: int = 1, within_s: float = 30.0) -> str:
        """Wait until `text` stands on the screen so many times, and return all that does."""
        until = time.monotonic() + within_s
        while (screen := self.screen).count(text) < times:
            assert time.monotonic() < until, f"{text!r} is not on the screen:\n{screen}"
            time.sleep(0.05)
        return screen

    def see_prompt(self, within_s: float = 30.0) -> str:
        """Wait until the line editor waits for a line."""
        until = time.monotonic() + within_s
        while True:
            screen = self.screen
            lines = [line for line in screen.splitlines() if line.strip()]
            if any(line == ">" for line in lines[-3:]):
                return screen
            assert time.monotonic() < until, f"there is no prompt:\n{screen}"
            time.sleep(0.05)

    def _call(self, *argv: str) -> str:
        assert TMUX
        done = subprocess.run(
            [TMUX, "-u", "-L", self._socket, *argv], capture_output=True, text=True, check=False
        )
        return done.stdout
