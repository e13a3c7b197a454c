"""Reminders and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from familiar_cli.web.asking import Redirect, Shown, WebPage, to_number

if TYPE_CHECKING:
    from familiar_cli.web.asking import PageRequest


def show(asked: PageRequest) -> Shown:
    """Return both lists."""
    from familiar_cli.actions.desk import reminders_of, tasks_of

    every = "all" in asked.query
    lists = [
        ("reminder", "Reminders", reminders_of(asked.familiar)),
        ("task", "Tasks", tasks_of(asked.familiar)),
    ]
    return Shown("desk", {"lists": lists, "every": every})


def add(asked: PageRequest) -> Redirect:
    """Add an item."""
    from familiar_cli.actions.desk import add_reminder, add_task

    text, at = asked.sent("text"), asked.sent("at").strip()
    if asked.path["kind"] == "reminder":
        done = add_reminder(asked.familiar, text, at)
    else:
        done = add_task(asked.familiar, text, at or None)
    return Redirect(asked.to("desk"), (f"Added: {done.item.text}",))


def mark(asked: PageRequest) -> Redirect:
    """Tick an item off, drop it, or open it again."""
    from familiar_cli.actions.desk import tick_off
    from familiar_cli.errors import UsageError
    from familiar_cli.memory.desk import ItemStatus
    from familiar_cli.memory.layout import REMINDERS, TASKS

    if asked.sent("mark") not in ItemStatus.__members__:
        raise UsageError(f"Unknown mark: {asked.sent('mark')[:40]!r}; nothing was changed")
    rel_path = REMINDERS if asked.path["kind"] == "reminder" else TASKS
    number = to_number(asked.path["number"], "The item")
    done = tick_off(asked.familiar, rel_path, number, ItemStatus[asked.sent("mark")])
    return Redirect(asked.to("desk"), (f"{done.item.mark.capitalize()}: {done.item.text}",))


PAGES: Final = (
    WebPage("/desk", show),
    WebPage("/desk/{kind}", add, "POST"),
    WebPage("/desk/{kind}/{number}", mark, "POST"),
)
