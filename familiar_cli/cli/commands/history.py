"""`familiar history`: parse, call, render."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from msgspec.structs import replace

from familiar_cli.base.errors import NotFoundError, PartialError, UsageError
from familiar_cli.base.text import counted
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.cli.commands import _options
from familiar_cli.cli.commands._base import familiar_of, group, moment_of, output, text_or_stdin
from familiar_cli.pages.emit import Output, exact_lines

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.store.history.selection import SourcedTurn, TurnFilter

app = group("Read, search, count and export past turns.")


_NOTHING = 'There are no turns yet: `familiar ask "Hello"`, or `familiar import-chat FILE`.'


@app.command("list")
def ls(ctx: typer.Context) -> None:
    """List channels, with the number of turns and the time span of each.

    \b
    familiar history list
    """
    from familiar_cli.pages.history_page import channels_page
    from familiar_cli.store.history.statistics import channel_counts

    with familiar_of(ctx) as familiar:
        counts = channel_counts(familiar.history)
        zone, missing = familiar.zone, familiar.missing_turns
    out = output(ctx)
    out.answer({"channels": counts}, channels_page(counts, zone) if counts else None)
    out.warn(*filter(None, [missing]))
    if not (counts or missing):
        out.note(_NOTHING)


@app.command()
def show(
    ctx: typer.Context,
    turn: Annotated[str | None, typer.Argument()] = None,
    *,
    channel: _options.OnlyChannel = None,
    last: Annotated[int | None, typer.Option(min=1)] = None,
    since: _options.SinceTurns = None,
    until: _options.UntilTurns = None,
    everything: Annotated[bool, typer.Option("--all")] = False,
) -> None:
    """Show past turns word for word; by default, the end of the last conversation.

    \b
    familiar history show --channel cli --last 50
    familiar history show --since 7d --until yesterday
    familiar history show 1204
    familiar history show --all

    Args:
        turn ([TURN]): Turn to show, with the turns around it.
        last (N): Show the newest N turns; default: 20.
        everything: Show replaced and withdrawn turns, too.
    """
    from familiar_cli.actions.talk.change_turns import swipes_in
    from familiar_cli.pages.history_page import transcript_data, transcript_page
    from familiar_cli.store.history.lines import origins
    from familiar_cli.store.history.marks import turn_statuses

    with familiar_of(ctx) as familiar:
        span = replace(_span(familiar, channel, since, until), everything=everything)
        chosen = None if turn is None else familiar.turn_number(turn)
        if chosen is None:
            selections = _newest(familiar, span, last)
        else:
            selections = _around(familiar, chosen, everything=everything)
        ids = [selection.turn.id for selection in selections]
        named = familiar.turn_names(ids)
        became, written = turn_statuses(familiar.history, ids), origins(familiar.history, ids)
        swipes = {kept.turn.id: swipes_in(kept) for kept in selections if everything}
        labels, zone = familiar.labels(), familiar.zone
    output(ctx).answer(
        {"turns": transcript_data(selections, became, swipes, written, named)},
        lambda: transcript_page(
            selections, became, labels, zone, chosen=chosen, written=written if everything else {}
        ),
    )


@app.command()
def salvage(
    ctx: typer.Context,
    *,
    dry_run: Annotated[bool, _options.dry_run("what can be read is counted")] = False,
) -> None:
    """Recover what can be read from a damaged history.

    The damaged file is kept beside the new one. Stop `familiar serve` and `familiar daemon` first.
    Search is rebuilt automatically. What is missing is counted by table, and the exit code is 7.
    Turns count as unread again if it is unknown whether the memory writer has read them.

    \b
    familiar history salvage --dry-run
    familiar history salvage
    """
    from familiar_cli.pages.history_page import salvage_page
    from familiar_cli.store.history.salvage import salvage as run_salvage

    with familiar_of(ctx) as familiar:
        result = run_salvage(familiar.paths.history, dry_run=dry_run)
    error = PartialError("Some of the history could not be read", hint="A backup may have it.")
    is_partial = bool(result.missing or result.lost)
    output(ctx).answer(result, salvage_page(result), [error] if is_partial else [])


TurnIds = Annotated[
    list[str],
    typer.Argument(
        metavar="TURN...", help="Turns: numbers, or CHANNEL:NUMBER as a search prints it."
    ),
]


@app.command()
def edit(ctx: typer.Context, turn: str, text: str) -> None:
    """Replace the text of a turn. The old text is kept; `choose` brings it back.

    Memory that was written from the old text is not changed.

    \b
    familiar history edit 1204 "We met in Lisbon."
    familiar history choose 1204

    Args:
        turn (TURN): Turn, by number.
        text (TEXT|-): New text; `-` reads standard input.
    """
    from familiar_cli.actions.talk.change_turns import edit_turn

    with familiar_of(ctx) as familiar:
        old = familiar.turn_number(turn)
        new = edit_turn(familiar, old, text_or_stdin(text).rstrip("\r\n"))
        was_read = _was_read(familiar, [old])
        name = familiar.turn_names([new.id])[new.id]
    output(ctx).answer(
        {"turn": new.id, "id": name, "supersedes": old, "content": new.content},
        f"Turn {new.id} replaces turn {old}",
    )
    _tell_read(output(ctx), was_read=was_read)


@app.command()
def withdraw(ctx: typer.Context, turns: TurnIds) -> None:
    """Leave turns out of prompts, memory and search. They are kept, and `restore` brings them back.

    \b
    familiar history withdraw 1204 1205
    """
    from familiar_cli.store.history.marks import withdraw_turns

    with familiar_of(ctx) as familiar:
        changed = withdraw_turns(familiar.history, list(map(familiar.turn_number, turns)))
        was_read = _was_read(familiar, changed)
    _tell_marked(output(ctx), "withdrawn", changed, "Already withdrawn; nothing was changed")
    _tell_read(output(ctx), was_read=was_read)


@app.command()
def restore(ctx: typer.Context, turns: TurnIds) -> None:
    """Bring withdrawn turns back.

    \b
    familiar history restore 1204 1205
    """
    from familiar_cli.store.history.marks import restore_turns

    with familiar_of(ctx) as familiar:
        changed = restore_turns(familiar.history, list(map(familiar.turn_number, turns)))
    _tell_marked(output(ctx), "restored", changed, "Not withdrawn; nothing was changed")


@app.command()
def choose(ctx: typer.Context, turn: str, *, swipe: int | None = None) -> None:
    """Choose one of several replies, or one version of an edited turn.

    \b
    familiar history show --all
    familiar history choose 1204
    familiar history choose 1204 --swipe 2

    Args:
        turn (TURN): The reply or version to use.
        swipe (N): Swipe N of an imported reply, from 1.
    """
    from familiar_cli.actions.talk.change_turns import choose_swipe
    from familiar_cli.store.history.marks import select_alternative as choose_turn

    with familiar_of(ctx) as familiar:
        chosen = familiar.turn_number(turn)
        if swipe is None:
            replaced = choose_turn(familiar.history, chosen)
        else:
            chosen, replaced = choose_swipe(familiar, chosen, swipe)
        was_read = _was_read(familiar, replaced)
        name = familiar.turn_names([chosen])[chosen]
    output(ctx).answer(
        {"turn": chosen, "id": name, "superseded": list(replaced)},
        f"Turn {chosen} is now the current one"
        if replaced
        else (f"Turn {chosen} is already the current one"),
    )
    _tell_read(output(ctx), was_read=was_read)


def _was_read(familiar: Familiar, turns: Sequence[int]) -> bool:
    """Tell whether memory may be based on replaced or withdrawn turns."""
    from familiar_cli.sync.turns_outgoing import unread_among

    return len(unread_among(familiar.history, turns)) < len(turns)


def _tell_read(out: Output, *, was_read: bool) -> None:
    if was_read:
        out.note("Memory may contain lines based on it: `familiar housekeep withdrawn` finds them.")


def _tell_marked(out: Output, done: str, changed: Sequence[int], nothing: str) -> None:
    listed = ", ".join(map(str, changed))
    text = f"{done.capitalize()}: {'turn' if len(changed) == 1 else 'turns'} {listed}"
    out.answer({done: list(changed)}, text if changed else nothing)


@app.command()
def search(
    ctx: typer.Context,
    query: str,
    *,
    channel: _options.OnlyChannel = None,
    since: _options.SinceTurns = None,
    until: _options.UntilTurns = None,
    k: Annotated[int, _options.most("turns")] = 10,
) -> None:
    """Search turns by words; the best are grouped by day, with the turns around them.

    \b
    familiar history search "the red scarf"
    familiar history search Kazahaya --channel cli --since 30d

    Args:
        query (QUERY): Words to find, in any order.
    """
    from familiar_cli.pages.history_page import found_data, found_page
    from familiar_cli.pages.progress import show_count
    from familiar_cli.store import fts
    from familiar_cli.store.history import recall

    out = output(ctx)
    if not fts.words(query):
        raise UsageError(
            f"No word to search for in {query!r}",
            hint='Search for what was said, e.g. `familiar history search "the red scarf"`.',
        )
    with familiar_of(ctx) as familiar, show_count(out, "adding to the search") as report:
        hits = recall.search(
            familiar.history,
            query,
            _span(familiar, channel, since, until),
            limit=k,
            on_progress=lambda done, whole: report(f"{whole:,} turns", done),
        )
        labels, zone = familiar.labels(), familiar.zone
        named = familiar.turn_names(selection.turn.id for hit in hits for selection in hit.around)
    out.answer(found_data(query, hits, named), lambda: found_page(query, hits, labels, zone))
    if not hits:
        out.note("Nothing was found. `familiar history list` lists all channels.")


@app.command()
def stats(ctx: typer.Context, *, channel: _options.OnlyChannel = None) -> None:
    """Count turns: by channel, person and month; tokens are estimated from a sample.

    \b
    familiar history stats
    """
    from familiar_cli.pages.history_page import stats_page
    from familiar_cli.store.history.statistics import gather_statistics

    with familiar_of(ctx) as familiar:
        found = gather_statistics(
            familiar.history, familiar.counter.count, channel, viewer=OWNER, zone=familiar.zone
        )
        labels, zone = familiar.labels(), familiar.zone
    out = output(ctx)
    out.answer(found, stats_page(found, labels, zone) if found.turns else None)
    if not found.turns:
        out.note(_NOTHING)


@app.command()
def export(
    ctx: typer.Context,
    *,
    channel: _options.OnlyChannel = None,
    chat_format: Annotated[
        Literal["sillytavern", "jsonl"], typer.Option("--format")
    ] = "sillytavern",
    out_file: _options.OutFile = None,
    force: _options.Overwrite = False,
) -> None:
    """Export a channel as a chat file. Imported chats are exported as they were imported.

    \b
    familiar history export --channel cli --out yuzu.jsonl
    familiar history export --format jsonl > everything.jsonl

    Args:
        chat_format: File format.
    """
    from familiar_cli.actions.bring.export import export_chat
    from familiar_cli.imports.foreign_files import write_lines

    out = output(ctx)
    with familiar_of(ctx) as familiar:
        lines = export_chat(
            familiar.history, channel, chat_format, familiar_name=familiar.name, me=familiar.me()
        )
        if out_file is not None:
            count = write_lines(out_file, lines, force=force)
            data = {"format": chat_format, "lines": count, "path": str(out_file)}
            out.answer(data, f"Wrote {out_file} ({counted(count, 'line')})")
        elif out.as_json:
            listed = list(lines)
            out.answer({"format": chat_format, "lines": len(listed), "text": listed}, "")
        else:
            exact_lines(lines)


def _span(
    familiar: Familiar, channel: str | None, since: str | None, until: str | None
) -> TurnFilter:
    from familiar_cli.store.history.selection import TurnFilter

    return TurnFilter(OWNER, channel, moment_of(familiar, since), moment_of(familiar, until))


def _newest(familiar: Familiar, span: TurnFilter, last: int | None) -> list[SourcedTurn]:
    """Return the selected turns; by default those of the last conversation."""
    from familiar_cli.store.history.selection import newest_turns

    timed = span.since is not None or span.until is not None
    if span.channel_id is None and not timed:
        newest_turn = next(iter(newest_turns(familiar.history, span, 1)), None)
        span = replace(span, channel_id=newest_turn.turn.channel_id if newest_turn else None)
    selections = newest_turns(familiar.history, span, last or (1000 if timed else 20))
    if not selections:
        where = f" in channel {span.channel_id!r}" if span.channel_id else ""
        raise NotFoundError(
            f"There are no turns{where}{' in that time' if timed else ''}",
            hint=familiar.missing_turns or "Run `familiar history list`.",
        )
    return selections


def _around(familiar: Familiar, turn_id: int, *, everything: bool) -> list[SourcedTurn]:
    from familiar_cli.store.history.selection import turns_around

    turn = familiar.history.turn(turn_id)
    if turn is None:
        raise NotFoundError(f"No such turn: {turn_id}", hint="Run `familiar history show`.")
    return turns_around(familiar.history, turn, 3, 3, viewer=OWNER, everything=everything)
