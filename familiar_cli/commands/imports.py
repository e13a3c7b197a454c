"""`familiar import-chat`, `import-sillytavern` and `import-memories`."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from familiar_cli.commands._base import App, familiar_of, home_of, output
from familiar_cli.commands._options import DryRun, Force, Update, index_words

chat_app = App()


@chat_app.command()
def import_chat(
    ctx: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|DIR|-", help="Chat file or directory of chats; `-` reads standard input."
        ),
    ],
    *,
    channel: Annotated[
        str,
        typer.Option(
            metavar="ID", help="Channel to import into; default: one named after the chat."
        ),
    ] = "",
    as_: Annotated[
        str | None,
        typer.Option("--as", metavar="PLATFORM:ID", help="Account of the user in the chat."),
    ] = None,
    character: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Name of the familiar in the chat; may be repeated."),
    ] = None,
    me: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Your name in the chat, if several people speak; may be repeated.",
        ),
    ] = None,
    format_: Annotated[
        Literal["sillytavern", "plain", "chatgpt", "claude", "discord", "transcript"] | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Format of the files: sillytavern, plain, chatgpt, claude, discord or transcript; "
            "default: detected from their content.",
        ),
    ] = None,
    dates: Annotated[
        Literal["dmy", "mdy", "ymd"] | None,
        typer.Option(help="Order of day, month and year in dates such as 01/02/2024."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Import chats from other programs into the history, with times and authors.

    Reads SillyTavern chats, ChatGPT, Claude and Discord exports, transcripts with `Name: text`, and
    plain JSON Lines. Turns already imported are skipped, so running the same command again adds
    only the new ones. --dry-run shows the detected format and the first turns.

    \b
    familiar import-chat yuzu.jsonl --me Robin
    familiar import-chat yuzu.jsonl --as discord:1234
    familiar import-chat chats/ --dry-run
    familiar import-chat whatsapp.txt --me Robin --dates dmy
    familiar import-chat conversations.json --json
    """
    from dataclasses import replace
    from pathlib import Path

    from familiar_cli.imports.chat_import import ChatImportOptions
    from familiar_cli.imports.import_chat import import_chats
    from familiar_cli.ui.import_pages import answer_data, imported_chats_page
    from familiar_cli.ui.progress import counting

    familiar, out = familiar_of(ctx), output(ctx)
    reading = replace(
        familiar.chat_reading(as_, tuple(character or ()), tuple(me or ())),
        format=format_ or "",
        dates=dates,
    )
    path = None if file == "-" else Path(file).expanduser()
    try:
        with familiar:
            with counting(out, "reading") as report:
                done = import_chats(
                    familiar.history, path, ChatImportOptions(reading, channel, dry_run), report
                )
            if not dry_run:
                index_words(out, familiar)
    except KeyboardInterrupt:
        out.note("Interrupted. What was imported is kept; run the same command again to continue.")
        raise
    data = answer_data(done, dry_run=dry_run)
    problem = done.problem
    if problem is None:
        out.answer(data, imported_chats_page(done, dry_run=dry_run))
        return
    if not done.chats:
        problem.data = data
        raise problem
    out.partial(
        data,
        [problem, *(f.error for f in done.failed)],
        imported_chats_page(done, dry_run=dry_run),
    )


sillytavern_app = App()


@sillytavern_app.command()
def import_sillytavern(
    ctx: typer.Context,
    directory: Annotated[
        str,
        typer.Argument(metavar="DIR", help="Data folder, e.g. SillyTavern/data/default-user."),
    ],
    *,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Import this character only; may be repeated."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Import SillyTavern's whole data folder: characters, lorebooks, chats and groups.

    Each character becomes a familiar. Run it again whenever something has changed there: only
    what is new is imported.

    \b
    familiar import-sillytavern data/default-user --dry-run
    familiar import-sillytavern data/default-user
    familiar import-sillytavern ~/SillyTavern --only Yuzu
    """
    from dataclasses import asdict
    from pathlib import Path

    from familiar_cli.actions.import_sillytavern import import_folder
    from familiar_cli.imports.sillytavern import find_folder
    from familiar_cli.text import typed
    from familiar_cli.ui.import_pages import imported_folder_page
    from familiar_cli.ui.progress import steps

    out, home = output(ctx), home_of(ctx)
    folder = find_folder(Path(directory).expanduser())
    reached = 0
    try:
        with steps(out) as report:

            def progress(what: str, done: int, total: int) -> None:
                nonlocal reached
                reached = done
                report(what, done, total)

            done = import_folder(home, folder, only=only or (), dry_run=dry_run, progress=progress)
    except KeyboardInterrupt:
        out.note(
            f"Interrupted after {reached:,} of {len(folder.files):,} files. What was imported is "
            f"kept; continue with `familiar import-sillytavern {typed(directory)}`."
        )
        raise
    data = asdict(done) | {"dry_run": dry_run}
    page = imported_folder_page(done, dry_run=dry_run)
    if done.problem:
        out.partial(data, [done.problem], page)
    out.answer(data, page)
    for familiar in done.familiars:
        for warning in familiar.warnings:
            out.warn(f"{familiar.character}: {warning}")


memories_app = App()

_MANY = 1000  # more than a second's work


@memories_app.command()
def import_memories(
    ctx: typer.Context,
    directory: Annotated[
        str,
        typer.Argument(metavar="DIR", help="Directory with daily/, weekly/, monthly/, yearly/ …"),
    ],
    *,
    update: Update = False,
    force: Force = False,
    dry_run: DryRun = False,
) -> None:
    """Import memories kept by day, week, month and year, and significant moments.

    \b
    familiar import-memories data/memories
    familiar import-memories data/memories --update --dry-run
    """
    from dataclasses import asdict
    from pathlib import Path

    from familiar_cli.imports import folders as importing
    from familiar_cli.imports.folders import FolderImportOptions
    from familiar_cli.ui.import_pages import memories_page

    familiar, out = familiar_of(ctx), output(ctx)
    folder = importing.read_tree(Path(directory).expanduser())
    if len(folder.files) > _MANY:
        out.note(f"Importing {len(folder.files):,} files; this takes a while …")
    done = importing.import_memories(
        familiar.memory, folder, FolderImportOptions(update, force), dry_run=dry_run
    )
    if not dry_run:
        index_words(out, familiar)
    for warning in done.warnings:
        out.warn(warning)
    data = asdict(done) | {"dry_run": dry_run}
    page = memories_page(done, dry_run=dry_run)
    if problem := done.problem():
        out.partial(data, [problem], page)
    out.answer(data, page)
