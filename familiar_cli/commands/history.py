"""`familiar history`: parse, call, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from familiar_cli.commands._base import familiar_of, group, moment_of, output
from familiar_cli.commands._options import (
    OnlyChannel,
    OutFile,
    Overwrite,
    SinceTurns,
    UntilTurns,
    most,
)

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.history.selection import Kept, TurnFilter

app = group("Read, search, count and export past turns.")


_NOTHING = 'There are no turns yet: `familiar ask "Hello"`, or `familiar import-chat FILE`.'


@app.command()
def ls(ctx: typer.Context) -> None:
    """List channels, with the number of turns and the time span of each.

    \b
    familiar history ls
    """
    from familiar_cli.history.statistics import channel_counts
    from familiar_cli.ui.history_page import channels_page
    from familiar_cli.ui.terminal import print_page

    with familiar_of(ctx) as familiar:
        found = channel_counts(familiar.history)
        zone = familiar.zone
    out = output(ctx)
    out.answer(
        {"channels": found}, lambda: print_page(channels_page(found, zone)) if found else None
    )
    if not found:
        out.note(_NOTHING)


@app.command()
def show(
    ctx: typer.Context,
    turn: Annotated[
        int | None, typer.Argument(metavar="[TURN]", help="Turn to show, with the turns around it.")
    ] = None,
    *,
    channel: OnlyChannel = None,
    last: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Show the newest N turns; default: 20.")
    ] = None,
    since: SinceTurns = None,
    until: UntilTurns = None,
) -> None:
    """Show past turns word for word; by default, the end of the last conversation.

    \b
    familiar history show --channel cli --last 50
    familiar history show --since 7d --until yesterday
    familiar history show 1204
    """
    from familiar_cli.ui.history_page import transcript_data, transcript_page
    from familiar_cli.ui.terminal import print_page

    with familiar_of(ctx) as familiar:
        span = _span(familiar, channel, since, until)
        shown = _around(familiar, turn) if turn is not None else _newest(familiar, span, last)
        name, zone = familiar.name, familiar.zone
    output(ctx).answer(
        {"turns": transcript_data(shown)},
        lambda: print_page(transcript_page(shown, name, zone, chosen=turn)),
    )


@app.command()
def search(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words to find, in any order.")],
    *,
    channel: OnlyChannel = None,
    since: SinceTurns = None,
    until: UntilTurns = None,
    k: Annotated[int, most("turns")] = 10,
) -> None:
    """Search turns by words; the best are grouped by day, with the turns around them.

    \b
    familiar history search "the red scarf"
    familiar history search Kazahaya --channel cli --since 30d
    """
    from familiar_cli import fts
    from familiar_cli.errors import UsageError
    from familiar_cli.history import fulltext
    from familiar_cli.ui.history_page import found_data, found_page
    from familiar_cli.ui.progress import counting
    from familiar_cli.ui.terminal import print_page

    out = output(ctx)
    if not fts.words(query):
        raise UsageError(
            f"No word to search for in {query!r}",
            hint='Search for what was said, e.g. `familiar history search "the red scarf"`.',
        )
    with familiar_of(ctx) as familiar, counting(out, "adding to the search") as report:
        found = fulltext.search(
            familiar.history,
            query,
            _span(familiar, channel, since, until),
            limit=k,
            on_progress=lambda done, whole: report(f"{whole:,} turns", done),
        )
        name, zone = familiar.name, familiar.zone
    out.answer(found_data(query, found), lambda: print_page(found_page(query, found, name, zone)))
    if not found:
        out.note("Nothing was found. `familiar history ls` lists all channels.")


@app.command()
def stats(ctx: typer.Context, *, channel: OnlyChannel = None) -> None:
    """Count turns by channel, person and month; tokens are estimated from a sample.

    \b
    familiar history stats
    """
    from familiar_cli.history.statistics import statistics
    from familiar_cli.ui.history_page import stats_page
    from familiar_cli.ui.terminal import print_page

    with familiar_of(ctx) as familiar:
        found = statistics(familiar.history, familiar.counter.count, channel, familiar.kept_private)
        name, zone = familiar.name, familiar.zone
    out = output(ctx)
    out.answer(found, lambda: print_page(stats_page(found, name, zone)) if found.turns else None)
    if not found.turns:
        out.note(_NOTHING)


@app.command()
def export(
    ctx: typer.Context,
    *,
    channel: OnlyChannel = None,
    chat_format: Annotated[
        Literal["sillytavern", "jsonl"], typer.Option("--format", help="File format.")
    ] = "sillytavern",
    out_file: OutFile = None,
    force: Overwrite = False,
) -> None:
    """Export a channel as a chat file. Imported chats are exported as they came in.

    \b
    familiar history export --channel cli --out yuzu.jsonl
    familiar history export --format jsonl > everything.jsonl
    """
    from familiar_cli.bootstrap.export_chat import export_chat
    from familiar_cli.bootstrap.outside import write_lines
    from familiar_cli.ui.emit import exact_lines

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        lines = export_chat(familiar.history, channel, chat_format, familiar_name=familiar.name)
        if out_file is not None:
            count = write_lines(out_file, lines, force=force)
            data = {"format": chat_format, "lines": count, "path": str(out_file)}
            out.answer(data, f"Wrote {out_file} ({count} lines)")
        elif out.as_json:
            listed = list(lines)
            out.answer({"format": chat_format, "lines": len(listed), "text": listed}, "")
        else:
            exact_lines(lines)


def _span(
    familiar: Familiar, channel: str | None, since: str | None, until: str | None
) -> TurnFilter:
    from familiar_cli.history.selection import TurnFilter

    return TurnFilter(channel, moment_of(familiar, since), moment_of(familiar, until))


def _newest(familiar: Familiar, span: TurnFilter, last: int | None) -> list[Kept]:
    """Return the turns that are meant; of the last conversation when none is named."""
    from dataclasses import replace

    from familiar_cli.errors import NotFoundError
    from familiar_cli.history.selection import newest

    timed = span.since is not None or span.until is not None
    if span.channel_id is None and not timed:
        newest_turn = next(iter(newest(familiar.history, span, 1)), None)
        span = replace(span, channel_id=newest_turn.turn.channel_id if newest_turn else None)
    found = newest(familiar.history, span, last or (1000 if timed else 20))
    if not found:
        where = f" in channel {span.channel_id!r}" if span.channel_id else ""
        raise NotFoundError(
            f"There are no turns{where}{' in that time' if timed else ''}",
            hint="Run `familiar history ls`.",
        )
    return found


def _around(familiar: Familiar, turn_id: int) -> list[Kept]:
    from familiar_cli.errors import NotFoundError
    from familiar_cli.history.selection import around

    turn = familiar.history.turn(turn_id)
    if turn is None:
        raise NotFoundError(f"No such turn: {turn_id}", hint="Run `familiar history show`.")
    return around(familiar.history, turn, 3, 3)
