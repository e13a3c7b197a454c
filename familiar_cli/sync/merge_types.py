"""What a merge takes and gives."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from familiar_cli.memory.desk.conflicts import Conflict

Tree = Mapping[str, str]
"""Which files there are: `rel_path` -> the id that git gives its content."""

Read = Callable[[str], bytes]
"""Returns the content with an id."""


@dataclass(frozen=True, slots=True)
class Note:
    """What a person may want to know of a file that was merged.

    Args:
        path: The file.
        text: What happened to it, e.g. `kept: deleted on laptop-7f3a, changed on desk-11aa`.
    """

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class MergedTree:
    """Several versions of a memory, as one.

    Args:
        files: Every file.
        blobs: The content of those that stand so in none of the versions, by id.
        conflicts: Those that this merge found, sorted by path.
        notes: What else it did that shows, sorted by path.
    """

    files: Tree
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    notes: tuple[Note, ...] = ()

    def changes_from(self, tree: Tree) -> dict[str, str | None]:
        """Return what has to be done to a tree to make it this one: path -> id, None to delete."""
        gone = dict.fromkeys(sorted(tree.keys() - self.files.keys()))
        return gone | dict(sorted(self.files.items() - tree.items()))


def blob_id(content: bytes) -> str:
    """Return the id that git gives a file's content."""
    head = b"blob %d\0" % len(content)
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()
