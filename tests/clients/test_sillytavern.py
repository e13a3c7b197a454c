"""The real SillyTavern in a browser: after each action, each line of its chat is what was kept."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api")

from tests.support.browsing import BROWSER
from tests.support.node import installed, node
from tests.support.pages import ROOT
from tests.support.serving import serving
from tests.support.sillytavern import DataFolder
from tests.support.tavern import VERSION, Tavern, install_extension, tavern
from tests.support.world import run

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine"),
    pytest.mark.skipif(node() is None, reason="there is no Node on this machine"),
]
EXTENSION = ROOT / "integrations" / "sillytavern"
PATIENCE_S = 5.0
LOG = logging.getLogger(__name__)


@pytest.fixture
def program(request) -> Path:
    """Where SillyTavern is; a machine fetches it once."""
    found = installed(Path(request.config.cache.mkdir("sillytavern")), VERSION)
    if found is None:
        pytest.skip("the package index of Node cannot be reached")
    return found / "sillytavern"


@pytest.fixture
def client(program, tmp_path) -> Iterator[Tavern]:
    folder = DataFolder(tmp_path / "data" / "default-user")
    for name in ("Ada", "Bo", "Cleo"):
        folder.character(name)
    install_extension(folder, EXTENSION)
    with tavern(program, tmp_path, folder) as found:
        yield found


class Steps:
    """Does one action after another, and lays the client's chat beside what was kept of it."""

    def __init__(self, client: Tavern) -> None:
        self.client = client
        self.differences: list[str] = []
        self._thread = ThreadPoolExecutor(1)  # Playwright has an event loop in this one

    def command(self, *argv: str) -> None:
        result = self._thread.submit(run, *argv).result()
        assert result.exit_code == 0, result.output

    def kept(self, channel: str) -> list[tuple[str, str]]:
        argv = ("history", "show", "--channel", channel, "--familiar", "ada", "--json")
        result = self._thread.submit(run, *argv).result()
        if result.exit_code == 4:  # nothing was ever said there
            return []
        turns = json.loads(result.stdout)["data"]["turns"]
        return [(_name(turn), turn["content"]) for turn in turns]

    def __call__(self, what: str, act: Callable[..., object], *values: object) -> None:
        before = time.monotonic()
        act(*values)
        until = time.monotonic() + PATIENCE_S
        while (found := self._compare()) and time.monotonic() < until:
            self.client.page.wait_for_timeout(50)
        if found:
            self.differences.append(f"{what}: {found}")
        LOG.info("%s: %.1f s %s", what, time.monotonic() - before, found)

    def _compare(self) -> str:
        shown = self.client.lines()
        kept = self.kept(f"sillytavern-{self.client.chat_id}")
        return "" if shown == kept else f"\n  shown {shown}\n  kept  {kept}"


def _name(turn: dict) -> str:
    author = turn["author"]
    return author["display_name"] if author else "Ada" if turn["role"] == "assistant" else ""


def test_what_a_person_does_in_sillytavern_is_what_is_kept(client) -> None:
    step = Steps(client)
    step.command("import-sillytavern", str(client.data.root))
    with serving(origins=(client.url,)) as server:
        client.connect(address=server.url)
        client.open("Ada")
        step("send", client.say, "Hello")
        step("send again", client.say, "The lighthouse is lit.")
        step("swipe", client.swipe)
        step("regenerate", client.option, "regenerate")
    assert not step.differences, "\n".join(step.differences)
    assert not client.complaints
