"""How a familiar is, in numbers; no model is asked and nothing is created."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from familiar_cli.config.home import FamiliarPaths, chosen_familiar, list_familiars
from familiar_cli.errors import FamiliarError, NotFoundError
from familiar_cli.familiar import Familiar
from familiar_cli.files import is_plain
from familiar_cli.memory.store.files import FileListing

if TYPE_CHECKING:
    from pathlib import Path

    from familiar_cli.consolidation.calendar import Rewritten
    from familiar_cli.history.rows import Turn
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.work.passes import PassFailure


@dataclass(frozen=True, slots=True)
class LastTurn:
    """The newest turn of any channel, without its words."""

    id: int
    at: str
    channel: str
    role: str
    author: str | None
    partial: bool


@dataclass(frozen=True, slots=True)
class SummaryStatus:
    """How far the rolling summary of what was said reaches.

    Args:
        last_turn: The last turn that it covers; None: there is none yet.
        behind: How many turns it should cover besides.
        cut: It was longer than it may be, and lost its end.
        failed: Why the last attempt to bring it forward failed; empty when it did not.
        failed_at: When that was.
        private: How many private channels have a summary of their own.
    """

    last_turn: int | None = None
    behind: int = 0
    cut: bool = False
    failed: str = ""
    failed_at: str | None = None
    private: int = 0


@dataclass(frozen=True, slots=True)
class WrittenStatus:
    """How far memory has been written of what was said.

    Args:
        last_turn: The last turn that a pass has covered; None: none has.
        at: When that was said.
    """

    last_turn: int | None = None
    at: str | None = None


@dataclass(frozen=True, slots=True)
class CostStatus:
    """What the requests of a background pass cost, in all and for each hundred turns.

    Args:
        command: The pass.
        since: When the count began.
        calls: How many requests were answered.
        tokens_read: Tokens of all prompts.
        tokens_written: Tokens of all replies.
        read_per_100_turns: Tokens read for a hundred turns that memory was written from; None:
            none was.
        written_per_100_turns: Tokens written for them.
    """

    command: str
    since: str
    calls: int
    tokens_read: int
    tokens_written: int
    read_per_100_turns: int | None = None
    written_per_100_turns: int | None = None


@dataclass(frozen=True, slots=True)
class DeskStatus:
    """What lies on the desk.

    Args:
        due: The reminders that are due, in words.
        reminders: How many are open.
        tasks: How many are open.
        conflicts: The files of which two machines have two versions.
        problem: Why a list could not be read; empty when both could.
    """

    due: tuple[str, ...] = ()
    reminders: int = 0
    tasks: int = 0
    conflicts: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class FamiliarStatus:
    """How one familiar is.

    Args:
        familiar: Its id.
        name: The name in its settings, or an empty string.
        root: Its directory.
        home: Where it lives.
        preset: The kind of server that speaks for it.
        model: The model's name there.
        memory_files: How many files its memory has.
        skipped: How many entries of its memory could not be used.
        turns: How many turns its history has.
        unsummarised_turns: How many of them the memory writer has not read yet.
        unindexed_files: How many Markdown files are not in an index.
        last_turn: The newest turn.
        written: How far memory has been written.
        failures: What should have kept memory, failed, and has not succeeded since.
        summary: How far the rolling summary reaches.
        desk: What lies on the desk.
        imported_turns: How many of the unsummarised turns were imported, and wait for a person.
        rewritten: Weeks, months and years that a person rewrote, so that they are not made again.
        language: The code of its language; empty: it cannot be told.
        language_is_set: It is set, and not found by what was said.
        plans: How many plans wait for a person.
        turns_in_review: How many turns they rest on.
        costs: What each background pass costs.
        turns_without_vector: How many turns cannot be found by meaning yet, where a model could.
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


@dataclass(frozen=True, slots=True)
class ListedFamiliar:
    """One familiar in the list of all; `problem` says why its numbers may be missing."""

    id: str
    name: str
    turns: int
    memory_files: int
    chosen: bool
    problem: str = ""


def status_of(familiar: Familiar) -> FamiliarStatus:
    """Return how `familiar` is.

    Raises:
        ConfigError: Its settings are wrong.
    """
    from familiar_cli.llm.slots import resolve_slot
    from familiar_cli.review.pending import pending_ids, turns_in_review

    slot, walk = resolve_slot(familiar.config.llm), walk_of(familiar.memory)
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
        last_turn=_last_turn(past.last),
        written=past.written,
        failures=familiar.failures.all(),
        summary=_summary_of(familiar),
        desk=_desk_of(familiar),
        imported_turns=past.imported,
        rewritten=_find_rewritten(familiar),
        language=_language_of(familiar),
        language_is_set=familiar.config.language != "auto",
        plans=len(pending_ids(familiar.memory)),
        turns_in_review=turns_in_review(familiar.memory),
        costs=_costs_of(familiar),
        turns_without_vector=_count_without_vector(familiar) if past.turns else 0,
    )


def _costs_of(familiar: Familiar) -> tuple[CostStatus, ...]:
    """Return the cost of each pass, for the turns that the memory writer went through."""
    from familiar_cli.work.passes import WRITING

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
        return familiar.finder.turns_without_vector()
    except FamiliarError:
        return 0  # `familiar doctor` says what is wrong with the model or the vectors
    finally:
        familiar.history.close()


def _find_rewritten(familiar: Familiar) -> tuple[Rewritten, ...]:
    from familiar_cli.consolidation.calendar import rewritten_files

    try:
        return rewritten_files(familiar.memory, familiar.paths.journal)
    except FamiliarError:
        return ()  # `familiar doctor` says what is wrong with the journal


def _language_of(familiar: Familiar) -> str:
    try:
        return familiar.language
    except FamiliarError:
        return ""  # its history cannot be read, which is told elsewhere


def _desk_of(familiar: Familiar) -> DeskStatus:
    from familiar_cli.actions.desk import read_todos
    from familiar_cli.memory.layout import REMINDERS, TASKS

    conflicts = _conflicts_of(familiar.memory)
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


def _conflicts_of(store: MemoryStore) -> tuple[str, ...]:
    from familiar_cli.memory.merge.files import conflicts_in

    try:
        return tuple(dict.fromkeys(one.path for one in conflicts_in(store)))
    except FamiliarError:
        return ()  # `familiar sync resolve` says what is wrong there


def _count_unindexed(familiar: Familiar, walk: FileListing) -> int:
    """Return how many files the index does not hold as they are."""
    try:
        index = familiar.index.status()
    except FamiliarError:
        index = None  # `familiar index status` says what is wrong with it
    if index is not None and index.exists:
        return index.stale_files
    return sum(entry.rel_path.endswith(".md") for entry in walk.files)


def walk_of(store: MemoryStore) -> FileListing:
    """Return all files of the memory; none when there is no memory yet."""
    try:
        return store.walk()
    except NotFoundError:
        return FileListing((), ())


def list_of(home: Path) -> list[ListedFamiliar]:
    """Return every familiar in `home`, sorted by id; a broken one is listed with its problem."""
    chosen = chosen_familiar(home)
    return [
        _list_familiar(FamiliarPaths(home / name), chosen == name) for name in list_familiars(home)
    ]


def _list_familiar(paths: FamiliarPaths, chosen: bool) -> ListedFamiliar:  # noqa: FBT001
    familiar = Familiar(paths)
    try:
        turns = _history_of(paths.history).turns
        files = len(walk_of(familiar.memory).files)
        return ListedFamiliar(paths.id, familiar.config.name, turns, files, chosen)
    except FamiliarError as error:
        return ListedFamiliar(paths.id, "", 0, 0, chosen, str(error))


@dataclass(frozen=True, slots=True)
class _Past:
    turns: int = 0
    unwritten: int = 0
    imported: int = 0
    last: Turn | None = None
    written: WrittenStatus = WrittenStatus()


def _history_of(path: Path) -> _Past:
    """Summarise a history and how much of it was written to memory; creates no file."""
    if not is_plain(path):
        return _Past()
    from familiar_cli.clock import iso
    from familiar_cli.history import WRITER
    from familiar_cli.history.outgoing import SAID_HERE, count_unread_turns
    from familiar_cli.history.store import HistoryStore

    store = HistoryStore(path)
    try:
        mark = store.watermark(WRITER)
        turn = store.turn(mark)
        written = WrittenStatus(mark or None, iso(turn.at) if turn else None)
        waiting = count_unread_turns(store)
        imported = waiting - count_unread_turns(store, SAID_HERE)
        return _Past(store.count(), waiting, imported, store.last_turn(), written)
    finally:
        store.close()


def _summary_of(familiar: Familiar) -> SummaryStatus:
    """Return how the summaries are; a private one that failed is told as well. Makes no file."""
    if not is_plain(familiar.paths.history):
        return SummaryStatus()
    from familiar_cli.history.summaries import PUBLIC
    from familiar_cli.work.passes import summary_name

    summaries, rules = familiar.summaries, familiar.privacy.rules()
    try:
        others = (s for s in summaries.scopes() if s != PUBLIC)
        scopes = [PUBLIC, *(s for s in others if summaries.scope_of(s, rules) == s)]
        newest = {scope: summaries.latest(scope, rules) for scope in scopes}
        behind = sum(
            summaries.count(
                scope, found.last_turn_id if found else 0, summaries.wanted(scope), -1, rules
            )
            for scope, found in newest.items()
        )
    finally:
        familiar.history.close()
    public = newest[PUBLIC]
    failures = (familiar.failures.of(summary_name(scope)) for scope in scopes)
    failed = next((failure for failure in failures if failure), None)
    return SummaryStatus(
        last_turn=public.last_turn_id if public else None,
        behind=behind,
        cut=any(found.cut for found in newest.values() if found),
        failed=failed.message if failed else "",
        failed_at=failed.at if failed else None,
        private=sum(
            scope in rules.private_channels and found is not None for scope, found in newest.items()
        ),
    )


def _last_turn(turn: Turn | None) -> LastTurn | None:
    from familiar_cli.clock import iso

    if turn is None:
        return None
    author = turn.author.slug if turn.author else None
    return LastTurn(turn.id, iso(turn.at), turn.channel_id, turn.role, author, turn.partial)
