"""A file system like those of macOS and Windows, for any machine: twins of a name are one file.

Two names are twins when they differ only in case or in Unicode form (`é` as one character or two).
The system's calls are replaced for paths below one directory, so whatever Python code asks there
gets the answers such a disk would give. Programs that are started, and SQLite, see the disk as it
is.
"""

from __future__ import annotations

import builtins
import io
import os
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

FAKE, REAL = "fake", "real"
FOLDED = os.environ.get("FAMILIAR_TEST_FOLDED")
"""Set: memory's tests run on a `FoldingDisk` (`fake`), or where pytest's `--basetemp` says, on a
disk that folds names itself (`real`)."""

_ONE_PATH = (
    "access",
    "chmod",
    "listdir",
    "lstat",
    "mkdir",
    "open",
    "readlink",
    "remove",
    "rmdir",
    "scandir",
    "stat",
    "unlink",
    "utime",
)


class FoldingDisk:
    """Makes `root` fold names for as long as `monkeypatch` lasts.

    Args:
        root: A directory that is there.
        monkeypatch: Of the test.
        like_windows: A renamed file takes the new spelling also where a twin was, and `realpath`
            gives names as they are on disk. Else the twin's spelling stays, as on ext4 and FAT.
    """

    def __init__(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, *, like_windows: bool = False
    ) -> None:
        self._root = os.path.realpath(root)
        self._like_windows = like_windows
        self._real: dict[str, Callable[..., Any]] = {
            name: getattr(os, name) for name in (*_ONE_PATH, "link", "rename", "replace")
        }
        for name in _ONE_PATH:
            monkeypatch.setattr(os, name, self._of_one_path(self._real[name]))
        for name in ("rename", "replace"):
            monkeypatch.setattr(os, name, self._renaming(self._real[name]))
        monkeypatch.setattr(os, "link", self._link)
        opened = self._of_one_path(io.open)
        monkeypatch.setattr(io, "open", opened)
        monkeypatch.setattr(builtins, "open", opened)
        if like_windows:
            realpath = os.path.realpath
            monkeypatch.setattr(
                os.path, "realpath", lambda path, **more: self.on_disk(realpath(path, **more))
            )

    def on_disk(self, path: Any) -> Any:
        """Return `path` with each name below the root as the disk spells it, if it has it."""
        if isinstance(path, int) or path is None:
            return path
        text = os.fsdecode(path)
        if not text.startswith(self._root + os.sep):
            return path
        at = self._root
        for name in text[len(self._root) + 1 :].split(os.sep):
            at = os.path.join(at, self._spelled(at, name))
        return at

    def _spelled(self, directory: str, name: str) -> str:
        try:
            names = self._real["listdir"](directory)
        except OSError:
            return name
        if name in names:
            return name
        return next((known for known in names if _folded(known) == _folded(name)), name)

    def _of_one_path(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(path: Any = ".", *more: Any, **named: Any) -> Any:
            return call(self.on_disk(path), *more, **named)

        return wrapped

    def _renaming(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def rename(old: Any, new: Any, **named: Any) -> None:
            source, target = (os.fspath(self.on_disk(path)) for path in (old, new))
            wanted = os.path.join(os.path.dirname(target), os.path.basename(os.fspath(new)))
            if source == target:  # a change of spelling
                call(source, wanted, **named)
                return
            call(source, target, **named)
            if self._like_windows and target != wanted:
                call(target, wanted)

        return rename

    def _link(self, old: Any, new: Any, **named: Any) -> None:
        self._real["link"](self.on_disk(old), self.on_disk(new), **named)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())
