"""`familiar import-chat`: parse, call, render."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from familiar_cli.commands._base import App, familiar_of, output
from familiar_cli.commands._indexing import index_words
from familiar_cli.commands._options import DryRun

app = App()


@app.command()
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

    from familiar_cli.bootstrap.chats.bringing import ChatImportOptions
    from familiar_cli.bootstrap.import_chat import import_chats
    from familiar_cli.ui.import_chat_page import answer_data, imported_page
    from familiar_cli.ui.progress import counting
    from familiar_cli.ui.terminal import print_page

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
        out.answer(data, lambda: print_page(imported_page(done, dry_run=dry_run)))
        return
    if not done.chats:
        problem.data = data
        raise problem
    out.partial(
        data,
        [problem, *(f.error for f in done.failed)],
        lambda: print_page(imported_page(done, dry_run=dry_run)),
    )
