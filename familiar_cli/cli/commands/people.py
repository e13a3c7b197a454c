"""`familiar people`, `me` and `graph`: who is known, and how they are related."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec.structs import asdict

from familiar_cli.base import errors
from familiar_cli.base.text import counted, typed
from familiar_cli.cli.commands import _base as base
from familiar_cli.cli.commands._options import DryRun, OnlyChannel
from familiar_cli.cli.commands._options import name as name_option
from familiar_cli.pages.emit import Output, exact, say
from familiar_cli.pages.page import Columns, PagePart, plain

if TYPE_CHECKING:
    from familiar_cli.actions.people.change_people import PeopleChange
    from familiar_cli.actions.people.me import OwnerProfile
    from familiar_cli.base.config.edit import Edit
    from familiar_cli.familiar import Familiar


def me_page(shown: OwnerProfile) -> PagePart:
    """Render the person's name, pronouns and description, with the source of each."""
    values = {
        "name": shown.name or f"none; {shown.label} in prompts",
        "pronouns": shown.pronouns,
        "description": shown.description.rstrip("\n"),
    }
    rows = [
        [plain(name, "dim"), value, plain(shown.sources[name], "dim")]
        for name, value in values.items()
    ]
    accounts = ", ".join((shown.account, *shown.also))
    rows.append([plain("account", "dim"), accounts, ""])
    if shown.owners and shown.account.partition(":")[2] not in shown.owners:
        rows.append([plain("owners", "dim"), f"you, {', '.join(shown.owners)}", ""])
    return Columns(rows)


def me_data(
    shown: OwnerProfile, edit: Edit | None = None, *, dry_run: bool = False
) -> dict[str, Any]:
    """Build the data for `--json`, with the changes made."""
    return asdict(shown) | {
        "changed": bool(edit and edit.changes and not dry_run),
        "path": str(edit.path) if edit else None,
        "diff": edit.diff if edit else "",
    }


app = base.group("Show the people the familiar knows, and their names.")

_MOST_NAMESAKES = 3

Person = Annotated[
    str,
    typer.Argument(metavar="PERSON", help="Person: a slug (discord-42), PLATFORM:ID, or any name."),
]


@app.command("list")
def ls(ctx: typer.Context) -> None:
    """List everyone who has a file or has spoken, most recently seen first.

    \b
    familiar people list
    familiar people list --json
    """
    from familiar_cli.actions.people.people import people_of
    from familiar_cli.pages.memory_pages import people_page, shared_line

    out = base.output(ctx)
    with base.familiar_of(ctx) as familiar:
        found, zone = people_of(familiar), familiar.zone
    out.answer(found, people_page(found.people, zone) if found.people else None)
    if not found.people:
        out.note('Nobody yet: `familiar people alias discord:42 "Anna"` creates a file.')
    out.warn(*map(shared_line, found.collisions))
    out.warn(*(person.problem for person in found.people if person.problem))


@app.command()
def show(ctx: typer.Context, person: Person) -> None:
    """Print a person's file, word for word; their names go to stderr.

    \b
    familiar people show discord-42
    familiar people show discord:42
    familiar people show Anna
    """
    from familiar_cli.actions.people.people import show_person
    from familiar_cli.pages.memory_pages import shared_line

    out = base.output(ctx)
    with base.familiar_of(ctx) as familiar:
        found = show_person(familiar, person)
    out.answer(found, lambda: say(found.text) if sys.stdout.isatty() else exact(found.text))
    called = ", ".join(found.names) or "nothing: the file has neither a title nor aliases"
    out.note(f"{found.slug} is called {called}")
    if not found.sha256:
        write = f"familiar memory write {typed(found.rel_path)} TEXT"
        out.note(f"There is no file about them yet: `{write}`.")
    out.warn(*map(shared_line, found.collisions))


@app.command()
def alias(
    ctx: typer.Context,
    person: Person,
    name: str,
    *,
    remove: Annotated[bool, typer.Option("--remove")] = False,
    dry_run: DryRun = False,
) -> None:
    """Add a name to `## Aliases` in a person's file, creating the file if needed.

    \b
    familiar people alias discord:42 "Anna Bell"
    familiar people alias anna Bee --dry-run
    familiar people alias anna Bee --remove

    Args:
        name (NAME): Another name for the person.
        remove: Remove the name from the list.
    """
    from familiar_cli.actions.people.change_people import add_alias, remove_alias
    from familiar_cli.pages.memory_pages import shared_line

    out = base.output(ctx)
    with base.familiar_of(ctx) as familiar:
        change = remove_alias if remove else add_alias
        done = change(familiar, person, name, dry_run=dry_run)
    out.answer(done, lambda: exact(done.diff))
    if not done.changed:
        out.note(f"{done.slug} already has the name {name!r}; nothing was changed.")
    elif dry_run:
        out.note("Nothing was changed (--dry-run).")
    out.warn(*done.notices, *map(shared_line, done.collisions))


@app.command()
def merge(ctx: typer.Context, kept: str, other: str, *, dry_run: DryRun = False) -> None:
    """Merge two accounts of one person: what is known of OTHER moves to the file of KEPT.

    The file of OTHER stays and points to KEPT, so new memories of that account are kept with KEPT.
    Links are updated. `familiar people split` undoes the merge.

    \b
    familiar people merge discord:42 twitch:9
    familiar people merge discord:42 twitch:9 --dry-run

    Args:
        kept (KEPT): Person whose file is kept.
        other (OTHER): The same person's other account, merged into KEPT.
    """
    from familiar_cli.actions.people.change_people import merge as merge_people

    with base.familiar_of(ctx) as familiar:
        _tell(base.output(ctx), merge_people(familiar, kept, other, dry_run=dry_run))


@app.command()
def split(ctx: typer.Context, person: Person, *, dry_run: DryRun = False) -> None:
    """Undo a merge: PERSON, who was merged into another, gets a file of their own again.

    Lines based on what PERSON said move there; all others stay.

    \b
    familiar people split twitch:9
    """
    from familiar_cli.actions.people.change_people import split as split_person

    with base.familiar_of(ctx) as familiar:
        _tell(base.output(ctx), split_person(familiar, person, dry_run=dry_run))


@app.command("rename-alias")
def rename_alias(
    ctx: typer.Context, person: Person, old: str, new: str, *, dry_run: DryRun = False
) -> None:
    """Change one of a person's names; if it is their file's title, links are updated, too.

    \b
    familiar people rename-alias discord:42 Ana Anna

    Args:
        old (OLD): Current name.
        new (NEW): New name.
    """
    from familiar_cli.actions.people.change_people import rename

    with base.familiar_of(ctx) as familiar:
        _tell(base.output(ctx), rename(familiar, person, old, new, dry_run=dry_run))


@app.command("export")
def export_(
    ctx: typer.Context,
    person: Person,
    directory: Path,
    *,
    line: list[str] | None = None,
    owner: Annotated[bool, typer.Option("--owner")] = False,
) -> None:
    """Export what a person said, and what they may see about themselves.

    \b
    familiar people export Anna anna-files
    familiar people export Anna for-me --owner

    Args:
        directory (DIR): New directory for the files, to give to them.
        line (PATH:N): Line of memory that is about them, too, such as topics/mill.md:2; repeatable.
        owner: Add what others said about them in private; keep that from them.
    """
    from familiar_cli.actions.people.forget import export_person
    from familiar_cli.pages.memory_pages import exported_text

    out = base.output(ctx)
    with base.familiar_of(ctx) as familiar:
        done = export_person(familiar, person, directory, lines=line or (), for_owner=owner)
    shown = exported_text(done, str(directory))
    out.answer({"directory": str(directory), **asdict(done)}, shown)


@app.command()
def forget(
    ctx: typer.Context,
    person: Person,
    *,
    turn: list[str] | None = None,
    line: list[str] | None = None,
    dry_run: DryRun = False,
    yes: Annotated[bool, typer.Option("--yes")] = False,
) -> None:
    """Forget a person for good: their words, the replies, and every memory based on them.

    Turns keep their place and lose their words, and the journal begins a new epoch, here and with
    the next sync on every machine. It cannot be undone.

    \b
    familiar people forget Anna --dry-run
    familiar people forget discord:42 --yes

    Args:
        turn (N): Turn of somebody else that loses its words, too; repeatable.
        line (PATH:N): Line of memory that is removed, too, such as topics/mill.md:2; repeatable.
        yes: Do not ask. This cannot be undone.
    """
    from familiar_cli.actions.people.forget import forget_person
    from familiar_cli.pages.memory_pages import forgotten_text

    out = base.output(ctx)
    with base.familiar_of(ctx) as familiar:
        forget_them = partial(forget_person, familiar, person, turns=turn or (), lines=line or ())
        report = forget_them(dry_run=True)
        if not dry_run:
            if not yes and not out.as_json and sys.stdin.isatty():
                from familiar_cli.cli.terminal.prompts import ask_yes

                out.note(forgotten_text(report))
                yes = ask_yes("Forget this person for good, on every machine?")
            if not yes:
                raise errors.RefusedError(
                    "Forgetting cannot be undone, so it must be confirmed; nothing was changed",
                    hint="Preview it: `familiar people forget PERSON --dry-run`. Then add --yes.",
                )
            report = forget_them()
    out.answer(report, forgotten_text(report))
    out.note(*(f"Not covered: {what}." for what in report.not_covered))


def _tell(out: Output, done: PeopleChange) -> None:
    out.answer(done, lambda: exact(done.diff))
    if not done.files:
        out.note("Nothing to change.")
    elif done.dry_run:
        out.note("Nothing was changed (--dry-run).")
    else:
        out.note(
            f"{counted(len(done.files), 'file')} changed, {counted(done.moved, 'line')} moved."
        )
    out.warn(*done.notices)


me_app = base.App()
_MOST_CHARS = 20_000  # of a description; a prompt holds no more


@me_app.command()
def me(
    ctx: typer.Context,
    *,
    name: Annotated[str | None, name_option("What you are called.")] = None,
    description: str | None = None,
    pronouns: str | None = None,
    from_sillytavern: str | None = None,
    also: list[str] | None = None,
    as_: Annotated[str | None, typer.Option("--as")] = None,
    channel: OnlyChannel = None,
    clear: Annotated[bool, typer.Option("--clear")] = False,
    dry_run: DryRun = False,
) -> None:
    """Say who you are, or show it: your name, a description and pronouns.

    They apply to all familiars in the home, in messages that name no other speaker. With
    --familiar they apply to that familiar only, with --channel to that channel only. An empty
    value means none. {{user}} is your name, {{persona}} your description; where the character has
    no {{persona}}, every prompt includes the description.

    \b
    familiar me --name Anna --pronouns she/her
    familiar me --description anna.md
    familiar me --name "Sir Galahad" --channel castle
    familiar me --from-sillytavern settings.json --name Anna
    familiar me --also discord:1234 --also openwebui:8f2c
    familiar me --as scott --name Scott
    familiar me --clear

    Args:
        description (FILE|-): File that says who you are; its text is copied.
        pronouns (TEXT): Your pronouns, e.g. they/them.
        from_sillytavern (FILE): Import a persona from SillyTavern's settings.json or a backup of
            its personas.
        also (PLATFORM:ID): Another account of yours; repeatable.
        as_ (OWNER): Another owner of this home, e.g. scott.
        clear: Remove what was set about you.
    """
    from familiar_cli.actions.people.me import (
        change_me,
        forget_me,
        namesakes,
        place_of_me,
        show_me,
        with_accounts,
    )

    out, home = base.output(ctx), base.home_of(ctx)
    given = {"name": name, "pronouns": pronouns, "description": _text(description)}
    if from_sillytavern:
        given |= _persona(from_sillytavern, name)
    values = {key: value.strip() for key, value in given.items() if value is not None}
    if also and channel:
        raise errors.UsageError("--also applies to every channel; nothing was changed")
    if as_ is not None and (channel or base.globals_of(ctx).familiar):
        raise errors.UsageError("--as applies to the whole home; nothing was changed")
    if clear and (values or also):
        raise errors.UsageError("--clear cannot be combined with new values; nothing was changed")
    if not clear and not values and not also:
        where = _familiar(ctx, channel)
        profile = show_me(home, where, channel or "", as_)
        if as_ is not None and as_ not in profile.owners:
            raise errors.NotFoundError(
                f"There is no owner {as_!r} in this home",
                hint=f"Add one: `familiar me --as {as_} --name NAME`.",
            )
        out.answer(me_data(profile), me_page(profile))
        if not profile.name:
            out.note("Say who you are: `familiar me --name NAME`.")
        return
    familiar = base.familiar_of(ctx) if channel or base.globals_of(ctx).familiar else None
    place = place_of_me(home, familiar, channel or "", as_)
    if clear:
        edit = forget_me(place, dry_run=dry_run)
    else:
        values |= {"also": with_accounts(home, place, also)} if also else {}
        edit = change_me(familiar, place, values, channel_id=channel or "", dry_run=dry_run)
    current = base.familiar_of(ctx) if familiar else None  # with its new settings
    profile = show_me(home, current, channel or "", as_)
    data = me_data(profile, edit, dry_run=dry_run)
    if dry_run:
        out.answer(data, edit.diff)
        out.note("Nothing was changed (--dry-run).")
        return
    out.answer(data, me_page(profile))
    is_first = values.get("name") and not (familiar or as_)
    others = namesakes(home, profile.name)[:_MOST_NAMESAKES] if is_first else []
    _note_change(out, place.title if edit.changes else "", others)


def _note_change(out: Output, place: str, others: Sequence[str]) -> None:
    for account in others:
        join = f"`familiar me --also {typed(account)}`"
        out.note(f"{account} of an imported chat has your name too; if that is you: {join}.")
    out.note(f"This applies {place}." if place else "Nothing was changed.")


def _familiar(ctx: typer.Context, channel: str | None) -> Familiar | None:
    """Open the selected familiar; None if there is none and none is needed."""
    try:
        return base.familiar_of(ctx)
    except (errors.NotFoundError, errors.UsageError):
        if channel or base.globals_of(ctx).familiar:
            raise
        return None


def _text(file: str | None) -> str | None:
    if not file:
        return file
    raw, origin = base.file_or_stdin(file)
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise errors.BadInputError(f"{origin!r} is not UTF-8 text; nothing was changed") from error
    return _short(text, origin)


def _short(text: str, origin: str) -> str:
    if len(text) > _MOST_CHARS:
        raise errors.LimitError(
            f"The description in {origin!r} has {len(text):,} characters, more than "
            f"{_MOST_CHARS:,}; nothing was changed",
            hint="Keep what every prompt needs, and leave the rest to memory.",
        )
    return text


def _persona(file: str, name: str | None) -> dict[str, str | None]:
    """Read a persona from SillyTavern's settings; explicit options take precedence."""
    from familiar_cli.imports.formats.silly_tavern import choose_persona, read_personas

    raw, origin = base.file_or_stdin(file)
    persona = choose_persona(read_personas(raw, origin=origin), name or "", origin=origin)
    return {"name": persona.name, "description": _short(persona.description, origin)}


graph_app = base.App()


@graph_app.command()
def graph(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument()] = None,
    *,
    depth: Annotated[int, typer.Option(min=1, max=4)] = 1,
    html: str | None = None,
    dot: Annotated[bool, typer.Option("--dot")] = False,
    export: str | None = None,
    import_: Annotated[str | None, typer.Option("--import")] = None,
    force: Annotated[bool, typer.Option("--force")] = False,
    dry_run: DryRun = False,
) -> None:
    """Show a person's relations to people, places and topics; without NAME, list all.

    Relations are listed below `## Relations` in a file of `people/`, `topics/` or `places/`, one
    per line: `- sister of [Robin](discord-42.md) (since 2024-03)`.

    \b
    familiar graph Mika
    familiar graph topics/choir.md --depth 2
    familiar graph Mika --html mika.html
    familiar graph Mika --dot
    familiar graph --import graph.db --dry-run

    Args:
        name ([NAME]): Person, place or topic: a name, or its file.
        depth (N): Maximum distance, in steps.
        html (FILE|-): Write a picture to FILE.
        dot: Print the graph as Graphviz DOT.
        export (FILE|-): Write all relations as entity-core's JSON.
        import_ (FILE): Add the relations of entity-core's graph.db or JSON.
        force: With --html or --export: overwrite FILE if it exists.
    """
    from familiar_cli.actions.memory.graph import neighbourhood, overview
    from familiar_cli.pages import memory_pages as page

    out = base.output(ctx)
    _check(name, html=html, dot=dot, force=force and export is None)
    if import_ is not None or export is not None:
        if name is not None or html is not None or dot or None not in (import_, export):
            raise errors.UsageError(
                "--import and --export cannot be combined with other options",
                hint="Leave those out.",
            )
        with base.familiar_of(ctx) as familiar:
            if import_ is not None:
                _import(out, familiar, import_, dry_run=dry_run)
            else:
                _export(out, familiar, str(export), force=force)
        return
    if dry_run:
        raise errors.UsageError("This option requires --import", hint="Add --import FILE.")
    with base.familiar_of(ctx) as familiar:
        found = (
            overview(familiar, viewer=familiar.privacy.owner())
            if name is None
            else neighbourhood(familiar, name, depth, viewer=familiar.privacy.owner())
        )
    if html is not None:
        from familiar_cli.servers.web.html.pictures import ego_page

        data, drawn = found.to_json(), ego_page(found)
        base.answer_html(out, drawn, html, data, "written", force=force)
    elif dot:
        out.answer(found.to_json(), page.dot_text(found))
    elif name is None:
        out.answer(found.to_json(), lambda: exact(page.overview_text(found)))
    else:
        out.answer(found.to_json(), page.graph_tree(found))
    if not any(not edge.is_link for edge in found.edges):
        out.note(
            "No relations yet. Add one below `## Relations` in a person's file: "
            "`- sister of [Robin](discord-42.md)`."
        )
    if found.is_cut:
        out.note(f"Only {len(found.nodes)} pages are shown.")


def _check(name: str | None, *, html: str | None, dot: bool, force: bool) -> None:
    if (html is not None or dot) and name is None:
        raise errors.UsageError("--html and --dot need a NAME to start from", hint="Add one.")
    if html is not None and dot:
        raise errors.UsageError("--html and --dot cannot be combined", hint="Choose one.")
    if force and html is None:
        raise errors.UsageError("This option requires --html or --export", hint="Add one.")


def _import(out: Output, familiar: Familiar, file: str, *, dry_run: bool) -> None:
    from familiar_cli.actions.memory.graph import as_json, import_graph

    done = import_graph(familiar, Path(file).expanduser(), dry_run=dry_run)
    would = "would add" if dry_run else "added"
    text = f"{would} {counted(done.relations, 'relation')} and {counted(len(done.pages), 'page')}"
    out.answer(as_json(done), done.diff if dry_run and done.diff else text)
    if done.known:
        out.note(f"{counted(done.known, 'relation')} already known.")
    if done.left_out:
        out.note(f"{done.left_out} nodes or edges were left out.")


def _export(out: Output, familiar: Familiar, file: str, *, force: bool) -> None:
    from familiar_cli.actions.memory.graph import export_graph, graph_json

    result = graph_json(export_graph(familiar))
    content = (json.dumps(result, ensure_ascii=False, indent=1) + "\n").encode("utf-8")
    counts = {"nodes": len(result["nodes"]), "edges": len(result["edges"])}
    base.answer_content(out, content, file, {"written": file, **counts}, result, force=force)
