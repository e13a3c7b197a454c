"""SillyTavern as a person uses it: the real program, and a browser that clicks in it."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Page, sync_playwright
from playwright.sync_api import TimeoutError as TookTooLong

from tests.support.browsing import BROWSER, FLAGS
from tests.support.node import node
from tests.support.server import ChatServer, Received, Say, Step, closed_port
from tests.support.sillytavern import DataFolder

VERSION = {"sillytavern": "1.19.0"}
START_S = 180
"""The first start compiles the program's pages."""

_LINES = """SillyTavern.getContext().chat.map((m) =>
    [m.is_user || !m.extra?.type ? m.name : '', m.mes])"""
_EMPTY = "!document.querySelector('#send_textarea').value"
_LENGTH = "SillyTavern.getContext().chat.length"
_IDLE = """() => import('/script.js').then(({ isGenerating }) => !isGenerating()
    && !document.body.dataset.generating && !document.querySelector('.loader, #preloader'))"""


class Replies(ChatServer):
    """A model that numbers its replies, and takes its time where it is to be slow."""

    def take(self, received: Received) -> Step:
        self.requests.append(received)
        said = received.json()["messages"][-1]["content"]
        slow = Say("It was a dark and stormy night. " * 9, pause_s=0.25)
        return slow if "slowly" in said else Say(f"Reply {len(self.requests)}.")


class Tavern:
    """The page of a SillyTavern that runs, and its data folder."""

    def __init__(self, page: Page, data: DataFolder, model: Replies, url: str) -> None:
        self.page, self.data, self.model, self.url = page, data, model, url
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def js(self, code: str, *values: Any) -> Any:
        return self.page.evaluate(code, *values)

    def lines(self) -> list[tuple[str, str]]:
        """Return who says what in the chat that is shown."""
        return [(name, text) for name, text in self.js(_LINES)]

    @property
    def chat_id(self) -> str:
        return str(self.js("SillyTavern.getContext().chatId"))

    def settle(self) -> None:
        self.page.wait_for_function(_IDLE, timeout=20_000)

    def connect(self, **settings: Any) -> None:
        """Set what the extension knows of the server."""
        self.js(
            "(s) => Object.assign(SillyTavern.getContext().extensionSettings.familiar, s)", settings
        )

    def open(self, name: str) -> None:
        """Begin a new chat with a character."""
        code = """async (name) => {
            const it = SillyTavern.getContext();
            await it.getCharacters();
            const found = SillyTavern.getContext().characters.findIndex((c) => c.name === name);
            await it.selectCharacterById(found);
        }"""
        self.js(code, name)
        self.settle()

    def click(self, selector: str) -> None:
        """Click what may be shown only while the mouse is over its message."""
        self.js("(selector) => document.querySelector(selector).click()", selector)

    def agree(self) -> None:
        self.page.click(".popup-button-ok:visible")

    def open_group(self, name: str) -> None:
        self.js(
            """(name) => [...document.querySelectorAll('.group_select')]
                .find((row) => row.textContent.includes(name)).click()""",
            name,
        )
        self.page.wait_for_function("SillyTavern.getContext().groupId")
        self.page.wait_for_timeout(300)
        self.settle()

    def option(self, name: str) -> None:
        self.click(f"#option_{name}")
        self.page.wait_for_timeout(100)
        self.settle()

    def say(self, text: str, *, wait: bool = True) -> None:
        """Type into the box, and send it; a slash command is typed, too."""
        self.page.fill("#send_textarea", text)
        before = self.js(_LENGTH)
        self.click("#send_but")
        if wait:
            self._taken()
            if not text.startswith("/"):
                self.page.wait_for_function(f"{_LENGTH} >= {before + 2}")
            self.settle()

    def _taken(self) -> None:
        """Wait until SillyTavern took what was typed; it ignores a click while it tidies up."""
        for _ in range(9):
            try:
                self.page.wait_for_function(_EMPTY, timeout=1_000)
            except TookTooLong:
                self.settle()
                if not self.js(_EMPTY):
                    self.click("#send_but")
            else:
                return
        self.page.wait_for_function(_EMPTY)

    def begin(self, text: str) -> None:
        """Say the first line of a card, and take the familiar that is proposed for it."""
        before = self.js(_LENGTH)
        self.say(text, wait=False)
        self.agree()
        self.page.wait_for_function(f"{_LENGTH} >= {before + 2}")
        self.settle()

    def stop(self, text: str) -> None:
        self.say(text, wait=False)
        self.page.get_by_text("It was a dark").wait_for()
        self.click("#mes_stop")
        self.settle()

    def message(self, number: int) -> str:
        """Return the selector of a message; -1 is the newest."""
        if number < 0:
            number += self.js(_LENGTH)
        return f'#chat .mes[mesid="{number}"]'

    def swipe(self, way: str = "right") -> None:
        self.click(f".last_mes .swipe_{way}")
        self.page.wait_for_timeout(300)
        self.settle()

    def edit(self, number: int, text: str) -> None:
        place = self.message(number)
        self.click(f"{place} .mes_edit")
        self.page.fill("#curEditTextarea", text)
        self.click(f"{place} .mes_edit_done")
        self.settle()

    def delete(self, number: int) -> None:
        place = self.message(number)
        self.click(f"{place} .mes_edit")
        self.click(f"{place} .mes_edit_delete")
        button = self.page.locator(".popup-button-custom:visible, .popup-button-ok:visible")
        (button.first if button.count() else button).click()
        self.settle()

    def delete_from(self, number: int) -> None:
        self.option("delete_mes")
        self.click(f"{self.message(number)} .del_checkbox")
        self.click("#dialogue_del_mes_ok")
        self.settle()

    def branch(self, number: int, text: str) -> None:
        """Branch off at a message, and go on there."""
        before = self.chat_id
        self.click(f"{self.message(number)} .mes_create_branch")
        self.page.wait_for_function(
            "(before) => SillyTavern.getContext().chatId !== before", arg=before
        )
        self.settle()
        self.say(text)

    def checkpoint(self, number: int, name: str) -> None:
        self.click(f"{self.message(number)} .mes_create_bookmark")
        self.page.fill(".popup-input:visible", name)
        self.agree()
        self.settle()


@contextmanager
def tavern(program: Path, root: Path, data: DataFolder) -> Iterator[Tavern]:
    """Run SillyTavern with a data folder's characters, and a browser before it."""
    port = closed_port()
    url = f"http://127.0.0.1:{port}"
    config = (program / "default" / "config.yaml").read_text("utf-8")
    (root / "config.yaml").write_text(
        config.replace("skipContentCheck: false", "skipContentCheck: true"), "utf-8"
    )
    with Replies() as model, (root / "log").open("wb") as log:
        data.put("settings.json", _settings(program, model))
        options = ["--port", str(port), "--dataRoot", str(data.root.parent)]
        options += ["--configPath", str(root / "config.yaml"), "--browserLaunchEnabled", "false"]
        process = subprocess.Popen(
            [str(node()), "server.js", *options], cwd=program, stdout=log, stderr=log
        )
        try:
            _wait_for(url, process, root / "log")
            with sync_playwright() as play:
                browser = play.chromium.launch(executable_path=BROWSER, args=FLAGS)
                page = browser.new_page()
                page.set_default_timeout(10_000)
                page.goto(url, timeout=START_S * 1000)
                loaded = (
                    "globalThis.SillyTavern?.getContext && !document.querySelector('#preloader')"
                )
                page.wait_for_function(loaded, timeout=START_S * 1000)
                page.wait_for_function(
                    "SillyTavern.getContext().onlineStatus !== 'no_connection'", timeout=60_000
                )
                yield Tavern(page, data, model, url)
                browser.close()
        finally:
            process.terminate()
            process.wait(20)


def install_extension(data: DataFolder, source: Path) -> None:
    shutil.copytree(source, data.root / "extensions" / "familiar")


def _settings(program: Path, model: ChatServer) -> dict[str, Any]:
    """Return the settings of somebody called Robin whose model is at `model`."""
    path = program / "default" / "content" / "settings.json"
    found: dict[str, Any] = json.loads(path.read_bytes())
    found |= {"firstRun": False, "username": "Robin", "main_api": "openai"}
    found["power_user"] |= {"auto_connect": True, "reduced_motion": True, "swipes": True}
    found["oai_settings"] |= {
        "chat_completion_source": "custom",
        "custom_url": model.base_url,
        "custom_model": model.models[0],
        "stream_openai": True,
    }
    return found


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        try:
            httpx.get(url, timeout=5, trust_env=False)
        except httpx.HTTPError:
            assert process.poll() is None, log.read_text(errors="replace")[-2000:]
            time.sleep(0.2)
        else:
            return
    raise AssertionError(log.read_text(errors="replace")[-2000:])
