"""Pages of `import` and `export`: what each file was, and what an export contains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import asdict
from rich.console import Group, RenderableType

from familiar_cli.base.text import counted, one_line, shorten_list
from familiar_cli.imports.import_chat import ImportedChats
from familiar_cli.imports.import_plan import ImportedLines
from familiar_cli.imports.sillytavern import ImportedFolder
from familiar_cli.pages import import_pages
from familiar_cli.pages.terminal import column_table, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from familiar_cli.actions.bring.export_everything import Export
    from familiar_cli.actions.bring.import_files import Done, ImportItem


_MOST_NAMES: Final = 8


def import_page(items: Sequence[ImportItem], *, dry_run: bool) -> RenderableType:
    """Describe what each file was recognised as, and what became of it."""
    parts: list[RenderableType] = []
    for item in items:
        if item.done:
            parts.append(plain(f"{one_line(item.path.name)}: {item.title}"))
            parts += [_done_page(done, dry_run=dry_run) for done in item.done]
    return Group(*parts)


def _done_page(done: Done, *, dry_run: bool) -> RenderableType:
    match done:
        case ImportedChats():
            return import_pages.imported_chats_page(done, dry_run=dry_run)
        case ImportedLines():
            return import_pages.lines_page(done, dry_run=dry_run)
        case ImportedFolder():
            return import_pages.imported_folder_page(done, dry_run=dry_run)
        case _:
            return import_pages.report_page(done, dry_run=dry_run)


def items_data(items: Sequence[ImportItem], *, dry_run: bool) -> list[dict[str, Any]]:
    """Build the data for `--json`, one entry per file."""
    return [
        {
            "path": str(item.path),
            "kind": "sillytavern" if item.kind == "folder" else item.kind or None,
            "title": item.title,
            "familiar": item.familiar or None,
            "results": [
                import_pages.answer_data(done, dry_run=dry_run)
                if isinstance(done, ImportedChats)
                else asdict(done)
                for done in item.done
            ],
            "error": str(item.error) if item.error else None,
            "left_out": item.left_out or None,
        }
        for item in items
    ]


def warnings_of(items: Sequence[ImportItem]) -> Iterator[str]:
    """Yield what was unusual about the files."""
    left_out: dict[str, list[str]] = {}
    for item in items:
        if item.left_out:
            left_out.setdefault(item.left_out, []).append(one_line(item.path.name))
    for reason, names in left_out.items():
        verb = "were" if len(names) > 1 else "was"
        yield f"{shorten_list(names, _MOST_NAMES)} {verb} left out: {reason}"
    for item in items:
        for done in item.done:
            if isinstance(done, ImportedFolder):
                for one in done.familiars:
                    yield from (f"{one.character}: {warning}" for warning in one.warnings)
            elif not isinstance(done, ImportedChats):
                yield from done.warnings


def exported_page(export: Export, *, dry_run: bool) -> RenderableType:
    """Describe what an export contains of each familiar."""
    deed = "Would export" if dry_run else "Exported"
    rows = [
        [
            plain(f"  {one_line(one.name)} ({one.id})", "bold"),
            plain(
                ", ".join(
                    (
                        "a card" if one.card else "no card",
                        counted(len(one.lorebooks), "lorebook"),
                        counted(len(one.chats), "chat"),
                        counted(one.turns, "turn"),
                        counted(one.files, "file") + " of memory",
                    )
                )
            ),
        ]
        for one in export.familiars
    ]
    number = counted(len(export.familiars), "familiar")
    return Group(plain(f"{deed} {number} into {one_line(export.path, 200)}"), column_table(rows))
