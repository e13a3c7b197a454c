"""Merge two versions of a memory with a common base, file by file.

Only files changed on both sides are read. A change on one side is taken byte for byte; a file that
one side deleted and the other changed is kept. `POLICIES` tells which version wins in a file with
clashes; the other one is kept whole below `conflicts/`.

Names that differ only in case or Unicode normalization are the same file on some systems, so they
are treated as the same everywhere. If one side renamed a file and the other changed it, the change
follows the rename.

A conflict copy is the other machine's file, byte for byte, so that any program can compare it. Its
details are in `conflicts/README.md`, a readable list whose lines end in a comment for the program.
Each merge regenerates that list, so it never conflicts itself.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from itertools import chain, count
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from msgspec import Struct, convert, field, to_builtins
from msgspec.structs import replace

from familiar_cli.base.text import counted, fold
from familiar_cli.store.memory import layout

if TYPE_CHECKING:
    from familiar_cli.store.memory.store.store import MemoryStore

Files = Mapping[str, str]
"""Files of a version: `rel_path` -> git blob id."""

Read = Callable[[str], bytes]
"""Loads the content of a blob id."""

_ALIKE: Final = 0.6  # minimum share of the larger content, as for `memory log`
_MOST_PAIRS: Final = 2_000  # maximum number of comparisons; git has a limit, too
_MOST_BYTES: Final = 1024 * 1024


def name_alike(
    trees: tuple[Files, Files, Files], read: Read
) -> tuple[tuple[Files, Files, Files], Mapping[str, Collection[str]], dict[str, str]]:
    """Give each file the same name on both sides and in the base.

    Args:
        trees: The base; one side, whose names win by default; and the other one.
        read: Loads the content of any of their files.

    Returns:
        The three trees under unified names; each file's other names by its new name; and the old
        name, by new name, of each file renamed on one side and changed on the other.
    """
    base, ours, theirs = map(dict, trees)
    former: dict[str, set[str]] = {}
    if ours.keys() == theirs.keys():
        return trees, former, {}
    spellings = _settled_spellings(base, ours, theirs)
    for tree in (base, ours, theirs) if spellings else ():
        _apply_spellings(tree, spellings, former)
    renamed = _follow_renames(base, ours, theirs, read, former)
    return (base, ours, theirs), former, renamed


def _settled_spellings(base: Files, ours: Files, theirs: Files) -> dict[str, str]:
    """Return the settled spelling of a folded path's last part, where the sides differ.

    The side that changed the spelling wins. Twins on one side are left alone.
    """
    first = _parts_by_fold(ours.keys() - theirs.keys())
    second = _parts_by_fold(theirs.keys() - ours.keys())
    both = {f for f in first.keys() & second.keys() if first[f] != second[f]}
    if not both:
        return {}
    before = _parts_by_fold(base)
    result = {}
    for folded in both:
        if len(first[folded]) == len(second[folded]) == 1:
            (one,), (other,) = first[folded], second[folded]
            result[folded] = other if one in before.get(folded, ()) else one
    return result


def _parts_by_fold(paths: Iterable[str]) -> dict[str, set[str]]:
    """Return the last parts of all paths and their parents, by folded path."""
    result: dict[str, set[str]] = {}
    for path in paths:
        for folded, part in _folded_parts(path):
            result.setdefault(folded, set()).add(part)
    return result


def _folded_parts(path: str) -> Iterator[tuple[str, str]]:
    at = ""
    for part in path.split("/"):
        at = f"{at}/{fold(part)}" if at else fold(part)
        yield at, part


def _apply_spellings(
    tree: dict[str, str], spellings: Mapping[str, str], former: dict[str, set[str]]
) -> None:
    for path in list(tree):
        new = "/".join(spellings.get(folded, part) for folded, part in _folded_parts(path))
        if new != path and new not in tree:
            tree[new] = tree.pop(path)
            former.setdefault(new, set()).add(path)


def _follow_renames(
    base: dict[str, str],
    ours: dict[str, str],
    theirs: dict[str, str],
    read: Read,
    former: dict[str, set[str]],
) -> dict[str, str]:
    """Apply renames to the side that did not rename; return new and old names."""
    result: dict[str, str] = {}
    paths = {path for path in base if not layout.is_in_conflicts(path)}
    gone_here, gone_there = paths - ours.keys(), paths - theirs.keys()
    changed_there = {p for p in gone_here if p in theirs and theirs[p] != base[p]}
    changed_here = {p for p in gone_there if p in ours and ours[p] != base[p]}
    in_both = gone_here & gone_there
    new_here, new_there = ours.keys() - base.keys(), theirs.keys() - base.keys()
    to = _match_renames(base, changed_there | in_both, ours, new_here - theirs.keys(), read)
    too = _match_renames(base, changed_here | in_both, theirs, new_there - ours.keys(), read)
    for tree, other, renames in ((ours, theirs, to), (theirs, ours, too)):
        for old, new in renames.items():
            if old not in base or new in other or new not in tree:
                continue  # its name was settled together with the other side's
            source = old if old in other else too.get(old) if tree is ours else None
            if source is None or source not in other:
                continue
            other[new] = other.pop(source)
            base[new] = base.pop(old)
            former.setdefault(new, set()).update({old, source})
            result[new] = old
    return result


def _match_renames(
    base: Files, gone: Collection[str], tree: Files, new: Collection[str], read: Read
) -> dict[str, str]:
    """Detect renames: an identical new file, or else the most similar one."""
    if not gone or not new:
        return {}
    free = {path for path in new if not layout.is_in_conflicts(path)}
    result: dict[str, str] = {}
    for old in sorted(gone):
        same = [path for path in free if tree[path] == base[old]]
        if same:
            result[old] = min(same, key=lambda path: (_file_name(path) != _file_name(old), path))
            free.discard(result[old])
    rest = [old for old in sorted(gone) if old not in result]
    if not rest or not free or len(rest) * len(free) > _MOST_PAIRS:
        return result
    sums = _Contents(read)
    pairs = ((sums.likeness(base[old], tree[path]), old, path) for old in rest for path in free)
    for likeness, old, path in sorted(pairs, key=lambda pair: (-pair[0], *pair[1:])):
        if likeness >= _ALIKE and old not in result and path in free:
            result[old] = path
            free.discard(path)
    return result


class _Contents:
    """Cache of contents as line counts."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._lines: dict[str, Counter[bytes]] = {}

    def likeness(self, one: str, other: str) -> float:
        """Return the common share of the larger content, by bytes: 0 to 1."""
        first, second = self._of(one), self._of(other)
        most = max(_total_bytes(first), _total_bytes(second))
        return _total_bytes(first & second) / most if most else 0.0

    def _of(self, blob: str) -> Counter[bytes]:
        if blob not in self._lines:
            content = self._read(blob)
            is_small = len(content) <= _MOST_BYTES
            self._lines[blob] = Counter(content.splitlines(keepends=True) if is_small else ())
        return self._lines[blob]


def _total_bytes(lines: Mapping[bytes, int]) -> int:
    return sum(len(line) * count for line, count in lines.items())


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


_BELOW: Final = f"{layout.CONFLICTS_DIR}/"
_ENTRY: Final = re.compile(r"^- .*<!-- conflict (\{.*\}) -->[ \t\r]*$", re.MULTILINE)
_HEAD: Final = """\
# Conflicts

Two machines changed these files, each in its own way. Their changes were combined; where they
differ, the file holds one version, and the copy listed here is the complete other version.
Copies are not searched or shown to a model. `familiar sync resolve` shows the differences and
resolves them.

"""


class Conflict(Struct, frozen=True):
    """A file with two versions that cannot be merged.

    Args:
        path: The file. It holds all mergeable changes, and the winning version of the rest.
        copy: The file with the whole other version.
        ours: Machine whose version won.
        theirs: Machine whose version is in the copy.
        base: Id of the common base; empty if there was no such file.
        what: Kinds of clashes, each once, e.g. `list item`, `key 'aliases'`.
    """

    path: str
    copy: str
    ours: str
    theirs: str
    base: str
    what: tuple[str, ...]


def is_copy(rel_path: str) -> bool:
    """Tell whether a file is a conflict copy."""
    return layout.is_in_conflicts(rel_path) and rel_path != layout.CONFLICTS_LIST


def copy_path(rel_path: str, instance: str, is_taken: Callable[[str], bool]) -> str:
    """Return the path of a conflict copy: `conflicts/people/anna.md`.

    Args:
        rel_path: The file; one already below `conflicts/` gets no second prefix.
        instance: Machine of that version, added to the path if the plain name is taken.
        is_taken: Tells whether a path is in use.
    """
    plain = f"{_BELOW}{rel_path.removeprefix(_BELOW)}"
    if plain != layout.CONFLICTS_LIST and not is_taken(plain):
        return plain
    path = PurePosixPath(plain)
    names = (f"{path.stem}.{instance}{more}{path.suffix}" for more in chain([""], count(-2, -1)))
    return next(one for name in names if not is_taken(one := str(path.with_name(name))))


def listed_conflicts(text: str) -> list[Conflict]:
    """Parse the list of conflicts; damaged lines are skipped."""
    conflicts = (_parse_conflict(entry[1]) for entry in _ENTRY.finditer(text))
    return [one for one in conflicts if one is not None]


def conflicts_in(store: MemoryStore) -> list[Conflict]:
    """Return the conflicts of a memory, sorted by path; fast when there are none."""
    there = store.walk(layout.CONFLICTS_DIR, hidden=True, missing_ok=True).files
    copies = [entry.rel_path for entry in there]
    text = (
        store.read_bytes(layout.CONFLICTS_LIST).decode("utf-8", "replace")
        if layout.CONFLICTS_LIST in copies
        else ""
    )
    return open_conflicts([text], copies)


def list_text(conflicts: Iterable[Conflict]) -> str:
    """Format the list of conflicts; empty if there are none."""
    lines = [_list_line(one) for one in conflicts]
    return _HEAD + "".join(lines) if lines else ""


def open_conflicts(
    lists: Iterable[str], paths: Iterable[str], new: Iterable[Conflict] = ()
) -> list[Conflict]:
    """Return the open conflicts, sorted by path.

    Args:
        lists: Earlier lists; later ones take precedence.
        paths: Files; a conflict is open while its copy is among them.
        new: Conflicts found since.
    """
    before = (one for text in lists for one in listed_conflicts(text))
    known = {one.copy: one for one in (*before, *new)}
    conflicts = (
        known.get(copy) or Conflict(copy.removeprefix(_BELOW), copy, "", "", "", ())
        for copy in paths
        if is_copy(copy)
    )
    return sorted(conflicts, key=lambda one: (one.path, one.copy))


def _list_line(one: Conflict) -> str:
    text = json.dumps(to_builtins(one), ensure_ascii=False)
    data = text.replace("<", "\\u003c").replace(">", "\\u003e")
    link = f"[{_escape_name(one.path)}]({quote(one.copy.removeprefix(_BELOW))})"
    which = f": the version of {_escape_name(one.theirs)}" if one.theirs else ""
    return f"- {link}{which} <!-- conflict {data} -->\n"


def _escape_name(name: str) -> str:
    return re.sub(r"([\[\]<>`*_\\])", r"\\\1", name)


def _parse_conflict(data: str) -> Conflict | None:
    try:
        one = convert(json.loads(data), Conflict)
    except (ValueError, RecursionError):
        return None
    return one if is_copy(one.copy) else None


HUMAN: Final = "human"
_PAGES: Final = (".md", ".markdown", ".txt")


class MergeNote(Struct, frozen=True):
    """A user-facing note about a merged file.

    Args:
        text: What happened to it, e.g. `kept: deleted on laptop-7f3a, changed on desk-11aa`.
    """

    path: str
    text: str


class MergedTree(Struct, frozen=True):
    """Result of merging several versions of a memory.

    Args:
        files: All files.
        blobs: Contents that none of the versions has, by id.
        conflicts: Conflicts found by this merge, sorted by path.
        notes: Other noteworthy results, sorted by path.
    """

    files: Files
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    notes: tuple[MergeNote, ...] = ()

    def changes_from(self, tree: Files) -> dict[str, str | None]:
        """Return the changes that turn a tree into this one: path -> id, None to delete."""
        gone = dict.fromkeys(sorted(tree.keys() - self.files.keys()))
        return gone | dict(sorted(self.files.items() - tree.items()))


class Editor(Struct, frozen=True):
    """Author of a change to a file: a machine, and a part of the program or `human`."""

    instance: str
    source: str


class Side(Struct, frozen=True):
    """One of two versions.

    Args:
        instance: Machine that made it.
        hands: Returns who changed a file since the common base.
    """

    files: Files
    instance: str
    hands: Callable[[str], tuple[Editor, ...]] = lambda _: ()

    def under(self, files: Files, former: Mapping[str, Collection[str]]) -> Side:
        """Return the side with its files renamed.

        Args:
            former: Every other name of a file.
        """
        hands = self.hands

        def under_any_name(path: str) -> tuple[Editor, ...]:
            names = (path, *sorted(former.get(path, ())))
            return tuple(dict.fromkeys(hand for name in names for hand in hands(name)))

        return replace(self, files=files, hands=under_any_name)

    def by_person(self, path: str) -> bool:
        """Tell whether a person changed a file."""
        return any(hand.source == HUMAN for hand in self.hands(path))

    def by_machine(self, path: str, instance: str) -> bool:
        """Tell whether a machine changed a file; `instance` may be a prefix of its id."""
        ids = {hand.instance for hand in self.hands(path)}
        return bool(instance) and any(f"{id_}-".startswith(f"{instance}-") for id_ in ids)

    def name(self, path: str) -> str:
        """Return the machine to name for this side's version of a file."""
        return next((hand.instance for hand in self.hands(path)), self.instance)


class Kind(StrEnum):
    """Kind of file, for conflict resolution."""

    identity = "identity"
    daily = "daily"
    folded = "folded"
    correction = "correction"
    rest = "rest"


class Rule(StrEnum):
    """How the winning version is chosen. The first rule that tells them apart applies."""

    owner = "owner"
    person = "person"
    order = "order"


class Policy(Struct, frozen=True):
    """How a file changed on both sides is resolved.

    Args:
        files: Description of the files it applies to.
        stands: Which version wins where both cannot be kept.
        keeps_other: Whether the other side's changes are merged, and its version kept as a conflict
            copy if they clash. Otherwise one version is taken whole, since the program regenerates
            the file.
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
"""One row per class of files; shown on the documentation page about merging."""


def merge_trees(base: Files, ours: Side, theirs: Side, read: Read) -> MergedTree:
    """Merge two sides. The result does not depend on the machine that runs it.

    Args:
        base: Common base; several are merged first.
        ours: One side.
        theirs: The other one.
        read: Loads the content of any of their files.
    """
    trees, former, renamed = name_alike((base, ours.files, theirs.files), read)
    ours, theirs = ours.under(trees[1], former), theirs.under(trees[2], former)
    return _Trees(trees[0], ours, theirs, read, renamed).merged()


def kind_of(path: str, ours: Side, theirs: Side) -> Kind:
    """Return the policy class of a file changed on both sides."""
    directory = path.partition("/")[0]
    if directory == layout.DAILY_DIR:
        return Kind.daily
    if directory == layout.SELF_DIR:
        return Kind.identity
    if ours.by_person(path) or theirs.by_person(path):
        return Kind.correction
    return Kind.folded if is_made(path) else Kind.rest


def is_made(path: str) -> bool:
    """Tell whether a file is derived by consolidation."""
    directory = path.partition("/")[0]
    return directory in layout.PERIOD_DIRS or directory == layout.DIGEST_DIR


def owner_of(path: str) -> str:
    """Return the machine that a daily file belongs to, or an empty string if unnamed."""
    return path.rpartition("/")[2].removesuffix(".md").partition("_")[2]


class _Trees:
    """A merge of two sides in progress."""

    def __init__(
        self, base: Files, ours: Side, theirs: Side, read: Read, renamed: Mapping[str, str]
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
        # A single set operation: a tree of ten thousand files takes milliseconds.
        differing = sorted({path for path, _ in ours.items() ^ theirs.items()})
        for path in differing:
            if path != layout.CONFLICTS_LIST:
                self._merge(path)
        self._part_twins(path for path in differing if path not in self._base)
        if self._conflicts or any(
            path == layout.CONFLICTS_LIST or is_copy(path) for path in differing
        ):
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
            side, kept = self._ours, self._theirs
            if other is None:
                side, kept = kept, side
            text = f"kept: deleted on {side.instance}, changed on {kept.name(path)}"
            self._notes.append(MergeNote(path, text))
        else:
            self._both(path, was, mine, other)

    def _both(self, path: str, was: str | None, mine: str, other: str) -> None:
        """Merge a file that both sides changed differently."""
        first, second = self._ours, self._theirs
        if is_made(path) and POLICIES[kind := self._kind(path)].keeps_other is False:
            side = self._stands(POLICIES[kind], path)
            self._put(path, mine if side is first else other)
            text = f"kept: the version of {side.name(path)}, to be made again from both"
            self._notes.append(MergeNote(path, text))
            return
        from familiar_cli.store.memory.merge.content import merge_content

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

    def _keep_copy(self, conflict: Conflict, blob: str) -> None:
        """Store the other version of a file; sets the path of the copy in `conflict`."""
        copy = copy_path(conflict.path, conflict.theirs, lambda one: self._is_taken(one, blob))
        self._put(copy, blob)
        self._conflicts.append(replace(conflict, copy=copy))

    def _is_taken(self, path: str, blob: str) -> bool:
        trees = (self._base, self._ours.files, self._theirs.files, self._files)
        return any(tree.get(path, blob) != blob for tree in trees)

    def _part_twins(self, added: Iterable[str]) -> None:
        """Set aside files whose names collide on some systems, or collide with a directory."""
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
            self._read(tree[layout.CONFLICTS_LIST]).decode("utf-8", "replace")
            if layout.CONFLICTS_LIST in tree
            else ""
            for tree in (self._base, self._theirs.files, self._ours.files)
        ]
        text = list_text(open_conflicts(lists, self._files, self._conflicts))
        self._files.pop(layout.CONFLICTS_LIST, None)
        if text:
            self._put_content(layout.CONFLICTS_LIST, text.encode())

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


_MARKED: Final = re.compile(
    rb"^<{7}[^\n]*\n(.*?)(?:^\|{7}[^\n]*\n.*?)?^={7}\r?\n(.*?)^>{7}[^\n]*(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)


def split_marked(merged: MergedTree, here: Files, read: Read) -> MergedTree:
    """Make conflicts of changed pages in which git left its conflict markers.

    The part above the middle line stays in the page; the other version becomes a copy.

    Args:
        merged: A merge.
        here: The files before it.
        read: Returns the content of a blob.
    """
    made, blobs, found = dict(merged.files), dict(merged.blobs), list[Conflict]()
    for path, id_ in merged.changes_from(here).items():
        content = (blobs[id_] if id_ in blobs else read(id_)) if id_ else b""
        if b"<<<<<<<" not in content or not path.endswith(_PAGES) or is_copy(path):
            continue
        ours, theirs = _MARKED.sub(rb"\1", content), _MARKED.sub(rb"\2", content)
        if ours == content:
            continue
        other = blob_id(theirs)
        copy = copy_path(path, "git", partial(_is_other, made, other))
        made.update({path: blob_id(ours), copy: other})
        blobs.update({blob_id(ours): ours, other: theirs})
        found.append(Conflict(path, copy, "", "git", "", ("text",)))
    if not found:
        return merged
    listed = made.get(layout.CONFLICTS_LIST, "")
    before = (blobs[listed] if listed in blobs else read(listed)) if listed else b""
    text = list_text(open_conflicts([before.decode("utf-8", "replace")], made, found)).encode()
    made[layout.CONFLICTS_LIST] = blob_id(text)
    blobs[blob_id(text)] = text
    every = sorted((*merged.conflicts, *found), key=lambda one: one.path)
    return replace(merged, files=made, blobs=blobs, conflicts=tuple(every))


def _is_other(known: Files, blob: str, path: str) -> bool:
    return known.get(path, blob) != blob


def _is_below_file(folded: str, known: Mapping[str, str]) -> bool:
    return any(folded[:at] in known for at, sign in enumerate(folded) if sign == "/")


def blob_id(content: bytes) -> str:
    """Return the git blob id of a file's content."""
    head = b"blob %d\0" % len(content)
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()
