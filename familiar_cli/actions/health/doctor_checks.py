"""The doctor's checks of one familiar: settings, memory, journal, history, traces and marks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from familiar_cli.actions.health.damaged_marks import damage_in
from familiar_cli.base import errors
from familiar_cli.base.config.home import (
    ME_FILE,
    FamiliarPaths,
    check_here,
    familiar_and_reason,
    missing_turns,
)
from familiar_cli.base.config.schema import EMBEDDERS, ChannelConfig, CharacterConfig, HomeSettings
from familiar_cli.base.files import check_own, is_plain
from familiar_cli.base.languages import ENGLISH, FIRST_TURNS, language_in
from familiar_cli.base.text import counted, fold, one_line, shorten_list, typed
from familiar_cli.base.times.clock import elapsed_s, iso, parse_iso
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.familiar import Familiar
from familiar_cli.store.history.forgetting import orders_of
from familiar_cli.store.history.marks import marked_count
from familiar_cli.store.history.schema import find_damage, foreign_objects
from familiar_cli.store.history.store import HistoryStore
from familiar_cli.store.journal.edits import Edits, refused_files
from familiar_cli.store.journal.repository import Repository
from familiar_cli.store.memory.layout import is_page, standard_name_blocked_by
from familiar_cli.store.memory.store.files import Tree
from familiar_cli.store.memory.store.store import MemoryStore, hold_lock, lock_holder

if TYPE_CHECKING:
    from familiar_cli.llm.slots import ResolvedSlot


Verdict = Literal["ok", "warn", "fail"]


class Diagnosis(Struct, frozen=True):
    """The result of a check.

    Args:
        name: The part; filled in by `examine`.
        verdict: `ok`, `warn` (works, but deserves a look) or `fail` (does not work).
        detail: The finding, in one line.
        mend: The remedy; empty if none is needed.
    """

    name: str
    verdict: Verdict
    detail: str
    mend: str = ""


def ok(detail: str) -> Diagnosis:
    """Report that a part works."""
    return Diagnosis("", "ok", detail)


def warn(detail: str, mend: str) -> Diagnosis:
    """Report that a part works, but should be looked at."""
    return Diagnosis("", "warn", detail, mend)


_UNAUTHORISED = {401, 403}
_SERVER_ERROR = 500
_OK = 200
_MOST_NAMED = 5


def judge_status(slot: ResolvedSlot, status: int, body: bytes) -> Diagnosis:
    """Judge a server's answer to a request for its models."""
    from familiar_cli.llm.open import model_names
    from familiar_cli.llm.slots import PRESETS

    where = slot.base_url
    if status in _UNAUTHORISED:
        key = slot.api_key_env or "llm.api_key_env"
        mend = f"Set {key} to a valid key."
        return fail(f"{where} rejects the key (status {status})", mend)
    if status >= _SERVER_ERROR:
        return warn(f"{where} answers with status {status}", PRESETS[slot.preset].start)
    names = model_names(body) if status == _OK else []
    if names and slot.model not in names:
        known = ", ".join(one_line(name, 40) for name in names[:_MOST_NAMED])
        detail = f"{where} answers, but does not list {slot.model!r}; it has {known}"
        return warn(detail, PRESETS[slot.preset].choose)
    return ok(f"{where} answers")


def fail(detail: str, mend: str) -> Diagnosis:
    """Report that a part does not work."""
    return Diagnosis("", "fail", detail, mend)


class CheckTarget(Struct, frozen=True):
    """The subject of the checks.

    Args:
        home: The directory of the familiars.
        home_reason: What selected it.
        given: The familiar that was asked for, if any.
        cache: The directory of model files.
        found: The familiar's files; None if none is selected.
        config: Its settings; defaults if they cannot be read.
    """

    home: Path
    home_reason: str
    given: str | None
    cache: Path
    found: FamiliarPaths | None
    config: CharacterConfig

    @property
    def paths(self) -> FamiliarPaths:
        """The files of the familiar; checks in `FAMILIAR_CHECKS` run only where there is one."""
        assert self.found is not None
        return self.found


# The smallest of fastembed's models for the languages that the program knows.
_MULTILINGUAL: Final = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
_CHINESE: Final = "BAAI/bge-small-zh-v1.5"
MOST_NAMED = 3  # number of entries named; the others are counted


def familiar(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check which familiar is selected."""
    try:
        paths, reason = familiar_and_reason(target.home, target.given)
        check_here(paths)
    except errors.FamiliarError as error:
        asked = target.given is not None and isinstance(error, errors.NotFoundError)
        yield (fail if asked else warn)(str(error), error.hint or "")
    else:
        yield ok(f"{paths.id} ({reason})")


def settings(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check that the settings of the familiar, its channels and its home can be read."""
    from familiar_cli.base.config import serving
    from familiar_cli.base.config.settings import effective_settings, load_written

    home, channels = target.home, sorted(target.paths.channels.glob("*.toml"))
    kinds = [(home / ME_FILE, HomeSettings), (home / serving.FILE, serving.ServeSettings)]
    for path, kind in (*kinds, *((path, ChannelConfig) for path in channels)):
        try:
            load_written(path, kind)
        except errors.FamiliarError as error:
            yield fail(str(error), error.hint or "")
    own = sum(row.source == "file" for row in effective_settings(target.paths.config))
    yield ok(f"{target.paths.config}: {own} set, the others are defaults")


def memory(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check every memory file."""
    store = MemoryStore(target.paths.memory)  # also with broken settings
    walk = store.walk(missing_ok=True)
    yield ok(f"{counted(len(walk.files), 'file')} in {target.paths.memory}")
    if odd := [file.rel_path for file in walk.files if _is_misread(store, file.rel_path)]:
        mend = "Unreadable bytes are shown and searched as \ufffd: save each file as UTF-8."
        yield warn(f"{len(odd)} not in UTF-8: {shorten_list(odd, MOST_NAMED)}", mend)
    if walk.skipped:
        skipped = [f"{entry.rel_path} ({entry.reason})" for entry in walk.skipped]
        names = shorten_list(skipped, MOST_NAMED)
        yield warn(f"{len(walk.skipped)} left out: {names}", "Check these files.")
    blocking = {
        path.partition("/")[0]: path
        for path in sorted((file.rel_path for file in walk.files), reverse=True)
        if standard_name_blocked_by(path)
    }
    for top, path in sorted(blocking.items()):
        detail = f"{top!r} keeps {standard_name_blocked_by(top)!r} from being written"
        move = f"familiar memory mv {typed(path)} {typed(f'notes/{path}')}"
        yield warn(detail, f"Move it away, one file at a time: `{move}`.")
    most_bytes = target.config.memory.max_file_bytes
    if large := [entry.rel_path for entry in walk.files if entry.size_bytes > most_bytes]:
        detail = f"{len(large)} larger than {most_bytes} bytes: {shorten_list(large, MOST_NAMED)}"
        mend = "They can be read but not written: split them, or raise `memory.max_file_bytes`."
        yield warn(detail, mend)


def _is_misread(store: MemoryStore, rel_path: str) -> bool:
    """Tell whether a page has bytes that are not UTF-8."""
    if is_page(rel_path):
        try:
            store.read_bytes(rel_path).decode("utf-8")
        except UnicodeDecodeError:
            return True
        except errors.FamiliarError:
            return False
    return False


def pins(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check that prompts have room for all pinned files, and may show them."""
    from familiar_cli.actions.memory.pins import list_pins

    try:
        with Familiar(target.paths) as familiar:
            # Without its journal, so that a change that broke off is left for that check to find.
            familiar.memory = MemoryStore(target.paths.memory)
            found = list_pins(familiar, by_index=False)
    except errors.FamiliarError:
        return  # the checks of settings and character say why
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
        yield warn(f"pinned, but in no prompt: {shorten_list(silent, MOST_NAMED)}", mend)


def yours(target: CheckTarget) -> Iterator[Diagnosis]:
    """List generated files that a person rewrote."""
    from familiar_cli.writing.consolidation.calendar import rewritten_files

    for one in rewritten_files(MemoryStore(target.paths.memory), target.paths.journal):
        detail = f"{one.rel_path} has been yours since {one.since} and is no longer updated"
        yield warn(detail, f"To give it back to the program: `{one.give_back}`.")


def people(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check that people can be told apart, and that their files can be read."""
    from familiar_cli.store.memory.aliases import Aliases

    with closing(Aliases(MemoryStore(target.paths.memory))) as names:
        names.refresh(thorough=True)
        known, shared, wrong = names.people(), names.collisions(), names.looks_wrong()
    yield ok(f"{len(known)} with a file")
    broken = [person.slug for person in known if person.problem]
    if broken:
        yield warn(f"not readable: {shorten_list(broken, MOST_NAMED)}", "Save them as UTF-8 text.")
    if shared:
        names_of = [f"{named.name!r} ({', '.join(named.slugs)})" for named in shared]
        mend = "The name refers to both. `familiar people alias PERSON NAME --remove`"
        yield warn(f"shared names: {shorten_list(names_of, MOST_NAMED)}", mend)
    for notice in wrong:
        yield warn(notice, "The next turn repairs it.")


def privacy(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check for accounts that may be the owner's, and for channels without a kind."""
    from familiar_cli.actions.memory.audience import private_names, survey_audience
    from familiar_cli.store.history.selection import only_speakers

    if not is_plain(target.paths.history):
        return
    with Familiar(target.paths) as here:
        me, rules = here.me(), here.privacy.rules()
        alone = only_speakers(here.history)
        mes = {fold(one.name): one for one in me.owners if one.name}
        authors = {one.author.slug: one.author for one in here.history.speakers(OWNER)}
        for channel_id, author in sorted(alone.items()):
            owner = mes.get(fold(authors.get(author.slug, author).label))
            if author.slug not in rules.own and channel_id in rules.one_to_one and owner:
                account = f"{author.platform}:{author.user_id}"
                whose, as_ = "your name and is not you", ""
                if owner != me:
                    whose = f"{owner.name}'s name and is not theirs"
                    as_ = f"--as {owner.account.user_id} "
                mend = f"If it is, run `familiar me {as_}--also {account}`."
                yield warn(f"{account} in channel {channel_id!r} has {whose}", mend)
        unsaid = here.privacy.undescribed()
        found, shares = survey_audience(here), rules.owner_shares
        leaked = private_names(here)
    for rel_path, name in leaked[:MOST_NAMED]:
        yield warn(
            f"{rel_path} tells everybody the name {one_line(name, 60)!r}, used only in private",
            f"Delete the line there, or run `familiar memory unpublish {rel_path}#SECTION`.",
        )
    if shares:
        yield warn(
            "privacy.owner is `share`: what you say in private is shared with everybody",
            "To keep it, run `familiar config unset privacy.owner`.",
        )
    if found.notes:
        yield ok(
            f"{counted(len(found.notes), 'page')} based on no turn, but visible to others: "
            f"{shorten_list(list(found.notes), MOST_NAMED)}; `familiar memory unpublish PATH` "
            "makes one private"
        )
    if found.withheld:
        yield ok(
            f"{counted(len(found.withheld), 'page')} with lines that others cannot see: "
            f"{shorten_list(list(found.withheld), MOST_NAMED)}; `familiar memory publish PATH` "
            "makes one public"
        )
    if unsaid:
        names = shorten_list(unsaid, MOST_NAMED)
        yield ok(
            f"{counted(len(unsaid), 'channel')} without a kind, with one speaker each, that are "
            f"public: {names}; `familiar channel set ID --kind dm` makes one private"
        )


def lock(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check whether another process has locked the familiar, or died holding it."""
    if not target.paths.lock.exists():
        return
    left_by = lock_holder(target.paths.lock)
    try:
        with hold_lock(target.paths.lock, 0):
            pass
    except errors.LockedError:
        detail = f"held by {left_by or 'another process'}"
        yield warn(detail, "Wait for it, or end that process.")
    else:
        yield ok(f"free; {left_by} ended abnormally" if left_by else "free")


def history(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check the integrity of the history without changing it."""
    if not target.paths.history.exists():
        missing = missing_turns(target.paths, 0)
        yield fail(missing, "") if missing else ok("no turns yet")
        return
    if not target.paths.history.is_file():  # SQLite would wait for a named pipe
        mend = "Move it away, and put your history there if you have a copy."
        yield fail(f"{target.paths.history} is not a regular file", mend)
        return
    damage = find_damage(target.paths.history)
    if damage:
        mend = (
            f"Replace {target.paths.history} with a backup copy, or run `familiar history "
            "salvage`; nothing is changed until then."
        )
        yield fail(f"SQLite reports damage: {damage}", mend)
        return
    with closing(HistoryStore(target.paths.history)) as store:
        found = f"{counted(store.count(), 'turn')}, no damage"
        missing = missing_turns(target.paths, store.newest_own())
        yield fail(missing, "") if missing else ok(found)
    if foreign := foreign_objects(target.paths.history):
        yield warn(
            f"history.db has objects from another program: {shorten_list(foreign, MOST_NAMED)}",
            "Another program added it and it can change what is saved; drop it unless you know it.",
        )


def forgetting(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check that every order to forget a person was carried out."""
    from familiar_cli.sync.journal_epochs import EpochCheck

    if is_plain(target.paths.forgetting):
        mend = "Any command that opens the familiar completes it, or says what prevents that."
        yield fail("`people forget` was interrupted and is not complete", mend)
        return
    with Familiar(target.paths) as familiar, closing(familiar.journal.repository) as journal:
        check = EpochCheck(journal, orders_of(familiar.history))
        if (head := journal.head()) and check.unmet(journal.objects.read, [head]):
            mend = (
                "Run `familiar sync`, also without a remote: it carries it out, or names the "
                "machine to allow first."
            )
            yield fail("An order to forget a person was merged, but never carried out", mend)


def withdrawn(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check whether memory is based on turns that were replaced or withdrawn."""
    from familiar_cli.actions.memory.housekeep import check_memory

    if not is_plain(target.paths.history):
        return
    with Familiar(target.paths) as familiar:
        if not marked_count(familiar.history):
            return
        looked = check_memory(familiar, ["withdrawn"])
    if looked.skipped:
        left = shorten_list([one.rel_path for one in looked.skipped], MOST_NAMED)
        mend = "Run `familiar housekeep withdrawn`: it says why."
        yield warn(f"not compared with turns that were replaced or withdrawn: {left}", mend)
    elif not looked.findings:
        yield ok("no memory is based on a turn that was replaced or withdrawn")
    if not looked.findings:
        return
    files = shorten_list([path for found in looked.findings for path in found.paths], MOST_NAMED)
    mend = "Run `familiar housekeep withdrawn --propose`."
    yield warn(f"memory cites turns that were replaced or withdrawn: {files}", mend)


def recall(target: CheckTarget) -> Iterator[Diagnosis]:
    """Count the turns and the lines of memory that can be found by meaning."""
    from familiar_cli.store.search.build import EmbeddingIndex, has_vectors_of
    from familiar_cli.store.search.finding import choose_embedder
    from familiar_cli.store.search.turn_vectors import TurnVectors

    opened = choose_embedder(target.config.embedding, target.cache)
    embedder = opened.embedder
    if embedder is None:
        yield ok(f"turns and memory are found by words: {opened.reason}")
        return
    if is_plain(target.paths.history):
        with closing(HistoryStore(target.paths.history)) as store:
            turns = store.count(everything=True)
        made = TurnVectors(target.paths.turn_vectors).status(embedder)
        yield _count_vectors("turn", made.vectors, turns, is_old=made.size_bytes > 0)
    memory = MemoryStore(target.paths.memory)
    index = EmbeddingIndex(memory)
    status = index.status()
    if not status.exists:
        unread = sum(not entry.is_dir for entry in memory.walk().files)
        yield _count_vectors("file of memory", 0, unread, "files of memory")
        return
    is_same = index.use(lambda connection: has_vectors_of(connection, embedder))
    vectors = status.vectors if is_same else 0
    yield _count_vectors(
        "line of memory",
        vectors,
        status.lines,
        "lines of memory",
        unread=status.stale_files,
        is_old=status.vectors > 0,
    )


def _count_vectors(
    noun: str, made: int, total: int, many: str = "", *, unread: int = 0, is_old: bool = False
) -> Diagnosis:
    """Compare the number of vectors with that of texts; a few are made after the next reply."""
    from familiar_cli.store.search.build import SOME

    detail = f"{made} of {counted(total, noun, many)} can be found by meaning"
    if total > made and total - made + unread > SOME:
        detail += ", the others by words only"
    if is_old and not made:
        detail += "; the vectors on disk are from another version or model"
    if unread:
        detail += f"; {counted(unread, 'file')} changed since the index was made"
    if total - made + unread <= SOME:
        return ok(detail)
    return warn(
        detail, "Run `familiar index build`, or leave it to `familiar serve` or `familiar daemon`."
    )


def meaning(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check that the search models suit the language and are on disk."""
    from familiar_cli.llm.slots import (
        SERVED_MULTILINGUAL,
        resolve_embedding_server,
        speaks_many_languages,
    )

    config = target.config
    language = _language_of(target)
    server, model = resolve_embedding_server(config.embedding), config.embedding.model
    if language == ENGLISH.code or model == "none":
        return
    if server and not speaks_many_languages(server.slot.model):
        yield warn(
            f"the familiar speaks {language!r}, but {server.slot.model!r} supports English only",
            f"Let the server load {SERVED_MULTILINGUAL}, and set `embedding.model` to it.",
        )
    elif not server and model in EMBEDDERS:
        better = _CHINESE if language == "zh" else _MULTILINGUAL
        yield warn(
            f"the familiar speaks {language!r}, but embedding.model {model!r} supports English "
            "only",
            f"Run `familiar model pull {better}` and set `embedding.model` to it; or set "
            f"`embedding.base_url` to a server that has {SERVED_MULTILINGUAL}.",
        )


def _language_of(target: CheckTarget) -> str:
    if target.config.language != "auto":
        return target.config.language
    if not is_plain(target.paths.history):
        return ENGLISH.code
    with closing(HistoryStore(target.paths.history)) as store:
        contents = [turn.content for turn in store.after(0, FIRST_TURNS)]
    return language_in(contents, lambda: ())[0]


def traces(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check that the newest trace can be read."""
    from familiar_cli.context.trace import latest_trace, trace_ids

    try:
        latest_trace(target.paths.traces)
    except errors.NotFoundError:
        return
    except errors.BadInputError as error:
        yield warn(str(error), error.hint or "")
    else:
        yield ok(f"{len(trace_ids(target.paths.traces))} kept")


def clock(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check that no time lies in the future, and that the clocks of machines agree."""
    from familiar_cli.actions.health.job_schedule import read_jobs, read_state
    from familiar_cli.actions.share.sync_decisions import clock_findings
    from familiar_cli.store.passes import Failures

    times: list[tuple[str, datetime]] = []
    with Familiar(target.paths) as opened, closing(opened.journal.repository):
        for job in read_jobs(opened):
            _ = job.rule  # raises if it has none
            last = read_state(opened, job).last or job.added
            times.append((f"the last run of job {job.id!r}", parse_iso(last)))
        for finding in clock_findings(opened):
            yield warn(finding, "Check the clock of each machine.")
    times += [
        (f"the failure of `{failure.command}`", parse_iso(failure.at))
        for failure in Failures(target.paths.failures).all()
    ]
    wrong = [f"{what} ({iso(at)})" for what, at in times if elapsed_s(at) == math.inf]
    if wrong:
        detail = f"stored with a time in the future: {shorten_list(wrong, MOST_NAMED)}"
        yield warn(detail, "Check this machine's clock.")


def keeping(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check whether background passes have failed and not succeeded since."""
    from familiar_cli.actions.memory.due_work import waiting_words
    from familiar_cli.store.passes import SUMMARISING, Failures
    from familiar_cli.writing.pending import turns_in_review

    for directory in (target.paths.runs, target.paths.failures, target.paths.quarantine):
        try:
            check_own(directory)
        except errors.UnsafePathError as error:
            yield fail(str(error), error.hint or "")
    store = MemoryStore(target.paths.memory)
    if words := waiting_words(len(store.plan_ids()), turns_in_review(store)):
        yield warn(words, "Apply or reject them; until then their changes are not in memory.")
    failures = Failures(target.paths.failures)
    for failure in failures.all():
        mend = failure.hint if "again" in failure.hint else ""
        mend = mend or f"{failure.hint} Run `{failure.command}` again.".lstrip()
        detail = f"`{failure.command}` failed at {failure.at}: {failure.message}"
        yield warn(detail, mend)
    if summary := failures.of(SUMMARISING):
        detail = f"the summary of earlier turns failed at {summary.at}: {summary.message}"
        yield warn(detail, f"{summary.hint} A later reply retries it.".lstrip())


def journal(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check the journal without changing it."""
    from familiar_cli.store.journal.finish import check_mark, read_mark
    from familiar_cli.store.journal.history import History

    repository = Repository(target.paths.journal)
    if not repository.exists:
        yield ok("empty until the first change")
        return
    with closing(repository):
        count = sum(1 for _ in History(repository).commits())
        yield ok(f"{count:,} commit{'s' * (count != 1)} in {repository.path}")
        mark = read_mark(repository.path)
        if mark:
            check_mark(repository, mark)
            mend = "The next command that uses memory completes it: `familiar memory list`."
            yield warn("a change was interrupted before it was saved to disk", mend)
        else:
            yield from _compare_files(target, repository)
        yield from _check_size(repository)
        for path, reason in refused_files(repository).items():
            mend = "Rename or shorten it on the machine that has it."
            yield fail(f"{path!r} from another machine is missing here: {reason}", mend)


def sync(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check whether a sync left something for a person to review or decide."""
    from familiar_cli.actions.share.sync_decisions import pending_decisions, remotes_of

    with Familiar(target.paths) as familiar:
        count = len(remotes_of(familiar).all())
        pending = pending_decisions(familiar)
    if count:
        yield ok(f"{count} remote{'s' * (count != 1)}")
    for line in pending.lines():
        yield warn(line, "Run `familiar sync status` and `familiar sync devices`.")


def _compare_files(target: CheckTarget, repository: Repository) -> Iterator[Diagnosis]:
    """Compare every file with the newest commit; differences are edits by hand."""
    head = repository.head()
    edits = Edits(Tree(target.paths.memory), repository, head)
    differs = [rel_path for rel_path, _ in edits]
    if differs:
        detail = f"changed by hand since the last commit: {shorten_list(differs, 1)}"
        yield ok(f"{detail}; the next command commits that")
    if edits.unreadable:
        unreadable = counted(len(edits.unreadable), "file")
        detail = f"{unreadable} cannot be read; the last version is kept"
        yield warn(detail, f"Check the permissions of {edits.unreadable[0]}.")


def _check_size(repository: Repository) -> Iterator[Diagnosis]:
    from familiar_cli.store.journal.exchange import WORTH_IT

    loose = len(repository.objects.loose())
    if loose >= WORTH_IT:
        mend = "Pack them: `familiar memory compact`."
        yield warn(f"{loose:,} small files take more space than needed", mend)


_MOST: Final = 20
_MEND: Final = (
    "Restore the line: `familiar memory diff` shows it, `familiar memory undo` reverts the change."
)


def marks(target: CheckTarget) -> Iterator[Diagnosis]:
    """Check front matter, records and comments; each unreadable one is a finding."""
    store = MemoryStore(target.paths.memory)
    damages: list[str] = []
    for entry in store.walk().files:
        if entry.rel_path.lower().endswith((".md", ".markdown")):
            damage = damage_in(store.readable(entry.rel_path))
            damages += [f"{entry.rel_path}:{line}: {what}" for line, what in damage]
    for one in damages[:_MOST]:
        yield warn(one, _MEND)
    if len(damages) > _MOST:
        yield warn(f"{len(damages) - _MOST} more damaged marks", _MEND)


# In the order in which the findings are shown.
FAMILIAR_CHECKS: Final[tuple[Callable[[CheckTarget], Iterator[Diagnosis]], ...]] = (
    *(settings, memory, marks, pins, journal, sync, yours, people, privacy, lock, history),
    *(forgetting, withdrawn, recall, meaning, traces, clock, keeping),
)
