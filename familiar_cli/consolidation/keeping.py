"""A file is made again, and what a person did to it stays.

The marks of the blocks that the program wrote last tell what is the person's: what is not among
them was added or changed, and what is missing was taken out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from familiar_cli.consolidation.blocks import Block, blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_START = -1


@dataclass(frozen=True, slots=True)
class Hand:
    """What a person did.

    Args:
        added: Runs of blocks that are theirs, each with the mark before and the mark behind it.
        removed: Marks of the blocks that they took out or changed.
    """

    added: tuple[tuple[str, tuple[Block, ...], str], ...]
    removed: frozenset[str]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks that are theirs."""
        return tuple(block for _, run, _ in self.added for block in run)


def hand_in(body: str, marks: Sequence[str]) -> Hand:
    """Return what a person did to a text since the program wrote blocks with these `marks`."""
    there, _ = blocks(body)
    added = []
    removed: set[str] = set()
    steps = SequenceMatcher(None, list(marks), [b.mark for b in there], autojunk=False)
    for tag, i, j, a, b in steps.get_opcodes():
        if tag == "equal":
            continue
        removed.update(marks[i:j])
        if b > a:
            before = marks[i - 1] if i else ""
            behind = marks[j] if j < len(marks) else ""
            added.append((before, there[a:b], behind))
    # A block that was only moved is theirs now, at the place where they put it.
    return Hand(tuple(added), frozenset(removed))


def made_again(fresh: str, hand: Hand) -> tuple[str, tuple[str, ...]]:
    """Return a new text with what a person did to the old one, and the marks to remember.

    A person's blocks come after the block that they stood below, else before the one that they
    stood above, else at the end. A file that was all theirs comes first, below the title. What they
    removed stays removed, and stays remembered. What they say is not said again; a heading of
    theirs is repeated only where something new stands below it.

    Args:
        fresh: What the program would write.
        hand: What a person did to what it wrote before.
    """
    said = frozenset(block.key for block in hand.blocks)
    made, tail = blocks(fresh)
    own = _new([b for b in made if b.mark not in hand.removed], said)
    text = "".join(b.gap + b.text for b in _spaced(_placed(own, hand))) + tail
    return text, tuple(block.mark for block in made)


def _new(made: Sequence[Block], said: frozenset[str]) -> list[Block]:
    """Return the blocks that say what is not `said`, with the headings that they need."""
    told = [block for block in made if block.key not in said or _is_section(block)]
    below = [*told[1:], None]
    return [
        block
        for block, follows in zip(told, below, strict=True)
        if block.key not in said or (follows is not None and follows.kind != "heading")
    ]


def _is_section(block: Block) -> bool:
    return block.kind == "heading" and not _is_title(block)


def _is_title(block: Block) -> bool:
    return block.text.startswith("# ")


def _placed(own: Sequence[Block], hand: Hand) -> Iterator[Block]:
    marks = [block.mark for block in own]
    has_title = bool(own) and _is_title(own[0])
    after: dict[int, list[Block]] = {}
    end: list[Block] = []
    for before, run, behind in hand.added:
        if before in marks:
            after.setdefault(marks.index(before), []).extend(run)
        elif behind in marks:
            after.setdefault(marks.index(behind) - 1, []).extend(run)
        elif not before and not behind:
            below_title = has_title and not _is_title(run[0])
            after.setdefault(0 if below_title else _START, []).extend(run)
        else:
            end.extend(run)
    yield from after.get(_START, ())
    for at, block in enumerate(own):
        yield block
        yield from after.get(at, ())
    yield from end


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
