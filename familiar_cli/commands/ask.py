"""`familiar ask`: parse, call, render."""

from __future__ import annotations

from dataclasses import replace
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
    MessageId,
    Name,
    NoGreeting,
    NoStream,
    Tier,
    hint_of_me,
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
        str | None,
        typer.Argument(metavar="TEXT|-", help="Message to send; `-` reads standard input."),
    ] = None,
    *,
    as_: As = None,
    name: Name = None,
    channel: Channel = "cli",
    modality: How = "text",
    greeting: Greeting = None,
    no_greeting: NoGreeting = False,
    message_id: MessageId = "",
    again_for: Annotated[
        str | None,
        typer.Option(
            "--reply-to",
            metavar="TURN",
            help="Reply to a saved turn that has no reply (without TEXT).",
        ),
    ] = None,
    dry_run: DryRunUnasked = False,
    tier: Tier = None,
    off_record: Annotated[
        bool,
        typer.Option(
            "--off-record", help="Keep nothing: neither the turn nor a record of the prompt."
        ),
    ] = False,
    no_stream: NoStream = False,
    no_background: Annotated[
        bool, typer.Option("--no-background", help="Exit after the reply, without background work.")
    ] = False,
) -> None:
    """Send one message and print the reply. Only the reply goes to stdout.

    From time to time, older turns are summarised after the reply; Ctrl-C postpones
    that. A channel answers one message at a time; other channels do not wait.

    \b
    familiar ask "Do you remember the harbour?"
    familiar ask "Hello" --as=discord:1234 --name=Anna
    familiar ask "Between you and me …" --off-record
    git log -1 | familiar ask - --dry-run
    """
    words, out = _words(text, again_for), output(ctx)
    with with_models(familiar_of(ctx)) as familiar:
        said = said_as(
            familiar,
            words,
            as_,
            name,
            channel,
            modality=modality,
            greeting=greeting,
            no_greeting=no_greeting,
            tier=tier,
            off_record=off_record,
            message_id=message_id,
        )
        if again_for is not None:
            said = replace(said, reply_to=familiar.turn_number(again_for))
        hint = hint_of_me(out, familiar, said)
        if dry_run:
            show_prompt(out, familiar, said)
        else:
            result = take_turn(out, familiar, said, stream=not no_stream)
            if hint:
                out.note(hint)
            _go_on(out, familiar, result, background=not no_background)


def _words(text: str | None, again_for: str | None) -> str:
    from familiar_cli.errors import UsageError

    if text is not None and again_for is not None:
        raise UsageError(
            f"Turn {again_for} has its words already, and TEXT was given, too",
            hint=f"Run `familiar ask --reply-to {again_for}`.",
        )
    if text is None and again_for is None:
        raise UsageError("Missing argument 'TEXT|-'", hint='Run `familiar ask "Hello"`.')
    if text is None:
        return ""
    return text_or_stdin(text).rstrip("\r\n") if text == "-" else text


def show_prompt(out: Output, familiar: Familiar, said: Said) -> None:
    """Print the prompt that would be sent."""
    from familiar_cli.actions.talk import assemble
    from familiar_cli.ui.context_page import context_page
    from familiar_cli.ui.page import print_page

    trace = run_async(assemble(familiar, said))
    out.answer(trace.to_json(), lambda: print_page(context_page(trace)))
    for notice in trace.notices:
        out.warn(notice)


def take_turn(out: Output, familiar: Familiar, said: Said, *, stream: bool) -> TurnResult:
    """Take a turn and print the reply."""
    from familiar_cli.errors import PartialError
    from familiar_cli.ui.reply import ReplyPrinter

    begun = said.instead_of.content if said.instead_of and said.remake == "continue" else ""
    with ReplyPrinter(silent=out.as_json, begun=begun) as printer:
        result = reply_to(familiar, said, printer, stream=stream, on_wait=out.note)
    for notice in result.notices:
        out.warn(notice)
    kept = {"id": result.turn, "reply_id": result.reply}
    names = familiar.turn_ids(turn.id for turn in kept.values() if turn)
    data = result.to_json() | {key: turn and names[turn.id] for key, turn in kept.items()}
    if result.interrupted:
        told = PartialError(f"Interrupted. {_what_is_kept(result)}")
        out.partial(data, [told], lambda: None, exit_code=130)
    out.answer(data, lambda: None)
    return result


def _go_on(out: Output, familiar: Familiar, result: TurnResult, *, background: bool) -> None:
    """Do what the turn has made due, or leave it."""
    from familiar_cli.ui.afterwards import begin, finish, leave

    if not background:
        leave(out, familiar, result)
        return
    begin(out, familiar, result)
    finish(out, familiar)


def _what_is_kept(result: TurnResult) -> str:
    if result.turn is None:
        return "Nothing was kept"
    kept = f"; the partial reply is turn {result.reply.id}" if result.reply else ""
    return f"Your message is kept as turn {result.turn.id}{kept}"
