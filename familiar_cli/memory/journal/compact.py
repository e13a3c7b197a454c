"""Pack the journal: many small files become one, in which like things are kept as differences."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from familiar_cli.memory.journal import packs
from familiar_cli.memory.journal.history import History
from familiar_cli.memory.journal.objects import BATCH_BYTES, batches, damaged, differences
from familiar_cli.memory.journal.trees import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from familiar_cli.memory.journal.objects import GitObject, Objects
    from familiar_cli.memory.journal.repository import Repository
    from familiar_cli.memory.journal.trees import Reader

WORTH_IT: Final = 2000  # loose objects; from here on `doctor` advises to compact
_MOST_PACKS = 8  # with more of them, they too become one


@dataclass(frozen=True, slots=True)
class Compacted:
    """What packing did, or would do.

    Args:
        objects: How many objects were (or would be) packed.
        bytes_before: What they took on disk.
        bytes_after: What they take now; None for a dry run.
    """

    objects: int
    bytes_before: int
    bytes_after: int | None


def compact(repository: Repository, *, dry_run: bool = False) -> Compacted:
    """Pack all loose objects, and all packs once there are many. The caller holds the lock.

    Nothing is removed before all it held is durable in a pack, so a crash leaves at most copies.
    May raise OSError.
    """
    objects = repository.objects
    loose, old = objects.loose(), _old_packs(objects)
    before = disk_bytes(repository)
    ids = [*loose, *(id_ for pack in old for id_ in _ids_in(pack))]
    ids = list(dict.fromkeys(ids))
    if dry_run or not ids:
        objects.close()
        return Compacted(len(ids), before, None if dry_run else before)
    written: set[str] = set()
    for batch in batches(map(objects.get, _in_order(repository, ids))):
        written.add(_write(objects, batch))
    objects.close()
    for id_ in loose:
        objects.forget_loose(id_)
    for pack in old:
        if pack not in written:
            for suffix in (".idx", ".pack"):
                repository.disk.unlink(pack + suffix)
    _drop_empty(objects.directory)
    return Compacted(len(ids), before, disk_bytes(repository))


def disk_bytes(repository: Repository) -> int:
    """Return how much room the objects take, each file counted in whole blocks of 4 KB."""
    total = 0
    for directory, _, names in os.walk(repository.objects.directory):
        for name in names:
            with suppress(OSError):
                total += -(-os.stat(os.path.join(directory, name)).st_size // 4096) * 4096
    return total


def _old_packs(objects: Objects) -> list[str]:
    """Return the packs to be taken together (paths without suffix); none while there are few."""
    directory = os.path.join(objects.directory, "pack")
    names = sorted(n[:-5] for n in os.listdir(directory) if n.endswith(".pack"))
    paths = [os.path.join(directory, name) for name in names]
    paths = [path for path in paths if os.path.exists(path + ".idx")]
    small = [path for path in paths if os.stat(path + ".pack").st_size < BATCH_BYTES]
    return small if len(small) > _MOST_PACKS else []


def _ids_in(path: str) -> list[str]:
    try:
        return packs.ids_in(path)
    except packs.UnknownIndexError as error:
        raise damaged(f"pack {os.path.basename(path)} cannot be read") from error


def _in_order(repository: Repository, ids: Iterable[str]) -> list[str]:
    """Return `ids` so that versions of one file or directory follow each other, newest first."""
    places: dict[str, tuple[str, int]] = {}
    for n, commit in enumerate(History(repository).commits()):
        places[commit.id] = ("", n)
        old = repository.tree_of(commit.parent)
        for path, id_ in _new_in(repository.tree, old, commit.tree, "/"):
            places.setdefault(id_, (path, n))
    return sorted(ids, key=lambda id_: places.get(id_, ("~", 0)))


def _new_in(read: Reader, old: str | None, new: str | None, path: str) -> Iterator[tuple[str, str]]:
    """Yield path and id of each file and directory that the tree `new` has and `old` has not."""
    if new is None or old == new:
        return
    yield path, new
    before = decode(read(old)) if old else {}
    for name, entry in decode(read(new)).items():
        was = before.get(name)
        if was != entry and entry.is_dir:
            below = was.id if was and was.is_dir else None
            yield from _new_in(read, below, entry.id, f"{path}{name}/")
        elif was != entry:
            yield path + name, entry.id


def _write(objects: Objects, batch: list[GitObject]) -> str:
    """Write a pack, make sure that it holds the whole batch, and return its path without suffix."""
    path = objects.add_pack(len(batch), differences(batch))
    if not {one.id for one in batch} <= set(_ids_in(path)):
        raise damaged("a new pack does not contain what was written to it")
    objects.keep()  # what it holds is in effect already
    return path


def _drop_empty(directory: str) -> None:
    for name in os.listdir(directory):
        if len(name) == 2:  # noqa: PLR2004  # git splits ids after two digits
            path = os.path.join(directory, name)
            for leftover in os.listdir(path):
                if leftover.startswith("tmp_obj_"):
                    with suppress(OSError):
                        os.unlink(os.path.join(path, leftover))
            with suppress(OSError):
                os.rmdir(path)
