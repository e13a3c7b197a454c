"""`familiar web`: parse, call, render."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import App, familiar_of, globals_of, home_of, output, run_async

if TYPE_CHECKING:
    from familiar_cli.serve.running import Listening
    from familiar_cli.ui.emit import Output

app = App()


@app.command()
def web(
    ctx: typer.Context,
    *,
    port: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=65535, help="Port to listen on; 0: any free one."),
    ] = 8766,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the link; do not open a browser.")
    ] = False,
    export: Annotated[
        str | None,
        typer.Option(
            "--export", metavar="FILE", help="Write everything as one page to FILE, and exit."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With --export: overwrite FILE if it exists.")
    ] = False,
) -> None:
    """Show turns, prompts and memory in a browser, as they are now and as they were.

    The link opens the page once, within ten minutes. The page listens on this machine only and
    shows everything, private channels too. SIGINT (Ctrl-C) or SIGTERM stops it.

    \b
    familiar web
    familiar web --port 0 --no-open --json
    familiar web --export yuzu.html
    """
    from importlib.util import find_spec

    from familiar_cli.errors import ConfigError

    if not all(map(find_spec, ("starlette", "uvicorn", "jinja2"))):
        raise ConfigError(
            "The page needs packages that are not installed: starlette, uvicorn and jinja2",
            hint="Run `pip install 'familiar-memory[serve]'`.",
        )
    if export is not None:
        return _export(ctx, export, force=force)
    from familiar_cli.serve.running import Listening

    home, given = home_of(ctx), globals_of(ctx).familiar
    if given:
        from familiar_cli.config.home import find_familiar

        given = find_familiar(home, given).id
    listening = Listening("127.0.0.1", port, background=False, api=False, familiar_id=given)
    return _run(output(ctx), home, listening, opens=not no_open)


def _export(ctx: typer.Context, file: str, *, force: bool) -> None:
    from familiar_cli.imports.foreign_files import write_result
    from familiar_cli.web.export import exported

    with familiar_of(ctx) as familiar:
        content = exported(familiar).encode("utf-8", "replace")
    write_result(Path(file).expanduser(), content, force=force)
    data = {"path": file, "bytes": len(content)}
    output(ctx).answer(data, f"Wrote {file} ({len(content):,} bytes)")


def _run(out: Output, home: Path, listening: Listening, *, opens: bool) -> None:
    from familiar_cli.config.home import list_familiars
    from familiar_cli.serve.running import serve as run_server

    def ready(url: str) -> None:
        link = url + listening.door.link
        out.answer({"url": link, "familiars": list_familiars(home), "home": str(home)}, link)
        out.note("The link opens the page once, in one browser, within ten minutes (Ctrl-C stops).")
        if opens:
            import webbrowser

            webbrowser.open(link)

    run_async(run_server(home, listening, on_ready=ready, tell=out.warn))
