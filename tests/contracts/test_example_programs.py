"""The programs in `examples/programs` do what they say, in less than 80 lines each."""

from __future__ import annotations

import json
import os
import runpy
import sys
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from types import ModuleType, SimpleNamespace

import pytest

from familiar_cli.store.history import HistoryStore
from tests.support.pages import ROOT
from tests.support.server import Fail, Raw, Say
from tests.support.world import data, home, live, run

PROGRAMS = ROOT / "examples" / "programs"


def program(name: str) -> SimpleNamespace:
    """Load a program without running it."""
    return SimpleNamespace(**runpy.run_path(str(PROGRAMS / name)))


def test_each_is_short_enough_to_read_at_once() -> None:
    lines = {path.name: len(path.read_text("utf-8").splitlines()) for path in PROGRAMS.iterdir()}
    assert len(lines) == 3
    assert [name for name, count in lines.items() if count >= 80] == []


# --- Discord ---

LONG = " ".join(f"word{n}" for n in range(600))

GUILD = SimpleNamespace(default_role=SimpleNamespace(name="@everyone"))


class Channel:
    """A channel of a server: keeps what is sent to it."""

    guild = GUILD

    def __init__(self, number: int, *, is_open: bool = True) -> None:
        self.id, self.is_open, self.sent = number, is_open, []

    def permissions_for(self, role):
        assert role is GUILD.default_role
        return SimpleNamespace(view_channel=self.is_open)

    @asynccontextmanager
    async def typing(self):
        yield

    async def send(self, text: str) -> None:
        assert 0 < len(text) <= 2000
        self.sent.append(text)


class DirectChannel(Channel):
    guild = None


class Thread(Channel):
    def __init__(self, number: int, *, is_private: bool) -> None:
        super().__init__(number)
        self.is_private = lambda: is_private


class Client:
    """Delivers a script of messages instead of connecting."""

    script = ()

    def __init__(self, *, intents, allowed_mentions) -> None:
        assert intents.message_content
        assert allowed_mentions == "nobody"
        self.user = SimpleNamespace(id=1)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_) -> None: ...

    async def start(self, token: str) -> None:
        assert token == "secret"
        for message in self.script:
            await self.on_message(message(self.user))


@pytest.fixture
def discord(monkeypatch):
    """A scripted double of the library that the program imports."""
    module = ModuleType("discord")
    module.Client, module.DMChannel, module.Thread = Client, DirectChannel, Thread
    module.Intents = SimpleNamespace(default=lambda: SimpleNamespace(message_content=False))
    module.AllowedMentions = SimpleNamespace(none=lambda: "nobody")
    module.abc, module.Message = SimpleNamespace(Messageable=object), object
    monkeypatch.setitem(sys.modules, "discord", module)
    monkeypatch.setenv("DISCORD_TOKEN", "secret")
    return module


def message(number, channel, who, text, *, to_me=False, bot=False):
    """Return a factory for messages addressed to the bot's account."""
    author = SimpleNamespace(id=who, name=f"user{who}", display_name=f"User {who}", bot=bot)
    at = datetime.now(UTC)  # older ones would be due for the memory writer
    told = {"id": number, "channel": channel, "author": author, "clean_content": text}
    return lambda me: SimpleNamespace(**told, created_at=at, mentions=[me] if to_me else [])


def kept() -> list[tuple[str, str, str]]:
    with closing(HistoryStore(home() / "ada" / "history.db")) as history:
        return [(t.channel_id, t.role, t.content) for t in history.since(0, 100)]


async def test_the_discord_bot_replies_listens_and_keeps_private_words_apart(
    discord, serve
) -> None:
    server = serve("He is at the harbour.", LONG, "We all are.")
    live()
    general, board, direct = Channel(1), Channel(2, is_open=False), DirectChannel(3)
    Client.script = [
        message(10, general, 7, "I am off to the harbour."),
        message(11, general, 8, "Beep.", bot=True),
        message(12, direct, 42, "Between us: I am moving."),
        message(13, board, 7, "The budget is 900."),
        message(14, board, 42, "Who pays?", to_me=True),
        message(15, general, 42, "Where is Bo?", to_me=True),
    ]
    await program("discord_bot.py").main("ada")

    assert [channel.sent for channel in (direct, general)] == [
        ["He is at the harbour."],
        ["We all are."],
    ]
    assert (len(board.sent), "".join(board.sent)) == (3, LONG)
    asked = [json.dumps(request.json()["messages"]) for request in server.requests]
    assert ("I am off to the harbour." in asked[2], "The budget" in asked[1]) == (True, True)
    assert ("Between us" in asked[1], "Between us" in asked[2], "The budget" in asked[2]) == (
        (False,) * 3
    )
    assert "Beep." not in str(kept())


async def test_a_message_that_discord_delivers_twice_is_kept_once(discord, serve) -> None:
    serve(Fail(400, "no"), "Hello.")
    live()
    general = Channel(1)
    Client.script = [message(10, general, 42, "Hello", to_me=True)] * 2
    await program("discord_bot.py").main("ada")
    assert general.sent == ["Hello."]
    assert [text for _, role, text in kept() if role == "user"] == ["Hello"]


def test_a_thread_is_as_private_as_discord_says(discord) -> None:
    kind_of = program("discord_bot.py").kind_of
    threads = [Thread(1, is_private=value) for value in (True, False)]
    assert [kind_of(channel) for channel in threads] == ["private", "thread"]


# --- Obsidian ---


def test_a_captured_note_is_found_linked_and_undone(capsys) -> None:
    root = live(**{"people/Teodor": "# Teodor\n"}) / "memory"
    main = program("obsidian_vault.py").main
    main("ada")
    assert f"The vault is {root}" in capsys.readouterr().out
    settings = root / ".obsidian" / "daily-notes.json"
    assert json.loads(settings.read_text("utf-8"))["folder"] == "daily"
    settings.write_text("{}", "utf-8")
    main("ada")
    assert settings.read_text("utf-8") == "{}"

    main("ada", "Bo brings [[Teodor]]", "to tea.")
    main("ada", "# No heading\n---")
    assert "obsidian://open?path=" in capsys.readouterr().out
    note = (root / "topics" / "inbox.md").read_text("utf-8")
    assert [line[:3] for line in note.splitlines() if line] == ["# I", "- 2", "- 2"]
    assert "brings [[Teodor]] to tea." in run("search", "who comes to tea?").stdout
    assert "topics/inbox.md" in run("memory", "links", "people/Teodor.md").stdout
    assert len(data("memory", "log")["commits"]) >= 2
    run("memory", "undo")
    assert "No heading" not in (root / "topics" / "inbox.md").read_text("utf-8")


# --- an agent ---


def called(name: str, **arguments: str) -> Raw:
    """Return a reply in which a model calls a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"call-{name}", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    reply = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    return Raw(json.dumps(reply).encode(), "application/json")


async def test_the_agent_finds_what_is_remembered_and_proposes_what_it_learned(
    serve, monkeypatch, capfd
) -> None:
    root = live(**{"topics/deploy": "# Deploy\n\n- Deploys run on Tuesdays.\n"})
    server = serve(
        called("memory_search", query="deploy"),
        called("memory_edit", path="topics/deploy.md", append="- Bo approves them."),
        called("memory_read"),
        Say("On Tuesdays."),
    )
    monkeypatch.setenv("MODEL_URL", server.base_url)
    monkeypatch.setenv("MODEL", "scripted-1")
    loaded = program("agent_with_memory.py")
    argv = ["-m", "familiar_cli", "mcp", "--familiar", "ada"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    here = loaded.StdioServerParameters(command=sys.executable, args=argv, env=environment)

    def started(*, command: str, args: list[str]):
        assert (command, args) == ("familiar", argv[2:])
        return here

    monkeypatch.setitem(loaded.main.__globals__, "StdioServerParameters", started)
    await loaded.main("ada", "When do we deploy? Bo approves it.")

    assert capfd.readouterr().out == "On Tuesdays.\n"
    results = [m["content"] for m in server.last.json()["messages"] if m["role"] == "tool"]
    assert "Deploys run on Tuesdays." in results[0]
    assert "waits for review" in results[1]
    assert "path" in results[2]
    offered = {tool["function"]["name"] for tool in server.last.json()["tools"]}
    assert offered == loaded.TOOLS
    assert "Bo approves" not in (root / "memory" / "topics" / "deploy.md").read_text("utf-8")
    assert "topics/deploy.md" in run("review", "ls").stdout
