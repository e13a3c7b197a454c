"""Files of RisuAI: chats with their lorebooks, and lorebooks whose entries can stand in folders."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.imports.contract import ForeignMemory, Format, Sighting, certain_if
from familiar_cli.imports.conversation import Program, SourceChat, SourceMessage, build_chat
from familiar_cli.imports.foreign_files import (
    as_object,
    object_at,
    object_list,
    objects_at,
    text_at,
    text_list,
)
from familiar_cli.imports.lorebook_reading import OFF, BookMapping
from familiar_cli.imports.memory_lists import build_memories, read_day

if TYPE_CHECKING:
    from familiar_cli.imports.contract import ForeignItem, Reading
    from familiar_cli.imports.source import ForeignFile

_PROGRAM: Final = Program("risuai")
_MAPPING: Final = BookMapping(
    source="RisuAI",
    tool="risuai",
    known={
        "comment": "comment",
        "content": "content",
        "key": "keys",
        "secondkey": "secondary_keys",
        "insertorder": "insertion_order",
        "alwaysActive": "constant",
        "selective": "selective",
        "useRegex": "use_regex",
        "id": "id",
    },
    order=lambda _: 100,
    off={**OFF, "activationPercent": (0, "0")},
    entries="data",
    comma_lists=("key", "secondkey"),
    parents=("", "folder", "folder"),
    is_parent=lambda item: item.get("mode") == "folder",
)
_SUMMARIES: Final = ("hypaV3Data", "memoryData")
_BOOK: Final = "risu"
_TYPES: Final = ("risuChat", "risuAllChats")


def _sniff(source: ForeignFile) -> Sighting:
    if source.first.get("type") in _TYPES:
        return certain_if(source.first)
    value = as_object(source.value)
    is_book = value.get("type") == _BOOK and isinstance(value.get("data"), list)
    return certain_if(is_book, "a lorebook of RisuAI", "lorebook")


def _read(source: ForeignFile, reading: Reading) -> Iterator[ForeignItem]:
    value = as_object(source.value)
    data = value.get("data")
    if value.get("type") == _BOOK:
        yield _MAPPING.read(value, source.name)
        return
    for chat in object_list(data if isinstance(data, list) else [data]):
        name = text_at(chat, "name")
        lore = objects_at(chat, "localLore")
        if lore:
            book = {"type": _BOOK, "name": name or source.stem, "data": lore}
            yield _MAPPING.read(book, source.name)
        about = {key: value for key, value in chat.items() if key != "message"}
        found = SourceChat(partial(map, _line, objects_at(chat, "message")), name=name, about=about)
        if memories := list(_summaries(chat, name or source.stem)):
            yield build_memories("RisuAI", source.stem, memories)
        yield build_chat(source, reading, _PROGRAM, found)


def _summaries(chat: dict[str, Any], name: str) -> Iterator[ForeignMemory]:
    """Yield the summaries of HypaV3, each with the day of the last message that it is of."""
    times = {text_at(one, "chatId"): one.get("time") for one in objects_at(chat, "message")}
    kept = next((as_object(chat[key]) for key in _SUMMARIES if object_at(chat, key)), {})
    for number, one in enumerate(objects_at(kept, "summaries"), 1):
        days = [read_day(times[memo]) for memo in text_list(one.get("chatMemos")) if memo in times]
        day = max(filter(None, days), default=None)
        yield ForeignMemory(text_at(one, "text"), number, day, f"Chat {name}")


def _line(message: dict[str, Any]) -> SourceMessage:
    return SourceMessage(
        text_at(message, "data"),
        "user" if message.get("role") == "user" else "assistant",
        time=message.get("time"),
        raw=message,
        id=text_at(message, "chatId"),
        hidden=message.get("disabled") is True,
    )


FORMAT: Final = Format("risuai", "RisuAI", ("chat", "lorebook", "memories"), _sniff, _read)
