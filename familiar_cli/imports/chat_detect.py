"""Tell which format a file has, and read the chats in it."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import BadInputError
from familiar_cli.imports import chat_lines, chat_services
from familiar_cli.imports.chat_formats import read_transcript
from familiar_cli.imports.chat_services import MAX_ELEMENT_BYTES, ChatGPT, Claude, spans
from familiar_cli.imports.foreign_chat import (
    TITLES,
    TRANSCRIPT,
    ForeignChat,
    Skip,
    json_lines,
    read_object,
)
from familiar_cli.text import slugify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.imports.chat_services import Service
    from familiar_cli.imports.foreign_chat import ChatFile, Reading

SUFFIXES: Final = frozenset({".jsonl", ".ndjson", ".json"})
"""What is looked for in a directory."""

TEXT_SUFFIXES: Final = frozenset({".txt", ".md", ".log", ".csv"})
"""What is looked into in a directory, and passed over where it is no chat."""

_SERVICES: Final[dict[str, Service]] = {"mapping": ChatGPT(), "chat_messages": Claude()}
_FIRST_LINES: Final = 20  # lines or elements that tell the format
_START_BYTES: Final = 4096
_CONTROLS: Final = re.compile(rb"[\x00-\x08]")
_JSON: Final = re.compile(rb"\{|\[\s*(?:[\[{\"\]]|\d+\s*[,\]]|\Z)")
_HINT: Final = (
    "SillyTavern, ChatGPT, Claude and Discord chats can be imported, plain JSON Lines, and texts "
    "in which each message begins with `Name:`."
)


def read_chats(source: ChatFile, reading: Reading) -> Iterator[ForeignChat | Skip]:
    """Yield the chats in `source`. What stands among several and is none is a `Skip`.

    Raises:
        BadInputError: It holds no chat of a known format, or of the one that is asked for.
        RefusedError: It is not told who in it is the familiar.
    """
    for found in _chats(source, reading):
        if isinstance(found, ForeignChat) and reading.format not in ("", found.format):
            raise BadInputError(
                f"{source.name!r} is not a chat in the format {reading.format!r}: it looks like "
                f"{found.kind or TITLES[found.format]}",
                hint=f"Omit `--format`, or add `--format {found.format}`.",
            )
        yield found


def _chats(source: ChatFile, reading: Reading) -> Iterator[ForeignChat | Skip]:
    names = reading.channels or channel_names(source)
    with source.open() as stream:
        start = stream.read(_START_BYTES).lstrip()
    if reading.format == TRANSCRIPT or not _JSON.match(start):
        yield _of_text(source, reading, start, names)
        return
    if chat_services.is_discord_export(source):
        yield chat_services.read_discord(source, reading, channels=names)
        return
    is_array = start.startswith(b"[")
    value = _first_object(source, is_array=is_array)
    service = next((s for key, s in _SERVICES.items() if key in value), None)
    if service:
        yield from chat_services.read_conversations(source, reading, service, is_array=is_array)
    elif chat_lines.is_plain_message(value):
        yield from chat_lines.read_plain(source, reading, channels=names, is_array=is_array)
    elif not is_array and (
        chat_lines.is_silly_tavern_head(value) or chat_lines.is_silly_tavern_message(value)
    ):
        yield chat_lines.read_silly_tavern(source, reading, channels=names)
    else:
        keys = ", ".join(repr(key) for key in list(value)[:4])
        raise BadInputError(
            f"{source.name!r} is not a chat in a known format, but JSON with {keys or 'nothing'}",
            hint=_HINT,
        )


def _of_text(
    source: ChatFile, reading: Reading, start: bytes, channels: tuple[str, ...]
) -> ForeignChat:
    """Return the chat in a file that is no JSON.

    Raises:
        BadInputError: There is none.
    """
    if start and not _is_binary(start):
        if chat_services.is_discord_table(start):
            return chat_services.read_discord_table(source, reading, channels=channels)
        found = read_transcript(source, reading, channels=channels)
        if found:
            return found
    raise BadInputError(f"{source.name!r} is {_what(start)}, not a chat", hint=_HINT)


def channel_names(source: ChatFile) -> tuple[str, ...]:
    """Return names for the channel of the chat in a file, the best first."""
    path = Path(source.name)
    stem = slugify(path.stem) or "chat"
    above = slugify(path.resolve().parent.name)
    return (stem, f"{above}-{stem}") if above else (stem,)


def _first_object(source: ChatFile, *, is_array: bool) -> dict[str, Any]:
    """Return the first object that tells anything: a line, an element, or the whole file."""
    if is_array:
        value = _first(islice(_elements(source), _FIRST_LINES))
    else:
        lines = list(islice(json_lines(source), _FIRST_LINES))
        whole = _whole(source) if lines and isinstance(lines[0], Skip) else None
        value = whole or _first(iter(lines))
    if value is None:
        raise BadInputError(
            f"{source.name!r} cannot be read as JSON: it is damaged, or not a chat", hint=_HINT
        )
    return value


def _first(found: Iterator[tuple[int, str, dict[str, Any]] | Skip]) -> dict[str, Any] | None:
    return next((line[2] for line in found if not isinstance(line, Skip)), None)


def _elements(source: ChatFile) -> Iterator[tuple[int, str, dict[str, Any]] | Skip]:
    with source.open() as stream:
        for number, span in enumerate(spans(source), start=1):
            yield read_object(number, span.read(stream))


def _whole(source: ChatFile) -> dict[str, Any] | None:
    """Return the one object that a file of many lines holds."""
    if source.size_bytes > MAX_ELEMENT_BYTES:
        return None
    with source.open() as stream:
        found = read_object(1, stream.read())
    return None if isinstance(found, Skip) else found[2]


def _what(start: bytes) -> str:
    if not start:
        return "empty"
    if start.startswith(b"PK\x03\x04"):
        return "a zip archive (unpack it, and import its `conversations.json`)"
    if _is_binary(start):
        return "a binary file"
    if re.match(rb"<(?:!doctype|html)", start, re.IGNORECASE):
        return "a web page (export the chat as JSON or as plain text instead)"
    return "text"


def _is_binary(start: bytes) -> bool:
    """Tell whether bytes are no text; a stray control character does not count."""
    return start.startswith(b"PK\x03\x04") or len(_CONTROLS.findall(start)) * 50 > len(start)
