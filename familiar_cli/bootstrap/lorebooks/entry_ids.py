"""Which entry is which: ids and file names made of what it says, and those imported before."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from familiar_cli.bootstrap.lorebooks.types import digest
from familiar_cli.memory.pages.lore_page import is_expression
from familiar_cli.text import fold, slugify

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from familiar_cli.bootstrap.lorebooks.types import LoreEntry


_ID_CHARS: Final = 12
_SUFFIX_CHARS: Final = 6
_MAX_STEM_CHARS: Final = 60
_MAX_STEM_BYTES: Final = 200  # 255 is what file systems hold; a suffix and `.md` follow
_DEVICE: Final = re.compile(r"(?:con|prn|aux|nul|(?:com|lpt)\d)")


def book_id_of(name: str) -> str:
    """Return the id of the book that calls itself `name`."""
    return digest(["book", fold(name.strip())])[:_ID_CHARS]


def ids_of(book_id: str, entries: Sequence[LoreEntry], taken: set[str]) -> list[str]:
    """Return an id for each of `entries`, which together does not depend on their order.

    Entries that say the very same are told apart by their settings, and by number where even those
    are equal. Nothing in `taken` is used.
    """
    keyed = sorted((entry.core, digest(entry.raw), n) for n, entry in enumerate(entries))
    found = [""] * len(entries)
    used = set(taken)
    for core, raw, n in keyed:
        twin = 0
        new = digest([book_id, core])[:_ID_CHARS]
        while new in used:
            twin += 1
            new = digest([book_id, core, raw, twin])[:_ID_CHARS]
        used.add(new)
        found[n] = new
    return found


def stem_of(entry: LoreEntry) -> str:
    """Return a file name without suffix for `entry`: its title, else a key, else its number.

    Regular expressions come after other keys.
    """
    names = sorted((entry.title, *entry.keys), key=is_expression)
    stems = (safe_stem(name, "entry") for name in (*names, f"entry {entry.uid}"))
    return next(filter(None, stems), "entry")


def safe_stem(name: str, kind: str) -> str:
    """Return `name` as every file system can hold it, or an empty string.

    Args:
        name: What a person or another program calls it.
        kind: Stands behind the name of a device.
    """
    stem = _fit(slugify(name, max_chars=_MAX_STEM_CHARS))
    return f"{stem}-{kind}" if _DEVICE.fullmatch(stem) else stem


def file_names(entries: Sequence[LoreEntry], ids: Sequence[str], taken: set[str]) -> list[str]:
    """Return a file name for each of `entries`.

    Entries that would have the same name all get the beginning of their id behind it, and so does
    one whose name is in `taken` (folded names).
    """
    stems = [stem_of(entry) for entry in entries]
    shared = Counter(fold(stem) for stem in stems)
    used = set(taken)
    names = []
    for stem, entry_id in zip(stems, ids, strict=True):
        alone = shared[fold(stem)] == 1 and fold(f"{stem}.md") not in used
        name = f"{stem}.md" if alone else _suffixed(stem, entry_id, used)
        used.add(fold(name))
        names.append(name)
    return names


def _suffixed(stem: str, entry_id: str, used: set[str]) -> str:
    name = f"{stem}-{entry_id[:_SUFFIX_CHARS]}.md"
    return name if fold(name) not in used else f"{stem}-{entry_id}.md"


def _fit(stem: str) -> str:
    return stem.encode()[:_MAX_STEM_BYTES].decode(errors="ignore").strip("-")


def match(new: Sequence[LoreEntry], old: Mapping[str, LoreEntry]) -> list[str | None]:
    """Return for each entry of `new` the id of the old entry that it is, or None.

    The surest criterion decides first: the same text and number, the same text, the same number and
    title, the same title, and the same number with a key or the content in common. A criterion
    counts only between one new and one old entry; equal twins are paired in their order.
    """
    found: list[str | None] = [None] * len(new)
    free = dict(old)
    _pair(new, found, free, lambda entry: (entry.core, entry.uid), twins=True)
    _pair(new, found, free, lambda entry: entry.core, twins=True)
    _pair(new, found, free, lambda entry: (entry.uid, entry.title) if entry.uid else None)
    _pair(new, found, free, lambda entry: entry.title or None)
    _pair(new, found, free, lambda entry: entry.uid or None, also=_alike)
    return found


def _pair(
    new: Sequence[LoreEntry],
    found: list[str | None],
    free: dict[str, LoreEntry],
    criterion: Callable[[LoreEntry], Hashable],
    *,
    twins: bool = False,
    also: Callable[[LoreEntry, LoreEntry], bool] = lambda _new, _old: True,
) -> None:
    """Pair what is left over on both sides and has the same `criterion`; None equals nothing."""
    olds: dict[Hashable, list[str]] = defaultdict(list)
    for key, entry in free.items():
        olds[criterion(entry)].append(key)
    news: dict[Hashable, list[int]] = defaultdict(list)
    for n, entry in enumerate(new):
        if found[n] is None:
            news[criterion(entry)].append(n)
    for like, places in news.items():
        keys = olds.get(like, []) if like is not None else []
        if not twins and (len(places) > 1 or len(keys) > 1):
            continue
        for n, key in zip(places, keys, strict=False):
            if also(new[n], free[key]):
                found[n] = key
                del free[key]


def _alike(new: LoreEntry, old: LoreEntry) -> bool:
    return new.content == old.content or bool(set(new.keys) & set(old.keys))
