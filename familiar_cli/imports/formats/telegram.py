"""Chats of Telegram as its desktop program exports them: one, or all of an account."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

from familiar_cli.base.text import slugify, str_or_empty
from familiar_cli.imports.contract import ForeignChat, Format, Reading
from familiar_cli.imports.conversation import Program, SourceChat, SourceMessage, build_chat
from familiar_cli.imports.foreign_files import as_object, object_at, objects_at, text_at
from familiar_cli.imports.source import ForeignFile, Row, Skip, array_in, array_objects, object_head

_PROGRAM: Final = Program("telegram")
_TYPES: Final = (
    *("personal_chat", "bot_chat", "saved_messages", "private_group", "private_supergroup"),
    *("public_supergroup", "private_channel", "public_channel", "verification_codes", "replies"),
)
_ACCOUNT: Final = re.compile(rb'"(?:chats|personal_information)"\s*:\s*\{')
_OWNER: Final = re.compile(rb'"personal_information"\s*:\s*\{[^{}]*?"user_id"\s*:\s*(\d+)')
_DELETED: Final = "Deleted Account"
_SHOWN: Final = ("photo", "file", "contact_information", "location_information", "poll")


def _is_export(source: ForeignFile) -> bool:
    if source.shape != "object":
        return False
    head = source.start.decode("utf-8", "replace")
    is_chat = '"messages"' in head and any(f'"type": "{kind}"' in head for kind in _TYPES)
    value = as_object(source.value)
    chats = object_at(value, "chats").get("list") if value else _is_account(source)
    return bool(is_chat or value.get("type") in _TYPES or chats)


def _read(source: ForeignFile, reading: Reading) -> Iterator[ForeignChat | Skip]:
    if _is_account(source):
        owner = _owner_of(source)
        for row in array_objects(source, inside=array_in(source, "list", of="chats"), depth=2):
            if isinstance(row, Skip):
                yield row
                continue
            yield build_chat(source, reading, _PROGRAM, _conversation(*_parts(row[2]), owner=owner))
        return
    about = as_object(source.value) or object_head(source, "messages")
    about, _ = _parts(about)
    rows_of = partial(array_objects, source, inside=array_in(source, "messages"))
    yield build_chat(source, reading, _PROGRAM, _conversation(about, rows_of))


def _is_account(source: ForeignFile) -> bool:
    """Tell whether a file has all chats of an account; a large one is judged by its start."""
    if source.value is not None:
        return isinstance(object_at(as_object(source.value), "chats").get("list"), list)
    return (
        _ACCOUNT.search(source.start) is not None
        and array_in(source, "list", of="chats") is not None
    )


def _owner_of(source: ForeignFile) -> str:
    """Return the account of a whole export's owner; empty if it does not say."""
    if source.value is not None:
        about = object_at(as_object(source.value), "personal_information")
        return str(about.get("user_id") or "")
    match = _OWNER.search(source.start)
    return match[1].decode() if match else ""


def _parts(chat: dict[str, Any]) -> tuple[dict[str, Any], Callable[[], Iterable[Row | Skip]]]:
    """Split a chat into what it says of itself, and its messages as rows."""
    rows: list[Row | Skip] = [(n, "", m) for n, m in enumerate(objects_at(chat, "messages"), 1)]
    return {key: value for key, value in chat.items() if key != "messages"}, lambda: rows


def _conversation(
    about: dict[str, Any], rows: Callable[[], Iterable[Row | Skip]], *, owner: str = ""
) -> SourceChat:
    name, kind = text_at(about, "name", "type"), text_at(about, "type")
    if kind == "saved_messages":
        owner = owner or str(about.get("id", ""))  # they are the account's own
    return SourceChat(
        partial(_lines, rows),
        name=name,
        id=str(about.get("id", "")),
        about=about,
        channels=(slugify(name, max_chars=40) or "telegram",) if name else (),
        is_apart=False,
        is_private=not kind.startswith("public_") if kind in _TYPES else None,
        owner=owner,
        is_broadcast=kind in ("public_channel", "private_channel"),
    )


def _lines(rows: Callable[[], Iterable[Row | Skip]]) -> Iterator[SourceMessage | Skip]:
    for row in rows():
        yield row if isinstance(row, Skip) else _line(row[2])


def _line(message: dict[str, Any]) -> SourceMessage:
    is_notice = message.get("type") == "service"
    name = str_or_empty(message.get("actor" if is_notice else "from")) or _DELETED
    account = str_or_empty(message.get("actor_id" if is_notice else "from_id"))
    return SourceMessage(
        _notice(message, name) if is_notice else _words(message),
        "system" if is_notice else None,
        speaker=name,
        account=account.removeprefix("user") or name,
        time=message.get("date_unixtime") or message.get("date"),
        raw=message,
        id=str(message.get("id", "")),
    )


def _notice(message: dict[str, Any], name: str) -> str:
    what = text_at(message, "action").replace("_", " ")
    return ": ".join(filter(None, (f"{name}: {what}", _plain(message.get("text")))))


def _words(message: dict[str, Any]) -> str:
    origin = message.get("forwarded_from")
    forwarded = f"[forwarded from {origin}]" if isinstance(origin, str) else ""
    lines = [" ".join(filter(None, (forwarded, _plain(message.get("text")))))]
    for name in _SHOWN:
        if name == "poll" and isinstance(message.get(name), dict):
            lines += _poll(message[name])
        elif message.get(name):
            kind = text_at(message, "media_type").replace("_", " ") or name.split("_")[0]
            text = text_at(message, "sticker_emoji", "title")
            lines.append(f"[{kind}{f': {text}' if text else ''}]")
    return "\n".join(filter(None, lines))


def _poll(poll: dict[str, Any]) -> Iterator[str]:
    yield f"[poll] {str_or_empty(poll.get('question'))}"
    for answer in objects_at(poll, "answers"):
        yield f"- {str_or_empty(answer.get('text'))} ({answer.get('voters', 0)})"


def _plain(text: object) -> str:
    """Return the text of a message, which is a list where parts of it are formatted."""
    if isinstance(text, list):
        return "".join(map(_part, text))
    return _part(text)


def _part(text: object) -> str:
    return str_or_empty(text) or text_at(as_object(text), "text")


FORMAT: Final = Format("telegram", "Telegram", ("chat",), _is_export, _read)
