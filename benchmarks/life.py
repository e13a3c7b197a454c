"""Months of life with a familiar, replayed from dated conversations, and what prompts hold then.

`python -m benchmarks.life FILES... [--months 18] [--questions N] [--model lexical|minilm]
[--raw-only] [--json]` takes files in LoCoMo's and MemoryBank's format. All conversations become
channels of one familiar: two people who talk to each other are a group that it hears, and one
person with a companion is a direct conversation in which it replies. Conversations without
questions are spread over the months; the others keep their dates, which their questions name.
Facts are planted among them; see `life_questions`. A simulated clock runs through all of it: turns
are heard or answered, the daemon catches up each morning, and a model that follows rules, and
misbehaves now and then, stands for the real one; see `life_model`.

Then each question is asked with a dry run, in an empty room and after 8 and 32 messages of others:
with memory and the raw past (`both`), with the raw past alone (`raw`), with memory alone (`files`).

`verbatim` is the share of a question's evidence turns that stand word for word in the prompt,
`or_cited` counts a turn also when a line of memory that cites it is there, and `answer` is the
share of the answer's words. `dated` is the share of the lines shown from people's files that tell
their year; `stale` that of the changed facts of which only the older is shown; `leaks` how many
strangers' prompts hold what was said in private; `late` how many searches ended too late.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.conversations import read
from benchmarks.life_model import PASSES, Calls, RuleModel
from benchmarks.life_questions import MOST_OF_MONTH, Asked, data_questions, planted_questions
from benchmarks.life_replay import (
    Life,
    Person,
    Simulated,
    is_late,
    lines_of,
    people_of,
    replay,
    simulated,
)
from benchmarks.locomo import MODELS
from benchmarks.prompts import CHATTER, CHATTERS
from familiar_cli.actions.memory.housekeep import tidy_up
from familiar_cli.actions.memory.write_memory import write_memory
from familiar_cli.actions.talk import channels, talk
from familiar_cli.base.config.home import cache_dir
from familiar_cli.base.who.identity import Author
from familiar_cli.context.types import Layer, Said
from familiar_cli.familiar import Familiar
from familiar_cli.store import fts
from familiar_cli.store.memory.pages.lines import turn_ids, without_references
from familiar_cli.store.search.embedder import open_embedder
from familiar_cli.sync.turns_outgoing import count_unread_turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from familiar_cli.context.trace import Trace

NAME: Final = "Vela"
ROOMS: Final = (0, 8, 32)
SOURCES: Final = ("both", "raw", "files")
STRANGER: Final = Author("cli", "stranger", display_name="Stranger")
LACKING: Final = re.compile(r"(?:it has |left out \()(\d+) tokens")
SINCE: Final = 0.6


def settings(options: argparse.Namespace, *, past: str = "on") -> str:
    """Return the familiar's `character.toml`."""
    return (
        f'name = "{NAME}"\ntimezone = "UTC"\n[llm]\npreset = "custom"\n'
        f'base_url = "http://127.0.0.1:9/v1"\nmodel = "rules"\n'
        f'context_tokens = {options.window}\n[embedding]\nmodel = "{MODELS[options.model]}"\n'
        f'[recall]\nenabled = "{past}"\n'
        + (f"[budget]\ncontent = {options.content}\n" if options.content else "")
    )


@dataclass(frozen=True)
class Row:
    """The result of one question."""

    kind: str
    verbatim: float
    or_cited: float
    answer: float
    tokens: dict[str, int]
    ms: float
    late: bool
    refused: bool
    stale: bool | None
    lines: int
    dated: int


@dataclass(frozen=True)
class Shown:
    """A line of memory as a prompt may show it, and the turns that it cites."""

    text: str
    turns: frozenset[int]


class Asking:
    """Asks questions of one home, and looks for the evidence in the prompts."""

    def __init__(self, familiar: Familiar, life: Life) -> None:
        self.familiar = familiar
        self._kept = life.kept
        self._lines = list(memory_lines(familiar))
        self._years = dict(_years(familiar, self._lines))

    def prompt(self, person: Person, asker: Author, text: str, heard: int) -> tuple[Trace, float]:
        """Return the prompt that a question leads to, and the milliseconds it took."""
        room, kind = room_of(person, asker, heard)
        began = time.perf_counter()
        trace = asyncio.run(
            talk.assemble(self.familiar, Said(text, asker, channel_id=room, kind=kind))
        )
        return trace, (time.perf_counter() - began) * 1000

    def row(self, person: Person, asked: Asked, heard: int) -> Row | None:
        """Ask a question; None where what it is about was never kept."""
        keys: list[object] = [*asked.planted, *asked.turns]
        kept = [self._kept[person.number, k] for k in keys if (person.number, k) in self._kept]
        if not kept:
            return None
        trace, ms = self.prompt(person, asker_of(person, asked), asked.text, heard)
        text = plain("\n".join(message.content for message in trace.messages[:-1]))
        verbatim = [plain(words) in text for _, words in kept]
        cited = [
            found or self._is_cited(turn, text)
            for (turn, _), found in zip(kept, verbatim, strict=True)
        ]
        lines, dated = self._dated(text)
        return Row(
            asked.kind,
            statistics.fmean(verbatim),
            statistics.fmean(cited),
            share_of(asked.answer, text),
            tokens_of(trace),
            ms,
            is_late(trace),
            is_refused_with_room(trace),
            self._is_stale(person, asked, text, cited),
            lines,
            dated,
        )

    def leaks(self, person: Person, asked: Asked) -> bool:
        """Return whether a stranger's prompt holds the private evidence of a question."""
        trace, _ = self.prompt(person, STRANGER, asked.text, 0)
        text = plain("\n".join(message.content for message in trace.messages[:-1]))
        keys = [(person.number, key) for key in (*asked.planted, *asked.turns)]
        kept = [self._kept[key] for key in keys if key in self._kept]
        return any(plain(said) in text or self._is_cited(turn, text) for turn, said in kept)

    def _is_cited(self, turn: int, text: str) -> bool:
        return any(turn in line.turns and line.text in text for line in self._lines)

    def _is_stale(
        self, person: Person, asked: Asked, text: str, cited: Sequence[bool]
    ) -> bool | None:
        older = self._kept.get((person.number, asked.older)) if asked.older else None
        if older is None:
            return None
        turn, words = older
        return not any(cited) and (plain(words) in text or self._is_cited(turn, text))

    def _dated(self, text: str) -> tuple[int, int]:
        """Return how many lines of people's files are shown, and how many tell their year."""
        shown = dated = 0
        for line, years in self._years.items():
            at = text.find(line)
            if at >= 0:
                shown += 1
                end = text[at : at + len(line) + 30]
                dated += any(year in end for year in years)
        return shown, dated


def asker_of(person: Person, asked: Asked) -> Author:
    return person.author if asked.of_asker or person.is_private else STRANGER


def room_of(person: Person, asker: Author, heard: int) -> tuple[str, str]:
    """Return a channel for questions and its kind; a stranger is never in a direct one."""
    is_private = person.is_private and asker == person.author
    who = f"-{person.number}" if is_private else ""
    return f"room-{heard}{who}", "dm" if is_private else "text"


def fill_rooms(familiar: Familiar, people: Sequence[Person]) -> None:
    """Let others talk in the rooms where questions are asked; a direct one has no others."""
    rooms = {(room_of(p, p.author, heard), heard): p for p in people for heard in ROOMS}
    for ((room, kind), heard), person in rooms.items():
        for number in range(heard):
            author = person.author if kind == "dm" else CHATTERS[number % len(CHATTERS)]
            said = Said(CHATTER[number % len(CHATTER)], author, channel_id=room, kind=kind)
            channels.hear(familiar, said, Simulated.present - timedelta(minutes=heard - number))


def memory_lines(familiar: Familiar) -> Iterator[Shown]:
    """Yield the lines of memory that cite turns."""
    numbering = familiar.numbering
    for path in sorted(familiar.paths.memory.rglob("*.md")):
        for line in path.read_text(encoding="utf-8").splitlines():
            turns = turn_ids(line, numbering)
            text = plain(re.sub(r"<!--.*?-->", "", without_references(line))).strip(" -*")
            if turns and len(fts.content_words(text)) > 1:
                yield Shown(text, frozenset(turns))


def _years(familiar: Familiar, lines: Iterable[Shown]) -> Iterator[tuple[str, set[str]]]:
    people = familiar.paths.memory / "people"
    texts = [plain(path.read_text(encoding="utf-8")) for path in sorted(people.glob("*.md"))]
    told = "\n".join(texts)
    for line in lines:
        if line.text in told:
            turns = [familiar.history.turn(turn) for turn in line.turns]
            yield line.text, {str(turn.at.year) for turn in turns if turn}


def plain(text: str) -> str:
    """Return `text` with single spaces."""
    return " ".join(text.split())


def share_of(answer: str, text: str) -> float:
    """Return the share of an answer's words that stand in a text."""
    wanted = set(fts.content_words(answer))
    return len(wanted.intersection(fts.words(text))) / len(wanted) if wanted else 1.0


def tokens_of(trace: Trace) -> dict[str, int]:
    """Return the tokens of a prompt, and of its memory by kind."""
    found: Counter[str] = Counter({"prompt": trace.used_tokens})
    for piece in trace.contributions:
        if piece.kept:
            found[_kind_of(piece.layer, piece.source)] += piece.tokens
    return dict(found)


def _kind_of(layer: Layer, source: str) -> str:
    if layer == Layer.content:
        kinds = {"recall": "past", "content_search": "passages"}
        return (
            "people" if "people" in source else kinds.get(source.split(".", maxsplit=1)[0], "other")
        )
    return {"history_summary": "summary", "recent_history": "history"}.get(str(layer), str(layer))


def is_refused_with_room(trace: Trace) -> bool:
    """Return whether something that was found stays out for want of tokens that memory could have.

    Memory can have what the prompt leaves, but no more than `budget.content`.
    """
    free = trace.budget_tokens - trace.used_tokens
    content = next(layer for layer in trace.layers if layer.name == Layer.content)
    if content.budget_tokens == content.share_tokens:
        free = min(free, content.budget_tokens - content.used_tokens)
    return any(
        not piece.kept
        and piece.layer == Layer.content
        and any(int(n) < free for n in LACKING.findall(f"{piece.reason} {piece.remark}"))
        for piece in trace.contributions
    )


def mean(values: Iterable[float | bool]) -> float:
    found = [float(value) for value in values]
    return round(statistics.fmean(found), 4) if found else 0.0


def told(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the numbers of some questions."""
    return {
        "verbatim": mean(row.verbatim for row in rows),
        "or_cited": mean(row.or_cited for row in rows),
        "answer": mean(row.answer for row in rows),
        "n": len(rows),
    }


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the numbers of one source and room, as `--json` prints them."""
    kinds = dict.fromkeys(row.kind for row in rows)
    layers = sorted({name for row in rows for name in row.tokens})
    return {
        **told(rows),
        "kinds": {kind: told([row for row in rows if row.kind == kind]) for kind in kinds},
        "tokens": {name: mean(row.tokens.get(name, 0) for row in rows) for name in layers},
        "stale": mean(row.stale for row in rows if row.stale is not None),
        "dated": mean([row.dated / row.lines for row in rows if row.lines]),
        "refused_with_room": sum(row.refused for row in rows),
        "late": sum(row.late for row in rows),
        "prompt_ms_p50": round(statistics.median(row.ms for row in rows), 1) if rows else 0.0,
    }


def questions_of(person: Person, start: datetime, end: datetime, most: int) -> list[Asked]:
    """Return a person's questions, at most so many of each kind; 0: all."""
    since = f"{start + (end - start) * SINCE:%B %Y}"
    found: dict[str, list[Asked]] = defaultdict(list)
    planted = planted_questions(person.number, since)
    timeline = private_months(person, start, end) if person.is_private else ()
    for asked in [*data_questions(person.made), *planted, *timeline]:
        found[asked.kind].append(asked)
    few = (asks[:: max(len(asks) // most, 1)][:most] if most else asks for asks in found.values())
    return [asked for asks in few for asked in asks]


def private_months(person: Person, start: datetime, end: datetime) -> Iterator[Asked]:
    """Yield questions for what was told in a month of a direct conversation."""
    lines = sorted(lines_of(person, start, end), key=lambda line: line.at)
    for month, of_month in groupby(lines, lambda line: f"{line.at:%B %Y}"):
        few = list(of_month)[:MOST_OF_MONTH]
        turns = frozenset(line.key for line in few if isinstance(line.key, tuple))
        planted = tuple(line.key for line in few if isinstance(line.key, str))
        answer = " ".join(line.text for line in few)
        yield Asked("month", f"What happened in {month}?", planted, turns, answer, of_asker=True)


def copied(home: Path, name: str, options: argparse.Namespace) -> Path:
    """Return a copy of a home that has only the raw past, or only memory."""
    target = home.parent / name
    shutil.copytree(home, target)
    root = target / "vela"
    if name == "raw":
        shutil.rmtree(root / "memory")
        (root / "memory").mkdir()
    past = "off" if name == "files" else "on"
    (root / "character.toml").write_text(settings(options, past=past), encoding="utf-8")
    return target


def sizes(familiar: Familiar) -> dict[str, Any]:
    """Return the sizes of memory and history, and what waits."""
    paths = [path for path in familiar.paths.memory.rglob("*.md") if path.is_file()]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    by_folder: Counter[str] = Counter()
    for path, text in zip(paths, texts, strict=True):
        folder = path.relative_to(familiar.paths.memory).parts[0]
        by_folder[folder] += familiar.counter.count(text)
    index = familiar.paths.memory / ".index"
    return {
        "memory_files": len(paths),
        "memory_tokens": sum(by_folder.values()),
        "memory_tokens_by_folder": dict(sorted(by_folder.items())),
        "history_kb": familiar.paths.history.stat().st_size // 1024,
        "index_kb": sum(p.stat().st_size for p in index.rglob("*") if p.is_file()) // 1024,
        "turns": familiar.history.count(),
        "unread_turns": count_unread_turns(familiar.history),
        "plans_waiting": len(familiar.memory.plan_ids()),
    }


def costs(model: RuleModel, turns: int) -> dict[str, Any]:
    """Return calls and tokens of each pass, for 100 turns."""
    found = {}
    for name in PASSES:
        spent = [cost for (of, _), cost in model.spent.items() if of == name]
        found[name] = {
            "calls": per_100(sum(c.calls for c in spent), turns),
            "read": per_100(sum(c.read for c in spent), turns),
            "written": per_100(sum(c.written for c in spent), turns),
            "faults": dict(sum((c.faults for c in spent), Counter[str]())),
        }
    return found


def per_100(number: int, turns: int) -> float:
    return round(100 * number / turns, 1) if turns else 0.0


def months_of(life: Life) -> dict[str, Any]:
    """Return what happened, by month."""
    found = {}
    for name, month in sorted(life.months.items()):
        spent = [cost for (of, at), cost in life.model.spent.items() if at == name and of]
        total = Calls(sum(c.calls for c in spent), sum(c.read for c in spent))
        found[name] = {
            "turns": month.turns,
            "asks": month.asks,
            "late": month.late,
            "ask_ms_p50": round(statistics.median(month.ask_ms), 1) if month.ask_ms else 0.0,
            "passes_s": round(month.passes_s, 2),
            "calls": total.calls,
            "read": total.read,
        }
    return found


def measure(people: Sequence[Person], options: argparse.Namespace, home: Path) -> dict[str, Any]:
    """Replay everything, ask all questions, and return the numbers."""
    root = home / "vela"
    (root / "memory").mkdir(parents=True)
    (root / "character.toml").write_text(settings(options), encoding="utf-8")
    began = time.perf_counter()
    with Familiar.load_from_disk(home, "vela") as familiar:
        count = familiar.counter.count
        model = RuleModel(count, lambda: f"{Simulated.present:%Y-%m}", options.misbehaves)
        life = Life(familiar, model, sleeps=options.raw_only)
        with simulated(model):
            start, end = replay(life, people, options.months)
            Simulated.present = end
            found = {"replay": finish(life, options, started=began)}
            questions = [
                (person, asked)
                for person in people
                for asked in questions_of(person, start, end, options.questions)
            ]
            fill_rooms(familiar, people)
            familiar.finder.embed_turns()
            familiar.index.build_if_stale(familiar.finder.embedder.embedder)
    with simulated(model):
        sources = ("raw",) if options.raw_only else SOURCES
        found["evidence"] = {
            source: ask_all(home, source, life, questions, options) for source in sources
        }
    found["months"] = months_of(life)
    found["seconds"] = round(time.perf_counter() - began, 1)
    return found


def finish(life: Life, options: argparse.Namespace, *, started: float) -> dict[str, Any]:
    """Let the writer and housekeeping come to an end, and tell what the replay came to."""
    familiar = life.familiar
    vectors = familiar.finder.turns_without_vector()
    unread = count_unread_turns(familiar.history)
    if not options.raw_only:
        for _ in range(10):  # each misbehaviour ends a pass
            report = asyncio.run(write_memory(familiar))
            if not report.error:
                break
        tidied = asyncio.run(tidy_up(familiar, propose=True))
        findings = dict(Counter(one.finding.check for one in tidied.found))
    texts = [familiar.history.turn(turn) for turn, _ in life.kept.values()]
    words = [said for _, said in life.kept.values()]
    turns = familiar.history.count()
    return {
        **sizes(familiar),
        "lost_lines": life.unheard,
        "changed_lines": sum(
            not turn or turn.content != said for turn, said in zip(texts, words, strict=True)
        ),
        "unread_before_the_end": unread,
        "turns_without_vectors": vectors,
        "failures": dict(life.failures),
        "findings": {} if options.raw_only else findings,
        "costs_per_100_turns": costs(life.model, turns),
        "replay_s": round(time.perf_counter() - started, 1),
    }


def ask_all(
    home: Path,
    source: str,
    life: Life,
    questions: Sequence[tuple[Person, Asked]],
    options: argparse.Namespace,
) -> dict[str, Any]:
    """Ask all questions of one source, in every room."""
    at = home if source == "both" else copied(home, source, options)
    with Familiar.load_from_disk(at, "vela") as familiar:
        familiar.index.build_if_stale(familiar.finder.embedder.embedder)
        asking = Asking(familiar, life)
        found: dict[str, Any] = {}
        for heard in ROOMS:
            rows = [asking.row(person, asked, heard) for person, asked in questions]
            found[str(heard)] = summary([row for row in rows if row])
        found["leaks"] = sum(
            asking.leaks(person, asked) for person, asked in questions if person.is_private
        )
    return found


def table(found: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the table."""
    for key, value in found["replay"].items():
        if key == "costs_per_100_turns":
            for name, cost in value.items():
                yield f"{name + ' per 100 turns':26} " + _pairs(cost)
        else:
            yield f"{key:26} {_pairs(value) if isinstance(value, dict) else value}"
    for source, rooms in found["evidence"].items():
        yield ""
        yield f"{source:18}" + "".join(f"{f'heard {heard}':^34}" for heard in ROOMS)
        yield " " * 18 + "  verbatim or cited   answer    n  " * len(ROOMS)
        of = [rooms[str(heard)] for heard in ROOMS]
        for kind in ["all", *of[0]["kinds"]]:
            cells = [room if kind == "all" else room["kinds"].get(kind, told([])) for room in of]
            yield f"{kind:18}" + "".join(
                f"{c['verbatim']:9.3f} {c['or_cited']:8.3f} {c['answer']:8.3f} {c['n']:5}  "
                for c in cells
            )
        for heard, room in zip(ROOMS, of, strict=True):
            rest = ("stale", "dated", "refused_with_room", "late", "prompt_ms_p50")
            yield f"heard {heard}: {_pairs(room['tokens'])}"
            yield f"   {_pairs({key: room[key] for key in rest})}"
        yield f"leaks {rooms['leaks']}"
    yield ""
    for month, value in found["months"].items():
        yield f"{month}  {_pairs(value)}"
    yield f"seconds {found['seconds']}"


def _pairs(values: dict[str, Any]) -> str:
    return "  ".join(f"{key} {value}" for key, value in values.items())


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("files", type=Path, nargs="+", help="in LoCoMo's or MemoryBank's format")
    parser.add_argument("--months", type=float, default=18, help="the simulated time")
    parser.add_argument("--questions", type=int, default=0, help="most of a kind and person")
    parser.add_argument("--window", type=int, default=8192, help="tokens the model can read")
    parser.add_argument("--content", type=int, default=0, help="budget.content; 0: as it is")
    parser.add_argument(
        "--misbehaves", type=int, default=9, help="every so many requests; 0: never"
    )
    parser.add_argument("--model", choices=MODELS, default="lexical")
    parser.add_argument("--raw-only", action="store_true", help="no memory is written")
    parser.add_argument("--keep", type=Path, help="a new directory for the familiar")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(argv)
    opened = open_embedder(MODELS[options.model], cache_dir())
    if options.model != "lexical" and opened.embedder is None:
        sys.exit(f"{opened.reason}: run `{opened.hint}`.")
    people = people_of([made for file in options.files for made in read(file)])
    if not people:
        sys.exit("Nothing is said in these files.")
    with tempfile.TemporaryDirectory() as directory:
        home = Path(options.keep or directory, "both")
        found = measure(people, options, home)
    print(json.dumps(found) if options.json else "\n".join(table(found)))


if __name__ == "__main__":
    main()
