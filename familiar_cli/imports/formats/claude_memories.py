"""The memories of Claude, as its data export has them in `memories.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from familiar_cli.base.text import str_or_empty
from familiar_cli.imports.contract import Format, certain_if
from familiar_cli.imports.foreign_files import object_at, text_at
from familiar_cli.imports.memory_lists import build_memories, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.imports.contract import ForeignMemory
    from familiar_cli.imports.source import ForeignFile

_OWN: Final = "conversations_memory"
_PROJECTS: Final = "project_memories"


def _accounts(source: ForeignFile) -> list[dict[str, Any]]:
    value = source.value
    listed = value if isinstance(value, list) else [value]
    return [one for one in listed if isinstance(one, dict) and {_OWN, _PROJECTS} & one.keys()]


def _read(source: ForeignFile) -> Iterator[ForeignMemory]:
    for account in _accounts(source):
        yield from read_lines(text_at(account, _OWN))
        for name, text in object_at(account, _PROJECTS).items():
            yield from read_lines(str_or_empty(text), about=f"Claude project {name}")


FORMAT: Final = Format(
    name="claude-memories",
    program="the memories of Claude",
    forms=("memories",),
    sniff=lambda source: certain_if(_accounts(source)),
    read=lambda source, _: [build_memories("Claude", source.stem, _read(source))],
)
