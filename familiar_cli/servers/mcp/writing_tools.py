"""Tools that write memories, and those by which embodiments sync."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from familiar_cli.actions.memory import write_memories
from familiar_cli.base.errors import RefusedError, UsageError
from familiar_cli.base.text import counted, framed, slugify, str_or_empty
from familiar_cli.familiar import Familiar
from familiar_cli.servers.mcp.tool import (
    OBJECT,
    Answer,
    Tool,
    ToolItem,
    choice_of,
    count_of,
    file_named,
    text_of,
    texts_of,
)
from familiar_cli.store.memory.layout import DAILY_DIR, PERIOD_DIRS, SIGNIFICANT_DIR, told_path
from familiar_cli.store.memory.pages.items import chats_in
from familiar_cli.sync.shared_files import Device, SharedFile
from familiar_cli.writing.consolidation.periods import read_period

if TYPE_CHECKING:
    from familiar_cli.actions.share.embodiments import (
        ChangeReceipt,
        EmbodimentChange,
        SharedEntry,
        Token,
    )
    from familiar_cli.servers.mcp.tool import Arguments, Caller, Schema

_UNREGISTERED: Final = (
    "{device} is not registered and may not push: the server has to be started with --embodiments."
)
_OPERATIONS: Final = ("append", "replace", "section")
_SLUG_WORDS: Final = 6
RUN_NOTE: Final = "It ran. plans_list shows what waits for review."
_NOTES: Final = {
    "written": "Written to {path}.",
    "deleted": "Deleted {path}.",
    "unchanged": "Nothing new: {path} is unchanged.",
    "planned": "Memory is unchanged: the change to {path} waits for review as plan {plan}.",
    "held": "Memory is unchanged: this would halve {path}, so it waits for review as plan {plan}.",
}
_MERGED: Final = "It was edited after you last read it, and has both changes now. Read it again."
_PLACE: Final[dict[str, Schema]] = {
    "granularity": choice_of("Default: of the date", *write_memories.GRANULARITIES),
    "date": text_of("The day or period"),
    "slug": text_of("Of a significant moment"),
    "instanceId": text_of("The instance that writes"),
    "path": text_of("The file"),
}


def memory_create(caller: Caller, arguments: Arguments) -> Answer:
    """Create a memory."""
    named = arguments.get("instanceId") or arguments.get("sourceInstance")
    instance = named or slugify(caller.client)
    outcome = write_memories.create_memory(
        caller.familiar,
        writer_of(caller, instance),
        _new_place(caller, arguments, instance),
        arguments["content"],
        chats=arguments.get("chatIds", ()),
        participating=arguments.get("participatingInstances", ()),
        source=arguments.get("sourceInstance", ""),
    )
    return describe_write(outcome)


def memory_update(caller: Caller, arguments: Arguments) -> Answer:
    """Replace a memory's text."""
    instance = arguments.get("instanceId", "")
    outcome = write_memories.update_memory(
        caller.familiar,
        writer_of(caller, instance),
        _place(caller, arguments, instance),
        arguments["content"],
        edited_by=arguments.get("editedBy", ""),
    )
    return describe_write(outcome)


def memory_edit(caller: Caller, arguments: Arguments) -> Answer:
    """Append to a memory, or replace a part of it."""
    from familiar_cli.actions.memory.edit_memories import TextEdit, edit_memory

    instance = arguments.get("instanceId") or slugify(caller.client)
    content = arguments.get("content")
    edit = TextEdit(
        arguments.get("append"),
        arguments.get("old_text"),
        arguments.get("new_text"),
        arguments.get("section", ""),
    )
    if content is not None:
        is_part = edit.old_text is not None or bool(edit.section)
        operation = arguments.get("operation") or ("replace" if is_part else "append")
        into = "append" if operation == "append" else "new_text"
        edit = replace(edit, **{into: content})
    outcome = edit_memory(
        caller.familiar,
        writer_of(caller, instance),
        _place(caller, arguments, arguments.get("instanceId", "")),
        edit,
        checksum=arguments.get("checksum", ""),
        chats=arguments.get("chatIds", ()),
    )
    return describe_write(outcome)


def memory_delete(caller: Caller, arguments: Arguments) -> Answer:
    """Delete a memory."""
    instance = arguments.get("instanceId", "")
    place = _place(caller, arguments, instance)
    return describe_write(
        write_memories.delete_memory(caller.familiar, writer_of(caller, instance), place)
    )


def memory_undo(caller: Caller, arguments: Arguments) -> Answer:
    """Undo this session's writes."""
    undo = write_memories.take_back(
        caller.familiar, writer_of(caller), everything=arguments.get("all", False)
    )
    files = [ToolItem({"path": caller.told(path), "status": "restored"}) for path in undo.rel_paths]
    plans = [ToolItem({"plan": plan, "status": "withdrawn"}) for plan in undo.plans]
    text = f"Undid {counted(len(files), 'file')} and {counted(len(plans), 'plan')}."
    return Answer([*files, *plans], [text])


def memory_consolidate(caller: Caller, arguments: Arguments) -> Answer:
    """Summarise days into weeks, months and years."""
    from familiar_cli.actions.memory.consolidate import Consolidated, consolidate_memories

    check_may_run(caller)

    async def consolidate() -> Consolidated:
        async with Familiar(caller.familiar.paths) as own:  # a model is bound to one event loop
            return await consolidate_memories(
                own,
                may_write=caller.allow_write,
                granularity=arguments.get("granularity", ""),
                period=arguments.get("targetDate", ""),
            )

    report = asyncio.run(consolidate())
    if not caller.viewer.is_owner:  # what is due, and why, tells of what was said in private
        return Answer(notes=[RUN_NOTE])
    items = [ToolItem({"path": path, "status": "written"}) for path in report.made]
    items += [
        ToolItem({"period": period, "plan": plan, "status": "planned"})
        for period, plan in report.plans.items()
    ]
    notes = [*report.failed] or ([] if items else ["Nothing is due."])
    return Answer(items, notes)


def check_may_run(caller: Caller) -> None:
    """Check that a caller may have a model work on all of memory, as the server's `/distill` does.

    Raises:
        RefusedError: Its token is for some people only.
    """
    if caller.acts.users and "*" not in caller.acts.users:
        raise RefusedError("This token is for some people; it cannot start work on all of memory")


def writer_of(caller: Caller, instance: str = "") -> write_memories.Writer:
    """Return the source under which a caller writes."""
    return write_memories.Writer(
        source=caller.source,
        session=caller.session,
        instance=instance,
        may_write=caller.allow_write,
        viewer=caller.viewer,
        reads=caller.reads,
    )


def _place(caller: Caller, arguments: Arguments, instance: str) -> write_memories.MemoryAddress:

    path = arguments.get("path", "")
    if not path and not arguments.get("date"):
        raise UsageError("Give a path or a date; nothing was changed")
    period = read_period(arguments.get("date", ""))
    return write_memories.MemoryAddress(
        file_named(caller, path) if path else "",
        arguments.get("granularity") or (period.tier if period else DAILY_DIR),
        arguments.get("date", ""),
        arguments.get("slug", ""),
        instance,
    )


def _new_place(caller: Caller, arguments: Arguments, instance: str) -> write_memories.MemoryAddress:
    """Choose a path for a new memory; by default today's file."""
    if not arguments.get("path") and not arguments.get("date"):
        is_of_a_day = arguments.get("granularity", DAILY_DIR) in {DAILY_DIR, SIGNIFICANT_DIR}
        arguments = {**arguments, "date": named_day(caller, None) if is_of_a_day else "-"}
    place = _place(caller, arguments, instance)
    if place.rel_path:
        return place
    return replace(place, slug=place.slug or " ".join(arguments["content"].split()[:_SLUG_WORDS]))


def named_day(caller: Caller, name: str | None) -> str:
    """Parse a day into a file name's form; today if none is given."""
    from familiar_cli.actions.memory.consolidate import day_named

    return day_named(caller.familiar, name).isoformat()


def describe_write(made: write_memories.WriteOutcome) -> Answer:
    """Describe the outcome of a change."""
    about: dict[str, Any] = {"path": told_path(made.rel_path), "status": made.outcome}
    if made.plan_id:
        about["plan"] = made.plan_id
    if made.version:
        about["version"] = made.version
    if made.checksum:
        about["checksum"] = made.checksum
    note = _NOTES[made.outcome].format(path=told_path(made.rel_path), plan=made.plan_id)
    is_seen = made.checksum != write_memories.checksum_of("")
    hint = "plans_list shows it." if made.plan_id and is_seen else ""
    merged = _MERGED if made.is_merged else ""
    return Answer([ToolItem(about)], [*filter(None, (note, merged, hint))])


_SINCE: Final[dict[str, Schema]] = {
    "lastSyncToken": {**OBJECT, "description": "newSyncToken of then; default: all"}
}
_SINCE_VERSION: Final[dict[str, Schema]] = {
    "lastSyncVersion": count_of("serverVersion of that token", least=0)
}
_CHANGES: Final[Schema] = {"type": "array", "items": OBJECT}


def sync_pull(caller: Caller, arguments: Arguments) -> Answer:
    """Return identity files and memories that changed since the last sync."""
    from familiar_cli.actions.share.embodiments import pull

    device, since = arguments["instanceId"], _since(arguments)
    _check_may_copy(caller)
    pulled = pull(
        caller.familiar,
        device,
        since,
        viewer=caller.viewer,
        goes_on="cursor" in arguments,
        registers=caller.embodiments,
    )
    items = [_item(entry) for entry in pulled.entries]
    items += [ToolItem({**_name_fields(file), "deleted": True}) for file in pulled.deleted]
    more = {"newSyncToken": _token(pulled.token), "isWhole": pulled.is_whole}
    notes = () if pulled.is_known else (_UNREGISTERED.format(device=framed(device)),)
    return Answer(items, notes, more, stamp=pulled.token.hash, cut="between")


def sync_push(caller: Caller, arguments: Arguments) -> Answer:
    """Apply an embodiment's changes."""
    from familiar_cli.actions.share.embodiments import push

    _check_may_copy(caller)
    instance = arguments["instance"]
    device = Device(_text(instance, "id"), _text(instance, "type"), _text(instance, "name"))
    if not device.id:
        raise UsageError("`instance` needs an `id`; nothing was changed")
    changes = [
        *map(_identity_change, arguments.get("identityChanges", ())),
        *(_memory_change(one, device.id) for one in arguments.get("memoryChanges", ())),
    ]
    writer = writer_of(caller, device.id)
    received, token = push(caller.familiar, writer, device, changes, _since(arguments))
    items = [ToolItem(_receipt_json(one), one.content or "") for one in received]
    open_ = sum(one.result in {"refused", "planned", "held"} for one in received)
    note = f"{counted(open_, 'change')} not applied: see each status." if open_ else ""
    more = {"newSyncToken": _token(token), "success": not open_}
    return Answer(items, [note] if note else [], more, cut="nowhere")


def sync_status(caller: Caller, arguments: Arguments) -> Answer:
    """Report each embodiment's progress."""
    from familiar_cli.actions.share.embodiments import sync_state

    del arguments
    if not caller.viewer.is_owner:
        return Answer(notes=["No embodiment is registered here."])
    version, devices, deletions = sync_state(caller.familiar)
    items = [
        ToolItem(
            {"instance": one.id, "type": one.type, "lastSync": one.last_sync, "seen": one.seen}
        )
        for one in devices
    ]
    items += [
        ToolItem({**_name_fields(file), "deletedIn": at, "waitingFor": waiting})
        for file, at, waiting in deletions
    ]
    return Answer(items, (), {"serverVersion": version})


def _check_may_copy(caller: Caller) -> None:
    """Check that a copy goes to a program of the owner's, or one that the server was started for.

    A token for some people is never enough.
    """
    if caller.viewer.is_owner or (caller.embodiments and not caller.acts.users):
        return
    raise RefusedError(
        "Only a program that acts for the owner may keep a copy; nothing was changed",
        hint="Over HTTP, send an owner token, or start a server without tokens with "
        "`--embodiments`.",
    )


def _item(entry: SharedEntry) -> ToolItem:
    version = sum(entry.clock.values())
    about = {**_name_fields(entry.file), "version": version, "clock": dict(entry.clock)}
    if entry.file.category:
        return ToolItem({**about, "modifiedBy": entry.by}, entry.content)
    about["chatIds"] = list(chats_in(entry.content))
    about["sourceInstance"] = entry.source
    about["participatingInstances"] = list(entry.participating)
    return ToolItem(about, entry.content)


def _name_fields(file: SharedFile) -> dict[str, Any]:
    names = {
        "path": file.rel_path,
        "category": file.category,
        "filename": file.filename,
        "granularity": file.granularity,
        "date": file.date,
        "slug": file.slug,
        "sourceInstance": file.instance,
    }
    return {name: value for name, value in names.items() if value}


def _identity_change(sent: dict[str, Any]) -> EmbodimentChange:
    from familiar_cli.actions.share.embodiments import EmbodimentChange

    path = f"{_text(sent, 'category')}/{_text(sent, 'filename')}"
    return EmbodimentChange(write_memories.MemoryAddress(path), _content(sent), _clock(sent))


def _memory_change(sent: dict[str, Any], device: str) -> EmbodimentChange:
    from familiar_cli.actions.share.embodiments import EmbodimentChange

    source = _text(sent, "sourceInstance") or device
    place = write_memories.MemoryAddress(
        "", _text(sent, "granularity"), _text(sent, "date"), _text(sent, "slug"), source
    )
    chats = sent.get("chatIds") if isinstance(sent.get("chatIds"), list) else []
    return EmbodimentChange(place, _content(sent), _clock(sent), [*map(str, chats or [])], source)


def _receipt_json(one: ChangeReceipt) -> dict[str, Any]:
    about: dict[str, Any] = {"path": one.rel_path, "status": one.result}
    if one.order:
        about["order"] = one.order
    more = {
        "clock": dict(one.clock),
        "version": sum(one.clock.values()),
        "deleted": one.is_gone,
        "plan": one.plan_id,
        "copy": one.copy,
        "reason": one.reason,
    }
    return about | {name: value for name, value in more.items() if value}


def _content(sent: dict[str, Any]) -> str | None:
    if sent.get("deleted") is True:
        return None
    return _text(sent, "content") or _text(sent, "text")  # the latter is sync_pull's name for it


def _clock(sent: dict[str, Any]) -> dict[str, int] | None:
    clock = sent.get("clock")
    if not isinstance(clock, dict):
        return None
    return {str(name): count for name, count in clock.items() if isinstance(count, int)}


def _since(arguments: Arguments) -> Token | None:
    from familiar_cli.actions.share.embodiments import Token

    token = arguments.get("lastSyncToken", {})
    version = token.get("serverVersion", arguments.get("lastSyncVersion"))
    return Token(version, _text(token, "hash")) if isinstance(version, int) and version else None


def _token(token: Token) -> dict[str, Any]:
    return {"serverVersion": token.version, "hash": token.hash}


def _text(values: dict[str, Any], name: str) -> str:
    return str_or_empty(values.get(name))


TOOLS: Final = (
    Tool(
        "memory_create",
        "Write a memory; new lines are added to a day.",
        {
            "content": text_of("Markdown"),
            "path": text_of("The file; default: that of date"),
            "date": text_of("Default: today"),
            "chatIds": texts_of("Where it was said"),
        },
        memory_create,
        needs=("content",),
        also={
            "granularity": _PLACE["granularity"],
            "slug": _PLACE["slug"],
            "instanceId": _PLACE["instanceId"],
            "sourceInstance": text_of("The instance that it is from"),
            "participatingInstances": texts_of("Other instances that took part"),
        },
        kind="add",
    ),
    Tool(
        "memory_update",
        "Replace a memory's whole text.",
        {"path": text_of("The file"), "content": text_of("New text")},
        memory_update,
        needs=("content",),
        also={**_PLACE, "editedBy": text_of("The instance that edited it")},
        kind="change",
    ),
    Tool(
        "memory_edit",
        "Change a part of a memory.",
        {
            "path": text_of("The file"),
            "append": text_of("To add at the end, or to section"),
            "old_text": text_of("To replace; stands once"),
            "new_text": text_of("Instead, or of section"),
            "section": text_of("Its heading; may be new"),
            "checksum": text_of("Of the version read"),
        },
        memory_edit,
        also={
            **_PLACE,
            "content": text_of("What `operation` writes"),
            "operation": choice_of("Which edit", *_OPERATIONS),
            "chatIds": texts_of("Where it was said"),
        },
        kind="change",
    ),
    Tool(
        "memory_delete",
        "Delete a memory.",
        {"path": text_of("The file")},
        memory_delete,
        also=_PLACE,
        kind="change",
    ),
    Tool(
        "memory_undo",
        "Undo this session's newest change.",
        {"all": {"type": "boolean", "default": False, "description": "All its changes"}},
        memory_undo,
        kind="change",
    ),
    Tool(
        "memory_consolidate",
        "Summarise days into weeks, months and years.",
        {
            "granularity": choice_of("Default: all", *PERIOD_DIRS[1:]),
            "targetDate": text_of("One period: 2026-W05"),
        },
        memory_consolidate,
        kind="add",
    ),
    Tool(
        "sync_pull",
        "For embodiments: changes since the last sync.",
        {"instanceId": text_of("The embodiment"), **_SINCE},
        sync_pull,
        needs=("instanceId",),
        also=_SINCE_VERSION,
        gives={"newSyncToken": OBJECT},
        kind="add",
        pages=True,
    ),
    Tool(
        "sync_push",
        "For embodiments: send changes, each with its clock.",
        {
            "instance": {**OBJECT, "description": "id, type, name"},
            "identityChanges": {**_CHANGES, "description": "As pulled"},
            "memoryChanges": {**_CHANGES, "description": "As pulled"},
            **_SINCE,
        },
        sync_push,
        needs=("instance",),
        also=_SINCE_VERSION,
        gives={"newSyncToken": OBJECT},
        kind="change",
    ),
    Tool("sync_status", "How far embodiments have synced.", {}, sync_status, pages=True),
)
