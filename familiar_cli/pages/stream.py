"""Text on a terminal while it streams: sanitised, styled, and wrapped between words."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import tzinfo
from itertools import chain, groupby
from operator import itemgetter
from typing import Final, Self, TextIO

import regex
from msgspec import Struct
from rich.cells import cell_len
from rich.text import Text

from familiar_cli.base.text import harmless, one_line
from familiar_cli.base.times.clock import to_zone
from familiar_cli.base.who.identity import Me
from familiar_cli.pages.terminal import console, plain
from familiar_cli.store.history.rows import Turn, in_pairs

ACTION: Final = "italic"
BOLD: Final = "bold"
QUOTE: Final = "cyan"
CODE: Final = "green"
ITEM: Final = "item"
CITED: Final = "cited"
LINES: Final = frozenset({ITEM, CITED})
"""Styles of whole lines: an item of a list, and a line of somebody else's words."""

BAR: Final = "│"
"""Shown before a line of somebody else's words."""

_QUOTES: Final = {"“": "”", "«": "»", "「": "」", "『": "』", "„": "“"}
_RUNS: Final = "*`_"
_LEADS: Final = "-+>#"
_REPEATED: Final = "-#"  # of these, several may stand together
_FENCE: Final = 3
_RULE: Final = 3  # dashes
_LONGEST_RUN: Final = 8  # longer runs are drawn lines
_DEEPEST_HEADING: Final = 6


class Styler:
    """Styles a text that arrives in pieces of any size.

    Attributes:
        shown: What to show for the part yielded last: the part itself, nothing for a delimiter, a
            bullet or a bar for what begins a line.
    """

    def __init__(self) -> None:
        self.shown = ""
        self._run = ""  # delimiters that may continue
        self._lead = ""  # what may mark the line that it begins
        self._before = "\n"  # the character before them
        self._action = self._bold = ""  # the delimiter that opened it
        self._fenced = self._in_code = self._is_heading = self._on_fence = False
        self._quote = ""  # the closing quotation mark
        self._line = ""  # the style of the whole line
        self._line_has_text = False

    def feed(self, text: str) -> Iterator[tuple[str, str]]:
        """Take more text; yield styled parts."""
        for character in text:
            if self._lead and not (character == self._lead[0] and character in _REPEATED):
                yield from self._end_lead(character)
            if self._run and character != self._run[0]:
                yield from self._end_run(character)
            if self._lead or self._may_lead(character):
                self._lead += character
            elif character in _RUNS:
                self._run += character
            else:
                yield self._plain(character)

    def end(self) -> Iterator[tuple[str, str]]:
        """Yield the rest at the end of the text."""
        if self._lead:
            yield from self._end_lead("\n")
        if self._run:
            yield from self._end_run("\n")

    @property
    def _style(self) -> str:
        if self._fenced or self._in_code:
            return " ".join(filter(None, (self._line, CODE)))
        is_bold = self._bold or self._is_heading
        parts = ((BOLD, is_bold), (ACTION, self._action), (QUOTE, self._quote))
        return " ".join(filter(None, (self._line, *(name for name, holds in parts if holds))))

    def _may_lead(self, character: str) -> bool:
        return character in _LEADS and not (self._line_has_text or self._fenced or self._run)

    def _end_lead(self, after: str) -> Iterator[tuple[str, str]]:
        """Decide whether a line begins with a mark, now that the next character is known."""
        lead, self._lead = self._lead, ""
        self._line_has_text = True
        if lead == ">":
            yield self._begin_line(lead, BAR, CITED)
        elif lead in {"-", "+"} and after == " ":
            yield self._begin_line(lead, "•", ITEM)
        elif lead[0] == "#" and len(lead) <= _DEEPEST_HEADING and after == " ":
            self._is_heading = True
            yield self._begin_line(lead, "", "")
        elif lead[0] == "-" and len(lead) >= _RULE and after == "\n":
            yield self._begin_line(lead, "———", "")
        else:
            for character in lead:
                yield self._plain(character)

    def _begin_line(self, mark: str, text: str, style: str) -> tuple[str, str]:
        self._line, self.shown, self._before = style, text, mark[-1]
        return mark, self._style

    def _plain(self, character: str) -> tuple[str, str]:
        """Style one character that is not part of a run of delimiters."""
        self.shown, previous, self._before = character, self._before, character
        if character == "\n":
            return character, self._end_line()
        if self._on_fence or (self._is_heading and previous == "#"):
            self.shown = ""  # the language of a block of code; the space of a heading
            return character, self._style
        before, self._line_has_text = self._style, self._line_has_text or not character.isspace()
        if self._fenced or self._in_code:
            return character, before
        if self._quote and character == self._quote:
            self._quote = ""
            return character, before
        if not self._quote and character in _QUOTES:
            self._quote = _QUOTES[character]
        elif not self._quote and character == '"' and not previous.isalnum():
            self._quote = '"'
        return character, self._style

    def _end_line(self) -> str:
        """Close what ends with a line or a paragraph; return the style of the line's end."""
        line, self._line = self._line, ""
        self._quote, self._in_code, self._is_heading = "", False, False
        if self._on_fence:
            self.shown, self._on_fence = "", False
        elif not self._line_has_text:
            self._action = self._bold = ""
        self._line_has_text = False
        return line

    def _end_run(self, after: str) -> Iterator[tuple[str, str]]:
        """Decide what a run of delimiters means, now that the next character is known."""
        run, self._run = self._run, ""
        if run == "*" and after == " " and not (self._line_has_text or self._fenced):
            self._line_has_text = True
            yield self._begin_line(run, "•", ITEM)
            return
        before, self._before = self._before, run[-1]
        style = self._style
        if run[0] == "`":
            self._code(len(run))
        elif len(run) < _LONGEST_RUN and not (self._fenced or self._in_code):
            self._emphasis(run, before, after)
        self._line_has_text = True
        self.shown = "" if style != self._style or self._on_fence else run
        yield run, _delimiter_style(style, self._style)

    def _code(self, count: int) -> None:
        if count >= _FENCE:
            if not self._line_has_text:
                self._fenced, self._on_fence = not self._fenced, True
        elif not self._fenced:
            self._in_code = not self._in_code if count == 1 else self._in_code

    def _emphasis(self, run: str, before: str, after: str) -> None:
        """Open or close actions and bold; a star between two letters only closes."""
        sign, count = run[0], len(run)
        opens = not (after.isspace() or (before.isalnum() and (sign == "_" or after.isalnum())))
        closes = not (before.isspace() or (sign == "_" and after.isalnum()))
        if count in {1, 3}:
            self._action = self._toggle_sign(self._action, sign, opens=opens, closes=closes)
        if count in {2, 3}:
            self._bold = self._toggle_sign(self._bold, sign, opens=opens, closes=closes)

    @staticmethod
    def _toggle_sign(held: str, sign: str, *, opens: bool, closes: bool) -> str:
        if held:
            return "" if closes and held == sign else held
        return sign if opens else ""


def _delimiter_style(before: str, after: str) -> str:
    """Return the style of a delimiter: that of what it encloses."""
    return after if len(after) > len(before) else before


def shown_runs(styler: Styler, parts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield what is shown of a styler's parts, those of one style together."""
    shown = ((styler.shown, style) for _, style in parts)
    for style, alike in groupby(shown, key=itemgetter(1)):
        if text := "".join(piece for piece, _ in alike):
            yield text, style


def spoken_runs(text: str) -> Iterator[tuple[str, str]]:
    """Yield the styled runs of a whole text."""
    styler = Styler()
    return shown_runs(styler, chain(styler.feed(text), styler.end()))


def spoken_text(text: str) -> str:
    """Return a text without its marks."""
    return "".join(run for run, _ in spoken_runs(text))


_CLUSTERS: Final = regex.compile(r"\X")
_MOST_CLUSTER_CHARS: Final = 64  # more marks than any script uses
_TAB: Final = "    "
_SPACES: Final = frozenset(" \t")
_LINE_ENDS: Final = frozenset("\u2028\u2029")
_DASHES: Final = frozenset("-\u2013\u2014")
# Characters that must not begin or end a line in Chinese and Japanese.
_CLINGS_BACK: Final = frozenset(
    "、。，．・：；？！ー々ゝゞヽヾぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮヵヶ〜…‥）」』】〕〉》〗”’"
    "!),.:;?]}\"'*_`%»"
)
_CLINGS_ON: Final = frozenset("（「『【〔〈《〖“‘([{«*\"'`_")


class StyledText(Struct, frozen=True):
    """A styled part of the text.

    Args:
        text: The original text; all parts joined give the input.
        shown: What the terminal gets: a newline in place of the spaces before a word that does not
            fit, nothing in place of spaces that do not fit.
    """

    text: str
    shown: str
    style: str = ""


class _Cluster(Struct, frozen=True):
    text: str
    style: str
    cells: int


class Wrapper:
    """Wraps text that arrives in pieces.

    Args:
        width: Returns the cells in a line, >= 2; called before each word, since a person may resize
            the terminal.
        column: Cells already used in the first line.
    """

    def __init__(self, width: Callable[[], int], column: int = 0) -> None:
        self._width = width
        self._column = column
        self._tail, self._tail_style = "", ""
        self._word: list[_Cluster] = []
        self._word_cells = 0
        self._spaces: list[_Cluster] = []

    def feed(self, text: str, style: str = "") -> Iterator[StyledText]:
        """Take more text and yield what can be shown by now."""
        if not text:
            return
        *whole, last = _split_clusters(self._tail + text)
        styles = self._tail_style if self._tail else style
        for cluster in whole:
            yield from self._add(cluster, styles)
            styles = style
        self._tail, self._tail_style = last, styles
        if last[0] in _SPACES:  # a mark may follow it, but the word before it is complete
            yield from self._end_word()

    def end(self) -> Iterator[StyledText]:
        """Yield the rest at the end of the text."""
        tail, self._tail = self._tail, ""
        if tail:
            yield from self._add(tail, self._tail_style)
        yield from self._end_word()
        yield from self._drop_spaces()

    def _add(self, text: str, style: str) -> Iterator[StyledText]:
        if text in _LINE_ENDS or "\n" in text or "\r" in text:
            yield from self._end_word()
            yield from self._drop_spaces()
            self._column = 0
            yield StyledText(text, "\n", style)
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
        """Tell whether a line may break between two clusters without a space."""
        if after.text in _CLINGS_BACK or before.text in _CLINGS_ON:
            return False
        if before.text in _DASHES:
            return len(self._word) > 1 and after.text.isalpha() and self._word[-2].text.isalnum()
        return before.cells > 1 or after.cells > 1

    def _end_word(self) -> Iterator[StyledText]:
        """Place the word where it fits."""
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
            yield StyledText(cluster.text, cluster.text, cluster.style)

    def _break(self) -> StyledText:
        """Start a new line in place of the pending spaces."""
        text = "".join(space.text for space in self._spaces)
        self._spaces, self._column = [], 0
        return StyledText(text, "\n")

    def _put_spaces(self) -> Iterator[StyledText]:
        for space in self._spaces:
            self._column += space.cells
            yield StyledText(space.text, space.text.replace("\t", _TAB), space.style)
        self._spaces = []

    def _drop_spaces(self) -> Iterator[StyledText]:
        """Drop spaces at the end of a line."""
        if self._spaces:
            yield StyledText("".join(space.text for space in self._spaces), "")
            self._spaces = []


def _split_clusters(text: str) -> list[str]:
    """Split a text into characters with their combining marks, limiting the marks."""
    items = []
    for cluster in _CLUSTERS.findall(text):
        while len(cluster) > _MOST_CLUSTER_CHARS:
            items.append(cluster[:_MOST_CLUSTER_CHARS])
            cluster = cluster[_MOST_CLUSTER_CHARS:]  # noqa: PLW2901
        items.append(cluster)
    return items


_USUAL_COLUMNS: Final = 80
_NAME_CHARS: Final = 40


def columns_of(stream: TextIO) -> int:
    """Return the current width in cells; `COLUMNS` does not follow a resized terminal."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL_COLUMNS
    except (OSError, ValueError):
        return _USUAL_COLUMNS


def print_wrapped(stream: TextIO, text: str, style: str = "") -> None:
    """Print the program's own lines, wrapped between words."""
    wrapper = Wrapper(lambda: columns_of(stream) - 1)
    pieces = (*wrapper.feed(harmless(text.rstrip("\n")) + "\n"), *wrapper.end())
    shown = Text("".join(piece.shown for piece in pieces), style=style)
    console(stream).print(shown, end="", soft_wrap=True)
    stream.flush()


class StreamedText:
    """One text that arrives in pieces; it always ends with a newline.

    Args:
        stream: The terminal.
        speaker: The speaker's name, printed first.
        style: The style of the whole text.
    """

    def __init__(self, stream: TextIO, speaker: str = "", style: str = "") -> None:
        self._stream = stream
        self._console = console(stream)
        self._style = style
        self._styler = Styler()
        self._speaker = f"{one_line(speaker, _NAME_CHARS)}: " if speaker else ""
        # The last column stays free: some terminals wrap when it is filled.
        self._wrapper = Wrapper(lambda: columns_of(stream) - 1, cell_len(self._speaker))
        self._ends_line = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def __call__(self, text: str) -> None:
        """Show a piece."""
        self._show_speaker()
        self._style_parts(self._styler.feed(harmless(text)))
        self._stream.flush()

    def end(self) -> None:
        """Show the rest."""
        self._style_parts(self._styler.end())
        self._show(self._wrapper.end())
        if not self._ends_line:
            self._print("\n", "")
        self._stream.flush()

    def _style_parts(self, parts: Iterable[tuple[str, str]]) -> None:
        for text, style in shown_runs(self._styler, parts):
            names = (name for name in style.split() if name not in LINES)
            self._show(self._wrapper.feed(text, " ".join(names)))

    def _show_speaker(self) -> None:
        if self._speaker:
            self._print(self._speaker, "bold")
            self._speaker = ""

    def _show(self, pieces: Iterable[StyledText]) -> None:
        for style, alike in groupby(pieces, key=lambda piece: piece.style):
            self._print("".join(piece.shown for piece in alike), style)

    def _print(self, shown: str, style: str) -> None:
        if shown:
            self._ends_line = shown.endswith("\n")
            text = Text(shown, style=f"{self._style} {style}".strip(), end="")
            self._console.print(text, end="", soft_wrap=True)


TURNS: Final = 6
"""So many of the latest are shown."""

_LAST_CHARS: Final = 1200  # of each turn in the last exchange
_EARLIER_CHARS: Final = 300


def show_past(turns: Sequence[Turn], name: str, me: Me, zone: tzinfo | None) -> None:
    """Show turns with days and times, dimmed; long ones are truncated.

    Args:
        turns: The turns, oldest first.
        name: The familiar's name.
        me: The person at the terminal.
        zone: The timezone.
    """
    day = ""
    arranged = in_pairs(turns)
    for at, turn in enumerate(arranged, start=1):
        when = to_zone(turn.at, zone)
        if (today := f"{when:%A, }{when.day}{when: %B %Y}") != day:
            day = today
            console(sys.stdout).print(plain(f"— {day} —", "dim"))
        most = _LAST_CHARS if at > len(arranged) - 2 else _EARLIER_CHARS
        with StreamedText(
            sys.stdout, f"{when:%H:%M} {_speaker_name(turn, name, me)}", "dim"
        ) as text:
            text(_cut_words(turn.content, most))


def _speaker_name(turn: Turn, name: str, me: Me) -> str:
    if turn.author is None:
        return name if turn.role == "assistant" else turn.role
    return "You" if me.is_me(turn.author) else me.name_of(turn.author)


def _cut_words(text: str, most: int) -> str:
    """Truncate a text after a word, if it is long."""
    if len(text) <= most:
        return text
    head, _, _ = text[:most].rpartition(" ")
    return f"{(head or text[:most]).rstrip()} …"
