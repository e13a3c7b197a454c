"""What is accepted from other instances: changes by trust, large deletions by a person's leave.

In `sync.toml`, beside the remotes:

[instances.phone-1a2b]
trust = "new"
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from familiar_cli.base.errors import NotFoundError, RefusedError
from familiar_cli.base.files import read_record, write_record
from familiar_cli.base.text import nearest

if TYPE_CHECKING:
    from familiar_cli.store.journal.repository import Repository
    from familiar_cli.sync.remotes import Remotes


class Trust(StrEnum):
    """What is accepted from an instance."""

    known = "known"
    """Changes, and facts about others' turns."""

    new = "new"
    """Changes, and facts about its own turns. Not approved by a person."""

    waiting = "waiting"
    """Nothing until a person approves it."""

    blocked = "blocked"
    """Nothing."""


class Admission(Struct, frozen=True):
    """What is accepted from each instance.

    Args:
        trust: Trust of each other known instance.
    """

    trust: Mapping[str, Trust] = field(default_factory=dict)

    def ids(self, *trusts: Trust) -> tuple[str, ...]:
        """Return the instances with one of these levels, sorted."""
        return tuple(sorted(name for name, trust in self.trust.items() if trust in trusts))

    def is_admitted(self, instance: str) -> bool:
        """Tell whether anything is accepted from an instance; this one is always admitted."""
        return self.trust.get(instance, Trust.known) in {Trust.known, Trust.new}


class SyncParticipants:
    """The instances that share a familiar, and how far each is trusted.

    Args:
        remotes: File with the trust settings.
        approve: `sync.approve`: accept nothing from an instance before a person approves it.
    """

    def __init__(self, remotes: Remotes, *, approve: bool = False) -> None:
        self._remotes = remotes
        self._approve = approve

    def all(self) -> dict[str, Trust]:
        """Return the trust of every instance that was ever decided on or announced.

        Raises:
            ConfigError: `sync.toml` cannot be read.
        """
        values = {trust.value for trust in Trust}
        result = {name: row.get("trust") for name, row in self._remotes.instances().items()}
        return {name: self._effective(Trust(t)) for name, t in result.items() if t in values}

    def admit(
        self, matches: Collection[str], known_before: Collection[str], *, dry_run: bool = False
    ) -> Admission:
        """Decide what to accept from a remote's instances, and record new ones.

        Args:
            matches: The remote's instances, except this one.
            known_before: Instances accepted before trust was recorded.
            dry_run: Record nothing.

        Raises:
            ConfigError: `sync.toml` cannot be read or written.
        """
        stored = self.all()
        first_seen = tuple(sorted(set(matches) - stored.keys() - set(known_before)))
        rows = dict.fromkeys(set(matches) & set(known_before) - stored.keys(), Trust.known)
        rows |= dict.fromkeys(first_seen, Trust.new)
        if rows and not dry_run:
            self._remotes.set_instances({name: {"trust": t.value} for name, t in rows.items()})
        return Admission({n: self._effective(t) for n, t in rows.items()} | stored)

    def unseen(self) -> list[str]:
        """Return the instances not reviewed by a person yet, sorted."""
        rows = self._remotes.instances()
        trusts = self.all()
        fresh = {Trust.new, Trust.waiting}
        return sorted(n for n, t in trusts.items() if t in fresh and not rows[n].get("seen"))

    def mark_seen(self) -> None:
        """Mark all announced instances as reviewed, without changing their trust."""
        rows = {name: {"seen": True} for name in self.unseen()}
        if rows:
            self._remotes.set_instances(rows)

    def allow(self, instance: str, heard_of: Collection[str]) -> None:
        """Accept an instance's changes and its facts about others from the next sync on.

        Raises:
            NotFoundError: Unknown instance.
        """
        self._check(instance, heard_of)
        self._set(instance, Trust.known)

    def block(self, instance: str, own: str, heard_of: Collection[str]) -> None:
        """Accept nothing more from an instance; earlier changes stay.

        Args:
            own: This instance.
            heard_of: Known instances without a decision.

        Raises:
            NotFoundError: Unknown instance.
            RefusedError: It is this one.
        """
        if instance == own:
            raise RefusedError(f"{instance!r} is this machine; nothing was changed")
        self._check(instance, heard_of)
        self._set(instance, Trust.blocked)

    def _effective(self, trust: Trust) -> Trust:
        return Trust.waiting if trust is Trust.new and self._approve else trust

    def _check(self, instance: str, heard_of: Collection[str]) -> None:
        known = {*self.all(), *heard_of}
        if instance not in known:
            guess = nearest(instance, known)
            raise NotFoundError(
                f"No machine has the id {instance!r}; nothing was changed",
                hint=f"Did you mean {guess!r}?" if guess else "List them: `familiar sync devices`.",
            )

    def _set(self, instance: str, trust: Trust) -> None:
        self._remotes.set_instances({instance: {"trust": trust.value, "seen": None}})


_FILE: Final = "familiar-deletions.json"
_MOST_FILES: Final = 10
_MOST_SHARE: Final = 4  # one file in so many


class LargeDeletion(Struct, frozen=True):
    """A merge held back because it would delete many files.

    Args:
        commit: The unmerged commit of another instance.
        instance: The instance whose branch it is.
        deleted: Number of files it would delete.
        files: Total number of files.
    """

    commit: str
    instance: str
    deleted: int
    files: int


def count_deleted(changes: Mapping[str, str | None], here: Mapping[str, str]) -> int:
    """Count deleted files, not counting moves."""
    id_s = {id_ for id_ in changes.values() if id_ is not None}
    return sum(id_ is None and here.get(path) not in id_s for path, id_ in changes.items())


def is_large(deleted: int, files: int) -> bool:
    """Tell whether deletions need approval: over ten, and over a quarter of all files."""
    return deleted > _MOST_FILES and deleted * _MOST_SHARE > files


class PendingDeletions:
    """Merges held back, in a file of the journal that the next sync can regenerate.

    Args:
        repository: The journal.
    """

    def __init__(self, repository: Repository) -> None:
        self._path = os.path.join(repository.path, _FILE)

    def all(self) -> tuple[LargeDeletion, ...]:
        """Return every merge held back."""
        return read_record(self._path, tuple[LargeDeletion, ...]) or ()

    def note(self, found: Iterable[LargeDeletion], heads: Collection[str]) -> None:
        """Record the merges held back, if possible.

        Args:
            found: Those found by a sync.
            heads: Commits it examined; records of others are kept.
        """
        instances = {one.instance for one in found}
        before = self.all()
        deletions = (o for o in before if o.commit not in heads and o.instance not in instances)
        now = (*deletions, *found)
        if now != before:
            write_record(self._path, now)
