"""A persona's `TASKS.json`, as a list that a person can read and edit."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.bootstrap.json_text import read_json
from familiar_cli.errors import BadInputError
from familiar_cli.languages import ENGLISH, phrases
from familiar_cli.languages.detect import language_of
from familiar_cli.memory.desk.items import MAX_CHARS, Mark
from familiar_cli.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

_TITLES: Final = ("title", "task", "text", "name", "description", "content")
_MARKS: Final = {
    **dict.fromkeys(("done", "completed", "complete", "closed", "finished"), Mark.done),
    **dict.fromkeys(("dropped", "cancelled", "canceled", "abandoned"), Mark.dropped),
}
_OPEN: Final = frozenset({"open", "todo", "pending", "new"})
_DUE: Final = ("due", "due_date", "due_at", "deadline")
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")  # as a line of the task list bears it


def tasks_markdown(text: str) -> str | None:
    """Return the tasks as a Markdown list; None when the JSON holds no list of tasks.

    What a task says beside its title, its time and how it stands is told in lines below it.
    """
    try:
        value, _ = read_json(text, origin="TASKS.json")
    except BadInputError:
        return None
    listed = value.get("tasks") if isinstance(value, dict) else value
    if not isinstance(listed, list):
        return None
    tasks = [_task(task) for task in listed]
    if any(task is None for task in tasks):
        return None
    listed = "".join(f"{task}\n" for task in tasks)
    return f"# {phrases(language_of(listed) or ENGLISH.code).tasks}\n\n{listed}"


def _task(task: object) -> str | None:
    if isinstance(task, str):
        return f"- [ ] {one_line(task, MAX_CHARS)}" if task.strip() else None
    if not isinstance(task, dict):
        return None
    title = next((key for key in _TITLES if isinstance(task.get(key), str)), "")
    if not (title and task[title].strip()):
        return None
    due = next((key for key in _DUE if isinstance(task.get(key), str) and task[key]), "")
    mark, told = _standing(task)
    line = f"- [{mark}] {one_line(task[title], MAX_CHARS)}{_until(task.get(due, ''))}"
    return "\n".join([line, *_more(task, {title, due, *told})])


def _until(due: str) -> str:
    if _DAY.fullmatch(due):
        return f" @{due}"
    return f" (due {one_line(due, 40)})" if due else ""


def _standing(task: dict[str, Any]) -> tuple[Mark, set[str]]:
    """Return how a task stands, and the fields that say so."""
    told = {key for key in _MARKS if task.get(key) is False}
    given = task.get("status")
    status = given.strip().lower() if isinstance(given, str) else ""
    if status in _MARKS:
        return _MARKS[status], {"status", *told}
    ended = next((key for key in _MARKS if task.get(key) is True), None)
    if ended:
        return _MARKS[ended], {ended, *told}
    return Mark.open, {"status", *told} if status in _OPEN else told


def _more(task: dict[str, Any], told: set[str]) -> Iterator[str]:
    for key, value in task.items():
        if key in told:
            continue
        # A name with marks in it could begin a list or a block of code.
        name = key if key.replace("_", "").isalnum() else json.dumps(key, ensure_ascii=False)
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield f"  {one_line(name, MAX_CHARS)}: {one_line(shown, MAX_CHARS)}".rstrip()
