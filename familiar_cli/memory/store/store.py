"""Read and change the memory directory, and nothing outside it.

There is one writer at a time, by a lock between processes; readers wait until no change is half
done. The journal is told of each change, and is loaded only when something is to be done.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from familiar_cli import clock
from familiar_cli.errors import FamiliarError, LockedError
from familiar_cli.files import locked, read_plain, write_own
from familiar_cli.memory.store.files import MISSING, Limits, Tree
from familiar_cli.text import one_line, sha256_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from familiar_cli.errors import RefusedError
    from familiar_cli.files import Disk
    from familiar_cli.memory.store.files import (
        FileListing,
        GrepHit,
        GrepResult,
        Joined,
        MemoryEntry,
        MemoryFile,
        MemoryHead,
        StoredChange,
    )
    from familiar_cli.memory.store.transactions import Transaction, WritePlan

    OnChange = Callable[[tuple[str, ...]], None]

__all__ = ["MISSING", "Limits", "MemoryStore"]

_T = TypeVar("_T")
_TRIES = 3  # to read between two changes, before writers are made to wait


class MemoryStore:
    """Synchronous access to one familiar's memory directory.

    Paths are POSIX, below the root, e.g. `people/discord-42.md`. Every method refuses a path that
    leads out of the memory with `UnsafePathError`. Threads and processes may share a directory.

    Args:
        root: The memory directory; it need not exist before the first write.
        limits: What it may hold.
        lock_path: The file that writers lock; beside `root` when not given.
        lock_timeout_s: Longest wait for another writer.
        journal: Told of every change before it is made.
        disk: The file system.
        on_change: Called with the paths that a transaction changed when all of it is on disk and
            the lock is free; not for a dry run, nor when nothing changed.
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
    ) -> None:
        self.root = root = Path(root)
        self.limits = limits
        self.lock_path = Path(lock_path) if lock_path else root.with_name(f".{root.name}.lock")
        self.lock_timeout_s = lock_timeout_s
        self._journal = journal
        self._disk = disk
        self.on_change = on_change
        self._tree = Tree(root)
        self.run_id = os.urandom(6).hex()

    def list_dir(self, rel_path: str = "", *, hidden: bool = False) -> list[MemoryEntry]:
        """List a directory, sorted by name.

        Raises:
            NotFoundError: There is no such directory.
            TooManyResultsError: It holds more than `limits.max_results`.
        """
        from familiar_cli.memory.store.walk import list_dir

        limit = self.limits.max_results
        return self._steady(lambda: list_dir(self._tree, rel_path, hidden=hidden, limit=limit))

    def list_page(
        self, rel_path: str = "", *, after: str = "", most: int = 300
    ) -> tuple[list[MemoryEntry], int]:
        """Return at most `most` entries of a directory, by name, and how many it holds.

        It costs little however many they are.

        Args:
            rel_path: The directory.
            after: Only names after this one.
            most: How many entries.

        Raises:
            NotFoundError: There is no such directory.
        """
        from familiar_cli.memory.store.walk import list_page

        return self._steady(lambda: list_page(self._tree, rel_path, after=after, most=most))

    def exists(self, rel_path: str) -> bool:
        """Tell whether a file is there."""
        self._wait_for_pending()
        return self._tree.is_file(rel_path)

    def sha256(self, rel_path: str) -> str | None:
        """Return the SHA-256 of a file's bytes in hex, or None when no file is there."""
        return sha256_of(self._tree.read_bytes(rel_path)) if self.exists(rel_path) else None

    def read(self, rel_path: str) -> MemoryFile:
        """Return a text file with its SHA-256.

        Raises:
            NotFoundError: No file is there.
            BadInputError: It is not UTF-8.
        """
        self._wait_for_pending()
        return self._tree.read(rel_path)

    def read_file(self, rel_path: str) -> str:
        """Return a file's text, without any translation of line ends. Raises as `read` does."""
        return self.read(rel_path).text

    def read_head(self, rel_path: str, most_bytes: int) -> MemoryHead:
        """Return the beginning of a text file, at most `most_bytes` of it. Raises as `read` does.

        What is after them is not looked at, so a file of any size costs the same.
        """
        return self._tree.read_head(rel_path, most_bytes)

    def read_bytes(self, rel_path: str) -> bytes:
        """Return a file's bytes. Raises `NotFoundError` when no file is there."""
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
        """Make `content` the whole of a file. See `Transaction.write`."""
        with self.transaction(source, f"write {rel_path}") as tx:
            tx.write(rel_path, content, expect=expect)

    def append_file(self, rel_path: str, content: str, *, source: str = "human") -> None:
        """Put `content` at the end of a file, which is made if it is not there."""
        with self.transaction(source, f"append {rel_path}") as tx:
            tx.append(rel_path, content)

    def delete_file(
        self, rel_path: str, *, source: str = "human", expect: str | None = None
    ) -> None:
        """Delete a file. Raises `NotFoundError` when it is not there."""
        with self.transaction(source, f"delete {rel_path}") as tx:
            tx.delete(rel_path, expect=expect)

    def move_file(
        self, old: str, new: str, *, source: str = "human", expect: str | None = None
    ) -> None:
        """Give a file another path. Raises `RefusedError` when something is there already."""
        with self.transaction(source, f"move {old} to {new}") as tx:
            tx.move(old, new, expect=expect)

    def walk(self, rel_path: str = "", *, hidden: bool = False) -> FileListing:
        """Return every file below a directory, sorted by path; there is no limit to their number.

        Names that begin with a dot are left out unless `hidden`. Links, and what cannot be read or
        named, come back in `skipped`. Raises `NotFoundError` when nothing is at `rel_path`.
        """
        from familiar_cli.memory.store.walk import list_files

        return self._steady(lambda: list_files(self._tree, rel_path, hidden=hidden))

    def grep(
        self,
        pattern: str,
        rel_path: str = "",
        case_insensitive: bool = True,  # noqa: FBT001, FBT002
    ) -> list[GrepHit]:
        """Return the lines that match the regular expression `pattern`. See `search`.

        Raises:
            TooManyResultsError: There are more than `limits.max_results`.
        """
        from familiar_cli.memory.store.walk import all_hits

        return all_hits(self.search(pattern, rel_path, case_insensitive=case_insensitive), pattern)

    def search(
        self,
        pattern: str,
        rel_path: str = "",
        *,
        case_insensitive: bool = True,
        hidden: bool = False,
    ) -> GrepResult:
        """Return at most `limits.max_results` lines that match, and what could not be searched.

        Raises:
            UsageError: `pattern` is not a regular expression.
            LimitError: The search took longer than `limits.grep_timeout_s`.
            NotFoundError: Nothing is at `rel_path`.
        """
        from familiar_cli.memory.store.walk import grep_files

        return self._steady(
            lambda: grep_files(
                self._tree,
                pattern,
                rel_path,
                case_insensitive=case_insensitive,
                hidden=hidden,
                limits=self.limits,
            )
        )

    def glob(self, pattern: str) -> list[str]:
        """Return the files whose path fits `pattern`, sorted. `**` stands for any directories.

        Raises:
            TooManyResultsError: There are more than `limits.max_results`.
        """
        from familiar_cli.memory.store.walk import glob_files

        return self._steady(lambda: glob_files(self._tree, pattern, limit=self.limits.max_results))

    @contextmanager
    def transaction(
        self,
        source: str,
        message: str,
        *,
        dry_run: bool = False,
        trailers: Mapping[str, str] | None = None,
        joined: Joined | None = None,
    ) -> Iterator[Transaction]:
        """Stage changes inside the `with`; all are made when it ends well, else none.

        Args:
            source: Who changes, e.g. `human`, `memory_writer`.
            message: What for, in one line.
            dry_run: Check everything and set `.result`, but change nothing.
            trailers: What else the journal is to note; `Run-Id` is `run_id` if not given.
            joined: What came from other instances; recorded even when no file changes by it.

        Raises:
            LockedError: Another writer held the lock for too long.
            ConflictError: A file is not what `expect` says, or the journal not what `joined` does.
            RefusedError: A path, a limit or a rule forbids a change.
            FamiliarError: The disk refused; everything is as it was.
        """
        from familiar_cli.memory.layout import RUN_ID
        from familiar_cli.memory.store.transactions import Transaction

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
        """Return why a rule forbids staged steps, by path; each is looked at by itself.

        Args:
            tx: The steps.
            is_settled: A file that is not what `expect` says stays so; it is refused, too.

        Raises:
            ConflictError: A file is not what `expect` says, yet.
        """
        from familiar_cli.memory.store.transactions import refused_steps

        return refused_steps(self._tree, self.limits, tx.steps, is_settled=is_settled)

    def catch_up(self, *, look: bool = True) -> None:
        """Commit what people changed by hand to the journal, as `human`.

        Args:
            look: Look at all files, also when the last look was a moment ago.

        Raises:
            LockedError: Another writer held the lock for too long.
            FamiliarError: The journal is damaged, or the disk refused.
        """
        if self._journal:
            with hold_lock(self.lock_path, self.lock_timeout_s):
                self._journal.begin(look=look)

    def _wait_for_pending(self) -> None:
        """Wait until no change is half on disk; finish one that a crash cut short."""
        if self._journal and self._journal.pending():
            wait_for_pending(self._journal, self.lock_path, self.lock_timeout_s)

    def _steady(self, read: Callable[[], _T]) -> _T:
        """Call `read` so that no transaction ends while it reads several files."""
        if not self._journal:
            return read()
        for _ in range(_TRIES):
            self._wait_for_pending()
            before = self._journal.state()
            found = read()
            if self._journal.state() == before and not self._journal.pending():
                return found

        with hold_lock(self.lock_path, self.lock_timeout_s):
            self._journal.begin()
            return read()

    def _plan(self, tx: Transaction) -> WritePlan:
        from familiar_cli.memory.store.transactions import make_plan

        return make_plan(self._tree, self.limits, tx.steps)

    def _commit(self, tx: Transaction) -> None:

        from familiar_cli.memory.store.transactions import apply_plan

        with hold_lock(self.lock_path, self.lock_timeout_s):
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
    """Hold the lock at `lock_path`. A crash of the holder sets it free.

    Waiting is done in front of a second lock, and only who has that waits for the first. So a
    holder that wants to go on at once must queue up, too, and nobody is passed over for long.

    Raises:
        LockedError: Another thread or process held it for `timeout_s`.
        FamiliarError: The lock file cannot be made.
    """
    begun_s = clock.stopwatch_s()
    with ExitStack() as stack:
        try:
            lock_path.parent.mkdir(parents=True, exist_ok=True)
            with locked(lock_path.with_name(f"{lock_path.name}.next"), timeout_s):
                left_s = max(timeout_s - (clock.stopwatch_s() - begun_s), 0)
                stack.enter_context(locked(lock_path, left_s))
        except LockedError as error:
            raise _locked_error(lock_path) from error
        except OSError as error:
            raise FamiliarError(
                f"{str(lock_path.parent)!r} cannot be written to: {error.strerror or error};"
                " nothing was changed",
                hint="Check its permissions, and whether the disk is full or read-only.",
            ) from error
        _sign_lock(lock_path)
        stack.callback(_unsign_lock, lock_path)
        yield


def holder_path(lock_path: Path) -> Path:
    """Return the file that says who holds the lock."""
    return lock_path.with_name(f"{lock_path.name}.holder")


def lock_holder(lock_path: Path) -> str | None:
    """Return who signed the lock last and has not given it back, in words."""
    try:
        who = json.loads(read_plain(holder_path(lock_path)))
        return one_line(
            f"process {who['pid']} on {who['host']} (`{who['command']}`), since {who['since']}", 200
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _sign_lock(lock_path: Path) -> None:
    # A command's arguments may be private, so only the first word after it is told.
    command = [os.path.basename(sys.argv[0]) or "python", *sys.argv[1:2]]
    who = {
        "pid": os.getpid(),
        "host": platform.node(),
        "command": " ".join(command),
        "since": clock.iso(clock.now()),
    }
    with suppress(OSError):  # a courtesy: the lock holds without it
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


_PATIENCE_S = 0.05  # for the lock, before looking again whether the writer is done


def wait_for_pending(journal: Journal | LazyJournal, lock_path: Path, timeout_s: float) -> None:
    """Return when every decided change is on disk; finish one whose writer is gone.

    One that cannot be finished stops no reader: the journal tells of it once.

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
"""The file in the journal that says: a commit is decided, and may not be wholly on disk yet."""

BRANCH: Final = "refs/heads/main"
"""The branch whose tip is the newest commit."""


def branch_path(directory: str) -> str:
    """Return the file that holds the tip of the branch, in a journal's directory."""
    return os.path.join(directory, *BRANCH.split("/"))


def state_of(directory: str) -> object:
    """Return a value that differs after every transaction of a journal; costs one look."""
    try:
        status = os.stat(branch_path(directory))
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


class Journal(Protocol):
    """Told of each transaction in this order: `begin`, `prepare`, then `applied` or `abandoned`.

    All but `pending`, `give_up` and `state` are called while the lock is held. What `begin` or
    `prepare` raises stops the transaction before any file was touched.
    """

    def pending(self) -> bool:
        """Tell whether a change is decided but not all of it is on disk; costs one look."""

    def give_up(self, error: FamiliarError) -> None:
        """A reader cannot finish what is pending: from now on that is pending no more.

        Whoever writes is still stopped by it.
        """

    def state(self) -> object:
        """Return a value that differs after every transaction; costs one look."""

    def begin(self, *, look: bool = False) -> None:
        """Before anything is read: finish what a crash cut short, note what people changed.

        Args:
            look: Look at every file, however long it takes.
        """

    def prepare(
        self,
        source: str,
        message: str,
        changes: Sequence[StoredChange],
        trailers: Mapping[str, str],
        joined: Joined | None = None,
    ) -> None:
        """All rules hold and no file is touched yet: record durably what is about to be."""

    def applied(self, changes: Sequence[StoredChange]) -> None:
        """Every change is on disk."""

    def abandoned(self, changes: Sequence[StoredChange]) -> None:
        """The disk refused; every file is as it was before."""


class LazyJournal:
    """A `Journal` that is made when it is first needed.

    Args:
        path: Its directory.
        make: Returns the journal itself; the same one each time.
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
