"""Chats for tests: lines of SillyTavern files, files of lines, and what became of them."""

from __future__ import annotations

import json
from datetime import UTC

from familiar_cli.actions.bring.export import export_chat
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.imports.cast import Cast
from familiar_cli.imports.contract import Reading
from familiar_cli.imports.import_chat import ChatImportOptions, import_chats

READING = Reading(Cast(known=("Yuzu",)), UTC)
HEAD = {"user_name": "Robin", "character_name": "Yuzu", "chat_metadata": {}}


def yuzu(mes, date="2025-11-14T22:00:00Z", **more):
    return {"name": "Yuzu", "is_user": False, "mes": mes, "send_date": date} | more


def robin(mes, date="2025-11-14T22:00:00Z", **more):
    return {"name": "Robin", "is_user": True, "mes": mes, "send_date": date} | more


def talk(count, first=0):
    """Return messages, one a minute, in turns."""
    return [
        (robin, yuzu)[n % 2](f"line {n}", f"2025-11-14T{10 + n // 60:02}:{n % 60:02}:00Z")
        for n in range(first, first + count)
    ]


def save(path, *lines):
    """Write lines, each a text or a value, and return the path."""
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_bytes("".join(text + "\n" for text in texts).encode("utf-8", "surrogatepass"))
    return path


def bring(store, path, reading=READING, **wish):
    """Import, and return what became of it."""
    return import_chats(store, path, ChatImportOptions(reading, **wish))


def only(done):
    """Return what became of the only chat; nothing failed."""
    assert done.failed == ()
    (chat,) = done.chats
    return chat


def said(store, channel):
    """Return the words in a channel, hidden ones included."""
    from familiar_cli.store.history.selection import TurnFilter, select_turns

    return [kept.turn.content for kept in select_turns(store, TurnFilter(OWNER, channel))]


def exported(store, channel, chat_format="sillytavern"):
    """Return the values of the lines that an export has."""
    lines = export_chat(store, channel, chat_format, familiar_name="Yuzu")
    return [json.loads(line) for line in lines]
