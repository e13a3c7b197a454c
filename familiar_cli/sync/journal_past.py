"""What a sync reads from the journal, and the commits that carry turns."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, TypeVar, cast

from familiar_cli import clock
from familiar_cli.clock import now
from familiar_cli.config.channel_kinds import PRIVATE_KINDS
from familiar_cli.errors import BadInputError
from familiar_cli.history.incoming import (
    FactScope,
    InstanceTwiceError,
    Taken,
    count_held,
    intake,
    read_there,
    release,
    rename,
    taken_through,
    unrestricted,
)
from familiar_cli.history.lines import BadLineError, ThroughLine, dumped, parsed
from familiar_cli.history.outgoing import outgoing
from familiar_cli.memory.journal.edits import is_recordable
from familiar_cli.memory.journal.history import History
from familiar_cli.memory.journal.objects import git_object, object_id
from familiar_cli.memory.journal.packs import DIR_MODE, tree_rows
from familiar_cli.memory.journal.repository import (
    HUMAN,
    INSTANCE,
    encode_commit,
    rewrite_tree,
    translated,
)
from familiar_cli.memory.layout import SYNC, is_synced
from familiar_cli.memory.store.files import MAX_LEVELS
from familiar_cli.sync.remotes import TURNS_REFS, local_ref, set_local_ref

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from familiar_cli.config.channel import ChannelConfigs
    from familiar_cli.history.store import HistoryStore
    from familiar_cli.memory.journal.repository import Commit, Repository

__all__ = [
    "BadLineError",
    "InstanceTwiceError",
    "Since",
    "Taken",
    "new_lines",
    "read_there",
    "rename",
    "since",
    "take_in",
    "taken_through",
]

_FILES: Final = {b"100644", b"100755", b"100664"}
_LINK: Final = b"120000"
_NO_NAMES: Final = {"", ".", ".."}
_SMALL_BYTES: Final = 16 * 1024
_MOST_SMALL: Final = 4096
_WITH_LOCAL: Final = (b"people", b"sessions")  # where files are that stay on one machine


class JournalPast:
    """The versions that a journal holds.

    Args:
        repository: The journal.
        began: The instance that the familiar began on.

    Attributes:
        refused: Why something was left out, by path.
    """

    def __init__(self, repository: Repository, began: str) -> None:
        self._repository = repository
        self._began = began
        self.refused: dict[str, str] = {}
        self.commit = lru_cache(maxsize=None)(repository.commit)
        self._files_of = lru_cache(maxsize=4096)(self._files_in)
        self._trees = lru_cache(maxsize=16)(self._synced)
        self._small: dict[str, bytes] = {}

    def parents(self, commit: str) -> tuple[str, ...]:
        """Return the versions that this one came from."""
        one: Commit = self.commit(commit)
        return one.parents

    def tree(self, commit: str) -> Mapping[str, str]:
        """Return its files as far as they are synced."""
        return self._trees(self.commit(commit).tree)

    def whole_tree(self, commit: str) -> Mapping[str, str]:
        """Return all its files, also those that stay on the machine that made them."""
        return dict(self._files(self.commit(commit).tree, "", 0))

    def holds_only_files(self, commit: str) -> bool:
        """Tell whether nothing of a version was left out."""
        if not self.refused:
            return True
        apart = JournalPast(self._repository, self._began)
        apart.tree(commit)
        return not apart.refused

    def tree_id(self, commit: str) -> str:
        """Return a key that is equal for two versions exactly when all their synced files are."""
        content = self._repository.objects.read(self.commit(commit).tree)
        rows = []
        for mode, name, raw in tree_rows(content):
            id_ = raw.hex()
            if name.lower() in _WITH_LOCAL and mode == DIR_MODE:
                prefix = f"{_decode(name)}/"
                files = dict(self._files(id_, prefix, 1))
                synced = sorted(path for path in files if is_synced(path))
                id_ = object_id("blob", repr([(p, files[p]) for p in synced]).encode())
            rows.append((mode, name, id_))
        return object_id("blob", repr(rows).encode())

    def instance(self, commit: str) -> str:
        """Return the machine that made it."""
        return self.commit(commit).instance or self._began

    def source(self, commit: str) -> str:
        """Return who changed something with it: `human` for whatever a person did."""
        one: Commit = self.commit(commit)
        return HUMAN if one.by_hand else one.source

    def only_merges(self, commit: str) -> bool:
        """Tell whether a version is a merge that this program made: it says nothing of its own."""
        return bool(self.commit(commit).merged) and self.source(commit) == SYNC

    def changed(self, commit: str) -> Collection[str]:
        """Return the paths that it changed."""
        one: Commit = self.commit(commit)
        if one.touched is not None:
            return [t.rel_path for t in one.touched if is_synced(t.rel_path)]
        before = self.tree(one.parent) if one.parent else {}
        return {path for path, _ in self.tree(commit).items() ^ before.items()}

    def read(self, blob: str) -> bytes:
        """Return the content of a file."""
        if blob in self._small:
            return self._small[blob]
        content = self._repository.objects.read(blob)
        if len(content) <= _SMALL_BYTES and len(self._small) < _MOST_SMALL:
            self._small[blob] = content  # what a merge reads is compared with once more
        return content

    def _synced(self, tree: str) -> dict[str, str]:
        return {path: id_ for path, id_ in self._files(tree, "", 0) if is_synced(path)}

    def _files(self, tree: str, prefix: str, depth: int) -> Iterator[tuple[str, str]]:
        for name, id_, is_dir in self._files_of(tree, prefix):
            if is_dir and depth < MAX_LEVELS:
                yield from self._files(id_, f"{prefix}{name}/", depth + 1)
            elif is_dir:
                self.refused[f"{prefix}{name}"] = "it lies too deep"
            else:
                yield prefix + name, id_

    def _files_in(self, tree: str, prefix: str) -> tuple[tuple[str, str, bool], ...]:
        found = []
        for mode, raw_name, raw in tree_rows(self._repository.objects.read(tree)):
            name = _decode(raw_name)
            if problem := _problem(mode, name):
                self.refused[prefix + name] = problem
            else:
                found.append((name, raw.hex(), mode == DIR_MODE))
        return tuple(found)


def _problem(mode: bytes, name: str) -> str:
    """Return why an entry is no file or directory of a memory; empty: it is one."""
    if mode == _LINK:
        return "it is a link"
    if mode != DIR_MODE and mode not in _FILES:
        return "it is neither a file nor a directory"
    if "\ufffd" in name or "/" in name or name in _NO_NAMES:
        return "its name is not valid"
    return "" if is_recordable(name) else "its name is reserved by git"


def _decode(name: bytes) -> str:
    return name.decode("utf-8", errors="replace")


T = TypeVar("T")

Clock = Mapping[str, int]
"""How many changes by instance; one that is not in it counts 0."""

Order = Literal["equal", "before", "after", "concurrent"]

EMBODIMENT: Final = "Embodiment"
"""The line of a commit that names the embodiment that a change comes from."""

HASH_CHARS: Final = 12


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a file.

    Args:
        at: The number of the commit that made it, from 1.
        commit: Its id.
        instance: Who made it.
        source: As whom, e.g. `human`.
        is_gone: The file was deleted.
    """

    at: int
    commit: str
    instance: str
    source: str
    is_gone: bool


def compare(one: Clock, other: Clock) -> Order:
    """Return how `one` stands to `other`; `concurrent` when each holds what the other lacks."""
    has_less = any(count > one.get(name, 0) for name, count in other.items())
    has_more = any(count > other.get(name, 0) for name, count in one.items())
    if has_less and has_more:
        return "concurrent"
    if has_less:
        return "before"
    return "after" if has_more else "equal"


def clock_of(versions: Sequence[Version]) -> Clock:
    """Return the clock of the last of these versions."""
    return dict(sorted(Counter(version.instance for version in versions).items()))


class FilePasts:
    """The versions of the files of one memory, read once and then continued.

    Args:
        repository: The journal.
        began: The instance that the familiar began on; its commits do not name it.
        is_wanted: Tells of a path whether anybody asks for its versions.
    """

    def __init__(
        self, repository: Repository, began: str, is_wanted: Callable[[str], bool]
    ) -> None:
        self._repository = repository
        self._began = began
        self._is_wanted = is_wanted
        self._versions: dict[str, list[Version]] = {}
        self._commits: list[str] = []
        self._kept: tuple[object, object] = (None, None)

    @property
    def count(self) -> int:
        """How many commits there are: the version of the whole memory."""
        return len(self._commits)

    @property
    def hash(self) -> str:
        """What tells the newest commit from that of any other journal; empty: there is none."""
        return self.hash_at(self.count)

    @property
    def paths(self) -> Sequence[str]:
        """The files that are or were there, sorted."""
        return sorted(self._versions)

    def hash_at(self, at: int) -> str:
        """Return the hash of the memory's version with that number; empty: there is none."""
        return self._commits[at - 1][:HASH_CHARS] if 0 < at <= self.count else ""

    def kept(self, key: object, make: Callable[[], T]) -> T:
        """Return the cached result of `make` for the last `key`, or make it."""
        if self._kept[0] != key:
            self._kept = (key, make())
        return cast("T", self._kept[1])

    def read_on(self) -> None:
        """Take in what the journal holds beyond what is known.

        Raises:
            FamiliarError: It is damaged.
        """
        try:
            history = History(self._repository)
            known = self._commits[-1] if self._commits else None
            new: list[Commit] = []
            for commit in history.commits():
                if commit.id == known:
                    break
                new.append(commit)
            else:  # all of it is another one than it was
                self._commits, self._versions = [], {}
            for commit in reversed(new):
                self._commits.append(commit.id)
                for touched in history.touched(commit):
                    if self._is_wanted(touched.rel_path):
                        version = self._version(commit, is_gone=touched.kind == "deleted")
                        self._versions.setdefault(touched.rel_path, []).append(version)
        finally:
            self._repository.close()

    def versions(self, rel_path: str) -> Sequence[Version]:
        """Return the versions of a file, oldest first; none of one that was never there."""
        return self._versions.get(rel_path, ())

    def text(self, rel_path: str, version: Version) -> str | None:
        """Return a file's text in one of its versions; None: it was not there, or no text."""
        if version.is_gone:
            return None
        try:
            content = self._repository.file_at(version.commit, rel_path)
        finally:
            self._repository.close()
        try:
            return None if content is None else content.decode("utf-8")
        except UnicodeDecodeError:
            return None

    def _version(self, commit: Commit, *, is_gone: bool) -> Version:
        instance = commit.trailers.get(EMBODIMENT, "") or commit.instance or self._began
        return Version(self.count, commit.id, instance, commit.source, is_gone)


_TURN: Final = re.compile(rb'^\{"v":\d+,"kind":"turn",', re.MULTILINE)
_TAKEN: Final = "refs/familiar/turns/"
"""Before an instance, in the journal: the commit whose turns are all in the history."""


def take_turns(
    repository: Repository, turns: HistoryConversations, own: str, instance: str, commit: str
) -> int:
    """Import what is new in the conversations of another instance, and return how many turns.

    Raises:
        FamiliarError: Something in them makes no sense, or the disk refused; it is tried again.
    """
    ref = _TAKEN + instance
    before = local_ref(repository, ref)
    if before == commit:
        return 0
    past = JournalPast(repository, "")
    known = past.tree(before).items() if before else set()
    files = past.tree(commit)
    channels = files.get(_channels_path(instance))
    if channels is not None:  # before the first turn of a private channel is here
        turns.take_channels(past.read(channels))
    count = 0
    for path, id_ in sorted(files.items() - known):
        if path.startswith(f"turns/{instance}/"):
            count += turns.take_in(own, path, past.read(id_))
    with translated(repository.path):
        set_local_ref(repository, ref, commit)
    return count


def turns_commit(
    repository: Repository,
    turns: HistoryConversations,
    own: str,
    *,
    lock: Callable[[], AbstractContextManager[None]],
    dry_run: bool,
) -> tuple[str | None, int]:
    """Commit what is new in the conversations here.

    Returns:
        The newest commit, or None when there is none; and how many turns are not in it (yet).
    """
    ref = TURNS_REFS + own
    head = local_ref(repository, ref)
    past = JournalPast(repository, "")
    files = past.tree(head) if head else {}
    newest = max((path for path in files if path.startswith(f"turns/{own}/")), default="")
    data = past.read(files[newest]) if newest else b""
    rel_path, lines = turns.new_lines(own, newest, data)
    blobs = {rel_path: git_object("blob", (data if rel_path == newest else b"") + lines)}
    if not lines:
        blobs.clear()
    channels = git_object("blob", turns.channels())
    if files.get(_channels_path(own)) != channels.id and (channels.content or head):
        blobs[_channels_path(own)] = channels
    about = git_object("blob", turns.about())
    if files.get(_about_path(own)) != about.id and about.content and (blobs or head):
        blobs[_about_path(own)] = about
    if dry_run or not blobs:
        return head, turn_count(lines)
    ids = {path: blob.id for path, blob in blobs.items()}
    tree, made = rewrite_tree(repository.tree, repository.tree_of(head), ids)
    commit = encode_commit(
        tree,
        head,
        SYNC,
        f"turns of {own}",
        at=clock.now().astimezone(),
        trailers=[(INSTANCE, own)],
    )
    with lock(), translated(repository.path):
        repository.objects.write([*blobs.values(), *made, commit])
        repository.objects.keep()
        set_local_ref(repository, ref, commit.id)
    return commit.id, 0


def read_abouts(repository: Repository, refs: Mapping[str, str]) -> list[bytes]:
    """Read what each instance states about the familiar.

    Args:
        repository: The journal.
        refs: The refs of a remote; see `SeenRefs`.
    """
    past = JournalPast(repository, "")
    found = (
        (past.tree(id_), _about_path(ref.removeprefix(TURNS_REFS)))
        for ref, id_ in sorted(refs.items())
        if ref.startswith(TURNS_REFS)
    )
    return [past.read(files[path]) for files, path in found if path in files]


def _about_path(instance: str) -> str:
    return f"familiar/{instance}.json"


def _channels_path(instance: str) -> str:
    return f"channels/{instance}.json"


def turns_since(repository: Repository, own: str, before: str | None, commit: str) -> int:
    """Return how many turns of this instance a commit has beyond an earlier one."""
    past = JournalPast(repository, "")
    old = past.tree(before) if before else {}
    count = 0
    for path, id_ in past.tree(commit).items():
        if path.startswith(f"turns/{own}/") and old.get(path) != id_:
            begun = len(past.read(old[path])) if path in old else 0  # files only grow
            count += turn_count(past.read(id_)[begun:])
    return count


def turn_count(lines: bytes) -> int:
    """Return how many of the lines are turns, rather than marks and other facts."""
    return len(_TURN.findall(lines))


MOST_LINE_BYTES: Final = 64 * 1024 * 1024
"""A longer line is no turn of this program's."""

_AT_ONCE: Final = 20_000  # lines of one transaction
_LARGE_BYTES: Final = 1024 * 1024
_MOST_PARTS: Final = 999  # a name with more digits would not sort after the others
_FILE: Final = re.compile(
    r"turns/([a-z0-9]+(?:-[a-z0-9]+)*)/([0-9]{4}-(?:0[1-9]|1[0-2]))(?:_([0-9]{3}))?\.jsonl"
)


@dataclass(frozen=True, slots=True)
class Since:
    """What an instance's files hold already.

    Args:
        through: Their last line, which says how far they reach.
        rel_path: The newest of them; empty: there is none.
        size_bytes: How large that is.
    """

    through: ThroughLine = field(default_factory=lambda: ThroughLine(0, 0))
    rel_path: str = ""
    size_bytes: int = 0


def since(rel_path: str, data: bytes) -> Since:
    """Read the contents of a series of files that ends with `rel_path`.

    Args:
        rel_path: Its path.
        data: Its bytes, or their end with at least its last line.

    Raises:
        BadLineError: Its last line does not say how far it reaches.
    """
    last = data.rstrip(b"\n").rpartition(b"\n")[2]
    line = parsed(last)
    if not isinstance(line, ThroughLine):
        raise BadLineError(f"{rel_path!r} does not end with a `through` line")
    return Since(line, rel_path, len(data))


def file_of(rel_path: str) -> tuple[str, str, int] | None:
    """Return the instance, the month and the part of a file of turns; None: it is none."""
    found = _FILE.fullmatch(rel_path)
    return (found[1], found[2], int(found[3] or 1)) if found else None


def new_lines(
    history: HistoryStore, own: str, since: Since, *, at: datetime | None = None
) -> tuple[str, Iterator[bytes]]:
    """Return the file to which new lines are added, and those lines; none if nothing is new.

    Args:
        history: The history.
        own: The instance that this is.
        since: What its files hold already.
        at: The present; None: now.

    Raises:
        FamiliarError: As `HistoryStore.append`, while the lines are read.
    """
    this_month = f"turns/{own}/{at or now():%Y-%m}.jsonl"
    rel_path = max(this_month, _next_part(since))
    return rel_path, map(dumped, outgoing(history, own, since.through))


def _next_part(since: Since) -> str:
    """Return the file that goes on with the newest one: itself, unless it has grown large."""
    named = file_of(since.rel_path)
    if named is None or since.size_bytes < _LARGE_BYTES:
        return since.rel_path
    instance, month, part = named
    return f"turns/{instance}/{month}_{min(part + 1, _MOST_PARTS):03}.jsonl"


def take_in(
    history: HistoryStore,
    own: str,
    rel_path: str,
    data: bytes,
    offset: int = 0,
    *,
    scope_of: Callable[[str], FactScope] = unrestricted,
) -> Taken:
    """Take in what a file of turns says; the same again changes nothing.

    A line without an end is left for later. Lines that stand before a bad one are kept.

    Args:
        history: The history.
        own: The instance that this is.
        rel_path: The file's path.
        data: Its bytes from `offset` on.
        offset: Where `data` begins, which is the beginning of a line.
        scope_of: Returns which facts of an instance are accepted.

    Raises:
        BadLineError: The file has no right name, or a line says what cannot be.
        InstanceTwiceError: A turn with the same name is another one here.
        FamiliarError: As `HistoryStore.append`.
    """
    named = file_of(rel_path)
    if named is None:
        raise BadLineError(f"{rel_path!r} is not a turn file; nothing of it was read")
    taken, start = Taken(), 0
    while start < len(data):
        end, problem = start, None
        with intake(history, own, scope_of) as taking:
            for _ in range(_AT_ONCE):
                stop = data.find(b"\n", end)
                if stop < 0:
                    break
                try:
                    taking.take(named[0], _decode_line(data[end:stop]))
                except BadLineError as error:
                    problem = error
                    break
                end = stop + 1
            if end > start:
                taking.note_through(named[0], rel_path, offset + start, offset + end)
        taken = taken.plus(taking.taken)
        if problem is None and len(data) - end > MOST_LINE_BYTES and end == start:
            problem = BadLineError("it is unterminated")
        if problem is not None:
            at = data.count(b"\n", 0, end) + 1
            where = f"Line {at} of {rel_path!r}" + (f", from byte {offset} on," if offset else "")
            raise BadLineError(
                f"{where} cannot be read: {problem}; the lines before it were",
                hint="Sync again once the instance that wrote it has been repaired.",
            ) from problem
        if end == start:
            break
        start = end
    return taken


def _decode_line(line: bytes) -> str:
    if len(line) > MOST_LINE_BYTES:
        raise BadLineError("it is too long")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise BadLineError("it is not UTF-8") from error


class HistoryConversations:
    """Turns the history into files, and files of others into turns.

    Args:
        history: The turns.
        configs: What is set for each channel; among it, whether it is private.
        about: What a machine that begins must know of the familiar, as JSON.
    """

    def __init__(self, history: HistoryStore, configs: ChannelConfigs, about: bytes = b"") -> None:
        self._history = history
        self._configs = configs
        self._about = about
        self._untrusted: Collection[str] = ()
        self._existing_through: int | None = None

    def restrict(self, own: str, untrusted: Collection[str]) -> None:
        """From now on, accept facts about others from trusted instances only.

        What waited for trust is applied.

        Args:
            own: The instance that this is.
            untrusted: Those that may state facts about their own turns and channels only.
        """
        self._untrusted = untrusted
        self._existing_through = self._history.newest_id()
        for instance in count_held(self._history).keys() - set(untrusted):
            release(self._history, own, instance)

    def count_held(self) -> Mapping[str, int]:
        """Return how many facts about others wait, by the instance that states them."""
        return count_held(self._history)

    def about(self) -> bytes:
        """Encode the familiar's settings for a new machine; empty if there are none."""
        return self._about

    def new_lines(self, own: str, rel_path: str, data: bytes) -> tuple[str, bytes]:
        """Return the file that grows, and the lines that are new; empty: nothing is.

        Args:
            own: The instance that this is.
            rel_path: The newest file of this instance; empty: there is none yet.
            data: Its bytes.
        """
        before = since(rel_path, data) if rel_path else Since()
        path, lines = new_lines(self._history, own, before)
        return path, b"".join(lines)

    def take_in(self, own: str, rel_path: str, data: bytes) -> int:
        """Import what is new in a file of another instance; return how many turns it was.

        Raises:
            FamiliarError: Something in it makes no sense; what stands before it was imported.
        """
        instance = rel_path.split("/")[1]
        through = taken_through(self._history, instance, rel_path)
        if through >= len(data):
            return 0
        new = data[through:]
        scope_of = self._scope_of
        return take_in(self._history, own, rel_path, new, through, scope_of=scope_of).turns

    def channels(self) -> bytes:
        """Encode which channels are private here; sorted, so that equal settings give equal bytes.

        Raises:
            ConfigError: A channel's file cannot be read.
        """
        found = {}
        private = self._configs.private()
        for channel_id in sorted(private):
            kind = self._configs.read(channel_id).settings.kind
            found[channel_id] = kind if kind in PRIVATE_KINDS else min(PRIVATE_KINDS)
        if not found:
            return b""
        return (json.dumps(found, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()

    def take_channels(self, data: bytes) -> None:
        """Make channels private here that are private elsewhere, unless a person said otherwise.

        Raises:
            BadInputError: It makes no sense, so nobody knows what may be private.
            ConfigError: A channel's file cannot be read or written.
        """
        try:
            told = json.loads(data or b"{}")
            rows = {str(channel): str(kind) for channel, kind in told.items()}
        except (ValueError, AttributeError, RecursionError) as error:
            raise BadInputError("What it tells of its channels makes no sense") from error
        for channel_id, kind in rows.items():
            is_set = channel_id.strip() and "kind" in self._configs.read(channel_id).tables
            if channel_id.strip() and not is_set and kind in PRIVATE_KINDS:
                self._configs.set_values(channel_id, {"kind": kind})

    def _scope_of(self, instance: str) -> FactScope:
        return FactScope(instance not in self._untrusted, self._existing_through)

    def renamed(self, old: str, new: str) -> None:
        """Go on under another name; what both copies said before they parted keeps the old one."""
        rename(self._history, old, new)
