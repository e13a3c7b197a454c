"""A model's replies about the parts of something long, kept until the whole is made.

When a later part fails, the next run asks only for what is missing. They are files beside the
memory, which can be deleted at any time: then the questions are asked again.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import now
from familiar_cli.files import read_plain, write_whole
from familiar_cli.text import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MOST_AGE_S: Final = 30 * 86_400.0
"""Older than this, a reply is thrown away: the sources have most likely moved on."""

MOST_REPLIES: Final = 500
"""The oldest go first. A reply has a few kilobytes."""

_KEY_CHARS: Final = 32


class Replies:
    """The replies of one familiar.

    Args:
        directory: Where they are kept; made when there is something to keep.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find(self, name: str, key: str) -> str | None:
        """Return what was replied to a question about the file `name`, if it is known."""
        try:
            text = json.loads(read_plain(self._path(name, key)))["reply"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        return text if isinstance(text, str) else None

    def keep(self, name: str, key: str, reply: str) -> None:
        """Keep a reply. It only saves a question, so a disk that refuses is no failure."""
        path = self._path(name, key)
        with suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps({"reply": reply}), durable=False)
        self._tidy()

    def forget(self, name: str) -> None:
        """Throw away all replies about the file `name`: it is made."""
        self._drop(self._directory.glob(f"{name}_*"))

    def _tidy(self) -> None:
        """Throw away what is too old, and the oldest of what is too many."""
        found: list[tuple[float, Path]] = []
        with suppress(OSError):  # another process tidies, too
            found = sorted((path.stat().st_mtime, path) for path in self._directory.iterdir())
        too_old = now().timestamp() - MOST_AGE_S
        kept = [path for at, path in found if at >= too_old]
        many = kept[: max(0, len(kept) - MOST_REPLIES)]
        self._drop([*(path for at, path in found if at < too_old), *many])

    def _drop(self, paths: Iterable[Path]) -> None:
        for path in list(paths):
            with suppress(OSError):
                path.unlink(missing_ok=True)
        with suppress(OSError):  # it is not empty, or not there
            self._directory.rmdir()

    def _path(self, name: str, key: str) -> Path:
        return self._directory / f"{name}_{key}.json"


def key_of(*question: str) -> str:
    """Return one hash for everything that a question is made of."""
    return sha256_of(json.dumps(question))[:_KEY_CHARS]
