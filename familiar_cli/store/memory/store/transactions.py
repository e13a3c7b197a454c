"""Stage any number of changes, and apply all of them or none.

A transaction collects steps; they are applied to a staged tree, which refuses forbidden ones; the
resulting plan is carried out on disk.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, Literal, TypeVar

from msgspec import Struct

from familiar_cli.base import errors
from familiar_cli.base.files import (
    TOO_LONG,
    Disk,
    is_disk_full,
    is_misspelled,
    mode_of,
    read_plain,
    remove_leftovers,
    temp_in,
    why,
)
from familiar_cli.base.text import fold, fold_all, sha256_of, typed
from familiar_cli.store.memory.layout import INDEX_DIR, PEOPLE_DIR, standard_name_blocked_by
from familiar_cli.store.memory.store import files

_T = TypeVar("_T")


def retry_on_conflict(work: Callable[[], _T], tries: int) -> _T:
    """Call `work`, which reads and commits, and retry if another writer interferes.

    Raises:
        ConflictError: Another writer interfered each time.
    """
    for _ in range(tries - 1):
        with suppress(errors.ConflictError):
            return work()
    return work()


class StagedStep(Struct, frozen=True):
    """A staged change, not validated yet.

    Args:
        kind: Kind of change.
        content: The bytes to write or append.
        to: Target of a move.
        expect: SHA-256 the file must have, `MISSING`, or None for no check.
        any_size: Skip the size limit.
        on_new_line: Start appended text on a new line.
    """

    kind: Literal["write", "append", "delete", "move"]
    rel_path: str
    content: bytes = b""
    to: str = ""
    expect: str | None = None
    any_size: bool = False
    on_new_line: bool = False


class Transaction:
    """Changes to be applied together, in the order they were staged."""

    def __init__(
        self,
        source: str,
        message: str,
        trailers: Mapping[str, str] | None = None,
        joined: files.IncomingCommits | None = None,
    ) -> None:
        self.joined: Final = joined
        self.source: Final = source
        self.message: Final = message
        self.trailers: Final = dict(trailers or {})
        self.steps: Final[list[StagedStep]] = []
        self._result: files.WriteResult | None = None

    def write(
        self,
        rel_path: str,
        content: str | bytes,
        *,
        expect: str | None = None,
        any_size: bool = False,
    ) -> None:
        """Replace a file's content, creating it if needed.

        Args:
            rel_path: The file; parent directories are created.
            content: Text is encoded as UTF-8 without newline translation.
            expect: Expected SHA-256 in hex, or `MISSING`; a mismatch is a conflict.
            any_size: Skip `limits.max_file_bytes`, for originals kept as they are
                (`self/.original.png`).
        """
        clean = files.parse_new_path(rel_path)
        self.steps.append(
            StagedStep("write", clean, _bytes_of(clean, content), expect=expect, any_size=any_size)
        )

    def append(self, rel_path: str, content: str | bytes, *, on_new_line: bool = False) -> None:
        """Append `content` to a file, creating it if needed.

        Args:
            content: As for `write`.
            on_new_line: Insert a newline if the old text does not end in one, and end with one.
        """
        clean = files.parse_new_path(rel_path)
        added = _bytes_of(clean, content)
        if on_new_line and added and not added.endswith(b"\n"):
            added += b"\n"
        self.steps.append(StagedStep("append", clean, added, on_new_line=on_new_line))

    def delete(self, rel_path: str, *, expect: str | None = None) -> None:
        """Delete a file and any directories this leaves empty."""
        self.steps.append(StagedStep("delete", files.parse_old_path(rel_path), expect=expect))

    def move(self, old: str, new: str, *, expect: str | None = None) -> None:
        """Move a file to a path that does not exist yet."""
        old, new = files.parse_old_path(old), files.parse_new_path(new)
        self.steps.append(StagedStep("move", old, to=new, expect=expect))

    @property
    def result(self) -> files.WriteResult:
        """The result of the transaction.

        Raises:
            FamiliarError: The transaction did not complete.
        """
        if self._result is None:
            raise errors.FamiliarError("The transaction was not applied, so it has no result")
        return self._result

    def finish(self, result: files.WriteResult) -> None:
        """Set the result. Only the store calls this."""
        self._result = result


def check_is_text(rel_path: str, content: str) -> None:
    """Reject typed or piped text with which a file would count as binary, and not be searched.

    Raises:
        BadInputError: It holds a NUL byte.
    """
    if "\0" in content:
        raise errors.BadInputError(
            f"The text for {rel_path!r} contains a NUL byte at character "
            f"{content.index(chr(0)):,}; nothing was changed",
            hint="Give plain text in UTF-8; UTF-16 and binary files contain such bytes.",
        )


def _hint_for(path: str, other: str) -> str:
    if not standard_name_blocked_by(other):
        return f"Use {other!r}, or another name."
    return (
        f"Memory needs {path!r}: move what is called {other!r} away with `familiar memory mv`; "
        "`familiar doctor` prints the command."
    )


def _bytes_of(rel_path: str, content: str | bytes) -> bytes:
    if isinstance(content, bytes):
        return content
    try:
        return content.encode("utf-8")
    except UnicodeEncodeError as error:
        raise errors.BadInputError(
            f"The text for {rel_path!r} has half a character at {error.start}; nothing was changed",
            hint="The text was cut or decoded wrongly; a lone surrogate cannot be stored.",
        ) from error


GITIGNORE = ".gitignore"
_IGNORES_INDEX = {f"{a}{INDEX_DIR}{b}".encode() for a in ("", "/") for b in ("", "/")}


class _Names:
    """Names in one directory, on disk and staged."""

    def __init__(self, names: Iterable[str]) -> None:
        self.all = set(names)
        self._folded: Counter[str] | None = None

    def twin(self, name: str) -> str | None:
        """Return an existing name that some file system would treat as the same, or None."""
        if name in self.all:
            return None
        if self._folded is None:
            self._folded = Counter(fold_all(self.all))
        folded = fold(name)
        if not self._folded[folded]:
            return None
        return min(known for known in self.all if fold(known) == folded)

    def add(self, name: str) -> None:
        """Add `name`."""
        if name not in self.all and self._folded is not None:
            self._folded[fold(name)] += 1
        self.all.add(name)

    def remove(self, name: str) -> None:
        """Remove `name`."""
        if name in self.all and self._folded is not None:
            self._folded[fold(name)] -= 1
        self.all.discard(name)


class StagedTree:
    """The memory with the steps so far applied."""

    def __init__(self, tree: files.Tree, limits: files.Limits) -> None:
        self._tree = tree
        self._root = tree.real
        self._limits = limits
        self._before: dict[str, bytes | None] = {}
        self._now: dict[str, bytes | None] = {}
        self._names: dict[str, _Names] = {}
        self._new_dirs: set[str] = set()
        self.leftovers: list[str] = []
        self.seen: dict[str, files.Signature | None] = {}

    def apply_step(self, step: StagedStep) -> None:
        """Apply a step, or raise if it is not allowed."""
        old = self._load(step.rel_path)
        _check_expected(step, old)
        match step.kind:
            case "write":
                self._put(step.rel_path, step.content, any_size=step.any_size)
            case "append":
                self._put(step.rel_path, _appended(old or b"", step), any_size=step.any_size)
            case "delete":
                self._take(step.rel_path)
            case "move":
                self._move(step)

    def changes(self) -> list[files.StoredChange]:
        """Return every touched file, sorted by path, including unchanged ones."""
        return [files.StoredChange(p, self._before[p], self._now[p]) for p in sorted(self._now)]

    def ignore_index(self) -> None:
        """Make `.gitignore` list the index directory, keeping a person's own lines."""
        with suppress(
            errors.FamiliarError
        ):  # a link, a directory or a full root is left to its owner
            old = self._load(GITIGNORE) or b""
            if not any(line.strip() in _IGNORES_INDEX for line in old.splitlines()):
                gap = b"" if not old or old.endswith(b"\n") else b"\n"
                self._put(GITIGNORE, old + gap + INDEX_DIR.encode() + b"/\n", any_size=True)

    def _move(self, step: StagedStep) -> None:
        content = self._take(step.rel_path)
        if self._load(step.to) is not None:
            raise errors.RefusedError(
                f"{step.to!r} already exists; nothing was changed",
                hint=f"Remove it first: `familiar memory rm {typed(step.to)}`, or use a new path.",
            )
        self._put(step.to, content, any_size=True)

    def _take(self, rel_path: str) -> bytes:
        content = self._load(rel_path)
        if content is None:
            raise self._tree.not_found(rel_path)
        directory, _, name = rel_path.rpartition("/")
        self._names_in(directory).remove(name)
        self._now[rel_path] = None
        return content

    def _put(self, rel_path: str, content: bytes, *, any_size: bool) -> None:
        most = self._limits.max_file_bytes
        if len(content) > most and not any_size:
            raise errors.FileTooLargeError(
                f"{rel_path!r} would be {len(content):,} bytes, over the limit of {most:,};"
                " it was not changed",
                hint="Shorten or split it, or raise `max_file_bytes` in [memory].",
            )
        if self._load(rel_path) is None:
            self._make_room(rel_path)
        self._now[rel_path] = content

    def _make_room(self, rel_path: str) -> None:
        """Add the names of a new file and of its directories to those in use."""
        at = ""
        parts = rel_path.split("/")
        for depth, part in enumerate(parts, 1):
            names = self._names_in(at)
            path = "/".join(parts[:depth])
            if part not in names.all:
                names.add(part)
                self._check_count(at, names)
                if depth < len(parts):
                    self._check_was_no_file(path)
                    self._new_dirs.add(path)
            at = path

    def _check_was_no_file(self, rel_path: str) -> None:
        if self._before.get(rel_path) is not None:
            raise errors.RefusedError(
                f"{rel_path!r} cannot change from a file to a directory in one step; nothing was "
                "changed",
                hint="Delete the file first, then write below that path.",
            )

    def _check_count(self, directory: str, names: _Names) -> None:
        most = self._limits.max_dir_files
        if directory != PEOPLE_DIR and len(names.all) > most:  # every speaker has a file
            raise errors.DirectoryFullError(
                f"{directory or '.'!r} holds {most:,} files, the maximum; nothing was changed",
                hint="Write into another directory, or raise `max_dir_files` in [memory].",
            )

    def _load(self, rel_path: str) -> bytes | None:
        """Return a file's current content, or None; refuse anything but a regular file."""
        if rel_path not in self._now:
            self._check_spelling(rel_path)
            self._before[rel_path] = self._now[rel_path] = self._on_disk(rel_path)
        elif self._now[rel_path] is None:
            self._check_spelling(rel_path)
        return self._now[rel_path]

    def _check_spelling(self, rel_path: str) -> None:
        """Refuse a path that a file system may confuse with another, or that crosses a file."""
        at = ""
        parts = rel_path.split("/")
        for depth, part in enumerate(parts, 1):
            names = self._names_in(at)
            path = "/".join(parts[:depth])
            other = names.twin(part)
            if other is not None:
                raise errors.UnsafePathError(
                    f"{path!r} and the existing {other!r} are the same file on some systems; "
                    "nothing was changed",
                    hint=_hint_for(path, other),
                )
            if part in names.all and self._is_dir(path) != (depth < len(parts)):
                what = "a directory" if depth == len(parts) else "a file"
                raise errors.RefusedError(
                    f"{path!r} is {what}; nothing was changed", hint="Choose another path."
                )
            at = path

    def _is_dir(self, rel_path: str) -> bool:
        if self._now.get(rel_path) is not None:
            return False
        return rel_path in self._new_dirs or os.path.isdir(self._real(rel_path))

    def _names_in(self, directory: str) -> _Names:
        if directory not in self._names:
            real = self._real(directory)
            names = _list_names(real, directory)
            dotted = [name for name in names if name.startswith(".")]
            self.leftovers += [os.path.join(real, n) for n in dotted if files.is_leftover(n)]
            private = {name for name in dotted if files.is_private(name)}
            self._names[directory] = _Names(set(names) - private)
        return self._names[directory]

    def _on_disk(self, rel_path: str) -> bytes | None:
        real = self._real(rel_path)
        self.seen[rel_path] = files.file_signature(real)
        try:
            status = os.lstat(real)
            if is_misspelled(real):
                return None
            if stat.S_ISREG(status.st_mode):
                files.check_readable(rel_path, status)
                return read_plain(real)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise errors.FamiliarError(
                f"{rel_path!r} cannot be read: {error.strerror}; nothing was changed",
                hint="Check its permissions.",
            ) from error
        raise errors.RefusedError(
            f"{rel_path!r} is not a regular file; nothing was changed", hint="Choose another path."
        )

    def _real(self, rel_path: str) -> str:
        """Return the real path of `rel_path`; writing through links is refused."""
        real = files.locate_path(self._root, rel_path)
        plain = os.path.join(self._root, *rel_path.split("/")).rstrip(os.sep)
        if real != plain:
            if files.is_path_misspelled(self._root, rel_path):  # Windows returns the existing twin
                return plain
            target = os.path.relpath(real, self._root).replace(os.sep, "/")
            raise errors.RefusedError(
                f"{rel_path!r} is a link to {target!r}; nothing was changed",
                hint=f"Change {target!r} instead.",
            )
        return real


def _list_names(real: str, directory: str) -> list[str]:
    try:
        return os.listdir(real)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise errors.FamiliarError(
            f"The directory {directory or '.'!r} cannot be read: {error.strerror};"
            " nothing was changed",
            hint="Check its permissions.",
        ) from error


def _appended(old: bytes, step: StagedStep) -> bytes:
    apart = step.on_new_line and old and not old.endswith(b"\n")
    return old + (b"\n" if apart else b"") + step.content


def _check_expected(step: StagedStep, content: bytes | None) -> None:
    if step.expect is None:
        return
    if step.expect == files.MISSING:
        if content is not None:
            raise errors.ConflictError(
                f"{step.rel_path!r} already exists; it was not changed",
                hint=f"Show it: `familiar memory cat {typed(step.rel_path)}`.",
            )
    elif content is None:
        raise errors.ConflictError(
            f"{step.rel_path!r} was deleted after it was read; nothing was changed",
            hint="Run `familiar memory list`.",
        )
    elif sha256_of(content) != step.expect.lower():
        raise errors.ConflictError(
            f"{step.rel_path!r} has changed since it was read; it was not overwritten",
            hint=f"Read it again: `familiar memory cat {typed(step.rel_path)}`.",
        )


class WritePlan(Struct, frozen=True):
    """The changed files of a transaction, sorted by path, and their summary.

    Args:
        changes: Files whose content really changes.
        result: Summary for the caller.
        seen: Signature of each file when read; None if it did not exist.
        leftovers: Temporary files (real paths) of a crash at the paths this transaction writes.
    """

    changes: tuple[files.StoredChange, ...]
    result: files.WriteResult
    seen: Mapping[str, files.Signature | None]
    leftovers: tuple[str, ...]


def refused_steps(
    tree: files.Tree, limits: files.Limits, steps: Iterable[StagedStep], *, is_settled: bool = False
) -> dict[str, errors.RefusedError]:
    """Return, by path, why steps are refused, applying all others.

    Args:
        tree: The memory.
        steps: Steps to check.
        is_settled: Also refuse, instead of raising, steps whose expectation fails.

    Raises:
        ConflictError: A file does not match its expectation and may still change.
    """
    staged = StagedTree(tree, limits)
    found: dict[str, errors.RefusedError] = {}
    for step in steps:
        try:
            staged.apply_step(step)
        except errors.RefusedError as error:
            if isinstance(error, errors.ConflictError) and not is_settled:
                raise
            found[step.rel_path] = error
    return found


def make_plan(tree: files.Tree, limits: files.Limits, steps: Iterable[StagedStep]) -> WritePlan:
    """Apply `steps` to a staged tree and return the plan.

    Raises:
        RefusedError: A path, a limit, an expectation or a rule forbids one of them.
        NotFoundError: A file to delete or move does not exist.
        FamiliarError: A file to be changed cannot be read.
    """
    staged = StagedTree(tree, limits)
    for step in steps:
        staged.apply_step(step)
    touched = staged.changes()
    result = files.WriteResult(
        tuple(c.rel_path for c in touched if c.after is not None and c.after != c.before),
        tuple(c.rel_path for c in touched if c.after is not None and c.after == c.before),
        tuple(c.rel_path for c in touched if c.before is not None and c.after is None),
    )
    if result.written or result.deleted:
        staged.ignore_index()
    changes = tuple(change for change in staged.changes() if change.before != change.after)
    return WritePlan(changes, result, staged.seen, tuple(staged.leftovers))


_MANY: Final = 16  # number of files from which one common flush is faster
_OWN: Final = 0o600  # permissions that this requires


class _Move(Struct):
    """A change being applied.

    Args:
        path: Its real path.
        seen: Signature when the plan was made; None if it did not exist.
        new: Temporary file with the new content; None for a deletion.
        old: Second link to the old content, if it may have to be restored.
        begun: Whether this program may have changed it already.
    """

    rel_path: str
    path: str
    seen: files.Signature | None
    new: str | None = None
    old: str | None = None
    begun: bool = False


def apply_plan(root: str, plan: WritePlan, disk: Disk | None = None) -> None:
    """Apply `plan` below the real path `root`. The caller holds the lock.

    Everything that can run out of space happens first, in temporary files; the rest is renames and
    deletions, which are rolled back if one fails.

    Raises:
        ConflictError: A file no longer matches the plan; nothing was changed.
        FamiliarError: A system call failed; nothing was changed.
    """
    if not plan.changes:
        return
    work = _Work(root, disk or Disk())
    try:
        remove_leftovers(plan.leftovers)
        work.lay_out(plan)
        work.carry_out()
    except OSError as error:
        kept = work.take_back()
        raise _apply_error(error, work.at, kept) from error
    except BaseException:
        work.take_back()
        raise
    work.tidy()


class _Work:
    def __init__(self, root: str, disk: Disk) -> None:
        self._root = root
        self._disk = disk
        self._moves: list[_Move] = []
        self._made_dirs: list[str] = []
        self.at = ""

    def lay_out(self, plan: WritePlan) -> None:
        """Write new contents to temporary files, and keep a second link to old ones."""
        unsettled = []
        for change in plan.changes:
            self.at = change.rel_path
            path = os.path.join(self._root, *change.rel_path.split("/"))
            move = _Move(change.rel_path, path, plan.seen[change.rel_path])
            self._moves.append(move)
            if change.after is not None:
                self._make_dirs(os.path.dirname(move.path))
                move.new = temp_in(os.path.dirname(move.path), ".new")
                mode = mode_of(move.path)
                later = len(plan.changes) >= _MANY and (mode is None or mode & _OWN == _OWN)
                self._disk.create(move.new, change.after, mode=mode, durable=not later)
                unsettled += [move.new] if later else []
            if change.before is not None and len(plan.changes) > 1:
                move.old = temp_in(os.path.dirname(move.path), ".old")
                self._keep(move.path, move.old, change.before)
        self._disk.settle(unsettled)

    def carry_out(self) -> None:
        """Delete, then rename; this order allows renames that only change case."""
        self._moves.sort(key=lambda move: move.new is not None)
        for move in self._moves:
            self.at = move.rel_path
            if files.file_signature(move.path) != move.seen:
                raise errors.ConflictError(
                    f"{move.rel_path!r} was just changed by another program; nothing was changed",
                    hint="Try again.",
                )
            move.begun = True
            if move.new is None:
                self._disk.unlink(move.path)
            else:
                self._disk.replace(move.new, move.path)

    def take_back(self) -> list[str]:
        """Roll back; return the real paths of old contents that could not be restored."""
        kept = []
        for move in reversed(self._moves):
            if not move.begun or files.file_signature(move.path) == move.seen:
                continue
            try:
                if move.old:
                    self._disk.replace(move.old, move.path)
                elif move.seen is None and move.new and not os.path.lexists(move.new):
                    self._disk.unlink(move.path)
            except OSError:
                kept.append(move.old or move.path)
        remove_leftovers(p for m in self._moves for p in (m.new, m.old) if p and p not in kept)
        for directory in reversed(self._made_dirs):
            with suppress(OSError):
                os.rmdir(directory)
        return kept

    def tidy(self) -> None:
        """Flush directories; remove kept old files and empty directories."""
        for directory in {os.path.dirname(move.path) for move in self._moves}:
            self._disk.sync_dir(directory)
        remove_leftovers(move.old for move in self._moves if move.old)
        for move in self._moves:
            directory = os.path.dirname(move.path)
            while move.new is None and directory != self._root:
                try:
                    os.rmdir(directory)
                except OSError:
                    break
                directory = os.path.dirname(directory)

    def _keep(self, path: str, second: str, content: bytes) -> None:
        try:
            self._disk.link(path, second)
        except OSError:  # file systems without hard links
            self._disk.create(second, content, mode=mode_of(path))

    def _make_dirs(self, directory: str) -> None:
        missing = []
        while not os.path.isdir(directory):
            missing.append(directory)
            directory = os.path.dirname(directory)
        for path in reversed(missing):
            self._disk.mkdir(path)
            self._made_dirs.append(path)
            self._disk.sync_dir(os.path.dirname(path))


def _apply_error(error: OSError, rel_path: str, kept: list[str]) -> errors.FamiliarError:
    reason = why(error)
    what = f"{rel_path!r} could not be changed: {reason}"
    if kept:
        return errors.FamiliarError(
            f"{what}; and some earlier changes could not be rolled back",
            hint=f"The old contents are in: {', '.join(kept)}",
        )
    hint = "Run `familiar doctor`."
    if is_disk_full(error):
        hint = "Free some space and try again."
    elif reason.endswith(TOO_LONG):
        hint = "Enable long paths in Windows, use a shorter name, or a home nearer the root."
    return errors.FamiliarError(f"{what}; no file was changed", hint=hint)
