"""`memory_read` and `memory_list`: files, by path or by the day they are about."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import in_zone
from familiar_cli.errors import FamiliarError, NotFoundError, UsageError
from familiar_cli.markdown import title_of
from familiar_cli.mcp_server.sight import day_of, is_readable, see
from familiar_cli.mcp_server.tool import COUNT, OFFSET, TEXT, WHOLE, Answer, Item, Tool, one_of
from familiar_cli.memory.layout import PERIOD_DIRS, SIGNIFICANT_DIR
from familiar_cli.memory.pages.privacy import visible_in
from familiar_cli.text import framed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from familiar_cli.mcp_server.tool import Arguments, Caller
    from familiar_cli.memory.store.types import MemoryEntry

GRANULARITIES: Final = (*PERIOD_DIRS, SIGNIFICANT_DIR)
GRANULARITY: Final = one_of(*GRANULARITIES)

_LISTED: Final = 100
_HEAD_BYTES: Final = 4096


def memory_read(caller: Caller, arguments: Arguments) -> Answer:
    """Return a file, or the files of a day or period, section by section.

    Raises:
        NotFoundError: There is none.
        UsageError: Neither a path nor a granularity with a date was given.
    """
    path = arguments.get("path")
    files = [see(caller, p) for p in ([path] if path else _paths_about(caller, arguments))]
    items = [item for file in files for item in file.items()]
    notes = () if items else ("The file is empty, or holds nothing that may be shown here.",)
    return Answer(items, notes, stamp="".join(file.file.sha256[:12] for file in files))


def memory_list(caller: Caller, arguments: Arguments) -> Answer:
    """Return the files there are, the newest first."""
    files = sorted(_files(caller, arguments), key=lambda one: (one.day, one.rel_path), reverse=True)
    start = arguments.get("offset", 0)
    wanted = files[start : start + arguments.get("limit", _LISTED)]
    left = len(files) - start - len(wanted)
    notes = [f"{left} older ones follow at offset {start + len(wanted)}."] if left > 0 else []
    if not files:
        notes = ["There is no such file."]
    return Answer([_listed(caller, one) for one in wanted], notes, {"total": len(files)})


@dataclass(frozen=True, slots=True)
class _File:
    entry: MemoryEntry
    day: str

    @property
    def rel_path(self) -> str:
        return self.entry.rel_path


def _paths_about(caller: Caller, arguments: Arguments) -> list[str]:
    """Return the files of a granularity that are about a date, of whichever instance."""
    granularity, day = arguments.get("granularity"), arguments.get("date")
    if not granularity or not day:
        raise UsageError(
            "memory_read needs a path, or a granularity and a date", hint="memory_list names both."
        )
    wanted = [day, *filter(None, (arguments.get("instanceId"), arguments.get("slug")))]
    found = [
        entry.rel_path
        for entry in _entries(caller, granularity)
        if _says(entry.rel_path.removeprefix(f"{granularity}/"), "_".join(wanted))
    ]
    if not found:
        raise NotFoundError(
            f"No {granularity} memory is about {framed('_'.join(wanted))}",
            hint=f"memory_list with granularity {granularity} lists those that exist.",
        )
    return found


def _says(name: str, wanted: str) -> bool:
    """Return whether a file's name begins with all that is wanted of it."""
    stem = name.rpartition(".")[0]
    return stem == wanted or stem.startswith(f"{wanted}_")


def _files(caller: Caller, arguments: Arguments) -> Iterable[_File]:
    after, before = (_day(arguments, name) for name in ("afterDate", "beforeDate"))
    for entry in _entries(caller, arguments.get("granularity", "")):
        modified = in_zone(entry.modified, caller.familiar.zone).date().isoformat()
        day = day_of(entry.rel_path) or modified
        if (not after or day >= after) and (not before or day <= before):
            yield _File(entry, day)


def _entries(caller: Caller, directory: str) -> list[MemoryEntry]:
    with suppress(NotFoundError):
        walk = caller.familiar.memory.walk(directory)
        return [entry for entry in walk.files if is_readable(entry.rel_path)]
    return []


def _day(arguments: Arguments, name: str) -> str:
    """Return a day that was given, or an empty string."""
    given = arguments.get(name, "")
    if not given:
        return ""
    try:
        return date.fromisoformat(given[:10]).isoformat()
    except ValueError:
        raise UsageError(
            f"{name} is not a date: {framed(given)!r}", hint="Write it as 2026-01-31."
        ) from None


def _listed(caller: Caller, file: _File) -> Item:
    about = {"path": file.rel_path, "date": file.day, "bytes": file.entry.size_bytes}
    try:
        head = caller.familiar.memory.read_head(file.rel_path, _HEAD_BYTES).text
    except FamiliarError as error:
        return Item({**about, "problem": str(error)})
    title = title_of(visible_in(head, caller.viewer))
    return Item({**about, **({"title": framed(title)} if title else {})})


_DATES: Final = {"beforeDate": TEXT, "afterDate": TEXT}

TOOLS: Final = (
    Tool(
        "memory_read",
        "Read a memory file by path, or by granularity and date.",
        {
            "path": TEXT,
            "granularity": GRANULARITY,
            "date": TEXT,
            "slug": TEXT,
            "instanceId": TEXT,
        },
        memory_read,
        pages=True,
    ),
    Tool(
        "memory_list",
        "List memory files, newest first.",
        {"granularity": GRANULARITY, **_DATES, "limit": COUNT, "offset": OFFSET},
        memory_list,
        gives={"total": WHOLE},
        pages=True,
    ),
)
