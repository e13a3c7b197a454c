"""Which objects some commits lead to and others do not: what is to be sent, or must have come."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from familiar_cli.errors import RefLimitError, RemoteDamagedError
from familiar_cli.memory.journal import bounds, commits, trees
from familiar_cli.memory.journal.delta import shared, shared_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from familiar_cli.memory.journal.objects import GitObject

_ENTRY: Final = re.compile(rb"([0-7]{5,6}) ([^\0]+)\0(.{20})", re.DOTALL)
_DIR: Final = b"40000"
_SUBMODULE: Final = b"160000"


class Source(Protocol):
    """Where objects are read from."""

    def get(self, id_: str) -> GitObject:
        """Return an object. Raises `FamiliarError` when it is missing or damaged."""


class RawEntry(NamedTuple):
    """What stands behind one name in a directory, exactly as it was written, by whomever."""

    mode: bytes
    name: bytes
    id: str


def raw_entries(tree: bytes) -> list[RawEntry]:
    """Return the entries of a tree object that came from elsewhere.

    Raises:
        RemoteDamagedError: It is none.
    """
    found = [RawEntry(m[1], m[2], m[3].hex()) for m in _ENTRY.finditer(tree)]
    if sum(len(e.mode) + len(e.name) + 22 for e in found) != len(tree):
        raise _unreadable()
    return found


def _unreadable() -> RefLimitError:
    return RefLimitError("a directory has an entry without a name, or cannot be read")


def new_objects(
    source: Source,
    wants: Iterable[str],
    is_known: Callable[[str], bool],
    *,
    most_levels: int | None = None,
) -> Iterator[str]:
    """Yield the ids of all objects that commits lead to, parents before children.

    Args:
        source: Where commits and directories are read; the known ones, too, where it has them.
        wants: The commits.
        is_known: Tells of a commit that it, and all it leads to, is not of interest.
        most_levels: How deep directories may be nested; None: as deep as they are.

    Raises:
        FamiliarError: A commit or a directory is missing or damaged. Of files only the ids are
            told.
    """
    seen: set[str] = set()
    roots: dict[str, str] = {}
    for id_, content in _new_commits(source, wants, is_known):
        yield id_
        tree, _ = commits.tree_and_parent(content)
        roots[id_] = tree
        old = [_tree_of(source, parent, roots) for parent in commits.parents(content)]
        yield from _new_in(source, [t for t in old if t], tree, seen, most_levels)


def _new_commits(
    source: Source, wants: Iterable[str], is_known: Callable[[str], bool]
) -> list[tuple[str, bytes]]:
    """Return the commits that are not known, and their contents, parents before children."""
    contents: dict[str, bytes] = {}
    done: list[tuple[str, bytes]] = []
    placed: set[str] = set()
    waiting = list(wants)
    while waiting:
        id_ = waiting[-1]
        if id_ in placed or (id_ not in contents and is_known(id_)):
            waiting.pop()
            continue
        if id_ in contents:  # all its parents are placed
            placed.add(id_)
            done.append((id_, contents.pop(id_)))
            waiting.pop()
            continue
        contents[id_] = _of_kind(source, id_, "commit")
        waiting += [p for p in commits.parents(contents[id_]) if p not in placed]
    return done


def _tree_of(source: Source, commit: str, known: dict[str, str]) -> str | None:
    """Return the tree of a commit; None when the source does not have it."""
    if commit not in known:
        from familiar_cli.errors import FamiliarError

        try:
            known[commit], _ = commits.tree_and_parent(source.get(commit).content)
        except FamiliarError:
            return None
    return known[commit]


def _new_in(
    source: Source, old: list[str], tree: str, seen: set[str], most_levels: int | None
) -> Iterator[str]:
    """Yield a tree and what is in it, but not what the trees `old` have at the same place."""
    waiting = [(old, tree, 1)]
    while waiting:
        old, tree, level = waiting.pop()
        if tree in old or tree in seen:
            continue
        if most_levels is not None and level > most_levels:
            raise bounds.too_deep()
        seen.add(tree)
        yield tree
        before = [_of_kind(source, t, "tree") for t in old]
        below = []
        content = _of_kind(source, tree, "tree")
        if most_levels is not None and len(content) > bounds.MOST_TREE_BYTES:
            raise bounds.too_wide()
        for entry in _new_entries(content, before):
            if entry.mode == _DIR:
                was = [i for b in before if (i := _dir_in(b, entry.name))]
                below.append((was, entry.id, level + 1))
            elif entry.mode != _SUBMODULE and entry.id not in seen:
                seen.add(entry.id)
                yield entry.id
        waiting += reversed(below)


def _new_entries(tree: bytes, before: list[bytes]) -> list[RawEntry]:
    """Return the entries of a directory that none of its former states has."""
    if not before:
        return raw_entries(tree)
    found = _changed_entries(before[0], tree)
    return [e for e in found if not any(_row(e) in other for other in before[1:])]


def _changed_entries(old: bytes, new: bytes) -> list[RawEntry]:
    """Return the entries that only `new` has, and read hardly more than those.

    What both begin and end with is the same; a directory of thousands changes by one entry a time.
    """
    head = shared(old, new)
    tail = shared_end(old, new, min(len(old), len(new)) - head)
    begin = trees.entry_at(new, head)
    there, new_end = _entries_to(new, begin, len(new) - tail)
    here, old_end = _entries_to(old, begin, len(old) - len(new) + new_end)
    if len(old) - old_end != len(new) - new_end:  # what they end with are parts of other entries
        here, there = raw_entries(old), raw_entries(new)
    known = set(here)
    return [entry for entry in there if entry not in known]


def _entries_to(tree: bytes, begin: int, end: int) -> tuple[list[RawEntry], int]:
    """Return the entries from `begin` on up to `end`, and where the last of them ends."""
    found: list[RawEntry] = []
    at = begin
    while at < end:
        m = _ENTRY.match(tree, at)
        if m is None:
            raise _unreadable()
        found.append(RawEntry(m[1], m[2], m[3].hex()))
        at = m.end()
    return found, at


def _dir_in(tree: bytes, name: bytes) -> str | None:
    """Return the id of a directory in a directory, or None."""
    row = _DIR + b" " + name + b"\0"
    at = tree.find(row)
    return tree[at + len(row) : at + len(row) + 20].hex() if at >= 0 else None


def _row(entry: RawEntry) -> bytes:
    return entry.mode + b" " + entry.name + b"\0" + bytes.fromhex(entry.id)


def _of_kind(source: Source, id_: str, kind: str) -> bytes:
    found = source.get(id_)
    if found.kind != kind:
        raise RemoteDamagedError(f"Object {id_} is no {kind}")
    return found.content
