"""Limits for what comes from elsewhere: objects, directories and whole memories."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from familiar_cli.errors import RefLimitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MOST_OBJECT_BYTES: Final = 128 * 1024 * 1024
"""The largest object that is taken from elsewhere; a memory's files are a thousandth of that."""

MOST_TREE_BYTES: Final = 8 * 1024 * 1024
"""Maximum size of a tree object: about 200,000 files."""

MOST_LEVELS: Final = 300
"""Maximum nesting of directories; far more than a memory has."""

DIR_MODE: Final = b"40000"
SUBMODULE_MODE: Final = b"160000"

_MOST_FILES: Final = 200_000
_MOST_PATH_BYTES: Final = 64 * 1024 * 1024
_ENTRY: Final = re.compile(rb"([0-7]{5,6}) ([^\0]+)\0(.{20})", re.DOTALL)
_AROUND_BYTES: Final = 22  # the space, the zero and the id of an entry


class RawEntry(NamedTuple):
    """What stands behind one name in a directory, exactly as it was written, by whomever."""

    mode: bytes
    name: bytes
    id: str


def raw_entries(tree: bytes) -> list[RawEntry]:
    """Return the entries of a tree object that came from elsewhere.

    Raises:
        RefLimitError: It is none.
    """
    return [RawEntry(mode, name, id_.hex()) for mode, name, id_ in tree_rows(tree)]


def tree_rows(tree: bytes) -> list[tuple[bytes, bytes, bytes]]:
    """Return mode, name and id (20 bytes) of each entry of a tree object.

    Raises:
        RefLimitError: It is none.
    """
    found = _ENTRY.findall(tree)
    if sum(len(mode) + len(name) + _AROUND_BYTES for mode, name, _ in found) != len(tree):
        raise RefLimitError("a directory has an entry without a name, or cannot be read")
    return found


class TreeShape(NamedTuple):
    """Contents of a directory.

    Args:
        files: The number of files directly in it.
        name_bytes: The length of their names together.
        directories: The id of each directory in it, and the length of its name.
        ids: The ids of everything in it but submodules.
    """

    files: int
    name_bytes: int
    directories: tuple[tuple[bytes, int], ...]
    ids: frozenset[bytes]


def shape_of(content: bytes) -> TreeShape:
    """Parse a tree object.

    Raises:
        RefLimitError: It is too large, or has a name that cannot be one.
    """
    if len(content) > MOST_TREE_BYTES:
        raise too_wide()
    found = tree_rows(content)
    directories = tuple((id_, len(name)) for mode, name, id_ in found if mode == DIR_MODE)
    names = [len(name) for mode, name, _ in found if mode != DIR_MODE]
    ids = frozenset(id_ for mode, _, id_ in found if mode != SUBMODULE_MODE)
    return TreeShape(len(names), sum(names), directories, ids)


def check_trees(roots: Iterable[bytes], shape: Callable[[bytes], TreeShape]) -> None:
    """Refuse memories that are too deep or have too many files, reading each tree once.

    Args:
        roots: The ids of the topmost directories.
        shape: Returns what the directory with an id holds.

    Raises:
        RefLimitError: One is too deep or too large.
    """
    sizes: dict[bytes, tuple[int, int, int]] = {}  # levels, files, bytes of all paths
    for root in roots:
        waiting = [root]
        while waiting:
            tree = waiting[-1]
            if tree in sizes:
                waiting.pop()
                continue
            found = shape(tree)
            missing = [id_ for id_, _ in found.directories if id_ not in sizes]
            if missing:
                if len(waiting) > MOST_LEVELS:
                    raise _too_deep()
                waiting.append(missing[0])
                continue
            sizes[tree] = _size(found, sizes)
            waiting.pop()


def _size(found: TreeShape, sizes: dict[bytes, tuple[int, int, int]]) -> tuple[int, int, int]:
    levels, files, path_bytes = 0, found.files, found.name_bytes
    for id_, name_bytes in found.directories:
        below = sizes[id_]
        levels = max(levels, below[0])
        files += below[1]
        path_bytes += below[2] + below[1] * (name_bytes + 1)
    if levels >= MOST_LEVELS:
        raise _too_deep()
    if files > _MOST_FILES or path_bytes > _MOST_PATH_BYTES:
        raise RefLimitError(
            f"it holds more than {_MOST_FILES:,} files, or their names are too long"
        )
    return levels + 1, files, path_bytes


def too_large(size: int | None) -> RefLimitError:
    """Return the error for an object that is not taken from elsewhere; its size, if known."""
    shown = f" of {size:,} bytes" if size is not None else ""
    return RefLimitError(
        f"The remote sent a file{shown}, over the limit of {MOST_OBJECT_BYTES:,}; nothing was "
        "merged",
        hint="Find out who pushed it: `git log --stat` at the remote.",
    )


def too_wide() -> RefLimitError:
    """Return the error for an oversized directory."""
    return RefLimitError(f"a directory has more than {MOST_TREE_BYTES:,} bytes")


def _too_deep() -> RefLimitError:
    return RefLimitError(f"its directories are nested more than {MOST_LEVELS} levels deep")
