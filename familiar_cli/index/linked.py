"""Which files lead to a file and which it leads to, as the index knows it: no file is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

_OUT = (
    "SELECT l.target, t.rel_path IS NOT NULL FROM links l JOIN documents d ON d.id = l.document_id "
    "LEFT JOIN documents t ON t.rel_path = l.target WHERE d.rel_path = ? ORDER BY 1"
)
_BACK = (
    "SELECT d.rel_path FROM links l JOIN documents d ON d.id = l.document_id "
    "WHERE l.target = ? ORDER BY 1 LIMIT ?"
)


def links_of(
    connection: sqlite3.Connection, rel_path: str, most: int
) -> tuple[list[str], list[str], list[str]]:
    """Return where a file leads, where it leads in vain, and at most `most` that lead to it."""
    rows = connection.execute(_OUT, (rel_path,)).fetchall()
    back = [path for (path,) in connection.execute(_BACK, (rel_path, most))]
    return [t for t, there in rows if there], [t for t, there in rows if not there], back
