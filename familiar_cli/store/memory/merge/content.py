"""Merge two versions of one file: front matter key by key, then the page block by block.

Blocks with the same words are the same, wherever they stand in their list. An addition goes after
the block it followed on its side, ours first; a block removed on one side is gone, unless the other
side changed it. Where both changed a block differently, one version wins and the clash is recorded.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from msgspec import Struct, field

from familiar_cli.base.errors import ConflictError
from familiar_cli.base.markdown import split_lines
from familiar_cli.base.text import bare_lines, changed_blocks, sha256_of, typed
from familiar_cli.base.who.visibility import NOBODY
from familiar_cli.store.memory.merge.blocks import (
    LongLists,
    MergeBlock,
    MergePage,
    merge_lines,
    normal_text,
    parse_blocks,
    reads_back,
    render_blocks,
    walk_sections,
)
from familiar_cli.store.memory.pages import lines as memory_lines
from familiar_cli.store.memory.pages import visible_lines
from familiar_cli.store.memory.pages.front_matter import read_front_matter

if TYPE_CHECKING:
    from familiar_cli.store.memory.store.store import MemoryStore
    from familiar_cli.store.memory.store.transactions import Transaction

Settle = Literal["ours", "theirs", "both"]
"""Which version wins where two differ."""

_ALIKE: Final = 0.5
_COMPARED_CHARS: Final = 400
_NEAR: Final = 4  # blocks searched before and after an expected position
_WORD: Final = re.compile(r"\w+")
_NOTHING: Final = MergeBlock("section")

_T = TypeVar("_T")
Key = tuple[tuple[str, ...], int]


class MergeFindings(Struct):
    """What a merge came across.

    Args:
        clashes: Kinds of places where the versions differ, each once, as keys.
        kept: Number of blocks that one side removed and the other changed.
    """

    clashes: dict[str, None] = field(default_factory=dict)
    kept: int = 0


def pick_side(base: _T, ours: _T, theirs: _T) -> tuple[_T, bool]:
    """Return the version of the only side that changed `base`, else ours; and whether one did."""
    if base == ours:
        return theirs, True
    return ours, theirs in (base, ours)


def merge_sections(
    base: MergeBlock, ours: MergeBlock, theirs: MergeBlock, settle: Settle, findings: MergeFindings
) -> MergeBlock:
    """Merge two versions of a section or of a whole page."""
    blocks = _Blocks(settle, findings)
    if not base.inside and not base.sections and _are_titled(ours, theirs):
        whole = MergeBlock("section", gap=ours.gap)
        whole.sections = blocks.titled(ours.sections[0], theirs.sections[0])
        return whole
    return blocks.section(base, ours, theirs)


def _are_titled(ours: MergeBlock, theirs: MergeBlock) -> bool:
    """Tell whether each page is a single section with its own title."""
    tops = [side.sections[0] for side in (ours, theirs) if len(side.sections) == 1]
    is_all = len(tops) == 2 and not ours.inside and not theirs.inside  # noqa: PLR2004
    return is_all and all(top.level == 1 and not top.channel for top in tops)


def in_one_order(
    base: Sequence[_T],
    ours: Sequence[_T],
    theirs: Sequence[_T],
    is_item: Callable[[_T], bool] = lambda _: False,
) -> list[_T]:
    """Merge two sequences into one order consistent with both sides.

    An addition goes after the item it follows on its side; ours first, but items that continue a
    list before items that end it. A move on one side is applied; if both moved items, our order
    wins.
    """
    both = set(ours) & set(theirs)
    mine, other = ([one for one in side if one in both] for side in (ours, theirs))
    first = [one for one in base if one in both]
    moved = mine != other and [one for one in mine if one in set(first)] == first
    frame = other if moved else mine
    after_ours, after_theirs = (_followers_of(side, both) for side in (ours, theirs))
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


def _followers_of(side: Sequence[_T], both: set[_T]) -> dict[_T | None, list[_T]]:
    """Map the last common entry to the entries that only one side has after it."""
    result: dict[_T | None, list[_T]] = {}
    anchor: _T | None = None
    for one in side:
        if one in both:
            anchor = one
        else:
            result.setdefault(anchor, []).append(one)
    return result


class _Blocks:
    def __init__(self, settle: Settle, findings: MergeFindings) -> None:
        self._settle = settle
        self._findings = findings

    def titled(self, ours: MergeBlock, theirs: MergeBlock) -> list[MergeBlock]:
        """Merge two sections that are the same one, whatever their titles."""
        return self._one(None, ours, theirs)

    def section(self, base: MergeBlock, ours: MergeBlock, theirs: MergeBlock) -> MergeBlock:
        merged = MergeBlock("section", self._heading(base, ours, theirs), level=ours.level)
        merged.inside = self._several(base.inside, ours.inside, theirs.inside)
        merged.sections = self._several(base.sections, ours.sections, theirs.sections)
        return merged

    def _heading(self, base: MergeBlock, ours: MergeBlock, theirs: MergeBlock) -> list[str]:
        lines, agree = pick_side(base.lines, ours.lines, theirs.lines)
        if not agree and ours.key == theirs.key:
            return ours.lines
        if ours.channel != theirs.channel:  # a section made private on one side stays private
            lines = ours.lines if ours.channel else theirs.lines
        elif not agree and self._settle == "theirs":
            lines = theirs.lines
        if not agree:
            self._clash("heading")
        return lines

    def _several(
        self, base: Sequence[MergeBlock], ours: Sequence[MergeBlock], theirs: Sequence[MergeBlock]
    ) -> list[MergeBlock]:
        """Merge the blocks of one list."""
        began, mine, other = (_by_key(side) for side in (base, ours, theirs))
        ours_of, theirs_of = (_follow_blocks(began, side) for side in (mine, other))
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
        """Merge two versions of a block into one, or keep both if both are wanted."""
        gap, _ = pick_side(base.gap if base else [], ours.gap, theirs.gap)
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
        text, agree = _merge_words(base, ours, theirs)
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
        """Return what remains of a block that one side removed."""
        if left == base:
            return []
        self._findings.kept += 1
        if left.kind == "section" and left.lines == base.lines:
            block = MergeBlock("section", left.lines, level=left.level)
            kept = self.section(base, left, block)
            if kept.inside or kept.sections:
                return [kept.copy(left.gap, left.after)]
        return [left]

    def _clash(self, kind: str) -> None:
        self._findings.clashes[kind] = None


def _by_key(blocks: Sequence[MergeBlock]) -> dict[Key, MergeBlock]:
    """Index blocks by key; repeated blocks get separate keys."""
    seen = Counter[tuple[str, ...]]()
    found: dict[Key, MergeBlock] = {}
    for block in blocks:
        key = block.key
        found[key, seen[key]] = block
        seen[key] += 1
    return found


def _follow_blocks(
    base: Mapping[Key, MergeBlock], side: Mapping[Key, MergeBlock]
) -> dict[Key, Key]:
    """Map the blocks of `base` to their successors on one side."""
    result = {key: key for key in base if key in side}
    if len(result) == len(base) or len(result) == len(side):
        return result
    before, after = list(base), list(side)
    for i, i_end, j, j_end in changed_blocks(before, after):
        keys = [key for key in before[i:i_end] if key not in side]
        new = [key for key in after[j:j_end] if key not in base]
        if keys and new:
            result.update(_match_edited(base, side, keys, new))
    return result


def _match_edited(
    base: Mapping[Key, MergeBlock], side: Mapping[Key, MergeBlock], gone: list[Key], new: list[Key]
) -> Iterator[tuple[Key, Key]]:
    """Yield pairs of an old block and the new one it was edited into."""
    pairs = sorted(
        (
            (-likeness, i, j)
            for i, was in enumerate(gone)
            for j, now in _keys_near(new, i * len(new) // len(gone))
            if (likeness := _block_likeness(base[was], side[now])) >= _ALIKE
        )
    )
    left, free = dict(enumerate(gone)), dict(enumerate(new))
    for _, i, j in pairs:
        if i in left and j in free:
            yield left.pop(i), free.pop(j)
    if len(left) == 1 and free:  # replaced in place
        (was,), now = left.values(), free[min(free)]
        if base[was].kind == side[now].kind != "section":
            yield was, now


def _keys_near(keys: list[Key], place: int) -> Iterator[tuple[int, Key]]:
    """Yield keys near a position, so that long lists are not compared pairwise."""
    first = max(0, place - _NEAR)
    yield from enumerate(keys[first : place + _NEAR], start=first)


def _block_likeness(one: MergeBlock, other: MergeBlock) -> float:
    """Return the similarity of two blocks, 0 to 1; 0 if one cannot be an edit of the other."""
    if one.kind != other.kind or (one.channel and one.channel != other.channel):
        return 0.0
    if one.kind != "section":
        texts = normal_text(one.words), normal_text(other.words)
        words = [set(_WORD.findall(text)) for text in texts]
        fewest = min(map(len, words))
        shared = len(words[0] & words[1]) / fewest if fewest else 0.0
        # Common words say more than common letters.
        return (1 + shared) / 2 if shared >= _ALIKE else _letter_ratio(*texts)
    if one.level != other.level:
        return 0.0
    title = _letter_ratio(*(normal_text(without_mark(block.lines[0])) for block in (one, other)))
    within = [{block.key for depth, block in walk_sections(each) if depth} for each in (one, other)]
    most = max(map(len, within))
    return max(title, len(within[0] & within[1]) / most if most else 0.0)


def without_mark(heading: str) -> str:
    """Return a heading without the comment that marks its section as private."""
    return heading.partition("<!--")[0]


def _letter_ratio(one: str, other: str) -> float:
    matcher = difflib.SequenceMatcher(
        None, one[:_COMPARED_CHARS], other[:_COMPARED_CHARS], autojunk=False
    )
    return matcher.ratio() if matcher.quick_ratio() >= _ALIKE else 0.0


def _merge_words(base: MergeBlock | None, ours: MergeBlock, theirs: MergeBlock) -> tuple[str, bool]:
    """Merge the text of two versions of a block; also tell whether both changes fit."""
    mark, box, agree = _merge_marks(base, ours, theirs)
    bare = [_bare_words(block) if block else "" for block in (base, ours, theirs)]
    text, same = pick_side(*bare)
    if base is None or normal_text(bare[1]) == normal_text(bare[2]):
        text, same = (text, True) if same else (bare[1], True)
    if not same:
        merged = merge_lines(*(one.encode("utf-8", "surrogatepass") for one in bare))
        text = merged.content.decode("utf-8", "surrogatepass")
        same = not merged.clashes
        text = text if same else bare[1]
    return mark + box + _with_evidence(base, ours, theirs, text), same and agree


def _merge_marks(
    base: MergeBlock | None, ours: MergeBlock, theirs: MergeBlock
) -> tuple[str, str, bool]:
    """Merge the bullet and checkbox of an item; also tell whether both sides agree."""
    marks, boxes = zip(*(_item_begin(block) for block in (base, ours, theirs)), strict=True)
    mark, _ = pick_side(*marks)
    box, agree = pick_side(*boxes)
    return mark, box, agree or base is None


def _item_begin(block: MergeBlock | None) -> tuple[str, str]:
    if block is None:
        return "", ""
    begin = block.lines[0][: block.words_at]
    at = begin.find("[")
    return (begin, "") if at < 0 else (begin[:at], begin[at:])


def _with_evidence(base: MergeBlock | None, ours: MergeBlock, theirs: MergeBlock, text: str) -> str:
    """Return a text with the evidence of both sides, at the place of the first."""
    began, mine, other = (_cited_turns(block) if block else set() for block in (base, ours, theirs))
    citations = (mine | other) - (began - mine) - (began - other)
    for block, has in ((ours, mine), (theirs, other)):
        if has == citations and _bare_words(block) == text:
            return block.words
    if not citations:
        return text
    at = next(
        (_evidence_place(block) for block in (ours, theirs) if _bare_words(block) == text),
        len(text),
    )
    return " ".join((text[:at].rstrip(" \t"), memory_lines.citation_comment(citations))) + text[at:]


def _bare_words(block: MergeBlock) -> str:
    return memory_lines.without_references(block.words)


def _evidence_place(block: MergeBlock) -> int:
    """Return the position of evidence in a text, as an offset into the text without it."""
    bare = _bare_words(block)
    if bare == block.words:
        return len(bare)
    pairs = enumerate(zip(bare, block.words, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), len(bare))
    return len(bare[:at].rstrip(" \t"))


def _cited_turns(block: MergeBlock) -> set[memory_lines.TurnRange]:
    """Return each turn that a text cites; an implausible range counts as one."""
    return {
        turn
        for one in memory_lines.citations_in(block.words)
        for turn in (
            [one]
            if len(one.ids) <= one.last - one.first
            else [memory_lines.TurnRange(one.instance, number, number) for number in one.ids]
        )
    }


def _set_apart(blocks: list[MergeBlock]) -> list[MergeBlock]:
    """Return the blocks of a list with the blank lines now needed between them."""
    return [
        _with_gap(block, before) for before, block in zip([None, *blocks], blocks, strict=False)
    ]


def _with_gap(block: MergeBlock, before: MergeBlock | None) -> MergeBlock:
    """Return a block with the gap it needs below a possibly different predecessor."""
    after = block.after
    if before is None or (after is not None and before.key == after.key):
        return block
    gap = block.gap
    if block.kind == "text" and not gap:
        gap = [""]
    elif before.kind == block.kind == "item" and (after is None or after.kind != "item"):
        gap = []
    return block if gap == block.gap else block.copy(gap, after)


_FLOW: Final = re.compile(r"([^\n:]*:[ \t]*)\[([^\[\]{}#\n]*)\]([ \t]*\n)")
_SCALAR: Final = re.compile(r"[^\n:]*:[ \t]+([^\n|>\[{&*!][^\n]*)\n")
_ITEM: Final = re.compile(r"[ \t]*-[ \t].*\n")
_SPLIT: Final = re.compile(r"""((?:"[^"]*"|'[^']*'|[^,])+)""")


def merge_front(base: str, ours: str, theirs: str, settle: Settle, findings: MergeFindings) -> str:
    """Merge two versions of a page's front matter, including its delimiters.

    Front matter that is not a list of keys must be equal on both sides, or it is a clash.
    """
    whole, agree = pick_side(base, ours, theirs)
    if agree:
        return whole
    parts = [_front_entries(text) for text in (base, ours, theirs)]
    if any(part is None for part in parts):
        findings.clashes["front matter"] = None
        return theirs if settle == "theirs" else ours
    began, mine, other = (part or {} for part in parts)
    made: dict[str, str] = {}
    for key in {**began, **mine, **other}:
        text = _merge_key(key, [part.get(key) for part in (began, mine, other)], settle, findings)
        if text is not None:
            made[key] = text
    order = in_one_order(
        list(began), [key for key in mine if key in made], [key for key in other if key in made]
    )
    frame = ours or theirs
    first, last = frame.index("\n") + 1, frame.rstrip("\n").rfind("\n") + 1
    return f"{frame[:first]}{''.join(made[key] for key in order)}{frame[last:]}" if made else ""


def _front_entries(front: str) -> dict[str, str] | None:
    """Return the lines of each key, or None if it is not a list of unique keys."""
    if not front:
        return {}
    read = read_front_matter(front)
    if read is None or len({entry.key for entry in read.entries}) != len(read.entries):
        return None
    result, at = dict[str, str](), read.start
    for entry in read.entries:
        if not at <= entry.start <= entry.end or entry.end - 1 >= len(front):
            return None
        result[entry.key] = front[at : entry.end]
        at = entry.end
    rest = front[at : read.end]
    if rest.strip() and not result:
        return None
    if rest:
        result[""] = rest  # comments below the last key
    return result


def _merge_key(
    key: str, versions: Sequence[str | None], settle: Settle, findings: MergeFindings
) -> str | None:
    """Merge the lines of one key; None removes the key."""
    base, ours, theirs = versions
    text, agree = pick_side(base, ours, theirs)
    if agree:
        return text
    if ours is None or theirs is None:
        findings.kept += 1
        return ours or theirs
    merged = _merge_lists(base or "", ours, theirs)
    if merged is not None:
        return merged
    findings.clashes[f"key {key!r}"] = None
    if settle == "both" and (values := _values_of(ours, theirs)):
        return f"{ours.partition(':')[0]}:\n" + "".join(f"  - {value}\n" for value in values)
    return theirs if settle == "theirs" else ours


def _values_of(*versions: str) -> list[str]:
    """Return the values of a key in several versions, each once; empty if one is not a value."""
    items: list[str] = []
    for text in versions:
        if flow := _FLOW.fullmatch(text):
            items += _items_in(flow)
        elif text and _is_block(text):
            items += (line.strip()[1:].strip() for line in bare_lines(text)[1:])
        elif scalar := _SCALAR.fullmatch(text):
            items.append(scalar[1].strip())
        else:
            return []
    return list(dict.fromkeys(items))


def _items_in(flow: re.Match[str]) -> list[str]:
    return [one.strip() for one in _SPLIT.findall(flow[2]) if one.strip()]


def _merge_lists(base: str, ours: str, theirs: str) -> str | None:
    """Merge two versions of a list, or return None if their notations differ."""
    flows = [_FLOW.fullmatch(text) for text in (base, ours, theirs)]
    if flows[1] and flows[2] and (flows[0] or not base):
        began, mine, other = (_items_in(flow) if flow else [] for flow in flows)
        return f"{flows[1][1]}[{', '.join(_merge_items(began, mine, other))}]{flows[1][3]}"
    if not all(_is_block(text) for text in (ours, theirs) if text) or (
        base and not _is_block(base)
    ):
        return None
    began, mine, other = (split_lines(text)[1:] for text in (base, ours, theirs))
    return split_lines(ours)[0] + "".join(_merge_items(began, mine, other))


def _merge_items(base: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> list[str]:
    """Merge two lists: the additions of both sides, without the removals of either."""
    gone = {one for one in base if one not in ours or one not in theirs}
    return in_one_order(
        list(dict.fromkeys(base)),
        [one for one in dict.fromkeys(ours) if one not in gone],
        [one for one in dict.fromkeys(theirs) if one not in gone],
    )


def _is_block(text: str) -> bool:
    first, *items = split_lines(text)
    return first.rstrip().endswith(":") and bool(items) and all(map(_ITEM.fullmatch, items))


_MARKDOWN: Final = frozenset({".md", ".markdown", ".txt"})
WHOLE: Final = "file"
"""Kind of a clash that can only be resolved for the whole file."""


class MergedContent(Struct, frozen=True):
    """A merged file that both sides changed.

    Args:
        content: The changes of both sides, and the winning side's version where they clash.
        clashes: Kinds of clashes, each once; empty if fully merged.
        kept: Number of blocks that one side removed and the other changed.
    """

    content: bytes
    clashes: tuple[str, ...] = ()
    kept: int = 0


def merge_content(
    path: str, base: bytes, ours: bytes, theirs: bytes, settle: Settle = "ours"
) -> MergedContent:
    """Merge two versions of a file.

    Args:
        path: The extension tells whether it is Markdown.
        base: Common base; empty if the file did not exist.
        ours: Version shown first.
        theirs: Other version.
        settle: Which version wins where they differ.
    """
    whole, agree = pick_side(base, ours, theirs)
    if agree:
        return MergedContent(whole)
    either = MergedContent(theirs if settle == "theirs" else ours, (WHOLE,))
    if PurePosixPath(path).suffix.lower() not in _MARKDOWN:
        return either
    try:
        texts = [content.decode("utf-8") for content in (base, ours, theirs)]
        return _merge_text(texts, settle) or either
    except (UnicodeDecodeError, RecursionError):  # not text, or nested a thousand levels deep
        return either


def merge_onto(path: str, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Merge `theirs`, made from `base`, into the current version; None on conflict.

    Removing something that the other side changed is a conflict here, too.
    """
    merged = merge_content(path, base, ours, theirs)
    return None if merged.clashes or merged.kept else merged.content


def stage_merged(
    tx: Transaction, store: MemoryStore, rel_path: str, base: bytes, content: str | bytes
) -> None:
    """Stage new content of a file, merged with changes since its base.

    Args:
        tx: The transaction.
        base: The content that `content` was made from.
        content: New content.

    Raises:
        ConflictError: The same place was changed, or the file was deleted.
    """
    there = store.read_bytes(rel_path) if store.exists(rel_path) else None
    new = content.encode() if isinstance(content, str) else content
    merged = None if there is None else merge_onto(rel_path, base, there, new)
    if merged is None:
        raise ConflictError(
            f"{rel_path!r} has changed since it was read, in the same place; it was not"
            " overwritten",
            hint=f"Read it again: `familiar memory cat {typed(rel_path)}`.",
        )
    tx.write(rel_path, merged, expect=sha256_of(there or b""))


def _merge_text(texts: list[str], settle: Settle) -> MergedContent | None:
    """Merge two versions of a page, or return None if that is not safe."""
    newlines = [_only_newline(text) for text in texts]
    plain = "" not in newlines
    if plain:
        texts = [text.replace("\r\n", "\n") for text in texts]
    lists, findings = LongLists(texts), MergeFindings()
    merged = _merge_pages(lists.texts, settle, findings)
    text = merged and lists.restored(merged)
    if text is None and lists.is_short:
        findings = MergeFindings()
        text = _merge_pages(texts, settle, findings)
    if text is None:
        return None
    if _doubles_lines(text, texts) and (simpler := _merge_as_lines(texts)) is not None:
        text, findings = simpler, MergeFindings()
    newline = pick_side(*newlines)[0] if plain else "\n"
    content = (text if newline == "\n" else text.replace("\n", newline)).encode()
    return MergedContent(content, tuple(findings.clashes), findings.kept)


def _merge_pages(texts: list[str], settle: Settle, findings: MergeFindings) -> str | None:
    base, ours, theirs = map(parse_blocks, texts)
    merged = MergePage(
        merge_sections(base.root, ours.root, theirs.root, settle, findings),
        merge_front(base.front, ours.front, theirs.front, settle, findings),
        pick_side(base.bom, ours.bom, theirs.bom)[0],
        pick_side(base.tail, ours.tail, theirs.tail)[0],
    )
    text = render_blocks(merged)
    return text if _reads_back(merged, text) and not _shows_more(text, texts) else None


def _doubles_lines(text: str, texts: list[str]) -> bool:
    """Tell whether a merge has a line more often than either side.

    It has where one side moved a paragraph below another item, e.g. by putting a line before it.
    """
    ours, theirs, now = (Counter(map(str.strip, one.split("\n"))) for one in (*texts[1:], text))
    del now[""]
    return any(count > max(ours[line], theirs[line]) for line, count in now.items())


def _merge_as_lines(texts: list[str]) -> str | None:
    """Merge two versions line by line; None if they changed the same place."""
    made = merge_lines(*(text.encode() for text in texts))
    text = None if made.clashes else made.content.decode()
    return None if text is None or _shows_more(text, texts) else text


def _only_newline(text: str) -> str:
    """Return the newline used by all lines, or an empty string if they differ."""
    returns = text.count("\r\n")
    if not returns:
        return "\n"
    return "\r\n" if returns == text.count("\n") else ""


def _reads_back(page: MergePage, text: str) -> bool:
    """Tell whether a rendered page parses back into the same blocks."""
    again = parse_blocks(text)
    return again.front == page.front and reads_back(page.root, again.root)


def _shows_more(text: str, texts: list[str]) -> bool:
    """Tell whether a merge exposes a line that one side keeps private.

    What the other side itself states publicly is not private.
    """
    if not any(map(visible_lines.may_hide, texts)):
        return False
    every = [_said_lines(one) for one in texts]
    shown = [_said_lines(visible_lines.visible_in(one, NOBODY)) for one in texts]
    hidden = [here - seen for here, seen in zip(every, shown, strict=True)]
    if not any(hidden):
        return False
    now = _said_lines(visible_lines.visible_in(text, NOBODY))
    said = [seen - shown[0] for seen in shown]
    return bool(now & ((hidden[1] - said[2]) | (hidden[2] - said[1])))


def _said_lines(text: str) -> set[str]:
    return {said for line in text.split("\n") if (said := normal_text(line).lstrip("-*+ "))}
