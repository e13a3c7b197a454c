"""`familiar mcp`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import App, familiar_of, output, run_async

if TYPE_CHECKING:
    from familiar_cli.config.home import FamiliarPaths
    from familiar_cli.ui.emit import Output

app = App()


@app.command()
def mcp(
    ctx: typer.Context,
    *,
    allow_write: Annotated[
        bool,
        typer.Option("--allow-write", help="Let clients change memory without a review."),
    ] = False,
    channel: Annotated[
        str | None,
        typer.Option(
            "--channel", metavar="ID", help="The client's own channel, even a private one."
        ),
    ] = None,
    print_config: Annotated[
        str | None,
        typer.Option(
            "--print-config",
            metavar="claude-desktop|claude-code|cursor|zed",
            help="Print the client's settings for this server, and exit.",
        ),
    ] = None,
) -> None:
    """Give an agent access to the memory, over the Model Context Protocol (stdio).

    Clients start it themselves; --print-config prints what to put into their settings. What a
    client writes waits for `familiar review`, unless --allow-write is given. Private channels are
    hidden, except the one that --channel names. It ends with its client, or by SIGTERM.

    \b
    familiar mcp --print-config claude-desktop
    familiar mcp --print-config zed --channel work
    familiar mcp --allow-write
    """
    from importlib.util import find_spec

    from familiar_cli.errors import ConfigError
    from familiar_cli.identity import check_id

    if channel is not None:
        check_id(channel, "The channel id")
    if find_spec("mcp") is None:
        raise ConfigError(
            "The MCP server needs a package that is not installed: mcp",
            hint="Run `pip install 'familiar-memory[mcp]'`.",
        )
    out = output(ctx)
    with familiar_of(ctx) as familiar:
        paths = familiar.paths
    if print_config is not None:
        _print(out, print_config, paths, _options(channel, allow_write=allow_write))
        return
    from familiar_cli.mcp_server.server import Manner
    from familiar_cli.mcp_server.stdio import serve_stdio

    run_async(serve_stdio(paths, Manner(channel, allow_write=allow_write, tell=out.warn)))


def _options(channel: str | None, *, allow_write: bool) -> list[str]:
    """Return the options that whoever starts the server shall give as well."""
    words = ["--channel", channel] if channel is not None else []
    return [*words, "--allow-write"] if allow_write else words


def _print(out: Output, client: str, paths: FamiliarPaths, options: list[str]) -> None:
    from familiar_cli.mcp_server.clients import config_for

    found = config_for(client, paths.root.parent, paths.id, options)
    data = {"client": client, "where": found.where, "config": found.config}
    out.answer(data, found.text)
    out.note(f"Add this to {found.where}.")
    if found.command:
        out.note(f"Or run: {found.command}")
