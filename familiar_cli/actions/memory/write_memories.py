"""Let a program write memory: as a plan that waits for a person, or as a change that can be undone.

Whatever is written passes the same rules: a path inside the memory, text that is not blank and
holds no secret, no front matter, and nothing private is read, shown or lost.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base import errors
from familiar_cli.base.markdown import body_start
from familiar_cli.base.text import fold, harmless, is_visible, sha256_of, slugify
from familiar_cli.base.times import clock
from familiar_cli.base.who.visibility import SHARED, Viewer, ViewerRecord
from familiar_cli.familiar import Familiar
from familiar_cli.store.journal.repository import Commit
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.merge.content import merge_content
from familiar_cli.store.memory.pages.items import merge_day, tag_bullets
from familiar_cli.store.memory.pages.visible_lines import (
    holds_back,
    keep_comments,
    outward_text,
    put_back,
    visible_in,
)
from familiar_cli.store.memory.store.files import MISSING, parse_new_path
from familiar_cli.store.memory.store.store import MemoryStore
from familiar_cli.store.memory.store.transactions import Transaction, retry_on_conflict
from familiar_cli.sync.shared_files import EMBODIMENT, is_shared
from familiar_cli.writing import pending
from familiar_cli.writing.consolidation.periods import read_period
from familiar_cli.writing.housekeeping.hazards import mask_secrets

GRANULARITIES: Final = (*layout.PERIOD_DIRS, layout.SIGNIFICANT_DIR)
_PLAN: Final = "mcp-"  # how the ids of such plans begin
_ID_CHARS: Final = 16
_CHECKSUM_CHARS: Final = 12
_SALT: Final = os.urandom(16).hex()  # no id of a plan confirms a guess at hidden text
_SHARED: Final = "shared"  # stands for the session of a plan that several added to
_TRIES: Final = 20  # others may write the same file at the same time
_READ_CHARS: Final = 16 * 1024 * 1024
_VERSIONS: Final = 3  # earlier ones of each file, for edits that still name them
_RECENT: Final = timedelta(days=1)  # who has not read a file may not know of edits since then
_BOTH_STAY: Final = {"list item", "text"}  # clashes of which both versions fit into the file
_LONG_CHARS: Final = 400  # what is shorter may shrink to anything

Outcome = Literal["written", "deleted", "unchanged", "planned", "held"]


class ReadVersions:
    """Cache of the file versions that each session read or wrote; the oldest are evicted."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], tuple[str, ...]] = {}

    def note(self, session: str, rel_path: str, text: str) -> None:
        """Store the version of a file that a session knows, as `outward` renders it."""
        before = self._texts.pop((session, rel_path), ())
        kept = tuple(one for one in before if one != text)[-_VERSIONS:]
        self._texts[session, rel_path] = (*kept, text)
        while sum(map(_count_chars, self._texts.values())) > _READ_CHARS and len(self._texts) > 1:
            del self._texts[next(iter(self._texts))]

    def text(self, session: str, rel_path: str) -> str | None:
        """Return the version of a file that a session knows, or None if it never read it."""
        return next(iter(self.versions(session, rel_path)), None)

    def versions(self, session: str, rel_path: str) -> tuple[str, ...]:
        """Return the known version and earlier ones, newest first."""
        return self._texts.get((session, rel_path), ())[::-1]

    def forget(self, session: str, rel_path: str) -> None:
        """Drop the session's known versions of a file."""
        self._texts.pop((session, rel_path), None)


def _count_chars(texts: Sequence[str]) -> int:
    return sum(map(len, texts))


class Writer(ViewerRecord, frozen=True):
    """Who writes.

    Args:
        source: As whom the journal notes it, e.g. `mcp:claude-ai`.
        session: What its changes are noted under, so that they can be undone together.
        instance: The instance that it writes for; empty: none is named.
        may_write: Changes are made at once; otherwise they are plans.
        viewer: Who will see what it reads back.
        reads: What its session knows of each file: the base of its changes.
    """

    source: str
    session: str
    instance: str = ""
    may_write: bool = False
    reads: ReadVersions = field(default_factory=ReadVersions)

    def sees(self, rel_path: str, text: str) -> bool:
        """Tell whether it may know that a page with this text exists."""
        return self.viewer.is_owner or bool(outward_text(text, self.viewer, rel_path).strip())

    def knows(self, plan: pending.ReviewPlan) -> bool:
        """Tell whether it may know of a plan that waits: who proposed it sees no more."""
        seen = self.scopes
        return seen is None or (plan.scopes is not None and {*plan.scopes} <= {*seen})

    @property
    def scopes(self) -> tuple[str, ...] | None:
        """The private scopes that it sees; None for the owner."""
        return None if self.viewer.is_owner else tuple(sorted(self.viewer.scopes or ()))


class MemoryAddress(Struct, frozen=True):
    """Which memory is meant: a path, or a granularity with its date.

    Args:
        rel_path: Its file; empty: the others say.
        granularity: `daily` … `significant`.
        date: `2026-01-31`, `2026-W05`, `2026-01` or `2026`.
        slug: What a significant moment is called.
        instance: The instance that a daily memory belongs to.
    """

    rel_path: str = ""
    granularity: str = ""
    date: str = ""
    slug: str = ""
    instance: str = ""


class WriteOutcome(Struct, frozen=True):
    """What became of a change.

    Args:
        outcome: `planned` and `held` wait for a person, the latter because a rule demands it.
        plan_id: The plan that waits; empty: none does.
        version: How often a memory was changed by now; 0: that was not counted.
        is_merged: It holds what somebody else changed meanwhile, too.
        checksum: Of the text that programs see of the file now, or of the one that waits.
    """

    outcome: Outcome
    rel_path: str
    plan_id: str = ""
    version: int = 0
    is_merged: bool = False
    checksum: str = ""


class SessionUndo(Struct, frozen=True):
    """What a session took back: files that are as before, and plans that wait no longer."""

    rel_paths: tuple[str, ...]
    plans: tuple[str, ...] = ()


def create_memory(
    familiar: Familiar,
    writer: Writer,
    place: MemoryAddress,
    content: str,
    *,
    chats: Sequence[str] = (),
    participating: Sequence[str] = (),
    source: str = "",
) -> WriteOutcome:
    """Create a memory. An existing day gets the missing text, as bullets.

    Args:
        familiar: Whose memory.
        writer: Who writes.
        place: The memory that is meant.
        content: Markdown.
        chats: Where it was said.
        participating: Other instances that took part.
        source: The instance that it is from; empty: the writer's.

    Raises:
        UsageError: `place` names no memory.
        RefusedError: A rule forbids it, or something else is there; nothing was changed.
    """
    rel_path = place_of(familiar.memory, writer, place, is_new=True)
    words = check_content(content)
    directory = rel_path.partition("/")[0]
    front = _new_front_matter(directory, writer.instance, source, participating)

    def made(before: str | None) -> str:
        if directory == layout.DAILY_DIR:
            there = outward_text(before or "", writer.viewer, rel_path)
            day = merge_day(there, words, via=writer.instance, chats=chats)
            return front + day if before is None else put_back(before, day, writer.viewer, rel_path)
        new = words
        if directory in GRANULARITIES and writer.instance:
            new = tag_bullets(words, via=writer.instance, chats=chats)
        if (
            before is not None
            and outward_text(before, writer.viewer, rel_path).strip() == new.strip()
        ):
            return before
        is_hidden = before is not None and not writer.sees(rel_path, before)
        _check_free(familiar.memory, writer, rel_path, is_hidden=is_hidden)
        return put_back(before or "", new, writer.viewer, rel_path) if is_hidden else front + new

    return write_or_plan(familiar, writer, rel_path, "create", made)


def update_memory(
    familiar: Familiar, writer: Writer, place: MemoryAddress, content: str, *, edited_by: str = ""
) -> WriteOutcome:
    """Replace the text of a memory, keeping its private parts and front matter.

    Changes made since the session read it are merged; where both changed a line, both versions
    stay. A change that halves the text awaits review.

    Raises:
        NotFoundError: There is no such memory.
        UsageError: `place` names no memory, or several.
        RefusedError: A rule forbids it; nothing was changed.
    """
    rel_path = place_of(familiar.memory, writer, place)
    check_content(content[body_start(content) :])
    is_merged = False
    sent = ""

    def made(before: str | None) -> str:
        nonlocal is_merged, sent
        if before is None:
            raise not_found(rel_path)
        own_front = before[: body_start(before)]  # as it was read with the text
        base, now = _base_and_now(familiar, writer, rel_path, before)
        sent = keep_comments(now, check_content(content.removeprefix(own_front)))
        is_merged = base != now
        return put_back(before, merge_change(rel_path, base, now, sent), writer.viewer, rel_path)

    done = write_or_plan(familiar, writer, rel_path, "update", made, by=edited_by)
    done = replace(done, is_merged=is_merged)
    if done.outcome == "written":
        writer.reads.note(writer.session, rel_path, sent)
    if done.outcome != "written" or not (is_shared(rel_path) and writer.viewer.is_owner):
        return done  # hidden changes count, too
    familiar.file_pasts.read_on()
    return replace(done, version=len(familiar.file_pasts.versions(rel_path)))


def merge_change(rel_path: str, base: str, now: str, sent: str) -> str:
    """Merge a change with others since its base; a line changed by both is kept twice.

    Args:
        base: The text that the change was made from.
        now: The text as it is.
        sent: `base`, changed.

    Raises:
        RefusedError: Both changed the same place, and it cannot hold both.
    """
    if base == now:
        return sent
    merged = merge_content(rel_path, base.encode(), now.encode(), sent.encode(), "both")
    if not _BOTH_STAY.issuperset(merged.clashes):
        raise refuse_edited(rel_path, "in the same place")
    return merged.content.decode()


def delete_memory(familiar: Familiar, writer: Writer, place: MemoryAddress) -> WriteOutcome:
    """Delete a memory that is unchanged since the session read it.

    One that contains somebody else's private text is refused to the owner; others, who are not
    told that there is any, delete what they see.

    Raises:
        NotFoundError: There is no such memory.
        UsageError: `place` names no memory, or several.
        RefusedError: A rule forbids it; nothing was changed.
    """
    rel_path = place_of(familiar.memory, writer, place)

    def made(before: str | None) -> str | None:
        if before is None:
            raise not_found(rel_path)
        is_part = holds_back(before, writer.viewer, rel_path)
        if is_part and writer.viewer.is_owner:
            raise errors.RefusedError(
                f"{layout.told_path(rel_path)!r} cannot be deleted from here; nothing was changed",
                hint=f"A person can delete it: `familiar memory rm {rel_path}`.",
            )
        base, now = _base_and_now(familiar, writer, rel_path, before)
        if base != now:
            raise refuse_edited(rel_path)
        return put_back(before, "", writer.viewer, rel_path) if is_part else None

    done = write_or_plan(familiar, writer, rel_path, "delete", made)
    writer.reads.forget(writer.session, rel_path)
    outcome: Outcome = "deleted" if done.outcome == "written" else done.outcome
    return replace(done, checksum="", outcome=outcome)


def take_back(familiar: Familiar, writer: Writer, *, everything: bool = False) -> SessionUndo:
    """Undo the session's newest change, or all of them and its plans.

    Raises:
        NotFoundError: It changed nothing that is still in effect.
        ConflictError: Later changes touch the same lines; nothing was changed.
    """
    plans = _own_plans(familiar.memory, writer)
    if plans and not everything:
        plans = plans[-1:]
    for plan in plans:
        pending.decide_plan(familiar.memory, plan, reject=range(1, len(plan.hunks) + 1))
    commits = _own_commits(familiar, writer) if everything or not plans else []
    if not commits and not plans:
        raise errors.NotFoundError("This session has no change that can be undone")
    rel_paths: list[str] = []
    for commit in commits if everything else commits[:1]:
        result = familiar.past.undo(commit.id, source=writer.source)
        rel_paths += [c.rel_path for c in result.changes if not c.rel_path.startswith(".")]
    for rel_path in rel_paths:
        writer.reads.forget(writer.session, rel_path)
    return SessionUndo(tuple(dict.fromkeys(rel_paths)), tuple(plan.id for plan in plans))


def place_for(store: MemoryStore, viewer: Viewer, rel_path: str) -> str:
    """Return where the page is that a viewer knows by a path: beside the owner's, perhaps."""
    public = layout.path_in_scope(rel_path, SHARED)
    if viewer.is_owner or layout.told_path(public) != rel_path or not store.exists(public):
        return rel_path
    plain = store.readable(rel_path)
    return rel_path if visible_in(plain, viewer, rel_path).strip() else public


def path_of(
    store: MemoryStore, writer: Writer, place: MemoryAddress, *, is_new: bool = False
) -> str:
    """Return the file of a memory.

    Args:
        place: What is meant.
        is_new: It may be missing; otherwise a day without an instance means its only file.

    Raises:
        UsageError: It names no memory, or several.
    """
    if place.rel_path:
        return _page_path(place.rel_path)
    if place.granularity not in GRANULARITIES:
        raise errors.UsageError(
            f"No such granularity: {place.granularity!r}", hint=f"Known: {', '.join(GRANULARITIES)}"
        )
    period = read_period(place.date)
    tier = layout.DAILY_DIR if place.granularity == layout.SIGNIFICANT_DIR else place.granularity
    if period is None or period.tier != tier:
        raise errors.UsageError(
            f"{place.date!r} is not a date for a {place.granularity} memory",
            hint="Dates are 2026-01-31, 2026-W05, 2026-01 or 2026.",
        )
    if place.granularity in {layout.DAILY_DIR, layout.SIGNIFICANT_DIR}:
        return _dated_path(store, writer, place, is_new=is_new)
    return f"{place.granularity}/{place.date}.md"


def place_of(
    store: MemoryStore, writer: Writer, place: MemoryAddress, *, is_new: bool = False
) -> str:
    """Return the file that a writer means: one of its own if what is there is hidden from it."""
    rel_path = place_for(store, writer.viewer, path_of(store, writer, place, is_new=is_new))
    if writer.viewer.is_owner or writer.sees(rel_path, store.readable(rel_path)):
        return rel_path
    own = layout.path_in_scope(rel_path, SHARED)
    if not store.exists(rel_path):
        return own if _is_blocked(store, writer, rel_path) else rel_path
    is_period = rel_path.partition("/")[0] in layout.SCOPED_DIRS
    is_note = writer.viewer.rules.notes_are_owners and not is_period
    with suppress(errors.FamiliarError):  # the page may be unreadable
        made = put_back(store.read_file(rel_path), "x\n", writer.viewer, rel_path)
        is_owners = layout.is_owners_page(rel_path) or is_note  # whoever writes it
        if is_owners or outward_text(made, writer.viewer, rel_path):
            return rel_path
    return own


def _is_blocked(store: MemoryStore, writer: Writer, rel_path: str) -> bool:
    """Tell whether a page cannot be made because of others, none of which the writer sees."""
    try:
        with store.transaction(writer.source, "look", dry_run=True) as tx:
            tx.write(rel_path, "x\n")
    except errors.LockedError:
        raise
    except errors.FamiliarError:
        others = (file.rel_path for file in store.walk("").files)
        near = (path for path in others if _excludes(path, rel_path))
        return not any(writer.sees(path, store.readable(path)) for path in near)
    return False


def _excludes(rel_path: str, other: str) -> bool:
    """Tell whether a page leaves no place for another: in spelling, or as a file or folder."""
    pairs = zip(rel_path.split("/"), other.split("/"), strict=False)
    return next((fold(one) == fold(two) for one, two in pairs if one != two), True)


def check_content(content: str) -> str:
    """Validate a text, and return it with a newline at its end.

    Raises:
        RefusedError: It is blank, begins with front matter, or holds a secret.
    """
    text = harmless(content).replace("\r", "\n").strip("\n") + "\n"
    if not is_visible(text):
        raise errors.RefusedError("`content` is blank; nothing was changed")
    if body_start(text):
        raise errors.RefusedError(
            "`content` begins with front matter; nothing was changed",
            hint="Send the text below it; the front matter of a file stays as it is.",
        )
    if mask_secrets(text) != text:
        raise errors.RefusedError(
            "`content` holds what looks like a password, key or card number; nothing was changed",
            hint="Memory must not hold secrets: leave it out.",
        )
    return text


def shrinks_by_half(before: str, after: str) -> bool:
    """Tell whether a text loses more than half of itself."""
    return len(before) > _LONG_CHARS and len(after) * 2 < len(before)


def propose_changes(
    familiar: Familiar,
    writer: Writer,
    files: Sequence[pending.PlannedFile],
    what: str,
    *,
    held: bool = False,
    instead: pending.ReviewPlan | None = None,
) -> str:
    """Make a plan of changes, and return its id; equal changes of a session are one plan.

    Args:
        familiar: Whose memory.
        writer: Who proposes it.
        files: The changes.
        what: What is done, in a word.
        held: A rule requires a person's approval.
        instead: The pending plan to extend.
    """
    text = "\0".join(f"{f.rel_path}\0{f.before}\0{f.after}\0{f.deletes}" for f in files)
    text = f"{_SALT}\0{writer.source}\0{writer.session}\0{text}"
    plan = pending.ReviewPlan(
        id=f"{_PLAN}{what.partition(' ')[0]}-{sha256_of(text)[:_ID_CHARS]}",
        run=writer.session,
        created=clock.iso(clock.now()),
        why="held" if held else "review",
        model=writer.source,
        turns=(0, 0),
        files=tuple(files),
        source=writer.source,
        rests_on=f"a request to {what}",
        scopes=writer.scopes,
    )
    if instead:
        run = writer.session if instead.run == writer.session else _SHARED
        plan = replace(
            instead,
            run=run,
            why=plan.why,
            files=plan.files,
            rests_on=plan.rests_on,
            scopes=plan.scopes if instead.scopes == plan.scopes else None,
        )
    if instead or plan.id not in familiar.memory.plan_ids():
        trailers = {layout.RUN_ID: writer.session}
        message = f"propose to {what}: {files[0].rel_path}"
        with familiar.memory.transaction(writer.source, message, trailers=trailers) as tx:
            pending.stage_plan(tx, familiar.memory, plan)
    return plan.id


def write_or_plan(
    familiar: Familiar,
    writer: Writer,
    rel_path: str,
    what: str,
    result: Callable[[str | None], str | None],
    *,
    by: str = "",
) -> WriteOutcome:
    """Apply a change, or make a plan of it; retry if the files change meanwhile.

    Args:
        familiar: Whose memory.
        writer: Who writes.
        what: `create`, `update`, `edit` or `delete`.
        result: Returns its new text, given the old; None deletes it.
        by: Who edited it, where that is not the writer's instance.
    """
    try:
        return retry_on_conflict(
            lambda: _write_once(familiar, writer, rel_path, what, result, by=by), _TRIES
        )
    except errors.FamiliarError as error:
        if not writer.viewer.is_owner:
            error.args = (layout.told_text(str(error)),)
        raise


def _write_once(
    familiar: Familiar,
    writer: Writer,
    rel_path: str,
    what: str,
    result: Callable[[str | None], str | None],
    *,
    by: str,
) -> WriteOutcome:
    store = familiar.memory
    before = read_if_there(store, rel_path)
    waiting = None
    if not writer.may_write and what != "delete":
        is_addition = what == "create" and rel_path.startswith(f"{layout.DAILY_DIR}/")
        waiting = _waiting_plan(store, writer, rel_path, before, is_addition=is_addition)
    start = waiting.files[0].after if waiting else before
    adds = what in {"create", "edit"}  # also to a page of which the writer knows nothing
    if start is not None and not adds and not writer.sees(rel_path, start):
        raise not_found(rel_path)
    after = result(start)
    if after == start:
        return WriteOutcome(
            "planned" if waiting else "unchanged",
            rel_path,
            waiting.id if waiting else "",
            checksum=_checksum_for(writer, rel_path, after),
        )
    old, new = (outward_text(one or "", writer.viewer, rel_path) for one in (before, after))
    any_size = not writer.viewer.is_owner
    if any_size:  # nobody else is told how long the hidden part is
        _check_size(store, rel_path, new, after or "")
    is_change = what in {"update", "edit"} and after is not None
    held = is_change and shrinks_by_half(old, new)
    if held or not writer.may_write:
        file = pending.PlannedFile(rel_path, before, after or "", deletes=after is None)
        with store.transaction(writer.source, what, dry_run=True) as tx:
            stage_change(tx, rel_path, before, after, any_size=any_size)
        plan = propose_changes(familiar, writer, [file], what, held=held, instead=waiting)
        sum_ = _checksum_for(writer, rel_path, after)
        return WriteOutcome("held" if held else "planned", rel_path, plan, checksum=sum_)
    instance = by or writer.instance
    trailers = {layout.RUN_ID: writer.session} | ({EMBODIMENT: instance} if instance else {})
    with store.transaction(writer.source, f"{what} {rel_path}", trailers=trailers) as tx:
        stage_change(tx, rel_path, before, after, any_size=any_size)
    done: Outcome = "deleted" if after is None else "written"
    return WriteOutcome(done, rel_path, checksum=_checksum_for(writer, rel_path, after))


def _checksum_for(writer: Writer, rel_path: str, after: str | None) -> str:
    return "" if after is None else checksum_of(outward_text(after, writer.viewer, rel_path))


def checksum_of(text: str) -> str:
    """Compute the checksum of a file's version, as `outward_text` renders it."""
    return sha256_of(text)[:_CHECKSUM_CHARS]


def _waiting_plan(
    store: MemoryStore, writer: Writer, rel_path: str, before: str | None, *, is_addition: bool
) -> pending.ReviewPlan | None:
    """Return the client's pending plan that changes this file alone.

    Its next proposal extends that plan: a second plan for the file would conflict once the first is
    applied. Another session's plan is extended only by additions to a day.
    """
    plans = plans_of(store, writer) if is_addition else _own_plans(store, writer)
    for plan in filter(writer.knows, plans):
        is_its = len(plan.files) == 1
        if is_its and plan.files[0].rel_path == rel_path and not plan.files[0].deletes:
            return plan if plan.files[0].before == before else None
    return None


def _check_size(store: MemoryStore, name: str, seen: str, whole: str) -> None:
    """Check a page by its visible part; what is hidden may make it twice as large as allowed."""
    most = store.limits.max_file_bytes
    if len(seen.encode()) > most or len(whole.encode()) > 2 * most:
        raise errors.FileTooLargeError(
            f"{layout.told_path(name)!r} would be over the limit of {most:,} bytes; it was not "
            "changed",
            hint="Shorten or split it.",
        )


def stage_change(
    tx: Transaction, rel_path: str, before: str | None, after: str | None, *, any_size: bool = False
) -> None:
    """Stage the change of a file from one text to another; None means no file."""
    expect = MISSING if before is None else sha256_of(before)
    if after is None:
        tx.delete(rel_path, expect=expect)
    else:
        tx.write(rel_path, after, expect=expect, any_size=any_size)


def _base_and_now(
    familiar: Familiar, writer: Writer, rel_path: str, before: str
) -> tuple[str, str]:
    """Return the base version of a session's change, and the current version.

    If the session never read the file, the base is its text before people's latest edits. A pending
    plan of the session counts as the current version.
    """
    now = outward_text(before, writer.viewer, rel_path)
    if before != read_if_there(familiar.memory, rel_path):
        return now, now
    base = writer.reads.text(writer.session, rel_path)
    if base is None:
        then = familiar.past.before_edits(rel_path, since=clock.now() - _RECENT)
        known = None if then is None else then.decode(errors="replace")
        base = now if known is None else outward_text(known, writer.viewer, rel_path)
    return base, now


def refuse_edited(rel_path: str, where: str = "") -> errors.RefusedError:
    """Build the error for a change based on an outdated version."""
    return errors.RefusedError(
        f"{layout.told_path(rel_path)!r} was edited after you last read it"
        f"{where and f', {where}'}; nothing was changed",
        hint="Read it with memory_read, then try again.",
    )


def read_if_there(store: MemoryStore, rel_path: str) -> str | None:
    """Read a file of memory; None if it does not exist."""
    return store.read_file(rel_path) if store.exists(rel_path) else None


def not_found(rel_path: str) -> errors.NotFoundError:
    """Build the error for a change to a missing file."""
    return errors.NotFoundError(
        f"There is no memory {layout.told_path(rel_path)!r}; nothing was changed",
        hint="memory_list lists the existing ones, memory_create writes a new one.",
    )


def _check_free(store: MemoryStore, writer: Writer, rel_path: str, *, is_hidden: bool) -> None:
    """Check that a path is unused, also by pending plans that the writer may know.

    Raises:
        RefusedError: Something is, or one does.
    """
    if not is_hidden and store.exists(rel_path):
        raise errors.RefusedError(
            f"{layout.told_path(rel_path)!r} already exists; nothing was changed",
            hint="Change it with memory_edit or memory_update.",
        )
    for plan_id in store.plan_ids():
        with suppress(errors.BadInputError, errors.NotFoundError):
            plan = pending.read_pending(store, plan_id)
            same = (one for one in plan.files if fold(one.rel_path) == fold(rel_path))
            if writer.knows(plan) and any(writer.sees(rel_path, one.after) for one in same):
                raise errors.RefusedError(
                    f"{layout.told_path(rel_path)!r} waits for review as plan {plan_id}; "
                    "nothing was changed",
                    hint="plans_list shows what waits; memory_update changes a plan of your own.",
                )


def _new_front_matter(
    directory: str, instance: str, source: str, participating: Sequence[str]
) -> str:
    """Build the front matter of a new memory; a day's file name states its instance."""
    lines = []
    if text := source or (instance if directory != layout.DAILY_DIR else ""):
        lines.append(f"sourceInstance: {json.dumps(text, ensure_ascii=False)}")
    others = [one for one in dict.fromkeys(participating) if one != instance]
    if others:
        lines.append(f"participating: {json.dumps(others, ensure_ascii=False)}")
    return "\n".join(["---", *lines, "---", "", ""]) if lines else ""


def _page_path(rel_path: str) -> str:
    """Normalise a path, and check that it is a page's."""
    clean = parse_new_path(rel_path)
    parts = clean.split("/")
    if not clean.endswith(".md") or any(part.startswith((".", "_")) for part in parts):
        raise errors.RefusedError(
            f"{rel_path!r} is not a page of memory; nothing was changed",
            hint="Pages end in `.md`, and no part of their path begins with `.` or `_`.",
        )
    if layout.scope_of_path(clean):
        raise errors.RefusedError(f"{rel_path!r} would belong to a private conversation")
    return clean


def _dated_path(store: MemoryStore, writer: Writer, place: MemoryAddress, *, is_new: bool) -> str:
    """Return the path of a day or a significant moment; without a name, the only one."""
    directory, key = place.granularity, "slug"
    name = slugify(place.slug)
    if directory == layout.DAILY_DIR:
        key = "instanceId"
        name = instance_name(place.instance) if place.instance else ""
    if name:
        return f"{directory}/{place.date}_{name}.md"
    named = store.glob(f"{directory}/{place.date}_*.md")
    there = [path for path in named if writer.sees(path, store.readable(path))]
    if is_new or len(there) != 1:
        several = f"; there are {len(there)} of that day" if there else ""
        raise errors.UsageError(f"A {directory} memory needs `{key}`{several}; nothing was changed")
    return there[0]


def instance_name(instance: str) -> str:
    """Convert an instance's name to a part of a file name.

    Raises:
        UsageError: It contains neither letters nor digits.
    """
    name = instance if re.fullmatch(r"\w[\w.-]{0,63}", instance) else slugify(instance)
    if not name:
        raise errors.UsageError(f"{instance!r} is not a valid instance id; nothing was changed")
    return name


def _own_plans(store: MemoryStore, writer: Writer) -> list[pending.ReviewPlan]:
    """Return the session's pending plans, oldest first."""
    own = [plan for plan in plans_of(store, writer) if plan.run == writer.session]
    return sorted(own, key=lambda plan: plan.created)


def plans_of(store: MemoryStore, writer: Writer) -> Iterator[pending.ReviewPlan]:
    """Yield the client's pending plans, skipping damaged ones."""
    for name in store.plan_ids():
        if name.startswith(_PLAN):
            with suppress(errors.BadInputError):
                plan = pending.read_pending(store, name)
                if plan.source == writer.source:
                    yield plan


def _own_commits(familiar: Familiar, writer: Writer) -> list[Commit]:
    """Return the session's changes that are in effect, newest first."""
    undone: set[str] = set()
    commits = []
    for change in familiar.past.log():
        commit = change.commit
        undone.update(commit.undoes)
        touches = any(not t.rel_path.startswith(layout.PENDING_DIR) for t in change.touched)
        is_own = (commit.run_id, commit.source) == (writer.session, writer.source)
        if is_own and touches and not commit.undoes and commit.id not in undone:
            commits.append(commit)
    return commits
