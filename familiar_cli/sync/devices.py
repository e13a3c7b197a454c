"""The embodiments that are known here, and what each has seen: `embodiments.json`, made again.

Where the file is lost, embodiments are unknown until they pull again; no memory is lost with it.
"""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.files import locked, read_plain, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
