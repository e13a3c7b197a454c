"""Keep a SillyTavern chat as it is shown there, in the same way as an import of its file."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import UsageError
from familiar_cli.imports.chat_import import ChatImportOptions
from familiar_cli.imports.import_chat import import_chat_files
from familiar_cli.text import slugify

if TYPE_CHECKING:
    from collections.abc import Mapping

    from familiar_cli.familiar import Familiar
    from familiar_cli.imports.chat_import import ImportedChat
    from familiar_cli.imports.foreign_chat import Reading

_MAX_NAME_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class ClientChat:
    """A chat as its program shows it.

    Args:
        name: The stem of its file.
        directory: The directory of the file in `chats`; empty for a group's.
        group: What the group is called; None: it is no group's.
        lines: The lines of its file, the head first.
    """

    name: str
    directory: str
    group: str | None
    lines: tuple[Mapping[str, Any], ...]


def parse_client_chat(body: Mapping[str, Any]) -> ClientChat:
    """Return the chat that a request holds.

    Raises:
        UsageError: It holds none.
    """
    name, directory, group = body.get("chat"), body.get("directory") or "", body.get("group")
    lines = body.get("lines")
    if not isinstance(name, str) or not isinstance(directory, str):
        raise UsageError("The request names no 'chat'; nothing was kept")
    for part in (name, directory):
        if Path(part).name != part or "\\" in part or len(part) > _MAX_NAME_CHARS:
            raise UsageError(f"{part[:_MAX_NAME_CHARS]!r} is not a file name; nothing was kept")
    if not isinstance(lines, list) or not all(isinstance(line, dict) for line in lines):
        raise UsageError("'lines' must be the lines of the chat, as objects; nothing was kept")
    if not name or (group is not None and not isinstance(group, str)):
        raise UsageError("The request names no 'chat'; nothing was kept")
    return ClientChat(name, directory, group, tuple(lines))


def keep_client_chat(familiar: Familiar, chat: ClientChat) -> ImportedChat:
    """Bring the history up to what a chat program shows.

    Raises:
        FamiliarError: It cannot be written down.
    """
    with tempfile.TemporaryDirectory(prefix="familiar-") as scratch:
        place = Path(scratch, chat.directory or "group chats")
        place.mkdir(exist_ok=True)
        path = place / f"{chat.name}.jsonl"
        text = "".join(json.dumps(line) + "\n" for line in chat.lines)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        options = ChatImportOptions(aside=True, is_current=True)
        reading = _reading(familiar, chat)
        done = import_chat_files(familiar.history, [(path, reading)], options)
    if done.failed:
        raise done.failed[0].error
    return done.chats[0]


def _reading(familiar: Familiar, chat: ClientChat) -> Reading:
    reading = familiar.chat_reading()
    if chat.group is None:
        return solo_reading(reading)
    return group_reading(reading, chat.name, chat.group)


def solo_reading(reading: Reading) -> Reading:
    """Return how a character reads a chat of its own, in which it may bear another name."""
    return replace(reading, cast=replace(reading.cast, unnamed="familiar"))


def group_reading(reading: Reading, chat: str, group: str) -> Reading:
    """Return how a member reads a chat of a group, in which it may never have spoken."""
    stem = slugify(chat) or "chat"
    name = slugify(group, max_chars=40)
    return replace(
        reading,
        cast=replace(reading.cast, unnamed="others"),
        channels=(f"{name}-{stem}", stem) if name else (stem,),
    )
