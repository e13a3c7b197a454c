"""`familiar graph`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import App, familiar_of, output

if TYPE_CHECKING:
    from familiar_cli.actions.graph import Around
    from familiar_cli.ui.emit import Output

app = App()


@app.command()
def graph(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Person, place or topic: a name, or its file."),
    ] = None,
    *,
    depth: Annotated[
        int, typer.Option(min=1, max=4, metavar="N", help="Maximum number of steps away.")
    ] = 1,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE|-", help="Write a picture to FILE.")
    ] = None,
    dot: Annotated[
        bool, typer.Option("--dot", help="Print the graph in the language of Graphviz.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --html: overwrite FILE if it exists.")
    ] = False,
) -> None:
    """Show who and what somebody is related to; without NAME, list all relations.

    Relations stand below `## Relations` in a file of `people/`, `topics/` or `places/`, one per
    line: `- sister of [Robin](discord-42.md) (since 2024-03)`.

    \b
    familiar graph Mika
    familiar graph topics/choir.md --depth 2
    familiar graph Mika --html mika.html
    familiar graph Mika --dot
    """
    from familiar_cli.actions.graph import around, overview
    from familiar_cli.ui import graph_page as page
    from familiar_cli.ui.emit import exact
    from familiar_cli.ui.terminal import print_page

    out = output(ctx)
    _check(name, html=html, dot=dot, force=force)
    with familiar_of(ctx) as familiar:
        found = overview(familiar) if name is None else around(familiar, name, depth)
    if html is not None:
        _html(out, found, html, force=force)
    elif dot:
        out.answer(found.to_json(), page.dot_text(found))
    elif name is None:
        out.answer(found.to_json(), lambda: exact(page.overview_text(found)))
    else:
        out.answer(found.to_json(), lambda: print_page(page.graph_tree(found)))
    if not any(not edge.is_link for edge in found.edges):
        out.note(
            "No relations yet. Add one below `## Relations` in a person's file: "
            "`- sister of [Robin](discord-42.md)`."
        )
    if found.is_cut:
        out.note(f"Only {len(found.nodes)} pages are shown.")


def _check(name: str | None, *, html: str | None, dot: bool, force: bool) -> None:
    from familiar_cli.errors import UsageError

    if (html is not None or dot) and name is None:
        raise UsageError("A picture needs someone in the middle", hint="Add a NAME.")
    if html is not None and dot:
        raise UsageError("--html and --dot cannot be combined", hint="Choose one.")
    if force and html is None:
        raise UsageError("This option requires --html", hint="Add --html FILE.")


def _html(out: Output, found: Around, file: str, *, force: bool) -> None:
    from pathlib import Path

    from familiar_cli.bootstrap.outside import write_result
    from familiar_cli.ui.emit import exact_bytes
    from familiar_cli.ui.html.ego import ego_page

    content = ego_page(found).encode("utf-8")
    data = {**found.to_json(), "written": None if file == "-" else file, "bytes": len(content)}
    if file == "-":
        out.answer({**data, "html": content.decode("utf-8")}, lambda: exact_bytes(content))
        return
    write_result(Path(file).expanduser(), content, force=force)
    out.answer(data, f"Wrote {file} ({len(content):,} bytes)")
