"""Threads of Messenger and Instagram, whose older exports spell every letter as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from familiar_cli.base.text import str_or_empty
from familiar_cli.imports.conversation import SourceChat, SourceMessage, conversation_format
from familiar_cli.imports.foreign_files import object_at, objects_at, text_at

_SENDERS: Final = ("sender_name", "senderName")
_TIMES: Final = ("timestamp_ms", "timestamp")
_SHOWN: Final = {
    "photos": "photo",
    "videos": "video",
    "audio_files": "audio",
    "gifs": "gif",
    "files": "file",
    "sticker": "sticker",
    "media": "media",
}


def _parse(value: dict[str, Any]) -> Iterator[SourceChat]:
    messages = sorted(objects_at(value, "messages"), key=_time)
    title = _mend_encoding(value.get("title")) or _mend_encoding(value.get("threadName"))
    path = text_at(value, "thread_path")
    yield SourceChat(
        partial(map, _line, messages),
        name=title,
        id=path.rpartition("/")[2],
        is_apart=False,
        is_private=True,
    )


def _time(message: dict[str, Any]) -> float:
    stamp = next((message[key] for key in _TIMES if key in message), 0)
    return stamp if isinstance(stamp, int | float) else 0


def _line(message: dict[str, Any]) -> SourceMessage:
    name = next((_mend_encoding(message[key]) for key in _SENDERS if key in message), "")
    is_gone = message.get("is_unsent") or message.get("isUnsent")
    return SourceMessage(
        _words(message),
        "system" if is_gone else None,
        speaker=name or "unknown",
        time=_time(message),
        raw=message,
    )


def _words(message: dict[str, Any]) -> str:
    lines = [_mend_encoding(message.get("content")) or _mend_encoding(message.get("text"))]
    lines += [f"[{kind}]" for key, kind in _SHOWN.items() if message.get(key)]
    shared = object_at(message, "share")
    lines.append(text_at(shared, "link"))
    return "\n".join(line for line in lines if line)


def _mend_encoding(text: object) -> str:
    """Return a text whose UTF-8 was written as if each byte were a letter."""
    value = str_or_empty(text)
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return value


def _is_thread(value: dict[str, Any]) -> bool:
    messages = objects_at(value, "messages")
    return "participants" in value and any(
        any(key in message for key in _SENDERS) for message in messages
    )


FORMAT: Final = conversation_format("messenger", "Messenger or Instagram", _is_thread, _parse)
