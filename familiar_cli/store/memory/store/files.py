"""The values and paths of the memory room, and reading single files below the memory root.

No path leads outside the memory, and none is written that some system cannot hold.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
import sys
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import Struct

from familiar_cli.base import errors, files
from familiar_cli.base.files import TEMP_PREFIX, FileStamp, is_misspelled, maker_of, read_plain
from familiar_cli.base.text import fold, nearest, sha256_of, typed
from familiar_cli.store.memory.layout import PRIVATE_DIRS

MISSING: Final = "missing"
"""As `expect`: the file must not exist yet."""


class Limits(Struct, frozen=True):
    """What one memory may hold and one operation may give.

    Args:
        max_file_bytes: Largest file that may be written; a larger one stays readable.
        max_results: Most results of one `grep`, `glob` or `list_dir`.
        max_dir_files: Most entries of one directory; a fuller one takes no new files. The files of
            people are not counted.
        grep_timeout_s: Longest time one search may take.
    """

    max_file_bytes: int = 256 * 1024
    max_results: int = 1000
    max_dir_files: int = 20_000
    grep_timeout_s: float = 10.0


class MemoryEntry(Struct, frozen=True):
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


class MemoryFile(Struct, frozen=True):
    """One text file, as read. `sha256` is what a writer passes as `expect`."""

    rel_path: str
    text: str
    sha256: str
    size_bytes: int


class MemoryHead(Struct, frozen=True):
    """The beginning of a text file. `sha256` is of the whole, and empty when that was not read."""

    rel_path: str
    text: str
    is_whole: bool
    size_bytes: int
    sha256: str


class GrepHit(Struct, frozen=True):
    """One line that matches, counted from 1; `text[start:end]` is its first match."""

    rel_path: str
    line: int
    text: str
    start: int
    end: int


class Omission(Struct, frozen=True):
    """Something a walk or a search could not use, and why."""

    rel_path: str
    reason: str


class FileListing(Struct, frozen=True):
    """All files below a directory, sorted by path, and what had to be left out."""

    files: tuple[MemoryEntry, ...]
    skipped: tuple[Omission, ...]


class GrepResult(Struct, frozen=True):
    """What a search gave, sorted by path and line; `truncated` when there was more to find."""

    hits: tuple[GrepHit, ...]
    skipped: tuple[Omission, ...]
    truncated: bool


class WriteResult(Struct, frozen=True):
    """What a transaction did (or would do), each sorted by path.

    Args:
        written: Files that are new or have new content.
        unchanged: Files that were written with the content they had.
        deleted: Files that are gone.
    """

    written: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


NOT_MEMORY: Final = "it belongs to the git repository, not to the memory"
"""Reason of files that a hosting site or a git user puts at the top of a repository."""

_OF_REPOSITORY: Final = (
    r"(?:README|LICEN[SC]E|COPYING|CONTRIBUTING|CODE_OF_CONDUCT|SECURITY)(?:\.\w+)?"
    r"|(?i:\.gitattributes|\.gitmodules|\.mailmap|\.git(?:hub|lab|ea)/.+)"
)


def is_of_repository(rel_path: str) -> bool:
    """Tell whether a file describes a git repository; it stays there, unless it was made here.

    Hosting sites write such names in capitals; `security.md` is a memory.
    """
    return re.fullmatch(_OF_REPOSITORY, rel_path, re.DOTALL) is not None


class AbsentVersion(NamedTuple):
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


class IncomingCommits(Struct, frozen=True):
    """What came from other instances, and a transaction makes a part of this one.

    Args:
        base: The journal's newest commit for which the changes were worked out.
        commits: The commits that are merged with it.
        absent: Versions of files that cannot be here: the journal has them all the same.
        gone: Files that were not here, and that the journal has no longer either.
        blobs: The contents in `absent` that the journal lacks, by id.
        is_forward: The one commit follows `base` and takes its place, without a merge.
        modes: Id and git mode of entries that are no plain files, such as links.
    """

    base: str
    commits: tuple[str, ...]
    absent: Mapping[str, AbsentVersion] = MappingProxyType({})
    gone: tuple[str, ...] = ()
    blobs: Mapping[str, bytes] = MappingProxyType({})
    is_forward: bool = False
    modes: Mapping[str, tuple[str, bytes]] = MappingProxyType({})


class StoredChange(Struct, frozen=True):
    """One file's state before and after a transaction; None where it does not exist."""

    rel_path: str
    before: bytes | None
    after: bytes | None


MAX_NAME_BYTES = 255  # of one name, on ext4, APFS and NTFS
MAX_PATH_BYTES = 1024
MAX_LEVELS = 200  # of directories within each other; less than Python and git can walk
_SHOWN_CHARS = 80
NAMES_ARE_UTF8 = sys.getfilesystemencoding() == "utf-8"
"""Whether Python names files as they are. With an old locale it decodes other names wrongly."""

# What Windows forbids, and what would make a path look like another one on a terminal.
_NOT_PORTABLE = r'[<>:"|?*\u2028\u2029\u202a-\u202e\u2066-\u2069]'
_DEVICE = r"(?i)(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³]) *(?:\..*)?"
# The second spelling is the short name that Windows gives the first.
_GITS_OWN = r"\.git|git~[0-9]+|\.gitmodules|gitmod~[0-9]+|gi7eba~[0-9]+"
_INVISIBLE = "Cf"  # some file systems leave such characters out when they compare names


def parse_path(rel_path: str, *, wildcards: bool = False) -> str:
    """Normalise `rel_path`; `""` is the memory itself.

    `.` and empty parts are dropped, so `./people//a.md` is `people/a.md`. With `wildcards` it may
    be a pattern, whose characters are not valid in names on Windows.

    Raises:
        UnsafePathError: It is absolute, climbs up, or holds what no path may hold.
    """
    if rel_path.startswith("/") or re.match("[A-Za-z]:", rel_path):
        raise _unsafe_path(rel_path, "is not a path below the memory directory")
    parts = [part for part in rel_path.split("/") if part not in {"", "."}]
    for part in parts:
        problem = unreadable_name(part, wildcards=wildcards)
        if problem:
            raise _unsafe_path(rel_path, problem)
    clean = "/".join(parts)
    if len(clean.encode()) > MAX_PATH_BYTES:
        raise _unsafe_path(rel_path, f"is longer than {MAX_PATH_BYTES} bytes")
    if len(parts) > MAX_LEVELS:
        raise _unsafe_path(
            rel_path, f"lies in more than {MAX_LEVELS} directories within each other"
        )
    return clean


def unreadable_name(name: str, *, wildcards: bool = False) -> str | None:
    """Return why `name` cannot be a path component here, or None if it can."""
    if name == "..":
        return "leads outside the memory directory"
    if not (name.isascii() or NAMES_ARE_UTF8):
        return "has a name that this locale cannot show; set one with UTF-8, or PYTHONUTF8=1"
    is_plain = name.isascii() and name.isprintable() and "\\" not in name  # as almost all are
    if not is_plain and re.search(r"[\x00-\x1f\x7f-\x9f\\\ud800-\udfff]", name):
        if re.search("[\ud800-\udfff]", name):
            return "has a name that is not UTF-8"
        return "contains a backslash or a control character"
    if len(name if name.isascii() else name.encode()) > MAX_NAME_BYTES:
        return f"has a name longer than {MAX_NAME_BYTES} bytes"
    return _not_portable(name) if os.name == "nt" and not wildcards else None


def parse_old_path(rel_path: str) -> str:
    """Normalise the path of a file that may be changed or removed.

    Raises:
        UnsafePathError: It is not a path of a file, or one of the program's own.
    """
    clean = parse_path(rel_path)
    if not clean or rel_path.endswith("/"):
        raise _unsafe_path(rel_path, "does not name a file")
    if any(_is_private_twin(part) for part in clean.split("/")):
        raise _unsafe_path(rel_path, "is reserved for this program, git or Obsidian")
    return clean


def parse_new_path(rel_path: str) -> str:
    """Normalise the path of a file that may be written on every system.

    Raises:
        UnsafePathError: It may not.
    """
    clean = parse_old_path(rel_path)
    for part in clean.split("/"):
        problem = _not_portable(part)
        if problem or is_gits_own(part):
            raise _unsafe_path(rel_path, problem or "has a name reserved by git")
    return clean


def is_private(name: str) -> bool:
    """Tell whether `name` belongs to the program, git or an editor, not to the memory.

    Obsidian runs the plugins in its directory, so nothing here may write there.
    """
    return name.startswith(TEMP_PREFIX) or name in PRIVATE_DIRS


def is_gits_own(name: str) -> bool:
    """Tell whether git, on some system, treats `name` as its own directory or settings."""
    text = "".join(c for c in name if unicodedata.category(c) != _INVISIBLE)
    return bool(re.fullmatch(_GITS_OWN, fold(text).partition(":")[0].rstrip(". ")))


def is_leftover(name: str) -> bool:
    """Tell whether `name` is a half-written file left behind by a crash."""
    return name.endswith(".new") and maker_of(name) is not None


def locate_path(root: str, rel_path: str) -> str:
    """Resolve `rel_path` below `root`, following links.

    Args:
        root: The memory directory's own real path.
        rel_path: As `parse` returned it.

    Raises:
        UnsafePathError: A link on the way leads out of `root`, or in a circle.
    """
    if not rel_path:
        return root
    direct = _without_links(root, rel_path)
    if direct:
        return direct
    try:
        real = os.path.realpath(os.path.join(root, *rel_path.split("/")))
    except OSError as error:
        raise _unsafe_path(rel_path, f"cannot be followed ({error.strerror})") from error
    if not path_inside(root, real):
        raise _unsafe_path(rel_path, "leads outside the memory directory through a link")
    return real


def _without_links(root: str, rel_path: str) -> str:
    """Return the path of `rel_path` if no link is on the way, which takes few calls, else None.

    On Windows, links are not the only reason for a path to differ from the real one.
    """
    if os.name == "nt":
        return ""
    path = root.rstrip(os.sep)
    for part in rel_path.split("/"):
        path = f"{path}/{part}"
        if os.path.islink(path):
            return ""
    return path


def is_path_misspelled(root: str, rel_path: str) -> bool:
    """Tell whether the file at `rel_path` has another spelling on disk."""
    path = root
    for part in rel_path.split("/") if rel_path else ():
        path = os.path.join(path, part)
        if files.is_misspelled(path):
            return True
    return False


def path_inside(root: str, real: str) -> bool:
    """Tell whether the real path `real` is `root` or below it."""
    return real == root or real.startswith(root.rstrip(os.sep) + os.sep)


def _is_private_twin(name: str) -> bool:
    """Tell whether some file system treats `name` as one of the program's own."""
    text = "".join(c for c in name if unicodedata.category(c) != _INVISIBLE)
    return is_private(fold(text))


def _not_portable(name: str) -> str | None:
    if re.search(_NOT_PORTABLE, name):
        return "has a character in its name that is not valid on Windows or in a terminal"
    if name[-1] in ". " or name[0] == " ":
        return "has a name that begins or ends with a space, or ends with a dot"
    if re.fullmatch(_DEVICE, name):
        return "has a name reserved for a device on Windows"
    return None


def _unsafe_path(rel_path: str, problem: str) -> errors.UnsafePathError:
    return errors.UnsafePathError(
        f"{shorten_path(rel_path)!r} {problem}; nothing was read or changed",
        hint="Use a path below the memory directory, e.g. `people/alice.md`.",
    )


def shorten_path(rel_path: str) -> str:
    """Return a path for use in a message, shortened if very long."""
    return rel_path if len(rel_path) <= _SHOWN_CHARS else rel_path[:_SHOWN_CHARS] + "…"


MAX_READ_BYTES = 256 * 1024 * 1024
"""No file that is larger is ever read; the largest that the program itself writes is a card."""

MOST_RECORDED_BYTES = MAX_READ_BYTES // 8
"""No file that is larger is recorded in the journal or synced; it stays here, and is named."""

Signature = tuple[int, int, int]
"""Inode, size and time of change: what shows that a file is still the same."""


class Tree:
    """The memory directory, as a place to read from."""

    def __init__(self, root: Path, real: str = "") -> None:
        self.root = root
        self._real, self._is_settled = real, bool(real)
        self._folders: set[str] = set()  # those without a link on the way, of a settled tree

    @property
    def real(self) -> str:
        """The root's own real path; the root itself may be a link."""
        if not self._is_settled and not self._is_there():
            self._real = os.path.realpath(self.root)
        return self._real

    def _is_there(self) -> bool:
        """Tell whether the last known real path still leads to the root."""
        if self._real == str(self.root):  # no link leads to it, as mostly
            return True
        try:
            return bool(self._real) and os.path.samefile(self.root, self._real)
        except OSError:
            return False

    def settled(self) -> Tree:
        """Return this tree for reading many files: each directory is resolved once."""
        return Tree(self.root, self.real)

    def is_file(self, rel_path: str) -> bool:
        """Tell whether a regular file is at `rel_path`."""
        path, is_misspelled = self._place(parse_path(rel_path))
        return os.path.isfile(path) and not is_misspelled

    def is_dir(self, rel_path: str) -> bool:
        """Tell whether a directory is at `rel_path`."""
        path, is_misspelled = self._place(parse_path(rel_path))
        return os.path.isdir(path) and not is_misspelled

    def _place(self, clean: str) -> tuple[str, bool]:
        """Return the real path of `clean`, and whether it has another spelling on disk."""
        real, folder = self.real, clean.rpartition("/")[0]
        direct = f"{real}/{clean}"
        if folder in self._folders and not os.path.islink(direct):
            return direct, files.is_misspelled(direct)
        path, is_misspelled = locate_path(real, clean), is_path_misspelled(real, clean)
        if self._is_settled and path == direct and not is_misspelled:
            self._folders.add(folder)
        return path, is_misspelled

    def read_bytes(self, rel_path: str, most_bytes: int = -1) -> bytes:
        """Return the bytes of the file at `rel_path`, or its first `most_bytes`.

        Raises:
            NotFoundError: No regular file is there.
            FileTooLargeError: It is larger than `MAX_READ_BYTES`.
            FamiliarError: The system cannot read it.
        """
        clean = parse_path(rel_path)
        path, is_misspelled = self._place(clean)
        try:
            status = os.stat(path)
            if is_misspelled or not stat.S_ISREG(status.st_mode):
                raise self._no_file(clean)
            if most_bytes < 0:
                check_readable(clean, status)
            return read_plain(path, most_bytes)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self.not_found(clean) from error
        except OSError as error:
            raise errors.FamiliarError(
                f"{clean!r} cannot be read: {error.strerror}", hint="Check its permissions."
            ) from error

    def read(self, rel_path: str) -> MemoryFile:
        """Return the text file at `rel_path`. Raises `BadInputError` when it is not UTF-8."""
        content = self.read_bytes(rel_path)
        clean = parse_path(rel_path)
        return MemoryFile(clean, _decode_text(clean, content), sha256_of(content), len(content))

    def read_text(self, rel_path: str) -> str:
        """Return the text of the file at `rel_path`. Raises as `read` does."""
        return _decode_text(rel_path, self.read_bytes(rel_path))

    def read_head(self, rel_path: str, most_bytes: int) -> MemoryHead:
        """Return the first `most_bytes` of the text file at `rel_path`. Raises as `read` does."""
        content = self.read_bytes(rel_path, most_bytes + 1)
        clean = parse_path(rel_path)
        is_whole = len(content) <= most_bytes
        text = _decode_text(clean, content[:most_bytes], is_whole=is_whole)
        if is_whole:
            return MemoryHead(clean, text, True, len(content), sha256_of(content))  # noqa: FBT003
        size_bytes = os.path.getsize(locate_path(self.real, clean))
        return MemoryHead(clean, text, False, size_bytes, "")  # noqa: FBT003

    def not_found(self, rel_path: str, what: str = "file") -> errors.NotFoundError:
        """Build the error for a missing path, suggesting the name probably meant."""

        def hint() -> str:  # on demand: most of those who look for a file go on without it
            target = self._meant(rel_path)
            return f"Did you mean {target!r}?" if target else "Run `familiar memory list`."

        return errors.NotFoundError(f"No memory {what} at {rel_path!r}", hint=hint)

    def _meant(self, rel_path: str) -> str | None:
        """Return an existing path with nearly that name, or None."""
        at = ""
        *directories, last = rel_path.split("/")
        for name in directories:
            at += f"{_similar_name(name, self._names_in(at)) or name}/"
        names = self._names_in(at)
        target = _similar_name(last, names) or nearest(last, names)
        return at + target if target else None

    def _no_file(self, rel_path: str) -> errors.NotFoundError:
        if self.is_dir(rel_path):
            text = rel_path or "."
            return errors.NotFoundError(
                f"{text!r} is a directory, not a file",
                hint=f"Run `familiar memory list {typed(text)}`.",
            )
        return self.not_found(rel_path)

    def _names_in(self, directory: str) -> list[str]:
        try:
            names = os.listdir(locate_path(self.real, directory.rstrip("/")))
        except OSError:
            return []
        return [name for name in names if not name.startswith(".")]


def _similar_name(name: str, names: list[str]) -> str | None:
    """Return the one of `names` that differs only in case or Unicode form, or None."""
    return name if name in names else next((n for n in names if fold(n) == fold(name)), None)


def check_readable(rel_path: str, status: os.stat_result) -> None:
    """Raise `FileTooLargeError` for a file larger than `MAX_READ_BYTES`."""
    if status.st_size > MAX_READ_BYTES:
        raise errors.FileTooLargeError(
            f"{rel_path!r} {too_large_to_read(status)}; it was not changed",
            hint="Check what it is, and move it out of the memory directory.",
        )


def too_large_to_read(status: os.stat_result) -> str:
    """Describe in words that a file is larger than `MAX_READ_BYTES`."""
    return f"has {status.st_size:,} bytes, and files over {MAX_READ_BYTES:,} are not read"


def _decode_text(rel_path: str, content: bytes, *, is_whole: bool = True) -> str:
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(content, final=is_whole)
    except UnicodeDecodeError as error:
        raise errors.BadInputError(
            f"{rel_path!r} is not UTF-8 text (byte {error.start}); it was not changed",
            hint=f"See its bytes with `familiar memory cat {typed(rel_path)}`; save it as UTF-8.",
        ) from error


def file_signature(path: str) -> Signature | None:
    """Return the signature of the file at the real path `path`, or None."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if is_misspelled(path):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
