"""The page of `familiar import-sillytavern`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from rich.console import Group

from familiar_cli.bootstrap.sillytavern.report import OUTCOMES
from familiar_cli.text import counted, one_line
from familiar_cli.ui.terminal import columns, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from familiar_cli.bootstrap.sillytavern.report import (
        FamiliarInFolder,
        FileReport,
        ImportedFolder,
    )

_MOST: Final = 60  # familiars, and files left out, that are named
_DEEDS: Final = {"imported": "made", "updated": "updated"}
_CHARS: Final = 200
_NAME_CHARS: Final = 40
_EXAMPLES: Final = 3
_HOUSEKEEPING: Final = frozenset({"backup", "other"})
_NAMES: Final = {
    "character": "characters",
    "world": "lorebooks",
    "chat": "chats",
    "group": "groups",
    "group_chat": "group chats",
    "settings": "settings",
    "link": "links",
}


def imported_page(done: ImportedFolder, *, dry_run: bool) -> RenderableType:
    """Return what became of the characters, of each kind of file, and what was left out."""
    parts: list[RenderableType] = []
    if done.familiars:
        parts.append(columns(_familiars(done)))
    parts.append(columns(_kinds(done)))
    left = list(_left(done))
    parts += [plain("Left out:", "bold"), columns(left[:_MOST])] if left else []
    if len(left) > _MOST or len(done.familiars) > _MOST:
        parts.append(plain("Not everything is shown; `--json` has all of it.", "dim"))
    if dry_run:
        parts.append(plain("Nothing was written (--dry-run).", "bold"))
    return Group(*parts)


def _familiars(done: ImportedFolder) -> Iterator[list[RenderableType]]:
    for one in done.familiars[:_MOST]:
        yield [
            plain(f"{one_line(one.name, 40)} ({one.id})", "bold"),
            plain(_DEEDS.get(one.outcome, one.outcome)),
            plain(_turns(one)),
        ]


def _turns(one: FamiliarInFolder) -> str:
    if not one.turns:
        return "no new turns" if one.already_there else "no chats"
    where = counted(one.channels, "channel")
    return f"{counted(one.turns, 'new turn')} in {where}"


def _kinds(done: ImportedFolder) -> Iterator[list[RenderableType]]:
    found: dict[str, Counter[str]] = {}
    for file in done.files:
        found.setdefault(file.kind, Counter())[file.outcome] += 1
    for kind, name in _NAMES.items():
        if kind in found:
            what = ", ".join(f"{found[kind][o]:,} {o}" for o in OUTCOMES[::-1] if found[kind][o])
            yield [plain(f"  {name}", "dim"), plain(what)]


def _left(done: ImportedFolder) -> Iterator[list[RenderableType]]:
    """Yield the skipped files: failures first, then those never imported in one line."""
    named = [file for file in done.files if file.reason and file.outcome != "read"]
    for file in sorted(named, key=lambda file: not _is_problem(file)):
        if file.kind not in _HOUSEKEEPING:
            path = plain(f"  {one_line(file.path, _CHARS)}", "red" if _is_problem(file) else "dim")
            yield [path, plain(one_line(file.reason, _CHARS))]
    rest = [file.path for file in named if file.kind in _HOUSEKEEPING]
    if rest:
        files = counted(len(rest), "file or directory", "files and directories")
        names = ", ".join(one_line(path, _NAME_CHARS) for path in rest[:_EXAMPLES])
        more = ", …" if len(rest) > _EXAMPLES else ""
        yield [plain(f"  {files}", "dim"), plain(f"never imported: {names}{more}")]


def _is_problem(file: FileReport) -> bool:
    return file.outcome == "refused" or file.incomplete
