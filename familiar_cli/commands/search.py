"""`familiar search`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import App, day_of, familiar_of, output, text_or_stdin
from familiar_cli.commands._options import most
from familiar_cli.commands._options import since as since_option

if TYPE_CHECKING:
    from familiar_cli.actions.search import PastFound
    from familiar_cli.familiar import Familiar
    from familiar_cli.index.types import SearchResult
    from familiar_cli.ui.emit import Output

app = App()


@app.command()
def search(
    ctx: typer.Context,
    query: Annotated[
        str, typer.Argument(metavar="QUERY|-", help="Question or words; `-` reads standard input.")
    ],
    *,
    k: Annotated[int, most("memories")] = 5,
    min_score: Annotated[
        float,
        typer.Option(
            "--min-score",
            min=0.0,
            max=2.0,
            metavar="SCORE",
            help="Only hits with at least this score.",
        ),
    ] = 0.0,
    method: Annotated[
        str, typer.Option(metavar="auto|hybrid|lexical|dense|grep", help="Search method.")
    ] = "auto",
    within: Annotated[
        str,
        typer.Option("--in", metavar="DIR", help="Only this file, or files below this directory."),
    ] = "",
    since: Annotated[str | None, since_option("memories")] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Rank single lines, and print path:line:text.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show how each hit was scored.")
    ] = False,
    past: Annotated[
        bool, typer.Option("--past", help="Search past turns instead of memory.")
    ] = False,
    all_: Annotated[bool, typer.Option("--all", help="Search memory and past turns.")] = False,
    channel: Annotated[
        str | None,
        typer.Option(
            "--channel",
            metavar="ID",
            help="Only past turns of this channel, even a private one.",
        ),
    ] = None,
) -> None:
    """Search memory by words and by meaning; with --past or --all, also past turns.

    Turns of a channel declared private are shown only with --channel ID.

    \b
    familiar search "what does Alice like to drink?"
    familiar search "the trip to Rome" --since 2026-01-01
    familiar search tea --in sessions --explain
    familiar search "the red scarf" --past
    familiar search "who plays chess?" --min-score 0.5
    """
    from familiar_cli.index.types import options_from
    from familiar_cli.ui.page import print_page
    from familiar_cli.ui.progress import steps
    from familiar_cli.ui.search_page import search_data, search_page
    from familiar_cli.visibility import OWNER

    _check(past=past, all_=all_, channel=channel, within=within)
    out, familiar = output(ctx), familiar_of(ctx)
    day, asked = day_of(familiar, since), text_or_stdin(query)
    options = options_from(
        k=k,
        method=method,
        within=within,
        since=day,
        lines=lines,
        min_score=min_score,
        viewer=OWNER,
    )
    found, said = None, None
    with familiar, steps(out) as report:
        if not past:
            found = familiar.search(asked, options, report)
        if past or all_:
            from familiar_cli.actions.search import search_past

            said = search_past(
                familiar,
                asked,
                k=k,
                method=method,
                since=day,
                channel=channel,
                viewer=OWNER if channel else familiar.privacy.glance(),
                min_score=min_score,
            )
    page = search_page(found, said, k=k, lines=lines, explain=explain)
    out.answer(search_data(found, said, asked), lambda: print_page(*page))
    if found:
        _tell(out, found, min_score)
        _catch_up(out, familiar, found)
    if said:
        _tell_of_turns(out, said, min_score)


def _check(*, past: bool, all_: bool, channel: str | None, within: str) -> None:
    from familiar_cli.errors import UsageError

    if past and all_:
        raise UsageError("--past and --all cannot be combined")
    if channel is not None and not (past or all_):
        raise UsageError("--channel chooses among turns", hint="Add --past or --all.")
    if past and within:
        raise UsageError("--in names a directory of the memory", hint="Leave it out, or use --all.")


def _tell_of_turns(out: Output, said: PastFound, min_score: float) -> None:
    if said.waiting:
        out.note(f"{said.waiting} turns without a vector yet were found by words alone.")
        out.note("hint: run `familiar index build`")
    if not said.hits:
        above = _above(min_score)
        out.note(f"Nothing was found in what was said{above}. See all: `familiar history ls`.")


def _above(min_score: float) -> str:
    return f" with a score of {min_score:g} or more" if min_score else ""


def _tell(out: Output, found: SearchResult, min_score: float) -> None:
    for note in found.notes:
        out.note(note if note.endswith(".") else f"{note}.")
    if found.hint:
        out.note(f"hint: run `{found.hint}`" if "`" not in found.hint else f"hint: {found.hint}")
    if not found.hits:
        out.note(
            f"Nothing was found by {found.method} search{_above(min_score)}. "
            "List all files with `familiar memory ls`."
        )


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
