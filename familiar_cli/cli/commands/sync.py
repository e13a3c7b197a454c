"""`familiar sync`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from familiar_cli.base.errors import PartialError, UsageError
from familiar_cli.base.text import counted
from familiar_cli.cli.commands._base import App, familiar_of, output, run_async
from familiar_cli.cli.commands._options import DryRun, SigningKeyOption, Unsigned
from familiar_cli.pages.emit import is_terminal
from familiar_cli.pages.progress import show_messages
from familiar_cli.sync.sealing import SignatureTrust

if TYPE_CHECKING:
    from familiar_cli.actions.share.sync_decisions import SettledConflicts
    from familiar_cli.familiar import Familiar

app = App(
    help="""Share one memory between several machines, through a git remote or a folder.

    Without a command: merge changes from other machines, and send this machine's.

    \b
    familiar sync remote add hub me@example.org:ada.git
    familiar sync
    familiar sync --dry-run
    familiar sync status
    """,
    invoke_without_command=True,
)
remote = App(help="Manage the remotes that this familiar syncs with.", no_args_is_help=True)
app.add_typer(remote, name="remote")

OneRemote = Annotated[
    str | None, typer.Option("--remote", metavar="NAME", help="Only this remote; default: all.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the remote, e.g. hub.")]


@app.callback()
def sync(
    ctx: typer.Context,
    *,
    remote: OneRemote = None,
    signing_key: SigningKeyOption = "",
    unsigned: Unsigned = False,
    dry_run: DryRun = False,
) -> None:
    """Merge the changes of other machines, and send those of this one."""
    if ctx.invoked_subcommand is None:
        _sync(ctx, remote, SignatureTrust(signing_key, unsigned), dry_run=dry_run)


@app.command()
def pull(ctx: typer.Context, *, remote: OneRemote = None, dry_run: DryRun = False) -> None:
    """Fetch and merge changes from other machines; send nothing.

    \b
    familiar sync pull
    familiar sync pull --remote hub --dry-run
    """
    _sync(ctx, remote, push=False, dry_run=dry_run)


@app.command()
def push(ctx: typer.Context, *, remote: OneRemote = None, dry_run: DryRun = False) -> None:
    """Send this machine's changes; merge nothing.

    \b
    familiar sync push
    familiar sync push --remote hub
    """
    _sync(ctx, remote, pull=False, dry_run=dry_run)


@app.command()
def adopt(ctx: typer.Context, branch: str, *, remote: OneRemote = None) -> None:
    """Continue from a git branch whose history was rewritten, keeping what each side had.

    Use it after somebody squashed `main` and pushed it by force.

    \b
    familiar sync adopt main

    Args:
        branch (BRANCH): The branch, such as main.
    """
    _sync(ctx, remote, adopt=f"refs/heads/{branch}")


@app.command()
def status(ctx: typer.Context) -> None:
    """Show the state of the last sync: remotes, machines and conflicts.

    No remote is contacted.

    \b
    familiar sync status
    familiar sync status --json
    """
    from familiar_cli.actions.share import sync as action
    from familiar_cli.pages.status_pages import sync_status_page

    with familiar_of(ctx) as familiar:
        found = action.status(familiar)
        zone = familiar.zone
    out = output(ctx)

    error = PartialError(
        f"{counted(len(found.refused), 'file')} from other machines cannot be stored here",
        hint="Rename or shorten such files on the machine that has them.",
    )
    page = sync_status_page(found, zone)
    out.answer(found.to_json(), page, [error] if found.refused else [])
    if not found.remotes:
        out.note("No remote is configured. Add one: `familiar sync remote add hub ADDRESS`")


@app.command()
def resolve(
    ctx: typer.Context,
    path: Annotated[str | None, typer.Argument()] = None,
    *,
    ours: Annotated[bool, typer.Option("--ours")] = False,
    theirs: Annotated[bool, typer.Option("--theirs")] = False,
    merged: Annotated[bool, typer.Option("--merged")] = False,
    edit: Annotated[bool, typer.Option("--edit")] = False,
    dry_run: DryRun = False,
) -> None:
    """Show or resolve conflicts: files that two machines changed differently.

    \b
    familiar sync resolve
    familiar sync resolve topics/tea.md --merged
    familiar sync resolve --ours --dry-run

    Args:
        path ([PATH]): File in conflict, or a copy in conflicts/; default: all.
        ours: Keep this machine's version where the two differ.
        theirs: Take the other machine's version where the two differ.
        merged: Keep both versions in the file where they differ.
        edit: Resolve it in your editor; needs PATH if several.
    """
    from familiar_cli.actions.share import sync_decisions as action
    from familiar_cli.pages.status_pages import conflicts_text, settled_text

    ways = {"ours": ours, "theirs": theirs, "merged": merged, "edit": edit}
    names = [name for name, on in ways.items() if on]
    if len(names) > 1:
        raise UsageError(
            "Only one of --ours, --theirs, --merged and --edit can be given; nothing was changed"
        )
    out = output(ctx)
    with familiar_of(ctx) as familiar:
        if not names:
            conflicts = action.open_conflicts(familiar)
            shown = [one for one in conflicts if path in {None, one.path, one.copy}]
            out.answer({"conflicts": shown}, conflicts_text(shown))
            if not shown:
                out.note("No file is in conflict.")
            return
        if edit:
            settled = _by_hand(familiar, path, dry_run=dry_run)
        else:
            choice = cast("action.Choice", names[0])
            settled = action.resolve(familiar, path, choice, dry_run=dry_run)
    error = PartialError(
        f"{counted(len(settled.skipped), 'conflict')} could not be resolved this way",
        hint="Resolve each separately: `familiar sync resolve PATH --ours`, or `--theirs`.",
    )
    out.answer(settled, settled_text(settled), [error] if settled.skipped else [])
    if not dry_run:
        out.note("Next: `familiar sync` sends it to the other machines.")


def _by_hand(familiar: Familiar, path: str | None, *, dry_run: bool) -> SettledConflicts:
    from familiar_cli.actions.share import sync_decisions as action
    from familiar_cli.cli.terminal.prompts import edit_text

    rel_path, begin = action.to_edit(familiar, path)
    with edit_text(begin, rel_path.rpartition("/")[2]) as text:
        return action.resolve_by_hand(familiar, rel_path, text, dry_run=dry_run)


@app.command()
def forget(ctx: typer.Context, instance: str) -> None:
    """Forget a machine or an embodiment that is gone; its changes stay.

    \b
    familiar sync forget old-laptop-7f3a

    Args:
        instance (INSTANCE): Id of a machine or an embodiment; see `familiar sync status`.
    """
    from familiar_cli.actions.share import sync as action

    with familiar_of(ctx) as familiar:
        action.forget(familiar, instance)
    text = f"Forgot {instance}. If it syncs again, it is added again."
    output(ctx).answer({"forgotten": instance}, text)


Device = Annotated[
    str, typer.Argument(metavar="NAME", help="Id of a machine; see `familiar sync devices`.")
]


@app.command()
def devices(ctx: typer.Context) -> None:
    """List the machines that share this familiar, and what is accepted from each.

    From a `new` machine, changes are accepted, but not what it states about others' turns.

    \b
    familiar sync devices
    familiar sync devices --json
    """
    from familiar_cli.actions.share import sync_decisions as action
    from familiar_cli.pages.status_pages import devices_text

    with familiar_of(ctx) as familiar:
        items = action.list_devices(familiar)
    output(ctx).answer({"devices": items}, devices_text(items))


@app.command()
def allow(ctx: typer.Context, name: Device) -> None:
    """Allow a machine, and apply its pending changes.

    \b
    familiar sync allow phone-1a2b
    """
    from familiar_cli.actions.share import sync_decisions as action

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        applied = action.allow_device(familiar, name)
    out.answer({"allowed": name, "applied": applied}, f"Allowed {name}.")
    out.note("Next: `familiar sync` fetches its changes.")


@app.command()
def block(ctx: typer.Context, name: Device) -> None:
    """Accept nothing more from a machine; what it sent before stays.

    \b
    familiar sync block old-phone-1a2b
    """
    from familiar_cli.actions.share import sync_decisions as action

    with familiar_of(ctx) as familiar:
        action.block_device(familiar, name)
    text = f"Blocked {name}. `familiar sync allow {name}` undoes this."
    output(ctx).answer({"blocked": name}, text)


@app.command()
def accept(ctx: typer.Context, name: Annotated[str | None, typer.Argument()] = None) -> None:
    """Merge a pending change that deletes more than a quarter of all files.

    If none is pending, turns that no machine has any more are no longer reported as lost.

    \b
    familiar sync accept
    familiar sync accept phone-1a2b

    Args:
        name ([NAME]): Id of the machine that deleted; default: all.
    """
    from familiar_cli.actions.share import sync_decisions as action
    from familiar_cli.actions.share.sync import PATIENCE_S, engine_of
    from familiar_cli.pages.status_pages import accepted_text

    out = output(ctx)
    with familiar_of(ctx) as familiar, show_messages(out) as progress:
        accepting = action.accept_deletions(
            familiar, engine_of(familiar, progress), name, wait_s=PATIENCE_S, progress=progress
        )
        waited, outcome = run_async(accepting)
    data = {"accepted": waited, "written": outcome.written, "deleted": outcome.deleted}
    out.answer(data, accepted_text(waited, outcome))
    out.note("Next: `familiar sync` sends it to the other machines.")


@app.command()
def rekey(
    ctx: typer.Context,
    *,
    new_signing_key: Annotated[bool, typer.Option("--new-signing-key")] = False,
) -> None:
    """Re-encrypt what this machine keeps in folders, with the key that is set now.

    Set the new key first, and list the file of the old one in sync.old_key_files.

    \b
    familiar config set sync.key_file ~/new.key
    familiar config set sync.old_key_files ~/old.key
    familiar sync rekey
    familiar sync rekey --new-signing-key

    Args:
        new_signing_key: Sign with a new key, too, which a lost machine does not know.
    """
    from familiar_cli.actions.share import sync as action

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        secret = ask_secret if is_terminal() else None
        engine = action.engine_of(familiar, secret=secret)
        done = action.rekey(familiar, engine, new_signing_key=new_signing_key)
        key = action.signing_key_of(familiar).fingerprint()
    out.answer({"rekeyed": done, "signing_key": key or None}, f"Re-encrypted: {', '.join(done)}")
    if new_signing_key:
        out.note(f"Next, on each other machine: `familiar sync --signing-key {key}`")
    out.note("Next: the same on each other machine. Then remove the old key.")


@remote.command("add")
def add_remote(ctx: typer.Context, name: Name, address: str) -> None:
    """Add a remote. Nothing is sent yet.

    A git remote is a bare repository that is empty, or holds this familiar. A folder may be a USB
    stick, or one that another program synchronises.

    \b
    git init --bare /srv/ada.git
    familiar sync remote add hub /srv/ada.git
    familiar sync remote add server me@example.org:ada.git
    familiar sync remote add stick dir:/media/stick/ada

    Args:
        address (ADDRESS): Path or URL of a git repository (file, ssh, https), user@host:path,
            dir:FOLDER.
    """
    from familiar_cli.actions.share.sync_decisions import remotes_of

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        meant = remotes_of(familiar).add(name, address)
    out.answer({"name": name, "address": meant.text}, f"Added {name}: {meant}")
    if meant.kind == "http":
        out.note(
            "Anyone who can read that repository can read the memory: git does not encrypt it."
        )
    out.note("Next: `familiar sync`")


@remote.command("list")
def list_remotes(ctx: typer.Context) -> None:
    """List the remotes.

    \b
    familiar sync remote list
    """
    from familiar_cli.actions.share.sync_decisions import remotes_of

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        addresses = remotes_of(familiar).all()
    data = {"remotes": [{"name": name, "address": at.text} for name, at in addresses.items()]}
    out.answer(data, "".join(f"{name}\t{at}\n" for name, at in addresses.items()))
    if not addresses:
        out.note("No remote is configured. Add one: `familiar sync remote add hub ADDRESS`")


@remote.command("rm")
def remove_remote(ctx: typer.Context, name: Name) -> None:
    """Remove a remote from the list; its contents stay.

    \b
    familiar sync remote rm hub
    """
    from familiar_cli.actions.share import sync as action

    with familiar_of(ctx) as familiar:
        address = action.forget_remote(familiar, name)
    text = f"Removed {name}: {address}. Its contents stay."
    output(ctx).answer({"name": name, "address": address.text}, text)


def _sync(
    ctx: typer.Context,
    name: str | None,
    trust: SignatureTrust | None = None,
    adopt: str = "",
    **how: bool,
) -> None:
    from familiar_cli.actions.share import sync as action
    from familiar_cli.pages.status_pages import report_text
    from familiar_cli.sync.engine import SyncOptions

    out = output(ctx)
    with familiar_of(ctx) as familiar, show_messages(out) as progress:
        options = SyncOptions(ask=is_terminal(), adopt=adopt, **how)
        secret = ask_secret if options.ask else None
        report = run_async(
            action.sync(familiar, name, options, progress=progress, secret=secret, trust=trust)
        )
    out.warn(*report.notes)
    data, text, error = report.to_json(), report_text(report), report.error
    if error is None:
        out.report(data, text)
    elif not report.done:
        out.report(data, text, [error], is_failure=True)
    else:
        errors = [failure for _, failure in report.failed.values()] or [error]
        out.report(data, text, errors, exit_code=error.exit_code)


def ask_secret() -> str:
    """Ask for the key of an encrypted folder, without showing it."""
    from getpass import getpass

    return getpass("Passphrase or key of the folder: ")
