"""Read single files below the memory root, and say clearly what stands in the way."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING

from familiar_cli.errors import BadInputError, FamiliarError, NotFoundError
from familiar_cli.memory import paths
from familiar_cli.memory.types import MemoryFile

if TYPE_CHECKING:
    from pathlib import Path


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
        return os.path.isfile(paths.locate(self.real, paths.parse(rel_path)))

    def is_dir(self, rel_path: str) -> bool:
        """Tell whether a directory is at `rel_path`."""
        return os.path.isdir(paths.locate(self.real, paths.parse(rel_path)))

    def read_bytes(self, rel_path: str) -> bytes:
        """Return the bytes of the file at `rel_path`.

        Raises:
            NotFoundError: No regular file is there.
            FamiliarError: The system cannot read it.
        """
        clean = paths.parse(rel_path)
        path = paths.locate(self.real, clean)
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise self._no_file(clean)
            with open(path, "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self._no_file(clean) from error
        except OSError as error:
            raise FamiliarError(
                f"{clean!r} cannot be read: {error.strerror}", hint="Look at its permissions."
            ) from error

    def read(self, rel_path: str) -> MemoryFile:
        """Return the text file at `rel_path`. Raises `BadInputError` when it is not UTF-8."""
        content = self.read_bytes(rel_path)
        clean = paths.parse(rel_path)
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadInputError(
                f"{clean!r} is not UTF-8 text (byte {error.start}); it was not changed",
                hint=f"See its bytes with `familiar memory cat {clean}`, and save it as UTF-8.",
            ) from error
        return MemoryFile(clean, text, sha256_of(content), len(content))

    def not_found(self, rel_path: str, what: str = "file") -> NotFoundError:
        """Return the error for a path where nothing is, with the name probably meant."""
        from familiar_cli.text import nearest

        directory, _, name = rel_path.rpartition("/")
        guess = nearest(name, self._names_in(directory))
        meant = "/".join(part for part in (directory, guess) if part) if guess else None
        return NotFoundError(
            f"There is no memory {what} at {rel_path!r}",
            hint=f"Did you mean {meant!r}?" if meant else "Run `familiar memory ls`.",
        )

    def _no_file(self, rel_path: str) -> NotFoundError:
        if os.path.isdir(paths.locate(self.real, rel_path)):
            shown = rel_path or "."
            return NotFoundError(
                f"{shown!r} is a directory, not a file", hint=f"Run `familiar memory ls {shown}`."
            )
        return self.not_found(rel_path)

    def _names_in(self, directory: str) -> list[str]:
        try:
            names = os.listdir(paths.locate(self.real, directory))
        except OSError:
            return []
        return [name for name in names if not name.startswith(".")]


def signature(path: str) -> Signature | None:
    """Return what shows that the file at the real path `path` is still the same, or None."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def sha256_of(content: bytes) -> str:
    """Return the SHA-256 of `content` in hex, as `expect` wants it."""
    return hashlib.sha256(content).hexdigest()
