"""`familiar distill`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from familiar_cli.commands._base import familiar_of, group, output, run_async, with_models
from familiar_cli.commands._options import DryRunUnasked, Redo, Review

if TYPE_CHECKING:
    from familiar_cli.consolidation.digests import Name

app = group("Make the digests that every prompt includes, and show their state.")


@app.command()
def short(ctx: typer.Context, *, redo: Redo = False, dry_run: DryRunUnasked = False) -> None:
    """Make digest/short.md from the newest sessions that fit its budget. Needs no model.

    \b
    familiar distill short
    """
    _make(ctx, "short", redo=redo, dry_run=dry_run, review=False)


@app.command()
def mid(
    ctx: typer.Context,
    *,
    redo: Redo = False,
    dry_run: DryRunUnasked = False,
    review: Review = False,
) -> None:
    """Have a model summarise digest/short.md in digest/mid.md.

    \b
    familiar distill mid
    familiar distill mid --review
    """
    _make(ctx, "mid", redo=redo, dry_run=dry_run, review=review)


@app.command()
def long(
    ctx: typer.Context,
    *,
    redo: Redo = False,
    dry_run: DryRunUnasked = False,
    review: Review = False,
) -> None:
    """Have a model merge digest/mid.md into digest/long.md. A big loss waits for review.

    \b
    familiar distill long --review
    """
    _make(ctx, "long", redo=redo, dry_run=dry_run, review=review)


@app.command()
def status(ctx: typer.Context) -> None:
    """Show each digest's length, when it was made, and whether it is due.

    \b
    familiar distill status
    familiar distill status --json
    """
    from familiar_cli.actions.consolidate import Consolidating
    from familiar_cli.ui.consolidation_page import status_page
    from familiar_cli.ui.terminal import print_page

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        tiers, zone = Consolidating(familiar).distiller().status(), familiar.zone
    data = {"tiers": [tier.to_json() for tier in tiers]}
    out.answer(data, lambda: print_page(status_page(tiers, zone)))


def _make(ctx: typer.Context, name: Name, *, redo: bool, dry_run: bool, review: bool) -> None:
    from familiar_cli.actions.consolidate import Consolidating, How
    from familiar_cli.errors import UsageError
    from familiar_cli.ui.consolidation_page import digest_notes, digest_text
    from familiar_cli.ui.emit import exact

    out = output(ctx)
    if dry_run and review:
        raise UsageError("--dry-run and --review cannot be combined", hint="Use only one.")
    how = How(dry_run=dry_run, review=review, on_wait=out.note)
    with with_models(familiar_of(ctx)) as familiar:
        made, problem = run_async(Consolidating(familiar).distill(name, how, again=redo))
    for note in digest_notes(made, dry_run=dry_run):
        out.note(note)
    if problem:
        out.warn(problem)
    data = {**made.to_json(), "dry_run": dry_run, "notification": problem or None}
    out.answer(data, lambda: exact(digest_text(made, dry_run=dry_run)))
