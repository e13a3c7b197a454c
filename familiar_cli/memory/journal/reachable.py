"""Which objects some commits lead to and others do not: what is to be sent or fetched.

Dulwich's `MissingObjectFinder` walks the whole tree of each known commit, recursively, and takes
60 ms to import: too slow for a sync of one commit, and a deep tree stops it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from familiar_cli.errors import FamiliarError, RemoteDamagedError
from familiar_cli.memory.journal import commits
from familiar_cli.memory.journal.bounds import DIR_MODE, SUBMODULE_MODE, tree_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from familiar_cli.memory.journal.objects import GitObject


class Source(Protocol):
    """Where objects are read from."""

    def get(self, id_: str) -> GitObject:
        """Return an object. Raises `FamiliarError` when it is missing or damaged."""


def new_objects(
    source: Source, wants: Iterable[str], is_known: Callable[[str], bool]
) -> Iterator[str]:
    """Yield the ids of all objects that commits lead to, parents before children.

    Args:
        source: Where commits and directories are read; the known ones, too, where it has them.
        wants: The commits.
        is_known: Tells of a commit that it, and all it leads to, is not of interest.

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
        yield from _new_in(source, [t for t in old if t], tree, seen)


def _new_commits(
    source: Source, wants: Iterable[str], is_known: Callable[[str], bool]
) -> list[tuple[str, bytes]]:
    """Return the commits that are not known, and their contents, parents before children."""
    contents: dict[str, bytes] = {}
    done: dict[str, bytes] = {}
    waiting = list(wants)
    while waiting:
        id_ = waiting[-1]
        if id_ in contents:  # all its parents are done
            done[id_] = contents.pop(id_)
        elif id_ not in done and not is_known(id_):
            contents[id_] = _of_kind(source, id_, "commit")
            waiting += [p for p in commits.parents(contents[id_]) if p not in done]
            continue
        waiting.pop()
    return list(done.items())


def _tree_of(source: Source, commit: str, known: dict[str, str]) -> str | None:
    """Return the tree of a commit; None when the source does not have it."""
    if commit not in known:
        try:
            known[commit], _ = commits.tree_and_parent(source.get(commit).content)
        except FamiliarError:
            return None
    return known[commit]


def _new_in(source: Source, old: list[str], tree: str, seen: set[str]) -> Iterator[str]:
    """Yield a tree and what is in it, but not what the trees `old` have at the same place."""
    waiting = [(old, tree)]
    while waiting:
        old, tree = waiting.pop()
        if tree in old or tree in seen:
            continue
        seen.add(tree)
        yield tree
        before = [tree_rows(_of_kind(source, t, "tree")) for t in old]
        for mode, name, raw in new_rows(_of_kind(source, tree, "tree"), before):
            id_ = raw.hex()
            if mode == DIR_MODE:
                was = [i.hex() for rows in before for m, n, i in rows if n == name and m == mode]
                waiting.append((was, id_))
            elif mode != SUBMODULE_MODE and id_ not in seen:
                seen.add(id_)
                yield id_


def new_rows(
    tree: bytes, before: Iterable[list[tuple[bytes, bytes, bytes]]]
) -> list[tuple[bytes, bytes, bytes]]:
    """Return the entries of a directory that none of its former states has."""
    return sorted(set(tree_rows(tree)).difference(*before))


def _of_kind(source: Source, id_: str, kind: str) -> bytes:
    found = source.get(id_)
    if found.kind != kind:
        raise RemoteDamagedError(f"Object {id_} is no {kind}")
    return found.content
