"""`familiar card`: parse, call, render."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from familiar_cli.commands._base import familiar_of, group, output, read_card_at
from familiar_cli.commands._options import OutFile, Overwrite

if TYPE_CHECKING:
    from familiar_cli.imports.export_card import Exported
    from familiar_cli.tokens import TokenCounter

app = group("Show, check and export character cards.")

_File = Annotated[
    str,
    typer.Argument(metavar="FILE", help="Character card in any format; `-` reads standard input."),
]


@app.command()
def show(ctx: typer.Context, file: _File) -> None:
    """Show what a card contains: texts and their lengths, greetings, lorebook, assets.

    \b
    familiar card show mira.png
    """
    import sys

    from familiar_cli.imports.card_check import summarise
    from familiar_cli.ui.import_pages import card_page

    summary, out = summarise(read_card_at(file), _counter()), output(ctx)
    framed = sys.stdout.isatty()
    out.answer(summary, card_page(summary, framed=framed))
    for warning in summary.warnings:
        out.warn(warning)


@app.command()
def check(ctx: typer.Context, file: _File) -> None:
    """Check a card for problems. Exits with 7 if there are any.

    \b
    familiar card check mira.png
    """
    from familiar_cli.errors import PartialError
    from familiar_cli.imports.card_check import check_card
    from familiar_cli.ui.import_pages import findings_page

    card, out = read_card_at(file), output(ctx)
    findings = check_card(card, _counter())
    data = {"name": card.name, "spec": card.spec, "findings": findings}
    if not findings:
        out.answer(data, f"{card.name}: no problems found")
        return
    error = PartialError(
        f"{card.origin!r} has {len(findings)} finding{'s' if len(findings) > 1 else ''}",
        hint="It can still be imported; `familiar card show` shows all of it.",
    )
    out.partial(data, [error], findings_page(findings))


@app.command()
def export(
    ctx: typer.Context,
    *,
    card_format: Annotated[
        Literal["png", "json", "charx"], typer.Option("--format", help="File format.")
    ] = "png",
    out_file: OutFile = None,
    force: Overwrite = False,
) -> None:
    """Export the familiar as a card, edits included.

    \b
    familiar card export --out mira.png
    familiar card export --format json > mira.json
    """
    from familiar_cli.imports.export_card import export_card

    familiar, out = familiar_of(ctx), output(ctx)
    _check_terminal(card_format, out_file)
    name = familiar.config.name or familiar.paths.id
    made = export_card(familiar.memory, card_format, default_name=name)
    _deliver(ctx, made, card_format, out_file, force=force)
    for thing in made.left_out:
        out.warn(f"a {card_format} file cannot carry {thing}; the original keeps it")


def _check_terminal(card_format: str, out_file: Path | None) -> None:
    import sys

    from familiar_cli.errors import UsageError

    if card_format != "json" and out_file is None and sys.stdout.isatty():
        raise UsageError(
            f"A {card_format} file cannot be printed to a terminal",
            hint=f"Add `--out card.{card_format}`.",
        )


def _deliver(
    ctx: typer.Context, made: Exported, card_format: str, out_file: Path | None, *, force: bool
) -> None:
    from familiar_cli.ui.emit import exact_bytes

    out = output(ctx)
    data = {"format": card_format, "bytes": len(made.content), "left_out": made.left_out}
    if out_file is None and not out.as_json:
        exact_bytes(made.content)
        return
    if out_file is None:
        out.answer(data | _inline(made.content, card_format), "")
        return
    from familiar_cli.imports.foreign_files import write_result

    write_result(out_file, made.content, force=force)
    out.answer(data | {"path": str(out_file)}, f"Wrote {out_file} ({len(made.content)} bytes)")


def _inline(content: bytes, card_format: str) -> dict[str, object]:
    """Return the card as it fits into JSON."""
    import base64
    import json

    if card_format == "json":
        return {"card": json.loads(content)}
    return {"content_base64": base64.b64encode(content).decode("ascii")}


def _counter() -> TokenCounter:
    from familiar_cli.config.home import cache_dir
    from familiar_cli.models.store import encoding_path
    from familiar_cli.tokens import load

    return load(encoding_path(cache_dir()))
