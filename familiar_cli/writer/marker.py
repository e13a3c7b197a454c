"""How far memory has come, written in the same transaction as memory itself.

The history's own watermark moves after the commit. When the program is killed between the two, this
file tells at the next start that the turns are done. It names the instance and, by its words, the
last turn, so that on another machine, with another history, it means nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from familiar_cli.clock import iso
from familiar_cli.errors import FamiliarError
from familiar_cli.history import WRITER, waiting
from familiar_cli.memory.layout import WRITER_JSON
from familiar_cli.memory.pages.evidence import PLAIN, spans, turn_ids
from familiar_cli.text import sha256_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn
    from familiar_cli.memory.store.store import MemoryStore


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
