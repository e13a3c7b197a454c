"""Reminders, tasks and notes, with times in the familiar's timezone."""

from __future__ import annotations

import json
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Final

from msgspec import Struct

from familiar_cli.base.files import read_object, write_own
from familiar_cli.base.text import one_line
from familiar_cli.base.times.clock import iso, now
from familiar_cli.familiar import Familiar
from familiar_cli.store.memory import desk
from familiar_cli.store.memory.desk import ItemStatus
from familiar_cli.store.memory.layout import REMINDERS

_LINE_CHARS: Final = 120


class ListedItem(Struct, frozen=True):
    """One item of a list.

    Args:
        text: Its text, without its time.
        mark: `open`, `done` or `dropped`.
        due: Its time as written, if any.
        at: The same in UTC; None if it cannot be parsed.
        is_due: It is open and its time has come; a reminder without a time always is.
        line: Its line in the file, from 1.
        every: Its recurrence, e.g. `every monday 09:00`, if any.
    """

    number: int
    text: str
    mark: str
    due: str | None
    at: str | None
    is_due: bool
    line: int
    every: str | None = None


class Desk(Struct, frozen=True):
    """A list, including done items."""

    rel_path: str
    items: tuple[ListedItem, ...]


class ItemChange(Struct, frozen=True):
    """The result of changing an item.

    Args:
        rel_path: Its list.
        item: The item after the change.
        changed: The file changed.
        diff: A unified diff, empty if nothing changed.
        dry_run: Nothing was written.
    """

    rel_path: str
    item: ListedItem
    changed: bool
    diff: str
    dry_run: bool


def read_todos(familiar: Familiar, rel_path: str) -> Desk:
    """Read the list at `rel_path`: the reminders or the tasks.

    Raises:
        BadInputError: The file is not UTF-8.
    """
    items = desk.read_items(familiar.memory, rel_path)
    return Desk(rel_path, list_items(items, rel_path, now(), familiar.zone))


def add_todo(
    familiar: Familiar, rel_path: str, text: str, when: str | None = None, *, dry_run: bool = False
) -> ItemChange:
    """Write a reminder or a task down.

    Args:
        familiar: Whose.
        rel_path: The list: `reminders.md` or `tasks.md`.
        text: What to do.
        when: Its time as people write it, e.g. `tomorrow 9:00` or `every monday`; None: none.
        dry_run: Write nothing.

    Raises:
        UsageError: `text` is empty or too long, or `when` is not a time.
        RefusedError: The file was changed meanwhile, or may not be written; it stays as it was.
    """
    due = desk.parse_due(when, now(), familiar.zone) if when is not None else None
    phrases = familiar.phrases
    added = desk.add_item(familiar.memory, rel_path, text, due, phrases=phrases, dry_run=dry_run)
    return _finish_item(familiar, added)


def mark_todo(
    familiar: Familiar, rel_path: str, number: int, mark: ItemStatus, *, dry_run: bool = False
) -> ItemChange:
    """Put another mark on an item; a recurring one is open again, for its next time.

    Args:
        familiar: Whose.
        rel_path: Its list.
        dry_run: Write nothing.

    Raises:
        NotFoundError: There is no such item.
        RefusedError: The file was changed meanwhile; it stays as it was.
    """
    change = desk.mark_item(
        familiar.memory, rel_path, number, mark, now=now(), zone=familiar.zone, dry_run=dry_run
    )
    return _finish_item(familiar, change)


def fire_reminders(familiar: Familiar, face: str) -> list[ListedItem]:
    """Return the due reminders that `face` has not shown yet.

    Each is shown once by each face, recurring ones once each time.

    Args:
        face: Who shows them, e.g. `chat`.

    Raises:
        BadInputError: The file of reminders is not UTF-8.
    """
    moment, path = now(), familiar.paths.reminded
    items = desk.read_items(familiar.memory, REMINDERS)
    came = desk.due_items(items, moment, familiar.zone)
    due = {_occurrence_key(item, moment, familiar): item for item in came}
    told = _read_told(path)
    new = [key for key in due if key not in told.get(face, [])]
    if not new and set(told.get(face, [])) <= set(due):
        return []
    write_own(path, json.dumps({**told, face: list(due)}, ensure_ascii=False).encode())
    fresh = tuple(due[key] for key in new)
    return list(list_items(fresh, REMINDERS, moment, familiar.zone))


def reminder_words(item: ListedItem) -> str:
    """Describe a due reminder in one line."""
    when = f" (due since {item.due})" if item.due else ""
    return f"Reminder: {one_line(item.text, _LINE_CHARS)}{when}"


def reminder_line(item: ListedItem) -> str:
    """Describe a due reminder, with the command that marks it as done."""
    return f"{reminder_words(item)}. `familiar todo done r{item.number}`"


def _occurrence_key(item: desk.DeskItem, moment: datetime, familiar: Familiar) -> str:
    latest = item.due.latest(moment, familiar.zone) if item.due else None
    return f"{iso(latest) if latest else ''} {item.text}"


def _read_told(path: Path) -> dict[str, list[str]]:
    """Read which reminders each face has shown; a damaged file counts as empty."""
    return {face: keys for face, keys in read_object(path).items() if isinstance(keys, list)}


def _finish_item(familiar: Familiar, change: desk.ListChange) -> ItemChange:
    assert change.item is not None
    item = list_items((change.item,), change.rel_path, now(), familiar.zone)[0]
    return ItemChange(change.rel_path, item, change.changed, change.diff, change.dry_run)


def list_items(
    items: tuple[desk.DeskItem, ...], rel_path: str, moment: datetime, zone: tzinfo | None
) -> tuple[ListedItem, ...]:
    """Describe the items of a list at a given time."""
    # A reminder without a time is always due; a task without one never is.
    timed = [item for item in items if rel_path == REMINDERS or (item.due and item.due.at(zone))]
    due = {item.number for item in desk.due_items(timed, moment, zone)}
    return tuple(_listed_item(item, zone, is_due=item.number in due) for item in items)


def _listed_item(item: desk.DeskItem, zone: tzinfo | None, *, is_due: bool) -> ListedItem:
    at = item.due.at(zone) if item.due else None
    return ListedItem(
        number=item.number,
        text=item.text,
        mark=item.mark.name,
        due=item.due.written if item.due else None,
        at=iso(at) if at else None,
        is_due=is_due,
        line=item.line,
        every=str(item.due.rule) if item.due and item.due.rule else None,
    )
