"""A small life for tests of consolidation: real files, and a model that answers by rule."""

from __future__ import annotations

import asyncio
import json
import random
import re
from datetime import UTC, date, datetime, timedelta

from familiar_cli.base.errors import BadReplyError, ConfigError
from familiar_cli.base.who.identity import Who
from familiar_cli.llm import tokens
from familiar_cli.llm.asking import Asker
from familiar_cli.llm.types import Completion, ScriptedModel
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.writing.consolidation.calendar import Consolidator, survey_periods
from familiar_cli.writing.consolidation.composing import Composer, Replies
from familiar_cli.writing.consolidation.engine import FileMaker
from familiar_cli.writing.consolidation.period_states import Today
from familiar_cli.writing.consolidation.periods import TIERS
from familiar_cli.writing.pending import read_plans

DAY = timedelta(days=1)
MONDAY = date(2026, 4, 6)
LATER = datetime(2030, 1, 1, tzinfo=UTC)
_SOURCE = re.compile(r'<source number="(\d+)" name="([^"]*)">\n(.*?)\n</source>', re.DOTALL)


class RuleModel(ScriptedModel):
    """Repeats the first words of each source as a fact. Fails as often as it is told to.

    It says the same whenever it is asked the same, but for its failures.
    """

    def __init__(self, failing=0.0, seed=0, *, context_tokens=32_000, say=None):
        super().__init__([], context_tokens=context_tokens)
        self._failing = failing
        self._chance = random.Random(seed)
        self._say = say

    async def complete(self, request, on_text=None):
        self.requests.append(request)
        if self._chance.random() < self._failing:
            raise BadReplyError("the server says 502")
        user = json.loads(request.body)["messages"][-1]["content"]
        text = self._say(user) if self._say else rule_reply(user)
        return Completion(text, "stop", self.name, None)


def sources_in(user: str) -> list[tuple[int, str, str]]:
    return [(int(number), name, text) for number, name, text in _SOURCE.findall(user)]


def rule_reply(user: str) -> str:
    found = sources_in(user)
    points = [
        {"text": f"On {name}: {' '.join(text.split())[:60]}", "from": [n]}
        for n, name, text in found
    ]
    named = ", ".join(name for _, name, _ in found)
    return json.dumps({"summary": f"What happened in {named}.", "points": points[:10]})


def reply(summary="It was a quiet week.", *points) -> str:
    rows = [{"text": text, "from": list(numbers)} for text, numbers in points]
    return json.dumps({"summary": summary, "points": rows}, ensure_ascii=False)


class Life:
    """One familiar's memory, and everything that consolidation is told."""

    def __init__(self, root, *, instance="laptop", zone=UTC, journal=None):
        self.root = root
        self.store = MemoryStore(root / "memory", journal=journal)
        self.instance, self.zone = instance, zone
        self.model = RuleModel()
        self.part_tokens, self.reply_tokens = 6000, 1200
        self.kept_replies: list[str] = []
        self.unwritten: frozenset[date] = frozenset()
        self.cache_path = None
        self.composer: Composer | None = None
        self.replies: Replies | None = None

    def session(self, day, text, part="evening"):
        path = f"sessions/{day}-{part}.md"
        self.store.write_file(path, f"# {day}, {part}\n\n## Highlights\n\n{text}")
        return path

    def file(self, rel_path):
        return self.store.read_file(rel_path)

    def edit(self, rel_path, old, new):
        text = self.file(rel_path)
        assert old in text
        self.store.write_file(rel_path, text.replace(old, new))

    def engine(self, **more):
        def composer():
            if self.model is None:
                raise ConfigError("No model is chosen", hint="Run `familiar model pull`.")
            if self.composer is None or self.composer.model is not self.model:
                count = tokens.heuristic().count
                who = Who("Aria", "Aria tends a lighthouse.")
                self.composer = Composer(self.asker(count), who, self.part_tokens, self.replies)
            return self.composer

        return FileMaker(self.store, composer, **more)

    def asker(self, count):
        return Asker(
            self.model,
            count,
            self.keep,
            "consolidation",
            reply_tokens=self.reply_tokens,
            temperature=0.2,
        )

    def keep(self, text):
        self.kept_replies.append(text)
        return self.root / "quarantine" / f"{len(self.kept_replies)}.txt"

    def states(self, now=LATER, again=(), cutoff_hour=5):
        today = Today(now, self.zone, cutoff_hour)
        found = survey_periods(
            self.store,
            today,
            self.instance,
            self.cache_path,
            unwritten=self.unwritten,
            everything=bool(again),
        )
        found.make_again(again)
        return found

    def run(
        self,
        now=LATER,
        *,
        tiers=TIERS,
        only=None,
        again=(),
        cutoff_hour=5,
        chats=None,
        tried_before=0,
        **more,
    ):
        consolidator = Consolidator(
            self.states(now, again, cutoff_hour),
            self.engine(**more),
            chats_of=chats or (lambda *_: ("cli",)),
            plans=read_plans(self.store),
            wanted_tiers=tiers,
            only=only,
            tried_before=tried_before,
        )
        return asyncio.run(consolidator.run())

    def tree(self) -> dict[str, bytes]:
        root = self.store.root
        return {
            path.relative_to(root).as_posix(): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file() and not path.name.startswith(".")
        }


def week_of_sessions(life, monday=MONDAY, skip=()):
    """Write one session a day for a week."""
    for n in range(7):
        if n not in skip:
            day = monday + n * DAY
            life.session(day, f"- Anna did thing number {day.toordinal()} in the garden.\n")


def names(report) -> list[str]:
    return [done.period for done in report.done]
