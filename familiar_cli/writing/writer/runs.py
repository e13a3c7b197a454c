"""Records of the writer's runs, and turns that a lost watermark would have read again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.files import append, check_own, read_plain, write_hint, write_own
from familiar_cli.base.text import bare_lines, sha256_of
from familiar_cli.base.times.clock import iso
from familiar_cli.store.history.rows import Turn
from familiar_cli.store.history.store import HistoryStore
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.pages.lines import PLAIN, number_spans, turn_ids
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.sync import turns_outgoing as outgoing

SUFFIX: Final = ".jsonl"


class Runs:
    """Storage of run records and unusable replies.

    Args:
        directory: Directory of the records.
        quarantine: Directory of the replies.
    """

    def __init__(self, directory: Path, quarantine: Path) -> None:
        self._directory = directory
        self._quarantine = quarantine

    def note(self, run: str, entry: dict[str, Any]) -> None:
        """Append a line to a record.

        Raises:
            FamiliarError: The disk failed.
        """
        line = json.dumps(entry, ensure_ascii=True, default=_plain_value) + "\n"
        path = self._directory / f"{run}{SUFFIX}"
        try:
            append(path, line.encode())
        except OSError as error:
            why = error.strerror or error
            raise FamiliarError(
                f"The record {str(path)!r} cannot be written: {why}", hint=write_hint(error.errno)
            ) from error

    def read(self, run: str) -> list[dict[str, Any]]:
        """Return the lines of a record; empty if it does not exist."""
        check_own(self._directory)
        path = self._directory / f"{run}{SUFFIX}"
        if not path.exists():
            return []
        lines = bare_lines(read_plain(path).decode("utf-8"))
        return [json.loads(line) for line in lines]

    def keep_reply(self, run: str, text: str) -> Path:
        """Store an unusable reply verbatim; return its path.

        Raises:
            FamiliarError: The disk failed.
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


def _plain_value(value: object) -> object:
    if isinstance(value, Struct):
        return asdict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


def marker_text(run: str, piece: Sequence[Turn], *, instance: str = "") -> str:
    """Return the content of the marker file after a step.

    Args:
        run: The pass.
        piece: The turns of the step.
        instance: The instance that wrote; empty: it has no id.
    """
    last = piece[-1]
    told = {"run": run, "through": last.id, "turn": _turn_digest(last)}
    where = {"instance": instance} if instance else {}
    return json.dumps(told | where | {"turns": number_spans(t.id for t in piece)}) + "\n"


def reconcile_history(store: MemoryStore, history: HistoryStore, instance: str = "") -> int:
    """Mark turns as read that memory records as done; return their number.

    Args:
        instance: This instance; another one's marker does not apply to its turns.

    Raises:
        FamiliarError: The history cannot be written.
    """
    try:
        value = json.loads(store.read_file(layout.WRITER_JSON))
        through, digest, part = int(value["through"]), value["turn"], value["turns"]
        is_own = value.get("instance", instance) == instance
    except (FamiliarError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return 0  # none, or not ours: keep the watermark
    last = history.turn(through)
    if not is_own or last is None or _turn_digest(last) != digest:
        return 0
    before = history.unsummarised_count()
    outgoing.mark_read(history, turn_ids(f"<!-- turns {part} -->", PLAIN))
    return before - history.unsummarised_count()


def _turn_digest(turn: Turn) -> str:
    who = turn.author.slug if turn.author else ""
    parts = (turn.channel_id, who, iso(turn.at), turn.content)
    return sha256_of("\x00".join(parts))
