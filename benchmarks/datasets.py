"""Read the data sets of the scoreboard: LoCoMo, REALTALK, LongMemEval, BEAM and PersonaMem.

The form of a file is recognised by its keys. Each becomes conversations with questions; a question
has a kind and the turns that hold its evidence, and those without any are left out:

- LoCoMo and REALTALK: `evidence` names the turns.
- LongMemEval: each question has a history of its own; turns with `has_answer`, else all turns of
  the sessions in `answer_session_ids`.
- BEAM: `source_chat_ids`, in whatever shape, names the turns.
- PersonaMem: a CSV of questions, with `shared_contexts*.jsonl` beside it. No evidence is given: it
  is the newest turn of the user that holds most of the words which only the right option has. So
  it tells whether the taste that holds *now* is found.
"""

from __future__ import annotations

import ast
import csv
import json
import re
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from benchmarks.conversations import Conversation, Question, Session, Turn, conversations
from familiar_cli.store import fts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

LOCOMO = {1: "multi-hop", 2: "temporal", 3: "inference", 4: "single-hop", 5: "adversarial"}
USER = "User"
COMPANION = "Companion"
BEGIN = datetime(2024, 1, 1, 12, tzinfo=UTC)
DAY_FORMS = ("%Y/%m/%d (%a) %H:%M", "%Y/%m/%d %H:%M", "%Y-%m-%d", "%B-%d-%Y")
MOST_TURNS = 40


def read_dataset(path: Path) -> tuple[str, list[Conversation]]:
    """Return the name of a file's data set, and its conversations."""
    try:
        if path.suffix == ".csv":
            return "PersonaMem", list(of_personamem(path))
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines() if path.suffix == ".jsonl" else []
        data = [json.loads(line) for line in lines if line] if lines else json.loads(text)
        name, found = of_json(data)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SyntaxError) as error:
        sys.exit(f"{str(path)!r} is in none of the known formats: {error!r}")
    return name, [one for one in found if one.questions]


def of_json(data: Any) -> tuple[str, list[Conversation]]:  # noqa: ANN401  # parsed JSON
    """Return the data set and the conversations in parsed JSON."""
    entries = data if isinstance(data, list) else [data]
    first = entries[0]
    if "haystack_sessions" in first:
        return "LongMemEval", [of_longmemeval(one) for one in entries]
    if "probing_questions" in first:
        return "BEAM", [of_beam(one, number) for number, one in enumerate(entries)]
    if "conversation" not in first and any(re.fullmatch(r"session_\d+", key) for key in first):
        entries = [{"conversation": one, "qa": one.get("qa")} for one in entries]
        return "REALTALK", [with_kinds(one) for one in conversations(entries)]
    return "LoCoMo", [with_kinds(one) for one in conversations(data)]


def with_kinds(made: Conversation) -> Conversation:
    """Name the kinds of LoCoMo's questions."""
    kinds = (replace(q, kind=LOCOMO.get(q.category, str(q.category))) for q in made.questions)
    return replace(made, questions=tuple(kinds))


def of_longmemeval(entry: dict[str, Any]) -> Conversation:
    """Return one question with its history."""
    dates = entry.get("haystack_dates") or [""] * len(entry["haystack_sessions"])
    names = entry.get("haystack_session_ids") or [""] * len(dates)
    sessions: list[Session] = []
    told, whole = set(), set()
    for number, (said, date, name) in enumerate(
        zip(entry["haystack_sessions"], dates, names, strict=True), 1
    ):
        turns = tuple(turns_of(said, number, count=sum(len(s.turns) for s in sessions)))
        sessions.append(Session(day_of(date, number), turns))
        told |= {(number, place) for place, one in enumerate(said, 1) if one.get("has_answer")}
        if name in entry.get("answer_session_ids", ()):
            whole |= {turn.id for turn in turns}
    is_absent = str(entry.get("question_id", "")).endswith("_abs")
    kind = "abstention" if is_absent else str(entry.get("question_type", "all"))
    asked = Question(str(entry["question"]), 0, frozenset(told or whole), kind=kind)
    questions = (asked,) if asked.turns else ()
    name = str(entry.get("question_id") or "question")
    return Conversation(name, COMPANION, tuple(s for s in sessions if s.turns), questions)


def of_beam(entry: dict[str, Any], number: int) -> Conversation:
    """Return one conversation with its probing questions."""
    batches = entry["chat"]
    sessions: list[Session] = []
    by_id: dict[str, tuple[int, int]] = {}
    for place, batch in enumerate(batches, 1):
        said = list(flat_turns(batch))
        turns = tuple(turns_of(said, place, count=sum(len(s.turns) for s in sessions)))
        by_id |= {str(one.get("id")): (place, at) for at, one in enumerate(said, 1)}
        anchor = next((str(one["time_anchor"]) for one in said if one.get("time_anchor")), "")
        sessions.append(Session(day_of(anchor, place), turns))
    asked = entry["probing_questions"]
    asked = ast.literal_eval(asked) if isinstance(asked, str) else asked
    questions = []
    for kind, of_kind in asked.items():
        for one in of_kind:
            named = {by_id[i] for i in flat_ids(one.get("source_chat_ids")) if i in by_id}
            if named:
                questions.append(Question(str(one["question"]), 0, frozenset(named), kind=kind))
    name = str(entry.get("conversation_id") or f"conversation-{number}")
    return Conversation(name, COMPANION, tuple(sessions), tuple(questions))


def flat_turns(batch: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401  # parsed JSON
    """Yield the turns of a batch, however they are nested."""
    if isinstance(batch, dict) and "content" in batch:
        yield batch
    elif isinstance(batch, dict):
        yield from flat_turns(batch.get("turns", ()))
    else:
        for part in batch:
            yield from flat_turns(part)


def flat_ids(value: Any) -> Iterator[str]:  # noqa: ANN401  # parsed JSON
    """Yield the ids in a list, a list of lists, or an object of lists."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from flat_ids(part)
    elif value is not None:
        yield str(value)


def of_personamem(path: Path) -> Iterator[Conversation]:
    """Yield the shared contexts with their questions."""
    contexts: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(path.parent.glob("shared_contexts*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            contexts |= json.loads(line)
    asked: dict[str, list[dict[str, str]]] = {}
    with path.open(encoding="utf-8", newline="") as rows:
        for row in csv.DictReader(rows):
            asked.setdefault(row["shared_context_id"], []).append(row)
    for name, rows_of in asked.items():
        said = [one for one in contexts.get(name, []) if one["role"] != "system"]
        skipped = len(contexts.get(name, [])) - len(said)
        parts = [said[at : at + MOST_TURNS] for at in range(0, len(said), MOST_TURNS)]
        sessions = tuple(
            Session(day_of("", n), tuple(turns_of(part, n, count=(n - 1) * MOST_TURNS)))
            for n, part in enumerate(parts, 1)
        )
        turns = [turn for session in sessions for turn in session.turns]
        questions = (taste(row, turns, skipped) for row in rows_of)
        yield Conversation(name, COMPANION, sessions, tuple(filter(None, questions)))


def taste(row: dict[str, str], turns: list[Turn], skipped: int) -> Question | None:
    """Return a question of PersonaMem; None if no turn holds words of its answer alone."""
    options = ast.literal_eval(row["all_options"])
    letter = row["correct_answer"].strip("() ").lower()
    right = next(one for one in options if one.lstrip("( ").lower().startswith(letter))
    others = {word for one in options if one != right for word in fts.content_words(one)}
    only = set(fts.content_words(right)) - others
    end = int(row.get("end_index_in_shared_context") or len(turns) + skipped) - skipped
    held = [
        (len(only & set(fts.content_words(turn.text))), number)
        for number, turn in enumerate(turns[:end])
        if turn.speaker == USER
    ]
    most, newest = max(held, default=(0, 0))
    if not most:
        return None
    evidence = frozenset({turns[newest].id})
    return Question(row["user_question_or_message"], 0, evidence, kind=row["question_type"])


def turns_of(said: Iterable[dict[str, Any]], session: int, *, count: int) -> Iterator[Turn]:
    """Yield turns with a role and a content; `count` turns came before."""
    for place, one in enumerate(said, 1):
        speaker = COMPANION if one.get("role") == "assistant" else USER
        yield Turn((session, place), count + place, speaker, " ".join(str(one["content"]).split()))


def day_of(text: str, number: int) -> datetime:
    """Return the time of a session; without one, sessions are a day apart."""
    for form in DAY_FORMS:
        try:
            return datetime.strptime(text.strip(), form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return BEGIN + timedelta(days=number)
