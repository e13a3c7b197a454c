"""The state of a familiar in numbers; no model is asked and no file is created."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Struct

from familiar_cli.actions.memory.audience import Audience, survey_audience
from familiar_cli.base.config.home import FamiliarPaths, chosen_familiar, list_familiars
from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.files import is_plain
from familiar_cli.base.times.clock import iso
from familiar_cli.familiar import Familiar
from familiar_cli.store.history import WRITER
from familiar_cli.store.history.schema import damage_notice
from familiar_cli.store.history.store import HistoryStore
from familiar_cli.store.memory.layout import REMINDERS, TASKS
from familiar_cli.store.passes import WRITING, PassFailure, summary_name

if TYPE_CHECKING:
    from familiar_cli.store.history.rows import Turn
    from familiar_cli.store.memory.merge.files import Conflict
    from familiar_cli.store.memory.store.files import FileListing
    from familiar_cli.writing.consolidation.calendar import Rewritten

T = TypeVar("T")


class LastTurn(Struct, frozen=True):
    """The latest turn of any channel, without its text; `name` is its speaker's.

    Args:
        failed: Why the model gave no reply to it; empty if it did, or was not asked.
    """

    id: int
    at: str
    channel: str
    role: str
    author: str | None
    partial: bool
    name: str = ""
    failed: str = ""


class SummaryStatus(Struct, frozen=True):
    """The state of the rolling summary.

    Args:
        last_turn: The last turn it covers, if any.
        behind: Number of turns it should cover but does not.
        cut: It exceeded its limit and was truncated.
        failed: Error of the last update; empty on success.
        failed_at: Time of that error.
        private: Number of private channels with a summary of their own.
    """

    last_turn: int | None = None
    behind: int = 0
    cut: bool = False
    failed: str = ""
    failed_at: str | None = None
    private: int = 0


class WrittenStatus(Struct, frozen=True):
    """How much of the history has been written to memory.

    Args:
        last_turn: The last turn covered by a pass, if any.
    """

    last_turn: int | None = None
    at: str | None = None


class CostStatus(Struct, frozen=True):
    """Token costs of a background pass, in total and per hundred turns.

    Args:
        command: The pass.
        since: Start of the count.
        calls: Number of answered requests.
        tokens_read: Tokens of all prompts.
        tokens_written: Tokens of all replies.
        read_per_100_turns: Tokens read per hundred turns written to memory; None without any.
        written_per_100_turns: Tokens written, likewise.
    """

    command: str
    since: str
    calls: int
    tokens_read: int
    tokens_written: int
    read_per_100_turns: int | None = None
    written_per_100_turns: int | None = None


class DeskStatus(Struct, frozen=True):
    """Reminders, tasks and conflicts.

    Args:
        due: Due reminders, described.
        reminders: Number of open reminders.
        tasks: Number of open tasks.
        conflicts: Files with versions from two machines.
        problem: Why a list could not be read; empty otherwise.
    """

    due: tuple[str, ...] = ()
    reminders: int = 0
    tasks: int = 0
    conflicts: tuple[str, ...] = ()
    problem: str = ""


class FamiliarStatus(Struct, frozen=True):
    """The state of one familiar.

    Args:
        familiar: Its id.
        name: The name in its settings, or an empty string.
        preset: Preset of its model server.
        model: The model's name.
        memory_files: Number of memory files.
        skipped: Number of unusable entries in its memory.
        turns: Number of turns in its history.
        unsummarised_turns: Number of turns that the memory writer has not read.
        unindexed_files: Number of Markdown files that are not indexed.
        last_turn: The newest turn.
        written: How much has been written to memory.
        failures: Background passes that failed and have not succeeded since.
        summary: The state of the rolling summary.
        desk: Reminders, tasks and conflicts.
        imported_turns: Number of unread turns that were imported, and wait for a person.
        rewritten: Weeks, months and years that a person rewrote, so that they are not made again.
        language: Code of its language; empty if unknown.
        language_is_set: It is configured, not detected.
        plans: Number of pending plans.
        turns_in_review: Number of turns that they rest on.
        costs: Costs of each background pass.
        turns_without_vector: Number of turns that lack a vector, if there is a model.
        problems: What was cut off, or is damaged, with the command that helps.
        audience: Pages that others may hear, and those withheld from them, since others spoke.
    """

    familiar: str
    name: str
    root: str
    home: str
    preset: str
    model: str
    memory_files: int
    skipped: int
    turns: int
    unsummarised_turns: int
    unindexed_files: int
    last_turn: LastTurn | None
    written: WrittenStatus = WrittenStatus()
    failures: tuple[PassFailure, ...] = ()
    summary: SummaryStatus = SummaryStatus()
    desk: DeskStatus = DeskStatus()
    imported_turns: int = 0
    rewritten: tuple[Rewritten, ...] = ()
    language: str = ""
    language_is_set: bool = False
    plans: int = 0
    turns_in_review: int = 0
    turns_without_vector: int = 0
    costs: tuple[CostStatus, ...] = ()
    problems: tuple[str, ...] = ()
    audience: Audience = Audience()


class StatusCounts(Struct, frozen=True):
    """The state of a familiar that is found without reading its files; see `FamiliarStatus`."""

    memory_files: int
    skipped: int
    turns: int
    unsummarised_turns: int
    failures: tuple[PassFailure, ...]
    desk: DeskStatus


class ListedFamiliar(Struct, frozen=True):
    """A familiar in the list of all; `problem` says why its numbers may be missing."""

    id: str
    name: str
    turns: int
    memory_files: int
    chosen: bool
    problem: str = ""


def counts_of(familiar: Familiar) -> StatusCounts:
    """Return the counts of `familiar` that are fast enough for a page."""
    walk, past = familiar.memory.walk(missing_ok=True), _history_of(familiar.paths.history)
    return StatusCounts(
        len(walk.files),
        len(walk.skipped),
        past.turns,
        past.unwritten,
        familiar.failures.all(),
        _desk_of(familiar),
    )


def status_of(familiar: Familiar) -> FamiliarStatus:
    """Return the state of `familiar`.

    Raises:
        ConfigError: Its settings are invalid.
    """
    from familiar_cli.llm.slots import resolve_slot
    from familiar_cli.writing.consolidation.calendar import rewritten_files
    from familiar_cli.writing.pending import turns_in_review

    slot, walk = resolve_slot(familiar.config.llm), familiar.memory.walk(missing_ok=True)
    past = _history_of(familiar.paths.history)
    return FamiliarStatus(
        familiar=familiar.paths.id,
        name=familiar.config.name,
        root=str(familiar.paths.root),
        home=str(familiar.paths.root.parent),
        preset=slot.preset,
        model=slot.model,
        memory_files=len(walk.files),
        skipped=len(walk.skipped),
        turns=past.turns,
        unsummarised_turns=past.unwritten,
        unindexed_files=_count_unindexed(familiar, walk),
        last_turn=_last_turn(familiar, past.last),
        written=past.written,
        failures=familiar.failures.all(),
        summary=_summary_of(familiar),
        desk=_desk_of(familiar),
        imported_turns=past.imported,
        rewritten=_or_else((), lambda: rewritten_files(familiar.memory, familiar.paths.journal)),
        language=_or_else("", lambda: familiar.language),
        language_is_set=familiar.config.language != "auto",
        plans=len(familiar.memory.plan_ids()),
        turns_in_review=turns_in_review(familiar.memory),
        costs=_costs_of(familiar),
        turns_without_vector=_count_without_vector(familiar) if past.turns else 0,
        problems=tuple(problems_of(familiar)),
        audience=_or_else(Audience(), lambda: survey_audience(familiar)),
    )


_CHECK_S: Final = 2.0  # at most, for a look at a history of gigabytes


def problems_of(familiar: Familiar) -> Iterator[str]:
    """Yield unfinished work and damage, each with what helps."""
    paths = familiar.paths
    if damage := damage_notice(paths.history, _CHECK_S):
        yield damage
    elif missing := _or_else("", lambda: familiar.missing_turns):
        yield missing
    if is_plain(paths.forgetting):
        yield (
            "`people forget` was interrupted: the next command that opens the familiar completes "
            "it, or says what prevents that"
        )


def _or_else(default: T, read: Callable[[], T]) -> T:
    """Return a part of the state, or `default` where `familiar doctor` reports an error."""
    try:
        return read()
    except FamiliarError:
        return default


def _costs_of(familiar: Familiar) -> tuple[CostStatus, ...]:
    """Return the costs of each pass, for the turns read by the memory writer."""
    costs, turns = familiar.costs.all(), familiar.costs.of(WRITING).turns
    return tuple(
        CostStatus(
            one.name,
            one.since,
            one.calls,
            one.tokens_read,
            one.tokens_written,
            round(100 * one.tokens_read / turns) if turns else None,
            round(100 * one.tokens_written / turns) if turns else None,
        )
        for one in costs
        if one.calls
    )


def _count_without_vector(familiar: Familiar) -> int:
    try:
        return _or_else(0, familiar.finder.turns_without_vector)
    finally:
        familiar.history.close()


def _desk_of(familiar: Familiar) -> DeskStatus:
    from familiar_cli.actions.memory.desk import read_todos
    from familiar_cli.store.memory.merge.files import conflicts_in

    found: Sequence[Conflict] = _or_else((), lambda: tuple(conflicts_in(familiar.memory)))
    conflicts = tuple(dict.fromkeys(one.path for one in found))
    try:
        reminders, tasks = (read_todos(familiar, one).items for one in (REMINDERS, TASKS))
    except FamiliarError as error:
        return DeskStatus(conflicts=conflicts, problem=str(error))
    return DeskStatus(
        conflicts=conflicts,
        due=tuple(item.text for item in reminders if item.is_due),
        reminders=sum(item.mark == "open" for item in reminders),
        tasks=sum(item.mark == "open" for item in tasks),
    )


def _count_unindexed(familiar: Familiar, walk: FileListing) -> int:
    """Count the files whose current version is not indexed."""
    index = _or_else(None, familiar.index.status)
    if index is not None and index.exists:
        return index.stale_files
    return sum(entry.rel_path.endswith(".md") for entry in walk.files)


def list_of(home: Path) -> list[ListedFamiliar]:
    """List the familiars in `home`, sorted by id; a broken one has a problem."""
    choice, names = chosen_familiar(home), list_familiars(home)
    return [_list_familiar(FamiliarPaths(home / name), choice == name) for name in names]


def _list_familiar(paths: FamiliarPaths, chosen: bool) -> ListedFamiliar:  # noqa: FBT001
    familiar = Familiar(paths)
    try:
        turns = _history_of(paths.history).turns
        files = len(familiar.memory.walk(missing_ok=True).files)
        return ListedFamiliar(paths.id, familiar.config.name, turns, files, chosen)
    except FamiliarError as error:
        return ListedFamiliar(paths.id, "", 0, 0, chosen, str(error))


class _Past(Struct, frozen=True):
    turns: int = 0
    unwritten: int = 0
    imported: int = 0
    last: Turn | None = None
    written: WrittenStatus = WrittenStatus()


def _history_of(path: Path) -> _Past:
    """Summarise a history and how much of it was written to memory; creates no file."""
    if not is_plain(path):
        return _Past()
    from familiar_cli.sync.turns_outgoing import SAID_HERE, count_unread_turns

    with closing(HistoryStore(path)) as store:
        mark = store.watermark(WRITER)
        turn = store.turn(mark)
        status = WrittenStatus(mark or None, iso(turn.at) if turn else None)
        waiting = count_unread_turns(store)
        imported = waiting - count_unread_turns(store, SAID_HERE)
        return _Past(store.count(), waiting, imported, store.latest_turn(), status)


def _summary_of(familiar: Familiar) -> SummaryStatus:
    """Return the state of the summaries, including failed private ones. Creates no file."""
    if not is_plain(familiar.paths.history):
        return SummaryStatus()
    from familiar_cli.store.history.summaries import OWN, PUBLIC

    summaries, rules = familiar.summaries, familiar.privacy.rules()
    try:
        others = (s for s in summaries.scopes() if s != PUBLIC)
        scopes = [PUBLIC, *(s for s in others if summaries.scope_of(s, rules) == s)]
        newest = {scope: summaries.latest(scope, rules) for scope in scopes}
        behind = 0
        for scope, summary in newest.items():
            last_id = summary.last_turn_id if summary else 0
            behind += summaries.count(scope, last_id, summaries.wanted(scope), -1, rules)
    finally:
        familiar.history.close()
    own = (found.last_turn_id for found in (newest[PUBLIC], newest.get(OWN)) if found)
    failures = (familiar.failures.of(summary_name(scope)) for scope in scopes)
    failed = next((failure for failure in failures if failure), None)
    return SummaryStatus(
        last_turn=max(own, default=None),
        behind=behind,
        cut=any(found.cut for found in newest.values() if found),
        failed=failed.message if failed else "",
        failed_at=failed.at if failed else None,
        private=sum(
            scope in rules.private_channels and found is not None for scope, found in newest.items()
        ),
    )


def _last_turn(familiar: Familiar, turn: Turn | None) -> LastTurn | None:
    if turn is None:
        return None
    author, name = (turn.author.slug if turn.author else None), familiar.name
    if turn.author:
        name = familiar.labels([turn.author], turn.channel_id).of(turn.author)
    failed = "" if turn.role == "assistant" else _error_of(familiar, turn.id)
    at, place = iso(turn.at), turn.channel_id
    return LastTurn(turn.id, at, place, turn.role, author, turn.partial, name, failed)


def _error_of(familiar: Familiar, turn_id: int) -> str:
    """Return why a turn has no reply; empty if no model was asked for one."""
    from familiar_cli.context.trace import read_trace

    trace = _or_else(None, lambda: read_trace(familiar.paths.traces, turn_id))
    return (trace.error or "it was interrupted, or is still being written") if trace else ""
