"""The pages of `familiar remind`, `familiar task` and `familiar scratch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.ui.emit import exact

if TYPE_CHECKING:
    from familiar_cli.actions.desk import Desk, ItemChange, ListedItem
    from familiar_cli.memory.desk import ListChange
    from familiar_cli.ui.emit import Output

_ADD = {
    "reminders.md": 'No open reminders: `familiar remind add TEXT --at "tomorrow 9:00"`.',
    "tasks.md": "No open tasks: `familiar task add TEXT`.",
}
_BOXES = {"open": " ", "done": "x", "dropped": "-"}


def show_items(out: Output, desk: Desk, *, every: bool) -> None:
    """Print a list; only what is open, unless `every`."""
    shown = [item for item in desk.items if every or item.mark == "open"]
    data = {"rel_path": desk.rel_path, "items": shown, "open": _count_open(desk)}
    out.answer(data | {"due": sum(item.is_due for item in desk.items)}, lambda: _print(shown))
    if not shown:
        out.note(_ADD[desk.rel_path])


def show_change(out: Output, done: ItemChange) -> None:
    """Print how the file changed, and which item it was."""
    out.answer(done, lambda: exact(done.diff))
    item = done.item
    if not done.changed:
        out.note(f"Number {item.number} is already {item.mark}; nothing was changed.")
        return
    when = f", {_when(item)}" if item.mark == "open" and item.due else ""
    out.note(f"Number {item.number} is {item.mark}{when}.")
    if done.dry_run:
        out.note("Nothing was changed (--dry-run).")


def show_scratch_change(out: Output, change: ListChange) -> None:
    """Print how the scratchpad changed."""
    data = {"rel_path": change.rel_path, "text": change.after, "before": change.before}
    more = {"changed": change.changed, "diff": change.diff, "dry_run": change.dry_run}
    out.answer(data | more, lambda: exact(change.diff))
    if not change.changed:
        what = "unchanged" if change.before else "empty"
        out.note(f"The scratchpad is {what}; nothing was changed.")
    elif change.dry_run:
        out.note("Nothing was changed (--dry-run).")


def _print(items: list[ListedItem]) -> None:
    from familiar_cli.ui.terminal import columns, plain, print_page

    rows = [
        [
            plain(item.number),
            plain(f"[{_BOXES[item.mark]}]"),
            plain(_when(item), "bold" if item.is_due else "dim"),
            plain(item.text),
        ]
        for item in items
    ]
    if rows:
        print_page(columns(rows, ("no.", "", "when", "what"), right=(0,)))


def _when(item: ListedItem) -> str:
    if item.due is None:
        return "due" if item.is_due else ""
    if item.at is None:
        return f"{item.due}: not a valid time"
    return f"due since {item.due}" if item.is_due else item.due


def _count_open(desk: Desk) -> int:
    return sum(item.mark == "open" for item in desk.items)
