"""`GitJournal`: commits each transaction before applying it, and completes it after a crash.

The order makes it safe:

1. the commit's objects are written;
2. a marker that names the commit is written: from here on the change is decided;
3. the branch moves to the commit;
4. the files are changed, one by one;
5. the marker is removed.

Every step is durable before the next begins. Finding the marker, the next process repeats steps 3
to 5.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from familiar_cli.base.errors import ConflictError, FamiliarError
from familiar_cli.base.files import Disk
from familiar_cli.base.times import clock
from familiar_cli.store.journal import finish
from familiar_cli.store.journal import repository as journal_repository
from familiar_cli.store.journal.edits import (
    Edits,
    UnseenCommits,
    forget_absent,
    is_recordable,
    is_scan_due,
    list_absent,
    note_absent,
    note_scan_time,
    note_too_large,
)
from familiar_cli.store.journal.objects import object_id
from familiar_cli.store.memory.layout import is_synced
from familiar_cli.store.memory.store.files import (
    MOST_RECORDED_BYTES,
    IncomingCommits,
    StoredChange,
    Tree,
    shorten_path,
)
from familiar_cli.store.memory.store.store import state_of

FOUND = "the memory as it was found"


class GitJournal:
    """The journal of one memory directory.

    Args:
        path: `journal.git`; created with the first change.
        root: The memory directory.
        tell: Callback for user-facing messages.
        disk: The file system.
        instance: Returns the id of this instance; empty for the original one.
    """

    def __init__(
        self,
        path: Path,
        root: Path,
        *,
        tell: Callable[[str], None] = lambda _: None,
        disk: Disk | None = None,
        instance: Callable[[], str] = lambda: "",
    ) -> None:
        self.instance = instance
        self.path = str(path)
        self._disk = disk or Disk()
        self.repository = journal_repository.Repository(self.path, self._disk)
        self._memory = Tree(root)
        self._tell = tell
        self._given_up: object = None  # marker of a change that cannot be completed

    def _signed(self) -> dict[str, str]:
        """Return the instance trailers of a commit; none for the original instance."""
        instance = self.instance()
        return {journal_repository.INSTANCE: instance} if instance else {}

    def pending(self) -> bool:
        """Tell whether a committed change is not fully on disk yet; costs one stat."""
        mark = finish.mark_signature(self.path)
        return mark is not None and mark != self._given_up

    def give_up(self, error: FamiliarError) -> None:
        """Allow reads despite a change that cannot be completed, and report it once."""
        self._given_up = finish.mark_signature(self.path)
        self._tell(f"Files are read as they are, perhaps in the middle of a change. {error}")

    def state(self) -> object:
        """Return a value that changes with every transaction; costs one stat."""
        return state_of(self.path)

    def begin(self, *, look: bool = False) -> None:
        """Complete a transaction cut short by a crash, and commit edits made by hand.

        A full scan takes longer the more files exist, so a transaction skips it if the last one was
        a moment ago. The files it changes are always checked.

        Raises:
            FamiliarError: The journal is damaged or cannot be written.
        """
        if not self.repository.exists:
            return
        with self._open():
            edited = self._finish()
            if look or edited or is_scan_due(self.repository):
                self._note_edits(loud=look)

    def prepare(
        self,
        source: str,
        message: str,
        changes: Sequence[StoredChange],
        trailers: Mapping[str, str],
        joined: IncomingCommits | None = None,
    ) -> None:
        """Commit the pending changes and mark the transaction as decided.

        Raises:
            ConflictError: The newest commit is not the one `joined` was computed for.
            FamiliarError: It could not be written; nothing is decided.
        """
        repository = self.repository
        with self._open():
            if not repository.exists:
                repository.create()
            if repository.head() is None:
                self._note_edits()
            changes = [c for c in changes if _is_recorded(c)]
            self._note_touched(changes)
            base = repository.head()
            if joined and joined.base != base:
                raise ConflictError(
                    "The memory was changed while it was being merged; nothing was changed",
                    hint="Try again.",
                )
            if joined:
                note_absent(repository, joined.absent, joined.gone)
            if joined and joined.is_forward:
                self._decide(finish.PendingChange(base, joined.commits[0], is_forward=True))
                return
            draft = UnseenCommits(repository, base)
            try:
                if not draft.commit(
                    source,
                    message,
                    [(change.rel_path, change.after) for change in changes],
                    _commit_time(),
                    trailers={**trailers, **self._signed()},
                    joined=joined,
                    old_bytes={c.rel_path: len(c.before) for c in changes if c.before is not None},
                ):
                    return
                draft.save()
            except BaseException:
                repository.objects.discard()
                raise
            self._decide(finish.PendingChange(base, str(draft.head)))

    def applied(self, changes: Sequence[StoredChange]) -> None:
        """Finish a transaction whose changes are all on disk. A leftover marker is harmless."""
        self.repository.objects.keep()
        rel_paths = [c.rel_path for c in changes if c.after is not None]
        with suppress(OSError):
            finish.clear_mark(self.path, self._disk)
            forget_absent(self.repository, rel_paths)

    def abandoned(self, changes: Sequence[StoredChange]) -> None:
        """Roll back the commit, unless a file could not be restored: then it stays decided.

        Raises:
            FamiliarError: The journal could not be rolled back either; the next writer completes
                it.
        """
        mark = finish.read_mark(self.path)
        if mark is None:
            return
        stuck = [
            change.rel_path
            for change in changes
            if finish.content_on_disk(self._memory.real, change.rel_path) == change.after
        ]
        if stuck:
            raise FamiliarError(
                f"The change was interrupted, and {stuck[0]!r} could not be restored; the next "
                "command completes the change",
                hint="Free some space, or check the permissions; then run `familiar doctor`.",
            )
        self._take_back(mark)

    def _decide(self, mark: finish.PendingChange) -> None:
        try:
            self._keep_former()
            finish.write_mark(self.path, mark, self._disk)
            self.repository.set_head(mark.commit)
        except BaseException:
            self._take_back(mark)
            raise

    def _keep_former(self) -> None:
        """Keep the old branch under a second name, so that rolling back needs no disk space."""
        former = os.path.join(self.path, finish.FORMER_BRANCH)
        with suppress(OSError):
            os.unlink(former)
        with suppress(OSError):
            os.link(self.repository.branch_path, former)

    def _take_back(self, mark: finish.PendingChange) -> None:
        former = os.path.join(self.path, finish.FORMER_BRANCH)
        with self._open():
            if self.repository.head() == mark.commit:
                if mark.base is not None and os.path.exists(former):
                    self._disk.replace(former, self.repository.branch_path)
                    self._disk.sync_dir(os.path.dirname(self.repository.branch_path))
                else:
                    self.repository.set_head(mark.base)
            finish.clear_mark(self.path, self._disk)
            self._disk.sync_dir(self.path)
            self.repository.objects.discard()

    def _finish(self) -> bool:
        """Complete a decided change, and tell whether someone had edited its files."""
        mark = finish.read_mark(self.path)
        return mark is not None and finish.finish_change(
            self.repository, self._memory, mark, self._tell
        )

    def _note_touched(self, changes: Sequence[StoredChange]) -> None:
        """Commit edits made by hand to files that a transaction is about to change."""
        repository = self.repository
        state, known = repository.tree_of(repository.head()), list_absent(repository)

        def is_edited(change: StoredChange) -> bool:
            now = None if change.before is None else object_id("blob", change.before)
            was = journal_repository.file_id(repository.tree, state, change.rel_path)
            if was == now or not is_synced(change.rel_path):
                return False
            if len(change.before or b"") > MOST_RECORDED_BYTES:
                return False
            return not (one := known.get(change.rel_path)) or not one.stands_for(was, now)

        self._commit_edits((c.rel_path, c.before) for c in changes if is_edited(c))

    def _note_edits(self, *, loud: bool = False) -> None:
        """Scan all files, and commit edits made by hand."""
        begun_s = clock.stopwatch_s()
        repository = self.repository
        head = repository.head()
        edits = Edits(self._memory, repository, head)
        self._commit_edits(edits, "" if head else FOUND)
        edits.keep(repository.tree_of(repository.head()))
        forget_absent(repository, edits.arrived)
        note_too_large(repository, edits.too_large)
        note_scan_time(repository, clock.stopwatch_s() - begun_s)
        for path in edits.unreadable if loud else ():
            self._tell(
                f"{shorten_path(path)!r} cannot be read, or lies too deep; the journal keeps its"
                " last known state"
            )

    def _commit_edits(
        self, contents: Iterable[tuple[str, bytes | None]], message: str = ""
    ) -> None:
        draft = UnseenCommits(self.repository, self.repository.head())
        if draft.commit(
            journal_repository.HUMAN, message, contents, _commit_time(), trailers=self._signed()
        ):
            draft.save()
            self.repository.set_head(draft.head)
            self.repository.objects.keep()

    @contextmanager
    def _open(self) -> Iterator[None]:
        try:
            with journal_repository.translate_errors(self.path):
                yield
        finally:
            self.repository.close()


def _is_recorded(change: StoredChange) -> bool:
    is_small = len(change.after or b"") <= MOST_RECORDED_BYTES
    return is_small and all(map(is_recordable, change.rel_path.split("/")))


def _commit_time() -> datetime:
    return clock.now().astimezone()
