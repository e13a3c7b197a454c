"""A persona's `TASKS.json`, as a list that a person can read and edit."""

from __future__ import annotations

import re
from typing import Any, Final

from familiar_cli.bootstrap.json_text import read_json
from familiar_cli.errors import BadInputError
from familiar_cli.text import one_line

_TITLES: Final = ("title", "task", "text", "name", "description", "content")
_DONE: Final = frozenset({"done", "completed", "complete", "closed", "finished"})
_DUE: Final = ("due", "due_date", "due_at", "deadline")
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")  # as a line of the task list bears it
_MOST_CHARS: Final = 500


def tasks_markdown(text: str) -> str | None:
    """Return the tasks as a Markdown list; None when the JSON holds no list of tasks."""
    try:
        value, _ = read_json(text, origin="TASKS.json")
    except BadInputError:
        return None
    listed = value.get("tasks") if isinstance(value, dict) else value
    if not isinstance(listed, list):
        return None
    lines = [_line(task) for task in listed]
    if any(line is None for line in lines):
        return None
    return "# Tasks\n\n" + "".join(f"{line}\n" for line in lines)


def _line(task: object) -> str | None:
    if isinstance(task, str):
        return f"- [ ] {one_line(task, _MOST_CHARS)}" if task.strip() else None
    if not isinstance(task, dict):
        return None
    title = next((task[key] for key in _TITLES if isinstance(task.get(key), str)), "")
    if not title.strip():
        return None
    due = next((task[key] for key in _DUE if isinstance(task.get(key), str) and task[key]), "")
    until = (f" @{due}" if _DAY.fullmatch(due) else f" (due {one_line(due, 40)})") if due else ""
    return f"- [{'x' if _is_done(task) else ' '}] {one_line(title, _MOST_CHARS)}{until}"


def _is_done(task: dict[str, Any]) -> bool:
    status = task.get("status")
    named = isinstance(status, str) and status.strip().lower() in _DONE
    return named or any(task.get(key) is True for key in _DONE)
