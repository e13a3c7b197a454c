"""The history room: every turn that was said, kept for ever and never rewritten."""

from familiar_cli.history.rows import WRITER, ChannelSummary, Speaker, Turn
from familiar_cli.history.store import HistoryStore

__all__ = ["WRITER", "ChannelSummary", "HistoryStore", "Speaker", "Turn"]
