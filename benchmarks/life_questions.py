"""Facts that a replay plants in conversations, and questions about them and about the data.

Every planted line is told by the first speaker of a conversation at a share of the whole time, so
that facts change, events repeat, and what belongs together is told months apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from benchmarks.locomo import ADVERSARIAL
from familiar_cli.store import fts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from benchmarks.conversations import Conversation, Point, TurnId

LOCOMO_KINDS: Final = {1: "multi-hop", 2: "temporal", 3: "inference", 4: "single-hop"}
TOWNS: Final = ("Bergen", "Tartu", "Porto", "Ghent", "Turku", "Split", "Leipzig", "Cork")
LATER: Final = ("Lund", "Graz", "Vigo", "Basel", "Brno", "Varna", "Delft", "Galway")
JOBS: Final = (
    *("baker", "surveyor", "librarian", "welder", "florist", "dispatcher", "cooper", "usher"),
)
LATER_JOBS: Final = (
    *("translator", "midwife", "beekeeper", "locksmith", "pilot", "tailor", "cook", "notary"),
)
PETS: Final = ("Pixel", "Mungo", "Truffle", "Zorro", "Fennel", "Bosun", "Nutmeg", "Quark")
HABITS: Final = (
    *("bouldering", "choir practice", "fencing", "pottery class"),
    *("rowing", "archery", "the planetarium", "falconry"),
)
EXES: Final = (
    *("Torvald", "Ottilie", "Casimir", "Rosalind", "Leander", "Philippa", "Anselm", "Wilhelmina"),
)
FOODS: Final = (
    *("coriander", "aubergine", "liquorice", "anchovies", "beetroot", "marzipan", "okra", "celery"),
)
WISHES: Final = (
    *("under three sentences", "free of emojis", "in plain words", "without exclamation marks"),
    *("short in the evening", "in metric units", "free of proverbs", "in British spelling"),
)
PROJECTS: Final = (
    *("the old dinghy", "the camper van", "the attic room", "the greenhouse"),
    *("the piano", "the hen house", "the sundial", "the rocking chair"),
)
EVENTS: Final = (
    ("passed the driving test", "sold the motorbike", "adopted a greyhound"),
    ("published a short poem", "learned to solder", "broke the blue teapot"),
    ("climbed the north ridge", "planted a quince tree", "met the new neighbours"),
    ("finished the marathon", "bought a harmonium", "had the wisdom teeth out"),
    ("repaired the church clock", "won the chess evening", "gave up smoking"),
    ("sang in the cathedral", "lost the big umbrella", "painted the staircase"),
    ("baked a rye loaf", "saw the northern lights", "signed up for Latin"),
    ("gave the eulogy", "caught a pike", "moved the bookshelves"),
)
MOST_OF_MONTH: Final = 12
_MOST_FROM_DATA: Final = 4


@dataclass(frozen=True)
class Planted:
    """A line that is said at a share of the whole time, 0 to 1."""

    key: str
    at: float
    text: str


@dataclass(frozen=True)
class Asked:
    """A question, what it is of, and where its answer stands.

    Args:
        kind: The kind of question.
        text: The question.
        planted: The keys of the planted lines that answer it.
        turns: The turns of the data that answer it.
        answer: Words of the answer.
        older: The key of a line that no longer holds, and must not be shown alone.
        of_asker: It is about whoever asks, and not a stranger's.
    """

    kind: str
    text: str
    planted: tuple[str, ...] = ()
    turns: frozenset[TurnId] = frozenset()
    answer: str = ""
    older: str = ""
    of_asker: bool = False


def of(values: Sequence[str], number: int) -> str:
    return values[number % len(values)]


def plant(number: int) -> list[Planted]:
    """Return the lines that the person with this number says."""
    town, later, job, new_job = (of(v, number) for v in (TOWNS, LATER, JOBS, LATER_JOBS))
    habit, thing = of(HABITS, number), of(PROJECTS, number)
    first, second, third = EVENTS[number % len(EVENTS)]
    lines = [
        ("town", 0.05, f"I moved to {town} this week, into two rooms above a bakery."),
        ("later-town", 0.62, f"Big news, I moved to {later}! The boxes are still in the hall."),
        ("job", 0.08, f"I started to work as a {job}, my feet hurt in the evening."),
        ("later-job", 0.7, f"I have a new job: since this morning I work as a {new_job}."),
        ("pet", 0.12, f"My rabbit is called {of(PETS, number)} and sleeps in a drawer."),
        ("food", 0.15, f"I can't stand {of(FOODS, number)}, it tastes of soap to me."),
        ("wish", 0.18, f"Please always keep your answers to me {of(WISHES, number)}."),
        ("ex", 0.2, f"Please never mention my ex {of(EXES, number)} again, it still hurts."),
        ("habit-1", 0.1, f"I went to {habit} for the first time today."),
        ("habit-2", 0.3, f"I was at {habit} again this evening, it was crowded."),
        ("habit-3", 0.5, f"Back from {habit}, my arms are tired."),
        ("habit-4", 0.8, f"I went to {habit} after work, and stayed until they closed."),
        ("event-1", 0.22, f"I finally {first} today."),
        ("event-2", 0.45, f"Guess what, I {second}."),
        ("event-3", 0.75, f"I {third}, can you believe it?"),
        ("thing-1", 0.25, f"I want to restore {thing}, but I lack good sandpaper."),
        ("thing-2", 0.4, f"My uncle lends me his workbench for {thing}."),
        ("thing-3", 0.55, f"I ordered four litres of varnish for {thing}."),
        ("thing-4", 0.85, f"There is rust below {thing}, so it takes until winter."),
    ]
    return sorted((Planted(*line) for line in lines), key=lambda line: line.at)


def planted_questions(number: int, since: str) -> list[Asked]:
    """Return what the person with this number may ask about the planted lines.

    Args:
        number: The person's.
        since: The name of the month before the later changes.
    """
    town, later, job, new_job = (of(v, number) for v in (TOWNS, LATER, JOBS, LATER_JOBS))
    habit, thing = of(HABITS, number), of(PROJECTS, number)
    first, second, third = EVENTS[number % len(EVENTS)]
    habits = tuple(f"habit-{n}" for n in range(1, 5))
    events = tuple(f"event-{n}" for n in range(1, 4))
    things = tuple(f"thing-{n}" for n in range(1, 5))
    asked = [
        ("update", "Where do I live now?", ("later-town",), later, "town"),
        ("update", "What do I do for a living these days?", ("later-job",), new_job, "job"),
        (
            "contradiction",
            f"Do I live in {town} or in {later}?",
            ("town", "later-town"),
            f"{later} {town}",
        ),
        (
            "contradiction",
            "What was my job before the present one?",
            ("job", "later-job"),
            f"{job} {new_job}",
        ),
        ("extraction", "What is my rabbit called?", ("pet",), of(PETS, number)),
        ("preference", "What should I leave out of my soup?", ("food",), of(FOODS, number)),
        ("preference", "Which taste do I dislike?", ("food",), of(FOODS, number)),
        ("instruction", "Tell me about lighthouses.", ("wish",), of(WISHES, number)),
        ("instruction", "Whom should I invite to my party?", ("ex",), of(EXES, number)),
        ("counting", f"How many times have I been to {habit}?", habits, habit),
        ("last", f"When was I last at {habit}?", habits[-1:], f"{habit} closed"),
        (
            "ordering",
            f"In which order did these happen: I {third}, I {first}, I {second}?",
            events,
            f"{first} {second} {third}",
        ),
        (
            "since",
            f"What has changed in my life since {since}?",
            ("later-town", "later-job"),
            f"{later} {new_job}",
        ),
        ("several sessions", f"What do I need, and what do I have, for {thing}?", things, ""),
        ("summary", f"Summarise what I told you of {thing}.", things, ""),
    ]
    told = {line.key: line.text for line in plant(number)}
    return [
        Asked(
            kind,
            text,
            planted=keys,
            answer=answer or " ".join(told[key] for key in keys),
            older="".join(older),
            of_asker=True,
        )
        for kind, text, keys, answer, *older in asked
    ]


def data_questions(made: Conversation) -> list[Asked]:
    """Return the questions that a data file asks, and those that follow from its dated points."""
    found = [
        Asked(LOCOMO_KINDS[question.category], question.text, (), question.turns, question.answer)
        for question in made.questions
        if question.category in LOCOMO_KINDS and question.category != ADVERSARIAL
    ]
    return [*found, *_orderings(made), *_months(made)]


def _orderings(made: Conversation) -> Iterator[Asked]:
    """Yield questions for the order of three points of different sessions."""
    first = [
        next(
            ((p, s.at) for p in s.points if p.turns and len(fts.content_words(p.text)) > 3),
            None,
        )
        for s in made.sessions
    ]
    told = [one for one in first if one is not None]
    step = max(len(told) // (_MOST_FROM_DATA * 3), 1)
    told = told[::step]
    for number in range(0, len(told) - 2, 3):
        three = [point for point, _ in told[number : number + 3]]
        parts = "; ".join(sorted(point.text.rstrip(".") for point in three))
        turns = frozenset(turn for point in three for turn in point.turns)
        answer = " ".join(point.text for point in three)
        yield Asked("ordering", f"In which order did these happen: {parts}?", (), turns, answer)


def _months(made: Conversation) -> Iterator[Asked]:
    """Yield questions for what was told in a month."""
    names = " and ".join(dict.fromkeys(t.speaker for s in made.sessions for t in s.turns))
    with_points = [session for session in made.sessions if session.points]
    months = [(at, list(of_it)) for at, of_it in groupby(with_points, lambda s: _month(s.at))]
    step = max(len(months) // _MOST_FROM_DATA, 1)
    for month, sessions in months[::step][:_MOST_FROM_DATA]:
        points = _spread([point for one in sessions for point in one.points if point.turns])
        turns = frozenset(turn for point in points for turn in point.turns)
        text = f"Summarise what {names} talked about in {month}."
        answer = " ".join(one.summary for one in sessions) or " ".join(p.text for p in points)
        if turns:
            yield Asked("summary", text, (), turns, answer)


def _spread(points: Sequence[Point]) -> Sequence[Point]:
    step = max(len(points) // MOST_OF_MONTH, 1)
    return points[::step][:MOST_OF_MONTH]


def _month(at: datetime) -> str:
    return f"{at:%B %Y}"
