r"""`journal.git` on disk: commits and trees as values, and the branch head.

A tree object is a row of entries, `<mode> <name>\0<20 bytes of id>`, sorted by name. Finding a name
and replacing an entry work directly on the bytes, so a directory of ten thousand files costs hardly
more than one of ten.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.files import TEMP_PREFIX, Disk, read_plain, write_hint
from familiar_cli.base.text import bare_lines, one_line, slugify
from familiar_cli.base.times.clock import since_1970
from familiar_cli.store.journal import objects
from familiar_cli.store.memory.layout import INDEX_DIR, RUN_ID, is_run_id
from familiar_cli.store.memory.store.store import BRANCH, branch_path

HUMAN: Final = "human"
UNDOES: Final = "Undoes"
INSTANCE: Final = "Instance"
"""Trailer for the instance that made a commit; omitted for the original one."""

LENGTHS: Final = "Bytes"
"""`5>7 ->12`: size of each file before and after, in the order of the touched files."""

_MAX_SUBJECT_CHARS = 200
_MAX_SOURCE_CHARS = 80
_NOT_IN_MAIL = re.compile(r"[^A-Za-z0-9._-]+")
_AUTHOR = re.compile(rb"author (.*?) ?<[^>]*> (-?\d+) ([+-]\d{4})")
_OURS = re.compile(rb"author ([^\n]*<[^>\n]*@familiar>[^\n]*)\ncommitter \1(?:\n|$)")
_TRAILER = re.compile(r"([A-Za-z][A-Za-z-]*): (.*)")
_PAIR: Final = re.compile(r"(\d{1,18}|-)>(\d{1,18}|-)", re.ASCII)
_KINDS: Final = {"Added": "added", "Changed": "changed", "Deleted": "deleted"}


class ChangedFile(Struct, frozen=True):
    """A file changed by a commit."""

    kind: Literal["added", "changed", "deleted"]
    rel_path: str


class Length(Struct, frozen=True):
    """Size of a file in bytes before and after a commit; None where it did not exist."""

    rel_path: str
    bytes_before: int | None
    bytes_after: int | None


class Commit(Struct, frozen=True):
    """One change of the memory.

    Args:
        id: 40 hexadecimal digits.
        tree: Id of the memory's state after the commit.
        parent: First parent; None for the first commit.
        merged: Further parents, merged from other instances.
        is_ours: Whether this program made it, on any machine, rather than git itself.
        source: Author of the change.
        time: When, in UTC.
        message: One-line summary.
        touched: Files listed in the commit; None when there are too many, or git made it.
    """

    id: str
    tree: str
    parent: str | None
    source: str
    time: datetime
    message: str
    trailers: Mapping[str, str]
    touched: tuple[ChangedFile, ...] | None
    merged: tuple[str, ...] = ()
    is_ours: bool = True

    @property
    def parents(self) -> tuple[str, ...]:
        """All parents, the first parent first."""
        return (self.parent, *self.merged) if self.parent else self.merged

    @property
    def run_id(self) -> str | None:
        """Id shared by related commits, e.g. those of one run of the memory writer."""
        return self.trailers.get(RUN_ID)

    @property
    def run(self) -> str | None:
        """Id of the pass that made the commit, or None."""
        return self.run_id if self.run_id and is_run_id(self.run_id) else None

    @property
    def lengths(self) -> tuple[Length, ...]:
        """Size of each file before and after; empty if the commit does not record it."""
        pairs = [_PAIR.fullmatch(pair) for pair in self.trailers.get(LENGTHS, "").split()]
        if self.touched is None or len(pairs) != len(self.touched):
            return ()
        return tuple(
            Length(touched.rel_path, *(int(n) if n.isdigit() else None for n in pair.groups()))
            for touched, pair in zip(self.touched, pairs, strict=True)
            if pair
        )

    @property
    def instance(self) -> str:
        """The instance that made it; empty for the one on which the familiar was created.

        For a commit made with git itself, its author stands in for the instance.
        """
        text = self.trailers.get(INSTANCE, "")
        return text if text or self.is_ours else slugify(self.source) or "git"

    @property
    def undoes(self) -> tuple[str, ...]:
        """Ids of the commits that this one reverts."""
        return tuple(self.trailers.get(UNDOES, "").split())

    @property
    def by_hand(self) -> bool:
        """Whether a person made it in an editor or with git; the program's commits name a run."""
        return self.run_id is None or not self.is_ours


def encode_commit(
    tree: str,
    parent: str | None,
    source: str,
    message: str,
    *,
    at: datetime,
    trailers: Iterable[tuple[str, str]],
    merged: Iterable[str] = (),
) -> objects.GitObject:
    """Encode a commit object. `at` carries the timezone git should show."""
    who = author_line(source)
    when = f"{int(at.timestamp())} {at.strftime('%z')[:5]}"
    lines = [
        f"tree {tree}",
        *([f"parent {parent}"] if parent else []),
        *(f"parent {other}" for other in merged),
        f"author {who} {when}",
        f"committer {who} {when}",
        "",
        one_line(message, _MAX_SUBJECT_CHARS) or "change the memory",
        "",
        *(f"{key}: {_flatten_value(value)}" for key, value in trailers),
    ]
    text = "\n".join(lines) + "\n"
    return objects.git_object("commit", text.encode("utf-8", errors="surrogateescape"))


def author_line(source: str) -> str:
    """Return `source` as a git author line."""
    name = one_line(source.replace("<", " ").replace(">", " "), _MAX_SOURCE_CHARS).strip(" .,;'\"")
    name = name or "unknown"
    return f"{name} <{_NOT_IN_MAIL.sub('-', name).strip('-.') or 'unknown'}@familiar>"


def decode_commit(id_: str, content: bytes) -> Commit:
    """Decode a commit, including one made by git itself.

    Raises:
        FamiliarError: Not a commit.
    """
    head, _, body = content.partition(b"\n\n")
    written_by = _AUTHOR.search(head)
    if not content.startswith(b"tree ") or written_by is None:
        raise objects.journal_damaged(f"object {id_} is not a commit")
    tree, parent = tree_and_parent(content)
    try:
        time = since_1970(int(written_by[2]))
    except (ValueError, OverflowError, OSError) as error:
        raise objects.journal_damaged(f"commit {id_} has an invalid time") from error
    subject, _, rest = body.decode("utf-8", errors="surrogateescape").partition("\n")
    pairs = [(m[1], m[2]) for line in rest.split("\n") if (m := _TRAILER.fullmatch(line))]
    is_ours = _OURS.search(head) is not None
    return Commit(
        id=id_,
        tree=tree,
        parent=parent,
        source=written_by[1].decode("utf-8", errors="replace"),
        time=time,
        message=subject,
        trailers=dict(pairs),
        touched=_read_touched(pairs) if is_ours else None,  # an amended commit keeps the old names
        merged=parents_of(content)[1:],
        is_ours=is_ours,
    )


def tree_and_parent(content: bytes) -> tuple[str, str | None]:
    """Return the ids of a commit's tree and first parent."""
    parent = content[53:93].decode() if content[46:53] == b"parent " else None
    return content[5:45].decode(), parent


def parents_of(content: bytes) -> tuple[str, ...]:
    """Return the ids of all parents, the first parent first."""
    items = []
    at = 46  # skip `tree <40 digits>`
    while content[at : at + 7] == b"parent ":
        items.append(content[at + 7 : at + 47].decode("ascii", errors="replace"))
        at += 48
    return tuple(items)


def walk_ancestors(
    commits: Iterable[str], parents: Callable[[str], Iterable[str]]
) -> Iterator[str]:
    """Yield commits and all their ancestors, each once, nearest first.

    Args:
        parents: Returns a commit's parents.
    """
    waiting = list(dict.fromkeys(commits))
    seen = set(waiting)
    for id_ in waiting:
        yield id_
        new = [parent for parent in parents(id_) if parent not in seen]
        seen.update(new)
        waiting += new


def _read_touched(pairs: list[tuple[str, str]]) -> tuple[ChangedFile, ...] | None:
    items = tuple(ChangedFile(_KINDS[k], value) for k, value in pairs if k in _KINDS)  # type: ignore[arg-type]
    promised = dict(pairs).get("Files")
    return items if promised is not None and promised == str(len(items)) else None


def _flatten_value(value: str) -> str:
    return value.replace("\n", " ").replace("\0", "")


_DIR = b"40000"
_FILE = b"100644"
_MODES = (_DIR, _FILE, b"100755", b"120000", b"160000")  # only git itself writes the last three
_ROW = re.compile(rb"[^ ]* [^\0]*\0.{20}", re.DOTALL)
_MODE_INSIDE = re.compile(b"|".join(mode + b" " for mode in _MODES))
_ID_BYTES = 20
_NO_NAMES = {"", ".", ".."}
_MANY = 16  # above this many changes, decoding the tree once is cheaper than patching it

Reader = Callable[[str], bytes]
"""Return the content of the tree object with that id."""


class Entry(Struct, frozen=True):
    """A directory entry; `mode` is empty for plain files and directories."""

    is_dir: bool
    id: str
    mode: bytes = b""


def decode_tree(content: bytes) -> Mapping[str, Entry]:
    """Decode a tree object; names that are not UTF-8 keep their bytes.

    Raises:
        FamiliarError: A name would escape the directory; git never writes such names.
    """
    return _decode_rows(_rows_of(content), skip_bad=False)


def _decode_rows(rows: Iterable[bytes], *, skip_bad: bool) -> dict[str, Entry]:
    entries = {}
    for row in rows:
        mode, _, named = row[: -_ID_BYTES - 1].partition(b" ")
        name = named.decode("utf-8", errors="surrogateescape")
        if "/" in name or name in _NO_NAMES:
            if skip_bad:
                continue
            raise objects.journal_damaged(f"a tree holds the name {name!r}")
        special = b"" if mode in {_DIR, _FILE} else mode
        entries[name] = Entry(mode == _DIR, row[-_ID_BYTES:].hex(), special)
    return entries


def _rows_of(content: bytes) -> list[bytes]:
    """Return the entries of a tree, each as it is encoded."""
    rows, at = [], 0
    while row := _ROW.match(content, at):
        rows.append(row[0])
        at = row.end()
    if at != len(content):
        raise objects.journal_damaged("a tree cannot be read")
    return rows


@lru_cache(maxsize=64)
def _row_set(content: bytes) -> frozenset[bytes]:
    """Return the entries of a tree, to be compared with another's."""
    return frozenset(_rows_of(content))


def find_entry(read: Reader, tree: str | None, rel_path: str) -> Entry | None:
    """Return the entry at `rel_path` in the tree with that id, or None."""
    entry = Entry(is_dir=True, id=tree) if tree else None
    for part in rel_path.split("/") if rel_path else ():
        if entry is None or not entry.is_dir:
            return None
        entry = entry_of(read(entry.id), part)
    return entry


def file_id(read: Reader, tree: str | None, rel_path: str) -> str | None:
    """Return the id of the file at `rel_path`, or None if it does not exist."""
    entry = find_entry(read, tree, rel_path)
    return entry.id if entry and not entry.is_dir else None


def tree_files(read: Reader, tree: str | None, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield path and id of every file in a tree."""
    for name, entry in decode_tree(read(tree)).items() if tree else ():
        if entry.is_dir:
            yield from tree_files(read, entry.id, f"{prefix}{name}/")
        else:
            yield prefix + name, entry.id


def changed_files(
    read: Reader, old: str | None, new: str | None, prefix: str = "", *, skip_bad: bool = False
) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield path, old id and new id of every file that differs; None where it does not exist.

    Args:
        read: Reads a tree object.
        old: Id of a tree; None for an empty one.
        new: Id of the other tree.
        prefix: Path of both trees, with a trailing slash.
        skip_bad: Skip names that would escape the directory, as another machine's commit may hold.
    """
    if old == new:
        return
    rows = [_row_set(read(tree)) if tree else frozenset() for tree in (old, new)]
    before = _decode_rows(sorted(rows[0] - rows[1]), skip_bad=skip_bad)
    after = _decode_rows(sorted(rows[1] - rows[0]), skip_bad=skip_bad)
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was == now:
            continue
        path = prefix + name
        was_file, now_file = (e.id if e and not e.is_dir else None for e in (was, now))
        if was_file or now_file:
            yield path, was_file, now_file
        was_dir, now_dir = (e.id if e and e.is_dir else None for e in (was, now))
        yield from changed_files(read, was_dir, now_dir, path + "/", skip_bad=skip_bad)


def rewrite_tree(
    read: Reader, tree: str | None, changes: Mapping[str, str | Entry | None]
) -> tuple[str, list[objects.GitObject]]:
    """Return the id of a tree with `changes` applied (path -> file id or entry, None to delete).

    Only directories on the path to a change are read and rewritten; those left empty are dropped.
    Also returns the new tree objects, the root last.
    """
    content = read(tree) if tree else b""
    new: list[objects.GitObject] = []
    edits: dict[str, Entry | None] = {}
    here = {path: id_ for path, id_ in changes.items() if "/" not in path}
    for name, id_ in here.items():  # deletions first, since a directory may take the name
        was = entry_of(content, name)
        if id_ is None and was and not was.is_dir:
            edits[name] = None
    for name, inside in _changes_by_directory(changes).items():
        was = entry_of(content, name)
        subtree, made = rewrite_tree(read, was.id if was and was.is_dir else None, inside)
        if made[-1].content:
            edits[name] = Entry(is_dir=True, id=subtree)
            new += made
        elif was and was.is_dir:
            edits[name] = None
    for name, id_ in here.items():
        if id_ is not None:
            edits[name] = id_ if isinstance(id_, Entry) else Entry(is_dir=False, id=id_)
    root = objects.git_object("tree", _edit_tree(content, edits))
    return root.id, [*new, root]


def _changes_by_directory(
    changes: Mapping[str, str | Entry | None],
) -> dict[str, dict[str, str | Entry | None]]:
    below: dict[str, dict[str, str | Entry | None]] = {}
    for path, id_ in changes.items():
        first, slash, rest = path.partition("/")
        if slash:
            below.setdefault(first, {})[rest] = id_
    return below


def _edit_tree(content: bytes, edits: Mapping[str, Entry | None]) -> bytes:
    if len(edits) > _MANY:
        before = decode_tree(content)
        merged = {**before, **edits}
        for name in before.keys() & edits.keys():
            merged[name] = _with_mode(edits[name], before[name])
        return encode_tree({name: entry for name, entry in merged.items() if entry})
    for name, entry in edits.items():
        content = with_entry(content, name, entry)
    return content


def _with_mode(entry: Entry | None, before: Entry) -> Entry | None:
    """Return a file's new entry with the mode that it had, unless it has one of its own."""
    is_kept = entry and not (entry.is_dir or before.is_dir or entry.mode)
    return replace(entry, mode=before.mode) if entry and is_kept else entry


def encode_tree(entries: Mapping[str, Entry]) -> bytes:
    """Encode a tree object in git's entry order."""
    rows = sorted((_sort_key(name, entry), name, entry) for name, entry in entries.items())
    return b"".join(_encode_entry(name, entry) for _, name, entry in rows)


def entry_of(content: bytes, name: str) -> Entry | None:
    """Return one entry of an encoded tree, or None."""
    row = _find_row(content, _encode_name(name))
    if row is None:
        return None
    begin, end = row
    is_dir = content.startswith(_DIR + b" ", begin)
    return Entry(is_dir, content[end - _ID_BYTES : end].hex())


def with_entry(content: bytes, name: str, entry: Entry | None) -> bytes:
    """Return an encoded tree with `name` set to `entry`; None removes it."""
    row = _find_row(content, _encode_name(name))
    if row:
        begin, end = row
        is_dir = content.startswith(_DIR + b" ", begin)
        if entry and not entry.mode and entry.is_dir == is_dir:
            return content[: end - _ID_BYTES] + bytes.fromhex(entry.id) + content[end:]
        content = content[:begin] + content[end:]
    if entry is None:
        return content
    place = _place_of(content, _sort_key(name, entry))
    return content[:place] + _encode_entry(name, entry) + content[place:]


def _sort_key(name: str, entry: Entry) -> bytes:
    """Return git's sort key: directory names end in `/`."""
    return _encode_name(name) + b"/" * entry.is_dir


def _encode_entry(name: str, entry: Entry) -> bytes:
    mode = entry.mode or (_DIR if entry.is_dir else _FILE)
    return mode + b" " + _encode_name(name) + b"\0" + bytes.fromhex(entry.id)


def _find_row(content: bytes, name: bytes) -> tuple[int, int] | None:
    """Return the start and end of the entry for `name`."""
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
    """Tell whether an entry starts at `at`, rather than part of a name such as `40000 x.md`.

    The preceding entry ends in a zero byte and an id. If the bytes match and the id contains no
    mode, that is conclusive; otherwise all entries are counted from the first.
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


def _place_of(content: bytes, key: bytes) -> int:
    """Return the position at which an entry with that sort key belongs."""
    at = 0
    while at < len(content):
        space = content.index(b" ", at)
        end = content.index(b"\0", space)
        if content[space + 1 : end] + b"/" * (content[at:space] == _DIR) > key:
            break
        at = end + 1 + _ID_BYTES
    return at


def _encode_name(name: str) -> bytes:
    return name.encode("utf-8", errors="surrogateescape")


_KEPT_TREES = 64  # cached in memory
_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tfilemode = false
\tbare = true
\tautocrlf = false
\tquotepath = false
"""
_EXCLUDE = f"{INDEX_DIR}/\n{TEMP_PREFIX}*\n"
_SETTINGS = (("config", _CONFIG), ("info/exclude", _EXCLUDE))


class Repository:
    """Reads the journal and moves its branch. Writers must hold the familiar's lock."""

    def __init__(self, path: str | Path, disk: Disk | None = None) -> None:
        self.path = str(path)
        self.disk = disk or Disk()
        self.objects = objects.Objects(os.path.join(self.path, "objects"), self.disk)
        self._trees: dict[str, bytes] = {}

    @property
    def exists(self) -> bool:
        """Whether the repository exists."""
        return os.path.isdir(self.path)

    @property
    def branch_path(self) -> str:
        """Path of the file that names the newest commit."""
        return branch_path(self.path)

    def create(self) -> None:
        """Create an empty repository atomically. May raise OSError."""
        new = f"{self.path}.{os.getpid()}.new"
        shutil.rmtree(new, ignore_errors=True)
        try:
            self._lay_out(new)
            self.disk.replace(new, self.path)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        self.disk.sync_dir(os.path.dirname(self.path))

    def _lay_out(self, new: str) -> None:
        for directory in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
            os.makedirs(os.path.join(new, *directory.split("/")))
        for name, text in (("HEAD", f"ref: {BRANCH}\n"), *_SETTINGS):
            self.disk.create(os.path.join(new, *name.split("/")), text.encode())
        self.disk.sync_dir(new)

    def write_settings(self) -> None:
        """Write the settings of a repository that came from outside anew. May raise OSError."""
        for directory in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
            os.makedirs(os.path.join(self.path, *directory.split("/")), exist_ok=True)
        for name, text in _SETTINGS:
            self.disk.create(os.path.join(self.path, *name.split("/")), text.encode())

    def head(self) -> str | None:
        """Return the id of the newest commit, or None if there is none yet.

        Raises:
            FamiliarError: The branch does not point to a commit.
        """
        try:
            text = read_text(self.branch_path)
            text = packed_refs(self.path).get(BRANCH) if text is None else text
        except OSError as error:
            raise objects.journal_unreadable(repr(self.branch_path), error) from error
        if text is None:
            return None
        if not objects.is_id(text.strip()):
            raise objects.journal_damaged(f"{BRANCH} names no commit")
        return text.strip()

    def set_head(self, id_: str | None) -> None:
        """Durably point the branch at a commit. May raise OSError."""
        if id_ is None:
            with suppress(FileNotFoundError):
                self.disk.unlink(self.branch_path)
            self.disk.sync_dir(os.path.dirname(self.branch_path))
        else:
            self.disk.put(self.branch_path, f"{id_}\n".encode())

    def commit(self, id_: str) -> Commit:
        """Return a commit. Raises `FamiliarError` when it is missing or damaged."""
        return decode_commit(id_, self.objects.read(id_))

    def tree(self, id_: str) -> bytes:
        """Return a tree's content. Raises `FamiliarError` when it is missing or damaged."""
        if id_ not in self._trees:
            self.remember(id_, self.objects.read(id_))
        return self._trees[id_]

    def remember(self, id_: str, tree: bytes) -> None:
        """Cache a tree's content."""
        while len(self._trees) >= _KEPT_TREES:
            del self._trees[next(iter(self._trees))]
        self._trees[id_] = tree

    def tree_of(self, commit: str | None) -> str | None:
        """Return the id of a commit's tree."""
        return self.commit(commit).tree if commit else None

    def file_at(self, commit: str | None, rel_path: str) -> bytes | None:
        """Return a file's bytes as of a commit, or None if it did not exist."""
        id_ = file_id(self.tree, self.tree_of(commit), rel_path)
        return self.objects.read(id_) if id_ else None

    def close(self) -> None:
        """Close open packs."""
        self.objects.close()


def packed_refs(path: str) -> dict[str, str]:
    """Return a repository's packed refs. May raise OSError."""
    lines = bare_lines(read_text(os.path.join(path, "packed-refs")) or "")
    pairs = (line.split(" ", 1) for line in lines if not line.startswith(("#", "^")))
    return {pair[1]: pair[0] for pair in pairs if len(pair) > 1}


def read_text(path: str) -> str | None:
    """Return the text of a small file, or None if it is missing. May raise OSError."""
    try:
        return read_plain(path).decode("utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Translate a system error about the journal into a `FamiliarError`."""
    try:
        yield
    except OSError as error:
        raise FamiliarError(
            f"The journal {path!r} could not be written: {error.strerror or error};"
            " no memory was changed",
            hint=write_hint(error.errno),
        ) from error
