"""What bringing something in did: one report for cards, personas and trees of memories."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import PartialError

if TYPE_CHECKING:
    from pathlib import Path


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
    left_out: tuple[LeftOut, ...] = ()
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
class LeftOut:
    """Something in a folder that was not read, and why."""

    file: str
    reason: str
