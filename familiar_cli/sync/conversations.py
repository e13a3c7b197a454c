"""`HistoryConversations`: the history as what a sync sends and takes in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.history.incoming import rename
from familiar_cli.sync.turn_files import Since, new_lines, since, take_in, taken_through

if TYPE_CHECKING:
    from familiar_cli.history.store import HistoryStore


class HistoryConversations:
    """See `turns_commit.Conversations`.

    Args:
        history: The turns.
    """

    def __init__(self, history: HistoryStore) -> None:
        self._history = history

    def new_lines(self, own: str, rel_path: str, data: bytes) -> tuple[str, bytes]:
        """Return the file that grows, and the lines that are new."""
        before = since(rel_path, data) if rel_path else Since()
        path, lines = new_lines(self._history, own, before)
        return path, b"".join(lines)

    def take_in(self, own: str, rel_path: str, data: bytes) -> int:
        """Import what is new in a file of another instance."""
        instance = rel_path.split("/")[1]
        through = taken_through(self._history, instance, rel_path)
        if through >= len(data):
            return 0
        return take_in(self._history, own, rel_path, data[through:], through).turns

    def renamed(self, old: str, new: str) -> None:
        """Go on under another name; what both copies said before they parted keeps the old one."""
        rename(self._history, old, new)
