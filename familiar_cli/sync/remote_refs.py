"""What a remote named last, as refs of the journal, `refs/remotes/<remote>/memory/<instance>`.

They keep git from clearing away what others sent, and tell when a remote moved back.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from familiar_cli.files import read_plain
from familiar_cli.memory.journal.objects import is_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from familiar_cli.memory.journal.repository import Repository

_HEADS: Final = "refs/heads/"


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

    def forget(self) -> None:
        """Remove all of them: the remote is no longer one of ours."""
        import shutil

        shutil.rmtree(self._top, ignore_errors=True)


def local_ref(repository: Repository, ref: str) -> str | None:
    """Return what a ref of the journal names, or None."""
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
