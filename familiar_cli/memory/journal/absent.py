"""Files whose version in the journal this machine cannot hold, such as a reserved name.

They came from other machines. Without a list of them they would count as deleted, or as changed
back, by hand here, and sync would carry that to every other machine.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

from familiar_cli.files import read_plain
from familiar_cli.memory.journal import trees
from familiar_cli.memory.layout import is_synced
from familiar_cli.memory.store.types import AbsentVersion

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from familiar_cli.memory.journal.repository import Repository

NAME: Final = "familiar-absent"

CANNOT_BE_HERE: Final = "its name or size is not possible on this machine"
"""Reason for entries without one."""


def listed(repository: Repository) -> dict[str, AbsentVersion]:
    """Return the entries by path; empty when unknown.

    An entry whose content is not what the journal has now stands for nothing.
    """
    try:
        found = json.loads(read_plain(os.path.join(repository.path, NAME)))
        return {str(path): _entry(row) for path, row in found.items()}
    except (OSError, ValueError, AttributeError, KeyError, RecursionError):
        return {}


def refused(repository: Repository) -> dict[str, str]:
    """Return why files of other machines are missing or outdated here, by path."""
    known = listed(repository)
    tree = repository.tree_of(repository.head()) if known and repository.exists else None
    return {
        path: one.reason
        for path, one in sorted(known.items())
        if is_synced(path) and trees.file_id(repository.tree, tree, path) == one.id
    }


def note(
    repository: Repository, new: Mapping[str, AbsentVersion], gone: Collection[str] = ()
) -> None:
    """Add files durably, before their commit, and drop others. May raise OSError."""
    before = listed(repository)
    after = {path: one for path, one in {**before, **new}.items() if path not in gone}
    if after != before:
        rows = {path: {"id": o.id, "here": o.here, "why": o.reason} for path, o in after.items()}
        text = json.dumps(rows, indent=1, sort_keys=True)
        repository.disk.put(os.path.join(repository.path, NAME), f"{text}\n".encode())


def forget(repository: Repository, paths: Collection[str]) -> None:
    """Drop files that are here now. May raise OSError."""
    if not listed(repository).keys().isdisjoint(paths):
        note(repository, {}, paths)


def _entry(row: object) -> AbsentVersion:
    if isinstance(row, dict):
        return AbsentVersion(str(row["id"]), str(row["here"]), str(row["why"]))
    return AbsentVersion(str(row), "", CANNOT_BE_HERE)
