"""Make checked changes on disk: all of them, or none."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import ConflictError, FamiliarError
from familiar_cli.files import TOO_LONG, Disk, is_disk_full, mode_of, temp_in, why
from familiar_cli.memory.store.files import Signature, signature

if TYPE_CHECKING:
    from collections.abc import Iterable

    from familiar_cli.memory.store.staged_tree import WritePlan

_MANY: Final = 16  # files that are better made durable together
_OWN: Final = 0o600  # permissions that this takes


@dataclass(slots=True)
class _Move:
    """One change on its way.

    Args:
        rel_path: Of which file.
        path: Its real path.
        seen: Its signature when the plan was made; None where no file was.
        new: A temporary file with the new content; None for a deletion.
        old: A second name of the old content, if it may have to come back.
        begun: Whether this program may have changed it already.
    """

    rel_path: str
    path: str
    seen: Signature | None
    new: str | None = None
    old: str | None = None
    begun: bool = False


def apply(root: str, plan: WritePlan, disk: Disk | None = None) -> None:
    """Make the changes of `plan` below the real path `root`. The caller holds the lock.

    What may fail for want of room happens first, beside the files; after that there are only
    renames and deletions, which are taken back when one of them fails.

    Raises:
        ConflictError: A file is not what the plan was made for; no file was changed.
        FamiliarError: The system refused; no file was changed.
    """
    if not plan.changes:
        return
    work = _Work(root, disk or Disk())
    try:
        _clear(plan.leftovers)
        work.lay_out(plan)
        work.carry_out()
    except OSError as error:
        kept = work.take_back()
        raise _failed(error, work.at, kept) from error
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
        """Write all that is new to temporary files, and keep a second name for all that is old."""
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
        """Delete, then rename; in this order a name may change only in case."""
        self._moves.sort(key=lambda move: move.new is not None)
        for move in self._moves:
            self.at = move.rel_path
            if signature(move.path) != move.seen:
                raise ConflictError(
                    f"{move.rel_path!r} was just changed by another program; nothing was changed",
                    hint="Try again.",
                )
            move.begun = True
            if move.new is None:
                self._disk.unlink(move.path)
            else:
                self._disk.replace(move.new, move.path)

    def take_back(self) -> list[str]:
        """Undo what was done; return the real paths of old contents that could not be put back."""
        kept = []
        for move in reversed(self._moves):
            if not move.begun or signature(move.path) == move.seen:
                continue
            try:
                if move.old:
                    self._disk.replace(move.old, move.path)
                elif move.seen is None and move.new and not os.path.lexists(move.new):
                    self._disk.unlink(move.path)
            except OSError:
                kept.append(move.old or move.path)
        _clear(p for m in self._moves for p in (m.new, m.old) if p and p not in kept)
        for directory in reversed(self._made_dirs):
            with suppress(OSError):
                os.rmdir(directory)
        return kept

    def tidy(self) -> None:
        """Make the names durable; drop the kept old files and directories that became empty."""
        for directory in {os.path.dirname(move.path) for move in self._moves}:
            self._disk.sync_dir(directory)
        _clear(move.old for move in self._moves if move.old)
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
        except OSError:  # a file system without hard links
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


def _clear(temporary: Iterable[str]) -> None:
    for path in temporary:
        with suppress(OSError):
            os.unlink(path)


def _failed(error: OSError, rel_path: str, kept: list[str]) -> FamiliarError:
    reason = why(error)
    what = f"{rel_path!r} could not be changed: {reason}"
    if kept:
        return FamiliarError(
            f"{what}; and some earlier changes could not be rolled back",
            hint=f"The old contents are in: {', '.join(kept)}",
        )
    hint = "Run `familiar doctor`."
    if is_disk_full(error):
        hint = "Free some space and try again."
    elif reason.endswith(TOO_LONG):
        hint = "Enable long paths in Windows, use a shorter name, or a home nearer the root."
    return FamiliarError(f"{what}; no file was changed", hint=hint)
