"""The pages of `familiar status` and `familiar list`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.ui.terminal import columns, local, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from rich.console import RenderableType

    from familiar_cli.actions.status import (
        DeskStatus,
        FamiliarStatus,
        ListedFamiliar,
        SummaryStatus,
    )
    from familiar_cli.passes.failures import PassFailure

MOST_DUE = 5  # reminders, or files in conflict, that a status names


def status_page(status: FamiliarStatus, zone: tzinfo | None = None) -> RenderableType:
    """Return how one familiar is, in its timezone; what is empty says what to do next."""
    return columns([[plain(name, "dim"), plain(value)] for name, value in _lines(status, zone)])


def list_page(rows: Sequence[ListedFamiliar]) -> RenderableType:
    """Return the familiars as a table; `*` marks the one that commands mean."""
    body = [
        [
            plain("*" if row.chosen else " "),
            plain(row.id, "bold" if row.chosen else ""),
            plain(row.name),
            plain("?" if row.problem else row.turns),
            plain("?" if row.problem else row.memory_files),
        ]
        for row in rows
    ]
    return columns(body, ("", "id", "name", "turns", "files"), right=(3, 4))


def _lines(status: FamiliarStatus, zone: tzinfo | None) -> Iterator[tuple[str, str]]:
    name = f" ({status.name})" if status.name else ""
    yield "familiar", status.familiar + name
    yield "directory", status.root
    model = status.model or "none chosen: `familiar config set llm.model NAME`"
    yield "model", f"{model}, preset {status.preset}"
    if status.language:
        how = "as set" if status.language_is_set else "by its turns and character"
        yield "language", f"{status.language}, {how}"
    yield "memory", _memory(status)
    yield "turns", _turns(status, zone)
    if status.turns:
        yield "written", _written(status, zone)
        yield "summary", _summary(status.summary, zone)
    for failure in status.failures:
        yield "failed", _failed(failure, zone)
    if status.rewritten:
        from familiar_cli.ui.consolidation_page import yours_told

        yield from (("yours", line) for line in yours_told(status.rewritten, zone))
    desk = status.desk
    if desk.reminders or desk.problem:
        yield "reminders", _reminders(desk)
    if desk.tasks:
        yield "tasks", f"{desk.tasks} open"
    if desk.conflicts:
        yield "conflicts", _conflicts(desk.conflicts)
    if status.unindexed_files:
        yield "unindexed", f"{status.unindexed_files} files"


def _reminders(desk: DeskStatus) -> str:
    if desk.problem:
        return desk.problem
    if not desk.due:
        return f"{desk.reminders} open, none due"
    more = f" and {len(desk.due) - MOST_DUE} more" if len(desk.due) > MOST_DUE else ""
    return f"{len(desk.due)} due: {'; '.join(desk.due[:MOST_DUE])}{more}"


def _conflicts(paths: tuple[str, ...]) -> str:
    more = f" and {len(paths) - MOST_DUE} more" if len(paths) > MOST_DUE else ""
    shown = ", ".join(paths[:MOST_DUE])
    return f"two versions each of {shown}{more}: `familiar sync resolve`"


def _written(status: FamiliarStatus, zone: tzinfo | None) -> str:
    done, imported = status.written, status.imported_turns
    here = status.unsummarised_turns - imported
    at = f", said at {local(done.at, zone)}" if done.at else ""
    reaches = f"up to turn {done.last_turn:,}{at}" if done.last_turn else "nothing yet"
    kinds = ((here, "turn"), (imported, "imported turn"))
    wait = [f"{n:,} {kind}{'s wait' if n > 1 else ' waits'}" for n, kind in kinds if n]
    more = f"; {', '.join(wait)}: `familiar write-memory`" if wait else ""
    return reaches + more


def _failed(failure: PassFailure, zone: tzinfo | None) -> str:
    """Return what failed, when, why, what mends it, and what tries it again."""
    hint = failure.hint
    again = "" if "again" in hint else "Then run it again." if hint else "Run it again."
    mend = " ".join(part for part in (hint, again) if part)
    times = f", {failure.attempts} times in a row" if failure.attempts > 1 else ""
    at = local(failure.at, zone)
    return f"`{failure.command}` at {at}{times}: {failure.message}. {mend}"


def _summary(summary: SummaryStatus, zone: tzinfo | None) -> str:
    reaches = f"up to turn {summary.last_turn}" if summary.last_turn else "none yet"
    parts = [reaches]
    if summary.behind:
        parts.append(f"{summary.behind} turns behind")
    if summary.cut:
        parts.append("it was too long and was cut off")
    if summary.failed:
        parts.append(f"failed at {local(summary.failed_at, zone)}: {summary.failed}")
    if summary.private:
        parts.append(f"{summary.private} of private channels in addition")
    return "; ".join(parts)


def _memory(status: FamiliarStatus) -> str:
    if not status.memory_files:
        return "no files yet: `familiar memory write notes.md TEXT`"
    skipped = f", {status.skipped} skipped: `familiar doctor`" if status.skipped else ""
    return f"{status.memory_files} file{'s' if status.memory_files > 1 else ''}{skipped}"


def _turns(status: FamiliarStatus, zone: tzinfo | None) -> str:
    last = status.last_turn
    if last is None:
        return 'no turns yet: `familiar ask "Hello"`'
    broken = ", interrupted" if last.partial else ""
    who = last.author or status.name or status.familiar
    at = local(last.at, zone)
    return f"{status.turns:,}, the last by {who} in {last.channel} at {at}{broken}"
