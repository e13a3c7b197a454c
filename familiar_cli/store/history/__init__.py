"""The history room: an append-only record of every turn."""

from typing import TYPE_CHECKING

from familiar_cli.store.history.rows import WRITER, ChannelSummary, Speaker, Turn

if TYPE_CHECKING:
    from familiar_cli.store.history.store import HistoryStore

__all__ = ["WRITER", "ChannelSummary", "HistoryStore", "Speaker", "Turn"]


def __getattr__(name: str) -> object:
    """Load the store where it is used: it opens databases, and rows are read without it."""
    if name != "HistoryStore":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from familiar_cli.store.history.store import HistoryStore  # noqa: PLC0415

    return HistoryStore
