"""Commands that run until stopped: `serve`, `web`, `mcp` and `daemon`."""

from __future__ import annotations

from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from familiar_cli.base.config import serving
from familiar_cli.base.config.home import FamiliarPaths, find_familiar, list_familiars
from familiar_cli.base.text import shorten_list
from familiar_cli.cli.commands import _base as base
from familiar_cli.pages.emit import Output, print_error, say, write_json

if TYPE_CHECKING:
    from logging import Logger

    from familiar_cli.familiar import Familiar
    from familiar_cli.servers.running import ListenOptions

_NAMED = 10  # familiars listed when the server starts

serve_app = base.App(invoke_without_command=True)


@serve_app.callback()
def serve(
    ctx: typer.Context,
    *,
    host: Annotated[str | None, typer.Option(envvar="FAMILIAR_SERVE_HOST")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, envvar="FAMILIAR_SERVE_PORT")
    ] = None,
    token_file: Annotated[str | None, typer.Option(envvar="FAMILIAR_SERVE_TOKEN_FILE")] = None,
    allow_host: Annotated[list[str] | None, typer.Option(envvar="FAMILIAR_SERVE_HOSTS")] = None,
    allow_origin: Annotated[list[str] | None, typer.Option(envvar="FAMILIAR_SERVE_ORIGINS")] = None,
    drain: Annotated[int | None, typer.Option(min=0, envvar="FAMILIAR_SERVE_DRAIN")] = None,
    log: Annotated[
        Literal["text", "json"] | None, typer.Option(envvar="FAMILIAR_SERVE_LOG")
    ] = None,
    embodiments: Annotated[
        bool, typer.Option("--embodiments", envvar="FAMILIAR_SERVE_EMBODIMENTS")
    ] = False,
    no_background: Annotated[
        bool, typer.Option("--no-background", envvar="FAMILIAR_SERVE_NO_BACKGROUND")
    ] = False,
) -> None:
    """Serve every familiar of the home as a model, through an OpenAI-compatible API.

    Chat programs choose the model NAME for the familiar's own prompt, or NAME+memory to keep their
    own prompt and add memory to it. Without a token it listens on this machine only. SIGINT
    (Ctrl-C) or SIGTERM stops it, once the replies in progress are complete or --drain has passed; a
    second one stops it at once. The part of a reply that has arrived by then is saved. `serve.toml`
    in the home holds the same settings; environment variables override it, and options override
    both.

    \b
    familiar serve
    familiar serve --port 0 --json
    familiar serve --host 0.0.0.0 --token-file tokens.txt
    familiar serve --drain 60
    familiar serve log

    Args:
        host (ADDRESS): Address to listen on; default: 127.0.0.1.
        port (N): Port to listen on; 0: any free one; default: 8765.
        token_file (FILE): File with the tokens that clients must send, as seen from here.
        allow_host (NAME): Another host name under which clients reach the server.
        allow_origin (ORIGIN): A web page that may use the server from a browser.
        drain (SECONDS): How long replies may continue after the signal to stop; default: 2.
        log: On stderr: 'json' writes each request and message as a line of JSON.
        embodiments: Let programs register as embodiments, which keep a copy of the familiar.
        no_background: Do not write memory or make summaries while serving.
    """
    if ctx.invoked_subcommand is not None:
        return

    from familiar_cli.servers.running import ListenOptions

    home = base.home_of(ctx)
    set_to = serving.load_serving(home)
    file = _tokens(token_file, home, set_to.token_file)
    listening = ListenOptions(
        host or set_to.host,
        set_to.port if port is None else port,
        file.tokens,
        file.of_owner,
        tuple(allow_host or set_to.hosts),
        tuple(allow_origin or set_to.origins),
        drain_s=set_to.drain if drain is None else drain,
        background=not no_background,
        embodiments=embodiments,
    )
    out = base.output(ctx)
    if (log or set_to.log) == "json":
        from familiar_cli.servers.metrics import start_log

        out = _LogOutput(out.command, as_json=out.as_json, quiet=out.quiet, log=start_log())
    base.warn_of_network(out, home)
    _run(out, home, listening)


@serve_app.command("log")
def show_log(
    ctx: typer.Context,
    *,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0)] = 10,
    no_follow: Annotated[bool, typer.Option("--no-follow")] = False,
    every: Annotated[bool, typer.Option("--all")] = False,
) -> None:
    """Follow the turns that come through the server, one line each, until interrupted.

    \b
    familiar serve log
    familiar serve log --lines 50 --no-follow
    familiar serve log --all

    Args:
        lines (N): Earlier turns to show first.
        no_follow: Print the earlier turns and exit.
        every: All familiars in the home, merged by time.
    """
    from familiar_cli.actions.talk.served_log import ServedLog
    from familiar_cli.pages.status_pages import line_of

    out, home, zone = base.output(ctx), base.home_of(ctx), None
    list_ids = partial(list_familiars, home)
    if not every:
        with base.familiar_of(ctx) as familiar:
            home, zone, only = familiar.paths.root.parent, familiar.zone, [familiar.paths.id]
        list_ids = partial(list, only)
    served = ServedLog(home, list_ids, out.warn)
    line = partial(line_of, zone=zone, names_familiar=every)
    turns = served.newest(lines)
    if no_follow:
        rows = [turn.to_json() for turn in turns]
        out.answer({"turns": rows}, "".join(f"{line(turn)}\n" for turn in turns))
        return
    for turn in chain(turns, served.follow()):
        if out.as_json:
            write_json(turn.to_json())
        else:
            say(line(turn))


token_app = base.group("Create and remove tokens for certain familiars and people.")
serve_app.add_typer(token_app, name="token")

_Limit = Annotated[int, typer.Option(metavar="N", min=0, help="Maximum requests; 0: no limit.")]


@token_app.command()
def add(
    ctx: typer.Context,
    *,
    user: Annotated[list[str], typer.Option()],
    name: str = "",
    per_minute: _Limit = 0,
    per_day: _Limit = 0,
    person_per_minute: _Limit = 0,
    person_per_day: _Limit = 0,
) -> None:
    """Make a token for one familiar, or for several (`--familiar ada,bo`), and print it once.

    With it, a program sees these familiars only, and may speak only for the people that a pattern
    names; `'*'` names everyone, you included, and no other pattern names you. Limits are for the
    token, or for each person who uses it. Once there is a token, every program needs one. Only its
    hash is saved.

    \b
    familiar serve token add --user '*' --per-minute 20
    familiar serve token add --user 'irc:anna' --name friends

    Args:
        user (PATTERN): People who may speak: 'discord:*'.
        name (NAME): What to call it; default: ID-NUMBER.
    """
    home, value = base.home_of(ctx), base.globals_of(ctx).familiar
    ids = tuple(find_familiar(home, one or None).id for one in (value or "").split(","))
    limits = (per_minute, per_day, person_per_minute, person_per_day)
    grant, token = serving.GrantFile(home).add(serving.Grant(name, "", ids, tuple(user), *limits))
    out = base.output(ctx)
    out.answer({**grant.to_json(), "token": token}, token)
    out.note(f"This is token {grant.name!r}; it is not shown again.")


@token_app.command("list")
def ls(ctx: typer.Context) -> None:
    """List the tokens, and what each gives access to.

    \b
    familiar serve token list
    """
    found = list(serving.GrantFile(base.home_of(ctx)).grants().values())
    lines = [f"{one.name}  {', '.join(one.familiars)}  {', '.join(one.users)}" for one in found]
    out = base.output(ctx)
    out.answer({"tokens": [one.to_json() for one in found]}, "\n".join(lines) or None)
    if not found:
        out.note("There are no tokens; `familiar serve token add` makes one.")


@token_app.command()
def rm(ctx: typer.Context, name: str) -> None:
    """Remove a token: a running server refuses it from then on.

    \b
    familiar serve token rm ada-1

    Args:
        name (NAME): The token.
    """
    grant = serving.GrantFile(base.home_of(ctx)).remove(name)
    base.output(ctx).answer(grant.to_json(), f"Removed token {grant.name!r}.")


def _require_mcp() -> None:
    """Check that the package `mcp` is installed.

    Raises:
        ConfigError: It is missing.
    """
    from importlib.util import find_spec

    from familiar_cli.base.config.environment import install_command
    from familiar_cli.base.errors import ConfigError

    if find_spec("mcp") is None:
        raise ConfigError(
            "The MCP server needs a package that is not installed: mcp",
            hint=f"Run `{install_command('mcp')}`.",
        )


def _tokens(given: str | None, home: Path, set_to: str) -> serving.TokenFile:
    """Read the tokens in a file; a path from the settings is relative to the home."""
    if given:
        return serving.read_tokens(Path(given).expanduser())
    return serving.read_tokens(home / Path(set_to).expanduser()) if set_to else serving.TokenFile()


class _LogOutput(Output, frozen=True, kw_only=True):
    """Output whose narration is logged, whether or not `--quiet` was given."""

    log: Logger

    def note(self, *texts: str) -> None:
        """Log what is going on."""
        for text in texts:
            self.log.info("%s", text)

    def warn(self, *texts: str) -> None:
        """Log what the user should look at."""
        for text in texts:
            self.log.warning("%s", text)


def _run(out: Output, home: Path, listening: ListenOptions) -> None:
    import sys

    from familiar_cli.servers.running import serve as run_server

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
                f"{len(listening.owner_tokens)} of {len(listening.tokens)} tokens are owner "
                "tokens, which also give access to what is private."
            )
        names = shorten_list(familiars, _NAMED) or "none yet; `familiar init` makes one"
        out.note(f"Serving {names}. Address for chat programs: {url}/v1 (Ctrl-C stops).")
        if not serving.is_loopback_host(listening.host):
            out.note(
                f"Other machines can reach {listening.host}. Anyone with a token can use the API "
                "and the memory of every familiar here; the pages also need the link."
            )
        if sys.stderr.isatty():
            out.note("The page, in one browser, within ten minutes: " + url + listening.door.link)
        else:
            out.note("For the page, run `familiar web`; a link is never written to a log.")

    base.run_async(run_server(home, listening, on_ready=ready, tell=out.warn), fast=True)


web_app = base.App()


@web_app.command()
def web(
    ctx: typer.Context,
    *,
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8766,
    no_open: Annotated[bool, typer.Option("--no-open")] = False,
    export: str | None = None,
    force: Annotated[bool, typer.Option("--force")] = False,
) -> None:
    """Show turns, prompts and memory in a browser, as they are now and as they were.

    The link opens the page once, within ten minutes. The page listens on this machine only and
    shows everything, private channels too. SIGINT (Ctrl-C) or SIGTERM stops it.

    \b
    familiar web
    familiar web --port 0 --no-open --json
    familiar web --export yuzu.html

    Args:
        port (N): Port to listen on; 0: any free one.
        no_open: Print the link; do not open a browser.
        export (FILE): Write everything as one page to FILE, private channels too, and exit.
        force: With --export: overwrite FILE if it exists.
    """
    if export is not None:
        return _export(ctx, export, force=force)
    from familiar_cli.servers.running import ListenOptions

    home, value = base.home_of(ctx), base.globals_of(ctx).familiar
    if value:
        value = find_familiar(home, value).id
    listening = ListenOptions("127.0.0.1", port, background=False, api=False, familiar_id=value)
    base.warn_of_network(base.output(ctx), home)
    return _serve_page(base.output(ctx), home, listening, opens=not no_open)


def _export(ctx: typer.Context, file: str, *, force: bool) -> None:
    from familiar_cli.servers.web.export import export_page

    with base.familiar_of(ctx) as familiar:
        content = export_page(familiar).encode("utf-8", "replace")
    data = {"path": file, "bytes": len(content)}
    out = base.output(ctx)
    base.answer_content(out, content, file, data, data, force=force)
    out.note("It shows everything, private channels too; `familiar export DIR --public` does not.")


def _serve_page(out: Output, home: Path, listening: ListenOptions, *, opens: bool) -> None:
    from familiar_cli.servers.running import serve as run_server

    def ready(url: str) -> None:
        link = url + listening.door.link
        out.answer({"url": link, "familiars": list_familiars(home), "home": str(home)}, link)
        out.note("The link opens the page once, in one browser, within ten minutes (Ctrl-C stops).")
        if opens:
            import webbrowser

            webbrowser.open(link)

    base.run_async(run_server(home, listening, on_ready=ready, tell=out.warn), fast=True)


mcp_app = base.App()


@mcp_app.command()
def mcp(
    ctx: typer.Context,
    *,
    allow_write: Annotated[bool, typer.Option("--allow-write")] = False,
    embodiments: Annotated[bool, typer.Option("--embodiments")] = False,
    channel: str | None = None,
    private: Annotated[bool, typer.Option("--private")] = False,
    print_config: str | None = None,
) -> None:
    """Give an agent access to the memory, over the Model Context Protocol (stdio).

    Clients start it themselves; --print-config prints what to put into their settings. What a
    client writes waits for `familiar review`, unless --allow-write is given. It acts for you: it
    sees what you said in private and what is public, and with --private other people's private
    conversations, too. With --channel it sees what may be shown in that channel, and nothing else.
    It exits with its client, or on SIGTERM.

    \b
    familiar mcp --print-config claude-desktop
    familiar mcp --print-config zed --channel work
    familiar mcp --allow-write

    Args:
        embodiments: Let programs register as embodiments, which keep a copy of the familiar.
        allow_write: Let clients change memory without a review.
        channel (ID): The client's own channel, even a private one.
        private: Show other people's private conversations.
        print_config (claude-desktop|claude-code|cursor|zed): Print the client's settings for this
            server, and exit.
    """
    from familiar_cli.base.who.identity import check_id

    if channel is not None:
        check_id(channel, "The channel id")
    _require_mcp()
    out = base.output(ctx)
    with base.familiar_of(ctx) as familiar:
        paths = familiar.paths
    if print_config is not None:
        options = _own_options(channel, allow_write=allow_write, embodiments=embodiments)
        options += ["--private"] if private else []
        _print_client_config(out, print_config, paths, options)
        return
    from familiar_cli.servers.mcp.server import ServerOptions
    from familiar_cli.servers.mcp.transports import serve_stdio

    manner = ServerOptions(
        channel,
        allow_write=allow_write,
        embodiments=embodiments,
        owner=channel is None,
        private=private and channel is None,
        tell=out.warn,
    )
    base.run_async(serve_stdio(paths, manner))


def _own_options(channel: str | None, *, allow_write: bool, embodiments: bool) -> list[str]:
    """Return the options with which this server can be started again."""
    words = ["--channel", channel] if channel is not None else []
    words += ["--allow-write"] if allow_write else []
    return [*words, "--embodiments"] if embodiments else words


def _print_client_config(
    out: Output, client: str, paths: FamiliarPaths, options: list[str]
) -> None:
    from familiar_cli.servers.mcp.clients import config_for

    found = config_for(client, paths.root.parent, paths.id, options)
    data = {"client": client, "where": found.where, "config": found.config}
    out.answer(data, found.text)
    out.note(f"Add this to {found.where}.")
    if found.command:
        out.note(f"Or run: {found.command}")


daemon_app = base.App()


@daemon_app.command()
def daemon(
    ctx: typer.Context,
    *,
    once: Annotated[bool, typer.Option("--once")] = False,
    poll: Annotated[float, typer.Option(min=0.05)] = 2.0,
) -> None:
    """Run until interrupted, writing memory when enough turns wait or after a pause.

    It catches up when it starts. SIGINT (Ctrl-C) or SIGTERM ends it; a running pass stops between
    two steps and continues at the next start. It also does what `familiar consolidate` and
    `familiar distill` do, when that is due. A failed pass is retried after 1, 2, 5, 10 and then
    every 15 minutes, even after a restart; --once retries right away. With --json each event is one
    line, and the last line is the result.

    \b
    familiar daemon
    familiar daemon --once
    familiar daemon --json

    Args:
        once: Process what is waiting, then exit.
        poll (SECONDS): Seconds between checks for new turns.
    """
    import asyncio

    from familiar_cli.actions.health.daemon import Daemon
    from familiar_cli.actions.memory.write_memory import imported_turns
    from familiar_cli.pages.status_pages import Narrator
    from familiar_cli.store.passes import WRITING, stopped_by_signals

    out = base.output(ctx)
    base.warn_of_network(out, base.home_of(ctx))
    narrator = Narrator(out, once=once)

    async def run(familiar: Familiar) -> Daemon:
        stop = asyncio.Event()
        daemon = Daemon(familiar, stop, narrator.report, narrator.event)
        with stopped_by_signals(stop):
            await (daemon.catch_up() if once else daemon.watch(poll))
        return daemon

    with base.with_models(base.familiar_of(ctx)) as familiar:
        errors = base.run_async(run(familiar)).errors
        data = {
            "passes": narrator.passes,
            "remaining": familiar.history.unsummarised_count(),
            "imported": imported_turns(familiar),
            "failures": list(familiar.failures.all()),
        }
    if once and WRITING in errors:
        failed = errors.pop(WRITING)
        for error in errors.values():
            print_error(error)
        failed.data = data
        raise failed
    narrator.end(data, list(errors.values()))
