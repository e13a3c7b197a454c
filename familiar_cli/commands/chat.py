"""`familiar chat`: parse, call, render."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from familiar_cli.commands._base import App, familiar_of, output

app = App()


@app.command()
def chat(
    ctx: typer.Context,
    *,
    as_: Annotated[
        str | None,
        typer.Option("--as", metavar="PLATFORM:ID", help="Who speaks; default: cli:<your login>."),
    ] = None,
    name: Annotated[str | None, typer.Option(help="What the speaker is called.")] = None,
    channel: Annotated[str, typer.Option(metavar="ID", help="In which conversation.")] = "cli",
    modality: Annotated[Literal["text", "voice"], typer.Option(help="How it is said.")] = "text",
    greeting: Annotated[
        int | None,
        typer.Option(metavar="N", help="Which greeting opens a new conversation; 1 is the first."),
    ] = None,
    tier: Annotated[
        int | None,
        typer.Option(
            min=1, max=4, metavar="N", help="How much memory is loaded: 1 (little) to 4 (all)."
        ),
    ] = None,
    off_record: Annotated[
        bool,
        typer.Option("--off-record", help="Begin off the record; /offrecord turns it off and on."),
    ] = False,
    no_stream: Annotated[
        bool, typer.Option("--no-stream", help="Print each reply when it is whole.")
    ] = False,
) -> None:
    """Talk, turn by turn: each line you type is said, and its reply is printed.

    Ctrl-C breaks a reply off and keeps what came; Ctrl-D or /quit ends; /context shows what was
    sent; /offrecord turns keeping off and on. From a pipe, each line is said, and the first failure
    ends it. With --json each reply is one line.

    \b
    familiar chat
    familiar chat --channel harbour --name Anna
    familiar chat < lines.txt
    """
    from dataclasses import replace

    from familiar_cli.config.speaker import who_speaks
    from familiar_cli.context.types import Modality, Said
    from familiar_cli.ui.chat import Chat, lines_for
    from familiar_cli.ui.lines import is_terminal

    speaker = who_speaks(as_, name)
    said = Said("", speaker, channel, Modality(modality), greeting, tier=tier)
    said = replace(said, off_record=off_record)
    with familiar_of(ctx) as familiar:
        talk = Chat(familiar, said, output(ctx), not no_stream, is_terminal())
        code = talk.run(lines_for(familiar, channel))
    if code:
        raise typer.Exit(code)
