"""What was said in private reaches nobody else, whichever way they ask.

Entry points are found, not listed: the routes of the server and the page, the tools, resources and
prompts of MCP, and every command that can speak for somebody.
"""

from __future__ import annotations

import ast
import gc
from contextlib import closing
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import typer

import familiar_cli
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.who.visibility import OWNER, person_scope
from familiar_cli.cli import app as cli
from familiar_cli.familiar import Familiar
from familiar_cli.servers.mcp import catalogue
from familiar_cli.servers.mcp.catalogue import TOOLS
from familiar_cli.servers.mcp.tool import Caller
from familiar_cli.store.history.summaries import Summary
from familiar_cli.store.memory.pages.visible_lines import private_heading
from familiar_cli.store.search.embedder import EmbedderChoice
from familiar_cli.store.search.finding import Finder
from tests.support.cases import IS_NIGHT
from tests.support.embedders import WordEmbedder
from tests.support.server import Say
from tests.support.serving import serving
from tests.support.world import data, home, live, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECRET = "zanzibar"
ANNA, BO = "discord:anna", "discord:bo"
DM = "dm-anna"
SAID = f"My secret word is {SECRET}."
ASKED = "What is Anna's secret word?"
ROOT = typer.main.get_command(cli.app)
# Words that lead to what was planted, by the name of an argument, a parameter or a field.
LEADS = {
    "query": ASKED,
    "q": ASKED,
    "text": ASKED,
    "message": ASKED,
    "person": "Anna",
    "name": "Anna",
    "subject": "people/discord-anna.md",
    "path": "people/discord-anna.md",
    "channel": DM,
    "number": "1",
    "turn": "1",
    "slug": "discord-anna",
    "model": "ada",
    "familiar": "ada",
    "uri": "people/discord-anna.md",
}


@pytest.fixture
def planted(serve, monkeypatch) -> Familiar:
    """A familiar that was told a word in private, and knows it in every way it can know one."""
    monkeypatch.setattr(Finder, "embedder", EmbedderChoice(WordEmbedder()))
    hidden = private_heading("DM:anna", person_scope("discord-anna"))
    section = f"\n{hidden}\n\n- {SAID} <!-- turns 1 -->\n"
    relation = f"\n### Relations\n\n- {SECRET} of [Bo](discord-bo.md)\n"
    live(
        **{
            "people/discord-anna": f"# Anna\n\nKeeps bees.\n{section}{relation}",
            "people/discord-bo": "# Bo\n\nRows.\n",
            "daily/2026-01-02": f"# 2026-01-02\n\n- It rained.\n{section}",
            "digest/short": f"# Short\n\n## Days\n\n- It rained.\n{section}",
            "weekly/2026-W01": f"# 2026-W01\n\n- It rained.\n{section}",
            "reminders": f"# Reminders\n\n- tea\n{section}",
        }
    )
    assert run("channel", "set", DM, "--kind", "dm").exit_code == 0
    serve(*[Say(f"I will keep {SECRET} to myself.")] * 2)
    for channel in (DM, "met-anna-in-a-new-chat"):
        said = run("ask", SAID, "--as", ANNA, "--channel", channel)
        assert (said.exit_code, SECRET in said.stdout) == (0, True), said.output
    familiar = Familiar.load_from_disk(home(), "ada")
    with closing(familiar.history):
        turns = familiar.history.recent(DM, 9, viewer=OWNER)
        assert SAID in [turn.content for turn in turns]
        now = datetime(2026, 1, 2, tzinfo=UTC)
        for scope in (DM, "met-anna-in-a-new-chat"):
            familiar.summaries.keep(Summary(scope, turns[-1].id, SAID, now, "m"), {scope})
    vectors = data("index", "build")["turns"]
    assert vectors["done"] >= 2, vectors  # both channels are found by meaning, too
    return familiar


def commands(
    command: object, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield every command with its path."""
    names = command.list_commands(None) if hasattr(command, "list_commands") else []
    if not names:
        yield path, command
    for name in names:
        yield from commands(command.get_command(None, name), (*path, name))


def speaking() -> list[tuple[tuple[str, ...], object]]:
    """Return the commands that can speak for somebody."""
    options = lambda command: [o for param in command.params for o in param.opts]  # noqa: E731
    return [(path, command) for path, command in commands(ROOT) if "--as" in options(command)]


def test_no_command_shows_it_to_somebody_else(planted, serve) -> None:
    chat = serve(*[Say("I do not know.")] * 40)
    walked = 0
    for path, _ in speaking():
        for channel in ("elsewhere", "cli", DM, "met-anna-in-a-new-chat"):
            ways = ((), ("--dry-run",), ("--dry-run", "--json"), ("--off-record",))
            for more in (("--past",), ("--all", "--json")) if path == ("search",) else ways:
                argv = (*path, ASKED, "--as", BO, "--channel", channel, *more)
                stdin = f"{ASKED}\n" if path == ("chat",) else None
                shown = run(*(part for part in argv if stdin is None or part != ASKED), stdin=stdin)
                assert SECRET not in shown.output, argv
                walked += 1
    bad = [r.body.decode() for r in chat.requests if SECRET in r.body.decode()]
    assert not bad
    assert len(speaking()) >= 3
    assert walked >= 3 * 16


def test_anna_herself_is_told_wherever_she_is_alone(planted) -> None:
    shown = run("ask", ASKED, "--as", ANNA, "--channel", "another-new-chat", "--dry-run")
    assert SECRET in shown.stdout
    shown = run("ask", ASKED, "--as", ANNA, "--channel", "met-anna-in-a-new-chat", "--dry-run")
    assert SECRET in shown.stdout


def told(make: Callable[[], object]) -> str:
    """Return what somebody is told: what `make` returns, or why it cannot."""
    try:
        return repr(make())
    except (FamiliarError, KeyError) as error:
        return str(error)


def answers(caller: Caller) -> Iterator[tuple[str, str]]:
    """Yield each tool, prompt and resource of MCP with what it answers."""
    for tool in TOOLS:
        for more in ({}, {"channel": "elsewhere"}, {"subject": "turn:1"}):
            leads = {**LEADS, "turn": 1, **more}
            known = {name: leads[name] for name in tool.takes if name in leads}
            if not more:
                known.pop("channel", None)
                known.pop("turn", None)
            yield tool.name, told(lambda tool=tool, known=known: tool.run(caller, known))
    for name, prompt in catalogue.PROMPTS.items():
        for given in (set(prompt.takes), set(prompt.needs)):
            arguments = {argument: LEADS[argument] for argument in given}
            made = lambda name=name, given=arguments: catalogue.make_prompt(caller, name, given)  # noqa: E731
            yield name, told(made)
    for path in catalogue.paths(caller):
        uri = catalogue.uri_of("ada", path)
        yield path, told(lambda uri=uri: catalogue.read(caller, uri))


def test_no_tool_prompt_or_resource_of_mcp_shows_it(planted) -> None:
    for channel in (None, "elsewhere"):
        walked = list(answers(Caller(planted, channel)))
        assert [name for name, text in walked if SECRET in text] == []
        assert len(walked) >= 3 * len(TOOLS) + 2 * len(catalogue.PROMPTS) + 2
        assert "Keeps bees" in dict(walked)["people/discord-anna.md"]


WALKS = list(product(("", DM, "met-anna-in-a-new-chat", "elsewhere"), ("ada", "ada+memory")))
WALKS = WALKS[:: 1 if IS_NIGHT else 3]


def routes() -> list[tuple[str, str]]:
    """Return the method and the address of every route that a running server has."""
    from starlette.routing import Route

    found = {
        (method, route.path)
        for route in gc.get_objects()
        if isinstance(route, Route)
        for method in route.methods or ()
        if method in {"GET", "POST"}
    }
    return sorted(found)


def filled(path: str) -> str:
    """Return an address with something for each of its parts."""
    for name, value in LEADS.items():
        for kind in ("", ":path", ":int", ":str"):
            path = path.replace(f"{{{name}{kind}}}", value)
    return path


def test_no_address_shows_it_without_the_owners_cookie(planted, serve, record_property) -> None:
    chat = serve(*[Say("I do not know.")] * 60)
    asked = [{"role": "user", "content": ASKED}]
    walked = 0
    with serving() as server:
        entered = len(routes()) + len(TOOLS) + len(catalogue.PROMPTS) + len(speaking())
        record_property("entry_points", entered)
        for method, path in routes():
            for channel, model in WALKS:
                headers = {
                    "X-Familiar-User": BO,
                    **({"X-Familiar-Channel": channel} if channel else {}),
                }
                body = {"model": model, "messages": asked, "input": ASKED}
                more = {"json": body} if method == "POST" else {"params": LEADS}
                reply = server.client.request(method, filled(path), headers=headers, **more)
                assert SECRET not in reply.text, (method, path, channel)
                walked += 1
        found = server.client.get("/sessions/search", params={"q": SECRET})
        assert (found.status_code, found.json()["days"]) == (200, [])
        found = server.client.get("/sessions/search", params={"q": SECRET, "user": "scott"})
        assert (found.status_code, found.json()["days"]) == (200, [])
    bad = [r.body.decode() for r in chat.requests if SECRET in r.body.decode()]
    assert not bad
    assert walked >= len(WALKS) * 20
    # A new entry point is walked as soon as it is there; the page about attacks gives the number.
    page = Path(__file__).parents[2] / "docs" / "explanation" / "hostile-input.md"
    assert f"all {entered} entry points" in " ".join(page.read_text(encoding="utf-8").split())


# What a face shows goes through a viewer in the same function. The commands are the owner's, who
# sees everything; a conversation is aligned with what its own client sent.
RAW = {"turn", "since", "after", "channels", "last_turn"}
FACES = ("servers",)
ALIGNS = {"servers/chat_api/conversations.py"}


def raw_readers(code: str) -> list[str]:
    """Return the functions that read turns or channels and ask no viewer."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        called = [call.func for call in ast.walk(node) if isinstance(call, ast.Call)]
        names = [c for c in called if isinstance(c, ast.Attribute) and c.attr in RAW]
        reads = any(ast.unparse(name.value).endswith("history") for name in names)
        asks = {getattr(n, "attr", "") for n in ast.walk(node)} & {"sees_turn", "sees_channel"}
        if reads and not asks:
            found.append(node.name)
    return found


def test_no_face_reads_turns_or_channels_past_the_viewer() -> None:
    package = Path(familiar_cli.__file__).parent
    files = [path for face in FACES for path in (package / face).rglob("*.py")]
    found = {path.relative_to(package).as_posix(): raw_readers(path.read_text()) for path in files}
    assert {path: names for path, names in found.items() if names and path not in ALIGNS} == {}
    assert raw_readers("def show(asked):\n    return asked.familiar.history.turn(1)") == ["show"]
