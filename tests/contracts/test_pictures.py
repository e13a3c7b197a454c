"""Pictures of the documentation show what the program prints and how the code is laid out."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

import pytest

from tests.golden.record import ROOT, Player
from tools.architecture import TURN, WRITE, draw_architecture, file_of, record_calls
from tools.pictures import PICTURES, draw_commands

OPERATION = {"op": "add_bullets", "file": "topics/dog.md", "turns": [3]}
OPERATIONS = json.dumps({"operations": [OPERATION | {"lines": ["The dog is called Biscuit."]}]})
SCRIPT = """
at 2026-03-02T18:00:00+00:00
$ familiar init yuzu --from-card EXAMPLES/cards/yuzu.png
$ familiar config set timezone UTC
$ familiar config set context.provider_deadline_s 60
file home/yuzu/memory/topics/dog.md # Dog\\n\\nBiscuit is a dog.\\n
reply Biscuit.
$ familiar ask "What is the dog called?"
reply OPERATIONS
$ familiar write-memory --newest
""".replace("OPERATIONS", OPERATIONS)


class Follower(Player):
    """Notes the functions that each command calls."""

    def __init__(self, world: Path) -> None:
        super().__init__(world)
        self.calls: dict[str, list[str]] = {}

    def _run(self, number, argv):
        with record_calls() as calls:
            done = super()._run(number, argv)
        assert done.exit_code == 0, done.output
        self.calls[argv.split()[0]] = calls
        return done


@pytest.fixture(scope="module")
def calls():
    with tempfile.TemporaryDirectory(prefix="golden-", dir="/tmp") as world:
        follower = Follower(Path(world).resolve())
        follower.play(SCRIPT)
    return follower.calls


def is_way_through(steps, called) -> bool:
    """Return whether `called` has all of `steps` in this order, with anything between them."""
    rest = iter(called)
    return all(step in rest for step in steps)


@pytest.mark.posix
@pytest.mark.parametrize(("command", "steps"), [("ask", TURN), ("write-memory", WRITE)])
def test_a_way_in_the_picture_is_the_way_of_the_code(command, steps, calls) -> None:
    missing = [step for step in steps if step not in calls[command]]
    assert missing == []
    assert is_way_through(steps, calls[command])
    assert not is_way_through(steps[::-1], calls[command])


def test_the_steps_of_a_way_stand_in_files() -> None:
    assert [step for step in (*TURN, *WRITE) if not (ROOT / file_of(step)).is_file()] == []


@pytest.mark.posix
def test_pictures_are_as_the_tool_draws_them() -> None:
    drawn = draw_commands() | draw_architecture()
    old = [name for name, svg in drawn.items() if (PICTURES / f"{name}.svg").read_text() != svg]
    assert old == [], "run `python -m tools.pictures commands`"
    measured = {"scoreboard"}  # by `python -m benchmarks.scoreboard_page`
    assert {path.stem for path in PICTURES.glob("*.svg")} == drawn.keys() | measured


def test_pictures_are_small_shown_on_pages_and_fetch_nothing() -> None:
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs").rglob("*.md"))
    pictures = {path.name: path for path in PICTURES.iterdir() if path.suffix in {".svg", ".png"}}
    shown = set(re.findall(r"!\[[^\]]+\]\(\S*images/([\w.-]+)\)", pages))
    assert pictures.keys() == shown
    assert len(shown) >= 15
    assert max(path.stat().st_size for path in pictures.values()) < 150_000
    fetched = re.compile(r"(?:src|href|url)\W{1,3}https?:")
    assert [
        p.name
        for p in pictures.values()
        if p.suffix == ".svg" and fetched.search(p.read_text("utf-8"))
    ] == []
