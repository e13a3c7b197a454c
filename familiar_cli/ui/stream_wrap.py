"""Words wrapped between words while they are still coming; nothing here touches a terminal.

Text is measured in cells of a terminal and is never parted inside a letter with its marks, a flag
or a family of emoji. A word is held back until it is known to be whole, so what comes out is the
same however the text came in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import regex
from rich.cells import cell_len

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CLUSTERS: Final = regex.compile(r"\X")
_MOST_CLUSTER_CHARS: Final = 64  # a letter with more marks than that is no letter
_TAB: Final = "    "
_SPACES: Final = frozenset(" \t")
_LINE_ENDS: Final = frozenset("\u2028\u2029")
_DASHES: Final = frozenset("-\u2013\u2014")
# What may not begin a line in Chinese and Japanese, and what may not end one.
_CLINGS_BACK: Final = frozenset(
    "、。，．・：；？！ー々ゝゞヽヾぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶ〜…‥）」』】〕〉》〗”’"
    "!),.:;?]}\"'*_`%»"
)
_CLINGS_ON: Final = frozenset("（「『【〔〈《〖“‘([{«*\"'`_")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the text, and how it is shown.

    Args:
        text: As it came; all texts, joined, are what came.
        shown: As a terminal is to have it: a line break in place of the spaces before a word that
            has no room, nothing in place of spaces that have none.
        style: The style it came with.
    """

    text: str
    shown: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class _Cluster:
    text: str
    style: str
    cells: int


class Wrapper:
    """Wraps text piece by piece.

    Args:
        width: Tells how many cells a line may have, >= 2; asked before each word, since a person
            may resize the terminal meanwhile.
        column: How many cells of the first line are taken.
    """

    def __init__(self, width: Callable[[], int], column: int = 0) -> None:
        self._width = width
        self._column = column
        self._tail, self._tail_style = "", ""
        self._word: list[_Cluster] = []
        self._word_cells = 0
        self._spaces: list[_Cluster] = []

    def feed(self, text: str, style: str = "") -> Iterator[Piece]:
        """Take more text and yield what can be shown of all that came."""
        if not text:
            return
        *whole, last = _clusters(self._tail + text)
        styles = self._tail_style if self._tail else style
        for cluster in whole:
            yield from self._add(cluster, styles)
            styles = style
        self._tail, self._tail_style = last, styles
        if last[0] in _SPACES:  # a mark may follow it, but the word before it is whole
            yield from self._end_word()

    def end(self) -> Iterator[Piece]:
        """Yield what is left; the text is whole."""
        tail, self._tail = self._tail, ""
        if tail:
            yield from self._add(tail, self._tail_style)
        yield from self._end_word()
        yield from self._drop_spaces()

    def _add(self, text: str, style: str) -> Iterator[Piece]:
        if text in _LINE_ENDS or "\n" in text or "\r" in text:
            yield from self._end_word()
            yield from self._drop_spaces()
            self._column = 0
            yield Piece(text, "\n", style)
        elif text[0] in _SPACES:
            yield from self._end_word()
            self._spaces.append(_Cluster(text, style, cell_len(text.replace("\t", _TAB))))
        else:
            cluster = _Cluster(text, style, cell_len(text))
            if self._word and self._may_part(self._word[-1], cluster):
                yield from self._end_word()
            if self._word_cells + cluster.cells > max(self._width(), 2):
                yield from self._end_word()
            self._word.append(cluster)
            self._word_cells += cluster.cells

    def _may_part(self, before: _Cluster, after: _Cluster) -> bool:
        """Return whether a line may end between two clusters that no space parts."""
        if after.text in _CLINGS_BACK or before.text in _CLINGS_ON:
            return False
        if before.text in _DASHES:
            return len(self._word) > 1 and after.text.isalpha() and self._word[-2].text.isalnum()
        return before.cells > 1 or after.cells > 1

    def _end_word(self) -> Iterator[Piece]:
        """Put the word where it has room."""
        word, self._word = self._word, []
        cells, self._word_cells = self._word_cells, 0
        if not word:
            return
        gap = sum(space.cells for space in self._spaces)
        if self._column + gap + cells > self._width() and (self._column or gap):
            yield self._break()
        else:
            yield from self._put_spaces()
        for cluster in word:
            if self._column and self._column + cluster.cells > self._width():
                yield self._break()
            self._column += cluster.cells
            yield Piece(cluster.text, cluster.text, cluster.style)

    def _break(self) -> Piece:
        """Begin a line in place of the spaces that wait."""
        text = "".join(space.text for space in self._spaces)
        self._spaces, self._column = [], 0
        return Piece(text, "\n")

    def _put_spaces(self) -> Iterator[Piece]:
        for space in self._spaces:
            self._column += space.cells
            yield Piece(space.text, space.text.replace("\t", _TAB), space.style)
        self._spaces = []

    def _drop_spaces(self) -> Iterator[Piece]:
        """Leave out spaces that end a line."""
        if self._spaces:
            yield Piece("".join(space.text for space in self._spaces), "")
            self._spaces = []


def _clusters(text: str) -> list[str]:
    """Return the letters of a text, each with its marks, and none without end."""
    found = []
    for cluster in _CLUSTERS.findall(text):
        while len(cluster) > _MOST_CLUSTER_CHARS:
            found.append(cluster[:_MOST_CLUSTER_CHARS])
            cluster = cluster[_MOST_CLUSTER_CHARS:]  # noqa: PLW2901
        found.append(cluster)
    return found
