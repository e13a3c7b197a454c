"""`familiar me`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from familiar_cli.commands._base import (
    App,
    familiar_of,
    file_or_stdin,
    globals_of,
    home_of,
    output,
)
from familiar_cli.commands._options import DryRun, OnlyChannel
from familiar_cli.commands._options import name as name_option

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar

app = App()
_MOST_CHARS = 20_000  # of a description; a prompt has no room for more


@app.command()
def me(
    ctx: typer.Context,
    *,
    name: Annotated[str | None, name_option("What you are called.")] = None,
    description: Annotated[
        str | None,
        typer.Option(metavar="FILE|-", help="File that says who you are; its text is copied."),
    ] = None,
    pronouns: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Your pronouns, e.g. they/them.")
    ] = None,
    from_sillytavern: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Take a persona from SillyTavern's settings.json or a backup of its personas.",
        ),
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="PLATFORM:ID", help="Another account of yours; repeatable."),
    ] = None,
    channel: OnlyChannel = None,
    clear: Annotated[bool, typer.Option("--clear", help="Remove what was set about you.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Say who you are, or show it: your name, a description and pronouns.

    They hold for all familiars of the home, in messages that name no other speaker. With
    --familiar they hold for that familiar only, with --channel in that channel only. An empty
    value means none. {{user}} is your name, {{persona}} your description; where the character has
    no {{persona}}, every prompt includes the description.

    \b
    familiar me --name Anna --pronouns she/her
    familiar me --description anna.md
    familiar me --name "Sir Galahad" --channel castle
    familiar me --from-sillytavern settings.json --name Anna
    familiar me --also discord:1234 --also openwebui:8f2c
    familiar me --clear
    """
    from familiar_cli.actions.me import change_me, forget_me, place_of_me, show_me, with_accounts
    from familiar_cli.errors import UsageError
    from familiar_cli.ui.me_page import me_data, me_page
    from familiar_cli.ui.page import print_page

    out, home = output(ctx), home_of(ctx)
    given = {"name": name, "pronouns": pronouns, "description": _text(description)}
    if from_sillytavern:
        given |= _persona(from_sillytavern, name)
    values = {key: value.strip() for key, value in given.items() if value is not None}
    if also and channel:
        raise UsageError("--also holds in every channel; nothing was changed")
    if clear and (values or also):
        raise UsageError("--clear cannot be combined with new values; nothing was changed")
    if not clear and not values and not also:
        where = _familiar(ctx, channel)
        shown = show_me(home, where, channel or "")
        out.answer(me_data(shown), lambda: print_page(me_page(shown)))
        if not shown.name:
            out.note("Say who you are: `familiar me --name NAME`.")
        return
    familiar = familiar_of(ctx) if channel or globals_of(ctx).familiar else None
    place = place_of_me(home, familiar, channel or "")
    if clear:
        edit = forget_me(place, dry_run=dry_run)
    else:
        values |= {"also": with_accounts(place, also)} if also else {}
        edit = change_me(familiar, place, values, channel_id=channel or "", dry_run=dry_run)
    shown = show_me(home, _again(ctx, familiar), channel or "")
    data = me_data(shown, edit, dry_run=dry_run)
    if dry_run:
        out.answer(data, edit.diff)
        out.note("Nothing was changed (--dry-run).")
        return
    out.answer(data, lambda: print_page(me_page(shown)))
    out.note(f"This holds {place.title}." if edit.changes else "Nothing was changed.")


def _familiar(ctx: typer.Context, channel: str | None) -> Familiar | None:
    """Return the familiar that is meant; None where none is, and none needs to be."""
    from familiar_cli.errors import NotFoundError, UsageError

    try:
        return familiar_of(ctx)
    except (NotFoundError, UsageError):
        if channel or globals_of(ctx).familiar:
            raise
        return None


def _again(ctx: typer.Context, familiar: Familiar | None) -> Familiar | None:
    """Return the familiar as its files are now."""
    return None if familiar is None else familiar_of(ctx)


def _text(file: str | None) -> str | None:
    from familiar_cli.errors import BadInputError

    if not file:
        return file
    raw, origin = file_or_stdin(file)
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{origin!r} is not UTF-8 text; nothing was changed") from error
    return _short(text, origin)


def _short(text: str, origin: str) -> str:
    from familiar_cli.errors import LimitError

    if len(text) > _MOST_CHARS:
        raise LimitError(
            f"The description in {origin!r} has {len(text):,} characters, more than "
            f"{_MOST_CHARS:,}; nothing was changed",
            hint="Keep what every prompt needs, and leave the rest to memory.",
        )
    return text


def _persona(file: str, name: str | None) -> dict[str, str | None]:
    """Return what SillyTavern says of a persona; options that are given hold all the same."""
    from familiar_cli.imports.sillytavern import choose, read_personas

    raw, origin = file_or_stdin(file)
    found = choose(read_personas(raw, origin=origin), name or "", origin=origin)
    return {"name": found.name, "description": _short(found.description, origin)}
