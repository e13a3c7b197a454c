"""`familiar index`: parse, call, render."""

from __future__ import annotations

import typer

from familiar_cli.commands._base import familiar_of, group, output

app = group("Build, inspect and delete the search index.")


@app.command()
def build(ctx: typer.Context) -> None:
    """Index memory and turns: always by words, and by meaning if a model is on disk.

    It can be stopped at any time; the next run continues where it stopped.

    \b
    familiar index build
    """
    from familiar_cli.actions import index
    from familiar_cli.ui.memory_pages import built_text
    from familiar_cli.ui.progress import steps

    out, familiar = output(ctx), familiar_of(ctx)
    with familiar, steps(out) as report:
        built = index.build(familiar, report)
    if familiar.finder.embedder.embedder is None:
        out.note(f"Words only: {familiar.finder.embedder.reason}.")
        if familiar.finder.embedder.hint:
            out.note(f"hint: run `{familiar.finder.embedder.hint}`, then `familiar index build`")
    out.answer(built, built_text(built))


@app.command()
def status(ctx: typer.Context) -> None:
    """Show what the index holds, and what is still to be indexed.

    \b
    familiar index status
    familiar index status --json
    """
    from familiar_cli.actions import index
    from familiar_cli.ui.memory_pages import status_page

    with familiar_of(ctx) as familiar:
        found, turns = index.status(familiar)
        opened = familiar.finder.embedder
    data = {"status": found, "turns": turns, "model_on_disk": _model(opened)}
    output(ctx).answer(data, status_page(found, turns, opened))


@app.command()
def clear(ctx: typer.Context) -> None:
    """Delete the index and the vectors of turns. Memory and history are untouched.

    The next search rebuilds the index; `familiar index build` rebuilds all of it.

    \b
    familiar index clear
    """
    from familiar_cli.actions import index

    out = output(ctx)
    there = index.clear(familiar_of(ctx))
    out.answer({"cleared": there}, "deleted the index" if there else "there was no index")


def _model(opened: object) -> str:
    embedder = getattr(opened, "embedder", None)
    return embedder.model if embedder else ""
