"""`familiar serve`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import App, familiar_of, home_of, output, run_async

if TYPE_CHECKING:
    from pathlib import Path

    from familiar_cli.config.serving import TokenFile
    from familiar_cli.serve.running import Listening
    from familiar_cli.ui.emit import Output

app = App(invoke_without_command=True)


@app.callback()
def serve(
    ctx: typer.Context,
    *,
    host: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Address to listen on; default: 127.0.0.1."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, max=65535, help="Port to listen on; 0: any free one; default: 8765."
        ),
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option(
            "--token-file", metavar="FILE", help="File with the tokens that clients must send."
        ),
    ] = None,
    no_background: Annotated[
        bool,
        typer.Option(
            "--no-background", help="Do not write memory or make summaries while serving."
        ),
    ] = False,
) -> None:
    """Serve every familiar of the home as a model, through an OpenAI-compatible API.

    Chat programs choose the model NAME for the familiar's own prompt, or NAME+memory to keep their
    own prompt and add memory to it. Without a token it listens on this machine only. SIGINT
    (Ctrl-C) or SIGTERM stops it; of a reply in progress, the part that has arrived is kept.
    `serve.toml` in the home holds the same settings, and the web pages that may use the server.

    \b
    familiar serve
    familiar serve --port 0 --json
    familiar serve --host 0.0.0.0 --token-file tokens.txt
    familiar serve log
    """
    if ctx.invoked_subcommand is not None:
        return
    from importlib.util import find_spec

    from familiar_cli.config.serving import load_serving
    from familiar_cli.errors import ConfigError

    if not all(map(find_spec, ("starlette", "uvicorn", "jinja2"))):
        raise ConfigError(
            "The server needs packages that are not installed: starlette, uvicorn and jinja2",
            hint="Run `pip install 'familiar-memory[serve]'`.",
        )
    from familiar_cli.serve.running import Listening

    home = home_of(ctx)
    set_to = load_serving(home)
    found = _tokens(token_file, home, set_to.token_file)
    listening = Listening(
        host or set_to.host,
        set_to.port if port is None else port,
        found.tokens,
        found.of_owner,
        set_to.hosts,
        set_to.origins,
        background=not no_background,
    )
    _run(output(ctx), home, listening)


@app.command()
def log(
    ctx: typer.Context,
    *,
    lines: Annotated[
        int, typer.Option("--lines", "-n", metavar="N", min=0, help="Earlier turns to show first.")
    ] = 10,
    no_follow: Annotated[
        bool, typer.Option("--no-follow", help="Print the earlier turns and exit.")
    ] = False,
) -> None:
    """Follow the turns that come through the server, one line each, until interrupted.

    \b
    familiar serve log
    familiar serve log --lines 50 --no-follow
    """
    from familiar_cli.actions.client_chat import follow, newest
    from familiar_cli.ui.emit import say, write_json
    from familiar_cli.ui.status_pages import line_of

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        turns = newest(familiar, lines)
        if no_follow:
            rows = [turn.to_json() for turn in turns]
            out.answer({"turns": rows}, "".join(line_of(t, familiar.zone) + "\n" for t in turns))
            return
        for turn in follow(familiar, turns):
            if out.as_json:
                write_json(turn.to_json())
            else:
                say(line_of(turn, familiar.zone))


def _tokens(given: str | None, home: Path, set_to: str) -> TokenFile:
    """Return the tokens in a file; one that the settings name is looked for in the home."""
    from pathlib import Path

    from familiar_cli.config.serving import TokenFile, read_tokens

    if given:
        return read_tokens(Path(given).expanduser())
    return read_tokens(home / Path(set_to).expanduser()) if set_to else TokenFile()


def _run(out: Output, home: Path, listening: Listening) -> None:
    import sys

    from familiar_cli.config.home import list_familiars
    from familiar_cli.config.serving import is_loopback_host
    from familiar_cli.serve.running import serve as run_server

    def ready(url: str) -> None:
        familiars = list_familiars(home)
        data = {
            "url": url,
            "api": f"{url}/v1",
            "page": url + listening.door.link,
            "familiars": familiars,
            "home": str(home),
        }
        out.answer(data, None)
        if listening.owner_tokens:
            out.note(
                f"{len(listening.owner_tokens)} of {len(listening.tokens)} tokens are the owner's: "
                "with them, what is private is shown, too."
            )
        names = ", ".join(familiars) or "none yet; `familiar init` makes one"
        out.note(f"Serving {names}. Address for chat programs: {url}/v1 (Ctrl-C stops).")
        if not is_loopback_host(listening.host):
            out.note(
                f"Other machines can reach {listening.host}. Whoever has a token can use the API "
                "and the memory of every familiar here; the pages also need the link."
            )
        if sys.stderr.isatty():
            out.note("The page, in one browser, within ten minutes: " + url + listening.door.link)
        else:
            out.note("For the page, run `familiar web`; a link is never written to a log.")

    run_async(run_server(home, listening, on_ready=ready, tell=out.warn))
