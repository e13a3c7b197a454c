"""Join histories of a memory: find common ancestors, merge, and commit the result.

Clocks are not used, and no walk goes below the common ancestors of everything compared.

The merge is computed without the lock. If the memory changes meanwhile, it is recomputed; edits by
hand are committed first and so are part of it.

`merge_heads` merges the newest version of each machine. The result depends only on these versions
and their history, not on who merges, their order of arrival, or any clock: two machines with the
same versions get the same tree, byte for byte.

Several versions are merged one by one in a fixed order, each against its common ancestor with the
result so far. Multiple common ancestors are merged first. A version that only merges others is
replaced by the versions it merged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from familiar_cli.base.errors import ConflictError, FamiliarError, RefusedError
from familiar_cli.base.text import sha256_of
from familiar_cli.store.journal.edits import list_absent
from familiar_cli.store.memory.layout import SYNC
from familiar_cli.store.memory.merge import files
from familiar_cli.store.memory.store.files import (
    MISSING,
    MOST_RECORDED_BYTES,
    NOT_MEMORY,
    AbsentVersion,
    IncomingCommits,
    is_of_repository,
)
from familiar_cli.store.memory.store.transactions import Transaction
from familiar_cli.sync.journal_past import JournalPast
from familiar_cli.sync.participants import LargeDeletion, count_deleted, is_large

if TYPE_CHECKING:
    from familiar_cli.store.journal.repository import Repository
    from familiar_cli.store.memory.store.store import MemoryStore

    Parents = Callable[[str], Sequence[str]]


class AncestryWalk:
    """Finds ancestors of several groups of commits, down to where they are common.

    Args:
        parents: Returns the parents of a commit.
        groups: Each group has a colour, its index; commits inherit the colours of their
            descendants.
    """

    def __init__(self, parents: Parents, groups: Sequence[Iterable[str]]) -> None:
        self.colours: dict[str, int] = {}
        self.all = (1 << len(groups)) - 1
        self._parents = parents
        self._above: dict[str, Sequence[str]] = {}
        self._inherited: set[str] = set()
        self._walk([(commit, 1 << at) for at, group in enumerate(groups) for commit in group])

    def _walk(self, starts: Iterable[tuple[str, int]]) -> None:
        waiting, unfinished = deque[str](), set[str]()
        for commit, colour in starts:
            self._paint(commit, colour, waiting, unfinished)
        while unfinished:
            commit = waiting.popleft()
            unfinished.discard(commit)
            colour = self.colours[commit]
            for parent in self._of(commit):
                self._paint(parent, colour, waiting, unfinished)
        self._pass_on()

    def _paint(self, commit: str, colour: int, waiting: deque[str], unfinished: set[str]) -> None:
        had = self.colours.get(commit, 0)
        if had | colour == had:
            return
        self.colours[commit] = had | colour
        if had | colour == self.all:
            unfinished.discard(commit)
            # Let other groups catch up first where one has been; otherwise they would
            # follow it, one step behind, to the very first commit.
            (waiting.appendleft if had else waiting.append)(commit)
        else:
            waiting.append(commit)
            unfinished.add(commit)

    def _of(self, commit: str) -> Sequence[str]:
        if commit not in self._above:
            self._above[commit] = self._parents(commit)
        return self._above[commit]

    def _pass_on(self) -> None:
        """Propagate all colours to the ancestors of commits that have them all."""
        waiting = [commit for commit, colour in self.colours.items() if colour == self.all]
        while waiting:
            for parent in self._above.get(waiting.pop(), ()):
                if parent not in self._inherited:
                    self._inherited.add(parent)
                    self.colours[parent] = self.all
                    waiting.append(parent)

    def shared(self) -> list[str]:
        """Return the newest known common ancestors; a few may be too old."""
        return [
            commit
            for commit, colour in self.colours.items()
            if colour == self.all and commit not in self._inherited
        ]

    def only(self, at: int) -> list[str]:
        """Return the commits reachable from group `at` but not from all groups."""
        bit = 1 << at
        return [c for c, colour in self.colours.items() if colour & bit and colour != self.all]

    def apart(self) -> list[str]:
        """Return the commits reachable from some groups but not from all."""
        return [commit for commit, colour in self.colours.items() if colour != self.all]


def newest_commits(parents: Parents, commits: Iterable[str]) -> list[str]:
    """Return those of `commits` that are not ancestors of another, sorted."""
    several = sorted(set(commits))
    if len(several) < 2:  # noqa: PLR2004  # one came from no other
        return several
    colours = AncestryWalk(parents, [[commit] for commit in several]).colours
    return [commit for at, commit in enumerate(several) if colours[commit] == 1 << at]


def common_commits(parents: Parents, ours: Collection[str], theirs: Collection[str]) -> list[str]:
    """Return the newest common ancestors, sorted; a commit is its own ancestor."""
    return newest_commits(parents, AncestryWalk(parents, [ours, theirs]).shared())


def comes_before(parents: Parents, old: str, new: str) -> bool:
    """Tell whether `old` is `new` or one of its ancestors."""
    return AncestryWalk(parents, [[old], [new]]).colours[old] & 2 > 0


def merge_heads(heads: Collection[str], past: JournalPast) -> files.MergedTree:
    """Merge all of `heads`.

    Where two versions of a file clash, the version of the machine that comes first by name wins;
    `merge_trees` knows the exceptions.

    Args:
        heads: Versions, at least one. Ancestors of others are ignored.
        past: Their history.
    """
    return _VersionMerger(past).of(heads)


class _VersionMerger(Struct):
    """Merges, caching each set of versions."""

    past: JournalPast
    _made: dict[tuple[str, ...], files.MergedTree] = field(default_factory=dict)
    _blobs: dict[str, bytes] = field(default_factory=dict)
    _parents: dict[str, Sequence[str]] = field(default_factory=dict)

    def of(self, heads: Iterable[str]) -> files.MergedTree:
        """Merge `heads`."""
        whole = newest_commits(self.parents, heads)
        if len(whole) == 1:
            return files.MergedTree(self.past.tree(whole[0]))
        recorded = self._choose_version(whole)
        if recorded:
            return files.MergedTree(self.past.tree(recorded))
        parts = tuple(sorted(self._newest_versions(whole), key=self._place))
        if parts not in self._made:
            self._made[parts] = self._fold(parts)
        return self._made[parts]

    def parents(self, commit: str) -> Sequence[str]:
        """Return a version's parents; if a merge equals one of them, only that one."""
        if commit not in self._parents:
            above: Sequence[str] = self.past.parents(commit)
            if len(above) > 1:
                own = self.past.tree_id(commit)
                above = [one for one in sorted(above) if self.past.tree_id(one) == own][:1] or above
            self._parents[commit] = above
        return self._parents[commit]

    def _place(self, commit: str) -> tuple[str, str]:
        return self.past.instance(commit), commit

    def _choose_version(self, heads: Sequence[str]) -> str | None:
        """Choose one of several versions that merge the same, by content."""
        if len({self.past.tree_id(head) for head in heads}) == 1:
            return heads[0]
        walk = AncestryWalk(self.parents, [[head] for head in heads])
        if not all(self._only_merges(commit) for commit in walk.apart()):
            return None
        return min(heads, key=lambda head: (self.past.tree_id(head), head))

    def _only_merges(self, commit: str) -> bool:
        """Tell whether a version has no content of its own.

        Merges made by a person with git may have resolved something by hand.
        """
        above = self.parents(commit)
        if len(above) > 1 and self.past.source(commit) == SYNC:
            return True
        return [self.past.tree_id(one) for one in above] == [self.past.tree_id(commit)]

    def _newest_versions(self, heads: Sequence[str]) -> list[str]:
        """Return the newest versions with content of their own, where the heads differ."""
        apart = set(AncestryWalk(self.parents, [[head] for head in heads]).apart())
        items, seen, waiting = set[str](), set(heads), list(heads)
        while waiting:
            commit = waiting.pop()
            if commit in apart and self._only_merges(commit):
                above = [parent for parent in self.parents(commit) if parent not in seen]
                seen.update(above)
                waiting += above
            else:
                items.add(commit)
        return newest_commits(self.parents, items)

    def _fold(self, parts: Sequence[str]) -> files.MergedTree:
        made = files.MergedTree(self.past.tree(parts[0]))
        steps: list[files.MergedTree] = []
        for at, commit in enumerate(parts[1:], start=1):
            made = self._one_more(made, parts[:at], commit)
            steps.append(made)
        return files.MergedTree(
            made.files,
            {blob: self._blobs[blob] for blob in set(made.files.values()) & self._blobs.keys()},
            tuple(one for step in steps for one in step.conflicts),
            tuple(one for step in steps for one in step.notes),
        )

    def _one_more(
        self, made: files.MergedTree, merged: Sequence[str], commit: str
    ) -> files.MergedTree:
        bases = common_commits(self.parents, merged, [commit])
        base = self.of(bases).files if bases else {}
        walk = AncestryWalk(self.parents, [merged, [commit]])
        result = files.merge_trees(
            base,
            files.Side(made.files, self.past.instance(merged[0]), self._hands(walk, 0)),
            files.Side(self.past.tree(commit), self.past.instance(commit), self._hands(walk, 1)),
            self._read,
        )
        self._blobs.update(result.blobs)
        return result

    def _hands(self, walk: AncestryWalk, at: int) -> Callable[[str], tuple[files.Editor, ...]]:
        """Return a function naming the authors of a file on one side, in machine order."""

        @cache
        def everything() -> dict[str, dict[files.Editor, None]]:
            result: dict[str, dict[files.Editor, None]] = {}
            own = (
                commit
                for commit in walk.only(at)
                if len(self.past.parents(commit)) <= 1 or self.past.source(commit) != SYNC
            )
            for commit in sorted(own, key=self._place):
                hand = files.Editor(self.past.instance(commit), self.past.source(commit))
                for path in self.past.changed(commit):
                    result.setdefault(path, {})[hand] = None
            return result

        return lambda path: tuple(everything().get(path, ()))

    def _read(self, blob: str) -> bytes:
        return self._blobs[blob] if blob in self._blobs else self.past.read(blob)


_TRIES: Final = 6
_LFS_POINTER: Final = b"version https://git-lfs.github.com/spec/"


class Outcome(Struct, frozen=True):
    """What a merge did, or would do.

    Args:
        commits: Merged commits of others; empty if nothing was new.
        written: Files written.
        deleted: Files deleted.
        conflicts: Files with two versions.
        notes: Further notes for the user.
        refused: Why files could not be taken over, by path.
        waiting: Commits whose deletions need approval before merging.
    """

    commits: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    conflicts: tuple[files.Conflict, ...] = ()
    notes: tuple[files.MergeNote, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    waiting: tuple[LargeDeletion, ...] = ()


def join_heads(
    store: MemoryStore,
    repository: Repository,
    heads: Mapping[str, str],
    *,
    began: str,
    accepted: frozenset[str] = frozenset(),
    dry_run: bool = False,
) -> Outcome:
    """Merge the changes of other instances into the memory.

    The caller has committed edits by hand; later edits are detected.

    Args:
        repository: Its journal.
        heads: Newest commit of each other instance.
        began: The original instance.
        accepted: Commits approved to delete any number of files.
        dry_run: Compute everything without changing anything.

    Raises:
        LockedError: Another writer held the memory for too long.
        FamiliarError: The journal is damaged, or a write failed; nothing was changed.
    """
    error: FamiliarError | None = None
    for tried in range(_TRIES):
        if tried:
            store.catch_up()
        try:
            return _join_once(
                store,
                JournalPast(repository, began),
                heads,
                accepted,
                dry_run=dry_run,
                is_last=tried == _TRIES - 1,
            )
        except ConflictError as meanwhile:
            error = meanwhile
    assert error is not None
    raise error


def _join_once(
    store: MemoryStore,
    past: JournalPast,
    heads: Mapping[str, str],
    accepted: frozenset[str],
    *,
    dry_run: bool,
    is_last: bool,
) -> Outcome:
    """Merge once; see `join_heads`. `is_last` means there is no further retry."""
    own = past.repository.head()
    if own is None:
        return Outcome()
    new = [h for h in dict.fromkeys(heads.values()) if not comes_before(past.parents, h, own)]
    if not new:
        return _put_late(store, past, own, dry_run=dry_run)

    merged = merge_heads([own, *new], past)
    here = past.tree(own)
    unmerged = {name: head for name, head in heads.items() if head in new}
    waiting = _large_deletions(past, own, unmerged, merged, accepted)
    if waiting:
        new = [head for head in new if head not in {one.commit for one in waiting}]
        if not new:
            return Outcome(waiting=waiting)
        merged = merge_heads([own, *new], past)
    merged = files.split_marked(merged, here, past.read)
    taking = _MergeSteps(store, past, merged.blobs, here, list_absent(past.repository))
    taking.sort_out(merged.changes_from(here), is_settled=is_last)
    commits = tuple(newest_commits(past.parents, new))
    modes, gone = _special_entries(past, own, new, merged)
    taking.keep_special(modes, gone)
    is_forward = taking.can_forward and _is_continued(past, own, commits, merged)
    if not is_forward and not taking.changes_tree and not modes:
        return Outcome(refused=taking.problems, waiting=waiting)
    joined = IncomingCommits(
        own,
        commits,
        taking.absent,
        tuple(taking.gone),
        taking.new_blobs(),
        is_forward=is_forward,
        modes=modes,
    )
    names = sorted({past.instance(commit) for commit in commits})
    message = f"merge {', '.join(names)}"
    with store.transaction(SYNC, message, dry_run=dry_run, joined=joined) as tx:
        taking.stage(tx)
    changes = tx.result
    return Outcome(
        commits,
        changes.written,
        changes.deleted,
        merged.conflicts,
        merged.notes,
        taking.problems,
        waiting,
    )


def _special_entries(
    past: JournalPast, own: str, new: Sequence[str], merged: files.MergedTree
) -> tuple[dict[str, tuple[str, bytes]], list[str]]:
    """Return the links, submodules and modes that git users changed, and those they deleted."""
    here, result, gone = past.special(own), dict[str, tuple[str, bytes]](), list[str]()
    for head in new:
        bases = common_commits(past.parents, [own], [head])
        before = past.special(bases[0]) if bases else {}
        theirs = past.special(head)
        gone += [path for path in before.keys() - theirs.keys() if path not in merged.files]
        for path, (id_, mode) in theirs.items():
            old_id, old_mode = before.get(path, ("", b""))
            if mode != old_mode or (id_ != old_id and path not in merged.files):
                result[path] = (merged.files.get(path, id_), mode)
    changed = {path: one for path, one in result.items() if here.get(path) != one}
    return changed, sorted(here.keys() & gone)


def _large_deletions(
    past: JournalPast,
    own: str,
    heads: Mapping[str, str],
    merged: files.MergedTree,
    accepted: frozenset[str],
) -> tuple[LargeDeletion, ...]:
    """Return the heads that delete too much, or all if only together they do.

    Args:
        past: The journal.
        own: Newest local commit.
        heads: Newest unmerged commits of instances and branches.
        merged: Result of merging them all.
        accepted: Commits approved to delete any number of files.
    """
    here = past.tree(own)
    if accepted.issuperset(heads.values()) or not _deletes_much(merged, here):
        return ()
    names = sorted(heads, key=lambda name: (not name.startswith("refs/"), name))
    deletions, alone = [], []
    for head, instance in {heads[name]: name for name in names}.items():
        if head not in accepted:
            made = merge_heads([own, head], past)
            deleted = count_deleted(made.changes_from(here), here)
            deletions.append(LargeDeletion(head, instance, deleted, len(here)))
            alone += [deletions[-1]] if _deletes_much(made, here) else []
    return tuple(alone or deletions)


def _deletes_much(merged: files.MergedTree, here: Mapping[str, str]) -> bool:
    return is_large(count_deleted(merged.changes_from(here), here), len(here))


def _is_continued(
    past: JournalPast, own: str, commits: Sequence[str], merged: files.MergedTree
) -> bool:
    """Tell whether a single new commit follows `own` and holds only memory files."""
    if len(commits) > 1 or not comes_before(past.parents, own, commits[0]):
        return False
    return past.tree(commits[0]) == merged.files and past.holds_only_files(commits[0])


def _put_late(store: MemoryStore, past: JournalPast, own: str, *, dry_run: bool) -> Outcome:
    """Write files that could not be stored here before and now can."""
    known = list_absent(past.repository)
    if not known:
        return Outcome()
    taking = _MergeSteps(store, past, {}, past.tree(own), known)
    taking.sort_out({})
    if not taking.steps:
        return Outcome()
    message = "write what could not be here before"
    with store.transaction(SYNC, message, dry_run=dry_run) as tx:
        taking.stage(tx)
    return Outcome(written=tx.result.written)


def is_pointer(path: str, content: bytes) -> bool:
    """Tell whether a file is not a memory but names one that Git LFS keeps elsewhere."""
    return content.startswith(_LFS_POINTER) and not path.endswith(".md")


class _MergeSteps(Struct):
    """Which changes of a merge can be made here.

    Attributes:
        steps: What can be made on disk.
        absent: New versions that cannot be here.
        gone: Files that were not here, and are deleted.
        refused: Why a file could not be taken over, by path.
    """

    store: MemoryStore
    past: JournalPast
    blobs: Mapping[str, bytes]
    here: Mapping[str, str]
    known: Mapping[str, AbsentVersion]
    _changes: Mapping[str, str | None] = {}
    steps: list[tuple[str, bytes | None, str]] = field(default_factory=list)
    absent: dict[str, AbsentVersion] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = self.known.items()
        self.known = {path: one for path, one in known if self.here.get(path) == one.id}

    @property
    def problems(self) -> dict[str, str]:
        """What could not be taken over although it is memory: the reason by path."""
        return {path: why for path, why in self.refused.items() if why != NOT_MEMORY}

    @property
    def can_forward(self) -> bool:
        """Whether every deletion can be applied."""
        return all(
            self._changes[path] is not None for path in self.refused if path in self._changes
        )

    @property
    def changes_tree(self) -> bool:
        """Whether the journal's tree changes."""
        return bool(self.absent or self.gone) or any(
            path in self._changes for path, *_ in self.steps
        )

    def new_blobs(self) -> dict[str, bytes]:
        """Return merged contents that cannot be stored here, by id."""
        ids = {one.id for one in self.absent.values()}
        return {id_: content for id_, content in self.blobs.items() if id_ in ids}

    def sort_out(self, changes: Mapping[str, str | None], *, is_settled: bool = False) -> None:
        """Separate changes that can be applied from refused ones.

        Files refused earlier are retried.
        """
        self._changes = changes
        self.refused.update(self.past.refused)
        late = {path: one.id for path, one in self.known.items() if path not in changes}
        trial, steps = Transaction(SYNC, ""), []
        every = {**changes, **late}
        for path, id_ in sorted(every.items(), key=lambda change: change[1] is not None):
            if id_ is None and path in self.known and not self.known[path].here:
                self.gone.append(path)
                continue
            if id_ and is_of_repository(path) and not self._id_here(path):
                self.refused[path] = NOT_MEMORY
                continue
            try:
                content = None if id_ is None else self._content(path, id_)
                steps.append((path, content, self._expected_hash(path)))
                self._stage_one(trial, *steps[-1])
            except RefusedError as error:
                self.refused[path] = str(error)
        problems = self.store.refused(trial, is_settled=is_settled)
        self.refused.update((path, str(error)) for path, error in problems.items())
        self.steps = [step for step in steps if step[0] not in self.refused]
        self.absent = {
            path: AbsentVersion(id_, self._id_here(path), self.refused[path])
            for path in sorted(self.refused.keys() & changes.keys())
            if (id_ := changes[path])
        }
        for path in late.keys() & self.refused.keys():
            del self.refused[path]

    def keep_special(self, entries: Mapping[str, tuple[str, bytes]], gone: Iterable[str]) -> None:
        """Note links and submodules, which the journal has and the disk has not."""
        self.gone += gone
        for path, (id_, _) in entries.items():
            if path not in self.here and path not in self._changes:
                self.absent[path] = AbsentVersion(id_, "", NOT_MEMORY)

    def stage(self, tx: Transaction) -> None:
        """Stage the changes that can be applied."""
        for path, content, expect in self.steps:
            self._stage_one(tx, path, content, expect)

    def _stage_one(self, tx: Transaction, path: str, content: bytes | None, expect: str) -> None:
        if content is None:
            tx.delete(path, expect=expect)
        else:
            tx.write(path, content, expect=expect, any_size=True)

    def _id_here(self, path: str) -> str:
        """Return the id of a file's content on disk, or an empty string."""
        return self.known[path].here if path in self.known else self.here.get(path, "")

    def _expected_hash(self, path: str) -> str:
        known = self._id_here(path)
        return sha256_of(self.past.read(known)) if known else MISSING

    def _content(self, path: str, id_: str) -> bytes:
        content = self.blobs.get(id_)
        content = self.past.read(id_) if content is None else content
        most = max(self.store.limits.max_file_bytes, MOST_RECORDED_BYTES)
        if is_pointer(path, content):
            raise RefusedError(f"{path!r} is only a pointer of Git LFS, without its content")
        if len(content) > most:
            raise RefusedError(f"{path!r} has {len(content):,} bytes, over the limit of {most:,}")
        return content
