"""`familiar hear`: parse, call, render."""

from __future__ import annotations

from typing import Annotated

import typer

from familiar_cli.commands._base import App, familiar_of, moment_of, output, text_or_stdin
from familiar_cli.commands._saying import As, Channel, How, MessageId, Name, said_as

app = App()


@app.command()
def hear(
    ctx: typer.Context,
    text: Annotated[
        str, typer.Argument(metavar="TEXT|-", help="Message to save; `-` reads standard input.")
    ],
    *,
    as_: As = None,
    name: Name = None,
    channel: Channel = "cli",
    modality: How = "text",
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="Time of the message; default: now.")
    ] = None,
    message_id: MessageId = "",
) -> None:
    """Save a message without asking for a reply. Later prompts include it.

    It never waits for a reply. A message with an `--id` already in the channel is not added again.

    \b
    familiar hear "I will be late." --as discord:7 --name Bo
    familiar hear - --channel general --id 1184 < message.txt
    familiar hear "Hi" --at 2026-01-31T12:00:00Z
    """
    from familiar_cli.actions.hear import hear
    from familiar_cli.clock import iso
    from familiar_cli.errors import PartialError

    words = text_or_stdin(text).rstrip("\r\n") if text == "-" else text
    out = output(ctx)
    with familiar_of(ctx) as familiar:
        said = said_as(
            familiar, words, as_, name, channel, modality=modality, message_id=message_id
        )
        heard = hear(familiar, said, moment_of(familiar, at))
        named = familiar.turn_ids([heard.turn.id])[heard.turn.id]
    turn = heard.turn
    data = {
        "turn": turn.id,
        "id": named,
        "channel": turn.channel_id,
        "at": iso(turn.at),
        "is_new": heard.is_new,
    }
    told = f"{'Saved' if heard.is_new else 'Already saved'} as turn {turn.id}\n"
    if turn.content != words:
        changed = PartialError(
            f"Message {message_id!r} was changed since it was saved as turn {turn.id}; the saved "
            "text is kept",
            hint="Turns are never rewritten. Send the new text under a new id.",
        )
        out.partial(data, [changed], told)
    out.answer(data, told)
