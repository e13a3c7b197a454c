"""Take changes of the memory back, and make again what is derived from the files."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.actions.people import published
from familiar_cli.memory.layout import MEMORY_WRITER, PEOPLE_DIR

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.memory.journal.undo import Undone

_NOT_READ_AGAIN: Final = (
    "The turns behind what was undone count as read. To have them read again:"
    " `familiar write-memory --since WHEN` or `familiar write-memory --all`."
)


@dataclass(frozen=True, slots=True)
class UndoResult:
    """What was undone, or would be, and what the user should know."""

    undone: Undone
    notices: tuple[str, ...]


def undo(
    familiar: Familiar,
    word: str | None = None,
    *,
    run: str | None = None,
    dry_run: bool = False,
    merges: bool = False,
) -> UndoResult:
    """Take back one change, or all changes of a run; see `journal.undo.undo`.

    Raises:
        ConflictError: Later changes touch the same lines; nothing was changed.
        NotFoundError: There is no such commit or run, or nothing to take back.
        RefusedError: It merges what other machines wrote, and `merges` is not set.
    """
    done = familiar.past.undo(word, run=run, dry_run=dry_run, merges=merges)
    notices: tuple[str, ...] = ()
    if done.changes and any(commit.source == MEMORY_WRITER for commit in done.commits):
        notices = (_NOT_READ_AGAIN,)
    if not dry_run and any(c.rel_path.startswith(f"{PEOPLE_DIR}/") for c in done.changes):
        with closing(familiar.names()) as names:
            notices += published(names)
    return UndoResult(done, notices)
