"""How far memory has come, written in the same transaction as memory itself.

The history's own watermark moves after the commit. When the program is killed between the two, this
file tells at the next start that the turns are done. It names the last turn by its words too, so
that on another machine, with another history, it means nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from familiar_cli.clock import iso
from familiar_cli.errors import FamiliarError
from familiar_cli.history import WRITER
from familiar_cli.memory.layout import WRITER_JSON
from familiar_cli.text import sha256_of

if TYPE_CHECKING:
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn
    from familiar_cli.memory.store.store import MemoryStore


def marker_text(run: str, last: Turn) -> str:
    """Return the content of the file after a step that ended with the turn `last`."""
    return json.dumps({"run": run, "through": last.id, "turn": _digest(last)}) + "\n"


def reconcile(store: MemoryStore, history: HistoryStore) -> int:
    """Move the watermark to where memory is already, and return how many turns that is.

    Raises:
        FamiliarError: The history cannot be written.
    """
    through = _through(store, history)
    before = history.watermark(WRITER)
    if through <= before:
        return 0
    waiting = history.unsummarised_count()
    history.move_watermark(WRITER, through)
    return waiting - history.unsummarised_count()


def _through(store: MemoryStore, history: HistoryStore) -> int:
    try:
        value = json.loads(store.read_file(WRITER_JSON))
        through, digest = int(value["through"]), value["turn"]
    except (FamiliarError, ValueError, KeyError, TypeError, RecursionError):
        return 0  # none, or not ours: the watermark is where it is
    last = history.turn(through)
    return through if last and _digest(last) == digest else 0


def _digest(turn: Turn) -> str:
    who = turn.author.slug if turn.author else ""
    parts = (turn.channel_id, who, iso(turn.at), turn.content)
    return sha256_of("\x00".join(parts))
