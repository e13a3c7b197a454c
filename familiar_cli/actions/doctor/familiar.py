"""Checks of one familiar: its settings, memory, lock, history and traces."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from familiar_cli.actions.doctor.types import fail, ok, warn
from familiar_cli.clock import now
from familiar_cli.errors import (
    BadInputError,
    FamiliarError,
    LockedError,
    NotFoundError,
    UnsafePathError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.actions.doctor.types import Patient, Result
    from familiar_cli.memory.store.types import MemoryEntry

MANY_WAITING = 1000  # turns without a vector: chat and daemon would take long
MOST_NAMED = 3  # so many entries are named, the others are counted


def familiar(patient: Patient) -> Iterator[Result]:
    """Look which familiar is meant."""
    from familiar_cli.config.home import familiar_and_reason

    try:
        paths, reason = familiar_and_reason(patient.home, patient.given)
    except FamiliarError as error:
        asked = patient.given is not None and isinstance(error, NotFoundError)
        yield (fail if asked else warn)(str(error), error.hint or "")
    else:
        yield ok(f"{paths.id} ({reason})")


def settings(patient: Patient) -> Iterator[Result]:
    """Look whether the settings can be read."""
    from familiar_cli.config.origin import effective

    if patient.paths is None:
        return
    own = sum(row.source == "file" for row in effective(patient.paths.config))
    yield ok(f"{patient.paths.config}: {own} set, the others are defaults")


def memory(patient: Patient) -> Iterator[Result]:
    """Look at every file of the memory."""
    from familiar_cli.actions.status import walk_of
    from familiar_cli.memory.store.store import MemoryStore

    if patient.paths is None:
        return
    walk = walk_of(MemoryStore(patient.paths.memory))  # also with broken settings
    yield ok(f"{len(walk.files)} files in {patient.paths.memory}")
    if walk.skipped:
        names = _some([f"{entry.rel_path} ({entry.reason})" for entry in walk.skipped])
        yield warn(f"{len(walk.skipped)} left out: {names}", "Check these files.")
    yield from _large(walk.files, patient.config.memory.max_file_bytes)


def pins(patient: Patient) -> Iterator[Result]:
    """Look whether prompts have room for all that is pinned, and may show it."""
    from familiar_cli.actions.pins import list_pins
    from familiar_cli.familiar import Familiar
    from familiar_cli.memory.store.store import MemoryStore

    if patient.paths is None:
        return
    try:
        with Familiar(patient.paths) as familiar:
            # Without its journal, so that a change that broke off is left for that check to find.
            familiar.memory = MemoryStore(patient.paths.memory)
            found = list_pins(familiar, by_index=False)
    except FamiliarError:
        return  # the checks of the settings and of the character say why
    if not found.pins:
        return
    if found.shortage:
        yield warn(found.shortage, "Unpin or shorten some, or raise `budget.pinned`.")
    else:
        detail = f"{len(found.pins)} with {found.tokens:,} of {found.budget_tokens:,} tokens"
        yield ok(detail)
    silent = [f"{pin.rel_path} ({pin.note})" for pin in found.pins if not pin.tokens]
    if silent:
        mend = "Change or unpin them: `familiar memory unpin PATH`."
        yield warn(f"pinned, but in no prompt: {_some(silent)}", mend)


def yours(patient: Patient) -> Iterator[Result]:
    """Look what a person rewrote of that which the program made."""
    from familiar_cli.consolidation.rewritten import rewritten
    from familiar_cli.memory.store.store import MemoryStore

    if patient.paths is None:
        return
    for one in rewritten(MemoryStore(patient.paths.memory), patient.paths.journal):
        detail = f"{one.rel_path} is yours since {one.since} and no longer updated"
        yield warn(detail, f"To hand it back: `{one.give_back}`.")


def people(patient: Patient) -> Iterator[Result]:
    """Look whether every person can be told from the others, and every file be read."""
    from contextlib import closing

    from familiar_cli.memory.people.aliases import Aliases
    from familiar_cli.memory.store.store import MemoryStore

    if patient.paths is None:
        return
    with closing(Aliases(MemoryStore(patient.paths.memory))) as names:
        names.refresh(thorough=True)
        known, shared, wrong = names.people(), names.collisions(), names.looks_wrong()
    yield ok(f"{len(known)} with a file")
    broken = [person.slug for person in known if person.problem]
    if broken:
        yield warn(f"not readable: {_some(broken)}", "Save them as UTF-8 text.")
    if shared:
        names_of = [f"{named.name!r} ({', '.join(named.slugs)})" for named in shared]
        mend = "The name refers to both. `familiar people alias PERSON NAME --remove`"
        yield warn(f"shared names: {_some(names_of)}", mend)
    for notice in wrong:
        yield warn(notice, "The next turn repairs it.")


def privacy(patient: Patient) -> Iterator[Result]:
    """Check for accounts that may be the owner's, and for channels without a kind."""
    from familiar_cli.familiar import Familiar
    from familiar_cli.files import is_plain
    from familiar_cli.history.one_to_one import only_speakers
    from familiar_cli.text import fold
    from familiar_cli.visibility import OWNER

    if patient.paths is None or not is_plain(patient.paths.history):
        return
    with Familiar(patient.paths) as here:
        me, rules = here.me(), here.privacy.rules()
        alone = only_speakers(here.history)
        named = {fold(me.name)} if me.name else set()
        known = {one.author.slug: one.author for one in here.history.speakers(OWNER)}
        for channel_id, author in sorted(alone.items()):
            if (
                channel_id in rules.one_to_one
                and fold(known.get(author.slug, author).label) in named
            ):
                account = f"{author.platform}:{author.user_id}"
                yield warn(
                    f"{account} in channel {channel_id!r} has your name and is not you",
                    f"If it is, run `familiar me --also {account}`.",
                )
        unsaid = here.privacy.undescribed()
    if unsaid:
        yield ok(
            f"{len(unsaid)} channels have no kind and one speaker, and are public: {_some(unsaid)};"
            " `familiar channel set ID --kind dm` makes one private"
        )


def lock(patient: Patient) -> Iterator[Result]:
    """Look whether somebody holds the familiar, or held it and died."""
    from familiar_cli.memory.store.lock import held, holder

    if patient.paths is None or not patient.paths.lock.exists():
        return
    left_by = holder(patient.paths.lock)
    try:
        with held(patient.paths.lock, 0):
            pass
    except LockedError:
        detail = f"held by {left_by or 'another process'}"
        yield warn(detail, "Wait for it, or end that process.")
    else:
        yield ok(f"free; {left_by} ended abnormally" if left_by else "free")


def history(patient: Patient) -> Iterator[Result]:
    """Look whether the history is whole, without changing it."""
    from familiar_cli.history.schema import foreign_objects
    from familiar_cli.history.store import HistoryStore

    if patient.paths is None:
        return
    if not patient.paths.history.exists():
        yield ok("no turns yet")
        return
    if not patient.paths.history.is_file():  # SQLite would wait for a named pipe
        mend = "Move it away, and put your history there if you have a copy."
        yield fail(f"{patient.paths.history} is not a regular file", mend)
        return
    damage = _quick_check(patient)
    if damage:
        mend = (
            f"Replace {patient.paths.history} with a backup copy, or run `familiar history "
            "salvage`; nothing is changed until then."
        )
        yield fail(f"SQLite reports damage: {damage}", mend)
        return
    store = HistoryStore(patient.paths.history)
    try:
        yield ok(f"{store.count()} turns, no damage")
    finally:
        store.close()
    if foreign := foreign_objects(patient.paths.history):
        mend = (
            "Another program added it and it can change what is saved; drop it unless you know it."
        )
        yield warn(f"history.db has objects from another program: {_some(foreign)}", mend)


def withdrawn(patient: Patient) -> Iterator[Result]:
    """Look whether memory rests on turns that were replaced or withdrawn."""
    from familiar_cli.files import is_plain
    from familiar_cli.history.standing import fallen, marked_count
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.housekeeping.run import look_through
    from familiar_cli.housekeeping.types import Options
    from familiar_cli.memory.store.store import MemoryStore

    if patient.paths is None or not is_plain(patient.paths.history):
        return
    with closing(HistoryStore(patient.paths.history)) as store:
        if not marked_count(store):
            return
        options = Options(now().date(), fallen=partial(fallen, store))
        found = look_through(MemoryStore(patient.paths.memory), options, ["withdrawn"]).findings
    if not found:
        yield ok("no memory rests on a turn that was replaced or withdrawn")
        return
    files = _some([rel_path for finding in found for rel_path in finding.paths])
    mend = "Run `familiar housekeep withdrawn --propose`."
    yield warn(f"memory rests on turns that no longer stand: {files}", mend)


def recall(patient: Patient) -> Iterator[Result]:
    """Look how many turns can be found by meaning."""
    from familiar_cli.files import is_plain
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.index.embedder import open_embedder
    from familiar_cli.index.turn_vectors import TurnVectors

    if patient.paths is None or not is_plain(patient.paths.history):
        return
    opened = open_embedder(patient.config.embedding.model, patient.cache)
    if opened.embedder is None:
        yield ok(f"turns are found by words: {opened.reason}")
        return
    with closing(HistoryStore(patient.paths.history)) as store:
        turns = store.count()
    found = TurnVectors(patient.paths.turn_vectors).status(opened.embedder).vectors
    detail = f"{found} of {turns} turns can be found by meaning"
    many = turns - found > MANY_WAITING
    yield warn(detail, "Run `familiar index build`.") if many else ok(detail)


def traces(patient: Patient) -> Iterator[Result]:
    """Look whether the newest trace can be read."""
    from familiar_cli.context.trace_files import latest, trace_ids

    if patient.paths is None:
        return
    try:
        latest(patient.paths.traces)
    except NotFoundError:
        return
    except BadInputError as error:
        yield warn(str(error), error.hint or "")
    else:
        yield ok(f"{len(trace_ids(patient.paths.traces))} kept")


def keeping(patient: Patient) -> Iterator[Result]:
    """Look whether the work that keeps memory has failed and not succeeded since."""
    from familiar_cli.files import check_own
    from familiar_cli.passes.failures import SUMMARISING, Failures

    if patient.paths is None:
        return
    for directory in (patient.paths.runs, patient.paths.failures, patient.paths.quarantine):
        try:
            check_own(directory)
        except UnsafePathError as error:
            yield fail(str(error), error.hint or "")
    failures = Failures(patient.paths.failures)
    for failure in failures.all():
        mend = failure.hint if "again" in failure.hint else ""
        mend = mend or f"{failure.hint} Run `{failure.command}` again.".lstrip()
        detail = f"`{failure.command}` failed at {failure.at}: {failure.message}"
        yield warn(detail, mend)
    if summary := failures.of(SUMMARISING):
        detail = f"the summary of earlier turns failed at {summary.at}: {summary.message}"
        yield warn(detail, f"{summary.hint} A later reply retries it.".lstrip())


def _large(files: tuple[MemoryEntry, ...], most_bytes: int) -> Iterator[Result]:
    large = [entry.rel_path for entry in files if entry.size_bytes > most_bytes]
    if large:
        detail = f"{len(large)} larger than {most_bytes} bytes: {_some(large)}"
        mend = "They can be read, but not written: split them, or raise `memory.max_file_bytes`."
        yield warn(detail, mend)


def _quick_check(patient: Patient) -> str:
    """Return what SQLite finds wrong, or an empty text."""
    import sqlite3
    from contextlib import closing

    from familiar_cli.history.schema import translated

    assert patient.paths is not None
    path = patient.paths.history
    with (
        translated(path),
        closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection,
    ):
        lines = [str(row[0]) for row in connection.execute("PRAGMA quick_check(3)")]
    return "" if lines == ["ok"] else "; ".join(lines)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
