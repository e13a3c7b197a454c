"""The commands of `familiar memory` about pins, and what changes of memory files have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import App, familiar_of, output
from familiar_cli.commands._completion import complete_path, complete_pinned
from familiar_cli.commands._options import DryRun

if TYPE_CHECKING:
    from familiar_cli.memory.store.types import Applied


def add_to(app: App) -> None:
    """Put these commands into the group `app`."""
    for command in (pin, unpin, pins):
        app.command()(command)


def pin(
    ctx: typer.Context,
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Files to pin.", autocompletion=complete_path),
    ],
    *,
    dry_run: DryRun = False,
) -> None:
    """Include files in every prompt, by setting `pinned: true` in their front matter.

    Prompts show them whole within `budget.pinned`; `familiar memory pins` tells which fit.

    \b
    familiar memory pin lore/rules.md
    familiar memory pin people/alice.md notes.md --dry-run
    """
    _set(ctx, paths, pinned=True, dry_run=dry_run)


def unpin(
    ctx: typer.Context,
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Files to unpin.", autocompletion=complete_pinned),
    ],
    *,
    dry_run: DryRun = False,
) -> None:
    """Remove `pinned` from the front matter of files; they are found again when they fit.

    \b
    familiar memory unpin lore/rules.md
    """
    _set(ctx, paths, pinned=False, dry_run=dry_run)


def pins(ctx: typer.Context) -> None:
    """List the pinned files with their tokens, and tell which do not fit in `budget.pinned`.

    \b
    familiar memory pins
    """
    from familiar_cli.actions.pins import list_pins
    from familiar_cli.ui.memory_page import pins_page
    from familiar_cli.ui.terminal import print_page

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        found = list_pins(familiar)
    if not found.pins:
        out.note("Nothing is pinned. Pin a file: `familiar memory pin PATH`.")
    for problem in found.problems:
        out.warn(problem)
    out.answer(found, lambda: print_page(pins_page(found)) if found.pins else None)


def answer_applied(ctx: typer.Context, done: Applied, *, dry_run: bool, **more: object) -> None:
    """Print what a change of memory files did, or would do; `more` goes into `--json`."""
    from dataclasses import asdict

    from familiar_cli.ui.memory_page import applied_text

    out = output(ctx)
    out.answer({**asdict(done), **more, "dry_run": dry_run}, applied_text(done, dry_run=dry_run))
    if dry_run:
        out.note("Nothing was changed (--dry-run).")


def _set(ctx: typer.Context, paths: list[str], *, pinned: bool, dry_run: bool) -> None:
    from familiar_cli.actions.pins import set_pins

    done = set_pins(familiar_of(ctx), paths, pinned=pinned, dry_run=dry_run)
    answer_applied(ctx, done, dry_run=dry_run)
