"""Write a line into the notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.errors import UsageError
from familiar_cli.memory.layout import NOTES
from familiar_cli.text import harmless

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar


def take_note(familiar: Familiar, text: str) -> str:
    """Put a line at the end of the notes, as an item of a list; return the path of the file.

    Raises:
        UsageError: There are no words.
        LimitError: The file has no room for it.
    """
    line = " ".join(harmless(text).split())
    if not line:
        raise UsageError("The note is empty; nothing was changed")
    with familiar.memory.transaction("human", f"note in {NOTES}") as tx:
        tx.append(NOTES, f"- {line}\n", on_new_line=True)
    return NOTES
