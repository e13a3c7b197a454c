"""Decide which machines are trusted and which large deletions are merged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from familiar_cli.errors import NotFoundError
from familiar_cli.passes.failures import SYNCING
from familiar_cli.sync.participants import PendingDeletions, SyncParticipants, Trust
from familiar_cli.sync.remotes import SeenRefs, instances_seen
from familiar_cli.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from familiar_cli.familiar import Familiar
    from familiar_cli.sync.engine import SyncEngine
    from familiar_cli.sync.joining import Outcome
    from familiar_cli.sync.participants import LargeDeletion
    from familiar_cli.sync.remotes import RefAside, Remotes


@dataclass(frozen=True, slots=True)
class PendingDecisions:
    """Pending decisions that a person has to make before a sync is complete.

    Args:
        unseen: Machines that were announced, and that nobody looked at yet.
        waiting: Machines of which nothing is taken before they are allowed.
        held: How many facts about the turns of others wait, by the machine that states them.
        deletions: Merges that would delete a large part of the memory.
        aside: Branches of a remote of which nothing is taken, by the remote's name.
        bundles: Bundles in folders that anybody could have written: remote, file and reason.
    """

    unseen: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    held: Mapping[str, int] = field(default_factory=dict)
    deletions: tuple[LargeDeletion, ...] = ()
    aside: tuple[tuple[str, RefAside], ...] = ()
    bundles: tuple[tuple[str, str, str], ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether something stays unmerged until a person decides or repairs it."""
        return bool(self.waiting or self.held or self.deletions or self.aside or self.bundles)

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands that resolve what is pending, for a hint."""
        names = [*self.waiting, *self.held]
        allow = [f"`familiar sync allow {names[0]}`"] if names else []
        return (*allow, *(["`familiar sync accept`"] if self.deletions else []))

    def lines(self) -> list[str]:
        """Return one line for each."""
        told = [f"new machine: {name} (`familiar sync devices`)" for name in self.unseen]
        told += [f"waiting: {name} is not allowed yet; nothing was taken" for name in self.waiting]
        told += [
            f"waiting: {counted(count, 'fact')} from {name} about turns or channels of others"
            for name, count in self.held.items()
        ]
        told += [
            f"waiting: merging {one.instance} would delete {one.deleted:,} of {one.files:,} files"
            for one in self.deletions
        ]
        told += [f"set aside: {ref.name} at {remote}: {ref.reason}" for remote, ref in self.aside]
        told += [f"skipped ({why}): {file} at {remote}" for remote, file, why in self.bundles]
        return told

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
        }


@dataclass(frozen=True, slots=True)
class DeviceTrust:
    """A machine that shares this familiar.

    Args:
        id: Its id.
        trust: See `Trust`.
        is_own: It is this one.
        new: It was announced, and nobody looked at it yet.
    """

    id: str
    trust: str
    is_own: bool = False
    new: bool = False


def participants_of(familiar: Familiar, remotes: Remotes) -> SyncParticipants:
    """Return the machines from which changes are accepted."""
    return SyncParticipants(remotes, approve=familiar.config.sync.approve == "on")


def pending_decisions(familiar: Familiar, remotes: Remotes) -> PendingDecisions:
    """Return the pending decisions as of the last sync, without contacting a remote.

    Raises:
        ConfigError: `sync.toml` cannot be read.
    """
    from familiar_cli.files import is_plain
    from familiar_cli.history.incoming import count_held
    from familiar_cli.sync.begin import refused_bundles

    participants = participants_of(familiar, remotes)
    trust = participants.all()
    held = count_held(familiar.history) if is_plain(familiar.paths.history) else {}
    repository = familiar.journal.repository
    aside = [
        (name, ref)
        for name in sorted(remotes.all())
        for ref in SeenRefs(repository, name).aside().values()
    ]
    return PendingDecisions(
        tuple(participants.unseen()),
        tuple(sorted(name for name, level in trust.items() if level is Trust.waiting)),
        {name: n for name, n in held.items() if trust.get(name) is Trust.new},
        tuple(o for o in PendingDeletions(repository).all() if _is_admitted(trust, o.instance)),
        tuple((name, ref) for name, ref in aside if _is_admitted(trust, ref.instance)),
        tuple(
            (name, file, reason)
            for name in sorted(remotes.all())
            for file, reason in refused_bundles(repository.path, name).items()
        ),
    )


def list_devices(familiar: Familiar, remotes: Remotes) -> tuple[DeviceTrust, ...]:
    """Return every known machine, and mark all of them as seen.

    Raises:
        ConfigError: `sync.toml` cannot be read or written.
    """
    participants, own = participants_of(familiar, remotes), familiar.instance.id
    unseen, trust = set(participants.unseen()), participants.all()
    names = {*trust, *instances_seen(familiar.journal.repository)} - {own}
    others = (DeviceTrust(n, trust.get(n, Trust.known), new=n in unseen) for n in sorted(names))
    found = (DeviceTrust(own, Trust.known, is_own=True), *others)
    participants.mark_seen()
    return found


def block_device(familiar: Familiar, remotes: Remotes, instance: str) -> None:
    """Take nothing more from a machine; see `Participants.block`."""
    heard_of = instances_seen(familiar.journal.repository)
    participants_of(familiar, remotes).block(instance, familiar.instance.id, heard_of)


def allow_device(familiar: Familiar, remotes: Remotes, instance: str) -> int:
    """Trust a machine, and apply its pending facts; see `Participants.allow`.

    Returns:
        How many facts about the turns of others were applied.
    """
    from familiar_cli.files import is_plain
    from familiar_cli.history.incoming import release

    heard_of = instances_seen(familiar.journal.repository)
    participants_of(familiar, remotes).allow(instance, heard_of)
    if not is_plain(familiar.paths.history):
        return 0
    return release(familiar.history, familiar.instance.id, instance)


async def accept_deletions(
    familiar: Familiar,
    remotes: Remotes,
    engine: SyncEngine,
    instance: str | None,
    *,
    wait_s: float,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[Sequence[LargeDeletion], Outcome]:
    """Merge pending changes that delete a large part of the memory.

    Args:
        familiar: Whose memory.
        remotes: Its remotes.
        engine: What syncs it.
        instance: The machine whose changes are merged; None: all that wait.
        wait_s: The longest wait for a sync of the same familiar.
        progress: Told in a few words what is being done.

    Returns:
        What waited, and what merging it did.

    Raises:
        NotFoundError: Nothing waits, or nothing of that machine.
        LockedError: Another process syncs this familiar for longer than `wait_s`.
    """
    from familiar_cli.passes.exclusive import Waiting, exclusive

    waiting = pending_decisions(familiar, remotes).deletions
    chosen = [one for one in waiting if instance in {None, one.instance}]
    if not chosen:
        told = f"No merge of {instance!r} waits" if instance else "No merge waits"
        raise NotFoundError(f"{told}; nothing was changed", hint="See `familiar sync status`.")
    words = Waiting(
        "Waiting for {who}, which is syncing.",
        "{who} is syncing this familiar; nothing was done",
        "Try again when it has finished.",
    )
    async with exclusive(familiar.passes.named(SYNCING).lock_path, wait_s, progress, words):
        try:
            return chosen, engine.accept(chosen)
        finally:
            familiar.journal.repository.close()


def _is_admitted(trust: Mapping[str, Trust], instance: str) -> bool:
    return trust.get(instance, Trust.known) in {Trust.known, Trust.new}
