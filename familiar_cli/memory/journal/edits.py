"""Find what people changed since the last commit, looking closely only at what may have changed.

The size and times of each file, as they were when its content was last compared, are kept in a
table. A file that has the same is not read again, unless it had been changed so shortly before the
comparison that a second edit could have left the same time.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from familiar_cli import clock
from familiar_cli.files import close_one, read_plain, stamp_of, write_whole
from familiar_cli.memory.journal import absent, trees
from familiar_cli.memory.journal.objects import object_id
from familiar_cli.memory.layout import is_synced
from familiar_cli.memory.store import paths
from familiar_cli.memory.store.files import MAX_READ_BYTES
from familiar_cli.memory.store.walk import scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.memory.journal.repository import Repository
    from familiar_cli.memory.store.files import Tree

TABLE = "familiar-seen.json"
LOOKED = "familiar-looked"
PAUSE = 20  # at most a twentieth of the time goes into looking at all files
_CLOCK_STEP_S = 2.0  # how far a file system's time may be ahead of the machine's


class Edits:
    """One look at all files. Iterating gives path and content (None: gone) of each that differs.

    Args:
        tree: Where to look.
        repository: What is known already.
        head: The commit to compare with; None for an empty one.

    Attributes:
        unreadable: What could not be compared, or is too large to be, and keeps its last known
            state.
        arrived: Files that were listed as absent, and are not.
    """

    def __init__(self, tree: Tree, repository: Repository, head: str | None) -> None:
        self._repository = repository
        self._root = tree.real
        self._is_inside = not tree.root.is_symlink()  # else it is a vault, with rules of its own
        self._scan = scan(tree, "", hidden=True) if tree.root.is_dir() else ([], [])
        self._table = os.path.join(repository.path, TABLE)
        state = repository.tree_of(head)
        self._known, self._same_table = self._load(state)
        self._now_ns = clock.wall_ns()
        self._absent = absent.listed(repository)
        self.unreadable: list[str] = []
        self.arrived: list[str] = []

    def __iter__(self) -> Iterator[tuple[str, bytes | None]]:
        """Compare. What comes out is taken as committed when `keep` is called afterwards."""
        there = set()
        for rel_path, path in self._scan[0]:
            if not all(map(recordable, rel_path.split("/"))):
                continue
            if rel_path.count("/") > paths.MAX_LEVELS:
                self.unreadable.append(rel_path)
                continue
            there.add(rel_path)
            content = self._look_at(rel_path, path)
            if content is not None:
                yield rel_path, content
        self.arrived = [p for p, one in self._absent.items() if p in there and not one.here]
        hidden = self._out_of_sight()
        for rel_path in sorted(self._known.keys() - there):
            is_there = any(map(paths.is_private, rel_path.split("/")))  # kept by an older version
            if self._stands_for(rel_path, self._known[rel_path][0], None):
                continue
            if not is_there and not rel_path.startswith(hidden) and _can_be_seen(rel_path):
                del self._known[rel_path]
                self._same_table = False
                yield rel_path, None

    def keep(self, tree: str | None) -> None:
        """Write down what was seen, for the state `tree`. Losing it costs only another look."""
        with suppress(OSError):
            if self._same_table:
                return
            text = json.dumps({"tree": tree, "files": self._known})
            write_whole(self._table, text, durable=False)

    def _look_at(self, rel_path: str, path: str) -> bytes | None:
        """Return the content of a file if it differs from the known one."""
        known = self._known.get(rel_path)
        try:
            status = os.lstat(path)
            if status.st_mode & 0o077 and self._is_inside:  # another program made it
                close_one(path)
                status = os.lstat(path)
            stamp = stamp_of(status, self._now_ns)
            seen = list(stamp[:3]) if stamp.settled else None
            if known and seen and known[1] == seen:
                return None
            if status.st_size > MAX_READ_BYTES:
                self.unreadable.append(rel_path)
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
        """Tell whether a file that differs from the journal is nevertheless not an edit.

        What stays on each machine is written by the program alone, and the journal may have
        another machine's version of it.
        """
        if known == id_:
            return False
        one = self._absent.get(rel_path)
        return (one is not None and one.stands_for(known, id_)) or not is_synced(rel_path)

    def _out_of_sight(self) -> tuple[str, ...]:
        """Return prefixes of paths whose files may be there although they were not seen."""
        found = []
        for skipped in self._scan[1]:
            path = os.path.join(self._root, *skipped.rel_path.split("/"))
            if os.path.isdir(path) and not os.path.islink(path):
                found.append("" if skipped.rel_path == "." else skipped.rel_path)
                self.unreadable.append(skipped.rel_path)
        return tuple(found) or ("\0",)  # no path begins so

    def _load(self, state: str | None) -> tuple[dict[str, tuple[str, list[int] | None]], bool]:
        """Return what is known of each file in the tree `state`: its id, and its signature."""
        read = self._repository.tree
        try:
            found = json.loads(read_plain(self._table))
            known = {path: (id_, seen) for path, (id_, seen) in found["files"].items()}
            changes = list(trees.changed(read, found["tree"], state))
        except Exception:  # noqa: BLE001  # a table that is damaged in any way is made anew
            return {path: (id_, None) for path, id_ in trees.files(read, state)}, False
        for path, _, new in changes:
            known.pop(path, None)
            if new:
                known[path] = (new, None)
        return known, not changes


def recordable(name: str) -> bool:
    """Tell whether git takes `name` as part of a path, and not as something of its own."""
    return (name.isascii() and name[0] not in ".gG") or not paths.is_gits_own(name)


def _can_be_seen(rel_path: str) -> bool:
    """Tell whether the file would have been found if it were there."""
    return rel_path.isascii() or paths.NAMES_ARE_UTF8


def due(repository: Repository) -> bool:
    """Tell whether it is time for a look at all files."""
    path = os.path.join(repository.path, LOOKED)
    try:
        took_s = float(read_plain(path))
        last_s = os.stat(path).st_mtime
    except (OSError, ValueError):
        return True
    past_s = clock.now().timestamp() - last_s
    return past_s < -_CLOCK_STEP_S or past_s >= PAUSE * took_s


def note_time(repository: Repository, took_s: float) -> None:
    """Remember that all files were looked at just now, and how long it took."""
    path = os.path.join(repository.path, LOOKED)
    with suppress(OSError):
        write_whole(path, f"{took_s:.6f}\n", durable=False)
