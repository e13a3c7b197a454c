"""The replay of dated conversations: turns on a simulated clock, replies, and mornings."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from benchmarks.conversations import COMPANION, Session, Turn
from benchmarks.life_questions import plant
from familiar_cli.actions.health.daemon import Daemon
from familiar_cli.actions.memory.due_work import leave_due_work
from familiar_cli.actions.talk import channels, talk
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.text import slugify
from familiar_cli.base.times import clock
from familiar_cli.base.who.identity import Author
from familiar_cli.context.types import Said
from familiar_cli.llm import open as opening

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.conversations import Conversation
    from benchmarks.life_model import RuleModel
    from familiar_cli.context.trace import Trace
    from familiar_cli.familiar import Familiar
    from familiar_cli.llm.slots import ResolvedSlot

MONTH: Final = timedelta(days=30.44)
JOINS_EVERY: Final = 12
"""One of so many turns of a group is said to the familiar, which replies."""
MORNING_H: Final = 6
MONDAY: Final = 0
MOST_ATTEMPTS: Final = 3


@dataclass(frozen=True)
class Line:
    """Something that is said: by whom, where, and what the familiar replies, if it is asked."""

    at: datetime
    person: Person
    author: Author | None
    text: str
    key: object
    reply: str = ""
    reply_key: object = None
    is_asked: bool = False


@dataclass(frozen=True)
class Person:
    """The first speaker of a conversation, who plants facts and asks about them."""

    number: int
    made: Conversation
    author: Author
    is_private: bool

    @property
    def channel(self) -> str:
        """Where the conversation is."""
        return f"{'dm' if self.is_private else 'group'}-{self.number}"

    @property
    def kind(self) -> str:
        """The kind of conversation."""
        return "dm" if self.is_private else "text"


class Simulated(datetime):
    """The time of the replay, where the program asks the system for it."""

    present: datetime = datetime(2023, 1, 1, tzinfo=UTC)

    @classmethod
    def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]  # noqa: ANN401
        """Return the simulated present."""
        return cls.present.astimezone(tz)


@contextmanager
def simulated(model: RuleModel) -> Iterator[None]:
    """Let the program see the simulated time, and ask the model that follows rules."""
    real_time, real_model = clock.datetime, opening.open_model

    def open_model(slot: ResolvedSlot, **_: object) -> RuleModel:
        return model.sized(slot.context_tokens, slot.max_tokens)

    clock.datetime = Simulated  # type: ignore[misc]
    opening.open_model = open_model  # type: ignore[assignment]
    try:
        yield
    finally:
        clock.datetime, opening.open_model = real_time, real_model  # type: ignore[misc]


@dataclass
class Month:
    """What happened in one month."""

    turns: int = 0
    asks: int = 0
    late: int = 0
    ask_ms: list[float] = field(default_factory=list)
    passes_s: float = 0.0


@dataclass
class Life:
    """The replay: where turns went, and what it took.

    Attributes:
        sleeps: Nothing is done in the background.
        kept: The turn and the words of each line that was said, by conversation and key.
        unheard: How many lines could not be kept.
        failures: What went wrong, by kind.
    """

    familiar: Familiar
    model: RuleModel
    sleeps: bool = False
    kept: dict[tuple[int, object], tuple[int, str]] = field(default_factory=dict)
    months: dict[str, Month] = field(default_factory=lambda: defaultdict(Month))
    failures: Counter[str] = field(default_factory=Counter)
    unheard: int = 0

    @property
    def month(self) -> Month:
        """The present month."""
        return self.months[f"{Simulated.present:%Y-%m}"]

    def say(self, line: Line) -> None:
        """Let a line be heard or answered, at its time."""
        Simulated.present = line.at
        said = Said(line.text, line.author, line.person.channel, kind=line.person.kind)
        self.month.turns += 1
        try:
            if line.is_asked:
                asyncio.run(self._ask(line, said))
            else:
                kept = channels.hear(self.familiar, said, line.at)
                self.kept[line.person.number, line.key] = (kept.turn.id, line.text)
        except FamiliarError as error:
            self.failures[type(error).__name__] += 1
            self.unheard += (line.person.number, line.key) not in self.kept

    async def _ask(self, line: Line, said: Said) -> None:
        self.model.says = line.reply
        began = time.perf_counter()
        for attempt in range(MOST_ATTEMPTS):
            self.month.asks += 1
            try:
                result = await talk.take_turn(self.familiar, said)
            except FamiliarError as error:
                self.failures[f"reply: {type(error).__name__}"] += 1
                turn = self._newest(line)
                if turn is None or attempt == 2:
                    raise
                said = Said("", None, line.person.channel, reply_to=turn)
                continue
            break
        self.month.ask_ms.append((time.perf_counter() - began) * 1000)
        self.month.late += is_late(result.trace)
        leave_due_work(self.familiar, result)
        number, trace = line.person.number, result.trace
        assert trace.turn is not None
        self.kept[number, line.key] = (trace.turn, line.text)
        reply = self.familiar.history.turn(trace.reply_turn) if trace.reply_turn else None
        if reply and line.reply_key is not None:
            self.kept[number, line.reply_key] = (reply.id, reply.content)

    def _newest(self, line: Line) -> int | None:
        turn = self.familiar.history.turn(self.familiar.history.newest_id())
        if turn is None or turn.content != line.text:
            return None
        self.kept[line.person.number, line.key] = (turn.id, line.text)
        return turn.id

    def wake(self, at: datetime) -> None:
        """Let the daemon catch up, as it does each morning."""
        Simulated.present = at
        if self.sleeps:
            return
        began = time.perf_counter()

        async def work() -> None:
            daemon = Daemon(self.familiar, asyncio.Event(), lambda _: None, lambda _: None)
            await daemon.catch_up()
            self.failures.update(f"pass: {command}" for command in daemon.errors)

        asyncio.run(work())
        self.month.passes_s += time.perf_counter() - began


def is_late(trace: Trace) -> bool:
    """Return whether the search of memory was not complete in time."""
    told = (f"{piece.problem} {piece.remark}" for piece in trace.contributions)
    return any("in time" in words for words in told) or any(
        report.verdict == "late" for report in trace.providers
    )


def people_of(conversations: Sequence[Conversation]) -> list[Person]:
    """Return who speaks first in each conversation that has words."""
    found = []
    for made in conversations:
        spoken = [turn.speaker for one in made.sessions for turn in one.turns if turn.text.strip()]
        names = [name for name in spoken if name != COMPANION]
        if names:
            author = author_of(names[0], len(found))
            found.append(Person(len(found), made, author, made.familiar == COMPANION))
    return found


def author_of(name: str, number: int) -> Author:
    slug = slugify(name) or "somebody"
    return Author("life", f"{slug}-{number}", display_name=" ".join(name.split())[:60] or "Someone")


def scheduled(person: Person, start: datetime, end: datetime) -> list[Session]:
    """Return a conversation's sessions; without questions, spread over the time there is."""
    sessions = list(person.made.sessions)
    if person.made.questions:
        return sessions
    step = (end - start) / max(len(sessions), 1)
    lag = timedelta(hours=person.number)
    return [
        Session(
            (start + number * step).replace(hour=12, minute=0) + lag,
            one.turns,
            one.summary,
            one.points,
        )
        for number, one in enumerate(sessions)
    ]


def lines_of(person: Person, start: datetime, end: datetime) -> Iterator[Line]:
    """Yield everything that is said in a conversation, and what is planted in it."""
    count = 0
    for session in scheduled(person, start, end):
        turns = [turn for turn in session.turns if turn.text.strip()]
        for place, turn in enumerate(turns):
            count += 1
            if person.is_private and turn.speaker == COMPANION:
                continue
            after = turns[place + 1] if place + 1 < len(turns) else None
            yield _line(person, turn, session.at + timedelta(minutes=place), after, count)
    for planted in plant(person.number):
        at = start + (end - start) * planted.at
        at = at.replace(hour=19, minute=person.number % 60, second=0, microsecond=0)
        yield Line(at, person, person.author, planted.text, planted.key, is_asked=True)


def _line(person: Person, turn: Turn, at: datetime, after: Turn | None, count: int) -> Line:
    author = author_of(turn.speaker, person.number)
    if not person.is_private:
        joins = count % JOINS_EVERY == 0
        return Line(at, person, author, turn.text, turn.id, is_asked=joins)
    reply = after if after and after.speaker == COMPANION else None
    return Line(
        at,
        person,
        author,
        turn.text,
        turn.id,
        reply=reply.text if reply else "",
        reply_key=reply.id if reply else None,
        is_asked=reply is not None,
    )


def replay(life: Life, people: Sequence[Person], months: float) -> tuple[datetime, datetime]:
    """Live through all conversations; return the first and the last day."""
    dated = [p for p in people if p.made.questions] or people
    times = [session.at for person in dated for session in person.made.sessions]
    start = min(times).replace(hour=0, minute=0)
    end = max([start + months * MONTH, max(times) + timedelta(days=1)])
    lines = sorted(
        (line for person in people for line in lines_of(person, start, end)),
        key=lambda line: (line.at, line.person.number),
    )
    day, was_active = start.date(), False
    for line in lines:
        while day < line.at.date():
            day += timedelta(days=1)
            if was_active or day.weekday() == MONDAY:
                life.wake(datetime(day.year, day.month, day.day, MORNING_H, 30, tzinfo=UTC))
            was_active = False
        life.say(line)
        was_active = True
    for days in (1, 2, 8):
        life.wake(end.replace(hour=MORNING_H, minute=30) + timedelta(days=days))
    return start, end + timedelta(days=8)
