"""The files that embodiments share: their versions, and what each embodiment has seen."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Final, TypeVar, cast

from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from familiar_cli.base.files import locked, read_record, write_whole
from familiar_cli.base.text import sha256_of
from familiar_cli.store.journal.history import History
from familiar_cli.store.journal.repository import Commit, Repository
from familiar_cli.store.memory import layout
from familiar_cli.store.memory.pages.front_matter import value_of

CATEGORIES: Final = (layout.SELF_DIR, "user", "relationship", "custom")
_NAME: Final = re.compile(r"[^./_][^/]*\.md")


class SharedFile(Struct, frozen=True):
    """A file as embodiments see it: part of the identity, or a memory.

    Args:
        rel_path: Its local path.
        category: Category of an identity file; empty for a memory.
        filename: File name of an identity file.
        granularity: Granularity of a memory.
        date: Date of a memory, e.g. `2026-W05`.
        instance: Instance of a daily memory.
        slug: Name of a significant memory.
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
    if directory in CATEGORIES and _NAME.fullmatch(name):
        return SharedFile(rel_path, category=directory, filename=name)
    found = layout.dated_name(rel_path)
    if found is None:
        return None
    tier, date, rest = found
    instance, slug = (rest, "") if tier == layout.DAILY_DIR else ("", rest)
    return SharedFile(rel_path, granularity=tier, date=date, instance=instance, slug=slug)


def is_shared(rel_path: str) -> bool:
    """Tell whether a file is shared with embodiments."""
    return shared_file(rel_path) is not None


def source_of(file: SharedFile, text: str) -> str:
    """Return the instance a memory came from, or an empty string."""
    told = value_of(text, "sourceInstance") or value_of(text, "instance")
    return file.instance or (told if isinstance(told, str) else "")


def participating_in(text: str) -> Sequence[str]:
    """Return the other instances that took part in a memory."""
    value = value_of(text, "participating")
    return [str(one) for one in value] if isinstance(value, list) else []


FILE_NAME: Final = "embodiments.json"


class Device(Struct, frozen=True):
    """An embodiment.

    Args:
        type: Its self-declared type.
        name: What people call it.
        last_sync: Time of its last contact, ISO 8601.
        seen: Version of the memory it has confirmed; 0 for none.
    """

    id: str
    type: str = ""
    name: str = ""
    last_sync: str = ""
    seen: int = 0


class _DeviceFile(Struct, frozen=True, kw_only=True):
    version: int = 1
    devices: list[Device]


class Devices:
    """The embodiments of one familiar. Processes may share the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self) -> dict[str, Device]:
        """Return all known embodiments by id; empty if the file is missing or damaged."""
        file = read_record(self._path, _DeviceFile)
        return {device.id: device for device in file.devices} if file else {}

    def put(self, device: Device) -> None:
        """Store an embodiment."""
        with self._locked_devices() as devices:
            devices[device.id] = device

    def forget(self, device_id: str) -> bool:
        """Remove an embodiment, which must pull before it can push. Tells whether it was known."""
        with self._locked_devices() as devices:
            return devices.pop(device_id, None) is not None

    @contextmanager
    def _locked_devices(self) -> Iterator[dict[str, Device]]:
        lock = self._path.with_name(f".{FILE_NAME}.lock")
        with locked(lock, what=str(self._path)):
            known = self.all()
            yield known
            file = _DeviceFile(devices=[device for _, device in sorted(known.items())])
            write_whole(self._path, json.dumps(to_builtins(file), indent=1) + "\n")


T = TypeVar("T")

Clock = Mapping[str, int]
"""Vector clock: number of changes by instance, 0 if missing."""

EMBODIMENT: Final = "Embodiment"
"""Commit trailer that names the embodiment a change came from."""

HASH_CHARS: Final = 12


class Version(Struct, frozen=True):
    """One version of a file.

    Args:
        at: Number of its commit, from 1.
        commit: Commit id.
        instance: Instance that made it.
        source: Author, e.g. `human`.
        is_gone: Whether the file was deleted.
    """

    at: int
    commit: str
    instance: str
    source: str
    is_gone: bool


def clock_of(versions: Sequence[Version]) -> Clock:
    """Return the clock of the last version."""
    return dict(sorted(Counter(version.instance for version in versions).items()))


class FilePasts(Struct):
    """Versions of a memory's files, loaded once and then updated.

    Args:
        repository: The journal.
        began: The original instance; its commits do not name it.
        is_wanted: Tells whether the versions of a path are needed.
    """

    repository: Repository
    began: str
    is_wanted: Callable[[str], bool]
    _versions: dict[str, list[Version]] = field(default_factory=dict)
    _commits: list[str] = field(default_factory=list)
    _kept: tuple[object, object] = (None, None)
    _seen: tuple[object, VisiblePasts | None] = (None, None)

    def visible(self, key: object, part_of: Callable[[str, str], str]) -> VisiblePasts:
        """Return the versions as somebody sees them who sees only a part of each file.

        Args:
            key: What `part_of` depends on.
            part_of: Returns the visible part of a file's text, by its text and path.
        """
        known, pasts = self._seen
        if known != key or pasts is None:
            pasts = VisiblePasts(self.repository, self.began, self.is_wanted)
            self._seen = key, pasts
        pasts.follow(self, part_of)
        return pasts

    def whole_version(self, at: int) -> int:
        """Return the version of the whole memory that somebody with version `at` has."""
        return at

    @property
    def count(self) -> int:
        """Number of commits: the version of the whole memory."""
        return len(self._commits)

    @property
    def hash(self) -> str:
        """Identifies the newest commit among all journals; empty if there is none."""
        return self.hash_at(self.count)

    @property
    def paths(self) -> Sequence[str]:
        """Existing and former files, sorted."""
        return sorted(self._versions)

    def hash_at(self, at: int) -> str:
        """Return the hash of the memory's version with that number, or an empty string."""
        return self._commits[at - 1][:HASH_CHARS] if 0 < at <= self.count else ""

    def kept(self, key: object, make: Callable[[], T]) -> T:
        """Return the cached result of `make` for the last `key`, or make it."""
        if self._kept[0] != key:
            self._kept = (key, make())
        return cast("T", self._kept[1])

    def read_on(self) -> None:
        """Load new commits from the journal.

        Raises:
            FamiliarError: It is damaged.
        """
        try:
            history = History(self.repository)
            known = self._commits[-1] if self._commits else None
            new: list[Commit] = []
            for commit in history.commits():
                if commit.id == known:
                    break
                new.append(commit)
            else:  # the history was replaced
                self._commits, self._versions, self._seen = [], {}, (None, None)
            for commit in reversed(new):
                self._commits.append(commit.id)
                for touched in history.touched(commit):
                    if self.is_wanted(touched.rel_path):
                        version = self._version(commit, is_gone=touched.kind == "deleted")
                        self._versions.setdefault(touched.rel_path, []).append(version)
        finally:
            self.repository.close()

    def versions(self, rel_path: str) -> Sequence[Version]:
        """Return a file's versions, oldest first; empty for an unknown file."""
        return self._versions.get(rel_path, ())

    def text(self, rel_path: str, version: Version) -> str | None:
        """Return a file's text in a version, or None if missing or not text."""
        if version.is_gone:
            return None
        try:
            content = self.repository.file_at(version.commit, rel_path)
        finally:
            self.repository.close()
        try:
            return None if content is None else content.decode("utf-8")
        except UnicodeDecodeError:
            return None

    def _version(self, commit: Commit, *, is_gone: bool) -> Version:
        instance = commit.trailers.get(EMBODIMENT, "") or commit.instance or self.began
        return Version(self.count, commit.id, instance, commit.source, is_gone)


class VisiblePasts(FilePasts):
    """Versions in which the part of a file that somebody sees has changed; nothing else counts."""

    _numbers: list[int] = field(default_factory=list)
    _parts: dict[str, str] = field(default_factory=dict)
    _whole: int = 0

    def follow(self, pasts: FilePasts, part_of: Callable[[str, str], str]) -> None:
        """Add what changed since the last call."""
        new = sorted(
            (version.at, path, version)
            for path in pasts.paths
            for version in pasts.versions(path)
            if version.at > self._whole
        )
        for at, changes in groupby(new, key=lambda one: one[0]):
            seen = []
            for _, path, version in changes:
                text = pasts.text(path, version)
                part = part_of(text, path) if text else ""
                digest = sha256_of(part) if part else ""
                if digest != self._parts.get(path, ""):
                    self._parts[path] = digest
                    seen.append((path, digest, version))
            if seen:
                self._add(at, seen)
        self._whole = pasts.count

    def _add(self, at: int, seen: Sequence[tuple[str, str, Version]]) -> None:
        self._numbers.append(at)
        changes = [(path, digest, version.instance) for path, digest, version in seen]
        self._commits.append(sha256_of(repr((self._commits[-1:], changes))))
        for path, digest, version in seen:
            own = replace(version, at=self.count, is_gone=not digest)
            self._versions.setdefault(path, []).append(own)

    def whole_version(self, at: int) -> int:
        """Return the version of the whole memory that somebody with version `at` has."""
        return self._whole if at >= self.count else self._numbers[at] - 1 if at else 0
