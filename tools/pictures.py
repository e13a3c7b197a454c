"""Draw the README's pictures: a real chat with the model inside the program, and its page.

Run `python -m tools.pictures` in the repository. It needs tmux, Chromium and the extras `local` and
`dev`, and fetches the model if it is not on disk. Look at what it drew: a small model says
something else each time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.support.browsing import BROWSER, FLAGS
from tests.support.tmux import Tmux

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

PICTURES = Path(__file__).parent.parent / "docs" / "images"
QUESTION = "What is the name of my dog?"
COLUMNS, ROWS = 84, 24
REPLY_TURN = 3  # after the greeting and the question


def draw_all(directory: Path) -> None:
    """Chat with the familiar of the demo, and draw the terminal and the page of the reply."""
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "demo"
        os.environ |= {"FAMILIAR_HOME": str(home)}
        _run_familiar("demo", "--dry-run", "--keep", str(home))
        _run_familiar("me", "--name", "Robin")
        _draw_terminal(_chat_screen(), directory / "chat.png")
        _draw_page(directory / "turn.png")


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
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
    console.print(Text.from_ansi(screen))
    svg = console.export_svg(title="familiar chat", theme=MONOKAI)
    with _open_page(1100, 800) as page:
        page.set_content(f"<body style='margin:0'>{svg}")
        page.locator("svg").screenshot(path=picture, omit_background=True)


def _draw_page(picture: Path) -> None:
    """Draw the page of the reply."""
    command = [sys.executable, "-m", "familiar_cli", "web", "--port", "0", "--no-open", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            link = json.loads(server.stdout.readline())["data"]["url"]
            with _open_page(1200, 860) as page:
                page.goto(link)
                page.goto(f"{link.partition('/?')[0]}/turns/{REPLY_TURN}")
                page.screenshot(path=picture)
        finally:
            server.terminate()


@contextmanager
def _open_page(width: int, height: int) -> Iterator[Page]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield chromium.new_page(viewport={"width": width, "height": height})
        chromium.close()


if __name__ == "__main__":
    draw_all(PICTURES)
