"""Messages in the data package of a Discord account: what its owner said, and nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from familiar_cli.base.text import slugify
from familiar_cli.imports.contract import ForeignChat, Format, Reading
from familiar_cli.imports.conversation import Program, SourceChat, SourceMessage, build_chat
from familiar_cli.imports.foreign_files import as_object, text_at
from familiar_cli.imports.source import ForeignFile, Skip, array_objects, column_names, table_rows

_PROGRAM: Final = Program("discord_package", "discord")
_COLUMNS: Final = ("ID", "Timestamp", "Contents")
_ONE_SIDE: Final = "Discord's package contains only your own messages, not those of others"
_CHANNEL: Final = "channel.json"
_HEAD_BYTES: Final = 64 * 1024


def _is_package(source: ForeignFile) -> bool:
    if source.shape == "array":
        return set(_COLUMNS) <= source.first.keys()
    return column_names(source)[: len(_COLUMNS)] == list(_COLUMNS)


def _read(source: ForeignFile, reading: Reading) -> Iterator[ForeignChat]:
    about = _channel(source)
    name = text_at(about, "name")
    chat = SourceChat(
        partial(_lines, source),
        name=name or source.stem,
        id=text_at(about, "id"),
        about=about or None,
        channels=(slugify(name, max_chars=40),) if slugify(name) else (),
        notes=(_ONE_SIDE,),
        is_apart=False,
    )
    yield build_chat(source, reading, _PROGRAM, chat)


def _channel(source: ForeignFile) -> dict[str, Any]:
    """Return what the package says of the channel, in the file beside its messages."""
    path = source.path.with_name(_CHANNEL) if source.path else None
    try:
        return as_object(json.loads(path.read_bytes()[:_HEAD_BYTES])) if path else {}
    except (OSError, ValueError, RecursionError):
        return {}


def _lines(source: ForeignFile) -> Iterator[SourceMessage | Skip]:
    rows = list(array_objects(source) if source.shape == "array" else table_rows(source))
    yield from (row for row in rows if isinstance(row, Skip))
    lines = [(row[0], row[-1]) for row in rows if not isinstance(row, Skip)]
    for number, row in sorted(lines, key=lambda line: str(line[1].get("Timestamp"))):
        yield _line(number, row)


def _line(number: int, row: dict[str, Any]) -> SourceMessage:
    files = [name for name in text_at(row, "Attachments").split() if name]
    shown = [f"[attachment: {name.rpartition('/')[2].partition('?')[0]}]" for name in files]
    stated = text_at(row, "Timestamp")
    return SourceMessage(
        "\n".join(filter(None, (text_at(row, "Contents"), *shown))),
        "user",
        time=stated if "+" in stated or not stated else f"{stated}+00:00",
        raw=row,
        id=str(row.get("ID", "")),
        line=number,
    )


FORMAT: Final = Format("discord_package", "Discord's data package", ("chat",), _is_package, _read)
