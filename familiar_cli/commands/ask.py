"""`familiar ask`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import (
    App,
    familiar_of,
    output,
    run_async,
    text_or_stdin,
    with_models,
)
from familiar_cli.commands._options import DryRunUnasked
from familiar_cli.commands._saying import (
    As,
    Channel,
    Greeting,
    How,
    Name,
    Tier,
    reply_to,
    said_as,
)

if TYPE_CHECKING:
    from familiar_cli.context.turn_runner import TurnResult
    from familiar_cli.context.types import Said
    from familiar_cli.familiar import Familiar
    from familiar_cli.ui.emit import Output

app = App()


@app.command()
def ask(
    ctx: typer.Context,
    text: Annotated[
        str, typer.Argument(metavar="TEXT|-", help="What you say; `-` reads standard input.")
    ],
    *,
    as_: As = None,
    name: Name = None,
    channel: Channel = "cli",
    modality: How = "text",
    greeting: Greeting = None,
    dry_run: DryRunUnasked = False,
    tier: Tier = None,
    off_record: Annotated[
        bool, typer.Option("--off-record", help="Keep nothing: no turn, no record of the prompt.")
    ] = False,
    no_stream: Annotated[
        bool, typer.Option("--no-stream", help="Print the reply when it is whole.")
    ] = False,
) -> None:
    """Say one thing and get one reply. The reply, and nothing else, goes to stdout.

    Now and then, when the reply is printed, older turns are summarised; Ctrl-C leaves that for
    later.

    \b
    familiar ask "Do you remember the harbour?"
    familiar ask "Hello" --as=discord:1234 --name=Anna
    familiar ask "Between you and me …" --off-record
    git log -1 | familiar ask - --dry-run
    """
    words = text_or_stdin(text).rstrip("\r\n") if text == "-" else text
    said = said_as(
        words, as_, name, channel, modality, greeting=greeting, tier=tier, off_record=off_record
    )
    with with_models(familiar_of(ctx)) as familiar:
        if dry_run:
            _show(output(ctx), familiar, said)
        else:
            _take_turn(output(ctx), familiar, said, stream=not no_stream)


def _show(out: Output, familiar: Familiar, said: Said) -> None:
    from familiar_cli.actions.talk import assemble
    from familiar_cli.ui.context_page import context_page
    from familiar_cli.ui.terminal import print_page

    trace = run_async(assemble(familiar, said))
    out.answer(trace.to_json(), lambda: print_page(context_page(trace)))
    for notice in trace.notices:
        out.warn(notice)


def _take_turn(out: Output, familiar: Familiar, said: Said, *, stream: bool) -> None:
    from familiar_cli.errors import PartialError
    from familiar_cli.ui.afterwards import begin, finish
    from familiar_cli.ui.reply import ReplyPrinter

    with ReplyPrinter(silent=out.as_json) as printer:
        result = reply_to(familiar, said, printer, stream=stream, on_wait=out.note)
    for notice in result.notices:
        out.warn(notice)
    if result.interrupted:
        told = PartialError(f"Interrupted. {_what_is_kept(result)}")
        out.partial(result.to_json(), [told], lambda: None, exit_code=130)
    out.answer(result.to_json(), lambda: None)
    begin(out, familiar, result)
    finish(out, familiar)


def _what_is_kept(result: TurnResult) -> str:
    if result.turn is None:
        return "Nothing of it is kept"
    kept = f"; what came of the reply is turn {result.reply.id}" if result.reply else ""
    return f"What you said is kept as turn {result.turn.id}{kept}"
