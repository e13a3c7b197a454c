"""Tools for reminders, tasks, notes, pending plans and significant moments."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.actions.memory.write_memories import MemoryAddress, Writer, create_memory
from familiar_cli.base.errors import BadInputError, FamiliarError, NotFoundError, UsageError
from familiar_cli.base.text import counted, one_line, slugify, unified_file
from familiar_cli.base.times.clock import iso, now
from familiar_cli.familiar import Familiar
from familiar_cli.servers.mcp.tool import Answer, Tool, ToolItem, choice_of, is_readable, text_of
from familiar_cli.servers.mcp.writing_tools import (
    RUN_NOTE,
    check_may_run,
    describe_write,
    named_day,
    writer_of,
)
from familiar_cli.store.memory import desk, layout
from familiar_cli.store.memory.pages.lines import citations_in
from familiar_cli.store.memory.pages.visible_lines import outward_text
from familiar_cli.store.passes import PATIENCE_S
from familiar_cli.writing.pending import DECISION, lines_of, parse_plan, read_pending

if TYPE_CHECKING:
    from familiar_cli.servers.mcp.tool import Arguments, Caller
    from familiar_cli.store.journal.history import LoggedChange
    from familiar_cli.store.memory.store.store import MemoryStore
    from familiar_cli.writing.pending import PlannedFile, ReviewPlan
    from familiar_cli.writing.writer.memory_writer import Mode

_LISTS: Final = {"reminder": layout.REMINDERS, "task": layout.TASKS, "note": layout.SCRATCH}
_MARKS: Final = {"done": desk.ItemStatus.done, "drop": desk.ItemStatus.dropped}
_DECIDED: Final = 20  # decided plans among the newest changes
_LOOKED_AT: Final = 200
_TITLE_CHARS: Final = 60
_MOST_NAMES: Final = 20


def todo(caller: Caller, arguments: Arguments) -> Answer:
    """List reminders, tasks and notes, add one, or mark one.

    Raises:
        NotFoundError: No such item.
        UsageError: An argument that the action needs is missing.
    """
    from familiar_cli.actions.memory.edit_memories import edit_list

    action, kind = arguments.get("action", "list"), arguments.get("kind")
    if "action" not in arguments and "text" in arguments:
        action = "add"
    if action == "list":
        return _list_desk(caller, kind)
    of_id = {"r": "reminder", "t": "task"}.get(arguments.get("id", "")[:1])
    kind = of_id or kind or ("reminder" if "when" in arguments else "task")
    change = _add_item if action == "add" else _mark_item
    outcome = edit_list(
        caller.familiar,
        writer_of(caller),
        _LISTS[kind],
        lambda text: change(caller, kind, text, arguments),
    )
    return describe_write(outcome)


def _add_item(caller: Caller, kind: str, text: str, arguments: Arguments) -> str:
    if not arguments.get("text"):
        raise UsageError("todo needs 'text' to add; nothing was changed")
    words, phrases = desk.item_words(arguments["text"]), caller.familiar.phrases
    if kind == "note":
        gap = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{gap}{words}\n"
    if when := arguments.get("when"):
        words = f"{words} {desk.parse_due(when, now(), caller.familiar.zone).mark}"
    after = desk.with_item(text, phrases.tasks if kind == "task" else phrases.reminders, words)
    if len(desk.items_in(after)) <= len(desk.items_in(text)):
        raise BadInputError(
            f"{_LISTS[kind]!r} ends inside a code block, where items are not read; nothing was "
            "changed",
            hint="Close the code block with memory_edit.",
        )
    return after


def _mark_item(caller: Caller, kind: str, text: str, arguments: Arguments) -> str:
    wanted, items = arguments.get("id", "").lstrip("rt#"), desk.items_in(text)
    if kind == "note" or not wanted.isdecimal():
        raise UsageError(
            "todo needs the 'id' of a reminder or task, such as r1; nothing was changed",
            hint="A note is a line of scratch.md, which memory_edit changes.",
        )
    try:
        item = desk.find_item(items, int(wanted), _LISTS[kind])
    except NotFoundError as error:
        raise NotFoundError(str(error), hint="`todo` with action list shows them.") from error
    return desk.mark_line(text, item, _MARKS[arguments["action"]], now(), caller.familiar.zone)


def _list_desk(caller: Caller, kind: str | None) -> Answer:
    items = [item for one in ([kind] if kind else _LISTS) for item in _items_of(caller, one)]
    due = sum("due" in item.about for item in items)
    notes = [f"{counted(due, 'item')} due now."] if due else []
    return Answer(items, notes if items else ["There is nothing on the list."])


def due_reminder_notes(caller: Caller) -> list[str]:
    """Report to the owner's programs how many reminders became due, each once.

    Their texts are data, which `todo` shows. Another program's call leaves them for the owner's.
    """
    from familiar_cli.actions.memory.desk import fire_reminders

    if not caller.viewer.is_owner:
        return []
    with suppress(FamiliarError, OSError):  # `todo` reports the error
        known = [item.text for item in _items_of(caller, "reminder") if "due" in item.about]
        new = {item.text for item in fire_reminders(caller.familiar, "mcp")} if known else set()
        if count := sum(text in new for text in known):
            return [f"{counted(count, 'reminder')} became due; `todo` lists what is due."]
    return []


def _items_of(caller: Caller, kind: str) -> Iterator[ToolItem]:
    from familiar_cli.actions.memory.desk import list_items

    store, rel_path = caller.familiar.memory, _LISTS[kind]
    if not store.exists(rel_path):
        return
    read = store.read_file if caller.viewer.is_owner else store.readable
    text = outward_text(read(rel_path), caller.viewer, rel_path)
    if kind == "note":
        yield ToolItem({"kind": kind, "path": rel_path}, text)
        return
    for item in list_items(desk.items_in(text), rel_path, now(), caller.familiar.zone):
        about: dict[str, Any] = {"id": f"{kind[0]}{item.number}", "kind": kind, "status": item.mark}
        more = {"when": item.due, "every": item.every, "due": item.is_due}
        yield ToolItem(about | {name: value for name, value in more.items() if value}, item.text)


def remember(caller: Caller, arguments: Arguments) -> Answer:
    """Save a moment in a file of its own."""
    body = arguments["text"].strip()
    if not body.lstrip("# \n"):
        raise UsageError("The text is empty; nothing was changed", hint="Send `text`.")
    first = body.lstrip("#").strip().partition("\n")[0]
    title = one_line(arguments.get("title") or first, _TITLE_CHARS)
    text = f"# {title}\n\n{body}\n"
    day = named_day(caller, arguments.get("date"))
    writer = writer_of(caller, slugify(caller.client))
    stem = f"{layout.SIGNIFICANT_DIR}/{day}_{slugify(title) or 'memory'}"
    path = _free_path(caller.familiar.memory, writer, stem, text)
    return describe_write(create_memory(caller.familiar, writer, MemoryAddress(path), text))


def _free_path(store: MemoryStore, writer: Writer, stem: str, text: str) -> str:
    """Return a path where the writer knows of no file, or of one with this content."""
    for number in range(1, _MOST_NAMES):
        path = f"{stem}.md" if number == 1 else f"{stem}-{number}.md"
        there = store.readable(path)
        if not writer.sees(path, there) or outward_text(there, writer.viewer, path) in {"", text}:
            return path
    raise UsageError(
        f"There are already {_MOST_NAMES - 1} memories called {stem!r}; nothing was changed",
        hint="Send another `title`.",
    )


def memory_write(caller: Caller, arguments: Arguments) -> Answer:
    """Run the memory writer on the turns since its last pass."""
    from familiar_cli.actions.memory.write_memory import write_memory

    del arguments
    check_may_run(caller)
    own = Familiar(caller.familiar.paths)  # a model is bound to its event loop

    async def write() -> Any:  # noqa: ANN401  # the report of the writer
        try:
            mode: Mode = "apply" if caller.allow_write else "review"
            return await write_memory(own, mode, wait_s=min(PATIENCE_S, _PATIENCE_S))
        finally:
            await own.aclose()

    report = asyncio.run(write())
    if report.error:
        raise report.error
    status = "written" if caller.allow_write else "planned"
    if not caller.viewer.is_owner:  # files, plans and turns may be of what was said in private
        return Answer(notes=[RUN_NOTE])
    items = [
        ToolItem({"path": path, "status": status})
        for path in report.files
        if is_readable(path, caller.viewer)
    ]
    if report.pending:
        items.append(ToolItem({"plan": report.pending, "status": "planned"}))
    note = f"The memory writer read {counted(report.turns_covered, 'turn')}."
    return Answer(items, [note if report.turns_covered else "No turn waits to be written down."])


def plans_list(caller: Caller, arguments: Arguments) -> Answer:
    """List the pending plans of all sessions, and the outcome of recent ones."""
    del arguments
    waiting: list[ToolItem] = []
    ids = caller.familiar.memory.plan_ids()
    for plan_id in ids:
        try:
            item = _waiting_item(caller, read_pending(caller.familiar.memory, plan_id))
        except (BadInputError, NotFoundError):  # damaged, or decided meanwhile
            continue
        waiting += [item] if item else []
    decided = list(islice(_decided_plans(caller, set(ids)), _DECIDED))
    notes = [] if waiting else ["No plan waits."]
    if waiting:
        notes = ["A person decides on plans; memory_undo withdraws those of this session."]
    return Answer([*waiting, *decided], notes)


def _waiting_item(caller: Caller, plan: ReviewPlan) -> ToolItem | None:
    """Return a plan as the caller may see it; None if all of it is hidden."""
    diffs = _visible_diffs(caller, plan)
    if not diffs:
        return None
    about = {
        "plan": plan.id,
        "status": "waiting",
        "created": plan.created,
        "source": plan.source,
        "yours": plan.run == caller.session,
        "paths": list(diffs),
    }
    return ToolItem(about, "".join(diffs.values()))


def _visible_diffs(caller: Caller, plan: ReviewPlan) -> dict[str, str]:
    """Return the diffs of what the caller would see change, by the paths that it knows.

    Others than the owner are not told what the owner's programs proposed.
    """
    diffs, viewer = {}, caller.viewer
    for file in plan.files if writer_of(caller).knows(plan) else ():
        path = file.rel_path
        if not is_readable(path, viewer):
            continue
        before = outward_text(file.before or "", viewer, path)
        after = outward_text(file.after, viewer, path)
        if before != after and not _rests_on_hidden_turns(file, after):
            told = caller.told(path)
            diffs[told] = unified_file(told, before or None, after or None)
    return diffs


def _rests_on_hidden_turns(file: PlannedFile, seen: str) -> bool:
    """Tell whether a change adds lines that cite turns, all of them hidden from the caller."""
    old, after, shown = ({*lines_of(text)} for text in (file.before or "", file.after, seen))
    citing = {line for line in after - old if citations_in(line)}
    return bool(citing) and citing.isdisjoint(shown)


def _decided_plans(caller: Caller, waiting: set[str]) -> Iterator[ToolItem]:
    """Yield the plans decided last of which the caller may see something."""
    try:
        changes = caller.familiar.past.log(layout.PENDING_DIR, limit=_LOOKED_AT)
    except NotFoundError:
        return
    with closing(caller.familiar.journal.repository) as repository:
        for change in changes:
            words, _, plan_id = change.commit.message.partition(" ")
            if words != DECISION or plan_id in waiting:
                continue
            file = f"{layout.PENDING_DIR}/{plan_id}.json"
            with suppress(BadInputError):
                content = repository.file_at(change.commit.parent, file) or b""
                if known := _visible_diffs(caller, parse_plan(plan_id, content)):
                    yield _decided_item(caller, plan_id, change, known)


def _decided_item(
    caller: Caller, plan_id: str, change: LoggedChange, known: Collection[str]
) -> ToolItem:
    touched = {caller.told(file.rel_path) for file in change.commit.touched or change.touched}
    paths = [path for path in known if path in touched]
    about = {"plan": plan_id, "status": "applied" if paths else "rejected"}
    decided = {"decided": iso(change.commit.time), "source": change.commit.source}
    return ToolItem({**about, **decided, "paths": paths})


_PATIENCE_S: Final = 20.0  # clients time out after a minute

TOOLS: Final = (
    Tool(
        "remember",
        "Keep a significant moment.",
        {
            "text": text_of("What happened"),
            "date": text_of("Default: today"),
            "title": text_of("Default: first words"),
        },
        remember,
        needs=("text",),
        kind="add",
    ),
    Tool(
        "todo",
        "Reminders, tasks and notes.",
        {
            "action": choice_of("What to do", "list", "add", "done", "drop", default="list"),
            "kind": choice_of("Default: all", *_LISTS),
            "text": text_of("Of a new item"),
            "when": text_of("tomorrow 9:00"),
            "id": text_of("As listed: r1"),
        },
        todo,
        kind="add",
    ),
    Tool(
        "memory_write",
        "Write recent turns to memory now.",
        {},
        memory_write,
        kind="add",
        instead="memory_create writes a file; memory_edit changes one.",
    ),
    Tool(
        "plans_list", "Changes that wait for a person, and decisions.", {}, plans_list, pages=True
    ),
)
