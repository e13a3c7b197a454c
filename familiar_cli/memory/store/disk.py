"""The steps by which the memory changes the disk. A test lets one of them fail, or be the last."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from familiar_cli.memory.store.paths import TEMP_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

# ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION: on Windows a virus scanner or
# an editor holds a file for a moment.
_HELD_FOR_A_MOMENT = {5, 32, 33}
_WAITS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
_BINARY = getattr(os, "O_BINARY", 0)


class Disk:
    """The file system, one step at a time. Paths are real paths; every method may raise OSError."""

    def create(self, path: str, content: bytes, *, mode: int | None = None) -> None:
        """Write a new file, and return when it is durable; or leave none.

        Args:
            path: Where nothing is yet.
            content: All of it.
            mode: Its permissions; else what is usual here.
        """
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
        try:
            with open(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if mode is not None:
                os.chmod(path, mode)
        except BaseException:  # half a file is worth nothing, and takes room where there is none
            with suppress(OSError):
                os.unlink(path)
            raise

    def replace(self, old: str, new: str) -> None:
        """Give the file `old` the name `new`, in place of what has it."""
        patiently(os.replace, old, new)

    def unlink(self, path: str) -> None:
        """Take a file away."""
        patiently(os.unlink, path)

    def link(self, path: str, second: str) -> None:
        """Give a file a second name."""
        os.link(path, second)

    def mkdir(self, path: str) -> None:
        """Make a directory."""
        os.mkdir(path)

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory durable, where the system can."""
        if os.name == "nt":
            return
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def put(self, path: str, content: bytes) -> None:
        """Make `content` the whole of a file, durably, in a directory that is there."""
        directory = os.path.dirname(path)
        temporary = temp_in(directory, ".new")
        try:
            self.create(temporary, content)
            self.replace(temporary, path)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        self.sync_dir(directory)


def temp_in(directory: str, suffix: str) -> str:
    """Return a path in `directory` that no one else uses."""
    name = f"{TEMP_PREFIX}{os.getpid()}-{secrets.token_hex(6)}{suffix}"
    return os.path.join(directory, name)


def patiently(action: Callable[..., object], *names: str) -> None:
    """Call `action` with `names`, again when Windows says that someone holds the file."""
    for wait_s in _WAITS_S:
        try:
            action(*names)
        except OSError as error:
            if getattr(error, "winerror", None) not in _HELD_FOR_A_MOMENT:
                raise
            time.sleep(wait_s)
        else:
            return
    action(*names)
