"""Decisions that sync leaves to a person: which machines to trust, and how to resolve conflicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.errors import (
    BadInputError,
    FamiliarError,
    NotFoundError,
    OlderEpochError,
    OrderWaitsError,
    RefusedError,
    UsageError,
)
from familiar_cli.base.files import is_plain
from familiar_cli.base.text import counted, sha256_of, typed, unified
from familiar_cli.base.times.clock import elapsed_s, iso
from familiar_cli.store.history.attachments import stored_pictures
from familiar_cli.store.journal.edits import too_large_files
from familiar_cli.store.journal.repository import walk_ancestors
from familiar_cli.store.memory.layout import CONFLICTS_LIST
from familiar_cli.store.memory.merge.files import Conflict, conflicts_in, list_text
from familiar_cli.store.memory.store.files import MISSING, MOST_RECORDED_BYTES
from familiar_cli.store.passes import SYNCING, WaitMessages, exclusive
from familiar_cli.sync.begin import refused_bundles
from familiar_cli.sync.divergence import forget_lost_turns, lost_turns
from familiar_cli.sync.joining import Outcome
from familiar_cli.sync.participants import LargeDeletion, PendingDeletions, SyncParticipants, Trust
from familiar_cli.sync.remotes import FILE, RefAside, Remotes, SeenRefs, instances_seen
from familiar_cli.sync.turns_incoming import count_held, release_facts

if TYPE_CHECKING:
    from familiar_cli.familiar import Familiar
    from familiar_cli.store.memory.store.store import MemoryStore
    from familiar_cli.sync.engine import SyncEngine


WAITING: Final = WaitMessages(
    "Waiting for {who}, which is syncing.",
    "{who} is syncing this familiar; nothing was done",
    "Try again when it has finished.",
)


_LOOKED_AT: Final = 50  # newest changes whose times are compared
_APART: Final = timedelta(hours=1)


def clock_findings(familiar: Familiar) -> Iterator[str]:
    """Yield why the clock of a machine seems to be wrong."""
    latest = familiar.history.latest_turn()
    if latest and elapsed_s(latest.at) == math.inf:
        name = familiar.turn_names([latest.id])[latest.id]
        yield f"turn {name} was stored with a time in the future, {iso(latest.at)}"
    repository = familiar.journal.repository
    head, read = repository.head() if repository.exists else None, repository.commit
    with suppress(FamiliarError):
        newest = walk_ancestors([head] if head else [], lambda id_: read(id_).parents)
        for commit in map(read, islice(newest, _LOOKED_AT)):
            for other in map(read, commit.parents):
                if commit.instance != other.instance and other.time - commit.time > _APART:
                    first, then = (
                        f"{one.instance or familiar.instance.began} at {iso(one.time)}"
                        for one in (other, commit)
                    )
                    yield f"a change of {first} comes before one of {then}"
                    return


class PendingDecisions(Struct, frozen=True):
    """Decisions that a person has to make before a sync is complete.

    Args:
        unseen: Announced machines that nobody has looked at yet.
        waiting: Machines that need to be allowed first.
        held: Number of pending facts about others' turns, by the machine that states them.
        deletions: Merges that would delete a large part of the memory.
        aside: Ignored branches of a remote, by the remote's name.
        bundles: Bundles in folders without a proof of origin: remote, file and reason.
        here: What is wrong with this copy of the familiar, a line each.
        lost: Whether some turns are lost.
    """

    unseen: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    held: Mapping[str, int] = field(default_factory=dict)
    deletions: tuple[LargeDeletion, ...] = ()
    aside: tuple[tuple[str, RefAside], ...] = ()
    bundles: tuple[tuple[str, str, str], ...] = ()
    here: tuple[str, ...] = ()
    lost: bool = False

    @property
    def is_open(self) -> bool:
        """Whether something stays unmerged until a person decides or repairs it."""
        left = (self.deletions, self.aside, self.bundles, self.here)
        return bool(self.waiting or self.held or any(left))

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands that resolve the pending decisions, for a hint."""
        orders = [r.instance for _, r in self.aside if r.code == OrderWaitsError.code]
        names = [*self.waiting, *orders, *self.held]
        allow = [f"`familiar sync allow {names[0]}`"] if names else []
        accept = ["`familiar sync accept`"] if self.deletions or self.lost else []
        return (*allow, *accept)

    @property
    def branch_hint(self) -> str:
        """What to do about the branches set aside that no command here resolves."""
        codes = {ref.code for _, ref in self.aside}
        older = "Run `familiar sync` on the machines that are behind."
        other = "Repair such branches on the machine that pushed them, or delete them there."
        if OlderEpochError.code not in codes:
            return other
        return older if len(codes) == 1 else f"{older} {other}"

    def lines(self) -> list[str]:
        """Describe each in one line."""
        parts = [f"new machine: {name} (`familiar sync devices`)" for name in self.unseen]
        parts += [
            f"waiting: {name} is not allowed yet; nothing was accepted" for name in self.waiting
        ]
        parts += [
            f"waiting: {counted(count, 'fact')} from {name} about turns or channels of others"
            for name, count in self.held.items()
        ]
        parts += [
            f"waiting: merging {one.instance} would delete {one.deleted:,} of {one.files:,} files"
            for one in self.deletions
        ]
        parts += [f"set aside: {ref.name} at {remote}: {ref.reason}" for remote, ref in self.aside]
        parts += [f"skipped ({why}): {file} at {remote}" for remote, file, why in self.bundles]
        return [*parts, *self.here]

    def to_json(self) -> dict[str, Any]:
        """Return the fields for `--json`."""
        return {
            "new_devices": list(self.unseen),
            "waiting": {
                "devices": list(self.waiting),
                "facts": dict(self.held),
                "deletions": self.deletions,
            },
            "aside": [
                {"remote": remote, "ref": ref.name, "commit": ref.id, "reason": ref.reason}
                for remote, ref in self.aside
            ],
            "skipped_bundles": [
                {"remote": remote, "file": file, "reason": reason}
                for remote, file, reason in self.bundles
            ],
            "here": list(self.here),
        }


class DeviceTrust(Struct, frozen=True):
    """A machine that shares this familiar.

    Args:
        trust: See `Trust`.
        is_own: It is this one.
        new: It was announced, and nobody has looked at it yet.
    """

    id: str
    trust: str
    is_own: bool = False
    new: bool = False


def remotes_of(familiar: Familiar) -> Remotes:
    """Return the remotes of a familiar."""
    return Remotes(familiar.paths.root / FILE)


def participants_of(familiar: Familiar) -> SyncParticipants:
    """Return the machines from which changes are accepted."""
    return SyncParticipants(remotes_of(familiar), approve=familiar.config.sync.approve == "on")


def pending_decisions(
    familiar: Familiar, remotes: Collection[str] | None = None
) -> PendingDecisions:
    """Return the pending decisions as of the last sync, without contacting a remote.

    Args:
        familiar: The familiar.
        remotes: Only what these remotes hold; None for all.

    Raises:
        ConfigError: `sync.toml` cannot be read.
    """
    participants = participants_of(familiar)
    trust = participants.all()
    held = count_held(familiar.history) if is_plain(familiar.paths.history) else {}
    repository, names = familiar.journal.repository, sorted(remotes or remotes_of(familiar).all())
    aside = [(name, ref) for name in names for ref in SeenRefs(repository, name).aside().values()]
    return PendingDecisions(
        tuple(participants.unseen()),
        tuple(sorted(name for name, level in trust.items() if level is Trust.waiting)),
        {name: n for name, n in held.items() if trust.get(name) is Trust.new},
        tuple(o for o in PendingDeletions(repository).all() if _is_admitted(trust, o.instance)),
        tuple((name, ref) for name, ref in aside if _is_admitted(trust, ref.instance)),
        tuple(
            (name, file, reason)
            for name in names
            for file, reason in refused_bundles(repository.path, name).items()
        ),
        tuple(_own_problems(familiar)),
        bool(lost_turns(familiar.history)),
    )


def _own_problems(familiar: Familiar) -> Iterator[str]:
    """Yield what is wrong with this copy of the familiar, a line each."""
    if missing := familiar.missing_turns:
        yield missing
    large = too_large_files(familiar.journal.repository)
    if familiar.config.sync.attachments == "on":
        stored = stored_pictures(familiar.paths.root).items()
        sizes = {path: file.stat().st_size for path, file in stored}
        large |= {path: size for path, size in sizes.items() if size > MOST_RECORDED_BYTES}
    for path, size in large.items():
        yield (
            f"not synced: {path} has {size:,} bytes, over the limit of {MOST_RECORDED_BYTES:,};"
            " it stays here"
        )
    for losses in lost_turns(familiar.history):
        yield f"lost: turns {losses.instance}:{losses.first}-{losses.last} are in no history"


def list_devices(familiar: Familiar) -> tuple[DeviceTrust, ...]:
    """List the known machines, marking all of them as seen.

    Raises:
        ConfigError: `sync.toml` cannot be read or written.
    """
    participants, own = participants_of(familiar), familiar.instance.id
    unseen, trust = set(participants.unseen()), participants.all()
    names = {*trust, *instances_seen(familiar.journal.repository)} - {own}
    others = (DeviceTrust(n, trust.get(n, Trust.known), new=n in unseen) for n in sorted(names))
    items = (DeviceTrust(own, Trust.known, is_own=True), *others)
    participants.mark_seen()
    return items


def block_device(familiar: Familiar, instance: str) -> None:
    """Accept nothing more from a machine; see `Participants.block`."""
    heard_of = instances_seen(familiar.journal.repository)
    participants_of(familiar).block(instance, familiar.instance.id, heard_of)


def allow_device(familiar: Familiar, instance: str) -> int:
    """Trust a machine, and apply its pending facts; see `Participants.allow`.

    Returns:
        The number of facts about others' turns that were applied.
    """
    heard_of = instances_seen(familiar.journal.repository)
    participants_of(familiar).allow(instance, heard_of)
    if not is_plain(familiar.paths.history):
        return 0
    return release_facts(familiar.history, familiar.instance.id, instance)


async def accept_deletions(
    familiar: Familiar,
    engine: SyncEngine,
    instance: str | None,
    *,
    wait_s: float,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[Sequence[LargeDeletion], Outcome]:
    """Merge pending changes that delete a large part of the memory.

    Without any, turns that are lost are no longer reported.

    Args:
        engine: Its sync engine.
        instance: The machine whose changes are merged; None for all pending ones.
        wait_s: Maximum wait for a running sync of the same familiar.
        progress: Callback for short progress messages.

    Returns:
        The pending merges, and the result of merging them.

    Raises:
        NotFoundError: Nothing is pending, or nothing from that machine.
        LockedError: Another process syncs this familiar for longer than `wait_s`.
    """
    waiting = pending_decisions(familiar).deletions
    chosen = [one for one in waiting if instance in {None, one.instance}]
    if not chosen and instance is None and forget_lost_turns(familiar.history):
        return (), Outcome()
    if not chosen:
        text = f"No merge of {instance!r} waits" if instance else "No merge waits"
        raise NotFoundError(f"{text}; nothing was changed", hint="See `familiar sync status`.")
    lock_path = familiar.passes.named(SYNCING).lock_path
    async with exclusive(lock_path, wait_s, progress, WAITING):
        try:
            return chosen, engine.accept(chosen)
        finally:
            familiar.journal.repository.close()


def _is_admitted(trust: Mapping[str, Trust], instance: str) -> bool:
    return trust.get(instance, Trust.known) in {Trust.known, Trust.new}


Choice = Literal["ours", "theirs", "merged", "file", "copy"]
"""The version of this machine, or of the other one, where the two differ; both; or by its place.

Where neither is of this machine, the file counts as ours.
"""


class OpenConflict(Struct, frozen=True):
    """A file with two versions.

    Args:
        path: The file. It has both machines' changes, and one version where they differ.
        copy: The file with the complete other version.
        ours: The machine whose version is in the file; empty if unknown.
        theirs: The machine whose version is in the copy; empty if unknown.
        what: Kinds of the differing parts, e.g. `list item`.
        diff: Unified diff from the file to the copy; empty if one of them is not text.
    """

    path: str
    copy: str
    ours: str
    theirs: str
    what: tuple[str, ...]
    diff: str


class SettledFile(Struct, frozen=True):
    """The result of resolving one conflict.

    Args:
        copy: The other version, now deleted.
        changed: The file changed.
        diff: A unified diff; empty if nothing changed or it is not text.
    """

    path: str
    copy: str
    changed: bool
    diff: str


class SettledConflicts(Struct, frozen=True):
    """The resolved conflicts, and the number that remain.

    Args:
        files: One entry per conflict.
        left: Number of remaining conflicts.
        dry_run: Nothing was changed.
        skipped: Why others could not be resolved this way, by their copies.
    """

    files: tuple[SettledFile, ...]
    left: int
    dry_run: bool
    skipped: Mapping[str, str] = field(default_factory=dict)


class _Sides(Struct, frozen=True):
    """A conflict with its contents; None stands for a missing file."""

    conflict: Conflict
    ours: bytes | None
    theirs: bytes


def open_conflicts(familiar: Familiar) -> tuple[OpenConflict, ...]:
    """List the conflicts of the memory with both versions, sorted by path."""
    conflicts = conflicts_in(familiar.memory)
    return tuple(_open_conflict(_read_sides(familiar.memory, one)) for one in conflicts)


def resolve(
    familiar: Familiar, path: str | None, choice: Choice, *, dry_run: bool = False
) -> SettledConflicts:
    """Resolve one conflict, or all, in one change of the memory that can be undone.

    Among all, one that cannot be resolved this way stays, and does not stop the others.

    Args:
        path: A file in conflict or a copy below `conflicts/`; None for all.
        choice: Which version counts where they differ.
        dry_run: Check everything, change nothing.

    Raises:
        NotFoundError: No such conflict.
        UsageError: The file has several other versions; one has to be named.
        RefusedError: It is not text, so both versions cannot be kept in one file.
        ConflictError: A file was changed meanwhile; nothing was changed.
    """
    if path is not None:
        found = _select_conflicts(familiar, path, choice)
        after = [_chosen_content(familiar, one, choice) for one in found]
        return _settle_all(familiar.memory, found, after, choice, dry_run=dry_run)
    settled: list[tuple[_Sides, bytes | None]] = []
    errors: dict[str, FamiliarError] = {}
    for copy in [one.conflict.copy for one in _select_conflicts(familiar, None, "file")]:
        try:
            (one,) = _select_conflicts(familiar, copy, choice, among_all=True)
            settled.append((one, _chosen_content(familiar, one, choice)))
        except (RefusedError, UsageError) as error:
            errors[copy] = error
    if not settled:
        raise next(iter(errors.values()))
    sides, contents = zip(*settled, strict=True)
    conflicts = _settle_all(familiar.memory, sides, contents, choice, dry_run=dry_run)
    return replace(conflicts, skipped={copy: str(error) for copy, error in errors.items()})


def to_edit(familiar: Familiar, path: str | None) -> tuple[str, str]:
    """Return the copy of a conflict, and a draft that contains both versions.

    Raises as `resolve` does.
    """
    (one,) = _one(_select_conflicts(familiar, path, "merged"))
    return one.conflict.copy, _text(one, _chosen_content(familiar, one, "merged") or b"")


def resolve_by_hand(
    familiar: Familiar, path: str, text: str, *, dry_run: bool = False
) -> SettledConflicts:
    """Resolve the conflict of a file with a text that a person wrote.

    Raises as `resolve` does; also:
        UsageError: The text is empty.
    """
    if not text.strip():
        raise UsageError(
            f"The text is empty; {path!r} is as it was and still in conflict",
            hint=f"Run `familiar sync resolve {typed(path)} --edit` again.",
        )
    sides = _one(_select_conflicts(familiar, path, "merged"))
    return _settle_all(familiar.memory, sides, [text.encode()], "edit", dry_run=dry_run)


def _version(familiar: Familiar, conflict: Conflict, choice: Choice) -> Choice:
    """Return where the chosen version is: in the file, in the copy, or in both."""
    if choice in {"ours", "theirs"}:
        is_own_copied = conflict.theirs == familiar.instance.id
        return "copy" if is_own_copied == (choice == "ours") else "file"
    return choice


def _select_conflicts(
    familiar: Familiar, path: str | None, choice: Choice, *, among_all: bool = False
) -> list[_Sides]:
    """Return the conflicts of a path, or all for None.

    Args:
        path: A file in conflict, or a copy.
        choice: How to resolve them.
        among_all: A copy is one of all, so other versions of its file count, too.
    """
    known = conflicts_in(familiar.memory)
    if path is None:
        conflicts = known
    else:
        clean = path.removeprefix("./")
        conflicts = [one for one in known if clean in {one.path, one.copy}]
    if not conflicts:
        text = f"{path!r} is not in conflict" if path else "No file is in conflict"
        raise NotFoundError(
            f"{text}; nothing was changed", hint="List conflicts: `familiar sync resolve`."
        )
    paths = [one.path for one in (known if among_all else conflicts)]
    several = (one for one in conflicts if paths.count(one.path) > 1)
    twice = next((o.path for o in several if _version(familiar, o, choice) != "file"), None)
    if twice:
        copies = ", ".join(one.copy for one in known if one.path == twice)
        raise UsageError(
            f"{twice!r} has several other versions: {copies}; nothing was changed",
            hint=f"Name one: `familiar sync resolve {typed(conflicts[0].copy)} --{choice}`.",
        )
    return [_read_sides(familiar.memory, one) for one in conflicts]


def _one(sides: list[_Sides]) -> list[_Sides]:
    if len(sides) > 1:
        raise UsageError(
            f"There are {counted(len(sides), 'conflict')}; nothing was changed",
            hint="Name one file: `familiar sync resolve PATH --edit`.",
        )
    return sides


def _read_sides(store: MemoryStore, conflict: Conflict) -> _Sides:
    ours = store.read_bytes(conflict.path) if store.exists(conflict.path) else None
    return _Sides(conflict, ours, store.read_bytes(conflict.copy))


def _chosen_content(familiar: Familiar, one: _Sides, choice: Choice) -> bytes | None:
    """Return a file's content according to the choice."""
    choice = _version(familiar, one.conflict, choice)
    if choice == "file":
        return one.ours
    if one.ours is None:
        return one.theirs
    base = _base_content(familiar, one.conflict.base)
    from familiar_cli.store.memory.merge.content import WHOLE, merge_content

    made = merge_content(
        one.conflict.path,
        base or b"",
        one.ours,
        one.theirs,
        "both" if choice == "merged" else "theirs",
    )
    is_whole = WHOLE in made.clashes
    if choice == "merged" and is_whole:
        raise RefusedError(
            f"The versions of {one.conflict.path!r} do not fit into one file; nothing was changed",
            hint=f"Choose one: `familiar sync resolve {typed(one.conflict.path)} --ours`,"
            " or `--theirs`, or `--edit`.",
        )
    return one.theirs if is_whole or (base is None and choice == "copy") else made.content


def _base_content(familiar: Familiar, blob: str) -> bytes | None:
    """Return the common base of both versions; empty if there was none, None if unknown."""
    if not blob:
        return b""
    repository = familiar.journal.repository
    try:
        return repository.objects.read(blob)
    except FamiliarError:
        return None
    finally:
        repository.close()


def _settle_all(
    store: MemoryStore,
    sides: Sequence[_Sides],
    after: Sequence[bytes | None],
    how: str,
    *,
    dry_run: bool,
) -> SettledConflicts:
    gone = {one.conflict.copy for one in sides}
    left = [one for one in conflicts_in(store) if one.copy not in gone]
    name = sides[0].conflict.path if len(sides) == 1 else counted(len(sides), "conflict")
    with store.transaction("human", f"resolve {name}: {how}", dry_run=dry_run) as tx:
        for one, content in zip(sides, after, strict=True):
            if content is not None and content != one.ours:
                expect = MISSING if one.ours is None else sha256_of(one.ours)
                tx.write(one.conflict.path, content, expect=expect)
            tx.delete(one.conflict.copy, expect=sha256_of(one.theirs))
        if text := list_text(left):
            tx.write(CONFLICTS_LIST, text)
        elif store.exists(CONFLICTS_LIST):
            tx.delete(CONFLICTS_LIST)
    files = (
        SettledFile(
            one.conflict.path,
            one.conflict.copy,
            content != one.ours,
            _side_diff(one.ours or b"", content or b"", one.conflict.path, one.conflict.path),
        )
        for one, content in zip(sides, after, strict=True)
    )
    return SettledConflicts(tuple(files), len(left), dry_run)


def _open_conflict(one: _Sides) -> OpenConflict:
    found = one.conflict
    diff = _side_diff(one.ours or b"", one.theirs, found.path, found.copy)
    return OpenConflict(found.path, found.copy, found.ours, found.theirs, found.what, diff)


def _side_diff(before: bytes, after: bytes, old: str, new: str) -> str:
    try:
        return unified(before.decode(), after.decode(), old, new)
    except UnicodeDecodeError:
        return ""


def _text(one: _Sides, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise BadInputError(
            f"{one.conflict.path!r} is not text; nothing was changed",
            hint=f"Choose one: `familiar sync resolve {typed(one.conflict.path)} --ours`,"
            " or `--theirs`.",
        ) from error
