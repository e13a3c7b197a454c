"""Recognise copies of a familiar's directory, and a history that was replaced by an older one.

`instance.place` holds the directory's inode number and the change time of `instance.id`. Renaming
the directory keeps both; no copy does, and no restored archive. `history.cursor` holds the newest
turn written under this instance's id. Neither is backed up.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from familiar_cli.base import files

PLACE: Final = "instance.place"
CURSOR: Final = "history.cursor"
_MOST_BYTES: Final = 256
_ID_CHARS: Final = 40


def is_copy(root: Path) -> bool:
    """Tell whether a familiar's directory was copied from where its instance was made.

    On file systems without stable inode numbers the change time alone decides.
    """
    known = _noted_place(root)
    if len(known) != len(_place_of(root)):  # none, or a power cut left it empty
        note_place(root)
        return False
    return not any(one == two for one, two in zip(known, _place_of(root), strict=True))


def _noted_place(root: Path) -> list[str]:
    try:
        return files.read_plain(root / PLACE, _MOST_BYTES).decode().split()
    except (OSError, UnicodeDecodeError):
        return []


def note_place(root: Path) -> None:
    """Record where the instance of a familiar is, if it has one and the disk is writable."""
    with suppress(OSError):
        files.write_own(root / PLACE, " ".join(_place_of(root)).encode(), durable=False)


def _place_of(root: Path) -> tuple[str, str]:
    return str(os.stat(root).st_ino), str(os.stat(root / "instance.id").st_ctime_ns)  # noqa: PTH116


def read_cursor(root: Path, instance: str) -> int:
    """Return the newest turn ever written here under an instance's id; 0 if unknown."""
    try:
        turn_id, _, name = files.read_plain(root / CURSOR, _MOST_BYTES).decode().partition(" ")
        return int(turn_id) if name.strip() == instance else 0
    except (OSError, ValueError):
        return 0


def write_cursor(root: Path, instance: str, turn_id: int) -> None:
    """Record the newest turn, if possible. It is not flushed: a lower number does no harm."""
    with suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(root / CURSOR, flags, 0o600)
        try:
            os.write(descriptor, f"{turn_id:020} {instance:<{_ID_CHARS}}\n".encode())
        finally:
            os.close(descriptor)
