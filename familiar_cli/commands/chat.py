"""`familiar chat`: parse, call, render."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from familiar_cli.commands._base import App, familiar_of, output, with_models
from familiar_cli.commands._saying import (
    As,
    Channel,
    Greeting,
    How,
    Name,
    NoGreeting,
    NoStream,
    Tier,
    hint_of_me,
    reply_to,
    said_as,
)

app = App()


@app.command()
def chat(
    ctx: typer.Context,
    *,
    as_: As = None,
    name: Name = None,
    channel: Channel = "cli",
    modality: How = "text",
    greeting: Greeting = None,
    no_greeting: NoGreeting = False,
    tier: Tier = None,
    off_record: Annotated[
        bool,
        typer.Option("--off-record", help="Start off the record; /offrecord toggles it."),
    ] = False,
    no_stream: NoStream = False,
) -> None:
    """Chat interactively: each message you type is sent, and the reply is printed.

    Lines that begin with / are commands: /again, /edit, /undo, /choose, /channel and more; /help
    lists them, and Tab completes them. Alt-Enter or a backslash at the end begins another line.
    Ctrl-C interrupts a reply and keeps what has arrived; Ctrl-D ends the chat. Input from a pipe
    is sent line by line, up to the first failure. With --json each reply is one line.

    \b
    familiar chat
    familiar chat --channel harbour --name Anna
    familiar chat < lines.txt
    """
    from familiar_cli.ui.chat import Conversation
    from familiar_cli.ui.lines import is_terminal

    out = output(ctx)
    with with_models(familiar_of(ctx)) as familiar:
        said = said_as(
            familiar,
            "",
            as_,
            name,
            channel,
            modality=modality,
            greeting=greeting,
            no_greeting=no_greeting,
            tier=tier,
            off_record=off_record,
        )
        if hint := hint_of_me(out, familiar, said):
            out.note(hint)
        reply = partial(reply_to, familiar, stream=not no_stream)
        talk = Conversation(familiar, said, out, reply, is_terminal())
        code = talk.run()
    if code:
        raise typer.Exit(code)
