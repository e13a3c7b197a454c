"""The machines of a familiar, and merges that wait for a person."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.files import locked, read_plain, write_own, write_whole

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from familiar_cli.memory.journal.repository import Repository


FILE_NAME: Final = "embodiments.json"
_TEXT_FIELDS: Final = ("id", "type", "name", "last_sync")


@dataclass(frozen=True, slots=True)
class Device:
    """One embodiment.

    Args:
        id: Which.
        type: What it is, in its own words.
        name: What people call it.
        last_sync: When it was last heard of, ISO 8601.
        seen: The version of the memory that it has said it holds; 0: none.
    """

    id: str
    type: str = ""
    name: str = ""
    last_sync: str = ""
    seen: int = 0


class Devices:
    """The embodiments of one familiar. Processes may share the file.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self) -> dict[str, Device]:
        """Return every one that is known, by id; none where the file is missing or damaged."""
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            rows = json.loads(read_plain(self._path))["devices"]
            return {row["id"]: _device(row) for row in rows}
        return {}

    def put(self, device: Device) -> None:
        """Remember one as it is now."""
        with self._changing() as known:
            known[device.id] = device

    def forget(self, device_id: str) -> bool:
        """Forget one; it has to pull before it may push again. Tells whether it was known."""
        with self._changing() as known:
            return known.pop(device_id, None) is not None

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Device]]:
        lock = self._path.with_name(f".{FILE_NAME}.lock")
        with locked(lock, what=str(self._path)):
            known = self.all()
            yield known
            rows = [asdict(device) for _, device in sorted(known.items())]
            write_whole(self._path, json.dumps({"version": 1, "devices": rows}, indent=1) + "\n")


def _device(row: dict[str, object]) -> Device:
    texts = {name: str(row.get(name, "")) for name in _TEXT_FIELDS}
    seen = row.get("seen")
    return Device(**texts, seen=seen if isinstance(seen, int) and seen > 0 else 0)


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
