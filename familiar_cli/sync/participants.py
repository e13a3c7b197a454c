"""Instances that share a familiar, the devices they run on, and files that travel.

In `sync.toml`, beside the remotes:

[instances.phone-1a2b]
trust = "new"
"""

from __future__ import annotations

import json
import os
import re
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import NotFoundError, RefusedError
from familiar_cli.files import locked, read_plain, write_own, write_whole
from familiar_cli.memory.layout import (
    DAILY_DIR,
    MONTHLY_DIR,
    SELF_DIR,
    SIGNIFICANT_DIR,
    WEEKLY_DIR,
    YEARLY_DIR,
)
from familiar_cli.memory.pages.front_matter import value_of
from familiar_cli.text import nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from familiar_cli.memory.journal.repository import Repository
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


FILE_NAME: Final = "embodiments.json"
_TEXT_FIELDS: Final = ("id", "type", "name", "last_sync")


@dataclass(frozen=True, slots=True)
class Device:
    """One embodiment.

    Args:
        id: Which.
        type: What it is, in its own words.
        name: What people call it.
        last_sync: When it was last heard of, ISO 8601.
        seen: The version of the memory that it has said it holds; 0: none.
    """

    id: str
    type: str = ""
    name: str = ""
    last_sync: str = ""
    seen: int = 0


class Devices:
    """The embodiments of one familiar. Processes may share the file.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self) -> dict[str, Device]:
        """Return every one that is known, by id; none where the file is missing or damaged."""
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            rows = json.loads(read_plain(self._path))["devices"]
            return {row["id"]: _to_device(row) for row in rows}
        return {}

    def put(self, device: Device) -> None:
        """Remember one as it is now."""
        with self._changing() as known:
            known[device.id] = device

    def forget(self, device_id: str) -> bool:
        """Forget one; it has to pull before it may push again. Tells whether it was known."""
        with self._changing() as known:
            return known.pop(device_id, None) is not None

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Device]]:
        lock = self._path.with_name(f".{FILE_NAME}.lock")
        with locked(lock, what=str(self._path)):
            known = self.all()
            yield known
            rows = [asdict(device) for _, device in sorted(known.items())]
            write_whole(self._path, json.dumps({"version": 1, "devices": rows}, indent=1) + "\n")


def _to_device(row: dict[str, object]) -> Device:
    texts = {name: str(row.get(name, "")) for name in _TEXT_FIELDS}
    seen = row.get("seen")
    return Device(**texts, seen=seen if isinstance(seen, int) and seen > 0 else 0)


_FILE: Final = "familiar-deletions.json"
_MOST_FILES: Final = 10
_MOST_SHARE: Final = 4  # one file in so many


@dataclass(frozen=True, slots=True)
class LargeDeletion:
    """A merge that waits, because it would delete many files.

    Args:
        commit: The commit of another instance that is not merged.
        instance: The instance whose branch it is.
        deleted: How many files merging it would delete.
        files: How many files there are.
    """

    commit: str
    instance: str
    deleted: int
    files: int


def count_deleted(changes: Mapping[str, str | None], here: Mapping[str, str]) -> int:
    """Return how many files changes delete; a file that is only moved is not deleted."""
    written = {id_ for id_ in changes.values() if id_ is not None}
    return sum(id_ is None and here.get(path) not in written for path, id_ in changes.items())


def is_large(deleted: int, files: int) -> bool:
    """Tell whether so many deletions wait for a person: over ten, and over a quarter of all."""
    return deleted > _MOST_FILES and deleted * _MOST_SHARE > files


class PendingDeletions:
    """The merges that wait, in a file of the journal; made again by the next sync when lost.

    Args:
        repository: The journal.
    """

    def __init__(self, repository: Repository) -> None:
        self._path = os.path.join(repository.path, _FILE)

    def all(self) -> tuple[LargeDeletion, ...]:
        """Return every merge that waits."""
        try:
            rows = json.loads(read_plain(self._path))
            return tuple(LargeDeletion(**row) for row in rows)
        except (OSError, ValueError, TypeError, RecursionError):
            return ()

    def note(self, found: Iterable[LargeDeletion], heads: Collection[str]) -> None:
        """Remember which merges wait, as far as that is possible.

        Args:
            found: Those that a sync found.
            heads: The commits that it looked at; what is remembered of others stays.
        """
        instances = {one.instance for one in found}
        before = self.all()
        kept = (o for o in before if o.commit not in heads and o.instance not in instances)
        now = (*kept, *found)
        if now != before:
            with suppress(OSError):
                rows = [asdict(one) for one in now]
                write_own(self._path, json.dumps(rows).encode(), durable=False)


CATEGORIES: Final = (SELF_DIR, "user", "relationship", "custom")
_DAY: Final = r"\d{4}-\d{2}-\d{2}"
_FORMS: Final = {
    DAILY_DIR: re.compile(rf"({_DAY})(?:_(.+))?", re.ASCII),
    WEEKLY_DIR: re.compile(r"(\d{4}-W\d{2})()", re.ASCII),
    MONTHLY_DIR: re.compile(r"(\d{4}-\d{2})()", re.ASCII),
    YEARLY_DIR: re.compile(r"(\d{4})()", re.ASCII),
    SIGNIFICANT_DIR: re.compile(rf"({_DAY})_(.+)", re.ASCII),
}
_NAME: Final = re.compile(r"[^./_][^/]*\.md")


@dataclass(frozen=True, slots=True)
class SharedFile:
    """What a file is to an embodiment: a file of its identity, or a memory.

    Args:
        rel_path: Where it is here.
        category: Of identity; empty: it is a memory.
        filename: Of identity.
        granularity: Of a memory.
        date: Of a memory, e.g. `2026-W05`.
        instance: Of a daily memory: whose it is.
        slug: Of a significant one: what it is called.
    """

    rel_path: str
    category: str = ""
    filename: str = ""
    granularity: str = ""
    date: str = ""
    instance: str = ""
    slug: str = ""


def shared_file(rel_path: str) -> SharedFile | None:
    """Return a file's kind for embodiments, or None if they do not share it."""
    directory, _, name = rel_path.partition("/")
    if not _NAME.fullmatch(name):
        return None
    if directory in CATEGORIES:
        return SharedFile(rel_path, category=directory, filename=name)
    found = _FORMS[directory].fullmatch(name[: -len(".md")]) if directory in _FORMS else None
    if found is None or not _is_date(directory, found[1]):
        return None
    rest = found[2] or ""
    instance, slug = (rest, "") if directory == DAILY_DIR else ("", rest)
    return SharedFile(rel_path, granularity=directory, date=found[1], instance=instance, slug=slug)


def is_shared(rel_path: str) -> bool:
    """Tell whether embodiments have a part in a file."""
    return shared_file(rel_path) is not None


def source_of(file: SharedFile, text: str) -> str:
    """Return which instance a memory is from; empty: nothing says."""
    told = value_of(text, "sourceInstance") or value_of(text, "instance")
    return file.instance or (told if isinstance(told, str) else "")


def participating_in(text: str) -> Sequence[str]:
    """Return which other instances took part in a memory."""
    told = value_of(text, "participating")
    return [str(one) for one in told] if isinstance(told, list) else []


def _is_date(granularity: str, text: str) -> bool:
    missing = {WEEKLY_DIR: "-1", MONTHLY_DIR: "-01", YEARLY_DIR: "-01-01"}.get(granularity, "")
    try:
        date.fromisoformat(text + missing)
    except ValueError:
        return False
    return True
