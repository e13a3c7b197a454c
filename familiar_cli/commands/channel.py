"""`familiar channel`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import familiar_of, group, output
from familiar_cli.commands._options import DryRun
from familiar_cli.commands._options import name as name_option

if TYPE_CHECKING:
    from familiar_cli.config.edit import Edit
    from familiar_cli.familiar import Familiar
    from familiar_cli.ui.emit import Output

app = group("List channels and change their settings.")

ChannelId = Annotated[str, typer.Argument(metavar="ID", help="Channel id.")]


@app.command("ls")
def ls(ctx: typer.Context) -> None:
    """List the channels that have turns or settings, most recently active first.

    \b
    familiar channel ls
    familiar channel ls --json
    """
    from familiar_cli.actions.channels import channels_of
    from familiar_cli.ui.status_pages import channels_page

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        rows, zone = channels_of(familiar), familiar.zone
    out.answer({"channels": rows}, channels_page(rows, zone) if rows else None)
    if not rows:
        out.note('No channel yet: `familiar ask "Hello" --channel NAME` starts one.')
    for row in rows:
        if row.problem:
            out.warn(row.problem)


@app.command()
def show(
    ctx: typer.Context,
    channel_id: ChannelId,
    *,
    modality: Annotated[
        str, typer.Option(metavar="text|voice", help="Modality to show the settings for.")
    ] = "text",
) -> None:
    """Show a channel's settings and where each one comes from.

    \b
    familiar channel show harbour
    familiar channel show harbour --modality voice
    """
    from familiar_cli.actions.channels import shown_channel
    from familiar_cli.ui.status_pages import channel_page

    with familiar_of(ctx) as familiar:
        found, zone = shown_channel(familiar, channel_id, modality), familiar.zone
    output(ctx).answer(found.to_json(), channel_page(found, zone))


@app.command("set")
def set_(
    ctx: typer.Context,
    channel_id: ChannelId,
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="A setting, e.g. recent_turns.")
    ] = None,
    value: Annotated[str | None, typer.Argument(metavar="[VALUE]", help="New value.")] = None,
    *,
    mode: Annotated[
        str | None,
        typer.Option(metavar="MODE", help="Mode: full_rp, text_conversation_rp or imitate_voice."),
    ] = None,
    name: Annotated[str | None, name_option("Display name of the channel.")] = None,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="Kind: text, thread, voice, dm, group_dm, …")
    ] = None,
    parent: Annotated[
        str | None, typer.Option(metavar="NAME", help="Parent channel of a thread or post.")
    ] = None,
    unset: Annotated[
        str | None, typer.Option(metavar="KEY", help="Remove this setting from the file.")
    ] = None,
    subscribe: Annotated[
        bool | None,
        typer.Option("--subscribe/--unsubscribe", help="Listen to the channel, or stop listening."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Change a channel's settings in channels/ID.toml, keeping comments and order.

    \b
    familiar channel set harbour --mode full_rp
    familiar channel set harbour --name="the harbour"
    familiar channel set 4711 --kind dm
    familiar channel set harbour author_note.text "It rains."
    familiar channel set harbour --unset author_note.text
    """
    from familiar_cli.errors import UsageError
    from familiar_cli.identity import check_id

    check_id(channel_id, "The channel id")
    options = {"mode": mode, "name": name, "kind": kind, "parent": parent, key or "": value}
    texts = {setting: text for setting, text in options.items() if text is not None and setting}
    if (key is None) != (value is None):
        setting, _, given = (key or "").partition("=")
        raise UsageError(
            f"No value given for {setting!r}",
            hint=f"Run `familiar channel set {channel_id} {setting} {given or 'VALUE'}`.",
        )
    if not texts and unset is None and subscribe is None:
        raise UsageError(
            "Nothing to change",
            hint=f"Run `familiar channel set {channel_id} KEY VALUE`.",
        )
    if unset is not None and texts:
        raise UsageError(
            "--unset cannot be combined with other changes",
            hint="Change the other settings in a separate command.",
        )
    familiar, out = familiar_of(ctx), output(ctx)
    edits = _edits(familiar, channel_id, texts, unset, dry_run)
    listens = _subscribe(familiar, channel_id, subscribe, dry_run)
    _show_changes(out, channel_id, edits, listens, dry_run)


@app.command()
def branch(
    ctx: typer.Context,
    new: Annotated[str, typer.Argument(metavar="NEW", help="Name of the new channel.")],
    *,
    turn: Annotated[
        str, typer.Option("--from", metavar="TURN", help="Last turn that both channels share.")
    ],
    channel: Annotated[
        str | None,
        typer.Option("--channel", metavar="ID", help="Parent; default: the channel of the turn."),
    ] = None,
) -> None:
    """Start a channel that continues another one from one of its turns.

    Both share the turns up to there; from then on, neither learns what happens in the other one.
    The branch gets the settings of its parent, and is private if its parent is.

    \b
    familiar channel branch what-if --from 1204
    familiar chat --channel what-if
    """
    from familiar_cli.actions.change_turns import branch_channel

    with familiar_of(ctx) as familiar:
        made = branch_channel(familiar, new, familiar.turn_number(turn), channel)
    done = f"{made.branch.channel_id} branches off {made.branch.parent} at turn {turn}"
    already = "" if made.branch.is_new else "; nothing was changed"
    output(ctx).answer(made.to_json(), f"{done}{already}")


@app.command()
def withdraw(ctx: typer.Context, channel_id: ChannelId) -> None:
    """Leave a whole channel out of prompts, memory and search; nothing is deleted.

    \b
    familiar channel withdraw harbour
    """
    _withdraw(ctx, channel_id, withdrawn=True)


@app.command()
def restore(ctx: typer.Context, channel_id: ChannelId) -> None:
    """Bring a withdrawn channel back.

    \b
    familiar channel restore harbour
    """
    _withdraw(ctx, channel_id, withdrawn=False)


def _withdraw(ctx: typer.Context, channel_id: str, *, withdrawn: bool) -> None:
    from familiar_cli.history.store import withdraw_channel

    with familiar_of(ctx) as familiar:
        changed = withdraw_channel(familiar.history, channel_id, withdrawn=withdrawn)
    done = "Withdrawn" if withdrawn else "Restored"
    already = "Already withdrawn" if withdrawn else "Not withdrawn"
    output(ctx).answer(
        {"channel": channel_id, "withdrawn": withdrawn, "changed": changed},
        f"{done}: channel {channel_id}" if changed else f"{already}; nothing was changed",
    )


def _edits(
    familiar: Familiar, channel_id: str, texts: dict[str, str], unset: str | None, dry_run: bool
) -> list[Edit]:
    if unset is not None:
        return [familiar.channels.unset(channel_id, unset, dry_run=dry_run)]
    return [familiar.channels.set_values(channel_id, texts, dry_run=dry_run)] if texts else []


def _subscribe(
    familiar: Familiar, channel_id: str, subscribe: bool | None, dry_run: bool
) -> bool | None:
    """Return whether the channel is listened to now; None when that was not asked for."""
    if subscribe is None:
        return None
    if not dry_run:
        registry = familiar.subscriptions
        _ = registry.add(channel_id) if subscribe else registry.remove(channel_id)
    return subscribe


def _show_changes(
    out: Output, channel_id: str, edits: list[Edit], listens: bool | None, dry_run: bool
) -> None:
    diff = "".join(edit.diff for edit in edits)
    changed = bool(diff) and not dry_run
    data = {"channel": channel_id, "changed": changed, "diff": diff, "subscribed": listens}
    said = {None: "", True: f"listens to {channel_id}\n", False: f"does not hear {channel_id}\n"}
    nothing = "" if diff or listens is not None else "Already set; nothing was changed\n"
    out.answer(data, diff + said[listens] + nothing)
    if dry_run:
        out.note("Nothing was changed (--dry-run).")
