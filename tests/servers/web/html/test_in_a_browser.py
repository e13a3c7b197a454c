"""The page in headless Chromium, where there is one: nothing runs, nothing sticks out."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from PIL import Image

from familiar_cli.context.types import Layer
from familiar_cli.servers.web.html.page import page
from tests.servers.web.html.reading import Reading
from tests.servers.web.html.test_page import EVIL, evil
from tests.support.traces import piece, trace

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
)
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine")
NARROW = 400  # px; a window itself may not be so narrow, a frame may


def browse(tmp_path, *more: str) -> bytes:
    argv = [BROWSER, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *more]
    return subprocess.run(argv, capture_output=True, timeout=60, check=True).stdout


def picture(tmp_path, made, *, dark: bool = False) -> Image.Image:
    """Return how a page looks in a frame that is as wide as a phone."""
    (tmp_path / "page.html").write_text(page(made), "utf-8")
    frame = f'<iframe src="page.html" width={NARROW} height=1600 style="border:0"></iframe>'
    (tmp_path / "frame.html").write_text(f'<body style="margin:0">{frame}', "utf-8")
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    browse(
        tmp_path,
        *scheme,
        "--window-size=600,1600",
        f"--screenshot={tmp_path / 'shot.png'}",
        (tmp_path / "frame.html").as_uri(),
    )
    return Image.open(tmp_path / "shot.png").convert("RGB").crop((0, 0, NARROW, 1600))


def test_a_browser_finds_the_same_elements_and_no_more(tmp_path) -> None:
    printed = page(evil(EVIL))
    (tmp_path / "page.html").write_text(printed, "utf-8")
    dom = browse(tmp_path, "--dump-dom", (tmp_path / "page.html").as_uri()).decode("utf-8")

    def tags(text):
        return [tag for tag in Reading(text.replace("\r\n", "\n")).tags if tag != "tbody"]

    assert tags(dom) == tags(printed)
    assert "<script" not in dom


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_sticks_out_on_a_phone(tmp_path, dark) -> None:
    long = "people/" + "名前が長い人" * 12 + "-and-a-very-long-latin-name-without-any-space" * 3
    pieces = (
        *trace(7).contributions,
        piece("content_search.people", layer=Layer.content, rel_path=f"{long}.md", text=long),
    )
    shot = picture(tmp_path, trace(7, contributions=pieces, model=long, error=long), dark=dark)
    edge = {shot.getpixel((x, y)) for x in range(NARROW - 6, NARROW) for y in range(1600)}
    assert edge == {(21, 23, 27) if dark else (251, 250, 247)}
    assert len(shot.getcolors(maxcolors=NARROW * 1600)) > 20  # something is drawn
