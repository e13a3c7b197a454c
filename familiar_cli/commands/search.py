"""`familiar search`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import App, day_of, familiar_of, output, text_or_stdin
from familiar_cli.commands._options import most
from familiar_cli.commands._options import since as since_option

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.index.types import SearchResult
    from familiar_cli.ui.emit import Output

app = App()


@app.command()
def search(
    ctx: typer.Context,
    query: Annotated[
        str, typer.Argument(metavar="QUERY|-", help="What to find; `-` reads standard input.")
    ],
    *,
    k: Annotated[int, most("memories")] = 5,
    method: Annotated[
        str, typer.Option(metavar="auto|hybrid|lexical|dense|grep", help="How to find it.")
    ] = "auto",
    within: Annotated[
        str, typer.Option("--in", metavar="DIR", help="Only at or below this path.")
    ] = "",
    since: Annotated[str | None, since_option("memories")] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Rank single lines, printed as path:line:text.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every signal of every hit.")
    ] = False,
) -> None:
    """Find memories, by words and by meaning.

    \b
    familiar search "what does Alice like to drink?"
    familiar search "the trip to Rome" --since 2026-01-01
    familiar search tea --in sessions --explain
    """
    from familiar_cli.index.types import options_from
    from familiar_cli.ui.progress import steps
    from familiar_cli.ui.search_page import search_data, search_page
    from familiar_cli.ui.terminal import print_page

    out, familiar = output(ctx), familiar_of(ctx)
    options = options_from(
        k=k, method=method, within=within, since=day_of(familiar, since), lines=lines
    )
    with steps(out) as report:
        found = familiar.search(text_or_stdin(query), options, report)
    page = search_page(found, lines=lines, explain=explain)
    out.answer(search_data(found), lambda: print_page(*page) if page else None)
    _tell(out, found)
    _catch_up(out, familiar, found)


def _tell(out: Output, found: SearchResult) -> None:
    for note in found.notes:
        out.note(note if note.endswith(".") else f"{note}.")
    if found.hint:
        out.note(f"hint: run `{found.hint}`" if "`" not in found.hint else f"hint: {found.hint}")
    if not found.hits:
        out.note(f"Nothing was found by {found.method} search. See all: `familiar memory ls`.")


def _catch_up(out: Output, familiar: Familiar, found: SearchResult) -> None:
    """Give some waiting pieces their vectors, now that the answer is there."""
    if not (found.waiting and familiar.embedder.embedder):
        return
    from familiar_cli.errors import FamiliarError
    from familiar_cli.index.build import SOME

    try:
        familiar.index.embed_waiting(familiar.embedder.embedder, at_most=SOME)
    except FamiliarError as error:
        out.warn(str(error))
