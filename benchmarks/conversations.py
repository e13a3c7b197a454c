"""Conversations from data files, and the memory files that the program would keep of them.

Two shapes are read. LoCoMo's: a list of conversations (or one), each with `conversation.session_N`,
`conversation.session_N_date_time` and, optionally, `qa`, `observation` and `session_summary`.
MemoryBank's: an object of people, each with `history`, which holds `{query, response}` by day.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from familiar_cli.base.text import slugify
from familiar_cli.store import fts
from familiar_cli.store.memory.layout import people_path
from familiar_cli.store.memory.pages.lines import citation_comment
from familiar_cli.writing.writer.grounds import session_path, session_title, slot_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TIMES = ("%I:%M %p ON %d %B, %Y", "%d.%m.%Y, %H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d")
NOON = 12
COMPANION = "Companion"
LEAST_WORDS = 3
MAX_POINTS = 8

TurnId = tuple[int, ...]
Place = tuple[int, int, tuple[TurnId, ...]]


@dataclass(frozen=True)
class Turn:
    """One turn; an image that it shares is represented by its caption, in brackets."""

    id: TurnId
    number: int
    speaker: str
    text: str


@dataclass(frozen=True)
class Point:
    """What a summary says of some turns."""

    text: str
    turns: tuple[TurnId, ...]


@dataclass(frozen=True)
class Session:
    """The turns of one meeting, and what the data file says of them, if anything."""

    at: datetime
    turns: tuple[Turn, ...]
    summary: str = ""
    points: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Question:
    """A question, its answer if the file tells it, and the turns that contain it."""

    text: str
    category: int
    turns: frozenset[TurnId]
    answer: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Conversation:
    """One conversation, oldest session first; `familiar` is the speaker who answers."""

    name: str
    familiar: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...] = ()


@dataclass
class Pages:
    """Memory files: path to text, path to the places that stand for turns, turn to path."""

    files: dict[str, str] = field(default_factory=dict)
    places: dict[str, list[Place]] = field(default_factory=dict)
    path_of: dict[TurnId, str] = field(default_factory=dict)


def read(path: Path) -> list[Conversation]:
    """Return the conversations in a file of either shape."""
    try:
        return list(conversations(json.loads(path.read_text(encoding="utf-8"))))
    except FileNotFoundError:
        sys.exit(f"No such file: {str(path)!r}. Give the path of a file in LoCoMo's format.")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        sys.exit(f"{str(path)!r} is not in LoCoMo's or MemoryBank's format: {error!r}")


def conversations(data: object) -> Iterator[Conversation]:
    """Yield the conversations in parsed JSON."""
    if isinstance(data, dict) and "conversation" not in data:
        for name, person in data.items():
            yield of_person(str(name), person["history"])
        return
    for number, sample in enumerate(data if isinstance(data, list) else [data]):
        yield of_sample(sample, number)


def of_sample(sample: dict[str, Any], number: int = 0) -> Conversation:
    """Return a conversation in LoCoMo's shape."""
    said = sample["conversation"]
    numbers = sorted(int(k.split("_")[1]) for k in said if re.fullmatch(r"session_\d+", k))
    sessions: list[Session] = []
    count = 0
    for session in numbers:
        if said[f"session_{session}"]:
            sessions.append(session_of(sample, session, count))
            count += len(sessions[-1].turns)
    known = {turn.id for session in sessions for turn in session.turns}
    questions = []
    for asked in sample.get("qa") or ():
        evidence = known.intersection(ids(asked.get("evidence")))
        if evidence:
            category = int(asked.get("category", 4))
            text, answer = str(asked["question"]), str(asked.get("answer", ""))
            questions.append(Question(text, category, frozenset(evidence), answer))
    name = str(sample.get("sample_id") or f"conversation-{number}")
    familiar = str(said.get("speaker_b") or "Familiar")
    return Conversation(name, familiar, tuple(sessions), tuple(questions))


def session_of(sample: dict[str, Any], session: int, count: int) -> Session:
    """Return one session in LoCoMo's shape; `count` turns came before it."""
    said = sample["conversation"]
    turns = tuple(
        Turn(ids(turn["dia_id"])[0], count + n, str(turn["speaker"]), words(turn))
        for n, turn in enumerate(said[f"session_{session}"], 1)
    )
    seen = (sample.get("observation") or {}).get(f"session_{session}_observation") or {}
    points = tuple(
        Point(" ".join(str(text).split()), tuple(ids(where)))
        for told in seen.values()
        for text, where in told
    )
    summary = (sample.get("session_summary") or {}).get(f"session_{session}_summary") or ""
    return Session(when(said[f"session_{session}_date_time"]), turns, str(summary), points)


def of_person(name: str, history: dict[str, list[dict[str, str]]]) -> Conversation:
    """Return a conversation in MemoryBank's shape: days of a person with a companion."""
    sessions, number = [], 0
    for place, (day, pairs) in enumerate(sorted(history.items()), 1):
        turns = []
        for pair in pairs:
            for speaker, key in ((name, "query"), (COMPANION, "response")):
                number += 1
                text = " ".join(str(pair.get(key) or "").split())
                turns.append(Turn((place, len(turns) + 1), number, speaker, text))
        sessions.append(Session(when(day).replace(hour=NOON), tuple(turns)))
    return Conversation(name, COMPANION, tuple(one for one in sessions if one.turns))


def ids(text: object) -> list[TurnId]:
    """Return the turns that a field names; `D3:5` and `D3:05` are one."""
    found = re.findall(r"D(\d+):(\d+)", json.dumps(text))
    return [(int(session), int(turn)) for session, turn in found]


def words(turn: dict[str, Any]) -> str:
    """Return the text of a turn, as the program stores it."""
    said = " ".join(str(turn.get("text") or turn.get("clean_text") or "").split())
    return said + (f" [shares {turn['blip_caption']}]" if turn.get("blip_caption") else "")


def when(text: str) -> datetime:
    """Return a time such as `1:56 pm on 8 May, 2023`."""
    for form in TIMES:
        try:
            return datetime.strptime(text.strip().upper(), form).replace(tzinfo=UTC)
        except ValueError:
            continue
    raise ValueError(f"unknown form of time: {text!r}")


def pages(made: Conversation, *, summaries: bool = False) -> Pages:
    """Return the memory files of a conversation: its turns, or what a writer leaves of them."""
    found = Pages()
    for session in made.sessions:
        rel_path = free_path(found, made, session.at)
        title = f"# {session_title(session_path(slot_of(session.at, UTC)))}\n"
        text, places = (summary_file if summaries else turns_file)(session, title)
        found.files[rel_path], found.places[rel_path] = text, places
        found.path_of |= {turn.id: rel_path for turn in session.turns}
    if summaries:
        found.files |= people_files(made)
    return found


def people_files(made: Conversation) -> dict[str, str]:
    """Return the files of those who speak, by which their names are known."""
    names = {turn.speaker for session in made.sessions for turn in session.turns}
    return {people_path(slugify(name) or "somebody"): f"# {name}\n" for name in sorted(names)}


def free_path(found: Pages, made: Conversation, at: datetime) -> str:
    """Return the path of a session file; a second session of the same slot gets a number."""
    folder = slugify(made.name) or "conversation"
    stem = f"sessions/{folder}/{slot_of(at, UTC)}"
    count = 1
    while (path := f"{stem}{f'-{count}' if count > 1 else ''}.md") in found.files:
        count += 1
    return path


def turns_file(session: Session, title: str) -> tuple[str, list[Place]]:
    """Return a session word for word, and where each turn stands."""
    text, places = title, list[Place]()
    for turn in session.turns:
        start = len(text) + 1
        text += f"\n**{turn.speaker}:** {turn.text}\n"
        places.append((start, len(text), (turn.id,)))
    return text, places


def summary_file(session: Session, title: str) -> tuple[str, list[Place]]:
    """Return what a writer leaves of a session: a paragraph, and bullets that name their turns."""
    number = {turn.id: turn.number for turn in session.turns}
    text, places = title, list[Place]()
    if session.summary:
        text += f"\n{' '.join(session.summary.split())} {citation_comment(number.values())}\n"
    text += "\n## Facts\n\n"
    for point in session.points or chosen(session):
        known = tuple(turn for turn in point.turns if turn in number)
        start = len(text)
        text += f"- {point.text} {citation_comment(number[turn] for turn in known)}".rstrip() + "\n"
        places.append((start, len(text), known))
    return text, places


def chosen(session: Session) -> list[Point]:
    """Return the sentences of a session that say most, at most one a turn, in their order."""
    best = [(max(fts.sentences(turn.text), key=weight, default=""), turn) for turn in session.turns]
    telling = sorted(best, key=lambda one: -weight(one[0]))[:MAX_POINTS]
    least = {turn.id for sentence, turn in telling if weight(sentence) >= LEAST_WORDS}
    return [
        Point(f"{said} ({turn.speaker})", (turn.id,)) for said, turn in best if turn.id in least
    ]


def weight(sentence: str) -> int:
    """Return how much a sentence says: its different content words."""
    return len(fts.content_words(sentence))
