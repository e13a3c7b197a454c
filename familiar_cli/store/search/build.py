"""`EmbeddingIndex`: keeps the index of one memory directory up to date with its files."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from sqlite3 import OperationalError
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Struct, field

from familiar_cli.base.errors import BadInputError, FamiliarError, LockedError, NotFoundError
from familiar_cli.base.files import (
    FileStamp,
    is_directory,
    is_plain,
    locked,
    read_plain,
    write_whole,
)
from familiar_cli.base.markdown import body_start
from familiar_cli.base.sqlite import IdleConnection, transaction
from familiar_cli.base.text import sha256_of
from familiar_cli.base.times.clock import stopwatch_s
from familiar_cli.base.who.visibility import PrivacyRules, Viewer
from familiar_cli.store.memory.layout import INDEX_DIR, is_page
from familiar_cli.store.search import scan, schema
from familiar_cli.store.search.schema import IndexUnusableError
from familiar_cli.store.search.types import BATCH, EmbedderError, Split
from familiar_cli.store.search.who_when import day_in

if TYPE_CHECKING:
    import sqlite3

    from familiar_cli.store.fts import Counts
    from familiar_cli.store.memory.store.files import Omission
    from familiar_cli.store.memory.store.store import MemoryStore
    from familiar_cli.store.search.embedder import Embedder
    from familiar_cli.store.search.rank import Candidate, Pieces
    from familiar_cli.store.search.token_vectors import CountedTokens, Rows
    from familiar_cli.store.search.vectors import Vectors

    # Called with the kind of work, the number done, and the total.
    Progress = Callable[[str, int, int], None]
    # What `Pieces` caches, and the state of the index that it is of.
    _KeptPieces = tuple[tuple[tuple[str, str], ...], dict[int, Candidate], Counts, dict[int, bool]]

T = TypeVar("T")

SOME: Final = 4 * BATCH
"""How many pieces a search reads for the next one, after it has answered: about a second."""
_AFTER_ALL: Final = 2**63 - 1  # as an id
_MOST_AT_ONCE_BYTES: Final = 256 * 1024  # a file that takes a moment to split into passages
_FEW_FILES: Final = 32  # that a prompt waits for, however busy the machine is, if they are small
_FEW_BYTES: Final = 64 * 1024
_MOST_KEPT: Final = 50_000  # pieces cached between questions, about 10 MB
_CORES: Final = threading.BoundedSemaphore(os.cpu_count() or 1)  # more at once are slower together
_FETCH: Final = 32 * BATCH  # sorted by length together, so that little of a batch is padding


class RefreshResult(Struct, frozen=True):
    """The result of updating the index from the files.

    Args:
        changed: New or changed files.
        removed: Deleted files.
        unchanged: Number of unchanged files.
        rebuilt: Why the index was rebuilt, or an empty string.
        left: Files that seem changed and were not read for lack of time.
        closed: Unreadable directories, and why.
    """

    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: int = 0
    rebuilt: str = ""
    left: Mapping[str, FileStamp] = field(default_factory=dict)
    closed: tuple[Omission, ...] = ()

    @property
    def unread(self) -> int:
        """Number of files that were not read for lack of time."""
        return len(self.left)


class Embedded(Struct, frozen=True):
    """The number of pieces embedded and still waiting, and the model whose vectors were deleted.

    `busy` means that another process is embedding, so nothing was done here.
    """

    done: int = 0
    waiting: int = 0
    replaced_model: str = ""
    busy: bool = False


class Built(Struct, frozen=True):
    """What `build_if_stale` did."""

    refreshed: RefreshResult
    embedded: Embedded


class IndexProblem(Struct, frozen=True):
    """A file that cannot be searched, and why."""

    rel_path: str
    reason: str


class IndexStatus(Struct, frozen=True):
    """The state of the index; `token_vectors` counts rows of their file, `waiting` counts lines."""

    exists: bool
    files: int = 0
    stale_files: int = 0
    passages: int = 0
    lines: int = 0
    vectors: int = 0
    waiting: int = 0
    model: str = ""
    size_bytes: int = 0
    problems: tuple[IndexProblem, ...] = ()
    token_vectors: int = 0


class EmbeddingIndex:
    """The index of one memory directory, for use by several threads and processes.

    Args:
        store: The indexed memory.
        directory: Directory of the index; by default `.index` in the memory.
        rules: Returns the rules of privacy, by which files are split into parts.
    """

    def __init__(
        self,
        store: MemoryStore,
        directory: Path | None = None,
        rules: Callable[[], PrivacyRules] = PrivacyRules,
    ) -> None:
        self.store = store
        self._rules = rules
        self.directory = directory or store.root / INDEX_DIR
        self._is_cut = False
        self._idle = IdleConnection()
        self._cached: tuple[tuple[str, str, str, int], Vectors] | None = None
        self._pieces: _KeptPieces | None = None
        self._tokens: tuple[tuple[CountedTokens, int], Rows | None] | None = None

    def use(self, action: Callable[[sqlite3.Connection], T]) -> T:
        """Run `action` with a connection. See `schema.use_index`."""
        fresh = not is_directory(self.directory)
        answer = schema.use_index(self.directory, self._idle, action)
        if self._is_cut:
            from familiar_cli.store.search import vectors

            self._is_cut = False
            schema.use_index(
                self.directory, self._idle, lambda c: vectors.write_if_lost(c, self.directory)
            )
        if fresh:
            with contextlib.suppress(OSError):
                write_whole(self.directory / ".gitignore", "*\n", durable=False)
        return answer

    def read(self, action: Callable[[sqlite3.Connection], T]) -> T:
        """Like `use`; where nothing can be written, `action` changes a copy in memory."""
        try:
            return self.use(action)
        except IndexUnusableError as error:
            copy = schema.copy_if_unwritable(self.directory, error)
            if copy is None:
                raise
        with contextlib.closing(copy):
            return action(copy)

    def refresh(
        self, progress: Progress | None = None, *, within_s: float | None = None
    ) -> RefreshResult:
        """Update words, links and positions in the index from the files; no model is needed.

        Args:
            progress: Called with the files read.
            within_s: After this time no further file is started; None for no limit. A few small
                files are read however long it takes, unless it is 0.

        Raises:
            IndexUnusableError: The index cannot be written; the memory is untouched.
        """
        if not self.store.root.is_dir():
            return RefreshResult()
        return self.use(lambda connection: self.refresh_by(connection, progress, within_s))

    def touch(self, rel_paths: Iterable[str]) -> None:
        """Re-index only the files that were just changed.

        A large file is left to the next search, so that whoever wrote it need not wait for it.
        """
        paths = [path for path in rel_paths if is_page(path) and not self._is_large(path)]
        if paths and self.store.root.is_dir():
            self.use(lambda connection: self._touch(connection, paths))

    def _is_large(self, rel_path: str) -> bool:
        stamp = scan.file_stamp(self.store.root / rel_path)
        return stamp is not None and stamp.size_bytes > _MOST_AT_ONCE_BYTES

    def embed_waiting(
        self, embedder: Embedder, *, at_most: int | None = None, progress: Progress | None = None
    ) -> Embedded:
        """Compute missing vectors, batch by batch; each batch is kept.

        Vectors of another model are deleted first.

        Raises:
            IndexUnusableError: The index cannot be written.
            EmbedderError: The model fails; existing vectors stay.
        """
        if not self.directory.is_dir():
            return Embedded()
        if not embedder.dimension:
            embedder.load()
        try:
            with locked(self.directory / "embedding.lock", 0):
                return self.use(lambda c: self._embed(c, embedder, at_most, progress))
        except LockedError:
            return Embedded(waiting=self.use(count_waiting), busy=True)
        except OSError as error:  # of the lock
            raise schema.unwritable_index(self.directory, error) from error

    def embed_newest(self, connection: sqlite3.Connection, embedder: Embedder) -> None:
        """Compute vectors for the newest lines, at most a batch, so that a question finds them.

        Of a longer backlog, only lines that are newer than all with vectors are worth the wait. An
        index without vectors, or with another model's, waits for a build unless one batch completes
        it. Where as many compute already as there are cores, it is left to the next search. A
        server has a moment to answer. Errors are ignored, since words are still found.
        """
        from familiar_cli.store.search.embedder import in_a_hurry

        waiting = count_waiting(connection)
        is_new = waiting <= BATCH and not schema.read_meta(connection, "model")
        if not waiting or not (is_new or has_vectors_of(connection, embedder)):
            return
        newest = "SELECT coalesce(max(id), 0) FROM chunks WHERE vector_seq > 0"
        (after,) = connection.execute(newest).fetchone() if waiting > BATCH else (0,)
        if after and not any(_waiting_batches(connection, 1, after)):
            return
        if not _CORES.acquire(blocking=False):
            return
        try:
            with (
                suppress(LockedError, EmbedderError, OSError, OperationalError),
                locked(self.directory / "embedding.lock", 0),
                in_a_hurry(),
            ):
                if not embedder.dimension:
                    embedder.load()
                self._embed(connection, embedder, BATCH, None, after)
        finally:
            _CORES.release()

    def build_if_stale(
        self, embedder: Embedder | None = None, progress: Progress | None = None
    ) -> Built:
        """Update the index: words always, vectors if there is an `embedder`."""
        refreshed = self.refresh(progress)
        if embedder is None:
            return Built(refreshed, Embedded(waiting=self._waiting()))
        return Built(refreshed, self.embed_waiting(embedder, progress=progress))

    def status(self) -> IndexStatus:
        """Return the state of the index without changing anything."""
        if not is_plain(self.directory / schema.FILE):
            return IndexStatus(exists=False)
        return self.read(self._status)

    def clear(self) -> bool:
        """Delete the index; tell whether there was one. The next search rebuilds it."""
        self._cached = self._tokens = self._pieces = None
        self.close()
        return schema.clear_index(self.directory)

    def shrink(self) -> None:
        """Give room in the index back that is no longer used; never while somebody waits."""
        if self.directory.is_dir():
            self.use(schema.shrink)

    def close(self, *, for_good: bool = False) -> None:
        """Close the connection that is kept for the next use; after `for_good`, none is kept."""
        self._idle.close(for_good=for_good)

    def vectors(self, connection: sqlite3.Connection) -> Vectors:
        """Return all vectors, cached until the index changes."""
        from familiar_cli.store.search import vectors

        stamp = vectors.vectors_stamp(connection, self.directory)
        if self._cached is None or self._cached[0] != stamp:
            self._cached = None  # a file truncated by another program is not used again
            self._is_cut = vectors.is_lost(connection, self.directory)
            self._cached = (stamp, vectors.load_vectors(connection, self.directory))
        return self._cached[1]

    def pieces(self, connection: sqlite3.Connection, viewer: Viewer) -> Pieces:
        """Return a reader of pieces that caches them until the index changes."""
        from familiar_cli.store.search.rank import Pieces, seen_parts

        known, state = self._pieces, schema.state_of(connection)
        if known is None or known[0] != state or len(known[1]) + len(known[2]) > _MOST_KEPT:
            known = self._pieces = state, {}, {}, {}
        return Pieces(connection, *known[1:], seen_parts(connection, viewer))

    def token_rows(self, connection: sqlite3.Connection) -> Rows | None:
        """Return the vectors of all tokens, or None; a replaced file is loaded again."""
        from familiar_cli.store.search import token_vectors

        stamp = token_vectors.token_stamp(connection, self.directory)
        if self._tokens is None or self._tokens[0] != stamp or self._tokens[1] is None:
            self._tokens = stamp, token_vectors.map_rows(connection, self.directory)
        return self._tokens[1]

    def _waiting(self) -> int:
        return self.use(count_waiting) if self.directory.is_dir() else 0

    def refresh_by(
        self,
        connection: sqlite3.Connection,
        progress: Progress | None,
        within_s: float | None,
        viewer: Viewer | None = None,
    ) -> RefreshResult:
        """Like `refresh`, with an open connection.

        A viewer of everything needs no new split.
        """
        seen = scan.scan_root(self.store.root, connection)
        # Only now, or a large memory on a slow machine would never be read.
        until_s = inf if within_s is None else stopwatch_s() + within_s
        read_until_s = inf if within_s and _is_little(seen.suspects.values()) else until_s
        changed, left = [], dict(sorted(seen.suspects.items()))
        is_split = bool(seen.suspects) or viewer is None or not viewer.sees_everything
        split = self._split() if is_split else Split()
        for rel_path in tuple(left):
            if stopwatch_s() >= read_until_s:
                break
            if self._take_in(connection, rel_path, left.pop(rel_path), split):
                changed.append(rel_path)
            if progress:
                progress("files read", len(seen.suspects) - len(left), len(seen.suspects))
        _take_out(connection, seen.gone)  # last: moved files keep their vectors
        if not left:
            if is_split:
                self._split_again(connection, split, until_s)
            scan.note_scan(connection, seen)
        unchanged = seen.same + len(seen.suspects) - len(changed) - len(left)
        why, new = _note_of_rebuild(connection), tuple(changed)
        return RefreshResult(new, seen.gone, unchanged, why, left, seen.closed)

    def _split(self) -> Split:
        rules = self._rules()
        return Split(rules, rules.stamp())

    def _split_again(self, connection: sqlite3.Connection, split: Split, until_s: float) -> None:
        """Split files anew that were split under other rules of privacy, while there is time."""
        select = "SELECT DISTINCT rel_path FROM documents WHERE rules != ? AND problem = ''"
        for (rel_path,) in connection.execute(select, (split.stamp,)).fetchall():
            if stopwatch_s() >= until_s:
                return
            if stamp := scan.file_stamp(self.store.root / rel_path):
                self._take_in(connection, rel_path, stamp, split)

    def _touch(self, connection: sqlite3.Connection, rel_paths: list[str]) -> None:
        split = self._split()
        for rel_path in rel_paths:
            stamp = scan.file_stamp(self.store.root / rel_path)
            if stamp is None:
                _take_out(connection, [rel_path])
            else:
                self._take_in(connection, rel_path, stamp, split)

    def _take_in(
        self, connection: sqlite3.Connection, rel_path: str, stamp: FileStamp, split: Split
    ) -> bool:
        """Read one file; tell whether its content is new to the index."""
        from familiar_cli.store.search import rows  # a search rarely finds anything new

        try:
            content = self.store.read_bytes(rel_path)
        except NotFoundError:
            rows.take_out(connection, [rel_path])
            return False
        except FamiliarError as error:
            rows.put_problem(connection, rel_path, stamp, str(error))
            return False
        sha256 = sha256_of(content)
        if rows.held_version(connection, rel_path) == (sha256, split.stamp):
            rows.restamp_file(connection, rel_path, stamp)
            return False
        text = content.decode("utf-8", "replace")  # as it is shown; `familiar doctor` names it
        rows.put_file(connection, rel_path, text=text, sha256=sha256, seen=stamp, split=split)
        return True

    def _embed(
        self,
        connection: sqlite3.Connection,
        embedder: Embedder,
        at_most: int | None,
        progress: Progress | None,
        after: int = 0,
    ) -> Embedded:
        from familiar_cli.store.search import token_vectors, vectors

        replaced = _agree_on_model(connection, embedder, self.directory)
        waiting = count_waiting(connection)
        total = waiting if at_most is None else min(waiting, at_most)
        done = 0
        for batch in _waiting_batches(connection, total, after):
            done += _embed_batch(connection, embedder, batch, self.directory)
            if progress:
                progress("vectors made", done, total)
        # A long run ends with all vectors in the file; a short one leaves a few outside.
        spare = vectors.DELTA_ROWS if at_most is not None else 0
        vectors.write_if_due(connection, self.directory, at_most_outside=spare)
        token_vectors.shrink_if_due(connection, self.directory)
        return Embedded(done, count_waiting(connection), replaced)

    def _status(self, connection: sqlite3.Connection) -> IndexStatus:
        from familiar_cli.store.search import token_vectors

        def count(what: str) -> int:
            return int(connection.execute(f"SELECT COUNT(*) FROM {what}").fetchone()[0])  # noqa: S608

        there = self.store.root.is_dir()
        seen = scan.scan_root(self.store.root, connection) if there else scan.Scan({}, (), 0)
        problems = connection.execute(
            "SELECT rel_path, problem FROM documents WHERE problem != '' ORDER BY rel_path"
        )
        database = schema.database_bytes(connection)
        beside = (p for p in self.directory.iterdir() if not p.name.startswith(schema.FILE))
        return IndexStatus(
            exists=True,
            files=count("(SELECT DISTINCT rel_path FROM documents WHERE problem = '')"),
            stale_files=len(self._really_stale(connection, seen.suspects)) + len(seen.gone),
            passages=count(f"chunks WHERE level = {schema.PASSAGE}"),
            lines=count(f"chunks WHERE level = {schema.LINE}"),
            vectors=count("chunks WHERE vector_seq IS NOT NULL"),
            waiting=count_waiting(connection),
            model=schema.read_meta(connection, "model"),
            size_bytes=database + sum(p.stat().st_size for p in beside if p.is_file()),
            problems=(
                *(IndexProblem(closed.rel_path, closed.reason) for closed in seen.closed),
                *(IndexProblem(*row) for row in problems),
            ),
            token_vectors=token_vectors.token_file(connection).rows,
        )

    def _really_stale(self, connection: sqlite3.Connection, suspects: Iterable[str]) -> list[str]:
        held = dict(connection.execute("SELECT rel_path, sha256 FROM documents"))
        return [path for path in suspects if self._sha256(path) != held.get(path)]

    def _sha256(self, rel_path: str) -> str | None:
        try:
            return self.store.sha256(rel_path)
        except FamiliarError:
            return ""


def _take_out(connection: sqlite3.Connection, rel_paths: Sequence[str]) -> None:
    if rel_paths:
        from familiar_cli.store.search import rows

        rows.take_out(connection, rel_paths)


def has_vectors_of(connection: sqlite3.Connection, embedder: Embedder) -> bool:
    """Tell whether the index holds vectors comparable with those of `embedder`."""
    held, targets = _index_signature(connection), _signature_of(embedder)
    # A server says how long its vectors are when it first answers.
    same = held == targets or (not embedder.dimension and held[0] == targets[0])
    return same and bool(
        connection.execute("SELECT 1 FROM chunks WHERE vector_seq > 0 LIMIT 1").fetchone()
    )


def count_waiting(connection: sqlite3.Connection) -> int:
    """Return how many lines have no vector."""
    made = connection.execute("SELECT COUNT(*) FROM chunks WHERE vector_seq > 0").fetchone()
    return count_lines(connection) - int(made[0])


def count_lines(connection: sqlite3.Connection) -> int:
    """Count the lines by their full-text table, which is fast."""
    value = connection.execute("SELECT COUNT(*) FROM lines_fts_docsize").fetchone()
    return int(value[0])


def _index_signature(connection: sqlite3.Connection) -> list[str]:
    return schema.read_metas(connection, "model", "dimension", "token_version")


def _signature_of(embedder: Embedder) -> list[str]:
    from familiar_cli.store.search.embedder import token_version

    return [embedder.model, str(embedder.dimension), token_version(embedder)]


def _agree_on_model(connection: sqlite3.Connection, embedder: Embedder, directory: Path) -> str:
    """Prepare the index for vectors of `embedder`; return the model whose vectors were deleted."""
    from familiar_cli.store.search import token_vectors

    held, targets = _index_signature(connection), _signature_of(embedder)
    if held == targets and not token_vectors.are_lost(connection, directory):
        return ""
    with transaction(connection):
        connection.execute(
            "UPDATE chunks SET vector = NULL, vector_seq = NULL, rows_from = NULL,"
            " rows_count = NULL WHERE vector_seq IS NOT NULL"
        )
        schema.set_meta(
            connection,
            model=targets[0],
            dimension=targets[1],
            token_version=targets[2],
            matrix="",
            matrix_rows="0",
            matrix_seq="0",
            **token_vectors.NONE,
        )
    return held[0] if held[0] != targets[0] else ""


def _is_little(stamps: Collection[FileStamp]) -> bool:
    return len(stamps) <= _FEW_FILES and sum(s.size_bytes for s in stamps) <= _FEW_BYTES


def _waiting_batches(
    connection: sqlite3.Connection, total: int, after: int
) -> Iterator[dict[bytes, tuple[str, list[int]]]]:
    """Yield pieces without vectors after one, newest first: the text to embed and its ids, by key.

    The texts of a batch are similarly long.
    """
    from familiar_cli.store.search.chunking import embedding_text, index_label

    last = _AFTER_ALL
    while total > 0:
        matches = connection.execute(
            "SELECT c.id, embed_key, c.text, heading_path, title, day FROM chunks c"
            " JOIN documents d ON d.id = document_id"
            " WHERE vector_seq IS NULL AND level = ? AND c.id > ? AND c.id < ?"
            " ORDER BY c.id DESC LIMIT ?",
            (schema.LINE, after, last, min(total, _FETCH)),
        ).fetchall()
        if not matches:
            return
        last, total = matches[-1][0], total - len(matches)
        waiting: dict[bytes, tuple[str, list[int]]] = {}
        for id_, key, text, heading, title, day in matches:
            if key not in waiting:
                above = index_label(title, heading, day_in(day))
                waiting[key] = (embedding_text(above, text), [])
            waiting[key][1].append(id_)
        by_length = sorted(waiting.items(), key=lambda item: len(item[1][0]))
        for start in range(0, len(by_length), BATCH):
            yield dict(by_length[start : start + BATCH])


def _embed_batch(
    connection: sqlite3.Connection,
    embedder: Embedder,
    batch: dict[bytes, tuple[str, list[int]]],
    directory: Path,
) -> int:
    from familiar_cli.store.search import rows, token_vectors
    from familiar_cli.store.search.embedder import read_passages

    encoding = read_passages(embedder, [text for text, _ in batch.values()])
    # The rows are on disk before anything says where they are, so a crash loses a batch at most.
    extents = token_vectors.put_tokens(connection, directory, encoding)
    items = [
        (row.astype("<f4", copy=False).tobytes(), *extent, id_)
        for row, extent, (_, ids) in zip(encoding.pooled, extents, batch.values(), strict=True)
        for id_ in ids
    ]
    with transaction(connection):
        first = rows.next_seq(connection, len(items))
        connection.executemany(
            "UPDATE chunks SET vector = ?, rows_from = ?, rows_count = ?, vector_seq = ?"
            " WHERE id = ? AND vector_seq IS NULL",
            [(*values, first + n, id_) for n, (*values, id_) in enumerate(items)],
        )
        token_vectors.note_extents(connection, extents)
    return len(items)


def _note_of_rebuild(connection: sqlite3.Connection) -> str:
    reason = schema.read_meta(connection, "rebuilt")
    if reason:
        schema.set_meta(connection, rebuilt="")
    return reason


_HEAD_BYTES: Final = 4096
_MARKS: Final = (b"---", b"\xef\xbb\xbf---")  # how a file with front matter begins

_UNKNOWN: Final = None


class Pins(Struct, frozen=True):
    """The pinned files.

    Args:
        rel_paths: The files, sorted.
        unread: Number of files not checked in time; some may be pinned.
        problems: Unreadable files that may be pinned, and why.
        fresh: The result of updating the index.
    """

    rel_paths: tuple[str, ...] = ()
    unread: int = 0
    problems: tuple[tuple[str, str], ...] = ()
    fresh: RefreshResult = RefreshResult()


def find_pins(
    index: EmbeddingIndex, *, refresh_s: float | None = None, within_s: float | None = None
) -> Pins:
    """Find the files that are pinned now.

    The index is updated first. Of files that it lacks, only the beginning is read.

    Args:
        index: The index of the memory.
        refresh_s: Maximum seconds for indexing changed files; None for no limit.
        within_s: Maximum seconds in total.
    """
    if not index.store.root.is_dir():
        return Pins()
    until_s = None if within_s is None else stopwatch_s() + within_s
    try:
        fresh, known = index.read(lambda c: _refresh_and_read(index, c, refresh_s))
    except IndexUnusableError:
        return pins_in_files(index.store, within_s=within_s)
    known |= dict.fromkeys(fresh.left, _UNKNOWN)
    looked, problems, unread = _look_at_pins(index.store, known, until_s)
    if looked.keys() - fresh.left.keys():
        with suppress(IndexUnusableError):
            index.use(lambda c: _note_pins(c, looked, fresh.left))
    pinned = sorted(path for path, is_one in (known | looked).items() if is_one)
    return Pins(tuple(pinned), unread, tuple(problems), fresh)


def pins_in_files(store: MemoryStore, *, within_s: float | None = None) -> Pins:
    """Find the pinned files by reading the beginning of each; creates no index."""
    until_s = None if within_s is None else stopwatch_s() + within_s
    paths = (file.rel_path for file in store.walk().files if not file.is_dir)
    unknown = dict.fromkeys((path for path in paths if is_page(path)), _UNKNOWN)
    looked, problems, unread = _look_at_pins(store, unknown, until_s)
    return Pins(tuple(path for path in looked if looked[path]), unread, tuple(problems))


def _refresh_and_read(
    index: EmbeddingIndex, connection: sqlite3.Connection, refresh_s: float | None
) -> tuple[RefreshResult, dict[str, bool | None]]:
    """Update the index; return the pins that it knows, too."""
    fresh = index.refresh_by(connection, None, refresh_s)
    rows = connection.execute("SELECT rel_path, pinned FROM documents WHERE pinned IS NOT 0")
    known = {path: _UNKNOWN if pinned is None else True for path, pinned in rows}
    return fresh, known


def _look_at_pins(
    store: MemoryStore, known: Mapping[str, bool | None], until_s: float | None
) -> tuple[dict[str, bool], list[tuple[str, str]], int]:
    """Check files of unknown state; return also those for which there was no time."""
    unknown = sorted(path for path, pinned in known.items() if pinned is _UNKNOWN)
    looked: dict[str, bool] = {}
    problems: list[tuple[str, str]] = []
    for number, rel_path in enumerate(unknown):
        if until_s is not None and stopwatch_s() >= until_s:
            return looked, problems, len(unknown) - number
        try:
            looked[rel_path] = _is_pinned(store, rel_path)
        except BadInputError:
            looked[rel_path] = False  # not text, so nobody pinned it
        except FamiliarError as error:
            problems.append((rel_path, str(error)))
    return looked, problems, 0


def _is_pinned(store: MemoryStore, rel_path: str) -> bool:
    with suppress(OSError):  # which the store reports
        # Nearly all files are handled here, in a tenth of the store's time.
        if not read_plain(f"{store.root}/{rel_path}", len(_MARKS[-1])).startswith(_MARKS):
            return False
    from familiar_cli.store.memory.pages.front_matter import is_pinned  # few files have it

    head = store.read_head(rel_path, _HEAD_BYTES)
    is_all = head.is_whole or body_start(head.text)
    return is_pinned(head.text if is_all else store.read_file(rel_path))


def _note_pins(
    connection: sqlite3.Connection, looked: dict[str, bool], left: Collection[str]
) -> None:
    """Record the pins found in files that the index holds unchanged."""
    matches = [(pinned, path) for path, pinned in looked.items() if path not in left]
    with transaction(connection):
        connection.executemany(
            "UPDATE documents SET pinned = ? WHERE rel_path = ? AND pinned IS NULL", matches
        )
