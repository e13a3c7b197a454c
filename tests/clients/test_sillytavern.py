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

from familiar_cli.base.text import slugify
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
IN_TURN = {"activation_strategy": 1, "generation_mode": 0, "disabled_members": []}
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
    group = folder.group("Pier", ["Ada.png", "Bo.png", "Cleo.png"], ["at-night"])
    group.write_text(json.dumps(json.loads(group.read_text()) | IN_TURN))
    install_extension(folder, EXTENSION)
    with tavern(program, tmp_path, folder) as found:
        yield found


class Steps:
    """Does one action after another, and lays the client's chat beside what was kept of it."""

    def __init__(self, client: Tavern) -> None:
        self.client = client
        self.differences: list[str] = []
        self.familiars: tuple[str, ...] = ("ada",)
        self._thread = ThreadPoolExecutor(1)  # Playwright has an event loop in this one

    def command(self, *argv: str) -> None:
        result = self._thread.submit(run, *argv).result()
        assert result.exit_code == 0, result.output

    def kept(self, familiar: str) -> list[tuple[str, str]]:
        """Return who says what in the channel of the chat that is shown."""
        group = self.client.js(_GROUP)
        channel = "-".join(filter(None, (slugify(group), slugify(self.client.chat_id))))
        argv = ("history", "show", "--channel", channel, "--familiar", familiar, "--json")
        result = self._thread.submit(run, *argv).result()
        if result.exit_code == 4:  # nothing was ever said there
            return []
        name = familiar.capitalize()
        turns = json.loads(result.stdout)["data"]["turns"]
        return [(_speaker(turn, name), turn["content"]) for turn in turns]

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
        for familiar in self.familiars:
            kept = self.kept(familiar)
            if shown != kept:
                return f"{familiar}\n  shown {shown}\n  kept  {kept}"
        return ""


_GROUP = """(() => {
    const { groups, groupId } = SillyTavern.getContext();
    return groups.find((group) => group.id === groupId)?.name ?? '';
})()"""


def _speaker(turn: dict, name: str) -> str:
    author = turn["author"]
    return author["display_name"] if author else name if turn["role"] == "assistant" else ""


def test_what_a_person_does_in_sillytavern_is_what_is_kept(client) -> None:
    step = Steps(client)
    step.command("import-sillytavern", str(client.data.root))
    with serving(origins=(client.url,)) as server:
        client.connect(address=server.url)
        client.open("Ada")
        step("send", client.begin, "Hello")
        step("send again", client.say, "The lighthouse is lit.")
        step("swipe", client.swipe)
        step("back to the first swipe", client.swipe, "left")
        step("regenerate", client.option, "regenerate")
        step("edit the past", client.edit, 1, "Good evening")
        step("edit a past reply", client.edit, 2, "Reply, edited.")
        step("edit the present", client.edit, -1, "Last reply, edited.")
        step("continue", client.option, "continue")
        step("go on", client.say, "And the harbour?")
        step("impersonate", client.option, "impersonate")
        step("clear", client.page.fill, "#send_textarea", "")
        step("checkpoint", client.checkpoint, 2, "Mark")
        step("delete in the middle", client.delete, 3)
        step("delete at the end", client.delete_from, 5)
        step("stop", client.stop, "Tell it slowly.")
        step("go on after it", client.say, "Enough.")
        step("somebody else", client.say, "/sendas name=Bo I heard that.")
        step("narrator", client.say, "/sys The wind turns.")
        step("persona", client.say, "/persona-set mode=temp Jo")
        step("say as another persona", client.say, "Jo here.")
        step("branch", client.branch, 2, "Elsewhere, then.")
        client.connect(enabled=False)
        client.say("Nobody keeps this yet.")
        client.connect(enabled=True)
        step("on again", client.say, "Now it is kept.")
        step("import", step.command, "import-sillytavern", str(client.data.root))
        client.open("Bo")
        step.familiars = ("bo",)
        step("another character", client.begin, "Hello")
        client.open_group("Pier")
        step.familiars = ("ada", "bo", "cleo")
        step("a group of three", client.begin, "Good evening, all.")
        step("narrator in the group", client.say, "/sys A ship passes.")
        step("the group goes on", client.say, "Did you see it?")
        step("import after it", step.command, "import-sillytavern", str(client.data.root))
    assert not step.differences, "\n".join(step.differences)
    assert not client.complaints
