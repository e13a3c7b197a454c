"""Write one file's rows into the index, or take them out. Each call is one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from familiar_cli.base.sqlite import transaction
from familiar_cli.base.text import digest_of
from familiar_cli.store import fts
from familiar_cli.store.memory.pages.front_matter import is_pinned
from familiar_cli.store.memory.pages.lines import blank_spans
from familiar_cli.store.memory.pages.links import link_targets
from familiar_cli.store.memory.pages.visible_lines import AudiencePart, parts_by_audience
from familiar_cli.store.search import chunking, schema
from familiar_cli.store.search.types import Split
from familiar_cli.store.search.who_when import day_in, names_of, put_people, times_of

if TYPE_CHECKING:
    import sqlite3

    from familiar_cli.base.files import FileStamp
    from familiar_cli.store.search.chunking import Cut, TextSpan

    # A line's vector, and where the vectors of its tokens are.
    _Vectors = list[Any]

KEY_BYTES: Final = 16
_VECTORS: Final = "vector, rows_from, rows_count"
_INSERT: Final = (
    "INSERT INTO chunks (id, document_id, level, heading_path, char_start, char_end, token_count,"
    " text, speaker, part_first, part_last, embed_key, vector_seq, vector, rows_from, rows_count)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def put_file(
    connection: sqlite3.Connection,
    rel_path: str,
    *,
    text: str,
    sha256: str,
    seen: FileStamp,
    split: Split = Split(),  # noqa: B008  # frozen
) -> None:
    """Index the file at `rel_path` with `text`, keeping the vectors of unchanged pieces.

    The lines that the same people may see are indexed as if they were a file of their own.
    """
    parts = [
        (one, "".join(text[start:end] for start, end in one.spans))
        for one in parts_by_audience(text, rel_path, split.rules)
    ]
    cuts = [chunking.cut_text(said, rel_path) for _, said in parts]
    with transaction(connection):
        if held_version(connection, rel_path) == (sha256, split.stamp):
            return  # another process was quicker
        if _is_split_alike(connection, rel_path, sha256, parts):
            update = "UPDATE documents SET rules = ? WHERE rel_path = ?"
            connection.execute(update, (split.stamp, rel_path))
            return
        vectors = _vectors_of(connection, rel_path)
        _take_out(connection, rel_path)
        for (part, said), cut in zip(parts, cuts, strict=True):
            document = _insert_document(
                connection,
                rel_path,
                sha256,
                seen,
                cut,
                audience=_audience_key(part),
                rules=split.stamp,
                char_count=len(said),
                pinned=is_pinned(text),
            )
            _Chunks(connection, document, said, cut, vectors, part.spans).write()
            _put_references(connection, document, rel_path, said, cut)
        for table in ("documents_fts", "passages_fts", "lines_fts"):
            fts.merge_parts(connection, table)


def _audience_key(part: AudiencePart) -> str:
    return json.dumps(sorted(part.audience))


def _is_split_alike(
    connection: sqlite3.Connection,
    rel_path: str,
    sha256: str,
    parts: Sequence[tuple[AudiencePart, str]],
) -> bool:
    """Tell whether the same content is indexed in the same parts."""
    select = "SELECT audience, char_count FROM documents WHERE rel_path = ? AND sha256 = ?"
    held = dict(connection.execute(select, (rel_path, sha256)))
    return held == {_audience_key(part): len(text) for part, text in parts}


def _put_references(
    connection: sqlite3.Connection, document: int, rel_path: str, text: str, cut: Cut
) -> None:
    links = [(document, target) for target in link_targets(text, rel_path)]
    connection.executemany("INSERT OR IGNORE INTO links VALUES (?, ?)", links)
    names = [(name, document) for name in names_of(rel_path, cut.title, text)]
    connection.executemany("INSERT OR IGNORE INTO names VALUES (?, ?)", names)
    put_people(connection, document, rel_path=rel_path, text=text, speakers=cut.speakers)


def put_problem(
    connection: sqlite3.Connection, rel_path: str, seen: FileStamp, problem: str
) -> None:
    """Record why the file at `rel_path` is unreadable."""
    empty = chunking.Cut("", None, "", (), (), ())
    with transaction(connection):
        _take_out(connection, rel_path)
        _insert_document(connection, rel_path, "", seen, empty, problem=problem)


def held_version(connection: sqlite3.Connection, rel_path: str) -> tuple[str, str] | None:
    """Return the hash of a file's indexed content, empty if unreadable, and the stamp of rules."""
    select = "SELECT sha256, rules FROM documents WHERE rel_path = ?"
    row: tuple[str, str] | None = connection.execute(select, (rel_path,)).fetchone()
    return row


def restamp_file(connection: sqlite3.Connection, rel_path: str, seen: FileStamp) -> None:
    """Record the current signature of a file with unchanged content."""
    with transaction(connection):
        connection.execute(
            "UPDATE documents SET size_bytes = ?, mtime_ns = ?, ctime_ns = ?, settled = ?"
            " WHERE rel_path = ?",
            (*seen, rel_path),
        )
        _count_change(connection)


def take_out(connection: sqlite3.Connection, rel_paths: Iterable[str]) -> None:
    """Forget files."""
    for rel_path in rel_paths:
        with transaction(connection):
            _take_out(connection, rel_path)


def next_seq(connection: sqlite3.Connection, count: int) -> int:
    """Return the first of `count` unused vector numbers. Call it inside a transaction."""
    first = int(schema.read_meta(connection, "next_seq") or 1)
    schema.set_meta(connection, next_seq=str(first + count))
    return first


def _count_change(connection: sqlite3.Connection) -> None:
    schema.set_meta(connection, changes=str(int(schema.changes_of(connection) or 0) + 1))


def _take_out(connection: sqlite3.Connection, rel_path: str) -> None:
    select = "SELECT id FROM documents WHERE rel_path = ?"
    of_document = "(SELECT id FROM chunks WHERE document_id = ? AND level = ?)"
    for row in connection.execute(select, (rel_path,)).fetchall():
        _count_change(connection)
        for table, level in (("passages_fts", schema.PASSAGE), ("lines_fts", schema.LINE)):
            connection.execute(f"DELETE FROM {table} WHERE rowid IN {of_document}", (*row, level))  # noqa: S608
        connection.execute("DELETE FROM documents_fts WHERE rowid = ?", row)
        connection.execute("DELETE FROM documents WHERE id = ?", row)


def _vectors_of(connection: sqlite3.Connection, rel_path: str) -> dict[bytes, _Vectors]:
    cursor = connection.execute(
        f"SELECT embed_key, {_VECTORS} FROM chunks JOIN documents d ON d.id = document_id"  # noqa: S608
        " WHERE rel_path = ? AND vector_seq IS NOT NULL",
        (rel_path,),
    )
    return {key: vectors for key, *vectors in cursor}


def _insert_document(
    connection: sqlite3.Connection,
    rel_path: str,
    sha256: str,
    seen: FileStamp,
    cut: Cut,
    *,
    audience: str = "[]",
    rules: str = "",
    char_count: int = 0,
    problem: str = "",
    pinned: bool | None = None,
) -> int:
    """Write a row of `documents`, and return its id."""
    _count_change(connection)
    day = cut.day.isoformat() if cut.day else ""
    row = (rel_path, audience, rules, sha256, *seen, cut.title, day, cut.instance)
    cursor = connection.execute(
        "INSERT INTO documents (rel_path, audience, rules, sha256, size_bytes, mtime_ns, ctime_ns,"
        " settled, title, day, instance, char_count, problem, pinned)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*row, char_count, problem, pinned),
    )
    return int(cursor.lastrowid or 0)


class _Chunks(Struct, frozen=True):
    """Writes the passages and lines of one part of a file, with ids that follow on each other."""

    connection: sqlite3.Connection
    document: int
    text: str
    made: Cut
    vectors: dict[bytes, _Vectors]
    spans: tuple[tuple[int, int], ...]

    def write(self) -> None:
        cut, connection = self.made, self.connection
        last = connection.execute(
            "SELECT seq FROM sqlite_sequence WHERE name = 'chunks'"
        ).fetchone()
        first_passage = (int(last[0]) if last else 0) + 1
        first_line = first_passage + len(cut.passages)
        spans = (*cut.passages, *cut.lines)
        rows = [
            self._row(schema.PASSAGE, first_passage + n, span, first_line)
            for n, span in enumerate(cut.passages)
        ]
        rows += [
            self._row(schema.LINE, first_line + n, span, first_passage)
            for n, span in enumerate(cut.lines)
        ]
        connection.executemany(_INSERT, self._with_vectors(rows))
        connection.executemany("INSERT OR IGNORE INTO times VALUES (?, ?, ?)", self._times(rows))
        title, read = (
            fts.indexable(chunking.index_label(cut.title, "", cut.day)),
            blank_spans(self.text),
        )
        connection.execute(
            "INSERT INTO documents_fts (rowid, title, body) VALUES (?, ?, ?)",
            (self.document, title, fts.indexable(read)),
        )
        for table, level in (("passages_fts", schema.PASSAGE), ("lines_fts", schema.LINE)):
            connection.executemany(
                f"INSERT INTO {table} (rowid, title, body) VALUES (?, ?, ?)",  # noqa: S608
                [
                    (
                        row[0],
                        fts.indexable(self._above(row[3])),
                        fts.indexable(read[span.start : span.end]),
                    )
                    for row, span in zip(rows, spans, strict=True)
                    if row[2] == level
                ],
            )
        words = (
            self._words_in("documents_fts", self.document, self.document + 1),
            self._words_in("passages_fts", first_passage, first_line),
            self._words_in("lines_fts", first_line, first_line + len(cut.lines)),
        )
        connection.execute(
            "UPDATE documents SET words = ?, passages = ?, passage_words = ?, lines = ?,"
            " line_words = ? WHERE id = ?",
            (words[0], len(cut.passages), words[1], len(cut.lines), words[2], self.document),
        )

    def _words_in(self, table: str, first: int, end: int) -> int:
        select = f"SELECT sz FROM {table}_docsize WHERE id >= ? AND id < ?"  # noqa: S608
        sizes = self.connection.execute(select, (first, end))
        return sum(fts.words_in_row(size) for (size,) in sizes)

    def _times(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, int, int]]:
        """Yield the times mentioned in the lines; the heading above one may date it."""
        for row in rows:
            if row[2] == schema.LINE:
                day = day_in(row[3]) or self.made.day
                for span in times_of(row[7], day):
                    yield row[0], span.first.toordinal(), span.last.toordinal()

    def _above(self, heading: str) -> str:
        return chunking.index_label(self.made.title, heading, self.made.day)

    def _row(self, level: int, id_: int, span: TextSpan, parts_from: int) -> tuple[Any, ...]:
        text = self.text[span.start : span.end]
        key = self._key(span, text) if level == schema.LINE else b""
        return (
            id_,
            self.document,
            level,
            span.heading,
            self._place(span.start),
            self._place(span.end - 1) + 1,
            span.tokens,
            text,
            span.speaker,
            parts_from + span.parts[0],
            parts_from + span.parts[1],
            key,
        )

    def _place(self, place: int) -> int:
        """Return where a character of the part is on the page."""
        for start, end in self.spans:
            if place < end - start:
                return start + place
            place -= end - start
        return self.spans[-1][1] if self.spans else 0

    def _key(self, span: TextSpan, text: str) -> bytes:
        return digest_of(chunking.embedding_text(self._above(span.heading), text), KEY_BYTES)

    def _with_vectors(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        keys = [row[11] for row in rows]  # empty for a passage
        kept = [self.vectors.get(key) or self._elsewhere(key) if key else None for key in keys]
        seq = next_seq(self.connection, len(rows)) if any(kept) else 0
        return [
            (*row, seq + n if vectors else None, *(vectors or (None, None, None)))
            for n, (row, vectors) in enumerate(zip(rows, kept, strict=True))
        ]

    def _elsewhere(self, key: bytes) -> _Vectors | None:
        """Return the vectors of the same text in a moved file."""
        value = self.connection.execute(
            f"SELECT {_VECTORS} FROM chunks WHERE embed_key = ? AND vector_seq IS NOT NULL LIMIT 1",  # noqa: S608
            (key,),
        ).fetchone()
        return list(value) if value else None
