"""Read a folder from outside: every file as bytes, and a word for what was not read."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from familiar_cli.bootstrap.bounds import MAX_TOTAL_BYTES, MIB
from familiar_cli.errors import BadInputError, LimitError, NotFoundError
from familiar_cli.files import is_directory, patiently
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILES: Final = 100_000  # a file a day for two hundred and fifty years
MAX_ONE_BYTES: Final = 64 * MIB
MAX_DEPTH: Final = 32
# Git keeps the past of the files there, not files of the folder.
_NOT_ITS_OWN: Final = {".git": "git's own files"}
_SHOWN_CHARS: Final = 120
_OPEN: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something in a folder that was not read, and why."""

    file: str
    reason: str


@dataclass(slots=True)
class Folder:
    """What a folder holds.

    Args:
        files: The bytes of each file, by its path below the folder, `/` between the parts.
        left_out: What could not be read; the folder is not wholly taken in.
        notes: What was passed by on purpose.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    total_bytes: int = 0


def read_folder(directory: Path) -> Folder:
    """Return everything below `directory`. Links are not followed, and nothing is executed.

    Raises:
        NotFoundError: There is no such directory.
        BadInputError: It is a file.
        LimitError: It holds more than `MAX_FILES` files or `MAX_TOTAL_BYTES`.
    """
    require_there(directory)
    folder = Folder()
    _read_into(folder, str(directory), "", 0)
    return folder


def require_there(directory: Path) -> None:
    """Make sure that a directory is there.

    Raises:
        NotFoundError: There is nothing.
        BadInputError: It is a file.
    """
    if is_directory(directory):
        return
    if not os.path.lexists(directory):
        raise NotFoundError(f"No such directory: {str(directory)!r}", hint="Check the path.")
    raise BadInputError(
        f"{str(directory)!r} is not a directory; nothing was imported",
        hint="Give the directory that contains it.",
    )


def _read_into(folder: Folder, directory: str, below: str, depth: int) -> None:
    try:
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        _leave_out(folder, below or ".", error.strerror or str(error))
        return
    for entry in entries:
        rel_path = f"{below}{entry.name}"
        if entry.name in _NOT_ITS_OWN:
            folder.notes.append(f"{rel_path}: {_NOT_ITS_OWN[entry.name]}; not imported")
        elif entry.is_symlink():
            _leave_out(folder, rel_path, "it is a symbolic link, and links are not followed")
        elif entry.is_dir(follow_symlinks=False):
            if depth < MAX_DEPTH:
                _read_into(folder, entry.path, f"{rel_path}/", depth + 1)
            else:
                _leave_out(folder, rel_path, f"it is nested deeper than {MAX_DEPTH} directories")
        else:
            _read_file(folder, entry.path, rel_path)


def _read_file(folder: Folder, path: str, rel_path: str) -> None:
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            _leave_out(folder, rel_path, "it is not a regular file")
            return
        if status.st_size > MAX_ONE_BYTES:
            _leave_out(folder, rel_path, f"it is larger than {MAX_ONE_BYTES // MIB} MiB")
            return
        with open(patiently(os.open, path, _OPEN), "rb") as stream:  # noqa: PTH123
            content = stream.read(MAX_ONE_BYTES + 1)
    except OSError as error:
        _leave_out(folder, rel_path, error.strerror or str(error))
        return
    folder.files[rel_path] = content
    folder.total_bytes += len(content)
    if len(folder.files) > MAX_FILES or folder.total_bytes > MAX_TOTAL_BYTES:
        raise LimitError(
            f"The folder holds more than {MAX_FILES:,} files or {MAX_TOTAL_BYTES // MIB} MiB;"
            " nothing was imported",
            hint="Is it the right folder? Import a folder inside it.",
        )


def _leave_out(folder: Folder, rel_path: str, reason: str) -> None:
    folder.left_out.append(LeftOut(one_line(rel_path, _SHOWN_CHARS), reason))
