"""`familiar init`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import App, file_or_stdin, globals_of, home_of, output

if TYPE_CHECKING:
    from pathlib import Path

    from familiar_cli.bootstrap.cards import Card

app = App()


@app.command()
def init(
    ctx: typer.Context,
    familiar_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Its id; else made from the name.")
    ] = None,
    *,
    from_card: Annotated[
        str | None,
        typer.Option("--from-card", metavar="FILE", help="A PNG, CHARX, JSON or YAML card, or -."),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option("--template", metavar="NAME", help="companion, assistant or narrator."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Overwrite text that differs from the card's.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be written, and write nothing.")
    ] = False,
) -> None:
    """Make a familiar from a character card or a template.

    \b
    familiar init --from-card mira.png
    familiar init mira --template companion
    familiar init --from-card mira.png --dry-run
    """
    from dataclasses import asdict

    from familiar_cli.bootstrap.create_familiar import create_familiar
    from familiar_cli.familiar import Familiar
    from familiar_cli.ui.card_page import created_page
    from familiar_cli.ui.terminal import print_page

    out, home = output(ctx), home_of(ctx)
    wanted = familiar_id or globals_of(ctx).familiar
    made = create_familiar(
        home,
        _card(from_card, template, wanted),
        lambda paths: Familiar(paths).memory,
        familiar_id=wanted,
        overwrite=overwrite,
        dry_run=dry_run,
    )
    data = asdict(made) | {"dry_run": dry_run}
    out.answer(data, lambda: print_page(created_page(made, dry_run=dry_run)))
    for warning in made.warnings:
        out.warn(warning)
    if not dry_run:
        out.note(f'Next: `familiar ask {_chosen(home, made.id)}"Hello"`')


def _card(from_card: str | None, template: str | None, familiar_id: str | None) -> Card:
    from familiar_cli.bootstrap.cards import read_card
    from familiar_cli.bootstrap.templates import template_card
    from familiar_cli.errors import UsageError

    if from_card and not template:
        raw, origin = file_or_stdin(from_card)
        return read_card(raw, origin=origin)
    if template and not from_card:
        return template_card(template, name=(familiar_id or "").replace("-", " ").title())
    raise UsageError(
        "A familiar is made from one thing: a card or a template",
        hint="Add `--from-card FILE`, or `--template companion` (or assistant, narrator).",
    )


def _chosen(home: Path, familiar_id: str) -> str:
    """Return the option that a command needs to mean this familiar, if it needs one."""
    from familiar_cli.config.home import find_familiar
    from familiar_cli.errors import FamiliarError

    try:
        found = find_familiar(home).id
    except FamiliarError:
        found = ""
    return "" if found == familiar_id else f"--familiar {familiar_id} "
