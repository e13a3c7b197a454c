"""Tell which entries of a book are the ones that were imported before."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from familiar_cli.bootstrap.lorebooks.types import LoreEntry


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
