"""Values the memory room hands out and takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from familiar_cli.files import FileStamp

MISSING: Final = "missing"
"""As `expect`: the file must not exist yet."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one memory may hold and one operation may give.

    Args:
        max_file_bytes: Largest file that may be written; a larger one stays readable.
        max_results: Most results of one `grep`, `glob` or `list_dir`.
        max_dir_files: Most entries of one directory; a fuller one takes no new files.
        grep_timeout_s: Longest time one search may take.
    """

    max_file_bytes: int = 256 * 1024
    max_results: int = 1000
    max_dir_files: int = 20_000
    grep_timeout_s: float = 10.0


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One file or directory.

    Args:
        rel_path: POSIX, below the memory root.
        is_dir: It is a directory.
        size_bytes: Its size; 0 of a directory.
        modified: When it was changed, in UTC, cut to milliseconds.
        stamp: What shows whether it is changed again; None: nobody looked.
    """

    rel_path: str
    is_dir: bool
    size_bytes: int
    modified: datetime
    stamp: FileStamp | None = None


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """One text file, as read. `sha256` is what a writer passes as `expect`."""

    rel_path: str
    text: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class MemoryHead:
    """The beginning of a text file. `sha256` is of the whole, and empty when that was not read."""

    rel_path: str
    text: str
    is_whole: bool
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class GrepHit:
    """One line that matches, counted from 1; `text[start:end]` is its first match."""

    rel_path: str
    line: int
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something a walk or a search could not use, and why."""

    rel_path: str
    reason: str


@dataclass(frozen=True, slots=True)
class FileListing:
    """All files below a directory, sorted by path, and what had to be left out."""

    files: tuple[MemoryEntry, ...]
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True)
class GrepResult:
    """What a search gave, sorted by path and line; `truncated` when there was more to find."""

    hits: tuple[GrepHit, ...]
    skipped: tuple[Skipped, ...]
    truncated: bool


@dataclass(frozen=True, slots=True)
class Applied:
    """What a transaction did (or would do), each sorted by path.

    Args:
        written: Files that are new or have new content.
        unchanged: Files that were written with the content they had.
        deleted: Files that are gone.
    """

    written: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AbsentVersion:
    """Version of a file in the journal that this machine cannot hold.

    Args:
        id: The id of its content.
        here: The id of the content that the file has here instead; empty: there is no file.
        reason: Why.
    """

    id: str
    here: str
    reason: str

    def stands_for(self, journal_id: str | None, id_here: str | None) -> bool:
        """Tell whether content `id_here` on disk is not an edit of the journal's version."""
        return self.id == journal_id and self.here == (id_here or "")


@dataclass(frozen=True, slots=True)
class Joined:
    """What came from other instances, and a transaction makes a part of this one.

    Args:
        base: The journal's newest commit for which the changes were worked out.
        commits: The commits that are merged with it.
        absent: Versions of files that cannot be here: the journal has them all the same.
        gone: Files that were not here, and that the journal has no longer either.
        blobs: The contents in `absent` that the journal lacks, by id.
        is_forward: The one commit follows `base` and takes its place, without a merge.
    """

    base: str
    commits: tuple[str, ...]
    absent: Mapping[str, AbsentVersion] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    is_forward: bool = False


@dataclass(frozen=True, slots=True)
class StoredChange:
    """One file's state before and after a transaction; None where it does not exist."""

    rel_path: str
    before: bytes | None
    after: bytes | None
