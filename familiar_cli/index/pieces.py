"""The pieces that one question touches, each read once: a question may touch thousands."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from familiar_cli.sqlite import rows_among

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection


class Piece(NamedTuple):
    """A passage or line: ids and places, no text. `parts` and `rows` are numbers, from … to.

    Args:
        id: Its id.
        level: `schema.PASSAGE` or `schema.LINE`.
        document_id: Its file.
        speaker: Who speaks in it.
        part_first: A passage's first line, or the first passage that holds a line.
        part_last: What follows the last one of them.
        rows_from: The first of its token vectors; None: it has none.
        rows_count: How many it has.
    """

    id: int
    level: int
    document_id: int
    speaker: str
    part_first: int
    part_last: int
    rows_from: int | None
    rows_count: int | None


class Pieces:
    """Reads pieces of an index, as it is within one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._read: dict[int, Piece] = {}

    def among(self, ids: Collection[int]) -> list[Piece]:
        """Return the pieces with these ids, in their order; one that is not there is left out."""
        read = self._read
        missing = [id_ for id_ in ids if id_ not in read]
        if missing:
            select = (
                "SELECT id, level, document_id, speaker, part_first, part_last, rows_from,"
                " rows_count FROM chunks INDEXED BY chunks_brief WHERE id IN"
            )
            found = map(Piece._make, rows_among(self.connection, select, sorted(missing)))
            read.update((piece.id, piece) for piece in found)
        return [piece for id_ in ids if (piece := read.get(id_))]
