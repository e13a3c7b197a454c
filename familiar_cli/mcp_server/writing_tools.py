"""Tools that write memories, and those by which embodiments sync."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import UsageError
from familiar_cli.mcp_server.tool import FLAG, TEXT, TEXTS, Answer, Tool, ToolItem, one_of
from familiar_cli.memory.layout import DAILY_DIR, PERIOD_DIRS, SIGNIFICANT_DIR
from familiar_cli.memory.pages.facts import chats_in
from familiar_cli.text import counted, slugify

if TYPE_CHECKING:
    from familiar_cli.actions.embodiments import Received, Sent, SharedEntry, Token
    from familiar_cli.actions.write_memories import MemoryAddress, WriteOutcome, Writer
    from familiar_cli.mcp_server.tool import Arguments, Caller, Schema
    from familiar_cli.sync.participants import SharedFile

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
    from familiar_cli.actions.consolidate import Consolidated, consolidate_memories
    from familiar_cli.familiar import Familiar

    async def consolidate() -> Consolidated:
        async with Familiar(caller.familiar.paths) as own:  # a model belongs to one event loop
            return await consolidate_memories(
                own,
                may_write=caller.allow_write,
                granularity=arguments.get("granularity", ""),
                period=arguments.get("targetDate", ""),
            )

    done = asyncio.run(consolidate())
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


_OBJECT: Final[Schema] = {"type": "object"}
_OBJECTS: Final[Schema] = {"type": "array", "items": _OBJECT}
_SINCE: Final[dict[str, Schema]] = {
    "lastSyncVersion": {"type": "integer", "minimum": 0},
    "lastSyncToken": _OBJECT,
}


def sync_pull(caller: Caller, arguments: Arguments) -> Answer:
    """Return identity files and memories that changed since the last sync."""
    from familiar_cli.actions.embodiments import pull

    device, since = arguments["instanceId"], _since(arguments)
    pulled = pull(caller.familiar, device, since, goes_on="cursor" in arguments)
    items = [_item(entry) for entry in pulled.entries]
    items += [ToolItem({**_named(file), "deleted": True}) for file in pulled.deleted]
    more = {"newSyncToken": _token(pulled.token), "isWhole": pulled.is_whole}
    return Answer(items, (), more, stamp=pulled.token.hash, cut="between")


def sync_push(caller: Caller, arguments: Arguments) -> Answer:
    """Take in what an embodiment changed."""
    from familiar_cli.actions.embodiments import push
    from familiar_cli.sync.participants import Device

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
    items = [ToolItem(_received(one), one.content or "") for one in received]
    open_ = sum(one.result in {"refused", "planned", "held"} for one in received)
    note = f"{counted(open_, 'change')} not applied: see each status." if open_ else ""
    more = {"newSyncToken": _token(token), "success": not open_}
    return Answer(items, [note] if note else [], more, cut="nowhere")


def sync_status(caller: Caller, arguments: Arguments) -> Answer:
    """Return how far each embodiment is."""
    from familiar_cli.actions.embodiments import sync_state

    del arguments
    state = sync_state(caller.familiar)
    items = [
        ToolItem(
            {"instance": one.id, "type": one.type, "lastSync": one.last_sync, "seen": one.seen}
        )
        for one in state.devices
    ]
    items += [
        ToolItem(
            {**_named(one.file), "deletedIn": one.version, "waitingFor": list(one.waiting_for)}
        )
        for one in state.tombstones
    ]
    return Answer(items, (), {"serverVersion": state.token.version})


def _item(entry: SharedEntry) -> ToolItem:
    about = {**_named(entry.file), "version": entry.version, "clock": dict(entry.clock)}
    if entry.file.category:
        return ToolItem({**about, "modifiedBy": entry.by}, entry.content)
    about["chatIds"] = list(chats_in(entry.content))
    about["sourceInstance"] = entry.source
    about["participatingInstances"] = list(entry.participating)
    return ToolItem(about, entry.content)


def _named(file: SharedFile) -> dict[str, Any]:
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


def _identity_change(sent: dict[str, Any]) -> Sent:
    from familiar_cli.actions.embodiments import Sent
    from familiar_cli.actions.write_memories import MemoryAddress

    path = f"{_text(sent, 'category')}/{_text(sent, 'filename')}"
    return Sent(MemoryAddress(path), _content(sent), _clock(sent))


def _memory_change(sent: dict[str, Any], device: str) -> Sent:
    from familiar_cli.actions.embodiments import Sent
    from familiar_cli.actions.write_memories import MemoryAddress

    source = _text(sent, "sourceInstance") or device
    place = MemoryAddress(
        "", _text(sent, "granularity"), _text(sent, "date"), _text(sent, "slug"), source
    )
    chats = sent.get("chatIds") if isinstance(sent.get("chatIds"), list) else []
    return Sent(place, _content(sent), _clock(sent), [*map(str, chats or [])], source)


def _received(one: Received) -> dict[str, Any]:
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
    return _text(sent, "content") or _text(sent, "text")  # the latter as sync_pull calls it


def _clock(sent: dict[str, Any]) -> dict[str, int] | None:
    clock = sent.get("clock")
    if not isinstance(clock, dict):
        return None
    return {str(name): count for name, count in clock.items() if isinstance(count, int)}


def _since(arguments: Arguments) -> Token | None:
    from familiar_cli.actions.embodiments import Token

    token = arguments.get("lastSyncToken", {})
    version = token.get("serverVersion", arguments.get("lastSyncVersion"))
    return Token(version, _text(token, "hash")) if isinstance(version, int) and version else None


def _token(token: Token) -> dict[str, Any]:
    return {"serverVersion": token.version, "hash": token.hash}


def _text(values: dict[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


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
    Tool(
        "sync_pull",
        "For embodiments: what changed since the last sync.",
        {"instanceId": {**TEXT, "minLength": 1}, **_SINCE},
        sync_pull,
        needs=("instanceId",),
        gives={"newSyncToken": _OBJECT},
        pages=True,
    ),
    Tool(
        "sync_push",
        "For embodiments: send changes, each with the clock of the version edited.",
        {
            "instance": _OBJECT,
            "identityChanges": _OBJECTS,
            "memoryChanges": _OBJECTS,
            **_SINCE,
        },
        sync_push,
        needs=("instance",),
        gives={"newSyncToken": _OBJECT},
        kind="change",
    ),
    Tool("sync_status", "How far each embodiment has synced.", {}, sync_status, pages=True),
)
