"""Memory and prompt as they were on a day, from the journal and the history."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from familiar_cli.clock import to_utc, to_zone
from familiar_cli.errors import FamiliarError, NotFoundError, UsageError

if TYPE_CHECKING:
    from datetime import date

    from familiar_cli.context.trace import Trace
    from familiar_cli.familiar import Familiar
    from familiar_cli.history.rows import Turn
    from familiar_cli.memory.journal.days import JournalDay, JournalDays

_MOST_FILES: Final = 5_000  # a memory is written anew for the prompt of a day


@dataclass(frozen=True, slots=True)
class AsOf:
    """A day.

    Args:
        day: Which.
        state: The last day up to it on which memory changed; None: there was none yet.
        days: All days on which memory changed, the oldest first.
        files: How many files there were.
        since: The state that it is compared with; None: the empty memory.
        changed: The files that differ from that.
        last_turn: The last turn that was said up to the end of the day.
        trace: What was sent for the last prompt up to then; None: none is kept.
    """

    day: date
    state: JournalDay | None
    days: tuple[JournalDay, ...]
    files: int
    since: JournalDay | None
    changed: tuple[str, ...]
    last_turn: Turn | None
    trace: Trace | None


def as_of(familiar: Familiar, day: date, since: date | None = None) -> AsOf:
    """Return the memory of a day, beside that of an earlier one.

    Args:
        familiar: Whose.
        day: Which day; its end counts.
        since: The day to compare with; None: the one before.
    """
    days = familiar.journal_days
    known, state = tuple(days.all()), days.at(day)
    old = days.at(since if since is not None else day - timedelta(days=1))
    changed: tuple[str, ...] = ()
    if state:
        differ = days.changed(old.commit if old else None, state.commit)
        changed = tuple(path for path in differ if not is_hidden(path))
    files = days.every_file(state.commit) if state else []
    trace = _last_trace(familiar, end_of(familiar, day))
    turn = familiar.history.turn(trace.turn) if trace and trace.turn else None
    count = sum(not is_hidden(path) for path, _ in files)
    return AsOf(day, state, known, count, old, changed, turn, trace)


def is_hidden(rel_path: str) -> bool:
    """Tell whether a file is the program's own, and no memory."""
    return rel_path.startswith(".") or "/." in rel_path


def end_of(familiar: Familiar, day: date) -> datetime:
    """Return when a day ended where the familiar lives."""
    return to_utc(datetime.combine(day + timedelta(days=1), time()), familiar.zone)


def today(familiar: Familiar) -> date:
    """Return which day it is where the familiar lives."""
    from familiar_cli.clock import now

    return to_zone(now(), familiar.zone).date()


def _last_trace(familiar: Familiar, end: datetime) -> Trace | None:
    """Return the last prompt before a moment; prompts are numbered in the order of their making."""
    from familiar_cli.context.trace import read_trace, trace_ids

    ids = sorted(trace_ids(familiar.paths.traces))
    low, high, found = 0, len(ids), None
    while low < high:
        middle = (low + high) // 2
        try:
            trace = read_trace(familiar.paths.traces, ids[middle])
        except FamiliarError:
            del ids[middle]
            high -= 1
            continue
        if trace.at < end:
            low, found = middle + 1, trace
        else:
            high = middle
    return found


async def prompt_then(familiar: Familiar, day: date, text: str, channel_id: str = "cli") -> Trace:
    """Return the prompt that `text` would have led to at the end of a day.

    Memory is that of the day, and only turns up to it are history; settings are those of now.
    Nothing is asked and nothing is kept.

    Raises:
        NotFoundError: There was no memory yet.
        UsageError: Nothing is said, or the memory was too large to write it anew.
    """
    from familiar_cli.config.home import FamiliarPaths
    from familiar_cli.familiar import Familiar as Anew

    if not text.strip():
        raise UsageError("The message is empty, so there is no prompt to build")
    days = familiar.journal_days
    state = days.at(day)
    if state is None:
        raise NotFoundError(f"There was no memory yet on {day}")
    there = days.every_file(state.commit)
    if len(there) > _MOST_FILES:
        raise UsageError(
            f"The memory of {day} has {len(there):,} files; a past prompt can be built from at "
            f"most {_MOST_FILES:,}"
        )
    with tempfile.TemporaryDirectory(prefix="familiar-as-of-") as directory:
        root = Path(directory) / familiar.paths.id
        _lay_out(familiar, days, there, root)
        then = Anew(FamiliarPaths(root))
        then.__dict__["history"] = familiar.history
        then.__dict__["embedder"] = familiar.embedder
        then.index.refresh()
        return await _assemble(then, end_of(familiar, day), text, channel_id)


def _lay_out(
    familiar: Familiar, days: JournalDays, there: list[tuple[str, str]], root: Path
) -> None:
    """Write the memory of a day, and the settings of now, into a directory that goes again."""
    import shutil

    for rel_path, object_id in there:
        path = root / "memory" / rel_path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(days.blob(object_id))
    (root / "memory").mkdir(parents=True, exist_ok=True)
    for source, target in (
        (familiar.paths.config, root / "character.toml"),
        (familiar.paths.me, root.parent / "me.toml"),
    ):
        if source.is_file():
            shutil.copyfile(source, target)
    if familiar.paths.channels.is_dir():
        shutil.copytree(familiar.paths.channels, root / "channels")


async def _assemble(then: Familiar, end: datetime, text: str, channel_id: str) -> Trace:
    from familiar_cli.actions.prompt import pipeline, turn_setup
    from familiar_cli.context.turn import dry_run, request_for
    from familiar_cli.context.types import Said
    from familiar_cli.history.rows import Turn

    before = then.history.first_since(end)
    after = (
        Turn(before, channel_id, None, "assistant", "", end, "text", "cli", partial=False)
        if before
        else None
    )
    said = Said(text, then.me(channel_id).author, channel_id, instead_of=after)
    setup = turn_setup(then, channel_id)
    request = request_for(
        said,
        familiar_id=then.paths.id,
        allowance=setup.allowance,
        history=then.history,
        viewer=then.privacy.viewer_in(channel_id, said.author),
        opening=lambda *_: "",
        at=end - timedelta(seconds=1),
        name=setup.char,
        tier=setup.channel.tier,
        me=then.me_in(setup.channel),
        phrases=then.phrases,
    )
    assembled = await pipeline(then, setup, dry=True).assemble(request)
    return dry_run(assembled, model=then.slot().model, counter=then.counter.name)
