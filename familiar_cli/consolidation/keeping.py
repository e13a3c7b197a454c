"""A file is made again, and what a person did to it stays.

The marks of the blocks that the program wrote last tell what is the person's: what is not among
them was added or changed, and what is missing was taken out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import chain
from typing import TYPE_CHECKING

from familiar_cli.consolidation.blocks import Block, blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_START = -1


@dataclass(frozen=True, slots=True)
class Run:
    """Blocks of a person's that stand together.

    Args:
        blocks: What they are.
        before: The mark of the block above them that is not theirs; empty: there is none.
        behind: The mark of the one below them.
        heading: The heading that they stand below, if that is not theirs.
    """

    blocks: tuple[Block, ...]
    before: str
    behind: str
    heading: Block | None = None


@dataclass(frozen=True, slots=True)
class Hand:
    """What a person did.

    Args:
        added: What is theirs.
        removed: Marks of the blocks that they took out or changed.
    """

    added: tuple[Run, ...]
    removed: frozenset[str]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks that are theirs."""
        return tuple(block for run in self.added for block in run.blocks)


def hand_in(body: str, marks: Sequence[str]) -> Hand:
    """Return what a person did to a text since the program wrote blocks with these `marks`."""
    there, _ = blocks(body)
    added: list[Run] = []
    removed: set[str] = set()
    heading: Block | None = None
    steps = SequenceMatcher(None, list(marks), [b.mark for b in there], autojunk=False)
    for tag, i, j, a, b in steps.get_opcodes():
        if tag == "equal":
            heading = next(filter(_is_heading, reversed(there[a:b])), heading)
            continue
        removed.update(marks[i:j])
        if b > a:
            before = marks[i - 1] if i else ""
            behind = marks[j] if j < len(marks) else ""
            above = None if _is_heading(there[a]) else heading
            added.append(Run(there[a:b], before, behind, above))
    # A block that was only moved is theirs now, at the place where they put it.
    return Hand(tuple(added), frozenset(removed))


def made_again(fresh: str, hand: Hand) -> tuple[str, tuple[str, ...]]:
    """Return a new text with what a person did to the old one, and the marks to remember.

    A person's blocks come after the block that they stood below, else before the one that they
    stood above, else at the end. A file that was all theirs comes first, below the title; so does
    what stood in a section that is gone, with the heading. What they removed stays removed, and
    stays remembered. What they say is not said again, and a section of theirs goes on with what is
    new below the same heading.

    Args:
        fresh: What the program would write.
        hand: What a person did to what it wrote before.
    """
    said = {block.key for block in hand.blocks if not _is_section(block)}
    made, tail = blocks(fresh)
    own = [b for b in made if b.mark not in hand.removed and b.key not in said]
    text = "".join(b.gap + b.text for b in _spaced(_joined(_placed(own, hand), hand))) + tail
    return text, tuple(block.mark for block in made)


def _placed(own: Sequence[Block], hand: Hand) -> Iterator[Block]:
    marks = [block.mark for block in own]
    has_title = bool(own) and _is_title(own[0])
    after: dict[int, list[Block]] = {}
    end: list[Block] = []
    repeated: Block | None = None
    for run in hand.added:
        top = 0 if has_title and not _is_title(run.blocks[0]) else _START
        heading = run.heading
        if heading is not None and _is_section(heading) and heading.mark not in marks:
            lead = () if heading is repeated else (heading,)
            after.setdefault(top, []).extend((*lead, *run.blocks))
            repeated = None if any(map(_is_heading, run.blocks)) else heading
        elif run.before in marks:
            after.setdefault(marks.index(run.before), []).extend(run.blocks)
        elif run.behind in marks:
            after.setdefault(marks.index(run.behind) - 1, []).extend(run.blocks)
        elif not run.before and not run.behind:
            after.setdefault(top, []).extend(run.blocks)
        else:
            end.extend(run.blocks)
    yield from after.get(_START, ())
    for at, block in enumerate(own):
        yield block
        yield from after.get(at, ())
    yield from end


def _joined(placed: Iterable[Block], hand: Hand) -> Iterator[Block]:
    """Yield the blocks, but those of a section that a person has, too, at the end of theirs."""
    of_hand = {id(block) for block in hand.blocks}
    sections: list[list[Block]] = [[]]
    theirs: dict[str, list[Block]] = {}
    for block in placed:
        if _is_heading(block):
            sections.append([])
            if id(block) in of_hand and _is_section(block):
                theirs.setdefault(block.key, sections[-1])
        sections[-1].append(block)
    shown: list[list[Block]] = []
    for section in sections:
        same = theirs.get(section[0].key) if section and _is_section(section[0]) else None
        if same is None or id(section[0]) in of_hand:
            shown.append(section)
        else:
            same += section[1:]
    return chain.from_iterable(shown)


def _is_heading(block: Block) -> bool:
    return block.kind == "heading"


def _is_section(block: Block) -> bool:
    return _is_heading(block) and not _is_title(block)


def _is_title(block: Block) -> bool:
    return block.text.startswith("# ")


def _spaced(placed: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks so that none runs into the one above it."""
    above: Block | None = None
    for block in placed:
        gap, text = block.gap, block.text
        if above is None:
            gap = gap if gap.strip("\n\r \t") else ""
        elif not gap and not (above.kind == block.kind == "item"):
            gap = "\n"
        text = text if text.endswith("\n") else text + "\n"
        above = replace(block, gap=gap, text=text)
        yield above
