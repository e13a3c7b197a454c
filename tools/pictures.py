"""Draw the picture of a terminal for the README: a real chat with the model inside the program.

Run `python -m tools.pictures` in the repository. It needs tmux, Chromium and the extras `local` and
`dev`, and fetches the model if it is not on disk. Look at what it drew: a small model says
something else each time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.support.browsing import BROWSER, FLAGS
from tests.support.tmux import Tmux

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "chat.png"
QUESTION = "What is the name of my dog?"
COLUMNS, ROWS = 84, 24


def draw_chat(picture: Path) -> None:
    """Chat with the familiar of the demo, and draw the terminal into a PNG file."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / "demo"
        os.environ |= {"FAMILIAR_HOME": str(home)}
        _run_familiar("demo", "--dry-run", "--keep", str(home))
        _run_familiar("me", "--name", "Robin")
        _screenshot(_chat_screen(), picture)


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


def _screenshot(screen: str, picture: Path) -> None:
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
    console.print(Text.from_ansi(screen))
    svg = console.export_svg(title="familiar chat", theme=MONOKAI)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        page = chromium.new_page(viewport={"width": 1100, "height": 800})
        page.set_content(f"<body style='margin:0'>{svg}")
        page.locator("svg").screenshot(path=picture, omit_background=True)
        chromium.close()


if __name__ == "__main__":
    draw_chat(PICTURE)
