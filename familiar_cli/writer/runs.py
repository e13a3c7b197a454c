"""One pass on record: its settings, its cost, its log, and how far memory has come."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.clock import iso
from familiar_cli.errors import FamiliarError
from familiar_cli.files import append, check_own, read_plain, write_own
from familiar_cli.history import WRITER, waiting
from familiar_cli.memory.layout import WRITER_JSON
from familiar_cli.memory.pages.evidence import PLAIN, Numbering, spans, turn_ids
from familiar_cli.text import sha256_of
from familiar_cli.writer import applying

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.review.draft import Draft
    from familiar_cli.writer.grounds import Grounds


SUFFIX: Final = ".jsonl"


class Runs:
    """Where records and unusable replies go.

    Args:
        directory: Of the records.
        quarantine: Of the replies.
    """

    def __init__(self, directory: Path, quarantine: Path) -> None:
        self._directory = directory
        self._quarantine = quarantine

    def note(self, run: str, entry: dict[str, Any]) -> None:
        """Add a line to a record.

        Raises:
            FamiliarError: The disk refused.
        """
        line = json.dumps(entry, ensure_ascii=True, default=_plain) + "\n"
        path = self._directory / f"{run}{SUFFIX}"
        try:
            append(path, line.encode())
        except OSError as error:
            raise FamiliarError(f"The record {str(path)!r} cannot be written: {error}") from error

    def read(self, run: str) -> list[dict[str, Any]]:
        """Return the lines of a record; empty when there is none."""
        check_own(self._directory)
        path = self._directory / f"{run}{SUFFIX}"
        if not path.exists():
            return []
        lines = read_plain(path).decode("utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def keep_reply(self, run: str, text: str) -> Path:
        """Put a reply that could not be used away, word for word, and return where it is.

        Raises:
            FamiliarError: The disk refused.
        """
        check_own(self._quarantine)
        number = 1 + sum(1 for _ in self._quarantine.glob(f"{run}-*.txt"))
        path = self._quarantine / f"{run}-{number}.txt"
        try:
            write_own(path, text.encode("utf-8", errors="surrogatepass"))
        except OSError as error:
            raise FamiliarError(
                f"An unusable reply could not be kept in {str(path)!r}: {error}"
            ) from error
        return path


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


def marker_text(run: str, piece: Sequence[Turn], *, instance: str = "") -> str:
    """Return the content of the file after a step.

    Args:
        run: The pass.
        piece: The turns of the step.
        instance: Which instance wrote; empty: it has no id.
    """
    last = piece[-1]
    told = {"run": run, "through": last.id, "turn": _digest(last)}
    where = {"instance": instance} if instance else {}
    return json.dumps(told | where | {"turns": spans(t.id for t in piece)}) + "\n"


def reconcile(store: MemoryStore, history: HistoryStore, instance: str = "") -> int:
    """Record in the history what memory says is done, and return how many turns that is.

    Args:
        store: The memory.
        history: The history.
        instance: Which instance asks; what another one wrote says nothing about its turns.

    Raises:
        FamiliarError: The history cannot be written.
    """
    try:
        value = json.loads(store.read_file(WRITER_JSON))
        through, digest, part = int(value["through"]), value["turn"], value.get("turns")
        is_own = value.get("instance", instance) == instance
    except (FamiliarError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return 0  # none, or not ours: the watermark is where it is
    last = history.turn(through)
    if not is_own or last is None or _digest(last) != digest:
        return 0
    before = history.unsummarised_count()
    if part is not None:
        waiting.finish(history, turn_ids(f"<!-- turns {part} -->", PLAIN))
    elif through > history.watermark(WRITER):
        history.move_watermark(WRITER, through)  # an older version's file
    return before - history.unsummarised_count()


def _digest(turn: Turn) -> str:
    who = turn.author.slug if turn.author else ""
    parts = (turn.channel_id, who, iso(turn.at), turn.content)
    return sha256_of("\x00".join(parts))


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """How the writer works.

    Args:
        batch_turns: Most turns of one question.
        batch_tokens: Most tokens of turns in one question; a small model gets fewer.
        quiet_gap_s: A silence this long ends a conversation.
        reply_tokens: Most tokens of a reply.
        temperature: How freely words are chosen; None: as the model's settings say.
        structured: `auto`, `on` or `off`: whether the server is asked to constrain replies.
        numbering: How turns are cited.
    """

    batch_turns: int = 60
    batch_tokens: int = 4000
    quiet_gap_s: float = 1800.0
    reply_tokens: int = 1024
    temperature: float | None = None
    structured: str = "auto"
    numbering: Numbering = PLAIN


# What prompts ask for: a summary of some sentences for each
# session, and a fact about each person for every few turns.
_SUMMARY_CHARS: Final = 300
_LINE: Final = "- " + "a fact that is told in so many words " * 3 + "\n"
_TURNS_OF_FACT: Final = 8
_MOST_FACTS: Final = 3


def expect_reply(draft: Draft, grounds: Grounds) -> None:
    """Let the files of a batch grow in `draft` by about what a model would write into them."""
    facts = min(1 + len(grounds.batch.turns) // _TURNS_OF_FACT, _MOST_FACTS)
    summary = (_LINE * 3)[:_SUMMARY_CHARS]
    for rel_path, more in (
        *((path, summary) for path in grounds.sessions),
        *((person.rel_path, _LINE * facts) for person in grounds.roster.people),
    ):
        try:
            text = draft.text(rel_path) or applying.new_file(rel_path)
            draft.put(rel_path, f"{text}\n{more}")
        except FamiliarError:
            continue  # it cannot be read, so it is not shown either
