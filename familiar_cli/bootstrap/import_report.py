"""What an import did: one report, and the ledger in memory of what it wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

from familiar_cli.bootstrap.json_text import finite, no_constant
from familiar_cli.errors import BadInputError, PartialError
from familiar_cli.memory.store.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from familiar_cli.memory.store.store import MemoryStore


_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class Effects:
    """What became of each field and setting of a card or a book, in words.

    Args:
        in_every_prompt: What prompts always include.
        found_when_it_fits: What prompts include when it fits what is said.
        kept: What is kept for an export and has no effect here.
    """

    in_every_prompt: tuple[str, ...] = ()
    found_when_it_fits: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What became of each file, or would.

    Args:
        written: Files that are new or get new text, below `memory/`.
        unchanged: Files that hold already what they should.
        overwritten: Those of `written` that held something else.
        edited: Files that were changed or deleted here since the last import; they stay so.
        removed: Files of another card that are gone.
        in_every_prompt: Which fields and settings put text into every prompt.
        found_when_it_fits: Which put text into prompts that it fits.
        kept_unmapped: What is kept, but no prompt and no search sees it.
        left_out: What could not be read.
        warnings: What was odd.
    """

    written: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    overwritten: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    in_every_prompt: tuple[str, ...] = ()
    found_when_it_fits: tuple[str, ...] = ()
    kept_unmapped: tuple[str, ...] = ()
    left_out: tuple[UnreadFile, ...] = ()
    warnings: tuple[str, ...] = ()

    def values(self) -> dict[str, Any]:
        """Return its fields, for a larger report to begin with."""
        return {field.name: getattr(self, field.name) for field in fields(ImportReport)}

    def problem(self, of: str = "") -> PartialError | None:
        """Return the error that not everything was taken in; None: it was.

        Args:
            of: What was brought in, where there may be several.
        """
        if not self.left_out:
            return None
        listed = "; ".join(f"{one.file}: {one.reason}" for one in self.left_out[:_SHOWN])
        more = len(self.left_out) - _SHOWN
        return PartialError(
            f"Not everything{f' of {of!r}' if of else ''} was imported: {listed}"
            + (f"; and {more} more" if more > 0 else ""),
            hint="Replace the links with the files themselves and run the same command again.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FamiliarReport(ImportReport):
    """What making a familiar did, or would do.

    Args:
        id: The familiar's id.
        name: What it is called.
        path: Its directory.
        is_new: It did not exist before.
    """

    id: str
    name: str
    path: Path
    is_new: bool


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """Something in a folder that was not read, and why."""

    file: str
    reason: str


T = TypeVar("T")

_SHOWN_PATHS: Final = 12


def load(
    store: MemoryStore, rel_path: str, parse: Callable[[Any], T], *, keeps: str, hint: str
) -> T | None:
    """Return what `parse` makes of the ledger at `rel_path`; None when there is none.

    Args:
        store: The memory.
        rel_path: Where the ledger is.
        parse: May raise whatever a value of the wrong shape raises.
        keeps: What it keeps, for the error.
        hint: What to do about a damaged one.

    Raises:
        BadInputError: It is damaged, so nobody can tell what a person has edited since.
    """
    if not store.exists(rel_path):
        return None
    try:
        raw = store.read_bytes(rel_path)
        return parse(json.loads(raw, parse_float=finite, parse_constant=no_constant))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadInputError(
            f"{rel_path!r}, which keeps {keeps}, is damaged: {error or type(error).__name__}; "
            "nothing was changed",
            hint=hint,
        ) from error


def change(store: MemoryStore, rel_path: str, text: str) -> tuple[str, bytes, str]:
    """Return the change that writes a ledger: its path, its bytes, and what must be there now."""
    return rel_path, text.encode(), store.sha256(rel_path) or MISSING


def listed(paths: Iterable[str]) -> str:
    """Return the first few of `paths`, sorted, and how many more there are."""
    found = sorted(set(paths))
    more = len(found) - _SHOWN_PATHS
    return ", ".join(found[:_SHOWN_PATHS]) + (f" and {more} more" if more > 0 else "")
