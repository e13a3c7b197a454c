"""The page in headless Chromium, where there is one: nothing runs, nothing sticks out."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from familiar_cli.context.types import Layer
from familiar_cli.servers.web.html.page import page
from tests.servers.web.html.reading import Reading
from tests.servers.web.html.test_page import EVIL, evil
from tests.support.browsing import BROWSER, FLAGS
from tests.support.traces import piece, trace

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine")
NARROW = 400  # px


@pytest.fixture(scope="module")
def window():
    """A window that is as wide as a phone."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield browser.new_page(viewport={"width": NARROW, "height": 1600})
        browser.close()


@pytest.fixture
def shown(window, tmp_path):
    """Shows a page from its file."""

    def show(printed: str):
        (tmp_path / "page.html").write_text(printed, "utf-8")
        window.goto((tmp_path / "page.html").as_uri())
        return window

    return show


def test_a_browser_finds_the_same_elements_and_no_more(shown) -> None:
    printed = page(evil(EVIL))
    dom = shown(printed).content()

    def tags(text):
        return [tag for tag in Reading(text.replace("\r\n", "\n")).tags if tag != "tbody"]

    assert tags(dom) == tags(printed)
    assert "<script" not in dom


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out_on_a_phone(shown, scheme) -> None:
    long = "people/" + "名前が長い人" * 12 + "-and-a-very-long-latin-name-without-any-space" * 3
    pieces = (
        *trace(7).contributions,
        piece("content_search.people", layer=Layer.content, rel_path=f"{long}.md", text=long),
    )
    window = shown(page(trace(7, contributions=pieces, model=long, error=long)))
    window.emulate_media(color_scheme=scheme)
    shot = Image.open(io.BytesIO(window.screenshot())).convert("RGB")
    edge = {shot.getpixel((x, y)) for x in range(NARROW - 6, NARROW) for y in range(1600)}
    assert edge == {(21, 23, 27) if scheme == "dark" else (251, 250, 247)}
    assert len(shot.getcolors(maxcolors=NARROW * 1600)) > 20  # something is drawn
