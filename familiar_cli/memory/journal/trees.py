r"""Directories as git keeps them: read, compare and rewrite, only along the paths that changed.

A tree object is a row of entries, `<mode> <name>\0<20 bytes of id>`, sorted by name. Looking for
one name, and putting one entry in place of another, works on the bytes as they are, so that a
directory of ten thousand files costs hardly more than one of ten.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from familiar_cli.memory.journal.objects import damaged, git_object

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from familiar_cli.memory.journal.objects import GitObject

_DIR = b"40000"
_FILE = b"100644"
_MODES = (_DIR, _FILE, b"100755", b"120000", b"160000")  # only git itself writes the last three
_MODE_INSIDE = re.compile(b"|".join(mode + b" " for mode in _MODES))
_ID_BYTES = 20
_NO_NAMES = {"", ".", ".."}
_MANY = 16  # from here on, taking a tree apart once is cheaper than many cuts

Reader = Callable[[str], bytes]
"""Returns the content of the tree object with that id."""


class Entry(NamedTuple):
    """What stands behind one name in a directory."""

    is_dir: bool
    id: str


def decode(content: bytes) -> Mapping[str, Entry]:
    """Return the entries of a tree object; names that are not UTF-8 keep their bytes.

    Raises:
        FamiliarError: A name is one that git never writes, since it would lead out.
    """
    entries = _entries_of(content)
    for name in filter(_leads_out, entries):
        raise damaged(f"a tree holds the name {name!r}")
    return entries


def _decode_safe_names(content: bytes) -> Mapping[str, Entry]:
    entries = _entries_of(content)
    return {name: entry for name, entry in entries.items() if not _leads_out(name)}


def _leads_out(name: str) -> bool:
    return "/" in name or name in _NO_NAMES


@lru_cache(maxsize=64)
def _entries_of(content: bytes) -> Mapping[str, Entry]:
    entries = {}
    at = 0
    try:
        while at < len(content):
            space = content.index(b" ", at)
            end = content.index(b"\0", space) + 1 + _ID_BYTES
            name = content[space + 1 : end - _ID_BYTES - 1]
            id_ = content[end - _ID_BYTES : end].hex()
            entries[_text(name)] = Entry(content[at:space] == _DIR, id_)
            at = end
    except ValueError as error:
        raise damaged(f"a tree cannot be read: {error}") from error
    return entries


def find(read: Reader, tree: str | None, rel_path: str) -> Entry | None:
    """Return what is at `rel_path` in the tree with that id, or None."""
    entry = Entry(is_dir=True, id=tree) if tree else None
    for part in rel_path.split("/") if rel_path else ():
        if entry is None or not entry.is_dir:
            return None
        entry = entry_of(read(entry.id), part)
    return entry


def file_id(read: Reader, tree: str | None, rel_path: str) -> str | None:
    """Return the id of the file at `rel_path`, or None when no file is there."""
    entry = find(read, tree, rel_path)
    return entry.id if entry and not entry.is_dir else None


def files(read: Reader, tree: str | None, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and id of every file in a tree."""
    for name, entry in decode(read(tree)).items() if tree else ():
        if entry.is_dir:
            yield from files(read, entry.id, f"{prefix}{name}/")
        else:
            yield prefix + name, entry.id


def changed(
    read: Reader, old: str | None, new: str | None, prefix: str = "", *, skip_bad: bool = False
) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield path, old id and new id of every file that differs; None where there is no file.

    Args:
        read: Reads a tree object.
        old: Id of a tree; None: an empty one.
        new: Id of another one.
        prefix: The path of both, with a slash at its end.
        skip_bad: Skip names that lead out, as another machine's commit may hold.
    """
    if old == new:
        return
    entries_of = _decode_safe_names if skip_bad else decode
    before, after = (entries_of(read(tree)) if tree else {} for tree in (old, new))
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was == now:
            continue
        path = prefix + name
        was_file, now_file = (e.id if e and not e.is_dir else None for e in (was, now))
        if was_file or now_file:
            yield path, was_file, now_file
        was_dir, now_dir = (e.id if e and e.is_dir else None for e in (was, now))
        yield from changed(read, was_dir, now_dir, path + "/", skip_bad=skip_bad)


def rewrite(
    read: Reader, tree: str | None, changes: Mapping[str, str | None]
) -> tuple[str, list[GitObject]]:
    """Return the id of a tree with `changes` (path -> id of the file, None to drop it).

    Only the directories on the way to a change are read, and written anew; those that become empty
    are left out. Also returned: the new tree objects, the tree itself last.
    """
    content = read(tree) if tree else b""
    new: list[GitObject] = []
    edits: dict[str, Entry | None] = {}
    here = {path: id_ for path, id_ in changes.items() if "/" not in path}
    for name, id_ in here.items():  # first what goes, since a directory may take its name
        was = entry_of(content, name)
        if id_ is None and was and not was.is_dir:
            edits[name] = None
    for name, inside in _below(changes).items():
        was = entry_of(content, name)
        subtree, made = rewrite(read, was.id if was and was.is_dir else None, inside)
        if made[-1].content:
            edits[name] = Entry(is_dir=True, id=subtree)
            new += made
        elif was and was.is_dir:
            edits[name] = None
    edits |= {name: Entry(is_dir=False, id=id_) for name, id_ in here.items() if id_ is not None}
    root = git_object("tree", _edited(content, edits))
    return root.id, [*new, root]


def _below(changes: Mapping[str, str | None]) -> dict[str, dict[str, str | None]]:
    below: dict[str, dict[str, str | None]] = {}
    for path, id_ in changes.items():
        first, slash, rest = path.partition("/")
        if slash:
            below.setdefault(first, {})[rest] = id_
    return below


def _edited(content: bytes, edits: Mapping[str, Entry | None]) -> bytes:
    if len(edits) > _MANY:
        merged = {**decode(content), **edits}
        return encode({name: entry for name, entry in merged.items() if entry})
    for name, entry in edits.items():
        content = with_entry(content, name, entry)
    return content


def encode(entries: Mapping[str, Entry]) -> bytes:
    """Return a tree object's content, in the order git wants."""
    rows = sorted((_key(name, entry), name, entry) for name, entry in entries.items())
    return b"".join(_row(name, entry) for _, name, entry in rows)


def entry_of(content: bytes, name: str) -> Entry | None:
    """Return one entry of a tree object, or None."""
    found = _span(content, _bytes(name))
    if found is None:
        return None
    begin, end = found
    is_dir = content.startswith(_DIR + b" ", begin)
    return Entry(is_dir, content[end - _ID_BYTES : end].hex())


def with_entry(content: bytes, name: str, entry: Entry | None) -> bytes:
    """Return a tree object's content in which `name` stands for `entry`; None takes it out."""
    found = _span(content, _bytes(name))
    if found:
        begin, end = found
        if entry and entry.is_dir == content.startswith(_DIR + b" ", begin):
            return content[: end - _ID_BYTES] + bytes.fromhex(entry.id) + content[end:]
        content = content[:begin] + content[end:]
    if entry is None:
        return content
    place = _place(content, _key(name, entry))
    return content[:place] + _row(name, entry) + content[place:]


def _key(name: str, entry: Entry) -> bytes:
    """Return what git sorts by: a directory's name ends in `/`."""
    return _bytes(name) + b"/" * entry.is_dir


def _row(name: str, entry: Entry) -> bytes:
    mode = _DIR if entry.is_dir else _FILE
    return mode + b" " + _bytes(name) + b"\0" + bytes.fromhex(entry.id)


def _span(content: bytes, name: bytes) -> tuple[int, int] | None:
    """Return where the entry of `name` begins and ends."""
    middle = b" " + name + b"\0"
    space = content.find(middle)
    while space >= 0:
        for mode in _MODES:
            begin = space - len(mode)
            if content.endswith(mode, 0, space) and _is_begin(content, begin):
                return begin, space + len(middle) + _ID_BYTES
        space = content.find(middle, space + 1)
    return None


def _is_begin(content: bytes, at: int) -> bool:
    """Tell whether an entry begins at `at`, and not a part of a name such as `40000 x.md`.

    The entry before ends in a zero byte and its id. If that seems so, and there is no mode among
    the bytes of the id, it is so; else all entries are counted off from the first.
    """
    if at == 0:
        return True
    if at <= _ID_BYTES or content[at - _ID_BYTES - 1]:
        return False
    if not _MODE_INSIDE.search(content, at - _ID_BYTES, at):
        return True
    begin = 0
    while begin < at:
        begin = content.index(b"\0", begin) + 1 + _ID_BYTES
    return begin == at


def _place(content: bytes, key: bytes) -> int:
    """Return where an entry with that sort key belongs."""
    at = 0
    while at < len(content):
        space = content.index(b" ", at)
        end = content.index(b"\0", space)
        if content[space + 1 : end] + b"/" * (content[at:space] == _DIR) > key:
            break
        at = end + 1 + _ID_BYTES
    return at


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", errors="surrogateescape")


def _text(name: bytes) -> str:
    return name.decode("utf-8", errors="surrogateescape")
