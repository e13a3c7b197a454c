"""Select objects for packs, send them to another repository, and receive objects.

Dulwich's `MissingObjectFinder` walks the whole tree of each known commit, recursively, and takes
60 ms to import: too slow for a sync of one commit, and a deep tree stops it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import FamiliarError, RemoteDamagedError
from familiar_cli.base.files import read_plain, remove, remove_leftovers
from familiar_cli.store.journal import objects as git_objects
from familiar_cli.store.journal import packs
from familiar_cli.store.journal.git_program import WORTH_GIT_BYTES, GitProgram, find_git_program
from familiar_cli.store.journal.history import History
from familiar_cli.store.journal.repository import (
    Reader,
    Repository,
    decode_commit,
    decode_tree,
    parents_of,
    translate_errors,
    tree_and_parent,
    walk_ancestors,
)

if TYPE_CHECKING:
    from dulwich.pack import UnpackedObject


SIZES_FILE: Final = "familiar-sizes"
"""File of the journal: no object is known that machines without git could not receive."""


def new_objects(
    source: git_objects.Objects, wants: Iterable[str], is_known: Callable[[str], bool]
) -> Iterator[str]:
    """Yield the ids of all objects reachable from commits, parents before children.

    Args:
        source: Reads commits and trees, including known ones where available.
        wants: The commits.
        is_known: Tells whether a commit and everything reachable from it can be skipped.

    Raises:
        FamiliarError: A commit or tree is missing or damaged. Files are not read.
    """
    seen: set[str] = set()
    roots: dict[str, str] = {}
    for id_, content in _new_commits(source, wants, is_known):
        yield id_
        tree, _ = tree_and_parent(content)
        roots[id_] = tree
        old = [_tree_of(source, parent, roots) for parent in parents_of(content)]
        yield from _new_in(source, [t for t in old if t], tree, seen)


def _new_commits(
    source: git_objects.Objects, wants: Iterable[str], is_known: Callable[[str], bool]
) -> list[tuple[str, bytes]]:
    """Return the unknown commits and their contents, parents before children."""
    contents: dict[str, bytes] = {}
    done: dict[str, bytes] = {}
    waiting = list(wants)
    while waiting:
        id_ = waiting[-1]
        if id_ in contents:  # all its parents are done
            done[id_] = contents.pop(id_)
        elif id_ not in done and not is_known(id_):
            contents[id_] = _of_kind(source, id_, "commit")
            waiting += [p for p in parents_of(contents[id_]) if p not in done]
            continue
        waiting.pop()
    return list(done.items())


def _tree_of(source: git_objects.Objects, commit: str, known: dict[str, str]) -> str | None:
    """Return the tree of a commit, or None if the source lacks it."""
    if commit not in known:
        try:
            known[commit], _ = tree_and_parent(source.get(commit).content)
        except FamiliarError:
            return None
    return known[commit]


def _new_in(
    source: git_objects.Objects, old: list[str], tree: str, seen: set[str]
) -> Iterator[str]:
    """Yield a tree and its contents, except what the trees `old` have at the same path."""
    waiting = [(old, tree)]
    while waiting:
        old, tree = waiting.pop()
        if tree in old or tree in seen:
            continue
        seen.add(tree)
        yield tree
        before = [packs.tree_rows(_of_kind(source, t, "tree")) for t in old]
        for mode, name, raw in new_rows(_of_kind(source, tree, "tree"), before):
            id_ = raw.hex()
            if mode == packs.DIR_MODE:
                was = [i.hex() for rows in before for m, n, i in rows if n == name and m == mode]
                waiting.append((was, id_))
            elif mode != packs.SUBMODULE_MODE and id_ not in seen:
                seen.add(id_)
                yield id_


def new_rows(
    tree: bytes, before: Iterable[list[tuple[bytes, bytes, bytes]]]
) -> list[tuple[bytes, bytes, bytes]]:
    """Return the entries of a directory that none of its earlier versions has."""
    return sorted(set(packs.tree_rows(tree)).difference(*before))


def _of_kind(source: git_objects.Objects, id_: str, kind: str) -> bytes:
    found = source.get(id_)
    if found.kind != kind:
        raise RemoteDamagedError(f"Object {id_} is not a {kind}")
    return found.content


INCOMING: Final = "incoming-"
"""Name prefix of the journal's quarantine directories for unverified objects."""

_ID_BYTES: Final = 20

# File in the journal that names the verified directory being moved in. An object may be moved
# before those it leads to; so who finds the file moves the rest.
_TAKING: Final = "familiar-taking"


class JournalExchange(Struct):
    """The transport's access to the journal. The caller closes the repository.

    Args:
        repository: The journal.
        lock: Held while received objects are added to the journal.
    """

    repository: Repository
    lock: Callable[[], AbstractContextManager[None]]

    def has(self, id_: str) -> bool:
        """Tell whether an object exists; for a commit, with everything reachable from it."""
        return self.repository.objects.has(id_)

    def parents(self, id_: str) -> tuple[str, ...]:
        """Return the parents of a commit."""
        return parents_of(self.repository.objects.read(id_))

    def leads_to(self, old: str, new: str) -> bool:
        """Tell whether `old` is `new` or one of its ancestors."""
        return old in walk_ancestors([new], self.parents)

    def new_ids(self, wants: Iterable[str], haves: Iterable[str]) -> list[str]:
        """Return the ids of all objects reachable from `wants` but not from `haves`.

        Args:
            wants: Commits in the journal.
            haves: Commits that the other side has completely; they may be unknown here.
        """
        known = set(haves)
        return list(new_objects(self.repository.objects, wants, known.__contains__))

    def packed(self, ids: list[str]) -> tuple[int, Iterator[UnpackedObject]]:
        """Return objects of the journal prepared for a pack, and their number."""
        return len(ids), git_objects.delta_objects(map(self.repository.objects.get, ids))

    @contextmanager
    def incoming(self) -> Iterator[IncomingObjects]:
        """Open a quarantine for received objects; what is not accepted is deleted at the end."""
        path = os.path.join(self.repository.path, f"{INCOMING}{os.urandom(6).hex()}")
        with translate_errors(self.repository.path):
            os.makedirs(os.path.join(path, "pack"))
            os.makedirs(os.path.join(path, "info"))
        incoming = IncomingObjects(path, self.repository, self.lock)
        try:
            yield incoming
        finally:
            incoming.close()
            if _directory_in_move(self.repository) != os.path.basename(path):
                shutil.rmtree(path, ignore_errors=True)

    def finish(self) -> None:
        """Complete a verified move that a crash interrupted.

        Raises:
            FamiliarError: It cannot be written.
        """
        name = _directory_in_move(self.repository)
        if not name:
            return
        path = os.path.join(self.repository.path, name)
        if os.path.isdir(path):
            incoming = IncomingObjects(path, self.repository, self.lock)
            incoming.take_over()
            incoming.close()
            shutil.rmtree(path, ignore_errors=True)

    def clear_leftovers(self) -> None:
        """Remove partly received objects after a crash. The caller must be the only receiver."""
        self.finish()
        for name in os.listdir(self.repository.path) if self.repository.exists else ():
            if name.startswith(INCOMING):
                shutil.rmtree(os.path.join(self.repository.path, name), ignore_errors=True)


class IncomingObjects:
    """Received objects in quarantine, not verified yet."""

    def __init__(
        self, path: str, repository: Repository, lock: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self.path = path
        self._journal = repository
        self._lock = lock
        own = repository.objects
        self._objects = git_objects.Objects(path, repository.disk, is_foreign=True, beside=own)
        self._ids: set[bytes] = set()
        self._needs: set[bytes] = set()  # ids that received objects refer to
        self._shapes: dict[bytes, packs.TreeShape] = {}
        self._roots: set[bytes] = set()  # root trees of commits
        self._git: GitProgram | None = None  # indexed a pack, and checks that all is there

    def add_pack(self, file: IO[bytes]) -> None:
        """Receive a pack, whose deltas may refer to objects in the journal.

        Args:
            file: Positioned at the pack's first byte.

        Raises:
            FamiliarError: It cannot be read, or an object is too large.
        """
        with translate_errors(self._journal.path):
            try:
                if not self._index_with_git(file):
                    begin = file.tell()
                    packs.check_pack(file)
                    file.seek(begin)
                    self._index_pack(file)
            except (OSError, RemoteDamagedError):
                raise
            except Exception as error:  # dulwich raises what a broken pack happens to cause
                raise damaged_pack(error) from error

    def _index_with_git(self, file: IO[bytes]) -> bool:
        """Let an installed git index a large pack; tell whether it did."""
        begin = file.tell()
        program = find_git_program() if file.seek(0, 2) - begin >= WORTH_GIT_BYTES else ""
        file.seek(begin)
        if not program:
            return False
        with open(os.path.join(self.path, "received"), "w+b") as pack:
            shutil.copyfileobj(file, pack)
            pack.flush()
            os.lseek(pack.fileno(), 0, os.SEEK_SET)
            self._git = GitProgram(program, self.path, self._journal.objects.directory)
            self._ids |= self._git.index_pack(pack)
            if self._git.largest_bytes > packs.MOST_OBJECT_BYTES:
                remove(os.path.join(self._journal.path, SIZES_FILE))
        os.unlink(os.path.join(self.path, "received"))
        self._objects.close()  # list its packs again
        return True

    def _index_pack(self, file: IO[bytes]) -> None:
        """Write a pack with missing delta bases and its index, in one pass."""
        from dulwich.object_format import DEFAULT_OBJECT_FORMAT as SHA1
        from dulwich.pack import PackData, PackIndexer, extend_pack

        kinds: dict[bytes, int] = {}

        class NotingIndexer(PackIndexer):
            def _result(self, unpacked: UnpackedObject) -> tuple[Any, int, int | None]:
                entry = super()._result(unpacked)
                kinds[entry[0]] = unpacked.obj_type_num or 0
                return entry

        path = os.path.join(self.path, "pack", f"tmp_pack_{os.urandom(6).hex()}")
        with open(path, "w+b") as pack:
            shutil.copyfileobj(file, pack)
            pack.flush()
            with PackData(path, file=pack, object_format=SHA1) as data:
                checksum = data.get_stored_checksum()
                indexer = NotingIndexer.for_pack_data(data, resolve_ext_ref=self._raw)
                entries: list[tuple[Any, int, int | None]] = list(indexer)
                bases = set(indexer.ext_refs())
            digest, more = extend_pack(pack, bases, self._raw, SHA1)
            if not bases and digest != checksum:
                raise ValueError("the checksum of the pack does not match")
            pack.flush()
            os.fsync(pack.fileno())
        self._journal.disk.adopt(path)
        packs.finish_pack(self._journal.disk, path, [*entries, *more], digest)
        self._ids.update(bases, kinds)
        self._objects.close()  # list its packs again
        with_links = (git_objects.TYPE_NUMBERS["commit"], git_objects.TYPE_NUMBERS["tree"])
        for id_, kind in kinds.items():
            if kind in with_links:
                self._note(id_, kind, self._objects.read(id_.hex()))

    def add_objects(self, objects: Iterable[git_objects.GitObject]) -> None:
        """Add received objects.

        Raises:
            FamiliarError: They cannot be written.
        """
        for batch in git_objects.object_batches(objects):
            with translate_errors(self._journal.path):
                self._objects.write(batch)
            for one in batch:
                self._note(bytes.fromhex(one.id), git_objects.TYPE_NUMBERS[one.kind], one.content)

    def _note(self, id_: bytes, kind: int, content: bytes) -> None:
        """Record an object and its references."""
        self._ids.add(id_)
        if kind == git_objects.TYPE_NUMBERS["tree"]:
            shape = packs.shape_of(content)
            self._shapes[id_] = replace(shape, ids=frozenset())  # of many large trees, too many
            self._needs |= shape.ids - self._ids
        elif kind == git_objects.TYPE_NUMBERS["commit"]:
            tree = bytes.fromhex(tree_and_parent(content)[0])
            self._roots.add(tree)
            self._needs.update((tree, *map(bytes.fromhex, parents_of(content))))

    def accept(self, wants: Collection[str]) -> None:
        """Verify that commits are complete, and add the received objects to the journal.

        Raises:
            FamiliarError: Something is missing or damaged; the journal is unchanged.
        """
        if self._git:
            return self._accept_with_git(self._git, wants)
        known = self._journal.objects.has
        needs = self._needs | set(map(bytes.fromhex, wants))
        for id_ in sorted(needs - self._ids):
            if not known(id_.hex()):
                raise damaged_pack(f"object {id_.hex()} is missing")
        for want in wants:
            if self._objects.get(want).kind != "commit":
                raise damaged_pack(f"object {want} is not a commit")
        packs.check_trees(self._roots, self._shape)
        return self.take_over()

    def _accept_with_git(self, program: GitProgram, wants: Collection[str]) -> None:
        head = self._journal.head()
        try:
            program.check_connected(wants, [head] if head else [])
            roots = [bytes.fromhex(tree_and_parent(self.read(want))[0]) for want in wants]
        except ValueError as error:
            raise damaged_pack(error) from error
        packs.check_trees(roots, self._shape)
        self.take_over()

    def _shape(self, tree: bytes) -> packs.TreeShape:
        return self._shapes.get(tree) or packs.shape_of(self._objects.read(tree.hex()))

    def read(self, id_: str) -> bytes:
        """Return the content of an object, received or in the journal.

        Raises:
            FamiliarError: It is missing or damaged.
        """
        return self._objects.read(id_)

    def reachable(self, wants: Collection[str]) -> Iterator[git_objects.GitObject]:
        """Yield the received objects that commits need.

        Raises:
            FamiliarError: One is missing or damaged.
        """
        return map(self._objects.get, new_objects(self._objects, wants, self._journal.objects.has))

    def came(self, id_: str) -> bool:
        """Tell whether an object itself was received, not just a reference to it."""
        return bytes.fromhex(id_) in self._ids

    def root(self, commit: str) -> str:
        """Return the first commit of a history, following first parents.

        Raises:
            FamiliarError: A commit in between is missing or damaged.
        """
        while before := self._before(commit):
            commit = before
        return commit

    def goes_on(self, commit: str) -> bool:
        """Tell whether a history continues one in the journal.

        Raises:
            FamiliarError: A commit in between is missing or damaged.
        """
        at: str | None = commit
        while at and not self._journal.objects.has(at):
            at = self._before(at)
        return at is not None

    def instances(self, commit: str, known: Container[str]) -> set[str]:
        """Return the authors of a commit and of its ancestors that are not `known`.

        Raises:
            FamiliarError: A commit in between is missing or damaged.
        """

        def new_parents(id_: str) -> Iterable[str]:
            return () if id_ in known else parents_of(self._objects.read(id_))

        new = (id_ for id_ in walk_ancestors([commit], new_parents) if id_ not in known)
        return {decode_commit(id_, self._objects.read(id_)).instance for id_ in new}

    def _before(self, commit: str) -> str | None:
        """Return the first parent of a commit."""
        return tree_and_parent(self._objects.read(commit))[1]

    def close(self) -> None:
        """Close open files."""
        self._objects.close()

    def _raw(self, id_: Any) -> tuple[int, bytes]:  # noqa: ANN401  # dulwich's own, 20 bytes
        """Return a delta base. Raises KeyError if it is missing."""
        name = id_.hex() if len(id_) == _ID_BYTES else id_.decode()
        if not self._objects.has(name):
            raise KeyError(id_)
        found = self._objects.get(name)
        return git_objects.TYPE_NUMBERS[found.kind], found.content

    def take_over(self) -> None:
        """Move everything into the journal; after a crash, `JournalExchange.finish` does so."""
        journal = self._journal
        there = os.path.join(journal.objects.directory, "pack")
        here = os.path.join(self.path, "pack")
        ends = (".pack", ".idx")
        names = {n.rpartition(".")[0] for n in os.listdir(here) if n.endswith(ends)}
        loose = [self._objects.get(id_) for id_ in self._objects.loose()]
        self._objects.close()
        mark = os.path.join(journal.path, _TAKING)
        with self._lock(), translate_errors(journal.path):
            journal.disk.put(mark, f"{os.path.basename(self.path)}\n".encode())
            journal.objects.write(loose)
            os.makedirs(there, exist_ok=True)  # a restored journal has no empty directories
            for name in sorted(names):
                for suffix in ends:  # a pack counts once its index exists
                    with suppress(FileNotFoundError):  # already moved
                        journal.disk.replace(
                            os.path.join(here, name + suffix), os.path.join(there, name + suffix)
                        )
            journal.disk.sync_dir(there)
            journal.objects.keep()
            journal.objects.close()  # list its packs again
            journal.disk.unlink(mark)


def _directory_in_move(repository: Repository) -> str:
    """Return the name of the directory being moved, or an empty string."""
    try:
        name = read_plain(os.path.join(repository.path, _TAKING)).decode().strip()
    except (OSError, ValueError):
        return ""
    return name if name.startswith(INCOMING) and name.isascii() and os.sep not in name else ""


def damaged_pack(why: object) -> RemoteDamagedError:
    """Return the error for damaged received data."""
    return RemoteDamagedError(
        f"The data from the remote is damaged: {why}; none of it was used",
        hint="Try again; if it keeps failing, check the remote with `git fsck`.",
    )


WORTH_IT: Final = 2000  # number of loose objects from which `doctor` advises to compact
_MOST_PACKS = 8  # number of packs from which they are merged into one


class CompactionResult(Struct, frozen=True):
    """What compaction did, or would do.

    Args:
        objects: Number of objects packed.
        bytes_before: Disk usage before.
        bytes_after: Disk usage after; None for a dry run.
    """

    objects: int
    bytes_before: int
    bytes_after: int | None


def compact_journal(repository: Repository, *, dry_run: bool = False) -> CompactionResult:
    """Pack all loose objects, and all packs once there are many. The caller holds the lock.

    Nothing is removed before it is durable in a pack, so a crash leaves at most duplicates. May
    raise OSError.
    """
    objects = repository.objects
    loose, old = objects.loose(), _old_packs(objects)
    before = disk_bytes(repository)
    ids = [*loose, *(id_ for pack in old for id_ in _ids_in(pack))]
    ids = list(dict.fromkeys(ids))
    if dry_run or not ids:
        objects.close()
        return CompactionResult(len(ids), before, None if dry_run else before)
    lines: set[str] = set()
    for batch in git_objects.object_batches(map(objects.get, _in_order(repository, ids))):
        lines.add(_write_pack(objects, batch))
    objects.close()
    for id_ in loose:
        objects.forget_loose(id_)
    for pack in old:
        if pack not in lines:
            for suffix in (".idx", ".pack"):
                repository.disk.unlink(pack + suffix)
    _drop_empty(objects.directory)
    return CompactionResult(len(ids), before, disk_bytes(repository))


def disk_bytes(repository: Repository) -> int:
    """Return the objects' disk usage, rounding each file up to 4 KB blocks."""
    total = 0
    for directory, _, names in os.walk(repository.objects.directory):
        for name in names:
            with suppress(OSError):
                total += -(-os.stat(os.path.join(directory, name)).st_size // 4096) * 4096
    return total


def _old_packs(objects: git_objects.Objects) -> list[str]:
    """Return the packs to merge (paths without suffix); none while there are few."""
    directory = os.path.join(objects.directory, "pack")
    names = sorted(n[:-5] for n in os.listdir(directory) if n.endswith(".pack"))
    paths = [os.path.join(directory, name) for name in names]
    paths = [path for path in paths if os.path.exists(path + ".idx")]
    small = [path for path in paths if os.stat(path + ".pack").st_size < git_objects.BATCH_BYTES]
    return small if len(small) > _MOST_PACKS else []


def _ids_in(path: str) -> list[str]:
    try:
        return packs.pack_ids(path)
    except packs.UnknownIndexError as error:
        raise git_objects.journal_damaged(
            f"pack {os.path.basename(path)} cannot be read"
        ) from error


def _in_order(repository: Repository, ids: Iterable[str]) -> list[str]:
    """Order `ids` so that versions of one file or directory are adjacent, newest first."""
    places: dict[str, tuple[str, int]] = {}
    for n, commit in enumerate(History(repository).commits()):
        places[commit.id] = ("", n)
        old = repository.tree_of(commit.parent)
        for path, id_ in _new_entries(repository.tree, old, commit.tree, "/"):
            places.setdefault(id_, (path, n))
    return sorted(ids, key=lambda id_: places.get(id_, ("~", 0)))


def _new_entries(
    read: Reader, old: str | None, new: str | None, path: str
) -> Iterator[tuple[str, str]]:
    """Yield path and id of each file and directory added in the tree `new`."""
    if new is None or old == new:
        return
    yield path, new
    before = decode_tree(read(old)) if old else {}
    for name, entry in decode_tree(read(new)).items():
        was = before.get(name)
        if was != entry and entry.is_dir:
            below = was.id if was and was.is_dir else None
            yield from _new_entries(read, below, entry.id, f"{path}{name}/")
        elif was != entry:
            yield path + name, entry.id


def _write_pack(objects: git_objects.Objects, batch: list[git_objects.GitObject]) -> str:
    """Write a pack, verify that it holds the whole batch, and return its path without suffix."""
    path = objects.add_pack(len(batch), git_objects.delta_objects(batch))
    if not {one.id for one in batch} <= set(_ids_in(path)):
        raise git_objects.journal_damaged("a new pack does not contain what was written to it")
    objects.keep()  # an identical pack is in use already
    return path


def _drop_empty(directory: str) -> None:
    for name in os.listdir(directory):
        if len(name) == 2:  # noqa: PLR2004  # git splits ids after two digits
            path = os.path.join(directory, name)
            names = filter(git_objects.is_unfinished, os.listdir(path))
            remove_leftovers(os.path.join(path, one) for one in names)
            with suppress(OSError):
                os.rmdir(path)
