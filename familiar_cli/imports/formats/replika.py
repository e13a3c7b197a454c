"""Chats of Replika as tables, in which the person is called Me."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from familiar_cli.imports.contract import ForeignChat, Format, Reading
from familiar_cli.imports.conversation import Program, SourceChat, SourceMessage, build_chat
from familiar_cli.imports.source import ForeignFile, Skip, column_names, table_rows

_PROGRAM: Final = Program("replika")
_COLUMNS: Final = ("Timestamp", "From", "Text")
_ME: Final = "Me"


def _lines(source: ForeignFile) -> Iterator[SourceMessage | Skip]:
    rows = list(table_rows(source))
    times = [row[1].get("Timestamp", "") for row in rows if not isinstance(row, Skip)]
    newest_first = bool(times) and times[0] > times[-1]
    for row in reversed(rows) if newest_first else rows:
        yield row if isinstance(row, Skip) else _line(*row)


def _line(number: int, row: dict[str, str]) -> SourceMessage:
    name = row.get("From", "")
    return SourceMessage(
        row.get("Text", ""),
        "user" if name == _ME else "assistant",
        speaker="" if name == _ME else name,
        time=row.get("Timestamp"),
        raw=row,
        id=row.get("ID", ""),
        line=number,
    )


def _is_table(source: ForeignFile) -> bool:
    return set(_COLUMNS) <= set(column_names(source))


def _read(source: ForeignFile, reading: Reading) -> Iterator[ForeignChat]:
    yield build_chat(source, reading, _PROGRAM, SourceChat(partial(_lines, source)))


FORMAT: Final = Format("replika", "Replika", ("chat",), _is_table, _read)
