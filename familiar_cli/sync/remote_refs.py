"""What a remote named last, as refs of the journal, `refs/remotes/<remote>/memory/<instance>`.

They keep git from clearing away what others sent, and tell when a remote moved back.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.files import read_plain, remove, write_own
from familiar_cli.memory.journal.objects import is_id
from familiar_cli.sync.transport import MEMORY_REFS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from familiar_cli.memory.journal.repository import Repository

_HEADS: Final = "refs/heads/"
_ASIDE: Final = "familiar-aside"


@dataclass(frozen=True, slots=True)
class RefAside:
    """A ref of a remote of which nothing is taken.

    Args:
        ref: Its whole name.
        id: The commit that it names.
        reason: Why nothing is taken of it.
        is_final: It stays so until the ref names another commit.
    """

    ref: str
    id: str
    reason: str
    is_final: bool = True

    @property
    def name(self) -> str:
        """The ref as people are shown it."""
        return self.ref.removeprefix(_HEADS)

    @property
    def instance(self) -> str:
        """The instance whose branch it is."""
        return self.ref.rpartition("/")[2]


class SeenRefs:
    """The refs of one remote as they were seen last.

    Args:
        repository: The journal.
        remote: The remote's name.
    """

    def __init__(self, repository: Repository, remote: str) -> None:
        self._repository = repository
        self._top = os.path.join(repository.path, "refs", "remotes", remote)

    def all(self) -> dict[str, str]:
        """Return them, named as they are at the remote."""
        found = {}
        for directory, _, names in os.walk(self._top):
            for name in names:
                path = os.path.join(directory, name)
                ref = _HEADS + os.path.relpath(path, self._top).replace(os.sep, "/")
                with suppress(OSError):
                    id_ = read_plain(path).decode("ascii", errors="replace").strip()
                    if is_id(id_):
                        found[ref] = id_
        return found

    def note(self, refs: Mapping[str, str]) -> None:
        """Remember what refs name now. May raise OSError."""
        before = self.all()
        for ref, id_ in refs.items():
            if before.get(ref) != id_ and ref.startswith(_HEADS):
                path = os.path.join(self._top, *ref.removeprefix(_HEADS).split("/"))
                os.makedirs(os.path.dirname(path), exist_ok=True)
                self._repository.disk.put(path, f"{id_}\n".encode())

    def aside(self) -> dict[str, RefAside]:
        """Return the refs of which nothing is taken, by name."""
        try:
            rows = json.loads(read_plain(self._aside_path))
            return {row["ref"]: RefAside(**row) for row in rows}
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return {}

    def note_aside(self, refs: Mapping[str, RefAside]) -> None:
        """Remember the refs of which nothing is taken, as far as that is possible."""
        rows = [
            {"ref": one.ref, "id": one.id, "reason": one.reason, "is_final": one.is_final}
            for _, one in sorted(refs.items())
        ]
        if refs != self.aside():
            with suppress(OSError):
                write_own(self._aside_path, json.dumps(rows).encode(), durable=False)

    def forget(self) -> None:
        """Remove all of them: the remote is no longer one of ours."""
        import shutil

        shutil.rmtree(self._top, ignore_errors=True)
        with suppress(OSError):
            remove(self._aside_path)

    @property
    def _aside_path(self) -> str:
        return os.path.join(self._repository.path, _ASIDE, f"{os.path.basename(self._top)}.json")


def newest_seen(repository: Repository) -> dict[str, set[str]]:
    """Return the newest commits of each instance whose memory was fetched from any remote."""
    top = os.path.join(repository.path, "refs", "remotes")
    found: dict[str, set[str]] = {}
    for remote in os.listdir(top) if os.path.isdir(top) else ():
        for ref, id_ in SeenRefs(repository, remote).all().items():
            if ref.startswith(MEMORY_REFS):
                found.setdefault(ref.removeprefix(MEMORY_REFS), set()).add(id_)
    return found


def instances_seen(repository: Repository) -> frozenset[str]:
    """Return the instances whose memory was fetched from any remote."""
    return frozenset(newest_seen(repository))


def local_ref(repository: Repository, ref: str) -> str | None:
    """Return the commit that a ref of the journal names, or None."""
    try:
        path = os.path.join(repository.path, *ref.split("/"))
        id_ = read_plain(path).decode("ascii", errors="replace").strip()
    except OSError:
        return None
    return id_ if is_id(id_) else None


def set_local_ref(repository: Repository, ref: str, id_: str) -> None:
    """Make a ref of the journal name a commit, durably. May raise OSError."""
    path = os.path.join(repository.path, *ref.split("/"))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    repository.disk.put(path, f"{id_}\n".encode())
