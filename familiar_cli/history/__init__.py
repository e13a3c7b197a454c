"""The history room: every turn that was said, kept for ever and never rewritten."""

from familiar_cli.history.store import HistoryStore
from familiar_cli.history.types import WRITER, ChannelSummary, Speaker, Turn

__all__ = ["WRITER", "ChannelSummary", "HistoryStore", "Speaker", "Turn"]
