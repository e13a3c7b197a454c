"""Sync with embodiments: programs with a copy of the familiar that do not use git.

An embodiment pulls the changes since its last sync, works with its copy, and pushes its own
changes, each with the version it is based on. Pushed changes follow the rules for all programs that
write; one that would delete or halve much awaits review, whatever the program may do.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.actions.memory import write_memories
from familiar_cli.base import errors
from familiar_cli.base.text import harmless
from familiar_cli.base.times.clock import iso, now
from familiar_cli.base.who.visibility import NOBODY
from familiar_cli.store.memory.layout import CONFLICTS_DIR, RUN_ID
from familiar_cli.store.memory.pages.items import bare_items, tag_bullets
from familiar_cli.store.memory.pages.visible_lines import (
    holds_back,
    outward_text,
    put_back,
)
from familiar_cli.store.memory.store.store import MemoryStore, hold_lock
from familiar_cli.store.memory.store.transactions import retry_on_conflict
from familiar_cli.sync import participants
from familiar_cli.sync.journal_past import (
    EMBODIMENT,
    ChangeVerdict,
    Clock,
    EmbodimentChange,
    FileHere,
    FilePasts,
    Merged,
    Order,
    Version,
    clock_of,
    judge_change,
    merge,
)
from familiar_cli.writing.review.pending import PlannedFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from familiar_cli.familiar import Familiar

_TRIES: Final = 20  # others may write the same files at the same time
_FEW: Final = 3  # files that may always be deleted at once
_SHARE: Final = 0.2  # share of all files that may be deleted at once

Result = Literal[
    "applied", "merged", "conflict", "unchanged", "stale", "kept", "planned", "held", "refused"
]


class Token(Struct, frozen=True):
    """An embodiment's progress: the version of the memory, and what identifies the memory."""

    version: int
    hash: str


class SharedEntry(Struct, frozen=True):
    """A file as sent to an embodiment.

    Args:
        by: The instance that changed it last.
        source: The instance that a memory is from.
        participating: Other instances that took part.
    """

    file: participants.SharedFile
    content: str
    clock: Clock
    by: str
    source: str = ""
    participating: Sequence[str] = ()

    @property
    def version(self) -> int:
        """The number of changes."""
        return sum(self.clock.values())


class EmbodimentPull(Struct, frozen=True):
    """The answer to a pull.

    Args:
        entries: New or changed files, sorted by path.
        deleted: Deleted files.
        token: The version that the embodiment has once it applied this.
        is_whole: These are all files: anything else that the embodiment has is from an older
            memory.
        is_known: The embodiment is registered, so that it may push.
    """

    entries: tuple[SharedEntry, ...]
    deleted: tuple[participants.SharedFile, ...]
    token: Token
    is_whole: bool
    is_known: bool = True


class Sent(Struct, frozen=True):
    """One change sent by an embodiment.

    Args:
        place: The file.
        content: Its text; None if it was deleted.
        clock: The clock of the version it is based on; None for that of the last sync.
        chats: Conversations in which new bullets were said.
        source: The instance that new bullets are from; empty for the embodiment.
    """

    place: write_memories.MemoryAddress
    content: str | None
    clock: Clock | None = None
    chats: Sequence[str] = ()
    source: str = ""


class Received(Struct, frozen=True):
    """The result of one change.

    Args:
        rel_path: The file; as sent if it is not a valid path.
        result: The result. Only `refused`, `planned` and `held` are not final.
        order: The causal order against the version here; None if not compared.
        clock: The file's clock now.
        content: The file's text now if it differs from the one sent; None otherwise, or if it is
            gone.
        is_gone: The file does not exist.
        plan_id: The pending plan.
        copy: Path of the version that is not in the file.
        reason: Why it was refused.
    """

    rel_path: str
    result: Result
    order: Order | None = None
    clock: Clock = field(default_factory=dict)
    content: str | None = None
    is_gone: bool = False
    plan_id: str = ""
    copy: str = ""
    reason: str = ""


class Tombstone(Struct, frozen=True):
    """A deleted file that embodiments must still be told of."""

    file: participants.SharedFile
    version: int
    waiting_for: tuple[str, ...]


class SyncState(Struct, frozen=True):
    """The progress of each embodiment."""

    token: Token
    devices: tuple[participants.Device, ...]
    tombstones: tuple[Tombstone, ...]


def pull(
    familiar: Familiar,
    device_id: str,
    since: Token | None = None,
    *,
    goes_on: bool = False,
    registers: bool = True,
) -> EmbodimentPull:
    """Return the changes since an embodiment last pulled, or everything if that is unknown.

    The call confirms that it has the version `since`, and knows of all deletions up to it.

    Args:
        device_id: The embodiment.
        since: The version that it applied last.
        goes_on: It requests another part of the same answer, so files are not scanned again.
        registers: Register an unknown embodiment.
    """
    if goes_on:
        familiar.file_pasts.read_on()
    else:
        _read_past(familiar)
    known = _version_of(familiar, since)
    devices = participants.Devices(familiar.paths.embodiments)
    old = devices.all().get(device_id, participants.Device(device_id) if registers else None)
    if old and (not goes_on or old.seen != known):
        devices.put(replace(old, last_sync=iso(now()), seen=known))
    pasts = familiar.file_pasts
    found = pasts.kept((pasts.hash, known), lambda: _collect_changes(pasts, known))
    return replace(found, is_known=old is not None)


def _collect_changes(pasts: FilePasts, known: int) -> EmbodimentPull:
    entries, deleted = [], []
    for rel_path in pasts.paths:
        versions = pasts.versions(rel_path)
        if versions[-1].at <= known:
            continue
        file = participants.shared_file(rel_path)
        assert file is not None  # others are ignored
        text = pasts.text(rel_path, versions[-1])
        if versions[-1].is_gone:
            deleted.append(file)
        elif text is not None and (shown := _shareable_text(text)):
            entries.append(_shared_entry(file, text, shown, versions))
    return EmbodimentPull(
        tuple(entries), tuple(deleted), Token(pasts.count, pasts.hash), is_whole=not known
    )


def push(
    familiar: Familiar,
    writer: write_memories.Writer,
    device: participants.Device,
    changes: Sequence[Sent],
    since: Token | None = None,
) -> tuple[tuple[Received, ...], Token]:
    """Apply an embodiment's changes; return the result of each, and the new version.

    Args:
        writer: The author of the changes.
        device: The embodiment.
        since: The version that it applied last.

    Raises:
        NotFoundError: It is unknown, or was forgotten: it has to pull first.
        ConflictError: Others kept changing the same files; nothing was changed.
    """
    devices = participants.Devices(familiar.paths.embodiments)
    known = devices.all().get(device.id)
    if known is None:
        raise errors.NotFoundError(
            f"The embodiment {device.id!r} is not known here; nothing was changed",
            hint="First call sync_pull on a server started with --embodiments.",
        )

    def push() -> tuple[FilePasts, int, list[Received]]:
        pasts = _read_past(familiar)
        seen = _version_of(familiar, since)
        return pasts, seen, _Push(familiar, writer, device.id, seen).take(changes)

    pasts, seen, received = retry_on_conflict(push, _TRIES)
    pasts.read_on()
    told = replace(
        known,
        type=device.type or known.type,
        name=device.name or known.name,
        last_sync=iso(now()),
        seen=max(seen, known.seen),
    )
    devices.put(told)
    done = (_with_clock(familiar, one) for one in received)
    return tuple(done), Token(pasts.count, pasts.hash)


def sync_state(familiar: Familiar) -> SyncState:
    """Return each embodiment's progress, and the deletions it has not been told of."""
    pasts = _read_past(familiar)
    devices = participants.Devices(familiar.paths.embodiments).all()
    tombstones = []
    for rel_path in pasts.paths:
        last = pasts.versions(rel_path)[-1]
        waiting = tuple(name for name, device in devices.items() if device.seen < last.at)
        file = participants.shared_file(rel_path)
        if last.is_gone and waiting and file:
            tombstones.append(Tombstone(file, last.at, waiting))
    token = Token(pasts.count, pasts.hash)
    return SyncState(token, tuple(devices.values()), tuple(tombstones))


def forget_device(familiar: Familiar, device_id: str) -> bool:
    """Forget an embodiment: it has to pull before it may push. Returns whether it was known."""
    return participants.Devices(familiar.paths.embodiments).forget(device_id)


class _Push(Struct):
    """A push under way.

    Args:
        writer: The author of the changes.
        device: The embodiment.
        seen: The version that it applied last.
    """

    familiar: Familiar
    writer: write_memories.Writer
    device: str
    seen: int
    judged: dict[str, ChangeVerdict] = field(default_factory=dict)
    results: dict[int, Received] = field(default_factory=dict)
    full: dict[str, str | None] = field(default_factory=dict)
    sent: dict[str, str | None] = field(default_factory=dict)

    def take(self, changes: Sequence[Sent]) -> list[Received]:
        """Check, merge and write changes; refused ones do not affect the others."""
        numbers: dict[str, int] = {}
        for number, sent in enumerate(changes):
            try:
                rel_path = self._judge(sent)
            except errors.FamiliarError as error:
                self.results[number] = _refuse_change(sent, error)
            else:
                numbers[rel_path] = number
        merged = self._merge()
        wanted = self._wanted(merged, numbers)
        waiting = self._waiting(wanted)
        plans = self._plan({path: wanted[path] for path in waiting})
        self._write({path: text for path, text in wanted.items() if path not in waiting})
        for rel_path, number in numbers.items():
            if number not in self.results:
                self.results[number] = self._received(rel_path, merged, plans)
        return [self.results[number] for number in range(len(changes))]

    def _judge(self, sent: Sent) -> str:
        store = self.familiar.memory
        rel_path = write_memories.path_of(store, sent.place, is_new=sent.content is not None)
        if not participants.is_shared(rel_path):
            raise errors.RefusedError(f"{rel_path!r} is not a file that embodiments share")
        if rel_path in self.judged:
            raise errors.RefusedError(f"{rel_path!r} was sent twice; the first one counts")
        full = write_memories.read_if_there(store, rel_path)
        versions = self.familiar.file_pasts.versions(rel_path)
        shown = None if full is None else _shareable_text(full)
        here = FileHere(shown, versions, partial(self._text, rel_path))
        change = EmbodimentChange(rel_path, None, sent.clock, self.seen)
        if sent.content is not None:
            change = replace(change, text=self._words(rel_path, sent, here, change))
        self.full[rel_path], self.sent[rel_path] = full, sent.content
        self.judged[rel_path] = judge_change(change, here)
        return rel_path

    def _words(self, rel_path: str, sent: Sent, here: FileHere, change: EmbodimentChange) -> str:
        """Return the text sent, with tags added to new bullets."""
        text = write_memories.check_content(sent.content or "")
        if not (file := participants.shared_file(rel_path)) or file.category:
            return text
        base = judge_change(change, here).base
        known = bare_items(here.now or "") | bare_items(base or "")
        return tag_bullets(text, via=sent.source or self.device, chats=sent.chats, known=known)

    def _text(self, rel_path: str, version: Version) -> str | None:
        text = self.familiar.file_pasts.text(rel_path, version)
        return None if text is None else _shareable_text(text)

    def _merge(self) -> Merged:
        both = any(one.order == "concurrent" for one in self.judged.values())
        copies = _conflict_copies(self.familiar.memory) if both else {}
        own = self.familiar.instance.id
        return merge(self.judged.values(), self.device, own, self._now, copies)

    def _now(self, rel_path: str) -> str | None:
        full = self.full.get(rel_path)
        return None if full is None else _shareable_text(full)

    def _wanted(self, merged: Merged, numbers: Mapping[str, int]) -> dict[str, str | None]:
        """Return the new text of each file to change; invalid changes are refused."""
        wanted: dict[str, str | None] = {}
        for rel_path, text in merged.texts.items():
            full = self.full.get(rel_path)
            try:
                if text is None and full is not None and holds_back(full, NOBODY, rel_path):
                    raise errors.RefusedError(
                        f"{rel_path!r} cannot be deleted from here; it was kept"
                    )
                whole = None if text is None else put_back(full or "", text, NOBODY)
                if whole != full:
                    with self.familiar.memory.transaction("", "", dry_run=True) as tx:
                        write_memories.stage_change(tx, rel_path, self._before(rel_path), whole)
                    wanted[rel_path] = whole
            except errors.ConflictError:
                raise
            except errors.FamiliarError as error:
                if rel_path in numbers:
                    reason = f"{error}. {error.hint or ''}".strip()
                    self.results[numbers[rel_path]] = Received(rel_path, "refused", reason=reason)
        return wanted

    def _waiting(self, wanted: Mapping[str, str | None]) -> set[str]:
        """List the files whose change awaits review."""
        if not self.writer.may_write:
            return set(wanted)
        pasts = self.familiar.file_pasts
        there = sum(not pasts.versions(path)[-1].is_gone for path in pasts.paths)
        gone = {path for path, text in wanted.items() if text is None}
        waiting = gone if len(gone) > max(_FEW, there * _SHARE) else set()
        return waiting | {
            path
            for path, text in wanted.items()
            if text is not None and write_memories.shrinks_by_half(self.full.get(path) or "", text)
        }

    def _plan(self, files: Mapping[str, str | None]) -> dict[str, str]:
        """Make plans of changes, and return their ids by path."""
        if not files:
            return {}
        planned = [
            PlannedFile(path, self._before(path), text or "", deletes=text is None)
            for path, text in sorted(files.items())
        ]
        # What an embodiment sends includes its earlier changes that still await review.
        what = f"sync with {self.device}"
        waiting = write_memories.plans_of(self.familiar.memory, self.writer)
        before = next((plan for plan in waiting if plan.rests_on.endswith(what)), None)
        held = self.writer.may_write
        plan = write_memories.propose_changes(
            self.familiar, self.writer, planned, what, held=held, instead=before
        )
        return dict.fromkeys(files, plan)

    def _write(self, files: Mapping[str, str | None]) -> None:
        if not files:
            return
        trailers = {RUN_ID: self.writer.session, EMBODIMENT: self.device}
        message = f"sync with {self.device}"
        store = self.familiar.memory
        with store.transaction(self.writer.source, message, trailers=trailers) as tx:
            for rel_path, text in sorted(files.items()):
                write_memories.stage_change(tx, rel_path, self._before(rel_path), text)

    def _before(self, rel_path: str) -> str | None:
        if rel_path in self.full:
            return self.full[rel_path]
        return write_memories.read_if_there(self.familiar.memory, rel_path)

    def _received(self, rel_path: str, merged: Merged, plans: Mapping[str, str]) -> Received:
        one, sent = self.judged[rel_path], self.sent[rel_path]
        copy = merged.conflicts.get(rel_path, "")
        if rel_path in plans:
            result: Result = "held" if self.writer.may_write else "planned"
            plan = plans[rel_path]
            return Received(rel_path, result, one.order, content=sent, plan_id=plan, copy=copy)
        results: dict[Order, Result] = {
            "equal": "unchanged",
            "before": "stale",
            "after": "applied",
            "concurrent": "merged",
        }
        result = results[one.order]
        if rel_path in merged.kept:
            result = "kept"
        elif copy:
            result = "conflict"
        return Received(rel_path, result, one.order, content=sent, copy=copy)


def _shareable_text(text: str) -> str:
    """Return the part of a file that an embodiment may see."""
    return harmless(outward_text(text, NOBODY)).replace("\r", "\n")


def _conflict_copies(store: MemoryStore) -> dict[str, str]:
    """Return the texts of the files in `conflicts/`; others are left out."""
    found = {}
    for entry in store.walk(CONFLICTS_DIR, missing_ok=True).files:
        with suppress(errors.BadInputError, errors.NotFoundError):
            found[entry.rel_path] = store.read_file(entry.rel_path)
    return found


def _read_past(familiar: Familiar) -> FilePasts:
    """Return the history of all files, including edits by hand up to now."""
    store, repository = familiar.memory, familiar.journal.repository
    if not repository.exists and store.root.is_dir():
        with hold_lock(store.lock_path, store.lock_timeout_s):
            if not repository.exists:
                repository.create()
    store.catch_up()
    familiar.file_pasts.read_on()
    return familiar.file_pasts


def _version_of(familiar: Familiar, since: Token | None) -> int:
    """Return the version of this memory that a token stands for; 0 if none."""
    pasts = familiar.file_pasts
    if since is None or not 0 < since.version <= pasts.count:
        return 0
    is_ours = not since.hash or since.hash == pasts.hash_at(since.version)
    return since.version if is_ours else 0


def _shared_entry(
    file: participants.SharedFile, text: str, shown: str, versions: Sequence[Version]
) -> SharedEntry:
    by = versions[-1].instance
    if file.category:
        return SharedEntry(file, shown, clock_of(versions), by)
    source, others = participants.source_of(file, text), participants.participating_in(text)
    return SharedEntry(file, shown, clock_of(versions), by, source, others)


def _with_clock(familiar: Familiar, one: Received) -> Received:
    """Complete the result of a change with the file's current state."""
    versions = familiar.file_pasts.versions(one.rel_path)
    if one.result == "refused" or not versions:
        return replace(one, content=None, is_gone=one.result == "unchanged")
    text = familiar.file_pasts.text(one.rel_path, versions[-1])
    shown = None if text is None else _shareable_text(text)
    is_as_sent = shown is not None and shown.strip() == (one.content or "").strip()
    content, is_gone = None if is_as_sent else shown, versions[-1].is_gone
    return replace(one, clock=clock_of(versions), content=content, is_gone=is_gone)


def _refuse_change(sent: Sent, error: errors.FamiliarError) -> Received:
    place = sent.place
    named = place.rel_path or " ".join(filter(None, (place.granularity, place.date, place.slug)))
    return Received(named, "refused", reason=f"{error}. {error.hint or ''}".strip())
