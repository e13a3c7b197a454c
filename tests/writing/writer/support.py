"""A small world for tests of the writer: real files, a real history, and a model with a script."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

from familiar_cli.base.who.identity import Author, Who
from familiar_cli.llm import tokens
from familiar_cli.llm.types import Completion, ScriptedModel
from familiar_cli.store.history import WRITER, HistoryStore
from familiar_cli.store.memory.store.store import Limits, MemoryStore
from familiar_cli.writing.writer.memory_writer import MemoryWriter, WriterSettings
from familiar_cli.writing.writer.runs import Runs
from tests.support.viewers import rules_of

ANNA = Author("discord", "42", "anna", "Anna")
BOB = Author("discord", "7", "bob", "Bob")
EVENING = datetime(2026, 4, 7, 18, 0, tzinfo=UTC)
SESSION = "sessions/2026-04-07-evening.md"
ANNAS = "people/discord-42.md"
BOBS = "people/discord-7.md"
NOTHING = '{"operations": []}'


def op(op="add_bullets", file=ANNAS, lines=("Anna keeps bees.",), turns=(1,), **more):
    """Return one operation as a model would write it."""
    return {"op": op, "file": file, "lines": list(lines), "turns": list(turns), **more}


def reply(*operations) -> str:
    return json.dumps({"operations": list(operations)}, ensure_ascii=False)


def cut_off(text: str) -> Completion:
    return Completion(text, "length", "scripted", None)


class World:
    """A familiar's memory and history in a directory, and passes over them."""

    def __init__(self, root, *, max_file_bytes=256 * 1024, private=(), name="Aria", texts=()):
        self.root = root
        self.store = MemoryStore(root / "memory", limits=Limits(max_file_bytes))
        self.history = HistoryStore(root / "history.db")
        self.private = frozenset(private)
        self.who = Who(name, "Aria tends a lighthouse.", tuple(texts))
        self.model = ScriptedModel([])
        self.at = EVENING

    def say(self, words="I keep bees behind the house.", author=ANNA, *, channel="cli", **more):
        """Write one turn down, a minute after the one before; `author=None` is the familiar."""
        self.at = more.pop("at", self.at + timedelta(minutes=1))
        role = "user" if author else "assistant"
        return self.history.append(channel, role, words, author=author, at=self.at, **more)

    def talk(self, count=1) -> list[int]:
        return [
            self.say(f"Remark number {n} about the garden and the bees.").id for n in range(count)
        ]

    def writer(self, *replies, context_tokens=8192, history=None, **settings) -> MemoryWriter:
        self.model = ScriptedModel(replies, context_tokens=context_tokens, max_tokens=1024)
        return MemoryWriter(
            self.store,
            history or self.history,
            self.model,
            tokens.heuristic(),
            Runs(self.root / "runs", self.root / "quarantine"),
            who=self.who,
            settings=WriterSettings(**settings),
            zone=UTC,
            rules=lambda: rules_of(*self.private),
            channel_context_lookup=lambda channel: f"#{channel}",
        )

    def write(self, *replies, mode="apply", run=None, **settings):
        """Make one pass with a model that says `replies`, and return its report."""
        writer = self.writer(*replies, **settings)
        return asyncio.run(writer.run(mode, **(run or {})))

    def read(self, rel_path) -> str:
        return self.store.read_file(rel_path)

    @property
    def watermark(self) -> int:
        return self.history.watermark(WRITER)

    @property
    def prompt(self) -> str:
        """All that the model was sent last."""
        messages = json.loads(self.model.requests[-1].body)["messages"]
        return "\n".join(message["content"] for message in messages)

    def files(self) -> list[str]:
        if not self.store.root.exists():
            return []
        return [entry.rel_path for entry in self.store.walk().files]


def rails(report) -> list[str]:
    return [refusal.rail for refusal in report.refused]
