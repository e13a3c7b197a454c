"""Find what people changed since the last commit, and collect new commits before they are written.

A table keeps each file's size and timestamps as of its last comparison. A file with the same
signature is not read again, unless it changed so shortly before the comparison that a later edit
could have left the same timestamp.

A second table lists files whose journal version this machine cannot store, such as a reserved file
name from another system. Without it, sync would take them for local deletions or reverts and carry
those to every other machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Final

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.files import (
    close_one,
    read_plain,
    read_record,
    stamp_of,
    write_record,
    write_whole,
)
from familiar_cli.base.times import clock
from familiar_cli.store.journal.objects import GitObject, git_object, journal_damaged, object_id
from familiar_cli.store.journal.repository import (
    LENGTHS,
    Entry,
    Repository,
    changed_files,
    encode_commit,
    file_id,
    rewrite_tree,
    tree_files,
)
from familiar_cli.store.memory.layout import is_synced
from familiar_cli.store.memory.store import files
from familiar_cli.store.memory.store.walk import scan_files

ABSENT_FILE: Final = "familiar-absent"

CANNOT_BE_HERE: Final = "its name or size is not possible on this machine"
"""Reason for entries without one."""


def list_absent(repository: Repository) -> dict[str, files.AbsentVersion]:
    """Return the absent files by path.

    An entry is stale when its content is not what the journal has now.

    Raises:
        FamiliarError: The record is damaged: such files would be taken for deleted.
    """
    path = os.path.join(repository.path, ABSENT_FILE)
    return read_record(path, dict[str, files.AbsentVersion], _damaged_absent) or {}


def _damaged_absent() -> FamiliarError:
    error = journal_damaged(f"{ABSENT_FILE!r} cannot be read")
    error.hint = (
        f"Restore {ABSENT_FILE!r} in journal.git from a backup. If it is deleted, files from other "
        "machines that cannot be on this one are recorded as deleted by hand."
    )
    return error


def refused_files(repository: Repository) -> dict[str, str]:
    """Return, by path, why files from other machines are missing or outdated here."""
    known = list_absent(repository)
    tree = repository.tree_of(repository.head()) if known and repository.exists else None
    return {
        path: one.reason
        for path, one in sorted(known.items())
        if is_synced(path)
        and one.reason != files.NOT_MEMORY
        and file_id(repository.tree, tree, path) == one.id
    }


def note_absent(
    repository: Repository, new: Mapping[str, files.AbsentVersion], gone: Collection[str] = ()
) -> None:
    """Record absent files durably before their commit, dropping `gone`. May raise OSError."""
    before = list_absent(repository)
    after = {path: one for path, one in {**before, **new}.items() if path not in gone}
    if after != before:
        text = json.dumps(after, indent=1, sort_keys=True)
        repository.disk.put(os.path.join(repository.path, ABSENT_FILE), f"{text}\n".encode())


def forget_absent(repository: Repository, paths: Collection[str]) -> None:
    """Drop entries for files that are present now. May raise OSError."""
    if not list_absent(repository).keys().isdisjoint(paths):
        note_absent(repository, {}, paths)


_LARGE_FILE: Final = "familiar-too-large"


def too_large_files(repository: Repository) -> dict[str, int]:
    """Return the size of each file that the last scan found too large to record or sync."""
    return read_record(os.path.join(repository.path, _LARGE_FILE), dict[str, int]) or {}


def note_too_large(repository: Repository, result: Mapping[str, int]) -> None:
    """Record them, if possible."""
    if result != too_large_files(repository):
        write_record(os.path.join(repository.path, _LARGE_FILE), result)


SEEN_FILE = "familiar-seen.json"
LOOKED_FILE = "familiar-looked"
PAUSE = 20  # spend at most a twentieth of the time on full scans
_CLOCK_STEP_S = 2.0  # tolerated clock skew between file system and machine


class Edits:
    """A scan for changed files. Iterating yields path and content (None if deleted) of each.

    Args:
        tree: Directory to scan.
        repository: The journal, with its table of known signatures.
        head: Commit to compare with; None for an empty one.

    Attributes:
        unreadable: Files that could not be compared; they keep their last known state.
        too_large: Size of each file that is too large to record; they keep it, too.
        arrived: Files that were listed as absent and are now present.
    """

    def __init__(self, tree: files.Tree, repository: Repository, head: str | None) -> None:
        self._repository = repository
        self._root = tree.real
        self._is_inside = not tree.root.is_symlink()  # else it is a vault, with rules of its own
        self._scan = scan_files(tree, "", hidden=True) if tree.root.is_dir() else ([], [])
        self._table = os.path.join(repository.path, SEEN_FILE)
        state = repository.tree_of(head)
        self._known, self._same_table = self._load(state)
        self._now_ns = clock.wall_ns()
        self._absent = list_absent(repository)
        self.unreadable: list[str] = []
        self.too_large: dict[str, int] = {}
        self.arrived: list[str] = []

    def __iter__(self) -> Iterator[tuple[str, bytes | None]]:
        """Compare the files. Changes count as committed once `keep` is called."""
        there = set()
        for rel_path, path in self._scan[0]:
            if not all(map(is_recordable, rel_path.split("/"))):
                continue
            if rel_path.count("/") > files.MAX_LEVELS:
                self.unreadable.append(rel_path)
                continue
            there.add(rel_path)
            content = self._look_at(rel_path, path)
            if content is not None:
                yield rel_path, content
        self.arrived = [p for p, one in self._absent.items() if p in there and not one.here]
        hidden = self._out_of_sight()
        for rel_path in sorted(self._known.keys() - there):
            if self._stands_for(rel_path, self._known[rel_path][0], None):
                continue
            if not rel_path.startswith(hidden) and _can_be_seen(rel_path):
                del self._known[rel_path]
                self._same_table = False
                yield rel_path, None

    def keep(self, tree: str | None) -> None:
        """Save the signatures for the state `tree`. Losing them only costs another scan."""
        with suppress(OSError):
            if self._same_table:
                return
            text = json.dumps({"tree": tree, "files": self._known})
            write_whole(self._table, text, durable=False)

    def _look_at(self, rel_path: str, path: str) -> bytes | None:
        """Return the content of a file if it differs from the recorded one."""
        known = self._known.get(rel_path)
        try:
            status = os.lstat(path)
            if status.st_mode & 0o077 and self._is_inside:  # created by another program
                close_one(path)
                status = os.lstat(path)
            stamp = stamp_of(status, self._now_ns)
            seen = list(stamp[:3]) if stamp.settled else None
            if known and seen and known[1] == seen:
                return None
            if status.st_size > files.MOST_RECORDED_BYTES:
                self.too_large[rel_path] = status.st_size
                return None
            content = read_plain(path)
        except FileNotFoundError:
            return None
        except OSError:
            self.unreadable.append(rel_path)
            return None
        id_ = object_id("blob", content)
        self._same_table = False
        if self._stands_for(rel_path, known[0] if known else None, id_):
            if known:
                self._known[rel_path] = (known[0], seen)
            return None
        self._known[rel_path] = (id_, seen)
        return None if known and known[0] == id_ else content

    def _stands_for(self, rel_path: str, known: str | None, id_: str | None) -> bool:
        """Tell whether a file that differs from the journal is not an edit after all.

        Machine-local files are written only by the program, and the journal may hold another
        machine's version of them.
        """
        if known == id_:
            return False
        one = self._absent.get(rel_path)
        return (one is not None and one.stands_for(known, id_)) or not is_synced(rel_path)

    def _out_of_sight(self) -> tuple[str, ...]:
        """Return path prefixes under which files may exist although the scan missed them."""
        items = []
        for skipped in self._scan[1]:
            path = os.path.join(self._root, *skipped.rel_path.split("/"))
            if os.path.isdir(path) and not os.path.islink(path):
                items.append("" if skipped.rel_path == "." else skipped.rel_path)
                self.unreadable.append(skipped.rel_path)
        return tuple(items) or ("\0",)  # no path starts with it

    def _load(self, state: str | None) -> tuple[dict[str, tuple[str, list[int] | None]], bool]:
        """Return the id and signature of each file for the state `tree`."""
        read = self._repository.tree
        try:
            value = json.loads(read_plain(self._table))
            known = {path: (id_, seen) for path, (id_, seen) in value["files"].items()}
            changes = list(changed_files(read, value["tree"], state))
        except Exception:  # noqa: BLE001  # a table that is damaged in any way is made anew
            return {path: (id_, None) for path, id_ in tree_files(read, state)}, False
        for path, _, new in changes:
            known.pop(path, None)
            if new:
                known[path] = (new, None)
        return known, not changes


def is_recordable(name: str) -> bool:
    """Tell whether git accepts `name` as a path component without special meaning."""
    return (name.isascii() and name[0] not in ".gG") or not files.is_gits_own(name)


def _can_be_seen(rel_path: str) -> bool:
    """Tell whether the scan would have found the file if it existed."""
    return rel_path.isascii() or files.NAMES_ARE_UTF8


def is_scan_due(repository: Repository) -> bool:
    """Tell whether a full scan is due."""
    path = os.path.join(repository.path, LOOKED_FILE)
    try:
        took_s = float(read_plain(path))
        last_s = os.stat(path).st_mtime
    except (OSError, ValueError):
        return True
    past_s = clock.now().timestamp() - last_s
    return past_s < -_CLOCK_STEP_S or past_s >= PAUSE * took_s


def note_scan_time(repository: Repository, took_s: float) -> None:
    """Record the time and duration of a full scan."""
    path = os.path.join(repository.path, LOOKED_FILE)
    with suppress(OSError):
        write_whole(path, f"{took_s:.6f}\n", durable=False)


MOST_NAMED: Final = 50  # list at most this many files in a commit; beyond that, compare its trees
_MOST_HELD_BYTES = 32 * 1024 * 1024


class UnseenCommits:
    """Commits on top of `head`, invisible until `save` and `Repository.set_head`."""

    def __init__(self, repository: Repository, head: str | None) -> None:
        self._repository = repository
        self.head = head
        self.tree = repository.tree_of(head)
        self._objects: dict[str, GitObject] = {}
        self._new_trees: dict[str, bytes] = {}
        self._held_bytes = 0

    def commit(
        self,
        source: str,
        message: str,
        contents: Iterable[tuple[str, bytes | None]],
        at: datetime,
        *,
        trailers: Mapping[str, str] | None = None,
        old_bytes: Mapping[str, int] | None = None,
        joined: files.IncomingCommits | None = None,
    ) -> bool:
        """Add a commit that sets each file to its content (None deletes it).

        Args:
            source: Author of the change.
            message: One-line summary; empty for changes made by hand.
            contents: Path and content of each file.
            at: Commit time, in the timezone git should show.
            trailers: Further trailers.
            old_bytes: Previous file sizes, where known; others are looked up.
            joined: What was merged from other instances; commits even when no file differs.

        Returns:
            Whether a commit was made; False when nothing differs.
        """
        ids: dict[str, str | None] = {}
        new_bytes: dict[str, int] = {}
        for rel_path, content in contents:
            ids[rel_path] = None if content is None else self._add(git_object("blob", content)).id
            new_bytes[rel_path] = len(content or b"")
        elsewhere: dict[str, str | Entry | None] = {}
        if joined:
            elsewhere = {path: one.id for path, one in joined.absent.items()}
            elsewhere |= dict.fromkeys(joined.gone)
            for path, (id_, mode) in joined.modes.items():
                elsewhere[path] = Entry(is_dir=False, id=id_, mode=mode)
            for content in joined.blobs.values():
                self._add(git_object("blob", content))
        tree, new = rewrite_tree(self._read, self.tree, {**ids, **elsewhere})
        if joined is None and (not ids or tree == self.tree):
            return False
        for made in new:
            self._new_trees[self._add(made).id] = made.content
        rows = [
            *((trailers or {}).items()),
            *(self._of_files(ids, old_bytes or {}, new_bytes) if not elsewhere else ()),
            ("Bytes-After", str(sum(new_bytes.values()))),
        ]
        self.head = self._add(
            encode_commit(
                tree,
                self.head,
                source,
                message or edit_message(ids),
                at=at,
                trailers=rows,
                merged=joined.commits if joined else (),
            )
        ).id
        self.tree = tree
        return True

    def save(self) -> None:
        """Make all objects durable. May raise OSError."""
        self._repository.objects.write(self._objects.values())
        for id_, content in self._new_trees.items():
            self._repository.remember(id_, content)
        self._objects.clear()
        self._new_trees.clear()
        self._held_bytes = 0

    def _of_files(
        self,
        ids: Mapping[str, str | None],
        old_bytes: Mapping[str, int],
        new_bytes: Mapping[str, int],
    ) -> list[tuple[str, str]]:
        old = {path: file_id(self._read, self.tree, path) for path in ids}
        real = sorted(path for path, id_ in ids.items() if id_ != old[path])
        rows = [("Files", str(len(real)))]
        if len(real) > MOST_NAMED:
            return rows
        read = self._repository.objects.read
        was = {
            path: old_bytes[path] if path in old_bytes else len(read(id_))
            for path in real
            if (id_ := old[path])
        }
        for path in real:
            kind = "Deleted" if ids[path] is None else "Changed" if old[path] else "Added"
            rows.append((kind, path))
        pairs = (f"{was.get(p, '-')}>{'-' if ids[p] is None else new_bytes[p]}" for p in real)
        return [*rows, (LENGTHS, " ".join(pairs)), ("Bytes-Before", str(sum(was.values())))]

    def _read(self, tree: str) -> bytes:
        return self._new_trees[tree] if tree in self._new_trees else self._repository.tree(tree)

    def _add(self, one: GitObject) -> GitObject:
        if one.id not in self._objects:
            self._objects[one.id] = one
            self._held_bytes += len(one.content)
            if self._held_bytes > _MOST_HELD_BYTES:
                self.save()
        return one


def edit_message(paths: Collection[str]) -> str:
    """Return the commit message for changes made by hand."""
    if len(paths) == 1:
        return f"edited by hand: {next(iter(paths))}"
    return f"edited by hand: {len(paths):,} files"
