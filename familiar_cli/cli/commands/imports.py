"""Foreign formats: `card`, the lorebook commands and those of `import-`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from msgspec.structs import asdict, replace

from familiar_cli.base.errors import FamiliarError, PartialError, UsageError
from familiar_cli.base.text import counted, typed
from familiar_cli.cli.commands import _base as base
from familiar_cli.cli.commands import _options as options
from familiar_cli.imports.foreign_files import dump_json
from familiar_cli.pages.page import plain
from familiar_cli.pages.progress import show_count, show_totals

if TYPE_CHECKING:
    from familiar_cli.llm.tokens import TokenCounter

card_app = base.group("Show, check and export character cards.")

_File = Annotated[
    str,
    typer.Argument(metavar="FILE", help="Character card in any format; `-` reads standard input."),
]
_Files = Annotated[
    list[str],
    typer.Argument(metavar="FILE...", help="Character cards in any format; `-`: standard input."),
]


@card_app.command()
def show(ctx: typer.Context, file: _File) -> None:
    """Show what a card contains: texts and their lengths, greetings, lorebook, assets.

    \b
    familiar card show mira.png
    """
    from familiar_cli.imports.card_check import summarise_card
    from familiar_cli.pages.card_pages import card_page

    summary, out = summarise_card(base.read_card_at(file), _counter()), base.output(ctx)
    out.answer(summary, card_page(summary, framed=sys.stdout.isatty()))
    out.warn(*summary.warnings)


@card_app.command()
def check(ctx: typer.Context, files: _Files) -> None:
    """Check cards for problems. Exits with 7 if there are any.

    \b
    familiar card check mira.png
    familiar card check cards/*.png
    """
    from familiar_cli.imports.card_check import check_card
    from familiar_cli.pages.card_pages import findings_page

    out, counter, alone = base.output(ctx), _counter(), len(set(files)) == 1
    cards: list[dict[str, Any]] = []
    errors: list[FamiliarError] = []
    page: list[Any] = []
    for file in dict.fromkeys(files):
        try:
            card = base.read_card_at(file)
        except FamiliarError as error:
            if not alone and file not in str(error):
                error.args = (f"{file!r}: {error}",)
            errors.append(error)
            continue
        findings = check_card(card, counter)
        cards.append({"file": file, "name": card.name, "spec": card.spec, "findings": findings})
        name = card.name if alone else f"{file}: {card.name}"
        if not findings:
            page.append(plain(f"{name}: no problems found"))
            continue
        page += [*([] if alone else [plain(name)]), findings_page(findings)]
        hint = "It can still be imported; `familiar card show` shows all of it."
        errors.append(PartialError(f"{file!r} has {counted(len(findings), 'finding')}", hint=hint))
    data = {**(cards[0] if alone and cards else {}), "cards": cards}
    code = max((e.exit_code for e in errors if not isinstance(e, PartialError)), default=7)
    out.answer(data, page, errors, exit_code=code, is_failure=alone and not cards)


@card_app.command()
def export(
    ctx: typer.Context,
    *,
    card_format: Annotated[Literal["png", "json", "charx"] | None, typer.Option("--format")] = None,
    out_file: options.OutFile = None,
    force: options.Overwrite = False,
) -> None:
    """Export the familiar as a card, edits included.

    \b
    familiar card export --out mira.png
    familiar card export --out mira.json
    familiar card export --format json > mira.json

    Args:
        card_format: File format; default: by the ending of FILE, else png.
    """
    from familiar_cli.imports.export_card import export_card, format_of_file

    familiar, out = base.familiar_of(ctx), base.output(ctx)
    chosen = card_format or (format_of_file(out_file) if out_file else "png")
    _check_terminal(chosen, out_file)
    name = familiar.config.name or familiar.paths.id
    made = export_card(familiar.memory, chosen, default_name=name)
    content = made.content
    data = {"format": chosen, "bytes": len(content), "left_out": made.left_out}
    inline = data | (_inline(content, chosen) if out.as_json else {})
    written = data | {"path": str(out_file)}
    base.answer_content(out, content, str(out_file or "-"), written, inline, force=force)
    text = "the original keeps it"
    out.warn(*(f"a {chosen} file cannot carry {thing}; {text}" for thing in made.left_out))


def _check_terminal(card_format: str, out_file: Path | None) -> None:
    if card_format != "json" and out_file is None and sys.stdout.isatty():
        raise UsageError(
            f"A {card_format} file cannot be printed to a terminal",
            hint=f"Add `--out card.{card_format}`.",
        )


def _inline(content: bytes, card_format: str) -> dict[str, object]:
    """Return the card in a form for JSON."""
    import base64
    import json

    if card_format == "json":
        return {"card": json.loads(content)}
    return {"content_base64": base64.b64encode(content).decode("ascii")}


def _counter() -> TokenCounter:
    from familiar_cli.base.config.home import cache_dir
    from familiar_cli.llm.models.store import encoding_path
    from familiar_cli.llm.tokens import load

    return load(encoding_path(cache_dir()))


import_lorebook_app = base.App()

_MANY = 1000  # takes more than a second


@import_lorebook_app.command()
def import_lorebook(
    ctx: typer.Context,
    file: str,
    *,
    into: str | None = None,
    update: options.Update = False,
    force: options.Force = False,
    dry_run: options.DryRun = False,
) -> None:
    """Convert a lorebook to Markdown files, one per entry.

    Reads World Info, character_book, lorebook_v3, NovelAI, Agnai, RisuAI and KoboldAI Lite files.

    \b
    familiar import-lorebook world.json
    familiar import-lorebook world.json --update --dry-run
    familiar import-lorebook mira.png --into lore/mira

    Args:
        file (FILE): Lorebook, or a card that contains one; `-` reads standard input.
        into (DIR): Directory in memory; default: the book's own in lore/imported/.
    """
    from familiar_cli.imports.import_lorebook import import_lorebook
    from familiar_cli.imports.reading import load_book
    from familiar_cli.imports.what_is_it import taken_for
    from familiar_cli.pages.bring_pages import report_page

    familiar, out = base.familiar_of(ctx), base.output(ctx)
    with taken_for("lorebook", file):
        raw, origin = base.file_or_stdin(file)
        book = load_book(raw, origin=origin)
    if len(book.entries) > _MANY:
        out.note(f"Importing {len(book.entries)} entries, one file each; this takes a while …")
    lorebook = import_lorebook(
        familiar.memory, book, into=into, update=update, force=force, dry_run=dry_run
    )
    if not dry_run:
        options.index_words(out, familiar)
        options.warn_of_pins(out, familiar)
    out.report(asdict(lorebook) | {"dry_run": dry_run}, report_page(lorebook, dry_run=dry_run))
    out.warn(*lorebook.warnings)


export_lorebook_app = base.App()


@export_lorebook_app.command()
def export_lorebook(
    ctx: typer.Context,
    *,
    book: str = "",
    directory: Annotated[str | None, typer.Option("--from")] = None,
    book_format: Annotated[Literal["worldinfo", "v3"] | None, typer.Option("--format")] = None,
    out_file: options.OutFile = None,
    force: options.Overwrite = False,
) -> None:
    """Convert lore files back to a lorebook, edits included.

    \b
    familiar export-lorebook > world.json
    familiar export-lorebook --book "Kazahaya Valley"
    familiar export-lorebook --format v3 --out book.json
    familiar export-lorebook --from lore/mira

    Args:
        book (NAME): Name of the book; default: the only one.
        directory (DIR): Directory in memory; default: wherever the book is.
        book_format: Format; default: the imported one, or v3 if that is only read.
    """
    from familiar_cli.imports.export_lorebook import choose_book, own_format, to_json

    out = base.output(ctx)
    lorebook = choose_book(base.familiar_of(ctx).memory, name=book, directory=directory)
    chosen = book_format or own_format(lorebook)
    data = {
        "book": lorebook.name,
        "format": chosen,
        "entries": len(lorebook.entries),
        "warnings": lorebook.warnings,
    }
    made = to_json(lorebook, chosen)
    content = (dump_json(made) + "\n").encode()
    size = counted(len(lorebook.entries), "entry", "entries")
    written, inline = data | {"path": str(out_file)}, data | {"lorebook": made}
    file = str(out_file or "-")
    base.answer_content(out, content, file, written, inline, force=force, size=size)
    out.warn(*lorebook.warnings)


chat_app = base.App()


@chat_app.command()
def import_chat(
    ctx: typer.Context,
    file: str,
    *,
    channel: str = "",
    as_: Annotated[str | None, typer.Option("--as")] = None,
    character: list[str] | None = None,
    me: list[str] | None = None,
    format_: Annotated[str | None, typer.Option("--format")] = None,
    dates: Literal["dmy", "mdy", "ymd"] | None = None,
    year: options.Year = None,
    dry_run: options.DryRun = False,
) -> None:
    """Import chats from other programs into the history, with times and authors.

    Reads chats of SillyTavern, ChatGPT, Claude, Discord, Telegram, WhatsApp and many others,
    transcripts with `Name: text`, and plain JSON Lines. Turns already imported are skipped, so
    running the same command again adds only the new ones. --dry-run shows the detected format and
    the first turns.

    \b
    familiar import-chat yuzu.jsonl --me Robin
    familiar import-chat yuzu.jsonl --as discord:1234
    familiar import-chat chats/ --dry-run
    familiar import-chat whatsapp.txt --me Robin --dates dmy
    familiar import-chat conversations.json --json

    Args:
        file (FILE|DIR|-): Chat file or directory of chats; `-` reads standard input.
        channel (ID): Channel to import into; default: one named after the chat.
        as_ (PLATFORM:ID): Account of the user in the chat.
        character (NAME): Name of the familiar in the chat, or - if it says nothing in it; may be
            repeated.
        me (NAME): Your name in the chat, or - if you say nothing in it; may be repeated.
        format_ (FORMAT): Format of the files, e.g. telegram or transcript; default: detected from
            their content.
        dates: Order of day, month and year in dates such as 01/02/2024.
    """
    from familiar_cli.actions.talk.client_chat import adopt_notes, chat_reading
    from familiar_cli.cli.commands.init import familiar_option
    from familiar_cli.imports.import_chat import ChatImportOptions, import_chats
    from familiar_cli.pages.bring_pages import answer_data, imported_chats_page

    familiar, out = base.familiar_of(ctx), base.output(ctx)
    reading = replace(
        chat_reading(familiar, as_, tuple(character or ()), tuple(me or ())),
        format=format_ or "",
        dates=dates,
        year=year,
    )
    path = None if file == "-" else Path(file).expanduser()
    choice = familiar_option(base.home_of(ctx), familiar.paths.id)
    rules, command = familiar.privacy.rules(), f"familiar import-chat {choice}".rstrip()
    wish = ChatImportOptions(reading, channel, dry_run, command=command, rules=rules)
    try:
        with familiar:
            with show_count(out, "reading") as report:
                done = import_chats(familiar.history, path, wish, report)
            adopt_notes(familiar, done.chats, dry_run=dry_run)
            if not dry_run:
                options.index_words(out, familiar)
    except KeyboardInterrupt:
        out.note("Interrupted. What was imported is kept; run the same command again to continue.")
        raise
    data = answer_data(done, dry_run=dry_run)
    errors = [done.problem, *(f.error for f in done.failed)] if done.problem else []
    page = imported_chats_page(done, dry_run=dry_run)
    out.report(data, page, errors, is_failure=not done.chats)


sillytavern_app = base.App()


@sillytavern_app.command()
def import_sillytavern(
    ctx: typer.Context,
    directory: str,
    *,
    only: list[str] | None = None,
    me: list[str] | None = None,
    dry_run: options.DryRun = False,
) -> None:
    """Import SillyTavern's whole data folder: characters, lorebooks, chats and groups.

    Each character becomes a familiar. Run it again whenever something has changed there: only
    what is new is imported.

    \b
    familiar import-sillytavern data/default-user --dry-run
    familiar import-sillytavern data/default-user
    familiar import-sillytavern ~/SillyTavern --only Yuzu

    Args:
        directory (DIR): Data folder, e.g. SillyTavern/data/default-user.
        only (NAME): Import this character only; may be repeated.
        me (NAME): Your name in the chats; may be repeated.
    """
    from familiar_cli.actions.bring.import_sillytavern import import_folder
    from familiar_cli.imports.sillytavern import find_folder
    from familiar_cli.pages.bring_pages import imported_folder_page

    out, home = base.output(ctx), base.home_of(ctx)
    folder = find_folder(Path(directory).expanduser())
    reached = 0
    try:
        with options.default_kept(out, home), show_totals(out) as report:

            def progress(what: str, done: int, total: int) -> None:
                nonlocal reached
                reached = done
                report(what, done, total)

            done = import_folder(
                home,
                folder,
                only=only or (),
                mine=tuple(me or ()),
                dry_run=dry_run,
                progress=progress,
            )
    except KeyboardInterrupt:
        out.note(
            f"Interrupted after {reached:,} of {len(folder.files):,} files. What was imported is "
            f"kept; continue with `familiar import-sillytavern {typed(directory)}`."
        )
        raise
    data = asdict(done) | {"dry_run": dry_run}
    page = imported_folder_page(done, dry_run=dry_run)
    out.report(data, page, [done.problem] if done.problem else [])
    out.warn(*(f"{one.character}: {warning}" for one in done.familiars for warning in one.warnings))


memories_app = base.App()


@memories_app.command()
def import_memories(
    ctx: typer.Context,
    directory: str,
    *,
    update: options.Update = False,
    force: options.Force = False,
    dry_run: options.DryRun = False,
) -> None:
    """Import memories kept by day, week, month and year, and significant moments.

    \b
    familiar import-memories data/memories
    familiar import-memories data/memories --update --dry-run

    Args:
        directory (DIR): Directory with daily/, weekly/, monthly/, yearly/ …
    """
    from familiar_cli.imports import folders as importing
    from familiar_cli.imports.folders import FolderImportOptions
    from familiar_cli.pages.bring_pages import report_page

    familiar, out = base.familiar_of(ctx), base.output(ctx)
    folder = importing.read_tree(Path(directory).expanduser())
    if len(folder.files) > _MANY:
        out.note(f"Importing {len(folder.files):,} files; this takes a while …")
    memories = importing.import_tree(
        familiar.memory, folder, FolderImportOptions(update, force), dry_run=dry_run
    )
    if not dry_run:
        options.index_words(out, familiar)
    out.warn(*memories.warnings)
    data, problem = asdict(memories) | {"dry_run": dry_run}, memories.problem()
    out.report(data, report_page(memories, dry_run=dry_run), [problem] if problem else [])
