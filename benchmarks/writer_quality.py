"""Share of the answers that a model's written memory still holds, on LoCoMo's questions.

`python -m benchmarks.writer_quality FILE --url URL --model NAME [--window 16384] [--first N]
[--keep DIR] [--json]` takes any file in LoCoMo's format. Each conversation becomes the history of a
familiar of its own, to which both speakers talk; the model behind URL, an OpenAI-compatible server,
then writes memory from it as `familiar write-memory` does. A key is read from FAMILIAR_LLM_API_KEY.

An answer is held when all its words stand in one line of memory, whatever their endings; a date may
be written in any way, and the day of a session file counts for each of its lines. `held` is the
share of such answers over questions of categories 1 to 4, and `held_cited` the same over lines that
name one of the question's evidence turns. `answer_words` is the share of an answer's words in the
best line. `in_turns` is `held` for the turns themselves: what a writer that loses nothing reaches.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sqlite3
import statistics
import sys
import tempfile
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.conversations import read
from benchmarks.locomo import ADVERSARIAL, CATEGORIES
from familiar_cli.actions.memory.write_memory import write_memory
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.markdown import title_of
from familiar_cli.base.text import slugify
from familiar_cli.base.times.clock import stopwatch_s
from familiar_cli.base.times.when import day_words, with_dates
from familiar_cli.base.who.identity import Author
from familiar_cli.familiar import Familiar
from familiar_cli.store import fts
from familiar_cli.store.memory.pages.lines import turn_ids, without_references
from familiar_cli.store.search.who_when import day_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from benchmarks.conversations import Conversation, Question
    from familiar_cli.writing.writer.contract import WriterReport

NAME: Final = "Listener"
MONTHS: Final = {
    day_words(datetime(2000, n, 1, tzinfo=UTC).date()).split()[1].lower(): n for n in range(1, 13)
}
_MONTH: Final = "|".join(MONTHS)
_DATE: Final = re.compile(
    rf"(?P<y>\d{{4}})-(?P<m>\d\d)-(?P<d>\d\d)"
    rf"|(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th)? )?(?P<month>{_MONTH})"
    rf"(?: (?P<after>\d{{1,2}})(?:st|nd|rd|th)?(?!\d))?,? (?P<year>\d{{4}})",
    re.IGNORECASE,
)
_NUMBERS: Final = (
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
_NUMBER: Final = re.compile(rf"\b({'|'.join(_NUMBERS)})\b", re.IGNORECASE)


@dataclass(frozen=True)
class Line:
    """One line of text that may hold an answer, and the turns that it names."""

    text: str
    turns: frozenset[int]


@dataclass(frozen=True)
class Row:
    """The result of one question."""

    category: int
    held: bool
    held_cited: bool
    words: float
    in_turns: bool


@dataclass
class Written:
    """What writing a conversation cost, and what came of its questions."""

    name: str
    report: WriterReport
    seconds: float
    memory_tokens: int
    rows: list[Row] = field(default_factory=list)


class Lines:
    """Lines in a full-text table, as the program's own search reads words."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._db = sqlite3.connect(":memory:")
        self._db.execute(f'CREATE VIRTUAL TABLE lines USING fts5(text, tokenize="{fts.TOKENIZER}")')
        self._turns: dict[int, frozenset[int]] = {}
        for number, line in enumerate(lines, 1):
            text = fts.indexable(spelled(line.text, whole=True))
            self._db.execute("INSERT INTO lines (rowid, text) VALUES (?, ?)", (number, text))
            self._turns[number] = line.turns

    def best(self, answer: str, cited: frozenset[int] | None = None) -> float:
        """Return which share of an answer's words the best line holds.

        Args:
            answer: The answer.
            cited: Only lines that name one of these turns; None: all lines.
        """
        terms = (fts.match_any(spelled(answer, whole=False)) or "").split(" OR ")
        found: Counter[int] = Counter()
        for term in filter(None, terms):
            rows = self._db.execute("SELECT rowid FROM lines WHERE lines MATCH ?", (term,))
            found.update(row[0] for row in rows if cited is None or cited & self._turns[row[0]])
        return max(found.values(), default=0) / len(terms)

    def close(self) -> None:
        """Let go of the table."""
        self._db.close()


def spelled(text: str, *, whole: bool) -> str:
    """Return `text` with each date and number in one spelling.

    Args:
        text: What was written.
        whole: A day also stands for its month; an answer's day is nothing but that day.
    """

    def written(found: re.Match[str]) -> str:
        year, month = found["y"] or found["year"], found["m"] or MONTHS[found["month"].lower()]
        day = found["d"] or found["day"] or found["after"]
        in_month = f"m{year}{int(month):02}"
        on_day = f"d{year}{int(month):02}{int(day):02}" if day else ""
        return f"{on_day} {in_month} {year}" if whole else on_day or in_month

    text = _NUMBER.sub(lambda found: str(_NUMBERS.index(found[1].lower())), text)
    return _DATE.sub(written, text)


def said(made: Conversation) -> Iterator[Line]:
    """Yield the turns of a conversation, with the dates that their words mean."""
    for session in made.sessions:
        day = session.at.date()
        for turn in session.turns:
            text = with_dates(turn.text, lambda _, day=day: day)  # type: ignore[misc]
            yield Line(f"{turn.speaker}: {text} ({day})", frozenset({turn.number}))


def kept(familiar: Familiar) -> Iterator[Line]:
    """Yield the lines of all memory files, each with the title and the day of its file."""
    numbering, memory = familiar.numbering, familiar.paths.memory
    for path in sorted(memory.rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        day = day_in(path.name) or ""
        for line in text.splitlines():
            if not line.startswith("#") and without_references(line).strip(" -"):
                shown = f"{without_references(line)} ({title_of(text)}, {day})"
                yield Line(shown, frozenset(turn_ids(line, numbering)))


def listen(familiar: Familiar, made: Conversation) -> None:
    """Write all turns into the history, as said by people."""
    for session in made.sessions:
        for place, turn in enumerate(session.turns):
            who = Author("locomo", slugify(turn.speaker) or "someone", display_name=turn.speaker)
            at = session.at + timedelta(minutes=place)
            familiar.history.append("talk", "user", turn.text, author=who, at=at)


def written(made: Conversation, home: Path, options: argparse.Namespace) -> Written:
    """Let the model write memory from a conversation, and ask its questions."""
    name = slugify(made.name) or "conversation"
    root = home / name
    (root / "memory").mkdir(parents=True)
    (root / "channels").mkdir()
    (root / "channels" / "talk.toml").write_text('kind = "text"\n', encoding="utf-8")
    (root / "character.toml").write_text(settings(options), encoding="utf-8")
    with Familiar.load_from_disk(home, name) as familiar:
        listen(familiar, made)
        turns = familiar.history.count()

        def tell(report: WriterReport) -> None:
            print(f"{made.name}: {report.turns_covered} of {turns} turns", file=sys.stderr)

        start = stopwatch_s()
        report = asyncio.run(write_memory(familiar, on_step=tell))
        seconds = stopwatch_s() - start
        lines = list(kept(familiar))
        tokens = sum(familiar.counter.count(line.text) for line in lines)
    found = Written(made.name, report, seconds, tokens)
    with closing(Lines(lines)) as memory, closing(Lines(said(made))) as turns_said:
        number = {turn.id: turn.number for one in made.sessions for turn in one.turns}
        for question in asked(made):
            cited = frozenset(number[turn] for turn in question.turns)
            best = memory.best(question.answer)
            is_cited = memory.best(question.answer, cited) == 1
            whole = turns_said.best(question.answer) == 1
            found.rows.append(Row(question.category, best == 1, is_cited, best, whole))
    return found


def asked(made: Conversation) -> list[Question]:
    """Return the questions that have an answer with words."""
    return [q for q in made.questions if q.category != ADVERSARIAL and fts.words(q.answer)]


def settings(options: argparse.Namespace) -> str:
    """Return the familiar's `character.toml`."""
    return (
        f'name = "{NAME}"\ntimezone = "UTC"\n[llm]\npreset = "custom"\n'
        f"base_url = {json.dumps(options.url)}\nmodel = {json.dumps(options.model)}\n"
        f'context_tokens = {options.window}\n[embedding]\nmodel = "none"\n'
    )


def summary(done: Sequence[Written]) -> dict[str, Any]:
    """Return the numbers, as `--json` prints them."""
    rows = [row for one in done for row in one.rows]
    spent = [one.report.spent for one in done]
    errors = [f"{one.name}: {one.report.error}" for one in done if one.report.error]
    return {
        **scores(rows),
        "categories": {
            name: scores([row for row in rows if row.category == number])
            for number, name in CATEGORIES.items()
            if number != ADVERSARIAL
        },
        "conversations": len(done),
        "turns": sum(one.report.turns_covered for one in done),
        "calls": sum(one.calls for one in spent),
        "repairs": sum(one.repairs for one in spent),
        "refused": sum(len(one.report.refused) for one in done),
        "prompt_tokens": sum(one.prompt_tokens or one.estimated_tokens for one in spent),
        "completion_tokens": sum(one.completion_tokens or 0 for one in spent),
        "memory_tokens": sum(one.memory_tokens for one in done),
        "model_s": round(sum(one.model_s for one in spent), 1),
        "seconds": round(sum(one.seconds for one in done), 1),
        "errors": errors,
    }


def scores(rows: Sequence[Row]) -> dict[str, float]:
    """Return the shares over `rows`."""
    return {
        "held": mean(row.held for row in rows),
        "held_cited": mean(row.held_cited for row in rows),
        "answer_words": mean(row.words for row in rows),
        "in_turns": mean(row.in_turns for row in rows),
        "n": len(rows),
    }


def mean(values: Iterable[float]) -> float:
    """Return the mean to four places; 0 of nothing."""
    found = list(values)
    return round(statistics.fmean(found), 4) if found else 0.0


def measure(options: argparse.Namespace, home: Path) -> list[Written]:
    """Write all conversations, up to the first failure."""
    done: list[Written] = []
    for made in read(options.file)[: options.first]:
        try:
            done.append(written(made, home, options))
        except FamiliarError as error:
            sys.exit(f"{made.name}: {error}" + (f" {error.hint}" if error.hint else ""))
        if done[-1].report.error:
            break
    return done


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("file", type=Path, help="LoCoMo data, a JSON list of conversations")
    parser.add_argument("--url", required=True, help="the server's address, ending in /v1")
    parser.add_argument("--model", required=True, help="the model's name there")
    parser.add_argument("--window", type=int, default=16384, help="tokens the model can read")
    parser.add_argument("--first", type=int, help="only the first N conversations")
    parser.add_argument("--keep", type=Path, help="an empty directory for the familiars made")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(argv)
    if options.keep:
        if options.keep.is_dir() and any(options.keep.iterdir()):
            sys.exit(f"{str(options.keep)!r} is not empty. Give a new directory.")
        found = summary(measure(options, options.keep))
    else:
        with tempfile.TemporaryDirectory() as directory:
            found = summary(measure(options, Path(directory)))
    if options.json:
        print(json.dumps(found))
    else:
        by_category = found.pop("categories")
        for key, value in [*found.items(), *by_category.items()]:
            told = "  ".join(f"{k} {v}" for k, v in value.items()) if key in by_category else value
            print(f"{key:18} {told}")
    if found["errors"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
