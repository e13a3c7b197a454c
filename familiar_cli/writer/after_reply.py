"""Whether a pass is due after a reply, in a command that ends soon."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import now
from familiar_cli.history import WRITER
from familiar_cli.writer.scheduler import is_due

if TYPE_CHECKING:
    from datetime import datetime

    from familiar_cli.history.store import HistoryStore

RETRY_AFTER: Final = timedelta(minutes=10)
"""A pass that failed is not tried again after every reply."""

_EXCHANGE: Final = 3  # what was said last before, what was said now, and the reply


def due_turns(
    history: HistoryStore,
    *,
    turn_threshold: int,
    idle_timeout: float,
    switch: str,
    is_local: bool,
    failed_at: datetime | None,
) -> int:
    """Return how many turns a pass should cover now; 0: none is due.

    Args:
        history: What was said.
        turn_threshold: So many turns make a pass due.
        idle_timeout: So many seconds of silence before the last exchange make a pass due.
        switch: `auto`, `on` or `off`.
        is_local: The model is the slow one inside the program; `auto` then ignores silences.
        failed_at: When the last pass failed, or None.
    """
    if switch == "off" or (failed_at is not None and now() - failed_at < RETRY_AFTER):
        return 0
    waiting = history.unsummarised_count()
    silence_s = 0.0 if switch == "auto" and is_local else _silence_s(history)
    due = is_due(waiting, silence_s, turn_threshold=turn_threshold, idle_timeout=idle_timeout)
    return waiting if due else 0


def _silence_s(history: HistoryStore) -> float:
    """Return how long it had been quiet before the last exchange, if what came before it waits."""
    last = history.since(history.watermark(WRITER), _EXCHANGE)
    if len(last) < _EXCHANGE:
        return 0.0
    return (last[1].at - last[0].at).total_seconds()
