"""The turns that came through one source, such as a server, in the order of their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.history.rows import SELECTED, pack, to_turn, unpack

if TYPE_CHECKING:
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.history.types import Turn


def turns_from(
    history: HistoryStore, source: str | None, after_id: int, limit: int
) -> list[tuple[int, str, str, str]]:
    """Return number, channel, role and words of the oldest `limit` turns after one.

    Those that do not stand are among them. Without a `source`, those from all sources are.
    """
    chosen = "" if source is None else "AND source = ? "
    sql = (
        f"SELECT id, channel_id, role, content FROM turns WHERE id > ? {chosen}"  # noqa: S608
        "ORDER BY id LIMIT ?"
    )
    values = [after_id, *([] if source is None else [pack(source)]), limit]
    with history.use(create=False) as connection:
        rows = connection.execute(sql, values) if connection else ()
        return [(row[0], *map(unpack, row[1:])) for row in rows]


def newest_from(history: HistoryStore, source: str, limit: int) -> list[Turn]:
    """Return the newest `limit` turns that came through a source, oldest first."""
    sql = f"SELECT {SELECTED} FROM turns WHERE source = ? ORDER BY id DESC LIMIT ?"  # noqa: S608
    with history.use(create=False) as connection:
        rows = connection.execute(sql, (pack(source), max(limit, 0))) if connection else ()
        return [to_turn(row) for row in rows][::-1]
