"""Chats of RisuAI, with the lorebook of a chat."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.imports.contract import ForeignMemory, Format, certain_if
from familiar_cli.imports.conversation import Program, SourceChat, SourceMessage, build_chat
from familiar_cli.imports.foreign_files import (
    as_object,
    object_at,
    object_list,
    objects_at,
    text_at,
    text_list,
)
from familiar_cli.imports.formats import risu_book
from familiar_cli.imports.memory_lists import build_memories, read_day

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.imports.contract import Imported
    from familiar_cli.imports.foreign_chat import Reading
    from familiar_cli.imports.source import ForeignFile

_PROGRAM: Final = Program("risuai")
_SUMMARIES: Final = ("hypaV3Data", "memoryData")
_TYPES: Final = ("risuChat", "risuAllChats")


def _read(source: ForeignFile, reading: Reading) -> Iterator[Imported]:
    data = as_object(source.value).get("data")
    for chat in object_list(data if isinstance(data, list) else [data]):
        name = text_at(chat, "name")
        lore = objects_at(chat, "localLore")
        if lore:
            book = {"type": "risu", "name": name or source.stem, "data": lore}
            yield risu_book.MAPPING.read(book, source.name)
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


FORMAT: Final = Format(
    name="risuai",
    program="RisuAI",
    forms=("chat", "lorebook", "memories"),
    sniff=lambda source: certain_if(source.first.get("type") in _TYPES),
    read=_read,
)
