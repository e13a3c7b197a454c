"""Two versions of a page and what both began with: block by block, as one.

Blocks are the same that say the same, wherever they stand in their list. What one side added comes
after what it followed there, ours first; what one side took out is gone, unless the other changed
it. Where both changed one block in two ways, one version stands and the place is noted.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from familiar_cli.diffs import changed_blocks
from familiar_cli.memory.merge.blocks import MergeBlock, normal, walk
from familiar_cli.memory.merge.lines import merge_lines
from familiar_cli.memory.pages.evidence import Cited, cited, reference, without_references

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Settle = Literal["ours", "theirs", "both"]
"""What stands where two versions differ."""

_ALIKE: Final = 0.5
_COMPARED_CHARS: Final = 400
_NEAR: Final = 4  # blocks before and behind the place where one would stand
_WORD: Final = re.compile(r"\w+")
_NOTHING: Final = MergeBlock("section")

_T = TypeVar("_T")
Key = tuple[tuple[str, ...], int]


@dataclass(slots=True)
class MergeFindings:
    """What a merge met with on its way.

    Args:
        clashes: The kinds of places where two versions differ; each once, as keys.
        kept: Blocks that one side took out and the other changed.
    """

    clashes: dict[str, None] = field(default_factory=dict)
    kept: int = 0


def pick(base: _T, ours: _T, theirs: _T) -> tuple[_T, bool]:
    """Return what one side alone made of `base`, else ours; and whether both can be had."""
    if base == ours:
        return theirs, True
    return ours, theirs in (base, ours)


def merge_sections(
    base: MergeBlock, ours: MergeBlock, theirs: MergeBlock, settle: Settle, findings: MergeFindings
) -> MergeBlock:
    """Return two versions of a section, or of a whole page, as one."""
    blocks = _Blocks(settle, findings)
    if not base.inside and not base.sections and _are_titled(ours, theirs):
        whole = MergeBlock("section", gap=ours.gap)
        whole.sections = blocks.titled(ours.sections[0], theirs.sections[0])
        return whole
    return blocks.section(base, ours, theirs)


def _are_titled(ours: MergeBlock, theirs: MergeBlock) -> bool:
    """Return whether two pages are each one section with a title of its own."""
    tops = [side.sections[0] for side in (ours, theirs) if len(side.sections) == 1]
    is_all = len(tops) == 2 and not ours.inside and not theirs.inside  # noqa: PLR2004
    return is_all and all(top.level == 1 and not top.channel for top in tops)


def in_one_order(
    base: Sequence[_T],
    ours: Sequence[_T],
    theirs: Sequence[_T],
    is_item: Callable[[_T], bool] = lambda _: False,
) -> list[_T]:
    """Return everything in `ours` and `theirs`, each thing once, in an order that both would know.

    What only one side has comes after what it follows there; ours first, but what goes on with a
    list before what ends it. Where one side alone moved something, it is moved; where both did, our
    order stands.
    """
    both = set(ours) & set(theirs)
    mine, other = ([one for one in side if one in both] for side in (ours, theirs))
    first = [one for one in base if one in both]
    moved = mine != other and [one for one in mine if one in set(first)] == first
    frame = other if moved else mine
    after_ours, after_theirs = (_followers(side, both) for side in (ours, theirs))
    out: list[_T] = []
    for anchor in (None, *frame):
        if anchor is not None:
            out.append(anchor)
        left, right = after_ours.get(anchor, []), after_theirs.get(anchor, [])
        if anchor is not None and is_item(anchor):
            items, more = list(takewhile(is_item, left)), list(takewhile(is_item, right))
            out += [*items, *more]
            left, right = left[len(items) :], right[len(more) :]
        out += [*left, *right]
    return out


def _followers(side: Sequence[_T], both: set[_T]) -> dict[_T | None, list[_T]]:
    """Return what only one side has, by the last thing before it that both have."""
    found: dict[_T | None, list[_T]] = {}
    anchor: _T | None = None
    for one in side:
        if one in both:
            anchor = one
        else:
            found.setdefault(anchor, []).append(one)
    return found


class _Blocks:
    def __init__(self, settle: Settle, findings: MergeFindings) -> None:
        self._settle = settle
        self._findings = findings

    def titled(self, ours: MergeBlock, theirs: MergeBlock) -> list[MergeBlock]:
        """Return two sections that are one, whatever their titles."""
        return self._one(None, ours, theirs)

    def section(self, base: MergeBlock, ours: MergeBlock, theirs: MergeBlock) -> MergeBlock:
        merged = MergeBlock("section", self._heading(base, ours, theirs), level=ours.level)
        merged.inside = self._several(base.inside, ours.inside, theirs.inside)
        merged.sections = self._several(base.sections, ours.sections, theirs.sections)
        return merged

    def _heading(self, base: MergeBlock, ours: MergeBlock, theirs: MergeBlock) -> list[str]:
        lines, agree = pick(base.lines, ours.lines, theirs.lines)
        if not agree and ours.key == theirs.key:
            return ours.lines
        if ours.channel != theirs.channel:  # what one side made private stays so
            lines = ours.lines if ours.channel else theirs.lines
        elif not agree and self._settle == "theirs":
            lines = theirs.lines
        if not agree:
            self._clash("heading")
        return lines

    def _several(
        self, base: Sequence[MergeBlock], ours: Sequence[MergeBlock], theirs: Sequence[MergeBlock]
    ) -> list[MergeBlock]:
        """Return the blocks of one list."""
        began, mine, other = (_keyed(side) for side in (base, ours, theirs))
        ours_of, theirs_of = (_followed(began, side) for side in (mine, other))
        from_ours = {key: was for was, key in ours_of.items()}
        from_theirs = {key: was for was, key in theirs_of.items()}
        made: dict[Key, list[MergeBlock]] = {}
        for was, block in began.items():
            at, to = ours_of.get(was), theirs_of.get(was)
            if at is not None and to is not None:
                made[was] = self._one(block, mine[at], other[to])
            elif at is not None or to is not None:
                left = mine[at] if at is not None else other[to]  # type: ignore[index]
                made[was] = self._against_deletion(block, left)
        for key in (*mine, *other):
            if key in mine and key in other and key not in from_ours and key not in from_theirs:
                made[key] = self._one(None, mine[key], other[key])
            elif key in mine and key not in from_ours:
                made.setdefault(key, [mine[key]])
            elif key in other and key not in from_theirs and key not in mine:
                made.setdefault(key, [other[key]])
        order = in_one_order(
            list(began),
            [name for key in mine if made.get(name := from_ours.get(key, key))],
            [name for key in other if made.get(name := from_theirs.get(key, key))],
            lambda name: made[name][0].kind == "item",
        )
        return _set_apart([block for name in order for block in made[name]])

    def _one(
        self, base: MergeBlock | None, ours: MergeBlock, theirs: MergeBlock
    ) -> list[MergeBlock]:
        """Return two versions of one block as one; or as two, where both are wanted."""
        gap, _ = pick(base.gap if base else [], ours.gap, theirs.gap)
        if base is not None and ours == base:
            merged = theirs
        elif theirs in (ours, base):
            merged = ours
        elif ours.kind == "section":
            merged = self.section(base or _NOTHING, ours, theirs)
        else:
            return self._one_text(base, ours, theirs, gap)
        return [merged.copy(gap, ours.after)]

    def _one_text(
        self, base: MergeBlock | None, ours: MergeBlock, theirs: MergeBlock, gap: list[str]
    ) -> list[MergeBlock]:
        text, agree = _words(base, ours, theirs)
        merged = ours.copy(gap, ours.after)
        merged.inside = self._several(base.inside if base else (), ours.inside, theirs.inside)
        merged.lines = text.split("\n")
        if agree:
            return [merged]
        self._clash("list item" if ours.kind == "item" else "text")
        if self._settle == "ours":
            return [merged]
        other = theirs.copy(theirs.gap, theirs.after)
        other.inside = [] if self._settle == "both" else merged.inside
        if self._settle == "both":
            return [merged, other]
        return [other.copy(gap, ours.after)]

    def _against_deletion(self, base: MergeBlock, left: MergeBlock) -> list[MergeBlock]:
        """Return what stays of a block that one side took out."""
        if left == base:
            return []
        self._findings.kept += 1
        if left.kind == "section" and left.lines == base.lines:
            gone = MergeBlock("section", left.lines, level=left.level)
            kept = self.section(base, left, gone)
            if kept.inside or kept.sections:
                return [kept.copy(left.gap, left.after)]
        return [left]

    def _clash(self, kind: str) -> None:
        self._findings.clashes[kind] = None


def _keyed(blocks: Sequence[MergeBlock]) -> dict[Key, MergeBlock]:
    """Return blocks by what they say; one that stands there twice is two."""
    seen = Counter[tuple[str, ...]]()
    found: dict[Key, MergeBlock] = {}
    for block in blocks:
        key = block.key
        found[key, seen[key]] = block
        seen[key] += 1
    return found


def _followed(base: Mapping[Key, MergeBlock], side: Mapping[Key, MergeBlock]) -> dict[Key, Key]:
    """Return what became of the blocks of `base` on one side: those that are still there."""
    found = {key: key for key in base if key in side}
    if len(found) == len(base) or len(found) == len(side):
        return found
    before, after = list(base), list(side)
    for i, i_end, j, j_end in changed_blocks(before, after):
        gone = [key for key in before[i:i_end] if key not in side]
        new = [key for key in after[j:j_end] if key not in base]
        if gone and new:
            found.update(_edited(base, side, gone, new))
    return found


def _edited(
    base: Mapping[Key, MergeBlock], side: Mapping[Key, MergeBlock], gone: list[Key], new: list[Key]
) -> Iterator[tuple[Key, Key]]:
    """Yield which of the new blocks are old ones that were changed."""
    pairs = sorted(
        (
            (-likeness, i, j)
            for i, was in enumerate(gone)
            for j, now in _near(new, i * len(new) // len(gone))
            if (likeness := _likeness(base[was], side[now])) >= _ALIKE
        ),
    )
    left, free = dict(enumerate(gone)), dict(enumerate(new))
    for _, i, j in pairs:
        if i in left and j in free:
            yield left.pop(i), free.pop(j)
    if len(left) == 1 and free:  # something was put in its place
        (was,), now = left.values(), free[min(free)]
        if base[was].kind == side[now].kind != "section":
            yield was, now


def _near(keys: list[Key], place: int) -> Iterator[tuple[int, Key]]:
    """Yield the keys around a place; not every pair of a long list is compared."""
    first = max(0, place - _NEAR)
    yield from enumerate(keys[first : place + _NEAR], start=first)


def _likeness(one: MergeBlock, other: MergeBlock) -> float:
    """Return how much two blocks are like each other, 0 to 1; 0: one is never made of the other."""
    if one.kind != other.kind or (one.channel and one.channel != other.channel):
        return 0.0
    if one.kind != "section":
        texts = normal(one.words), normal(other.words)
        words = [set(_WORD.findall(text)) for text in texts]
        fewest = min(map(len, words))
        shared = len(words[0] & words[1]) / fewest if fewest else 0.0
        # Whole words in common say more than letters do.
        return (1 + shared) / 2 if shared >= _ALIKE else _ratio(*texts)
    if one.level != other.level:
        return 0.0
    title = _ratio(*(normal(without_mark(block.lines[0])) for block in (one, other)))
    within = [{block.key for depth, block in walk(each) if depth} for each in (one, other)]
    most = max(map(len, within))
    return max(title, len(within[0] & within[1]) / most if most else 0.0)


def without_mark(heading: str) -> str:
    """Return a heading without the comment that keeps its section private."""
    return heading.partition("<!--")[0]


def _ratio(one: str, other: str) -> float:
    matcher = difflib.SequenceMatcher(
        None, one[:_COMPARED_CHARS], other[:_COMPARED_CHARS], autojunk=False
    )
    return matcher.ratio() if matcher.quick_ratio() >= _ALIKE else 0.0


def _words(base: MergeBlock | None, ours: MergeBlock, theirs: MergeBlock) -> tuple[str, bool]:
    """Return the lines of two versions of an item or text as one, and whether both can be had."""
    mark, box, agree = _mark(base, ours, theirs)
    bare = [without_references(block.words) if block else "" for block in (base, ours, theirs)]
    text, same = pick(*bare)
    if base is None or normal(bare[1]) == normal(bare[2]):
        text, same = (text, True) if same else (bare[1], True)
    if not same:
        merged = merge_lines(*(one.encode("utf-8", "surrogatepass") for one in bare))
        text = merged.content.decode("utf-8", "surrogatepass")
        same = not merged.clashes
        text = text if same else bare[1]
    return mark + box + _with_evidence(base, ours, theirs, text), same and agree


def _mark(base: MergeBlock | None, ours: MergeBlock, theirs: MergeBlock) -> tuple[str, str, bool]:
    """Return how an item begins: its mark, its box, and whether both sides agree on that."""
    marks, boxes = zip(*(_begin(block) for block in (base, ours, theirs)), strict=True)
    mark, _ = pick(*marks)
    box, agree = pick(*boxes)
    return mark, box, agree or base is None


def _begin(block: MergeBlock | None) -> tuple[str, str]:
    if block is None:
        return "", ""
    begin = block.lines[0][: block.words_at]
    at = begin.find("[")
    return (begin, "") if at < 0 else (begin[:at], begin[at:])


def _with_evidence(base: MergeBlock | None, ours: MergeBlock, theirs: MergeBlock, text: str) -> str:
    """Return a text with the evidence of both sides, where the first of it stood."""
    began, mine, other = (_evidence(block) if block else set() for block in (base, ours, theirs))
    named = (mine | other) - (began - mine) - (began - other)
    for block, has in ((ours, mine), (theirs, other)):
        if has == named and without_references(block.words) == text:
            return block.words
    if not named:
        return text
    at = next((_place(block) for block in (ours, theirs) if _bare(block) == text), len(text))
    return " ".join((text[:at].rstrip(" \t"), reference(named))) + text[at:]


def _bare(block: MergeBlock) -> str:
    return without_references(block.words)


def _place(block: MergeBlock) -> int:
    """Return where evidence stood in a text, as a place in it without evidence."""
    bare = _bare(block)
    if bare == block.words:
        return len(bare)
    at = next(
        (
            at
            for at, (one, other) in enumerate(zip(bare, block.words, strict=False))
            if one != other
        ),
        len(bare),
    )
    return len(bare[:at].rstrip(" \t"))


def _evidence(block: MergeBlock) -> set[Cited]:
    """Return the turns that a text names, one by one; those of a slip of the pen as one."""
    return {
        turn
        for one in cited(block.words)
        for turn in (
            [one]
            if len(one.ids) <= one.last - one.first
            else [Cited(one.instance, number, number) for number in one.ids]
        )
    }


def _set_apart(blocks: list[MergeBlock]) -> list[MergeBlock]:
    """Return the blocks of a list with the blank lines that now have to be between them."""
    return [
        _with_gap(block, before) for before, block in zip([None, *blocks], blocks, strict=False)
    ]


def _with_gap(block: MergeBlock, before: MergeBlock | None) -> MergeBlock:
    """Return a block as it stands below another one that may not be the one it stood below."""
    after = block.after
    if before is None or (after is not None and before.key == after.key):
        return block
    gap = block.gap
    if block.kind == "text" and not gap:
        gap = [""]
    elif before.kind == block.kind == "item" and (after is None or after.kind != "item"):
        gap = []
    return block if gap == block.gap else block.copy(gap, after)
