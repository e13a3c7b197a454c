"""What is said or named in private channels alone occurs in nothing that belongs to none."""

from __future__ import annotations

import json
import re
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import NOBODY
from familiar_cli.llm.types import Completion, ScriptedModel
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.memory.pages.visible_lines import visible_in
from familiar_cli.writing.writer.prompts import PRIVATE
from tests.support.cases import IS_NIGHT
from tests.support.world import live, run
from tests.writing.consolidation.support import rule_reply

SETTINGS = """\
timezone = "UTC"
[llm]
preset = "custom"
base_url = "http://127.0.0.1:9/v1"
model = "m"
[history]
recent_turns = 2
summary_every = 1
[memory_writer]
auto = "off"
batch_turns = 3
"""
PRIVATE_CHANNELS = ("dm", "group")
VEILED = re.compile(r"veiled\w*", re.IGNORECASE)
TURN = re.compile(
    r"^\[(\d+)\] \w{3} \S+ \S+ (?:#\S+ |DM:\S+ |GroupDM:\S+ )?([^:\n]+): (.*)$", re.MULTILINE
)
FILE = re.compile(r"^- ((?:people|sessions)/\S+\.md)", re.MULTILINE)


class Gossip(ScriptedModel):
    """Writes all that it is told into every file that it hears of, names above all."""

    def __init__(self):
        super().__init__([], context_tokens=32_000, max_tokens=2048)

    async def complete(self, request, on_text=None):
        self.requests.append(request)
        user = messages_of(request)[-1]["content"]
        if "<turns>" in user:
            text = json.dumps({"operations": _operations(user)})
        elif "<source" in user:
            text = rule_reply(user)
        else:
            text = " ".join(re.findall(r"\w+", user))[-600:] or "Well."
        if on_text:
            on_text(text)
        return Completion(text, "stop", self.name, None)


def _operations(user: str) -> list[dict[str, object]]:
    turns = TURN.findall(user)
    ids, names = [int(n) for n, _, _ in turns], [who for _, who, _ in turns]
    lines = [f"{who} says {words}" for _, who, words in turns]
    found: list[dict[str, object]] = []
    for path in dict.fromkeys(FILE.findall(user)):
        found += [
            {"op": op, "file": path, "lines": text, "turns": ids}
            for op, text in (
                ("set_summary", lines),
                ("add_bullets", lines),
                ("add_aliases", names),
                ("replace_section", lines),
            )
        ]
    about = f"topics/{'-'.join(names[:1]) or 'x'}.md"
    return [*found, {"op": "create", "file": about, "lines": lines, "turns": ids}]


def messages_of(request) -> list[dict[str, str]]:
    return json.loads(request.body)["messages"]


def author(person: int, name: str) -> Author:
    return Author("discord", str(person), name.lower(), name)


@st.composite
def conversations(draw):
    """Turns of three people; names and words of private channels begin with `Veiled`."""
    places = st.sampled_from(("town", "town", *PRIVATE_CHANNELS))
    said = []
    for n, (person, place) in enumerate(
        draw(st.lists(st.tuples(st.integers(1, 3), places), min_size=4, max_size=9))
    ):
        word = f"Veiled{'abcdefghij'[n]}" if place != "town" else f"Open{'abcdefghij'[n]}"
        who = author(person, f"{word}name" if draw(st.booleans()) else f"{word[:-1]}er{person}")
        said.append((place, who, f"I keep {word}word behind the house."))
    return said


@pytest.fixture
def model(monkeypatch):
    gossip = Gossip()
    monkeypatch.setattr("familiar_cli.llm.open.open_model", lambda *_, **__: gossip)
    return gossip


def lived(said, name: str) -> Path:
    root = live(name)
    (root / "character.toml").write_text(SETTINGS, encoding="utf-8")
    with closing(HistoryStore(root / "history.db")) as history:
        for n, (place, who, words) in enumerate(said):
            moment = datetime(2024, 4, 8, 18, tzinfo=UTC) + timedelta(hours=5 * n)
            history.append(place, "user", words, author=who, at=moment)
    for place, kind in zip(PRIVATE_CHANNELS, ("dm", "group_dm"), strict=True):
        assert run("channel", "set", place, "--kind", kind, "--familiar", name).exit_code == 0
    return root


def commands(*argvs: tuple[str, ...], familiar: str) -> str:
    """Run commands; return what they printed."""
    told = ""
    for argv in argvs:
        result = run(*argv, "--familiar", familiar)
        assert result.exit_code in {0, 7}, (argv, result.output)
        told += result.stdout + result.stderr
    return told


_names = iter(range(10**6))


@settings(
    max_examples=5 if IS_NIGHT else 3,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(said=conversations())
def test_nothing_private_occurs_where_it_was_not_said(model, said) -> None:
    name = f"ada-{next(_names)}"
    root = lived(said, name)
    model.requests.clear()
    commands(("write-memory",), familiar=name)
    asked = [r for r in model.requests if PRIVATE not in messages_of(r)[0]["content"]]
    model.requests.clear()
    commands(
        ("consolidate", "daily"),
        ("consolidate", "weekly"),
        ("distill", "short"),
        ("distill", "mid"),
        familiar=name,
    )
    for request in model.requests:  # of what is private the model is told in one scope at a time
        asked_about = str(messages_of(request))
        places = {place for place, _, words in said if words.split()[2] in asked_about}
        assert not places.issuperset(PRIVATE_CHANNELS)
    model.requests.clear()
    commands(
        ("housekeep", "--judge"),
        ("ask", "What of the house?", "--channel", "town", "--as", "discord:1"),
        familiar=name,
    )
    asked += model.requests

    for request in asked:
        assert not VEILED.search(str(messages_of(request)))
    for path in (root / "memory").rglob("*.md"):
        if not any(part.startswith(".") for part in path.relative_to(root).parts):
            assert not VEILED.search(visible_in(path.read_text("utf-8"), NOBODY)), path
            assert not VEILED.search(path.name)
    assert not VEILED.search((root / "memory" / "people" / "_aliases.json").read_text("utf-8"))
    told = commands(
        ("ask", "Hello house", "--channel", "town", "--as", "discord:3", "--dry-run"),
        ("ask", "Hello house", "--channel", "town", "--as", "discord:3", "--dry-run", "--json"),
        familiar=name,
    )
    assert not VEILED.search(told)
