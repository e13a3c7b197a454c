"""Sync with embodiments: programs with a copy of the familiar that do not use git.

An embodiment pulls the changes since its last sync, works with its copy, and pushes its own
changes, each with the version it is based on. Pushed changes follow the rules for all programs that
write; one that would delete or halve much awaits review, whatever the program may do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.actions.memory import write_memories
from familiar_cli.base import errors
from familiar_cli.base.text import harmless
from familiar_cli.base.times.clock import iso, now
from familiar_cli.base.who.visibility import Viewer
from familiar_cli.familiar import Familiar
from familiar_cli.store.memory.layout import CONFLICTS_DIR, RUN_ID
from familiar_cli.store.memory.merge.files import HUMAN, Editor, Side, blob_id, merge_trees
from familiar_cli.store.memory.pages.items import bare_items, tag_bullets
from familiar_cli.store.memory.pages.visible_lines import holds_back, outward_text, put_back
from familiar_cli.store.memory.store.store import MemoryStore, hold_lock
from familiar_cli.store.memory.store.transactions import retry_on_conflict
from familiar_cli.sync import shared_files
from familiar_cli.sync.shared_files import EMBODIMENT, Clock, FilePasts, Version, clock_of
from familiar_cli.writing.pending import PlannedFile

_TRIES: Final = 20  # others may write the same files at the same time
_FEW: Final = 3  # files that may always be deleted at once
_SHARE: Final = 0.2  # share of all files that may be deleted at once

Order = Literal["equal", "before", "after", "concurrent"]
Result = Literal[
    "applied", "merged", "conflict", "unchanged", "stale", "kept", "planned", "held", "refused"
]
_RESULTS: Final[Mapping[Order, Result]] = {
    "equal": "unchanged",
    "before": "stale",
    "after": "applied",
    "concurrent": "merged",
}


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

    file: shared_files.SharedFile
    content: str
    clock: Clock
    by: str
    source: str = ""
    participating: Sequence[str] = ()


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
    deleted: tuple[shared_files.SharedFile, ...]
    token: Token
    is_whole: bool
    is_known: bool = True


class EmbodimentChange(Struct, frozen=True):
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


class ChangeReceipt(Struct, frozen=True):
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


def pull(
    familiar: Familiar,
    device_id: str,
    since: Token | None = None,
    *,
    viewer: Viewer,
    goes_on: bool = False,
    registers: bool = True,
) -> EmbodimentPull:
    """Return the visible changes since an embodiment last pulled, or everything if that is unknown.

    The call confirms that it has the version `since`, and knows of all deletions up to it.

    Args:
        device_id: The embodiment.
        since: The version that it applied last.
        goes_on: It requests another part of the same answer, so files are not scanned again.
        registers: Register an unknown embodiment.
    """
    if not goes_on:
        _commit_edits(familiar)
    pasts = _pasts_for(familiar, viewer)
    version = _version_of(pasts, since)
    seen = pasts.whole_version(version)
    devices = shared_files.Devices(familiar.paths.embodiments)
    old = devices.all().get(device_id, shared_files.Device(device_id) if registers else None)
    if old and (not goes_on or old.seen != seen):
        devices.put(replace(old, last_sync=iso(now()), seen=seen))
    key = pasts.hash, version, viewer.scopes, viewer.rules.stamp()
    found = pasts.kept(key, lambda: _collect_changes(pasts, version, viewer))
    return replace(found, is_known=old is not None)


def _collect_changes(pasts: FilePasts, known: int, viewer: Viewer) -> EmbodimentPull:
    entries, deleted = [], []
    for rel_path in pasts.paths:
        versions = pasts.versions(rel_path)
        if versions[-1].at <= known:
            continue
        file = shared_files.shared_file(rel_path)
        assert file is not None  # others are ignored
        text = pasts.text(rel_path, versions[-1])
        if versions[-1].is_gone:
            deleted.append(file)
        elif text is not None and (shown := _shareable_text(text, viewer, rel_path)):
            # What a page says of itself, it says to the owner.
            about = text if viewer.is_owner else shown
            entries.append(_shared_entry(file, about, shown, versions))
    return EmbodimentPull(
        tuple(entries), tuple(deleted), Token(pasts.count, pasts.hash), is_whole=not known
    )


def push(
    familiar: Familiar,
    writer: write_memories.Writer,
    device: shared_files.Device,
    changes: Sequence[EmbodimentChange],
    since: Token | None = None,
) -> tuple[tuple[ChangeReceipt, ...], Token]:
    """Apply an embodiment's changes; return the result of each, and the new version.

    Args:
        writer: The author of the changes.
        device: The embodiment.
        since: The version that it applied last.

    Raises:
        NotFoundError: It is unknown, or was forgotten: it has to pull first.
        ConflictError: Others kept changing the same files; nothing was changed.
    """
    devices = shared_files.Devices(familiar.paths.embodiments)
    known = devices.all().get(device.id)
    if known is None:
        raise errors.NotFoundError(
            f"The embodiment {device.id!r} is not known here; nothing was changed",
            hint="First call sync_pull on a server started with --embodiments.",
        )

    def push() -> tuple[int, list[ChangeReceipt]]:
        _commit_edits(familiar)
        pasts = _pasts_for(familiar, writer.viewer)
        seen = _version_of(pasts, since)
        received = _Push(familiar, pasts, writer, device.id, seen).take(changes)
        return pasts.whole_version(seen), received

    seen, received = retry_on_conflict(push, _TRIES)
    pasts = _pasts_for(familiar, writer.viewer)
    told = replace(
        known,
        type=device.type or known.type,
        name=device.name or known.name,
        last_sync=iso(now()),
        seen=max(seen, known.seen),
    )
    devices.put(told)
    done = (_with_clock(pasts, writer.viewer, one) for one in received)
    return tuple(done), Token(pasts.count, pasts.hash)


def sync_state(
    familiar: Familiar,
) -> tuple[int, list[shared_files.Device], list[tuple[shared_files.SharedFile, int, list[str]]]]:
    """Return the memory's version, each embodiment's progress, and deletions some have not seen.

    A deletion is the file, the version of the memory that deleted it, and who has not seen it.
    """
    _commit_edits(familiar)
    pasts = familiar.file_pasts
    pasts.read_on()
    devices = shared_files.Devices(familiar.paths.embodiments).all()
    unseen = []
    for rel_path in pasts.paths:
        last = pasts.versions(rel_path)[-1]
        waiting = [name for name, device in devices.items() if device.seen < last.at]
        file = shared_files.shared_file(rel_path)
        if last.is_gone and waiting and file:
            unseen.append((file, last.at, waiting))
    return pasts.count, list(devices.values()), unseen


def forget_device(familiar: Familiar, device_id: str) -> bool:
    """Forget an embodiment: it has to pull before it may push. Returns whether it was known."""
    return shared_files.Devices(familiar.paths.embodiments).forget(device_id)


class _Change(Struct, frozen=True):
    """A change beside the file that it changes.

    Args:
        sent: The text as sent; None for a deletion.
        text: The same, with tags added to new bullets.
        full: The file's whole text; None if there is none.
        now: The part of it that embodiments see.
        base: The text that the change was made from; None if there was none or it is unknown.
        since: The versions after that.
        order: How the change relates to the file.
    """

    sent: str | None
    text: str | None
    full: str | None
    now: str | None
    base: str | None
    since: Sequence[Version]
    order: Order


class _Push(Struct):
    """A push under way.

    Args:
        pasts: The versions that it sees.
        writer: The author of the changes.
        device: The embodiment.
        seen: The version that it applied last.
    """

    familiar: Familiar
    pasts: FilePasts
    writer: write_memories.Writer
    device: str
    seen: int
    changes: dict[str, _Change] = field(default_factory=dict)
    refused: dict[str, ChangeReceipt] = field(default_factory=dict)

    def take(self, changes: Sequence[EmbodimentChange]) -> list[ChangeReceipt]:
        """Check, merge and write changes; refused ones do not affect the others."""
        read = [self._read_change(change) for change in changes]
        texts, copies = self._merge()
        wanted = self._wanted_texts(texts)
        waiting = self._waiting_files(wanted)
        plans = self._plan({path: wanted[path] for path in waiting})
        self._write({path: text for path, text in wanted.items() if path not in waiting})
        done = {path: self._make_receipt(path, texts, copies, plans) for path in self.changes}
        return [
            one if isinstance(one, ChangeReceipt) else (done | self.refused)[one] for one in read
        ]

    def _read_change(self, sent: EmbodimentChange) -> str | ChangeReceipt:
        """Add a change to `changes`, and return its path; or the refusal."""
        try:
            return self._compare(sent)
        except errors.FamiliarError as error:
            place = sent.place
            parts = (place.granularity, place.date, place.slug)
            return _refusal(place.rel_path or " ".join(filter(None, parts)), error)

    def _compare(self, sent: EmbodimentChange) -> str:
        store = self.familiar.memory
        rel_path = write_memories.path_of(
            store, self.writer, sent.place, is_new=sent.content is not None
        )
        file = shared_files.shared_file(rel_path)
        if file is None:
            raise errors.RefusedError(f"{rel_path!r} is not a file that embodiments share")
        if rel_path in self.changes:
            raise errors.RefusedError(f"{rel_path!r} was sent twice; the first one counts")
        full = write_memories.read_if_there(store, rel_path)
        now = None if full is None else _shareable_text(full, self.writer.viewer, rel_path)
        versions = self.pasts.versions(rel_path)
        at = _base_number(sent.clock, versions, self.seen)
        base = self._text(rel_path, versions[at - 1]) if at else None
        since = versions[at or 0 :]
        text = sent.content
        if text is not None:
            text = write_memories.check_content(text)
            if not file.category:
                known = bare_items(now or "") | bare_items(base or "")
                via = sent.source or self.device
                text = tag_bullets(text, via=via, chats=sent.chats, known=known)
        order: Order = "concurrent" if since else "after"
        # What was there before counts as `before`, whatever its base: answers are lost, requests
        # repeated, and devices restored from backups.
        if text == now:
            order = "equal"
        elif (at and text == base) or any(self._text(rel_path, v) == text for v in since):
            order = "before"
        self.changes[rel_path] = _Change(sent.content, text, full, now, base, since, order)
        return rel_path

    def _text(self, rel_path: str, version: Version) -> str | None:
        text = self.pasts.text(rel_path, version)
        return None if text is None else _shareable_text(text, self.writer.viewer, rel_path)

    def _merge(self) -> tuple[dict[str, str | None], dict[str, str]]:
        """Return the new texts of changed files, and the copies of versions that are in none."""
        new = {p: one for p, one in self.changes.items() if one.order in {"after", "concurrent"}}
        copies = _conflict_copies(self.familiar.memory)
        blobs: dict[str, bytes] = {}

        def tree(which: str) -> dict[str, str]:
            texts = copies | {path: getattr(one, which) for path, one in new.items()}
            result = {path: text.encode() for path, text in texts.items() if text is not None}
            blobs.update((blob_id(content), content) for content in result.values())
            return {path: blob_id(content) for path, content in result.items()}

        def our_hands(path: str) -> tuple[Editor, ...]:
            since = new[path].since if path in new else ()
            return tuple(dict.fromkeys(Editor(v.instance, v.source) for v in since))

        base, ours, theirs = map(tree, ("base", "now", "text"))
        made = merge_trees(
            base,
            Side(ours, self.familiar.instance.id, our_hands),
            # An edit on an embodiment counts as a person's: it is never treated as a derived file
            # that could be regenerated.
            Side(theirs, self.device, lambda _: (Editor(self.device, HUMAN),)),
            blobs.__getitem__,
        )
        blobs |= made.blobs
        changes = made.changes_from(ours).items()
        texts = {path: blobs[blob].decode() if blob else None for path, blob in changes}
        return texts, {one.path: one.copy for one in made.conflicts}

    def _wanted_texts(self, texts: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return the whole text of each file to change; invalid changes are refused."""
        wanted: dict[str, str | None] = {}
        viewer = self.writer.viewer
        for rel_path, text in texts.items():
            full = self._full(rel_path)
            try:
                if text is None and full is not None and holds_back(full, viewer, rel_path):
                    raise errors.RefusedError(
                        f"{rel_path!r} cannot be deleted from here; it was kept"
                    )
                whole = None if text is None else put_back(full or "", text, viewer, rel_path)
                if whole != full:
                    with self.familiar.memory.transaction("", "", dry_run=True) as tx:
                        write_memories.stage_change(tx, rel_path, self._before(rel_path), whole)
                    wanted[rel_path] = whole
            except errors.ConflictError:
                raise
            except errors.FamiliarError as error:
                if rel_path in self.changes:
                    self.refused[rel_path] = _refusal(rel_path, error)
        return wanted

    def _waiting_files(self, wanted: Mapping[str, str | None]) -> set[str]:
        """List the files whose change awaits review."""
        if not self.writer.may_write:
            return set(wanted)
        there = sum(not self.pasts.versions(path)[-1].is_gone for path in self.pasts.paths)
        gone = {path for path, text in wanted.items() if text is None}
        waiting = gone if len(gone) > max(_FEW, there * _SHARE) else set()
        return waiting | {
            path
            for path, text in wanted.items()
            if text is not None and write_memories.shrinks_by_half(self._full(path) or "", text)
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

    def _full(self, rel_path: str) -> str | None:
        return self.changes[rel_path].full if rel_path in self.changes else None

    def _before(self, rel_path: str) -> str | None:
        if rel_path in self.changes:
            return self.changes[rel_path].full
        return write_memories.read_if_there(self.familiar.memory, rel_path)

    def _make_receipt(
        self,
        rel_path: str,
        texts: Mapping[str, str | None],
        copies: Mapping[str, str],
        plans: Mapping[str, str],
    ) -> ChangeReceipt:
        one, copy = self.changes[rel_path], copies.get(rel_path, "")
        result = _RESULTS[one.order]
        if rel_path in plans:
            result = "held" if self.writer.may_write else "planned"
        elif copy:
            result = "conflict"
        elif one.order == "concurrent" and None in {one.text, one.now}:
            result = "merged" if texts.get(rel_path, one.now) is None else "kept"
        return ChangeReceipt(
            rel_path,
            result,
            one.order,
            content=one.sent,
            plan_id=plans.get(rel_path, ""),
            copy=copy,
        )


def _base_number(clock: Clock | None, versions: Sequence[Version], seen: int) -> int | None:
    """Return the number of the version of a file that a change is based on; 0 for none.

    None if it is based on changes that this journal lost or never had.
    """
    if clock is None:
        return sum(version.at <= seen for version in versions)
    at = sum(clock.values())
    is_known = clock_of(versions[:at]) == {name: count for name, count in clock.items() if count}
    return at if is_known else None


def _shareable_text(text: str, viewer: Viewer, rel_path: str) -> str:
    """Return the part of a file that an embodiment may see."""
    return harmless(outward_text(text, viewer, rel_path)).replace("\r", "\n")


def _conflict_copies(store: MemoryStore) -> dict[str, str]:
    """Return the texts of the files in `conflicts/`; others are left out."""
    result = {}
    for entry in store.walk(CONFLICTS_DIR, missing_ok=True).files:
        with suppress(errors.BadInputError, errors.NotFoundError):
            result[entry.rel_path] = store.read_file(entry.rel_path)
    return result


def _commit_edits(familiar: Familiar) -> None:
    """Commit edits by hand up to now."""
    store, repository = familiar.memory, familiar.journal.repository
    if not repository.exists and store.root.is_dir():
        with hold_lock(store.lock_path, store.lock_timeout_s):
            if not repository.exists:
                repository.create()
    store.catch_up()


def _pasts_for(familiar: Familiar, viewer: Viewer) -> FilePasts:
    """Return the history of all files; for others than the owner, what they see of it."""
    pasts = familiar.file_pasts
    pasts.read_on()
    if viewer.is_owner:
        return pasts
    key = viewer.scopes, viewer.rules.stamp()
    return pasts.visible(key, lambda text, path: _shareable_text(text, viewer, path))


def _version_of(pasts: FilePasts, since: Token | None) -> int:
    """Return the version of this memory that a token stands for; 0 if none."""
    if since is None or not 0 < since.version <= pasts.count:
        return 0
    is_ours = not since.hash or since.hash == pasts.hash_at(since.version)
    return since.version if is_ours else 0


def _shared_entry(
    file: shared_files.SharedFile, text: str, shown: str, versions: Sequence[Version]
) -> SharedEntry:
    by = versions[-1].instance
    if file.category:
        return SharedEntry(file, shown, clock_of(versions), by)
    source, others = shared_files.source_of(file, text), shared_files.participating_in(text)
    return SharedEntry(file, shown, clock_of(versions), by, source, others)


def _with_clock(pasts: FilePasts, viewer: Viewer, one: ChangeReceipt) -> ChangeReceipt:
    """Complete the result of a change with the file's current state."""
    versions = pasts.versions(one.rel_path)
    if one.result == "refused" or not versions:
        return replace(one, content=None, is_gone=one.result == "unchanged")
    text = pasts.text(one.rel_path, versions[-1])
    shown = None if text is None else _shareable_text(text, viewer, one.rel_path)
    is_as_sent = shown is not None and shown.strip() == (one.content or "").strip()
    content, is_gone = None if is_as_sent else shown, versions[-1].is_gone
    return replace(one, clock=clock_of(versions), content=content, is_gone=is_gone)


def _refusal(rel_path: str, error: errors.FamiliarError) -> ChangeReceipt:
    return ChangeReceipt(rel_path, "refused", reason=f"{error}. {error.hint or ''}".strip())
