"""`Exchange`: the journal as another repository sees it: what it has, sends and takes in."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, Final

from familiar_cli.errors import RefLimitError, RemoteDamagedError
from familiar_cli.files import read_plain
from familiar_cli.memory.journal import packs
from familiar_cli.memory.journal.bounds import TreeShape, check_trees, shape_of
from familiar_cli.memory.journal.commits import decode, parents, tree_and_parent
from familiar_cli.memory.journal.objects import TYPE_NUMBERS, Objects, batches, differences
from familiar_cli.memory.journal.reachable import new_objects
from familiar_cli.memory.journal.repository import translated

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from contextlib import AbstractContextManager

    from dulwich.pack import UnpackedObject

    from familiar_cli.memory.journal.objects import GitObject
    from familiar_cli.memory.journal.repository import Repository

INCOMING: Final = "incoming-"
"""How the directories begin, in the journal, that hold what is not yet believed."""

_ID_BYTES: Final = 20

_TAKING: Final = "familiar-taking"
"""The file in the journal that names the directory of which all is believed and is being moved.

An object may be moved before those it leads to; so who finds the file moves the rest.
"""


class JournalExchange:
    """What a transport needs of the journal. The caller closes the repository.

    Args:
        repository: The journal.
        lock: Held for the moment in which what came in becomes a part of it.
    """

    def __init__(
        self, repository: Repository, lock: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self.repository = repository
        self._lock = lock

    def has(self, id_: str) -> bool:
        """Tell whether an object is there; a commit is, then, with all it leads to."""
        return self.repository.objects.has(id_)

    def parents(self, id_: str) -> tuple[str, ...]:
        """Return the commits that one follows."""
        return parents(self.repository.objects.read(id_))

    def leads_to(self, old: str, new: str) -> bool:
        """Tell whether the commit `new` holds `old` in its past, or is it."""
        waiting, seen = [new], {new}
        while waiting:
            at = waiting.pop()
            if at == old:
                return True
            for parent in self.parents(at):
                if parent not in seen:
                    seen.add(parent)
                    waiting.append(parent)
        return False

    def new_ids(self, wants: Iterable[str], haves: Iterable[str]) -> list[str]:
        """Return the ids of all objects that commits lead to and others do not.

        Args:
            wants: The commits, which the journal has.
            haves: Commits that the other side has with all they lead to; also such that are not
                here.
        """
        known = set(haves)
        return list(new_objects(self.repository.objects, wants, known.__contains__))

    def packed(self, ids: list[str]) -> tuple[int, Iterator[UnpackedObject]]:
        """Return objects of the journal ready for a pack, and their number."""
        return len(ids), differences(map(self.repository.objects.get, ids))

    @contextmanager
    def incoming(self) -> Iterator[IncomingObjects]:
        """Give a place for what comes in; what is not accepted by the end of it is dropped."""
        path = os.path.join(self.repository.path, f"{INCOMING}{os.urandom(6).hex()}")
        with translated(self.repository.path):
            os.makedirs(os.path.join(path, "pack"))
            os.makedirs(os.path.join(path, "info"))
        incoming = IncomingObjects(path, self.repository, self._lock)
        try:
            yield incoming
        finally:
            incoming.close()
            if _taking(self.repository) != os.path.basename(path):
                shutil.rmtree(path, ignore_errors=True)

    def finish(self) -> None:
        """Move the rest of what a crash cut off after it was believed.

        Raises:
            FamiliarError: It cannot be written.
        """
        name = _taking(self.repository)
        if not name:
            return
        path = os.path.join(self.repository.path, name)
        if os.path.isdir(path):
            incoming = IncomingObjects(path, self.repository, self._lock)
            incoming.take_over()
            incoming.close()
            shutil.rmtree(path, ignore_errors=True)

    def clear_leftovers(self) -> None:
        """Remove what a crash left half received. Only who alone receives may do this."""
        self.finish()
        for name in os.listdir(self.repository.path) if self.repository.exists else ():
            if name.startswith(INCOMING):
                shutil.rmtree(os.path.join(self.repository.path, name), ignore_errors=True)


class IncomingObjects:
    """Objects that came from elsewhere and are not believed yet, apart from the journal's."""

    def __init__(
        self, path: str, repository: Repository, lock: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self.path = path
        self._journal = repository
        self._lock = lock
        own = repository.objects
        self._objects = Objects(path, repository.disk, is_foreign=True, beside=own)
        self._ids: set[bytes] = set()
        self._needs: set[bytes] = set()  # ids that what came leads to
        self._shapes: dict[bytes, TreeShape] = {}
        self._roots: set[bytes] = set()  # the topmost directories of commits

    def add_pack(self, file: IO[bytes]) -> None:
        """Take in a pack, which may hold differences to what the journal has.

        Args:
            file: Stands at the pack's first byte.

        Raises:
            FamiliarError: It cannot be read, or something in it is too large.
        """
        with translated(self._journal.path):
            begin = file.tell()
            packs.check(file)
            file.seek(begin)
            try:
                self._index_pack(file)
            except (OSError, RefLimitError):
                raise
            except Exception as error:  # dulwich raises what a broken pack happens to cause
                raise damaged_pack(error) from error

    def _index_pack(self, file: IO[bytes]) -> None:
        """Write down a pack, the bases that its differences lack, and its index, in one pass."""
        from dulwich.object_format import DEFAULT_OBJECT_FORMAT as SHA1
        from dulwich.pack import (
            PackData,
            PackIndexer,
            extend_pack,
        )

        note = self._note

        class NotingIndexer(PackIndexer):
            def _result(self, unpacked: UnpackedObject) -> tuple[Any, int, int | None]:
                entry = super()._result(unpacked)
                note(entry[0], unpacked.obj_type_num or 0, b"".join(unpacked.obj_chunks or ()))
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
        self._ids.update(bases)
        self._journal.disk.adopt(path)
        packs.finish_pack(self._journal.disk, path, [*entries, *more], digest)

    def add_objects(self, objects: Iterable[GitObject]) -> None:
        """Take in objects.

        Raises:
            FamiliarError: They cannot be written.
        """
        for batch in batches(objects):
            with translated(self._journal.path):
                self._objects.write(batch)
            for one in batch:
                self._note(bytes.fromhex(one.id), TYPE_NUMBERS[one.kind], one.content)

    def _note(self, id_: bytes, kind: int, content: bytes) -> None:
        """Note an object, and what it leads to."""
        self._ids.add(id_)
        if kind == TYPE_NUMBERS["tree"]:
            self._shapes[id_] = shape = shape_of(content)
            self._needs |= shape.ids
        elif kind == TYPE_NUMBERS["commit"]:
            tree = bytes.fromhex(tree_and_parent(content)[0])
            self._roots.add(tree)
            self._needs.update((tree, *map(bytes.fromhex, parents(content))))

    def accept(self, wants: Collection[str]) -> None:
        """Check that commits came with all they lead to; make what came a part of the journal.

        Raises:
            FamiliarError: Something is missing or damaged; the journal is as it was.
        """
        known = self._journal.objects.has
        needs = self._needs | set(map(bytes.fromhex, wants))
        for id_ in sorted(needs - self._ids):
            if not known(id_.hex()):
                raise damaged_pack(f"object {id_.hex()} is missing")
        for want in wants:
            if self._objects.get(want).kind != "commit":
                raise damaged_pack(f"object {want} is not a commit")
        check_trees(self._roots, self._shape)
        self.take_over()

    def _shape(self, tree: bytes) -> TreeShape:
        return self._shapes.get(tree) or shape_of(self._objects.read(tree.hex()))

    def came(self, id_: str) -> bool:
        """Tell whether an object itself came, and not only something that leads to it."""
        return bytes.fromhex(id_) in self._ids

    def root(self, commit: str) -> str:
        """Return the commit with which a history began, on the way of its first parents.

        Raises:
            FamiliarError: A commit on the way is missing or damaged.
        """
        while before := self._before(commit):
            commit = before
        return commit

    def goes_on(self, commit: str) -> bool:
        """Tell whether a history goes on with one that the journal has.

        Raises:
            FamiliarError: A commit on the way is missing or damaged.
        """
        at: str | None = commit
        while at and not self._journal.objects.has(at):
            at = self._before(at)
        return at is not None

    def instances(self, commit: str) -> set[str]:
        """Return the authors of a commit and of its ancestors that the journal lacks.

        Raises:
            FamiliarError: A commit on the way is missing or damaged.
        """
        found: set[str] = set()
        waiting, seen = [commit], {commit}
        while waiting:
            at = waiting.pop()
            if not self._journal.objects.has(at):
                content = self._objects.read(at)
                found.add(decode(at, content).instance)
                waiting += [parent for parent in parents(content) if parent not in seen]
                seen.update(waiting)
        return found

    def _before(self, commit: str) -> str | None:
        """Return the commit that one follows first."""
        return tree_and_parent(self._objects.read(commit))[1]

    def close(self) -> None:
        """Let go of open files."""
        self._objects.close()

    def _raw(self, id_: Any) -> tuple[int, bytes]:  # noqa: ANN401  # dulwich's own, 20 bytes
        """Return an object that a difference rests on. Raises KeyError when it is not here."""
        name = id_.hex() if len(id_) == _ID_BYTES else id_.decode()
        if not self._objects.has(name):
            raise KeyError(id_)
        found = self._objects.get(name)
        return TYPE_NUMBERS[found.kind], found.content

    def take_over(self) -> None:
        """Make all of it a part of the journal; what a crash cuts off, `Exchange.finish` does."""
        journal = self._journal
        there = os.path.join(journal.objects.directory, "pack")
        here = os.path.join(self.path, "pack")
        ends = (".pack", ".idx")
        names = {n.rpartition(".")[0] for n in os.listdir(here) if n.endswith(ends)}
        loose = [self._objects.get(id_) for id_ in self._objects.loose()]
        self._objects.close()
        mark = os.path.join(journal.path, _TAKING)
        with self._lock(), translated(journal.path):
            journal.disk.put(mark, f"{os.path.basename(self.path)}\n".encode())
            journal.objects.write(loose)
            for name in sorted(names):
                for suffix in ends:  # a pack counts from when its index is there
                    with suppress(FileNotFoundError):  # moved already
                        journal.disk.replace(
                            os.path.join(here, name + suffix), os.path.join(there, name + suffix)
                        )
            journal.disk.sync_dir(there)
            journal.objects.keep()
            journal.objects.close()  # its packs are listed anew
            journal.disk.unlink(mark)


def _taking(repository: Repository) -> str:
    """Return the name of the directory that is being moved; empty: there is none."""
    try:
        name = read_plain(os.path.join(repository.path, _TAKING)).decode().strip()
    except (OSError, ValueError):
        return ""
    return name if name.startswith(INCOMING) and name.isascii() and os.sep not in name else ""


def damaged_pack(why: object) -> RemoteDamagedError:
    """Return the error for what came and is not whole."""
    return RemoteDamagedError(
        f"The data from the remote is damaged: {why}; none of it was used",
        hint="Try again; if it keeps failing, check the remote with `git fsck`.",
    )
