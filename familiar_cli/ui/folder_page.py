"""The pages of bringing something in: `familiar init` and `familiar import-memories`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.text import Text

from familiar_cli.text import one_line
from familiar_cli.ui.effects_page import effects_page
from familiar_cli.ui.terminal import columns, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from familiar_cli.bootstrap.import_memories import ImportedMemories
    from familiar_cli.bootstrap.import_report import FamiliarReport, ImportReport

_MOST_LINES: Final = 60
_CHARS: Final = 120


def card_page(made: FamiliarReport, *, dry_run: bool) -> RenderableType:
    """Return what a card became, and what becomes of its fields."""
    effects = effects_page(made.in_every_prompt, made.found_when_it_fits, made.kept_unmapped)
    table = _table(replace(made, kept_unmapped=()))
    return Group(_headline(made, dry_run=dry_run), table, effects)


def persona_page(made: FamiliarReport, *, dry_run: bool) -> RenderableType:
    """Return what a persona became."""
    return Group(_headline(made, dry_run=dry_run), _table(made))


def _headline(made: FamiliarReport, *, dry_run: bool) -> RenderableType:
    return Text(f"{_deed(made, dry_run=dry_run)} ") + plain(f"{made.name} ({made.id})", "bold")


def memories_page(done: ImportedMemories, *, dry_run: bool) -> RenderableType:
    """Return what a tree of memories became."""
    held = ", ".join(f"{count:,} {tier}" for tier, count in done.tiers.items() if count)
    if not done.written:
        deed = "Nothing to import from"
    else:
        deed = "Would import" if dry_run else "Imported"
    return Group(plain(f"{deed} {held or 'no tier files'}"), _table(done))


def _deed(made: FamiliarReport, *, dry_run: bool) -> str:
    if made.is_new:
        return "Would make" if dry_run else "Made"
    if not (made.written or made.removed):
        return "Nothing to change in"
    return "Would change" if dry_run else "Changed"


def _table(done: ImportReport) -> RenderableType:
    rows = list(_rows(done))
    more = len(rows) - _MOST_LINES
    shown = rows if more <= 1 else [*rows[:_MOST_LINES], ("  …", "dim", f"{more} more (--json)")]
    return columns([plain(kind, style), plain(what)] for kind, style, what in shown)


def _rows(done: ImportReport) -> Iterator[tuple[str, str, str]]:
    for path in done.written:
        overwritten = path in done.overwritten
        yield ("  overwritten" if overwritten else "  written", "green", path)
    for path in done.removed:
        yield "  removed", "red", path
    for path in done.edited:
        yield "  yours", "cyan", f"{path} (edited since; kept)"
    for path in done.unchanged:
        yield "  unchanged", "dim", path
    for name in done.kept_unmapped:
        yield "  kept", "dim", f"{one_line(name, _CHARS)} (not used)"
    for left in done.left_out:
        yield "  left out", "red", f"{left.file}: {one_line(left.reason, _CHARS)}"
