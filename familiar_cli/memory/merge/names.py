"""Alignment of file names in a merge: renames are followed, duplicates become one file.

Names that differ only in case or in Unicode's normal form are one file on some systems, so they are
one everywhere. Where one side renamed a file that the other one changed, the change goes along.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from familiar_cli.memory.layout import is_in_conflicts
from familiar_cli.text import fold

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    Files = Mapping[str, str]
    Read = Callable[[str], bytes]

_ALIKE: Final = 0.6  # of the larger content, as for `memory log`
_MOST_PAIRS: Final = 2_000  # that are compared; git, too, gives up on more
_MOST_BYTES: Final = 1024 * 1024


def name_alike(
    trees: tuple[Files, Files, Files], read: Read
) -> tuple[tuple[Files, Files, Files], Mapping[str, Collection[str]], dict[str, str]]:
    """Give each file the same name on both sides and in their base.

    Args:
        trees: What both began with; one side, whose names count where nothing else tells; and the
            other one.
        read: Gives the content of any of their files.

    Returns:
        The three under the same names; every other name of a file, by its name now; and each new
        name of a file that one side renamed and the other one changed, with its old one.
    """
    base, ours, theirs = map(dict, trees)
    former: dict[str, set[str]] = {}
    if ours.keys() == theirs.keys():
        return trees, former, {}
    spellings = _spellings(base, ours, theirs)
    for tree in (base, ours, theirs) if spellings else ():
        _respell(tree, spellings, former)
    renamed = _follow_renames(base, ours, theirs, read, former)
    return (base, ours, theirs), former, renamed


def _spellings(base: Files, ours: Files, theirs: Files) -> dict[str, str]:
    """Return the spelling of the last part of a folded path, where the sides differ.

    Whoever changed it is followed. Twins on one side are left to whoever made them.
    """
    first = _spelled(ours.keys() - theirs.keys())
    second = _spelled(theirs.keys() - ours.keys())
    both = {f for f in first.keys() & second.keys() if first[f] != second[f]}
    if not both:
        return {}
    before = _spelled(base)
    found = {}
    for folded in both:
        if len(first[folded]) == len(second[folded]) == 1:
            (one,), (other,) = first[folded], second[folded]
            found[folded] = other if one in before.get(folded, ()) else one
    return found


def _spelled(paths: Iterable[str]) -> dict[str, set[str]]:
    """Return the last parts of all paths and their parents, by folded path."""
    found: dict[str, set[str]] = {}
    for path in paths:
        for folded, part in _parts(path):
            found.setdefault(folded, set()).add(part)
    return found


def _parts(path: str) -> Iterator[tuple[str, str]]:
    at = ""
    for part in path.split("/"):
        at = f"{at}/{fold(part)}" if at else fold(part)
        yield at, part


def _respell(
    tree: dict[str, str], spellings: Mapping[str, str], former: dict[str, set[str]]
) -> None:
    for path in list(tree):
        new = "/".join(spellings.get(folded, part) for folded, part in _parts(path))
        if new != path and new not in tree:
            tree[new] = tree.pop(path)
            former.setdefault(new, set()).add(path)


def _follow_renames(
    base: dict[str, str],
    ours: dict[str, str],
    theirs: dict[str, str],
    read: Read,
    former: dict[str, set[str]],
) -> dict[str, str]:
    """Rename files on the side that changed but did not rename them; return new and old names."""
    found: dict[str, str] = {}
    gone = {path for path in base if not is_in_conflicts(path)}
    gone_here, gone_there = gone - ours.keys(), gone - theirs.keys()
    changed_there = {p for p in gone_here if p in theirs and theirs[p] != base[p]}
    changed_here = {p for p in gone_there if p in ours and ours[p] != base[p]}
    in_both = gone_here & gone_there
    new_here, new_there = ours.keys() - base.keys(), theirs.keys() - base.keys()
    to = _matches(base, changed_there | in_both, ours, new_here - theirs.keys(), read)
    too = _matches(base, changed_here | in_both, theirs, new_there - ours.keys(), read)
    for tree, other, renames in ((ours, theirs, to), (theirs, ours, too)):
        for old, new in renames.items():
            if old not in base or new in other or new not in tree:
                continue  # its name was settled with the other side's
            source = old if old in other else too.get(old) if tree is ours else None
            if source is None or source not in other:
                continue
            other[new] = other.pop(source)
            base[new] = base.pop(old)
            former.setdefault(new, set()).update({old, source})
            found[new] = old
    return found


def _matches(
    base: Files, gone: Collection[str], tree: Files, new: Collection[str], read: Read
) -> dict[str, str]:
    """Detect renames: the identical new file, or else the most similar one."""
    if not gone or not new:
        return {}
    free = {path for path in new if not is_in_conflicts(path)}
    found: dict[str, str] = {}
    for old in sorted(gone):
        same = [path for path in free if tree[path] == base[old]]
        if same:
            found[old] = min(same, key=lambda path: (_name(path) != _name(old), path))
            free.discard(found[old])
    rest = [old for old in sorted(gone) if old not in found]
    if not rest or not free or len(rest) * len(free) > _MOST_PAIRS:
        return found
    sums = _Contents(read)
    pairs = ((sums.likeness(base[old], tree[path]), old, path) for old in rest for path in free)
    for likeness, old, path in sorted(pairs, key=lambda pair: (-pair[0], *pair[1:])):
        if likeness >= _ALIKE and old not in found and path in free:
            found[old] = path
            free.discard(path)
    return found


class _Contents:
    """Cache of contents as line counts."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._lines: dict[str, Counter[bytes]] = {}

    def likeness(self, one: str, other: str) -> float:
        """Return the share of the larger content that both have, by bytes: 0 to 1."""
        first, second = self._of(one), self._of(other)
        most = max(_size(first), _size(second))
        return _size(first & second) / most if most else 0.0

    def _of(self, blob: str) -> Counter[bytes]:
        if blob not in self._lines:
            content = self._read(blob)
            is_small = len(content) <= _MOST_BYTES
            self._lines[blob] = Counter(content.splitlines(keepends=True) if is_small else ())
        return self._lines[blob]


def _size(lines: Mapping[bytes, int]) -> int:
    return sum(len(line) * count for line, count in lines.items())


def _name(path: str) -> str:
    return path.rpartition("/")[2]
