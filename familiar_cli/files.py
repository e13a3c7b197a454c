"""Read a file that may be anything: what is no plain file is refused, and never waited for."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

# Opening a named pipe without O_NONBLOCK waits for a writer who may never come.
_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)


def read_plain(path: str | Path, most_bytes: int = -1) -> bytes:
    """Return the bytes of a plain file, or its first `most_bytes`.

    Raises:
        OSError: It cannot be read, or is a directory, a pipe or a device.
    """
    descriptor = os.open(path, _FLAGS)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "It is no plain file", str(path))
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most_bytes)
    finally:
        os.close(descriptor)


def is_plain(path: str | Path) -> bool:
    """Tell whether a plain file is seen at `path`; `Path.is_file` raises where one may not look."""
    return os.path.isfile(path)  # noqa: PTH113


def is_directory(path: str | Path) -> bool:
    """Tell whether a directory is seen at `path`; `Path.is_dir` raises where one may not look."""
    return os.path.isdir(path)  # noqa: PTH112
