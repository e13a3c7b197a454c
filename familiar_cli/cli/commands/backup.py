"""`familiar backup` and `familiar restore`: parse, call, render."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.base.config.home import FamiliarPaths, zone_of
from familiar_cli.base.config.settings import load_config
from familiar_cli.base.errors import FamiliarError, PartialError, RemoteKeyError, UsageError
from familiar_cli.base.text import counted
from familiar_cli.cli.commands._base import App, globals_of, home_of, output
from familiar_cli.pages.page import Columns, local_time
from familiar_cli.pages.progress import show_totals

if TYPE_CHECKING:
    from familiar_cli.actions.share.backup import BackupTarget

backup_app = App()
restore_app = App()
_VERBS = {"list": "list", "ls": "list", "verify": "verify"}

Identity = Annotated[
    Path | None,
    typer.Option(
        "--identity", metavar="FILE", help="File with the age identity that decrypts backups."
    ),
]


@backup_app.command()
def backup(
    ctx: typer.Context,
    words: list[str],
    *,
    recipient: list[str] | None = None,
    keep: Annotated[int, typer.Option(min=0)] = 0,
    move: str = "",
    identity: Identity = None,
) -> None:
    """Back up every familiar in the home, or only --familiar; they can be in use meanwhile.

    Only data that no earlier backup has is written. `list` lists the backups of a target, `verify`
    reads all of them. Encrypted backups need the extra `sync`; addresses need the package that
    fsspec names for them.

    \b
    familiar backup /media/stick/familiars
    familiar backup s3://bucket/familiars --keep 30
    familiar backup /mnt/nas --recipient age1…
    familiar backup verify /media/stick/familiars
    familiar backup /mnt/nas --move https://two.example

    Args:
        words ([list|verify] TARGET): A directory, or an address such as s3://bucket/dir.
        recipient (KEY): Encrypt for this age recipient; may be repeated.
        keep (N): Keep the newest N; 0: all.
        move (WHERE): Then stop answering here, and point to WHERE.
    """
    verb = _VERBS.get(words[0], "")
    target = (*words[1:2], "")[0] if verb else words[0]
    if not target or len(words) > (2 if verb else 1):
        command = f"familiar backup {verb}".rstrip()
        raise UsageError("A backup needs one target", hint=f"Run `{command} DIR`.")
    if keep and recipient and identity is None:
        raise UsageError(
            "--keep has to read older backups, to see which packs are still needed",
            hint="Add `--identity FILE`, or remove old backups by hand.",
        )
    place = _open_target(target, tuple(recipient or ()), identity)
    if verb == "list":
        _show_backups(ctx, place)
    elif verb == "verify":
        _verify(ctx, place)
    else:
        _back_up(ctx, place, keep, move)


def _open_target(target: str, recipients: tuple[str, ...], identity: Path | None) -> BackupTarget:
    from familiar_cli.actions.share.backup import BackupTarget
    from familiar_cli.sync.sealing import FileCipher, read_key

    def read_identity() -> str:
        if identity is None:
            raise RemoteKeyError(
                "The backup is encrypted; nothing was read",
                hint="Name the file with the age identity: `--identity FILE`.",
            )
        return read_key(identity)

    return BackupTarget(target, FileCipher(recipients, read_identity))


def _back_up(ctx: typer.Context, place: BackupTarget, keep: int, move: str) -> None:
    from familiar_cli.actions.share.backup import (
        back_up,
        familiars_to_back_up,
        moving_away,
        words_of,
    )

    out, reports, failed = output(ctx), [], {}
    for paths in familiars_to_back_up(home_of(ctx), globals_of(ctx).familiar):
        try:
            moving = moving_away(paths, move) if move else nullcontext()
            with moving, show_totals(out) as progress:
                reports.append(back_up(paths, place, keep=keep, progress=progress))
        except FamiliarError as error:
            failed[paths.id] = error
    data = {"target": place.address, "backups": reports}
    text = "\n".join(map(words_of, reports)) + "\n" * bool(reports)
    errors = _combine_failures(failed, is_partial=bool(reports))
    out.report(data, text, errors, is_failure=not reports)


def _combine_failures(failed: dict[str, FamiliarError], *, is_partial: bool) -> list[FamiliarError]:
    """Return the error of a single familiar as it is; of several, or beside a success, one."""
    if not failed:
        return []
    first = next(iter(failed.values()))
    if len(failed) == 1 and not is_partial:
        return [first]
    told = "; ".join(f"{one}: {error}" for one, error in failed.items())
    return [(PartialError if is_partial else type(first))(told, hint=first.hint)]


def _show_backups(ctx: typer.Context, place: BackupTarget) -> None:
    from familiar_cli.actions.share.backup import list_backups

    backups, home = list_backups(place), home_of(ctx)
    rows = [
        [
            one["familiar"],
            one["backup"],
            local_time(one["at"], _zone_in(home, one["familiar"])),
            *(["damaged"] if one["problem"] else []),
        ]
        for one in backups
    ]
    output(ctx).answer({"target": place.address, "backups": backups}, Columns(rows))


def _zone_in(home: Path, familiar_id: str) -> tzinfo | None:
    """Return the timezone of a familiar in this home; None for the system's."""
    with suppress(FamiliarError):
        return zone_of(load_config(FamiliarPaths(home / familiar_id).config).timezone)
    return None


def _verify(ctx: typer.Context, place: BackupTarget) -> None:
    from familiar_cli.actions.share.backup import verify_backups

    choice = globals_of(ctx).familiar
    check = verify_backups(place, [choice] if choice else [])
    whole, problems = check.whole, check.problems
    lines = [f"whole    {one}" for one in whole]
    lines += [f"damaged  {one}: {why}" for one, why in problems.items()]
    data = {"target": place.address, "whole": whole, "problems": problems, "files": check.files}
    damaged = PartialError(
        f"{len(problems)} of {counted(len(whole) + len(problems), 'backup')} "
        f"{'is' if len(problems) == 1 else 'are'} damaged",
        hint=f"Make a new one: `familiar backup {place.address}`.",
    )
    output(ctx).answer(data, "\n".join(lines) + "\n", [damaged] if problems else [])


@restore_app.command()
def restore(
    ctx: typer.Context,
    target: str,
    name: Annotated[str | None, typer.Argument()] = None,
    *,
    backup: str = "",
    me: Annotated[bool, typer.Option("--me")] = False,
    identity: Identity = None,
) -> None:
    """Restore familiars from a backup into a home that does not have them.

    The copy is a new instance, which can sync with the original; after `backup --move` it continues
    as the original.

    \b
    familiar restore /media/stick/familiars --home ~/restored
    familiar restore /mnt/nas ada --identity ~/age.key

    Args:
        target (TARGET): Where the backups are.
        name ([FAMILIAR]): Which familiar; default: all.
        backup (NAME): Which backup; default: the newest.
        me: Restore `me.toml` as well: who you are, and which accounts are yours.
    """
    from familiar_cli.actions.share.backup import restore as restore_one

    place, out, home = _open_target(target, (), identity), output(ctx), home_of(ctx)
    ids = [name] if name else place.familiars() or [globals_of(ctx).familiar or ""]
    restorations, failed = [], {}
    for familiar_id in ids:
        try:
            with show_totals(out) as progress:
                restorations.append(
                    restore_one(
                        place,
                        home,
                        familiar_id,
                        backup=backup,
                        with_me=me,
                        progress=progress,
                        tell=out.note,
                    )
                )
        except FamiliarError as error:
            failed[familiar_id] = error
    shown = [f"Restored {one.familiar} from {one.backup} into {one.home}" for one in restorations]
    data = {"target": target, "restored": restorations}
    errors = _combine_failures(failed, is_partial=bool(restorations))
    out.report(data, "\n".join(shown) + "\n" * bool(shown), errors, is_failure=not restorations)
    if any(one.left_out_me for one in restorations):
        out.note("me.toml was left out; if the accounts in it are yours, add `--me`.")
    out.note(
        "Next: `familiar doctor`. The index for search by meaning is rebuilt on the first search."
    )
