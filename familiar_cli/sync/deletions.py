"""Merges that would delete a large part of the memory, and wait until a person accepts them."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.files import read_plain, write_own

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from familiar_cli.memory.journal.repository import Repository

_FILE: Final = "familiar-deletions.json"
_MOST_FILES: Final = 10
_MOST_SHARE: Final = 4  # one file in so many


@dataclass(frozen=True, slots=True)
class LargeDeletion:
    """A merge that waits, because it would delete many files.

    Args:
        commit: The commit of another instance that is not merged.
        instance: The instance whose branch it is.
        deleted: How many files merging it would delete.
        files: How many files there are.
    """

    commit: str
    instance: str
    deleted: int
    files: int


def count_deleted(changes: Mapping[str, str | None], here: Mapping[str, str]) -> int:
    """Return how many files changes delete; a file that is only moved is not deleted."""
    written = {id_ for id_ in changes.values() if id_ is not None}
    return sum(id_ is None and here.get(path) not in written for path, id_ in changes.items())


def is_large(deleted: int, files: int) -> bool:
    """Tell whether so many deletions wait for a person: over ten, and over a quarter of all."""
    return deleted > _MOST_FILES and deleted * _MOST_SHARE > files


class PendingDeletions:
    """The merges that wait, in a file of the journal; made again by the next sync when lost.

    Args:
        repository: The journal.
    """

    def __init__(self, repository: Repository) -> None:
        self._path = os.path.join(repository.path, _FILE)

    def all(self) -> tuple[LargeDeletion, ...]:
        """Return every merge that waits."""
        try:
            rows = json.loads(read_plain(self._path))
            return tuple(LargeDeletion(**row) for row in rows)
        except (OSError, ValueError, TypeError, RecursionError):
            return ()

    def note(self, found: Iterable[LargeDeletion], heads: Collection[str]) -> None:
        """Remember which merges wait, as far as that is possible.

        Args:
            found: Those that a sync found.
            heads: The commits that it looked at; what is remembered of others stays.
        """
        instances = {one.instance for one in found}
        before = self.all()
        kept = (o for o in before if o.commit not in heads and o.instance not in instances)
        now = (*kept, *found)
        if now != before:
            with suppress(OSError):
                rows = [asdict(one) for one in now]
                write_own(self._path, json.dumps(rows).encode(), durable=False)
