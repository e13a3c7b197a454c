"""Private conversations have sessions, days, weeks, months and digests that only they can see."""

from __future__ import annotations

import json
import re
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import NOBODY
from familiar_cli.llm.types import Completion, ScriptedModel
from familiar_cli.store.history.store import HistoryStore
from familiar_cli.store.memory.pages.visible_lines import visible_in
from tests.support.cases import copy_home, shared_world
from tests.support.clients import asking, called
from tests.support.world import data, live, run
from tests.writing.consolidation.support import sources_in

ANNA, BO = Author("discord", "1", "anna", "Anna"), Author("discord", "2", "bo", "Bo")
TURN = re.compile(r"^\[(\d+)\] \w+ (\S+) \S+ (\w+): (.*)$", re.MULTILINE)
SESSION = re.compile(r"^- (sessions/\S+\.md): turns ([\d, -]+)$", re.MULTILINE)
WORDS = re.compile(r"\w+ \w+ \w+ number \d+ in the [\w ]+\.")
SETTINGS = """\
timezone = "UTC"
[llm]
preset = "custom"
base_url = "http://127.0.0.1:9/v1"
model = "m"
[memory_writer]
auto = "off"
batch_turns = 6
"""
SECRET = re.compile("zither|bassoon", re.IGNORECASE)


class Keeper(ScriptedModel):
    """Sums up each session in the words of its turns, and each period in those of its sources."""

    def __init__(self):
        super().__init__([], context_tokens=16_000)

    async def complete(self, request, on_text=None):
        self.requests.append(request)
        user = json.loads(request.body)["messages"][-1]["content"]
        text = self._operations(user) if "<turns>" in user else self._summary(user)
        return Completion(text, "stop", self.name, None)

    def _summary(self, user):
        points = [
            {"text": " ".join(dict.fromkeys(WORDS.findall(text))), "from": [number]}
            for number, _, text in sources_in(user)
        ]
        return json.dumps({"summary": "It went on.", "points": points})

    def _operations(self, user):
        said = {int(n): f"{who} said: {words}" for n, _, who, words in TURN.findall(user)}
        found = []
        for path, spans in SESSION.findall(user):
            ids = [n for n in said if _is_among(n, spans)]
            line = " ".join(said[n] for n in ids)
            found.append({"op": "set_summary", "file": path, "lines": [line], "turns": ids})
        return json.dumps({"operations": found})


def _is_among(number: int, spans: str) -> bool:
    ends = (span.partition("-") for span in spans.split(", "))
    return any(int(a) <= number <= int(b or a) for a, _, b in ends)


@pytest.fixture
def model(monkeypatch):
    keeper = Keeper()
    monkeypatch.setattr("familiar_cli.llm.open.open_model", lambda *_, **__: keeper)
    return keeper


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    world = tmp_path_factory.mktemp("lived")
    with shared_world(world) as patches:
        patches.setattr("familiar_cli.llm.open.open_model", lambda *_, **__: Keeper())
        live_three_weeks()
    return world


@pytest.fixture
def root(lived, model):
    """A familiar that Anna and Bo each told of something in private, and of bread in public."""
    return copy_home(lived) / "ada"


def live_three_weeks() -> None:
    made = live("ada")
    (made / "character.toml").write_text(SETTINGS, encoding="utf-8")
    with closing(HistoryStore(made / "history.db")) as history:
        for week in range(3):
            at = datetime(2026, 3, 4, 18, tzinfo=UTC) + timedelta(weeks=week)
            for place, who, what in (
                ("anna-dm", ANNA, f"I tuned zither number {week} in the attic."),
                ("bo-dm", BO, f"I oiled bassoon number {week} in the shed."),
                ("town", ANNA, f"We baked loaf number {week} in the square."),
            ):
                history.append(place, "user", what, author=who, at=at)
                history.append(place, "assistant", "I will remember.", at=at)
    run("channel", "set", "town", "--kind", "text")
    for place in ("anna-dm", "bo-dm"):
        run("channel", "set", place, "--kind", "dm")
    assert run("write-memory", "--newest").exit_code == 0
    assert run("consolidate").exit_code == 0
    for name in ("short", "mid"):
        assert run("distill", name).exit_code == 0


def prompt(channel: str, who: str, question: str) -> str:
    shown = data("ask", question, "--channel", channel, "--as", who, "--dry-run")
    return json.dumps(shown)


def test_a_private_conversation_has_a_timeline_of_its_own(root) -> None:
    found = {path.relative_to(root / "memory").as_posix() for path in root.rglob("*.md")}
    for person in ("@discord-1", "@discord-2"):
        assert f"sessions/{person}/2026-03-04-evening.md" in found
        assert f"weekly/{person}/2026-W10.md" in found
        assert f"monthly/{person}/2026-03.md" in found
        assert f"digest/{person}/mid.md" in found
    march = (root / "memory/monthly/@discord-1/2026-03.md").read_text("utf-8")
    assert "zither number 2" in march
    assert "bassoon" not in march
    assert "loaf" not in march


def test_nobody_else_is_shown_any_of_it(root) -> None:
    for path in (root / "memory").rglob("*.md"):
        text = visible_in(path.read_text("utf-8"), NOBODY)
        assert not SECRET.search(text), path
    public = (root / "memory/monthly/2026-03.md").read_text("utf-8")
    assert "loaf number 2" in public


def test_the_month_answers_whose_it_is_and_nobody_else(root) -> None:
    asked = "What happened in March 2026?"
    own = prompt("anna-dm", "discord:1", asked)
    assert all(f"zither number {week}" in own for week in range(3))
    # A month that says no more than its weeks gives way to them, as that of the town does.
    assert "weekly/@discord-1/2026-W10.md" in own
    assert "digest/@discord-1/short.md" in own
    assert "bassoon" not in own
    assert "loaf" in own
    others = prompt("bo-dm", "discord:2", asked)
    assert "bassoon number 2" in others
    assert "zither" not in others
    assert "@discord-1" not in others
    for channel, who in (("town", "discord:1"), ("town", "discord:2"), ("new", "discord:3")):
        assert not SECRET.search(prompt(channel, who, asked)), (channel, who)


async def test_programs_do_not_hear_of_the_days_either(root) -> None:
    private = "monthly/@discord-1/2026-03.md"
    async with asking() as client:
        listed = str(await called(client, "memory_list", limit=200))
        assert "monthly/2026-03.md" in listed
        assert "@discord" not in listed
        for tool, arguments in (
            ("memory_read", {"path": private}),
            ("memory_search", {"query": "number 2 in the attic"}),
            ("memory_update", {"path": private, "content": "# March\n\nNothing."}),
            ("memory_consolidate", {}),
        ):
            told = str(await client.call_tool(tool, arguments))
            assert not SECRET.search(told), tool
            assert "weekly/@" not in told, tool
    async with asking(channel_id="anna-dm") as client:
        assert "zither number 2" in str(await called(client, "memory_read", path=private))
        assert "@discord-2" not in str(await called(client, "memory_list", limit=200))


def test_a_private_period_is_made_again_when_its_session_changes_and_no_other(root, model) -> None:
    path = root / "memory/sessions/@discord-1/2026-03-04-evening.md"
    path.write_text(path.read_text("utf-8").replace("attic", "cellar"), encoding="utf-8")
    model.requests.clear()
    made = [one["rel_path"] for one in data("consolidate")["done"]]
    assert {one.partition("/")[0] for one in made} == {"daily", "weekly", "monthly"}
    assert all("/@discord-1/" in one for one in made)
    assert len(model.requests) == 2
    week = (root / "memory/weekly/@discord-1/2026-W10.md").read_text("utf-8")
    assert "cellar" in week
    assert visible_in(week.partition("---\n")[2].partition("---\n")[2], NOBODY).strip() == ""


def test_a_plan_for_a_private_period_stands_beside_the_public_one_and_is_applied(root) -> None:
    for path in ("@discord-1/2026-03-04-evening.md", "2026-03-04-evening.md"):
        session = root / "memory/sessions" / path
        text = session.read_text("utf-8")
        session.write_text(text.replace(" in the ", " in the cold "), encoding="utf-8")
    held = data("consolidate", "--review")["held"]
    plans = [one["plan_id"] for one in held]
    assert len(set(plans)) == len(plans) == 2
    assert {one["period"] for one in held} == {"2026-W10", "2026-W10 in @discord-1"}
    for plan in plans:
        assert run("review", "apply", plan, "--all").exit_code == 0
    week = (root / "memory/weekly/@discord-1/2026-W10.md").read_text("utf-8")
    assert "in the cold attic" in week
    assert visible_in(week.partition("---\n# ")[2], NOBODY) == ""
    assert data("consolidate")["done"][0]["rel_path"].startswith("monthly/")
