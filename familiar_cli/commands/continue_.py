"""`familiar continue`: parse, call, render."""

from __future__ import annotations

import typer

from familiar_cli.commands._base import App, familiar_of, output, with_models
from familiar_cli.commands._options import DryRunUnasked
from familiar_cli.commands._saying import Channel, NoStream, Tier

app = App()


@app.command("continue")
def continue_(
    ctx: typer.Context,
    *,
    channel: Channel = "cli",
    tier: Tier = None,
    dry_run: DryRunUnasked = False,
    no_stream: NoStream = False,
) -> None:
    """Continue a channel's last reply, for example where it was cut off.

    The longer reply replaces the shorter one, which is kept: `familiar history show --all`
    lists both, and `familiar history choose` brings the shorter one back.

    \b
    familiar continue
    familiar continue --channel harbour
    """
    from familiar_cli.actions.again import go_on
    from familiar_cli.commands.ask import show_prompt, take_turn
    from familiar_cli.context.types import Said

    out = output(ctx)
    with with_models(familiar_of(ctx)) as familiar:
        said = go_on(familiar, Said("", None, channel, tier=tier))
        if dry_run:
            show_prompt(out, familiar, said)
            return
        take_turn(out, familiar, said, stream=not no_stream)
