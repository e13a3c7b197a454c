"""Files that the journal has and this machine cannot hold, such as two names that are one here.

They came from other instances. Without a list of them they would count as deleted here, and sync
would delete them there.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

from familiar_cli.files import read_plain
from familiar_cli.memory.journal import trees

if TYPE_CHECKING:
    from collections.abc import Mapping

    from familiar_cli.memory.journal.repository import Repository

NAME: Final = "familiar-absent"


def listed(repository: Repository) -> dict[str, str]:
    """Return the paths of such files, and the ids of their contents; none when that is unknown."""
    try:
        found = json.loads(read_plain(os.path.join(repository.path, NAME)))
        return {str(path): str(id_) for path, id_ in found.items()}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}


def note(repository: Repository, absent: Mapping[str, str]) -> None:
    """Add files to the list, durably, before a commit has them. May raise OSError.

    An entry whose content is not what the journal has now stands for nothing.
    """
    before = listed(repository)
    after = {**before, **absent}
    if after != before:
        text = json.dumps(after, indent=1, sort_keys=True)
        repository.disk.put(os.path.join(repository.path, NAME), f"{text}\n".encode())


def is_absent(repository: Repository, commit: str, rel_path: str) -> bool:
    """Tell whether a commit has a file that this machine cannot hold."""
    absent = listed(repository)
    id_ = trees.file_id(repository.tree, repository.tree_of(commit), rel_path)
    return id_ is not None and absent.get(rel_path) == id_
