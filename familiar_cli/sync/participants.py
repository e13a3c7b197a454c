"""`Participants`: which instances a familiar takes changes from, and which were announced.

In `sync.toml`, beside the remotes:

[instances.phone-1a2b]
trust = "new"
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from familiar_cli.errors import NotFoundError, RefusedError
from familiar_cli.text import nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from familiar_cli.sync.remotes import Remotes


class Trust(StrEnum):
    """What is taken from an instance."""

    known = "known"
    """Its changes, and what it states about the turns of others."""

    new = "new"
    """Its changes, and what it states about its own turns. It was never allowed by a person."""

    waiting = "waiting"
    """Nothing before a person allows it."""

    blocked = "blocked"
    """Nothing."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What is taken from each instance.

    Args:
        trust: Of each that is known but this one.
    """

    trust: Mapping[str, Trust] = field(default_factory=dict)

    def ids(self, *trusts: Trust) -> tuple[str, ...]:
        """Return the instances that have one of these levels, sorted."""
        return tuple(sorted(name for name, trust in self.trust.items() if trust in trusts))

    def is_admitted(self, instance: str) -> bool:
        """Tell whether anything of an instance is taken; this one is always admitted."""
        return self.trust.get(instance, Trust.known) in {Trust.known, Trust.new}


class SyncParticipants:
    """The instances that share a familiar, and how far each is trusted.

    Args:
        remotes: The file in which it is stored.
        approve: `sync.approve`: nothing is taken from an instance before a person allows it.
    """

    def __init__(self, remotes: Remotes, *, approve: bool = False) -> None:
        self._remotes = remotes
        self._approve = approve

    def all(self) -> dict[str, Trust]:
        """Return the trust of every instance that was ever decided on or announced.

        Raises:
            ConfigError: `sync.toml` cannot be read.
        """
        known = {trust.value for trust in Trust}
        found = {name: row.get("trust") for name, row in self._remotes.instances().items()}
        return {name: self._effective(Trust(t)) for name, t in found.items() if t in known}

    def admit(
        self, found: Collection[str], known_before: Collection[str], *, dry_run: bool = False
    ) -> Admission:
        """Decide what is taken from the instances of a remote, and remember those that are new.

        Args:
            found: The instances that the remote names, without this one.
            known_before: Instances whose changes were taken before trust was recorded.
            dry_run: Remember nothing.

        Raises:
            ConfigError: `sync.toml` cannot be read or written.
        """
        stored = self.all()
        first_seen = tuple(sorted(set(found) - stored.keys() - set(known_before)))
        rows = dict.fromkeys(set(found) & set(known_before) - stored.keys(), Trust.known)
        rows |= dict.fromkeys(first_seen, Trust.new)
        if rows and not dry_run:
            self._remotes.set_instances({name: {"trust": t.value} for name, t in rows.items()})
        return Admission({n: self._effective(t) for n, t in rows.items()} | stored)

    def unseen(self) -> list[str]:
        """Return the instances that a person has not looked at yet, sorted."""
        rows = self._remotes.instances()
        trusts = self.all()
        fresh = {Trust.new, Trust.waiting}
        return sorted(n for n, t in trusts.items() if t in fresh and not rows[n].get("seen"))

    def mark_seen(self) -> None:
        """Announce none of those that were announced any longer; what is taken stays the same."""
        rows = {name: {"seen": True} for name in self.unseen()}
        if rows:
            self._remotes.set_instances(rows)

    def allow(self, instance: str, heard_of: Collection[str]) -> None:
        """Take changes of an instance, and what it states about others, from the next sync on.

        Raises:
            NotFoundError: Nobody has heard of it.
        """
        self._check(instance, heard_of)
        self._set(instance, Trust.known)

    def block(self, instance: str, own: str, heard_of: Collection[str]) -> None:
        """Take nothing more of an instance; what came of it before stays.

        Args:
            instance: Which.
            own: The instance that lives here.
            heard_of: Instances that are known without a decision.

        Raises:
            NotFoundError: Nobody has heard of it.
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
