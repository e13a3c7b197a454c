"""The history room: an append-only record of every turn."""

from familiar_cli.history.rows import WRITER, ChannelSummary, Speaker, Turn
from familiar_cli.history.store import HistoryStore

__all__ = ["WRITER", "ChannelSummary", "HistoryStore", "Speaker", "Turn"]
