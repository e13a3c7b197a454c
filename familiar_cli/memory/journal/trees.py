"""Directories as git keeps them: read, compare and rewrite, only along the paths that changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from familiar_cli.memory.journal.objects import damaged, git_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from familiar_cli.memory.journal.objects import GitObject

_DIR = b"40000"
_FILE = b"100644"
_ID_BYTES = 20


class Entry(NamedTuple):
    """What stands behind one name in a directory."""

    is_dir: bool
    id: str


Entries = dict[str, Entry]
Reader = Callable[[str], Entries]
"""Returns the entries of the tree with that id."""


def decode(content: bytes) -> Entries:
    """Return the entries of a tree object; names that are not UTF-8 keep their bytes."""
    entries: Entries = {}
    at = 0
    try:
        while at < len(content):
            space = content.index(b" ", at)
            end = content.index(b"\0", space)
            name = content[space + 1 : end].decode("utf-8", errors="surrogateescape")
            is_dir = content[at:space] == _DIR
            at = end + 1 + _ID_BYTES
            entries[name] = Entry(is_dir, content[end + 1 : at].hex())
    except ValueError as error:
        raise damaged(f"a tree cannot be read: {error}") from error
    return entries


def encode(entries: Entries) -> GitObject:
    """Return the tree object with `entries`, in the order git wants: a directory ends in `/`."""
    rows = [(_name(name) + b"/" * entry.is_dir, name, entry) for name, entry in entries.items()]
    rows.sort(key=lambda row: row[0])
    return git_object(
        "tree",
        b"".join(
            (_DIR if entry.is_dir else _FILE) + b" " + _name(name) + b"\0" + bytes.fromhex(entry.id)
            for _, name, entry in rows
        ),
    )


def find(read: Reader, tree: str | None, rel_path: str) -> Entry | None:
    """Return what is at `rel_path` in the tree with that id, or None."""
    entry = Entry(is_dir=True, id=tree) if tree else None
    for part in rel_path.split("/") if rel_path else ():
        if entry is None or not entry.is_dir:
            return None
        entry = read(entry.id).get(part)
    return entry


def file_id(read: Reader, tree: str | None, rel_path: str) -> str | None:
    """Return the id of the file at `rel_path`, or None when no file is there."""
    entry = find(read, tree, rel_path)
    return entry.id if entry and not entry.is_dir else None


def files(read: Reader, tree: str | None, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and id of every file in a tree."""
    for name, entry in sorted(read(tree).items()) if tree else ():
        if entry.is_dir:
            yield from files(read, entry.id, f"{prefix}{name}/")
        else:
            yield prefix + name, entry.id


def changed(
    read: Reader, old: str | None, new: str | None, prefix: str = ""
) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield path, old id and new id of every file that differs; None where there is no file."""
    if old == new:
        return
    before, after = (read(tree) if tree else {} for tree in (old, new))
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was == now:
            continue
        path = prefix + name
        was_file, now_file = (e.id if e and not e.is_dir else None for e in (was, now))
        if was_file or now_file:
            yield path, was_file, now_file
        was_dir, now_dir = (e.id if e and e.is_dir else None for e in (was, now))
        yield from changed(read, was_dir, now_dir, path + "/")


def rewrite(
    read: Reader, tree: str | None, changes: Mapping[str, str | None]
) -> tuple[str, list[GitObject]]:
    """Return the id of a tree with `changes` (path -> id of the file, None to drop it).

    Only the directories on the way to a change are read, and written anew; those that become empty
    are left out. Also returned: the new tree objects.
    """
    entries = dict(read(tree)) if tree else {}
    new: list[GitObject] = []
    below: dict[str, dict[str, str | None]] = {}
    here = {path: id_ for path, id_ in changes.items() if "/" not in path}
    for path, id_ in changes.items():
        first, slash, rest = path.partition("/")
        if slash:
            below.setdefault(first, {})[rest] = id_
    for name, id_ in here.items():  # first what goes, since a directory may take its name
        if id_ is None and name in entries and not entries[name].is_dir:
            del entries[name]
    for name, inside in below.items():
        entry = entries.get(name)
        subtree, made = rewrite(read, entry.id if entry and entry.is_dir else None, inside)
        if made[-1].content:
            entries[name] = Entry(is_dir=True, id=subtree)
            new += made
        elif entry and entry.is_dir:
            del entries[name]
    for name, id_ in here.items():
        if id_ is not None:
            entries[name] = Entry(is_dir=False, id=id_)
    root = encode(entries)
    return root.id, [*new, root]


def _name(name: str) -> bytes:
    return name.encode("utf-8", errors="surrogateescape")
