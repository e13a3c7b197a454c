"""`familiar graph`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import App, familiar_of, output
from familiar_cli.commands._options import DryRun

if TYPE_CHECKING:
    from familiar_cli.actions.graph import Around
    from familiar_cli.familiar import Familiar
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
    dot: Annotated[bool, typer.Option("--dot", help="Print the graph as Graphviz DOT.")] = False,
    export: Annotated[
        str | None,
        typer.Option(
            "--export", metavar="FILE|-", help="Write all relations as entity-core's JSON."
        ),
    ] = None,
    import_: Annotated[
        str | None,
        typer.Option(
            "--import", metavar="FILE", help="Add the relations of entity-core's graph.db or JSON."
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="With --html or --export: overwrite FILE if it exists."),
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Show who and what somebody is related to; without NAME, list all relations.

    Relations stand below `## Relations` in a file of `people/`, `topics/` or `places/`, one per
    line: `- sister of [Robin](discord-42.md) (since 2024-03)`.

    \b
    familiar graph Mika
    familiar graph topics/choir.md --depth 2
    familiar graph Mika --html mika.html
    familiar graph Mika --dot
    familiar graph --import graph.db --dry-run
    """
    from familiar_cli.actions.graph import around, overview
    from familiar_cli.ui import graph_page as page
    from familiar_cli.ui.emit import exact
    from familiar_cli.ui.terminal import print_page

    out = output(ctx)
    _check(name, html=html, dot=dot, force=force and export is None)
    if import_ is not None or export is not None:
        _check_alone(name, html, dot, import_, export)
        with familiar_of(ctx) as familiar:
            if import_ is not None:
                _import(out, familiar, import_, dry_run=dry_run)
            else:
                _export(out, familiar, str(export), force=force)
        return
    if dry_run:
        _check_dry_run()
    with familiar_of(ctx) as familiar:
        found = (
            overview(familiar, viewer=familiar.privacy.program())
            if name is None
            else around(familiar, name, depth, viewer=familiar.privacy.program())
        )
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
        raise UsageError("--html and --dot need a NAME to start from", hint="Add one.")
    if html is not None and dot:
        raise UsageError("--html and --dot cannot be combined", hint="Choose one.")
    if force and html is None:
        raise UsageError("This option requires --html or --export", hint="Add one.")


def _check_alone(
    name: str | None, html: str | None, dot: bool, import_: str | None, export: str | None
) -> None:
    from familiar_cli.errors import UsageError

    if name is not None or html is not None or dot or (import_ is not None and export is not None):
        raise UsageError("--import and --export exclude other options", hint="Leave those out.")


def _check_dry_run() -> None:
    from familiar_cli.errors import UsageError

    raise UsageError("This option requires --import", hint="Add --import FILE.")


def _import(out: Output, familiar: Familiar, file: str, *, dry_run: bool) -> None:
    from pathlib import Path

    from familiar_cli.actions.graph import as_json, import_graph
    from familiar_cli.text import counted

    done = import_graph(familiar, Path(file).expanduser(), dry_run=dry_run)
    would = "would add" if dry_run else "added"
    told = f"{would} {counted(done.relations, 'relation')} and {counted(len(done.pages), 'page')}"
    out.answer(as_json(done), done.diff if dry_run and done.diff else told)
    if done.known:
        out.note(f"{counted(done.known, 'relation')} already known.")
    if done.left_out:
        out.note(f"{done.left_out} nodes or edges were left out.")


def _export(out: Output, familiar: Familiar, file: str, *, force: bool) -> None:
    import json
    from pathlib import Path

    from familiar_cli.actions.graph import export_graph
    from familiar_cli.imports.entity_graph import graph_json
    from familiar_cli.imports.foreign_files import write_result
    from familiar_cli.ui.emit import exact_bytes

    found = graph_json(export_graph(familiar))
    content = (json.dumps(found, ensure_ascii=False, indent=1) + "\n").encode("utf-8")
    if file == "-":
        out.answer(found, lambda: exact_bytes(content))
        return
    write_result(Path(file).expanduser(), content, force=force)
    counts = {"nodes": len(found["nodes"]), "edges": len(found["edges"])}
    out.answer({"written": file, **counts}, f"Wrote {file} ({len(content):,} bytes)")


def _html(out: Output, found: Around, file: str, *, force: bool) -> None:
    from pathlib import Path

    from familiar_cli.imports.foreign_files import write_result
    from familiar_cli.ui.emit import exact_bytes
    from familiar_cli.ui.html.ego import ego_page

    content = ego_page(found).encode("utf-8")
    data = {**found.to_json(), "written": None if file == "-" else file, "bytes": len(content)}
    if file == "-":
        out.answer({**data, "html": content.decode("utf-8")}, lambda: exact_bytes(content))
        return
    write_result(Path(file).expanduser(), content, force=force)
    out.answer(data, f"Wrote {file} ({len(content):,} bytes)")
