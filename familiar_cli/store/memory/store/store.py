"""Read and change files in the memory directory only.

A lock between processes admits one writer at a time; readers wait for a change in progress. The
journal records each change, and is loaded on first use.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from msgspec import Struct, field

from familiar_cli.base.errors import FamiliarError, LockedError, NotFoundError, RefusedError
from familiar_cli.base.files import Disk, locked, read_plain, status_of, write_hint, write_own
from familiar_cli.base.text import one_line, sha256_of
from familiar_cli.base.times import clock
from familiar_cli.store.memory.layout import PENDING_DIR, RUN_ID, is_hidden
from familiar_cli.store.memory.store import files, walk
from familiar_cli.store.memory.store.files import MISSING, Limits

if TYPE_CHECKING:
    from familiar_cli.store.memory.store.transactions import Transaction, WritePlan

    OnChange = Callable[[tuple[str, ...]], None]

__all__ = ["MISSING", "Limits", "MemoryStore"]

_T = TypeVar("_T")
_REMEMBERED, _REMEMBERED_CHARS = 256, 16_000  # texts, at most 4 MB of ASCII
_TRIES = 3  # pause for readers between two changes before writers must wait


class _Remembered(Struct):
    """What was read since the last change; nothing is kept where `since` is 0.

    Args:
        since: The number of a listing; see `quiet_since`.
        texts: Whole files, by path.
        heads: Beginnings by path and size, or why there is none.
    """

    since: int = 0
    texts: dict[str, str] = field(default_factory=dict)
    heads: dict[tuple[str, int], files.MemoryHead | NotFoundError] = field(default_factory=dict)


class MemoryStore:
    """Synchronous access to one familiar's memory directory.

    Paths are POSIX, relative to the root, e.g. `people/discord-42.md`. Every method refuses a path
    outside the memory with `UnsafePathError`. Threads and processes may share a directory.

    Args:
        root: The memory directory; it need not exist before the first write.
        limits: Size limits.
        lock_path: Lock file for writers; by default beside `root`.
        lock_timeout_s: Maximum wait for another writer.
        journal: Records each change before it is applied.
        disk: The file system.
        on_change: Called with the changed paths after a transaction is on disk and the lock is
            released; not for dry runs or transactions without changes.
        before_change: Called under the lock before a change; raises to prevent it.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        limits: Limits = Limits(),  # noqa: B008  # frozen
        lock_path: str | Path | None = None,
        lock_timeout_s: float = 10.0,
        journal: Journal | LazyJournal | None = None,
        disk: Disk | None = None,
        on_change: OnChange | None = None,
        before_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.root = root = Path(root)
        self.limits = limits
        self.lock_path = Path(lock_path) if lock_path else root.with_name(f".{root.name}.lock")
        self.lock_timeout_s = lock_timeout_s
        self._journal = journal
        self._disk = disk
        self.on_change, self._before_change = on_change, before_change
        self._tree = files.Tree(root)
        self._remembered = _Remembered()
        self.run_id = os.urandom(6).hex()

    def list_dir(self, rel_path: str = "", *, hidden: bool = False) -> list[files.MemoryEntry]:
        """List a directory, sorted by name.

        Raises:
            NotFoundError: No such directory.
            TooManyResultsError: It has more than `limits.max_results` entries.
        """
        limit = self.limits.max_results
        return self._steady(lambda: walk.list_dir(self._tree, rel_path, hidden=hidden, limit=limit))

    def list_page(
        self, rel_path: str = "", *, after: str = "", most: int = 300
    ) -> tuple[list[files.MemoryEntry], int]:
        """Return at most `most` entries of a directory by name, and their total number.

        Cheap for directories of any size.

        Args:
            rel_path: The directory.
            after: Only names after this one.
            most: Maximum number of entries.

        Raises:
            NotFoundError: No such directory.
        """
        return self._steady(lambda: walk.list_page(self._tree, rel_path, after=after, most=most))

    def exists(self, rel_path: str) -> bool:
        """Tell whether a file exists."""
        self._wait_for_pending()
        return self._tree.is_file(rel_path)

    def sha256(self, rel_path: str) -> str | None:
        """Return the SHA-256 of a file in hex, or None if it does not exist."""
        return sha256_of(self._tree.read_bytes(rel_path)) if self.exists(rel_path) else None

    def read(self, rel_path: str) -> files.MemoryFile:
        """Return a text file with its SHA-256.

        Raises:
            NotFoundError: No such file.
            BadInputError: It is not UTF-8.
        """
        self._wait_for_pending()
        return self._tree.read(rel_path)

    def read_file(self, rel_path: str) -> str:
        """Return a file's text without newline translation. Raises as `read` does."""
        self._wait_for_pending()
        return self._tree.read_text(rel_path)

    def readable(self, rel_path: str) -> str:
        """Return a file's text; empty if it cannot be read, which `familiar doctor` reports."""
        try:
            return self.read_file(rel_path)
        except FamiliarError:
            return ""

    def reader(self) -> Callable[[str], str]:
        """Return a function like `read_file` for a task that reads many files.

        It remembers texts for the next such task, for as long as nothing changes.
        """
        tree, kept = self._tree.settled(), self._unchanged()

        def read(rel_path: str) -> str:
            text = kept.texts.get(rel_path)
            if text is None:
                self._wait_for_pending()
                text = tree.read_text(rel_path)
                if kept.since and len(text) <= _REMEMBERED_CHARS and len(kept.texts) < _REMEMBERED:
                    kept.texts[rel_path] = text
            return text

        return read

    def quiet_since(self) -> int:
        """Return the number of the listing since which nothing changed; 0 if something may have."""
        from familiar_cli.store.memory.store.watch import quiet_since

        return quiet_since(self._tree.real)

    def _unchanged(self) -> _Remembered:
        """Return the cache of what was read; it is new if anything may have changed."""
        since, kept = self.quiet_since(), self._remembered
        if not since or since != kept.since or len(kept.heads) > _REMEMBERED:
            kept = self._remembered = _Remembered(since)
        return kept

    def _is_watched(self, rel_path: str) -> bool:
        """Tell whether `quiet_since` covers a file: not a hidden one, nor one behind a link."""
        real = self._tree.real
        is_direct = files.locate_path(real, rel_path) == f"{real}/{rel_path}"
        return is_direct and not is_hidden(rel_path)

    def read_head(self, rel_path: str, most_bytes: int) -> files.MemoryHead:
        """Return the beginning of a text file, at most `most_bytes` of it. Raises as `read` does.

        The rest is not read, so the cost does not depend on the file's size. It is remembered for
        as long as nothing changes, as is that there is no such file.
        """
        kept, key = self._unchanged(), (rel_path, most_bytes)
        head = kept.heads.get(key)
        if head is None:
            try:
                head = self._tree.read_head(rel_path, most_bytes)
            except NotFoundError as error:
                head = copy(error)  # without a traceback, which holds much else
            is_short = isinstance(head, NotFoundError) or len(head.text) <= _REMEMBERED_CHARS
            if is_short and kept.since and self._is_watched(rel_path):
                kept.heads[key] = head
        if isinstance(head, NotFoundError):
            raise copy(head)
        return head

    def head_reader(self) -> Callable[[str, int], files.MemoryHead]:
        """Return a function like `read_head` for a task that reads many files."""
        return self._tree.settled().read_head

    def read_bytes(self, rel_path: str) -> bytes:
        """Return a file's bytes. Raises `NotFoundError` if it does not exist."""
        self._wait_for_pending()
        return self._tree.read_bytes(rel_path)

    def write_file(
        self,
        rel_path: str,
        content: str | bytes,
        *,
        source: str = "human",
        expect: str | None = None,
    ) -> None:
        """Replace a file's content, creating it if needed. See `Transaction.write`."""
        with self.transaction(source, f"write {rel_path}") as tx:
            tx.write(rel_path, content, expect=expect)

    def append_file(self, rel_path: str, content: str, *, source: str = "human") -> None:
        """Append `content` to a file, creating it if needed."""
        with self.transaction(source, f"append {rel_path}") as tx:
            tx.append(rel_path, content)

    def delete_file(
        self, rel_path: str, *, source: str = "human", expect: str | None = None
    ) -> None:
        """Delete a file. Raises `NotFoundError` if it does not exist."""
        with self.transaction(source, f"delete {rel_path}") as tx:
            tx.delete(rel_path, expect=expect)

    def move_file(
        self, old: str, new: str, *, source: str = "human", expect: str | None = None
    ) -> None:
        """Move a file. Raises `RefusedError` if the target exists."""
        with self.transaction(source, f"move {old} to {new}") as tx:
            tx.move(old, new, expect=expect)

    def walk(
        self, rel_path: str = "", *, hidden: bool = False, missing_ok: bool = False
    ) -> files.FileListing:
        """Return every file below a directory, sorted by path, without limit.

        Dotted names are left out unless `hidden`. Links and unreadable files are listed in
        `skipped`. Raises `NotFoundError` if `rel_path` does not exist, unless `missing_ok`.
        """
        with suppress(NotFoundError) if missing_ok else nullcontext():
            return self._steady(lambda: walk.list_files(self._tree, rel_path, hidden=hidden))
        return files.FileListing((), ())

    def plan_ids(self) -> list[str]:
        """Return the ids of the plans that await review, oldest first."""
        walked = self.walk(PENDING_DIR, hidden=True, missing_ok=True)
        names = (f.rel_path.removeprefix(f"{PENDING_DIR}/") for f in walked.files)
        return sorted(name.removesuffix(".json") for name in names if name.endswith(".json"))

    def stat_files(self, rel_path: str) -> dict[str, os.stat_result]:
        """Return the state of each file that `walk` lists below a directory, sorted by path.

        Empty if the directory does not exist. Costs half as much as `walk`.
        """
        with suppress(NotFoundError):
            return self._steady(lambda: walk.stat_files(self._tree, rel_path))
        return {}

    def grep(
        self,
        pattern: str,
        rel_path: str = "",
        case_insensitive: bool = True,  # noqa: FBT001, FBT002
    ) -> list[files.GrepHit]:
        """Return the lines that match the regular expression `pattern`. See `search`.

        Raises:
            TooManyResultsError: There are more than `limits.max_results`.
        """
        return walk.all_hits(
            self.search(pattern, rel_path, case_insensitive=case_insensitive), pattern
        )

    def search(
        self,
        pattern: str,
        rel_path: str = "",
        *,
        case_insensitive: bool = True,
        hidden: bool = False,
    ) -> files.GrepResult:
        """Return at most `limits.max_results` matching lines, and the files not searched.

        Raises:
            UsageError: `pattern` is not a valid regular expression.
            LimitError: The search took longer than `limits.grep_timeout_s`.
            NotFoundError: `rel_path` does not exist.
        """
        return self._steady(
            lambda: walk.grep_files(
                self._tree,
                pattern,
                rel_path,
                case_insensitive=case_insensitive,
                hidden=hidden,
                limits=self.limits,
            )
        )

    def glob(self, pattern: str) -> list[str]:
        """Return the files whose path matches `pattern`, sorted. `**` matches any directories.

        Raises:
            TooManyResultsError: There are more than `limits.max_results`.
        """
        return self._steady(
            lambda: walk.glob_files(self._tree, pattern, limit=self.limits.max_results)
        )

    @contextmanager
    def transaction(
        self,
        source: str,
        message: str,
        *,
        dry_run: bool = False,
        trailers: Mapping[str, str] | None = None,
        joined: files.IncomingCommits | None = None,
    ) -> Iterator[Transaction]:
        """Stage changes in a `with` block, applying all on success and none on error.

        Args:
            source: Author of the change, e.g. `human`, `memory_writer`.
            message: One-line summary.
            dry_run: Check everything and set `.result` without changing anything.
            trailers: Further commit trailers; `Run-Id` defaults to `run_id`.
            joined: What was merged from other instances; recorded even if no file changes.

        Raises:
            LockedError: Another writer held the lock for too long.
            ConflictError: A file does not match `expect`, or the journal does not match `joined`.
            RefusedError: A path, a limit or a rule forbids a change.
            FamiliarError: A write failed; everything was rolled back.
        """
        from familiar_cli.store.memory.store.transactions import Transaction

        tx = Transaction(source, message, {RUN_ID: self.run_id, **(trailers or {})}, joined)
        yield tx
        if dry_run or not (tx.steps or joined):
            self._wait_for_pending()
            tx.finish(self._plan(tx).result)
        else:
            self._commit(tx)
            changed = tx.result.written + tx.result.deleted
            if changed and self.on_change:
                self.on_change(changed)

    def refused(self, tx: Transaction, *, is_settled: bool = False) -> dict[str, RefusedError]:
        """Return, by path, why staged steps are refused, checking each separately.

        Args:
            tx: The transaction.
            is_settled: Also refuse, instead of raising, steps whose `expect` fails.

        Raises:
            ConflictError: A file does not match `expect` and may still change.
        """
        from familiar_cli.store.memory.store.transactions import refused_steps

        return refused_steps(self._tree, self.limits, tx.steps, is_settled=is_settled)

    def catch_up(self, *, look: bool = True) -> None:
        """Commit edits made by hand to the journal, as `human`.

        Args:
            look: Scan all files even if the last scan was a moment ago.

        Raises:
            LockedError: Another writer held the lock for too long.
            FamiliarError: The journal is damaged, or a write failed.
        """
        if self._journal:
            with hold_lock(self.lock_path, self.lock_timeout_s):
                self._journal.begin(look=look)

    def _wait_for_pending(self) -> None:
        """Wait for a change in progress; complete one that a crash cut short."""
        if self._journal and self._journal.pending():
            wait_for_pending(self._journal, self.lock_path, self.lock_timeout_s)

    def _steady(self, read: Callable[[], _T]) -> _T:
        """Call `read` until no transaction completes while it reads several files."""
        if not self._journal:
            return read()
        for _ in range(_TRIES):
            self._wait_for_pending()
            before = self._journal.state()
            result = read()
            if self._journal.state() == before and not self._journal.pending():
                return result

        with hold_lock(self.lock_path, self.lock_timeout_s):
            self._journal.begin()
            return read()

    def _plan(self, tx: Transaction) -> WritePlan:
        from familiar_cli.store.memory.store.transactions import make_plan

        return make_plan(self._tree, self.limits, tx.steps)

    def _commit(self, tx: Transaction) -> None:
        from familiar_cli.store.memory.store.transactions import apply_plan

        with hold_lock(self.lock_path, self.lock_timeout_s):
            self._before_change()
            journal = self._journal
            if journal:
                journal.begin()
            plan = self._plan(tx)
            recorded = journal is not None and bool(plan.changes or tx.joined)
            if journal and recorded:
                journal.prepare(tx.source, tx.message, plan.changes, tx.trailers, tx.joined)
            try:
                apply_plan(self._tree.real, plan, self._disk)
            except BaseException:
                if journal and recorded:
                    journal.abandoned(plan.changes)
                raise
            if journal and recorded:
                journal.applied(plan.changes)
            tx.finish(plan.result)


@contextmanager
def hold_lock(lock_path: Path, timeout_s: float) -> Iterator[None]:
    """Hold the lock at `lock_path`. It is released if the holder crashes.

    Waiters queue for a second lock, and only its holder waits for the first. A holder that wants
    the lock again must queue too, so no waiter starves. Callers that do not wait do not queue.

    Raises:
        LockedError: Another thread or process held it for `timeout_s`.
        FamiliarError: The lock file cannot be created.
    """
    begun_s = clock.stopwatch_s()
    with ExitStack() as stack:
        try:
            lock_path.parent.mkdir(parents=True, exist_ok=True)
            queue = locked(lock_path.with_name(f"{lock_path.name}.next"), timeout_s)
            with queue if timeout_s else nullcontext():
                left_s = max(timeout_s - (clock.stopwatch_s() - begun_s), 0)
                stack.enter_context(locked(lock_path, left_s))
        except LockedError as error:
            raise _locked_error(lock_path) from error
        except OSError as error:
            raise FamiliarError(
                f"{str(lock_path.parent)!r} cannot be written to: {error.strerror or error};"
                " nothing was changed",
                hint=write_hint(error.errno),
            ) from error
        _sign_lock(lock_path)
        stack.callback(_unsign_lock, lock_path)
        yield


def holder_path(lock_path: Path) -> Path:
    """Return the path of the file that names the lock's holder."""
    return lock_path.with_name(f"{lock_path.name}.holder")


def lock_holder(lock_path: Path) -> str | None:
    """Describe the current lock holder, or return None."""
    import json  # starting is quicker without it

    try:
        who = json.loads(read_plain(holder_path(lock_path)))
        return one_line(
            f"process {who['pid']} on {who['host']} (`{who['command']}`), since {who['since']}", 200
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _sign_lock(lock_path: Path) -> None:
    import json  # starting is quicker without it

    # Arguments may be private, so only the command's first word is included.
    command = [os.path.basename(sys.argv[0]) or "python", *sys.argv[1:2]]
    who = {
        "pid": os.getpid(),
        "host": platform.node(),
        "command": " ".join(command),
        "since": clock.iso(clock.now()),
    }
    with suppress(OSError):  # informational: the lock works without it
        write_own(holder_path(lock_path), json.dumps(who).encode(), durable=False)


def _unsign_lock(lock_path: Path) -> None:
    with suppress(OSError):
        holder_path(lock_path).unlink()


def _locked_error(lock_path: Path) -> LockedError:
    who = lock_holder(lock_path) or "another process"
    return LockedError(
        f"The memory is being changed by {who}; nothing was changed",
        hint="Try again when it has finished.",
    )


_PATIENCE_S = 0.05  # wait for the lock this long before checking again whether the writer is done


def wait_for_pending(journal: Journal | LazyJournal, lock_path: Path, timeout_s: float) -> None:
    """Wait until every decided change is on disk; complete one whose writer is gone.

    A change that cannot be completed does not block readers: the journal reports it once.

    Raises:
        LockedError: A writer has been in the middle of a change for `timeout_s`.
    """
    begun_s = clock.stopwatch_s()
    while journal.pending():
        try:
            with hold_lock(lock_path, min(_PATIENCE_S, timeout_s)):
                journal.begin()
                return
        except LockedError:
            if clock.stopwatch_s() - begun_s > timeout_s:
                raise
        except FamiliarError as error:
            journal.give_up(error)
            return


PENDING_MARK: Final = "familiar-pending"
"""Marker file in the journal for a commit that may not be fully on disk yet."""

BRANCH: Final = "refs/heads/main"
"""The branch whose tip is the newest commit."""


def branch_path(directory: str) -> str:
    """Return the path of the file that holds the branch head."""
    return os.path.join(directory, *BRANCH.split("/"))


def state_of(directory: str) -> object:
    """Return a value that changes with every transaction; costs one stat."""
    status = status_of(branch_path(directory))
    return status and (status.st_ino, status.st_mtime_ns)


class Journal(Protocol):
    """Records transactions: `begin`, `prepare`, then `applied` or `abandoned`.

    All methods but `pending`, `give_up` and `state` are called with the lock held. An error in
    `begin` or `prepare` stops the transaction before any file is touched.
    """

    def pending(self) -> bool:
        """Tell whether a committed change is not fully on disk yet; costs one stat."""

    def give_up(self, error: FamiliarError) -> None:
        """Stop reporting a change that a reader cannot complete as pending.

        It still blocks writers.
        """

    def state(self) -> object:
        """Return a value that changes with every transaction; costs one stat."""

    def begin(self, *, look: bool = False) -> None:
        """Complete an interrupted change and commit edits by hand, before anything is read.

        Args:
            look: Scan every file, however long it takes.
        """

    def prepare(
        self,
        source: str,
        message: str,
        changes: Sequence[files.StoredChange],
        trailers: Mapping[str, str],
        joined: files.IncomingCommits | None = None,
    ) -> None:
        """Record the change durably, after validation and before any file is touched."""

    def applied(self, changes: Sequence[files.StoredChange]) -> None:
        """Finish a transaction whose changes are all on disk."""

    def abandoned(self, changes: Sequence[files.StoredChange]) -> None:
        """Roll back a transaction that failed; every file is restored."""


class LazyJournal:
    """A `Journal` created on first use.

    Args:
        path: Its directory.
        make: Returns the journal, the same object each time.
    """

    def __init__(self, path: Path, make: Callable[[], Journal]) -> None:
        self._path = str(path)
        self._mark = os.path.join(self._path, PENDING_MARK)
        self._make = make

    def pending(self) -> bool:
        """See `Journal`."""
        return os.path.lexists(self._mark) and self._make().pending()

    def state(self) -> object:
        """See `Journal`."""
        return state_of(self._path)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # all else is up to the journal
        return getattr(self._make(), name)
