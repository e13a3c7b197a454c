"""Size limits for a memory from elsewhere, checked on its trees before it is accepted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from familiar_cli.errors import RefLimitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MOST_TREE_BYTES: Final = 8 * 1024 * 1024
"""Maximum size of a tree object: about 200,000 files."""

MOST_LEVELS: Final = 300
"""Maximum nesting of directories; far more than a memory has."""

_MOST_FILES: Final = 200_000
_MOST_PATH_BYTES: Final = 64 * 1024 * 1024
_ENTRY: Final = re.compile(rb"([0-7]{5,6}) ([^\0]+)\0(.{20})", re.DOTALL)
_AROUND_BYTES: Final = 22  # the space, the zero and the id of an entry
_DIR: Final = b"40000"
_SUBMODULE: Final = b"160000"


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
    found = _ENTRY.findall(content)
    if sum(len(mode) + len(name) + _AROUND_BYTES for mode, name, _ in found) != len(content):
        raise RefLimitError("a directory has an entry without a name, or cannot be read")
    directories = tuple((id_, len(name)) for mode, name, id_ in found if mode == _DIR)
    names = [len(name) for mode, name, _ in found if mode != _DIR]
    ids = frozenset(id_ for mode, _, id_ in found if mode != _SUBMODULE)
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
                    raise too_deep()
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
        raise too_deep()
    if files > _MOST_FILES or path_bytes > _MOST_PATH_BYTES:
        raise RefLimitError(
            f"it holds more than {_MOST_FILES:,} files, or their names are too long"
        )
    return levels + 1, files, path_bytes


def too_wide() -> RefLimitError:
    """Return the error for an oversized directory."""
    return RefLimitError(f"a directory has more than {MOST_TREE_BYTES:,} bytes")


def too_deep() -> RefLimitError:
    """Return the error for directories nested too deep."""
    return RefLimitError(f"its directories are nested more than {MOST_LEVELS} levels deep")
