"""Read single files below the memory root, and say clearly what stands in the way."""

from __future__ import annotations

import codecs
import os
import stat
from typing import TYPE_CHECKING

from familiar_cli.errors import BadInputError, FamiliarError, FileTooLargeError, NotFoundError
from familiar_cli.files import is_misspelled, read_plain
from familiar_cli.memory.store import paths
from familiar_cli.memory.store.types import MemoryFile, MemoryHead
from familiar_cli.text import fold, sha256_of, typed

if TYPE_CHECKING:
    from pathlib import Path


MAX_READ_BYTES = 256 * 1024 * 1024
"""No file that is larger is ever read; the largest that the program itself writes is a card."""

Signature = tuple[int, int, int]
"""Inode, size and time of change: what shows that a file is still the same."""


class Tree:
    """The memory directory, as a place to read from."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def real(self) -> str:
        """The root's own real path; the root itself may be a link."""
        return os.path.realpath(self.root)

    def is_file(self, rel_path: str) -> bool:
        """Tell whether a regular file is at `rel_path`."""
        clean, real = paths.parse(rel_path), self.real
        path = paths.locate(real, clean)
        return os.path.isfile(path) and not paths.is_misspelled(real, clean)

    def is_dir(self, rel_path: str) -> bool:
        """Tell whether a directory is at `rel_path`."""
        clean, real = paths.parse(rel_path), self.real
        path = paths.locate(real, clean)
        return os.path.isdir(path) and not paths.is_misspelled(real, clean)

    def read_bytes(self, rel_path: str, most_bytes: int = -1) -> bytes:
        """Return the bytes of the file at `rel_path`, or its first `most_bytes`.

        Raises:
            NotFoundError: No regular file is there.
            FileTooLargeError: It is larger than `MAX_READ_BYTES`.
            FamiliarError: The system cannot read it.
        """
        clean, real = paths.parse(rel_path), self.real
        path = paths.locate(real, clean)
        try:
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode) or paths.is_misspelled(real, clean):
                raise self._no_file(clean)
            if most_bytes < 0:
                check_readable(clean, status)
            return read_plain(path, most_bytes)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self._no_file(clean) from error
        except OSError as error:
            raise FamiliarError(
                f"{clean!r} cannot be read: {error.strerror}", hint="Check its permissions."
            ) from error

    def read(self, rel_path: str) -> MemoryFile:
        """Return the text file at `rel_path`. Raises `BadInputError` when it is not UTF-8."""
        content = self.read_bytes(rel_path)
        clean = paths.parse(rel_path)
        return MemoryFile(clean, _decoded(clean, content), sha256_of(content), len(content))

    def read_head(self, rel_path: str, most_bytes: int) -> MemoryHead:
        """Return the first `most_bytes` of the text file at `rel_path`. Raises as `read` does."""
        content = self.read_bytes(rel_path, most_bytes + 1)
        clean = paths.parse(rel_path)
        is_whole = len(content) <= most_bytes
        text = _decoded(clean, content[:most_bytes], is_whole=is_whole)
        if is_whole:
            return MemoryHead(clean, text, True, len(content), sha256_of(content))  # noqa: FBT003
        size_bytes = os.path.getsize(paths.locate(self.real, clean))
        return MemoryHead(clean, text, False, size_bytes, "")  # noqa: FBT003

    def not_found(self, rel_path: str, what: str = "file") -> NotFoundError:
        """Return the error for a path where nothing is, with the name probably meant."""
        meant = self._meant(rel_path)
        return NotFoundError(
            f"No memory {what} at {rel_path!r}",
            hint=f"Did you mean {meant!r}?" if meant else "Run `familiar memory ls`.",
        )

    def _meant(self, rel_path: str) -> str | None:
        """Return the path of something that is there and has nearly that name, or None."""
        from familiar_cli.text import nearest

        at = ""
        *directories, last = rel_path.split("/")
        for name in directories:
            at += f"{_twin(name, self._names_in(at)) or name}/"
        names = self._names_in(at)
        meant = _twin(last, names) or nearest(last, names)
        return at + meant if meant else None

    def _no_file(self, rel_path: str) -> NotFoundError:
        if self.is_dir(rel_path):
            shown = rel_path or "."
            return NotFoundError(
                f"{shown!r} is a directory, not a file",
                hint=f"Run `familiar memory ls {typed(shown)}`.",
            )
        return self.not_found(rel_path)

    def _names_in(self, directory: str) -> list[str]:
        try:
            names = os.listdir(paths.locate(self.real, directory.rstrip("/")))
        except OSError:
            return []
        return [name for name in names if not name.startswith(".")]


def _twin(name: str, names: list[str]) -> str | None:
    """Return the one of `names` that only case or Unicode form tells from `name`, or None."""
    return name if name in names else next((n for n in names if fold(n) == fold(name)), None)


def check_readable(rel_path: str, status: os.stat_result) -> None:
    """Raise `FileTooLargeError` for a file larger than `MAX_READ_BYTES`."""
    if status.st_size > MAX_READ_BYTES:
        raise FileTooLargeError(
            f"{rel_path!r} {too_large_to_read(status)}; it was not changed",
            hint="Check what it is, and move it out of the memory directory.",
        )


def too_large_to_read(status: os.stat_result) -> str:
    """Return in words that a file is larger than `MAX_READ_BYTES`."""
    return f"has {status.st_size:,} bytes, and files over {MAX_READ_BYTES:,} are not read"


def _decoded(rel_path: str, content: bytes, *, is_whole: bool = True) -> str:
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(content, final=is_whole)
    except UnicodeDecodeError as error:
        raise BadInputError(
            f"{rel_path!r} is not UTF-8 text (byte {error.start}); it was not changed",
            hint=f"See its bytes with `familiar memory cat {typed(rel_path)}`,"
            " and save it as UTF-8.",
        ) from error


def signature(path: str) -> Signature | None:
    """Return what shows that the file at the real path `path` is still the same, or None."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if is_misspelled(path):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
