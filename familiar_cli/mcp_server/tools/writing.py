"""`memory_create`, `memory_update`, `memory_delete`, `memory_consolidate` and `memory_undo`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.mcp_server.tool import FLAG, TEXT, TEXTS, Answer, Tool, ToolItem, one_of
from familiar_cli.memory.layout import DAILY_DIR, PERIOD_DIRS, SIGNIFICANT_DIR
from familiar_cli.text import counted, slugify

if TYPE_CHECKING:
    from familiar_cli.actions.write_memories import MemoryAddress, WriteOutcome, Writer
    from familiar_cli.mcp_server.tool import Arguments, Caller

_SLUG_WORDS: Final = 6
_NOTES: Final = {
    "written": "Written to {path}.",
    "deleted": "Deleted {path}.",
    "unchanged": "Nothing new: {path} is unchanged.",
    "planned": "Memory is unchanged: the change to {path} waits for review as plan {plan}.",
    "held": "Memory is unchanged: the change would halve {path}, so it waits for review as plan "
    "{plan}.",
}
_MERGED: Final = (
    "It was edited since this session read it; both are in it: read it again before another change."
)
_PLACE: Final = {
    "granularity": one_of(*PERIOD_DIRS, SIGNIFICANT_DIR),
    "date": TEXT,
    "slug": TEXT,
    "instanceId": TEXT,
    "path": TEXT,
}


def memory_create(caller: Caller, arguments: Arguments) -> Answer:
    """Write a memory down."""
    from familiar_cli.actions.write_memories import create_memory

    named = arguments.get("instanceId") or arguments.get("sourceInstance")
    instance = named or slugify(caller.client)
    made = create_memory(
        caller.familiar,
        writer_of(caller, instance),
        _new_place(caller, arguments, instance),
        arguments["content"],
        chats=arguments.get("chatIds", ()),
        participating=arguments.get("participatingInstances", ()),
    )
    return _answer(made)


def memory_update(caller: Caller, arguments: Arguments) -> Answer:
    """Replace a memory's text."""
    from familiar_cli.actions.write_memories import update_memory

    instance = arguments.get("instanceId", "")
    made = update_memory(
        caller.familiar,
        writer_of(caller, instance),
        _place(arguments, instance),
        arguments["content"],
        edited_by=arguments.get("editedBy", ""),
    )
    return _answer(made)


def memory_delete(caller: Caller, arguments: Arguments) -> Answer:
    """Delete a memory."""
    from familiar_cli.actions.write_memories import delete_memory

    instance = arguments.get("instanceId", "")
    place = _place(arguments, instance)
    return _answer(delete_memory(caller.familiar, writer_of(caller, instance), place))


def memory_undo(caller: Caller, arguments: Arguments) -> Answer:
    """Take back what this session wrote."""
    from familiar_cli.actions.write_memories import take_back

    done = take_back(caller.familiar, writer_of(caller), everything=arguments.get("all", False))
    files = [ToolItem({"path": path, "status": "restored"}) for path in done.rel_paths]
    plans = [ToolItem({"plan": plan, "status": "withdrawn"}) for plan in done.plans]
    told = f"Undid {counted(len(files), 'file')} and {counted(len(plans), 'plan')}."
    return Answer([*files, *plans], [told])


def memory_consolidate(caller: Caller, arguments: Arguments) -> Answer:
    """Make weeks, months and years."""
    from familiar_cli.actions.consolidate import consolidate_memories

    done = consolidate_memories(
        caller.familiar,
        may_write=caller.allow_write,
        granularity=arguments.get("granularity", ""),
        period=arguments.get("targetDate", ""),
    )
    items = [ToolItem({"path": path, "status": "written"}) for path in done.made]
    items += [
        ToolItem({"period": period, "plan": plan, "status": "planned"})
        for period, plan in done.plans.items()
    ]
    notes = [*done.failed] or ([] if items else ["Nothing is due."])
    return Answer(items, notes)


def writer_of(caller: Caller, instance: str = "") -> Writer:
    """Return as whom a caller writes."""
    from familiar_cli.actions.write_memories import Writer

    return Writer(
        caller.source,
        caller.session,
        instance,
        caller.allow_write,
        viewer=caller.viewer,
        reads=caller.reads,
    )


def _place(arguments: Arguments, instance: str) -> MemoryAddress:
    from familiar_cli.actions.write_memories import MemoryAddress

    return MemoryAddress(
        arguments.get("path", ""),
        arguments.get("granularity", ""),
        arguments.get("date", ""),
        arguments.get("slug", ""),
        instance,
    )


def _new_place(caller: Caller, arguments: Arguments, instance: str) -> MemoryAddress:
    """Return where a memory goes: where nothing else is said, to today's."""
    from familiar_cli.actions.consolidate import day_named

    place = _place(arguments, instance)
    if place.rel_path:
        return place
    granularity = place.granularity or DAILY_DIR
    is_of_a_day = granularity in {DAILY_DIR, SIGNIFICANT_DIR}
    today = day_named(caller.familiar, None).isoformat() if is_of_a_day else ""
    return replace(
        place,
        granularity=granularity,
        date=place.date or today,
        slug=place.slug or " ".join(arguments["content"].split()[:_SLUG_WORDS]),
    )


def _answer(made: WriteOutcome) -> Answer:
    about: dict[str, Any] = {"path": made.rel_path, "status": made.outcome}
    if made.plan_id:
        about["plan"] = made.plan_id
    if made.version:
        about["version"] = made.version
    note = _NOTES[made.outcome].format(path=made.rel_path, plan=made.plan_id)
    hint = f"See it: `familiar review show {made.plan_id}`." if made.plan_id else ""
    merged = _MERGED if made.is_merged else ""
    return Answer([ToolItem(about)], [*filter(None, (note, merged, hint))])


TOOLS: Final = (
    Tool(
        "memory_create",
        "Write a memory by granularity and date (default: today), or path; appends to a day.",
        {
            **_PLACE,
            "content": TEXT,
            "chatIds": TEXTS,
            "sourceInstance": TEXT,
            "participatingInstances": TEXTS,
        },
        memory_create,
        needs=("content",),
        kind="add",
    ),
    Tool(
        "memory_update",
        "Replace a memory's text.",
        {**_PLACE, "content": TEXT, "editedBy": TEXT},
        memory_update,
        needs=("content",),
        kind="change",
    ),
    Tool("memory_delete", "Delete a memory.", _PLACE, memory_delete, kind="change"),
    Tool(
        "memory_undo",
        "Undo this session's newest change, or all of them.",
        {"all": FLAG},
        memory_undo,
        kind="change",
    ),
    Tool(
        "memory_consolidate",
        "Summarise days into weeks, months and years; targetDate is one period.",
        {"granularity": one_of("weekly", "monthly", "yearly"), "targetDate": TEXT, "all": FLAG},
        memory_consolidate,
        kind="add",
    ),
)
