"""Two versions of a memory and what both began with: file by file, as one.

Only files that changed on both sides are read. What one side alone changed is taken byte for byte;
a file that one side deleted and the other changed is kept. Which version stands in a file where
both cannot be had is told by `POLICIES`; the other one is kept whole below `conflicts/`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from familiar_cli.memory.layout import CONFLICTS_LIST, DAILY_DIR, DIGEST_DIR, PERIOD_DIRS, SELF_DIR
from familiar_cli.memory.merge.conflicts import Conflict, copy_path, is_copy, list_text, standing
from familiar_cli.memory.merge.content import merge_content
from familiar_cli.memory.merge.names import name_alike
from familiar_cli.text import counted, fold

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

HUMAN: Final = "human"

Tree = Mapping[str, str]
"""Files of a version: `rel_path` -> git blob id."""

Read = Callable[[str], bytes]
"""Loads the content of a blob id."""


@dataclass(frozen=True, slots=True)
class MergeNote:
    """Note for people about a merged file.

    Args:
        path: The file.
        text: What happened to it, e.g. `kept: deleted on laptop-7f3a, changed on desk-11aa`.
    """

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class MergedTree:
    """Result of merging several versions of a memory.

    Args:
        files: Every file.
        blobs: The content of those that stand so in none of the versions, by id.
        conflicts: Those that this merge found, sorted by path.
        notes: What else it did that shows, sorted by path.
    """

    files: Tree
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    notes: tuple[MergeNote, ...] = ()

    def changes_from(self, tree: Tree) -> dict[str, str | None]:
        """Return the changes that turn a tree into this one: path -> id, None to delete."""
        gone = dict.fromkeys(sorted(tree.keys() - self.files.keys()))
        return gone | dict(sorted(self.files.items() - tree.items()))


@dataclass(frozen=True, slots=True)
class Editor:
    """Who changed a file: a machine, and the part of the program or `human`."""

    instance: str
    source: str


@dataclass(frozen=True, slots=True)
class Side:
    """One of two versions.

    Args:
        files: What it holds.
        instance: The machine that made it.
        hands: Returns who changed a file since the version that both began with.
    """

    files: Tree
    instance: str
    hands: Callable[[str], tuple[Editor, ...]] = lambda _: ()

    def under(self, files: Tree, former: Mapping[str, Collection[str]]) -> Side:
        """Return the side with its files renamed.

        Args:
            files: The files.
            former: Every other name of a file.
        """
        hands = self.hands

        def under_any_name(path: str) -> tuple[Editor, ...]:
            names = (path, *sorted(former.get(path, ())))
            return tuple(dict.fromkeys(hand for name in names for hand in hands(name)))

        return replace(self, files=files, hands=under_any_name)

    def by_person(self, path: str) -> bool:
        """Return whether a person changed a file."""
        return any(hand.source == HUMAN for hand in self.hands(path))

    def by_machine(self, path: str, instance: str) -> bool:
        """Return whether a machine changed a file; `instance` may lack the end of its id."""
        ids = {hand.instance for hand in self.hands(path)}
        return bool(instance) and any(f"{id_}-".startswith(f"{instance}-") for id_ in ids)

    def name(self, path: str) -> str:
        """Return the machine to name for its version of a file."""
        return next((hand.instance for hand in self.hands(path)), self.instance)


class Kind(StrEnum):
    """What is in a file, as far as a conflict goes."""

    identity = "identity"
    daily = "daily"
    folded = "folded"
    correction = "correction"
    rest = "rest"


class Rule(StrEnum):
    """Which of two versions stands in the file. The first rule that tells them apart counts."""

    owner = "owner"
    person = "person"
    order = "order"


@dataclass(frozen=True, slots=True)
class Policy:
    """What becomes of a file that both sides changed.

    Args:
        files: Which files it is for, in words.
        stands: Which version is in the file where both cannot be had.
        keeps_other: What only one side changed is taken from it, and where that cannot be, the
            other version is kept as a conflict. Else one version is taken whole: the program
            makes it again.
    """

    files: str
    stands: tuple[Rule, ...]
    keeps_other: bool = True


POLICIES: Final[Mapping[Kind, Policy]] = {
    Kind.identity: Policy("who the familiar is: `self/`", (Rule.person, Rule.order)),
    Kind.daily: Policy("days: `daily/`", (Rule.owner, Rule.person, Rule.order)),
    Kind.folded: Policy(
        "`weekly/`, `monthly/`, `yearly/` and `digest/`, where the program alone changed both",
        (Rule.order,),
        keeps_other=False,
    ),
    Kind.correction: Policy("any other file that a person changed", (Rule.person, Rule.order)),
    Kind.rest: Policy("everything else", (Rule.order,)),
}
"""One row for each class of files; the page on merging shows it."""


def merge_trees(base: Tree, ours: Side, theirs: Side, read: Read) -> MergedTree:
    """Return both sides as one. `ours` is the one that is shown first, whoever asks.

    Args:
        base: What both began with; where they began several times, that merged.
        ours: One side.
        theirs: The other one.
        read: Gives the content of any of their files.
    """
    trees, former, renamed = name_alike((base, ours.files, theirs.files), read)
    ours, theirs = ours.under(trees[1], former), theirs.under(trees[2], former)
    return _Trees(trees[0], ours, theirs, read, renamed).merged()


def kind_of(path: str, ours: Side, theirs: Side) -> Kind:
    """Return which policy a file that both sides changed is under."""
    directory = path.partition("/")[0]
    if directory == DAILY_DIR:
        return Kind.daily
    if directory == SELF_DIR:
        return Kind.identity
    if ours.by_person(path) or theirs.by_person(path):
        return Kind.correction
    return Kind.folded if is_made(path) else Kind.rest


def is_made(path: str) -> bool:
    """Return whether a file is one that consolidation makes of others."""
    directory = path.partition("/")[0]
    return directory in PERIOD_DIRS or directory == DIGEST_DIR


def owner_of(path: str) -> str:
    """Return the machine that a daily file belongs to; empty: the name does not say."""
    return path.rpartition("/")[2].removesuffix(".md").partition("_")[2]


class _Trees:
    """One merge of two sides, under way."""

    def __init__(
        self, base: Tree, ours: Side, theirs: Side, read: Read, renamed: Mapping[str, str]
    ) -> None:
        self._base = base
        self._ours = ours
        self._theirs = theirs
        self._read_old = read
        self._files = dict(ours.files)
        self._blobs: dict[str, bytes] = {}
        self._conflicts: list[Conflict] = []
        self._notes = [MergeNote(new, f"renamed from {old}") for new, old in renamed.items()]

    def merged(self) -> MergedTree:
        ours, theirs = self._ours.files, self._theirs.files
        # One pass over the names, in C; a tree of ten thousand files takes milliseconds.
        differing = sorted({path for path, _ in ours.items() ^ theirs.items()})
        for path in differing:
            if path != CONFLICTS_LIST:
                self._merge(path)
        self._part_twins(path for path in differing if path not in self._base)
        if self._conflicts or any(path == CONFLICTS_LIST or is_copy(path) for path in differing):
            self._write_list()
        return MergedTree(
            self._files,
            self._blobs,
            tuple(sorted(self._conflicts, key=lambda one: one.path)),
            tuple(sorted(self._notes, key=lambda one: one.path)),
        )

    def _merge(self, path: str) -> None:
        was, mine, other = (t.get(path) for t in (self._base, self._ours.files, self._theirs.files))
        if was == mine:
            self._put(path, other)
        elif was == other:
            pass
        elif mine is None or other is None:
            self._put(path, mine or other)
            gone, kept = self._ours, self._theirs
            if other is None:
                gone, kept = kept, gone
            text = f"kept: deleted on {gone.instance}, changed on {kept.name(path)}"
            self._notes.append(MergeNote(path, text))
        else:
            self._both(path, was, mine, other)

    def _both(self, path: str, was: str | None, mine: str, other: str) -> None:
        """Merge a file that both sides changed, each in its own way."""
        first, second = self._ours, self._theirs
        if is_made(path) and POLICIES[kind := self._kind(path)].keeps_other is False:
            kept = self._stands(POLICIES[kind], path)
            self._put(path, mine if kept is first else other)
            text = f"kept: the version of {kept.name(path)}, to be made again from both"
            self._notes.append(MergeNote(path, text))
            return
        base, one, two = self._read(was) if was else b"", self._read(mine), self._read(other)
        made = merge_content(path, base, one, two)
        if made.clashes and self._stands(POLICIES[self._kind(path)], path) is second:
            first, second, other = second, first, mine
            made = merge_content(path, base, two, one)
        self._put_content(path, made.content)
        if made.kept:
            parts = counted(made.kept, "part")
            self._notes.append(
                MergeNote(path, f"kept: {parts} that one removed and the other changed")
            )
        if made.clashes:
            names = first.name(path), second.name(path)
            self._keep_copy(Conflict(path, "", *names, was or "", made.clashes), other)

    def _kind(self, path: str) -> Kind:
        return kind_of(path, self._ours, self._theirs)

    def _stands(self, policy: Policy, path: str) -> Side:
        sides = (self._ours, self._theirs)
        for rule in policy.stands:
            if rule is Rule.order:
                break
            owner = owner_of(path)
            says = [
                side.by_person(path) if rule is Rule.person else side.by_machine(path, owner)
                for side in sides
            ]
            if says[0] != says[1]:
                return sides[says.index(True)]
        return self._ours

    def _keep_copy(self, found: Conflict, blob: str) -> None:
        """Keep the other version of a file; the copy of `found` is named here."""
        copy = copy_path(found.path, found.theirs, lambda one: self._is_taken(one, blob))
        self._put(copy, blob)
        self._conflicts.append(replace(found, copy=copy))

    def _is_taken(self, path: str, blob: str) -> bool:
        trees = (self._base, self._ours.files, self._theirs.files, self._files)
        return any(tree.get(path, blob) != blob for tree in trees)

    def _part_twins(self, added: Iterable[str]) -> None:
        """Put files aside whose names some systems take for one, or for a directory and a file."""
        new = [path for path in added if path in self._files]
        if not new:
            return
        known: dict[str, str] = {}
        for path in sorted(self._files, key=lambda one: (one not in self._ours.files, one)):
            known.setdefault(fold(path), path)
        folders = {
            fold(path[:at]) for path in self._files for at, sign in enumerate(path) if sign == "/"
        }
        for path in new:
            if path in self._ours.files:
                continue
            folded = fold(path)
            if known[folded] != path or folded in folders or _is_below_file(folded, known):
                blob = self._files.pop(path)
                names = self._ours.instance, self._theirs.name(path)
                self._keep_copy(Conflict(path, "", *names, "", ("name",)), blob)

    def _write_list(self) -> None:
        lists = [
            self._read(tree[CONFLICTS_LIST]).decode("utf-8", "replace")
            if CONFLICTS_LIST in tree
            else ""
            for tree in (self._base, self._theirs.files, self._ours.files)
        ]
        text = list_text(standing(lists, self._files, self._conflicts))
        self._files.pop(CONFLICTS_LIST, None)
        if text:
            self._put_content(CONFLICTS_LIST, text.encode())

    def _put(self, path: str, blob: str | None) -> None:
        if blob is None:
            self._files.pop(path, None)
        else:
            self._files[path] = blob

    def _put_content(self, path: str, content: bytes) -> None:
        blob = blob_id(content)
        self._files[path] = blob
        self._blobs[blob] = content

    def _read(self, blob: str) -> bytes:
        return self._blobs[blob] if blob in self._blobs else self._read_old(blob)


def _is_below_file(folded: str, known: Mapping[str, str]) -> bool:
    return any(folded[:at] in known for at, sign in enumerate(folded) if sign == "/")


def blob_id(content: bytes) -> str:
    """Return the git blob id of a file's content."""
    head = b"blob %d\0" % len(content)
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()
