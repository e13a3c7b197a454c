"""The page of `familiar import-lorebook`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group

from familiar_cli.text import one_line
from familiar_cli.ui.effects_page import effects_page
from familiar_cli.ui.terminal import columns, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from familiar_cli.bootstrap.import_silly_tavern import ImportedLorebook

_SHOWN: Final = 40


def imported_page(done: ImportedLorebook, *, dry_run: bool) -> RenderableType:
    """Return what an import wrote and left alone, and what becomes of the book's settings."""
    rows = [[plain(kind, style), plain(what)] for kind, style, what in _rows(done)]
    effects = effects_page(done.in_every_prompt, done.found_when_it_fits, done.kept_unmapped)
    return Group(plain(_headline(done, dry_run=dry_run), "bold"), columns(rows), effects)


def _headline(done: ImportedLorebook, *, dry_run: bool) -> str:
    deed = "Would import" if dry_run else "Imported"
    if not done.written:
        deed = "Nothing to change for"
    count = f"{done.entries} {'entry' if done.entries == 1 else 'entries'}"
    return f"{deed} {one_line(done.book)} ({done.source}, {count})"


def _rows(done: ImportedLorebook) -> Iterator[tuple[str, str, str]]:
    for kind, style, paths in (
        ("  written", "green", done.written),
        ("  unchanged", "dim", done.unchanged),
    ):
        yield from ((kind, style, path) for path in paths[:_SHOWN])
        if len(paths) > _SHOWN:
            yield kind, style, f"… and {len(paths) - _SHOWN} more; `--json` lists all"
