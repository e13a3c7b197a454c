"""Draw the pictures of the documentation from what the program really prints and shows.

    python -m tools.pictures commands   # the output of commands, and the pictures of the code
    python -m tools.pictures            # a chat with the model inside the program, and pages

The first are the same on every run, and a test compares them. The second need tmux, Chromium and
the extras `local` and `dev`, and fetch the model if it is not on disk. Look at what they drew: a
small model says something else each time.
"""

from __future__ import annotations

import io
import json
import os
import platform
import re
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.golden.record import EXAMPLES, ROOT, Outcome, Player
from tests.support.browsing import BROWSER, FLAGS
from tests.support.tmux import Tmux
from tools.architecture import draw_architecture

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

PICTURES = ROOT / "docs" / "images"
SCRIPT = PICTURES / "commands.txt"
QUESTION = "What is the name of my dog?"
COLUMNS, ROWS = 84, 24
REPLY_TURN = 3  # after the greeting and the question
DAY = "2025-11-14"
LEARNED = (
    "# Robin",
    "- Had lost a red scarf that Robin's grandmother knitted. <!-- turns 2 -->",
    "- The scarf smells of oranges, and hums in E flat. <!-- turns 4, 7 -->",
    "- Teaches cello in Ashford on Thursdays. <!-- turns 9 -->",
    "- Sent a card to Inspector, the heron. <!-- turns 11 -->",
)
WIDE = 96
"""Columns of a picture of a command."""
LONGEST = 42
"""Lines of one; the rest of longer output is left out."""

_NAMED = re.compile(r"# picture (\S+)")
_SVG = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""Rich's frame without its fonts, which a browser would have to fetch."""


class Photographer(Player):
    """Plays a script as on a terminal with colours."""

    def _run(self, number: int, argv: str) -> Outcome:
        os.environ.pop("NO_COLOR", None)
        os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": str(WIDE)}
        on_terminal = lambda stream: stream.name == "<stdout>"  # noqa: E731
        with patch("typer.testing._NamedTextIOWrapper.isatty", on_terminal, create=True):
            return super()._run(number, argv)

    def _neutral(self, text: str) -> str:
        for value, name in {
            str(self._world / self._home): "~/familiars",
            str(self._world): "~/.cache/familiar",
            str(EXAMPLES): "examples",
            f"{platform.python_version()} on {platform.system()}": "3.13.1 on Linux",
            sqlite3.sqlite_version: "3.46.1",
        }.items():
            text = text.replace(value, name)
        return re.sub(r"(?<=127\.0\.0\.1:)\d+", "8080", text)


def draw_commands() -> dict[str, str]:
    """Run the script of pictures and return each picture as SVG, by its name."""
    script = SCRIPT.read_text("utf-8")
    lines = script.splitlines()
    with tempfile.TemporaryDirectory(prefix="golden-", dir="/tmp") as world:
        played = Photographer(Path(world).resolve()).play(script)
    wrong = [f"familiar {done.argv}: {done.output}" for done in played if done.exit_code]
    if wrong:
        raise SystemExit("\n".join(wrong))
    named = ((_NAMED.fullmatch(lines[done.line - 2]), done) for done in played)
    return {match[1]: _frame(done, match[1]) for match, done in named if match}


def _frame(done: Outcome, name: str) -> str:
    command = f"familiar {done.argv.replace('EXAMPLES', 'examples')}"
    lines = done.output.rstrip().splitlines()
    cut = [*lines[:LONGEST], "…"] if len(lines) > LONGEST else lines
    shown = Text.from_ansi("\n".join(cut))
    return draw_text(Text.assemble((f"$ {command}\n", "bold"), shown), "familiar", name, WIDE)


def draw_text(text: Text, title: str, name: str, width: int) -> str:
    """Return `text` as SVG, in the frame of a terminal."""
    console = Console(record=True, width=width, file=io.StringIO(), color_system="truecolor")
    console.print(text)
    svg = console.export_svg(title=title, theme=MONOKAI, code_format=_SVG, unique_id=name)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def draw_all(directory: Path) -> None:
    """Draw a chat, the page of its reply, and memory as it was on a day, after some imports."""
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "demo"
        os.environ |= {"FAMILIAR_HOME": str(home)}
        _run_familiar("demo", "--dry-run", "--keep", str(home))
        _run_familiar("me", "--name", "Robin")
        _draw_terminal(_chat_screen(), directory / "chat.png")
        _draw_page(directory / "turn.png", f"turns/{REPLY_TURN}")
        os.environ |= {"FAMILIAR_HOME": str(Path(scratch) / "past")}
        _run_familiar("init", "--from-card", str(EXAMPLES / "cards" / "yuzu.png"))
        _run_familiar("me", "--name", "Robin")
        _run_familiar("import", str(EXAMPLES / "chats"))
        for line in LEARNED:
            _run_familiar("memory", "append", "people/cli-user.md", line)
        _draw_page(directory / "as-of.png", f"as-of?at={DAY}")


def _run_familiar(*argv: str) -> None:
    subprocess.run([sys.executable, "-m", "familiar_cli", *argv], check=True, capture_output=True)


def _chat_screen() -> str:
    with Tmux("chat", columns=COLUMNS, rows=ROWS) as terminal:
        terminal.see_prompt()
        terminal.say(QUESTION)
        terminal.see("✦", within_s=300)
        terminal.see_prompt()
        terminal.say("/why")
        terminal.see("I used")
        terminal.see_prompt()
        return terminal.styled.rstrip()


def _draw_terminal(screen: str, picture: Path) -> None:
    svg = draw_text(Text.from_ansi(screen), "familiar chat", "chat", COLUMNS)
    with _open_page(1100, 800) as page:
        page.set_content(f"<body style='margin:0'>{svg}")
        page.locator("svg").screenshot(path=picture, omit_background=True)


def _draw_page(picture: Path, path: str) -> None:
    """Draw a page of the familiar."""
    command = [sys.executable, "-m", "familiar_cli", "web", "--port", "0", "--no-open", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            link = json.loads(server.stdout.readline())["data"]["url"]
            with _open_page(1200, 860) as page:
                page.goto(link)
                page.goto(f"{link.partition('/?')[0]}/{path}")
                page.screenshot(path=picture)
        finally:
            server.terminate()


@contextmanager
def _open_page(width: int, height: int) -> Iterator[Page]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # only for a browser

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield chromium.new_page(viewport={"width": width, "height": height})
        chromium.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["commands"]:
        for name, svg in (draw_commands() | draw_architecture()).items():
            (PICTURES / f"{name}.svg").write_text(svg, "utf-8")
    else:
        draw_all(PICTURES)
