"""The files of the desk, and every change of them: one transaction, and never over an unseen edit.

`reminders.md`, `tasks.md` and `scratch.md` stand directly in the memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.diffs import unified
from familiar_cli.errors import BadInputError, ConflictError, NotFoundError, UsageError
from familiar_cli.languages import ENGLISH
from familiar_cli.memory.desk.items import find_item, item_words, items_in, marked, with_item
from familiar_cli.memory.layout import SCRATCH, TASKS
from familiar_cli.memory.store.types import MISSING
from familiar_cli.text import one_line, typed

if TYPE_CHECKING:
    from familiar_cli.languages import Phrases
    from familiar_cli.memory.desk.due import Due
    from familiar_cli.memory.desk.items import Item, Mark
    from familiar_cli.memory.store.store import MemoryStore

_MESSAGE_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class ListChange:
    """What was changed, or would be.

    Args:
        rel_path: The file.
        before: What it held.
        after: What it holds now.
        item: The item it is about, as it is now.
        dry_run: Nothing was changed.
    """

    rel_path: str
    before: str
    after: str
    item: Item | None = None
    dry_run: bool = False

    @property
    def changed(self) -> bool:
        """Whether the file is another one now."""
        return self.before != self.after

    @property
    def diff(self) -> str:
        """How; unified, empty when nothing changed."""
        return unified(self.before, self.after, self.rel_path)


def read_items(store: MemoryStore, rel_path: str) -> tuple[Item, ...]:
    """Return the items of a list; none when there is no such file.

    Raises:
        BadInputError: The file is not UTF-8.
    """
    return items_in(_read(store, rel_path)[0])


def add_item(
    store: MemoryStore,
    rel_path: str,
    text: str,
    due: Due | None = None,
    *,
    phrases: Phrases = ENGLISH,
    dry_run: bool = False,
) -> ListChange:
    """Write one more item down; `phrases` name the file where it is a new one.

    Raises:
        UsageError: `text` is empty or too long.
        BadInputError: No item can stand at the end of the file.
        ConflictError: The file was changed meanwhile; nothing was written.
    """
    words = item_words(text)
    words = f"{words} @{due.written}" if due else words
    before, sha256 = _read(store, rel_path)
    title = phrases.tasks if rel_path == TASKS else phrases.reminders
    after = with_item(before, title, words)
    items = items_in(after)
    if len(items) <= len(items_in(before)):
        raise BadInputError(
            f"{rel_path!r} ends inside a code block, where items are not read; nothing was changed",
            hint=f"Close the code block; see `familiar memory cat {typed(rel_path)}`.",
        )
    _write(store, rel_path, after, sha256, f"add {words}", dry_run=dry_run)
    return ListChange(rel_path, before, after, items[-1], dry_run)


def mark_item(
    store: MemoryStore, rel_path: str, number: int, mark: Mark, *, dry_run: bool = False
) -> ListChange:
    """Put another mark on an item; on one that has it already nothing changes.

    Raises:
        NotFoundError: There is no such item.
        ConflictError: The file was changed meanwhile; nothing was written.
    """
    before, sha256 = _read(store, rel_path)
    item = find_item(items_in(before), number, rel_path)
    after = before if item.mark is mark else marked(before, item, mark)
    if before != after:
        _write(store, rel_path, after, sha256, f"{mark.name} {item.text}", dry_run=dry_run)
    now = find_item(items_in(after), number, rel_path)
    return ListChange(rel_path, before, after, now, dry_run)


def read_scratch(store: MemoryStore) -> str:
    """Return what stands on the scratchpad; empty when there is none."""
    return _read(store, SCRATCH)[0]


def add_scratch(store: MemoryStore, text: str, *, dry_run: bool = False) -> ListChange:
    """Put `text` below what stands on the scratchpad.

    Raises:
        UsageError: `text` is empty.
        ConflictError: The file was changed meanwhile; nothing was written.
    """
    if not text.strip():
        raise UsageError(
            "The text is empty; nothing was changed",
            hint="Put the text in quotation marks, or use `-` to read standard input.",
        )
    before, sha256 = _read(store, SCRATCH)
    gap = "" if not before or before.endswith("\n") else "\n"
    after = f"{before}{gap}{text}" + ("" if text.endswith("\n") else "\n")
    _write(store, SCRATCH, after, sha256, "add to the scratchpad", dry_run=dry_run)
    return ListChange(SCRATCH, before, after, dry_run=dry_run)


def put_scratch(store: MemoryStore, text: str, *, was: str, dry_run: bool = False) -> ListChange:
    """Put `text` in the place of what stood on the scratchpad; an empty one deletes the file.

    Raises:
        ConflictError: Something else than `was` stands there now; it stays.
    """
    before, sha256 = _read(store, SCRATCH)
    if before != was:
        raise ConflictError(
            f"{SCRATCH!r} was changed meanwhile; it was not overwritten",
            hint="Run the command again.",
        )
    if before and not text.strip():
        return clear_scratch(store, dry_run=dry_run)
    if text != before:
        _write(store, SCRATCH, text, sha256, "edit the scratchpad", dry_run=dry_run)
    return ListChange(SCRATCH, before, text, dry_run=dry_run)


def clear_scratch(store: MemoryStore, *, dry_run: bool = False) -> ListChange:
    """Throw away what stands on the scratchpad: the file is deleted.

    Raises:
        ConflictError: The file was changed meanwhile; it stays.
    """
    before, sha256 = _read(store, SCRATCH)
    if sha256 != MISSING:
        with store.transaction("human", "clear the scratchpad", dry_run=dry_run) as tx:
            tx.delete(SCRATCH, expect=sha256)
    return ListChange(SCRATCH, before, "", dry_run=dry_run)


def _read(store: MemoryStore, rel_path: str) -> tuple[str, str]:
    """Return a file's text, and what it must still be when it is written."""
    try:
        file = store.read(rel_path)
    except NotFoundError:
        return "", MISSING
    return file.text, file.sha256


def _write(
    store: MemoryStore, rel_path: str, text: str, expect: str, message: str, *, dry_run: bool
) -> None:
    told = one_line(message, _MESSAGE_CHARS)
    with store.transaction("human", told, dry_run=dry_run) as tx:
        tx.write(rel_path, text, expect=expect)
