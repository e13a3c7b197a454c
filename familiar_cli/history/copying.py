"""A copy of a history, for whoever wants to try something out."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from familiar_cli.history.store import HistoryStore

if TYPE_CHECKING:
    from pathlib import Path


def copy_to(history: HistoryStore, path: Path) -> HistoryStore:
    """Return a copy of `history` in a file of its own; an empty one where nothing was said yet.

    Raises:
        FamiliarError: The history cannot be read, or the copy cannot be written.
    """
    from familiar_cli.sqlite import connect  # noqa: PLC0415  # starting is quicker without it

    with history.use(create=False) as connection:
        if connection is not None:
            with closing(connect(path, 0)) as copy:
                connection.backup(copy)
    return HistoryStore(path)
