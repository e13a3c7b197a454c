"""What lies on the familiar's desk: reminders, tasks and a scratchpad, in Markdown."""

from familiar_cli.memory.desk.files import (
    ListChange,
    add_item,
    add_scratch,
    clear_scratch,
    mark_item,
    put_scratch,
    read_items,
    read_scratch,
)
from familiar_cli.memory.desk.items import Item, Mark, due_items
from familiar_cli.memory.layout import REMINDERS, SCRATCH, TASKS

__all__ = [
    "REMINDERS",
    "SCRATCH",
    "TASKS",
    "Item",
    "ListChange",
    "Mark",
    "add_item",
    "add_scratch",
    "clear_scratch",
    "due_items",
    "mark_item",
    "put_scratch",
    "read_items",
    "read_scratch",
]
