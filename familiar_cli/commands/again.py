"""`familiar again`: parse, call, render."""

from __future__ import annotations

import typer

from familiar_cli.commands._base import App, familiar_of, output, with_models
from familiar_cli.commands._options import DryRunUnasked
from familiar_cli.commands._saying import Channel, NoStream, Tier

app = App()


@app.command()
def again(
    ctx: typer.Context,
    *,
    channel: Channel = "cli",
    tier: Tier = None,
    dry_run: DryRunUnasked = False,
    no_stream: NoStream = False,
) -> None:
    """Ask for another reply in place of a channel's last one, which is kept.

    Only the new reply is part of the conversation. `familiar history show --all` lists both, and
    `familiar history choose` brings the other one back.

    \b
    familiar again
    familiar again --channel harbour
    familiar history choose 1204
    """
    from familiar_cli.actions.again import again as asked_again
    from familiar_cli.commands.ask import show_prompt, take_turn
    from familiar_cli.context.types import Said

    out = output(ctx)
    with with_models(familiar_of(ctx)) as familiar:
        said = asked_again(familiar, Said("", None, channel, tier=tier))
        if dry_run:
            show_prompt(out, familiar, said)
            return
        take_turn(out, familiar, said, stream=not no_stream)
