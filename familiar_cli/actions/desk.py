"""What lies on a familiar's desk, with the time it is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from familiar_cli.clock import iso, now
from familiar_cli.memory import desk
from familiar_cli.memory.desk import due_items, parse_due, read_items
from familiar_cli.memory.layout import REMINDERS

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from familiar_cli.familiar import Familiar
    from familiar_cli.memory.desk import DeskItem, ItemStatus, ListChange


@dataclass(frozen=True, slots=True)
class ListedItem:
    """One item of a list.

    Args:
        number: Its number.
        text: What it says, without its time.
        mark: `open`, `done` or `dropped`.
        due: Its time as it is written; None: it has none.
        at: When that is, in UTC; None where it says nothing that can be read.
        is_due: It is open and its time has come; for a reminder also one without a time.
        line: Where it stands in the file, from 1.
    """

    number: int
    text: str
    mark: str
    due: str | None
    at: str | None
    is_due: bool
    line: int


@dataclass(frozen=True, slots=True)
class Desk:
    """A list, with the items that are done."""

    rel_path: str
    items: tuple[ListedItem, ...]


@dataclass(frozen=True, slots=True)
class ItemChange:
    """What became of an item, or would.

    Args:
        rel_path: Its list.
        item: The item, as it is now.
        changed: The file is another one now.
        diff: How; unified, empty when nothing changed.
        dry_run: Nothing was changed.
    """

    rel_path: str
    item: ListedItem
    changed: bool
    diff: str
    dry_run: bool


def read_list(familiar: Familiar, rel_path: str) -> Desk:
    """Read the list at `rel_path`: the reminders or the tasks.

    Raises:
        BadInputError: The file is not UTF-8.
    """
    items = read_items(familiar.memory, rel_path)
    return Desk(rel_path, _list_items(items, rel_path, now(), familiar.zone))


def add_item(
    familiar: Familiar, rel_path: str, text: str, when: str | None, *, dry_run: bool = False
) -> ItemChange:
    """Write a reminder or a task down.

    Raises:
        UsageError: `text` is empty or too long, or `when` is not a time.
        RefusedError: The file was changed meanwhile, or may not be written; it stays as it was.
    """
    due = parse_due(when, now(), familiar.zone) if when is not None else None
    phrases = familiar.phrases
    added = desk.add_item(familiar.memory, rel_path, text, due, phrases=phrases, dry_run=dry_run)
    return _finish_item(familiar, added)


def mark_item(
    familiar: Familiar, rel_path: str, number: int, mark: ItemStatus, *, dry_run: bool = False
) -> ItemChange:
    """Put another mark on an item.

    Raises:
        NotFoundError: There is no such item.
        RefusedError: The file was changed meanwhile; it stays as it was.
    """
    marked = desk.mark_item(familiar.memory, rel_path, number, mark, dry_run=dry_run)
    return _finish_item(familiar, marked)


def _finish_item(familiar: Familiar, change: ListChange) -> ItemChange:
    assert change.item is not None
    item = _list_items((change.item,), change.rel_path, now(), familiar.zone)[0]
    return ItemChange(change.rel_path, item, change.changed, change.diff, change.dry_run)


def _list_items(
    items: tuple[DeskItem, ...], rel_path: str, moment: datetime, zone: tzinfo | None
) -> tuple[ListedItem, ...]:
    # A reminder that names no time is due at any; a task without one is never late.
    timed = [item for item in items if rel_path == REMINDERS or (item.due and item.due.at(zone))]
    due = {item.number for item in due_items(timed, moment, zone)}
    return tuple(_listed_item(item, zone, is_due=item.number in due) for item in items)


def _listed_item(item: DeskItem, zone: tzinfo | None, *, is_due: bool) -> ListedItem:
    at = item.due.at(zone) if item.due else None
    return ListedItem(
        number=item.number,
        text=item.text,
        mark=item.mark.name,
        due=item.due.written if item.due else None,
        at=iso(at) if at else None,
        is_due=is_due,
        line=item.line,
    )
