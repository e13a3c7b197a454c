"""Write down a pack that comes in, and note what it holds and what that leads to, in one pass."""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final

from familiar_cli.files import Disk
from familiar_cli.memory.journal.bounds import TreeShape, shape_of
from familiar_cli.memory.journal.commits import parents, tree_and_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_COMMIT: Final = 1
_TREE: Final = 2
_KINDS: Final = {"commit": _COMMIT, "tree": _TREE}


@dataclass(slots=True)
class Received:
    """What came so far.

    Attributes:
        ids: The ids of all objects, as 20 bytes.
        needs: The ids that they lead to.
        follows: The commit that each commit follows first, in hex; None for the first of all.
        shapes: What each directory holds, by its id.
        roots: The topmost directories of all commits.
    """

    ids: set[bytes] = field(default_factory=set)
    needs: set[bytes] = field(default_factory=set)
    follows: dict[str, str | None] = field(default_factory=dict)
    shapes: dict[bytes, TreeShape] = field(default_factory=dict)
    roots: set[bytes] = field(default_factory=set)

    def note(self, id_: bytes, kind: int, content: bytes) -> None:
        """Note an object, and what it leads to."""
        self.ids.add(id_)
        if kind == _TREE:
            self.shapes[id_] = shape = shape_of(content)
            self.needs |= shape.ids
        elif kind == _COMMIT:
            tree, parent = tree_and_parent(content)
            self.follows[id_.hex()] = parent
            self.roots.add(bytes.fromhex(tree))
            self.needs.update(bytes.fromhex(i) for i in (tree, *parents(content)))

    def note_objects(self, objects: Iterable[Any]) -> None:
        """Note objects that did not come in a pack; see `objects.GitObject`."""
        for one in objects:
            self.note(bytes.fromhex(one.id), _KINDS.get(one.kind, 0), one.content)


def receive(
    file: IO[bytes],
    directory: str,
    get_raw: Callable[[Any], tuple[int, bytes]],
    received: Received,
) -> None:
    """Write a pack into a directory, with the bases that its differences lack, and its index.

    Args:
        file: Stands at the pack's first byte.
        directory: Where packs are kept.
        get_raw: Returns an object that a difference rests on and the pack does not hold.
        received: Told of everything that comes.

    Raises:
        Exception: Whatever dulwich raises for a broken pack; nothing is left of it.
        OSError: It cannot be read or written.
    """
    path = os.path.join(directory, f"tmp_pack_{secrets.token_hex(6)}")
    try:
        _receive(file, path, get_raw, received)
    except BaseException:
        with suppress(OSError):
            Disk().unlink(path)
        raise


def _receive(
    file: IO[bytes], path: str, get_raw: Callable[[Any], tuple[int, bytes]], received: Received
) -> None:
    from dulwich.object_format import DEFAULT_OBJECT_FORMAT
    from dulwich.pack import (
        PackData,
        PackIndexer,
        UnpackedObject,
        extend_pack,
        iter_sha1,
        write_pack_index,
    )

    class Noting(PackIndexer):
        """Makes the index, and tells of each object while its content is at hand."""

        def _result(self, unpacked: UnpackedObject) -> tuple[Any, int, int | None]:
            entry = super()._result(unpacked)
            kind, chunks = unpacked.obj_type_num, unpacked.obj_chunks
            received.note(entry[0], kind or 0, b"".join(chunks or ()))
            return entry

    with open(path, "w+b") as pack:
        shutil.copyfileobj(file, pack)
        pack.flush()
        pack.seek(-DEFAULT_OBJECT_FORMAT.oid_length, os.SEEK_END)
        checksum = pack.read()
        with PackData(path, file=pack, object_format=DEFAULT_OBJECT_FORMAT) as data:
            indexer = Noting.for_pack_data(data, resolve_ext_ref=get_raw)
            entries: list[tuple[Any, int, int | None]] = list(indexer)
            bases = set(indexer.ext_refs())
        digest, more = extend_pack(pack, bases, get_raw, DEFAULT_OBJECT_FORMAT)
        if not bases and digest != checksum:
            raise ValueError("the checksum of the pack does not match")
        pack.flush()
        os.fsync(pack.fileno())
    entries = sorted([*entries, *more])
    received.ids.update(bases)
    name = os.path.join(
        os.path.dirname(path), f"pack-{iter_sha1(entry[0] for entry in entries).decode()}"
    )
    with open(f"{name}.idx", "wb") as index:
        write_pack_index(index, entries, digest)
        index.flush()
        os.fsync(index.fileno())
    for made in (path, f"{name}.idx"):
        Disk().adopt(made)
    Disk().replace(path, f"{name}.pack")
