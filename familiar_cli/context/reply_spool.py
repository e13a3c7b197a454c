"""Spool file for a streaming reply, so that a killed process loses none of it."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from familiar_cli.clock import now, to_ms
from familiar_cli.config.home import is_alive
from familiar_cli.errors import FamiliarError
from familiar_cli.files import append, check_own, read_plain, remove
from familiar_cli.history.messages import keep_once
from familiar_cli.history.standing import supersede
from familiar_cli.history.types import Turn
from familiar_cli.visibility import OWNER

if TYPE_CHECKING:
    from pathlib import Path

    from familiar_cli.history.store import HistoryStore

DIRECTORY: Final = "replying"
_PROCESS: Final = os.urandom(8).hex()  # in a container, the next process may have the same number
_LATER_TURNS: Final = 20


class ReplySpool:
    """Spool file of one reply. Write failures are ignored: they only cost the recovery.

    Args:
        directory: Where such files are, or will be.
        reply: The reply as far as it is known; its content is what it begins with.
        instead_of: The number of the turn whose place it takes; None: it takes none.
    """

    def __init__(self, directory: Path, reply: Turn, instead_of: int | None) -> None:
        self._path = directory / f"{reply.reply_to}-{os.urandom(4).hex()}.txt"
        self._head = {
            "pid": os.getpid(),
            "process": _PROCESS,
            "channel": reply.channel_id,
            "question": reply.reply_to,
            "modality": reply.modality,
            "source": reply.source,
            "instead_of": instead_of,
        }
        self._begins = reply.content
        self._file: BinaryIO | None = None
        self._has_failed = False

    def add(self, piece: str) -> None:
        """Append one piece; it survives a kill of this process."""
        if self._has_failed:
            return
        try:
            if self._file is None:
                append(self._path, f"{json.dumps(self._head)}\n{self._begins}".encode())
                self._file = self._path.open("ab", buffering=0)
            self._file.write(piece.encode("utf-8", "surrogatepass"))
        except (OSError, FamiliarError):
            self._has_failed = True

    def close(self, *, is_kept: bool) -> None:
        """Delete the file, once the reply is kept as a turn."""
        if self._file:
            self._file.close()
        if is_kept:
            with suppress(OSError):
                remove(self._path)
                self._path.parent.rmdir()


def recover(history: HistoryStore, directory: Path) -> list[Turn]:
    """Recover replies cut short by a killed process, as partial turns."""
    found = []
    try:
        check_own(directory)
        paths = sorted(path for path in directory.iterdir() if path.suffix == ".txt")
    except (OSError, FamiliarError):
        return []
    for path in paths:
        with suppress(OSError, FamiliarError, ValueError, KeyError, TypeError):
            head, _, text = read_plain(path).partition(b"\n")
            said = json.loads(head)
            if _is_under_way(said):
                continue
            reply = _keep(history, said, text.decode("utf-8", "surrogatepass"))
            found += [reply] if reply else []
            remove(path)
    with suppress(OSError):
        directory.rmdir()
    return found


def _is_under_way(head: dict[str, Any]) -> bool:
    if head["pid"] == os.getpid():
        return bool(head["process"] == _PROCESS)
    return is_alive(head["pid"])


def _keep(history: HistoryStore, head: dict[str, Any], text: str) -> Turn | None:
    question = history.turn(head["question"])
    later = history.recent(head["channel"], _LATER_TURNS, viewer=OWNER)
    is_kept = any(t.reply_to == head["question"] and t.content.startswith(text) for t in later)
    if question is None or is_kept or not text.strip():
        return None
    reply = Turn(
        id=0,
        channel_id=head["channel"],
        author=None,
        role="assistant",
        content=text,
        at=to_ms(now()),
        modality=head["modality"],
        source=head["source"],
        partial=True,
        reply_to=question.id,
    )
    old = history.turn(head["instead_of"]) if head["instead_of"] else None
    return supersede(history, old, reply) if old else keep_once(history, reply).turn
