"""What is kept of each pass: `runs/<run>.jsonl`, and unusable replies in `quarantine/`.

The first line of a record says what the pass was, each further line tells of one step, and the last
one how it ended. A record without a last line is of a pass that was killed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import FamiliarError
from familiar_cli.files import append, check_own, read_plain, write_own

if TYPE_CHECKING:
    from pathlib import Path

SUFFIX: Final = ".jsonl"


class Runs:
    """Where records and unusable replies go.

    Args:
        directory: Of the records.
        quarantine: Of the replies.
    """

    def __init__(self, directory: Path, quarantine: Path) -> None:
        self._directory = directory
        self._quarantine = quarantine

    def note(self, run: str, entry: dict[str, Any]) -> None:
        """Add a line to a record.

        Raises:
            FamiliarError: The disk refused.
        """
        line = json.dumps(entry, ensure_ascii=True, default=_plain) + "\n"
        path = self._directory / f"{run}{SUFFIX}"
        try:
            append(path, line.encode())
        except OSError as error:
            raise FamiliarError(f"The record {str(path)!r} cannot be written: {error}") from error

    def read(self, run: str) -> list[dict[str, Any]]:
        """Return the lines of a record; empty when there is none."""
        check_own(self._directory)
        path = self._directory / f"{run}{SUFFIX}"
        if not path.exists():
            return []
        lines = read_plain(path).decode("utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def keep_reply(self, run: str, text: str) -> Path:
        """Put a reply that could not be used away, word for word, and return where it is.

        Raises:
            FamiliarError: The disk refused.
        """
        check_own(self._quarantine)
        number = 1 + sum(1 for _ in self._quarantine.glob(f"{run}-*.txt"))
        path = self._quarantine / f"{run}-{number}.txt"
        try:
            write_own(path, text.encode("utf-8", errors="surrogatepass"))
        except OSError as error:
            raise FamiliarError(
                f"An unusable reply could not be kept in {str(path)!r}: {error}"
            ) from error
        return path


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)
