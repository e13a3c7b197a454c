"""The pages of the memory's past: changes, differences, who wrote which line, what was undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from familiar_cli.memory.journal.history import SHORT
from familiar_cli.text import one_line
from familiar_cli.ui.memory_page import applied_text, size_text
from familiar_cli.ui.terminal import local

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import tzinfo

    from rich.console import RenderableType

    from familiar_cli.history.types import Turn
    from familiar_cli.memory.journal.blame import BlamedLine
    from familiar_cli.memory.journal.commits import Commit
    from familiar_cli.memory.journal.compact import Compacted
    from familiar_cli.memory.journal.diff import FileDiff
    from familiar_cli.memory.journal.history import LoggedChange
    from familiar_cli.memory.journal.past import Difference
    from familiar_cli.memory.journal.undo import Undone

_SAID_CHARS = 160
_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def commit_data(commit: Commit) -> dict[str, Any]:
    """Return a commit as `--json` shows it."""
    return {
        "id": commit.id,
        "time": commit.time,
        "source": commit.source,
        "message": commit.message,
        "run_id": commit.run_id,
    }


def change_data(change: LoggedChange) -> dict[str, Any]:
    """Return a commit and what it changed as `--json` shows it."""
    return {
        **commit_data(change.commit),
        "paths": [touched.rel_path for touched in change.touched],
        "touched": change.touched,
        "run": change.commit.run,
        "lengths": change.commit.lengths,
    }


def log_page(changes: Iterable[LoggedChange], zone: tzinfo | None) -> RenderableType:
    """Return changes as a table: id, time, source, message."""
    from familiar_cli.ui.terminal import columns, plain

    return columns(
        [
            plain(change.commit.id[:SHORT], "yellow"),
            plain(local(change.commit.time, zone), "dim"),
            plain(change.commit.source, "bold"),
            plain(change.commit.message),
        ]
        for change in changes
    )


def head_text(change: LoggedChange, zone: tzinfo | None) -> str:
    """Return what is known of one change, above its differences."""
    commit = change.commit
    lines = [
        f"commit  {commit.id}",
        f"source  {commit.source}",
        f"time    {local(commit.time, zone, seconds=True)}",
        *([f"run     {commit.run_id}"] if commit.run_id else []),
        *(f"undoes  {id_[:SHORT]}" for id_ in commit.undoes),
        "",
        f"    {commit.message}",
        "",
    ]
    return "".join(f"{line}\n" for line in lines)


def range_text(difference: Difference) -> str:
    """Return which states are compared."""
    old = difference.old
    return f"{old.id[:SHORT] if old else 'nothing'}..{difference.new.id[:SHORT]}"


def diff_text(files: Iterable[FileDiff]) -> str:
    """Return differences as other programs read them."""
    return "".join(file.diff for file in files)


def diff_page(text: str) -> RenderableType:
    """Return the same with colours."""
    from rich.console import Group

    from familiar_cli.ui.terminal import plain

    return Group(*(plain(line, _STYLES.get(line[:1], "")) for line in text.splitlines()))


def blame_text(
    lines: Sequence[BlamedLine],
    zone: tzinfo | None,
    said: Mapping[int, Sequence[Turn]] | None = None,
) -> str:
    """Return each line behind the commit, time and source that wrote it.

    Args:
        lines: The lines of a file.
        zone: The timezone of the times shown.
        said: Turns to show below a line, by its number.
    """
    width = max((len(line.commit.source) for line in lines), default=0)
    return "".join(
        f"{line.commit.id[:SHORT]}  {local(line.commit.time, zone)}  {line.commit.source:<{width}}"
        f"  {line.line:>{len(str(len(lines)))}}  {line.text}\n"
        + "".join(map(_said, (said or {}).get(line.line, ())))
        for line in lines
    )


def _said(turn: Turn) -> str:
    who = turn.author.label if turn.author else turn.role
    return f"    {one_line(f'[{turn.id}] {who}: {turn.content}', _SAID_CHARS)}\n"


def undone_text(undone: Undone, *, dry_run: bool) -> str:
    """Return what taking a change back did, one line for each file; below them how, if it would."""
    if not undone.changes:
        return f"nothing to do: {undone.commit.id[:SHORT]} is no longer in effect\n"
    diff = diff_text(undone.files) if dry_run else ""
    return applied_text(undone.result, dry_run=dry_run) + diff


def undone_data(undone: Undone, *, dry_run: bool) -> dict[str, Any]:
    """Return the same as `--json` shows it."""
    from dataclasses import asdict

    return {
        "commit": commit_data(undone.commit),
        "commits": [commit_data(commit) for commit in undone.commits],
        "files": undone.files,
        **asdict(undone.result),
        "dry_run": dry_run,
    }


def compacted_text(done: Compacted) -> str:
    """Return what packing did."""
    if not done.objects:
        return "the journal is already packed\n"
    if done.bytes_after is None:
        return f"would pack {done.objects:,} objects, {size_text(done.bytes_before)} on disk\n"
    sizes = f"{size_text(done.bytes_before)} -> {size_text(done.bytes_after)}"
    return f"packed {done.objects:,} objects, {sizes} on disk\n"
