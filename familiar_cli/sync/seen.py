"""What was seen in a folder: each bundle, and what it says of itself. Made again when lost."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from familiar_cli.files import read_plain, write_own
from familiar_cli.sync.bundle import Header

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Seen:
    """One bundle. Its name holds a digest, so with the same size it is the same.

    Args:
        size_bytes: Its size.
        header: What it says of itself.
        is_sealed: Whether it is encrypted.
    """

    size_bytes: int
    header: Header
    is_sealed: bool


def read(path: str) -> dict[str, Seen]:
    """Read the commits seen last, by name; empty if the file is missing or damaged."""
    try:
        rows = json.loads(read_plain(path))
        return {
            name: Seen(
                row["bytes"], Header(dict(row["refs"]), tuple(row["needs"])), row["sealed"] is True
            )
            for name, row in rows.items()
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def write(path: str, found: Mapping[str, Seen]) -> None:
    """Remember what was seen, as far as that is possible."""
    rows = {
        name: {
            "bytes": s.size_bytes,
            "refs": dict(s.header.refs),
            "needs": s.header.needs,
            "sealed": s.is_sealed,
        }
        for name, s in found.items()
    }
    with suppress(OSError):
        write_own(path, json.dumps(rows).encode(), durable=False)
