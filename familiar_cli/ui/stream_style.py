"""How a reply is drawn while it comes: *actions*, **bold**, "quotes" and `code`.

The signs stay, so that what is read is what was said; only its style is new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ACTION: Final = "italic"
BOLD: Final = "bold"
QUOTE: Final = "cyan"
CODE: Final = "green"

_QUOTES: Final = {"“": "”", "«": "»", "「": "」", "『": "』", "„": "“"}
_RUNS: Final = "*`"
_FENCE: Final = 3
_LONGEST_RUN: Final = 8  # what is longer is a line that somebody drew


class Styler:
    """Gives each part of a text its style, whatever the pieces are in which it comes."""

    def __init__(self) -> None:
        self._run = ""  # signs of which more may come
        self._before = "\n"  # what stands before them
        self._action = self._bold = self._fenced = self._in_code = False
        self._quote = ""  # what ends the quote
        self._line_has_text = False

    def feed(self, text: str) -> Iterator[tuple[str, str]]:
        """Take more text; yield parts of it, each with its style."""
        for character in text:
            if self._run and character != self._run[0]:
                yield from self._end_run(character)
            if character in _RUNS:
                self._run += character
            else:
                yield self._plain(character)
                self._before = character

    def end(self) -> Iterator[tuple[str, str]]:
        """Yield what is left; the text is whole."""
        if self._run:
            yield from self._end_run("\n")

    @property
    def _style(self) -> str:
        if self._fenced or self._in_code:
            return CODE
        parts = ((BOLD, self._bold), (ACTION, self._action), (QUOTE, bool(self._quote)))
        return " ".join(name for name, holds in parts if holds)

    def _plain(self, character: str) -> tuple[str, str]:
        """Return one character that is no sign of a run, with its style."""
        if character == "\n":
            self._end_line()
            return character, ""
        before, self._line_has_text = self._style, True
        if self._fenced or self._in_code:
            return character, before
        if self._quote and character == self._quote:
            self._quote = ""
            return character, before
        if not self._quote and character in _QUOTES:
            self._quote = _QUOTES[character]
        elif not self._quote and character == '"' and not self._before.isalnum():
            self._quote = '"'
        return character, self._style

    def _end_line(self) -> None:
        """A quote and code end with their line; an action with its paragraph."""
        self._quote, self._in_code = "", False
        if not self._line_has_text:
            self._action = self._bold = False
        self._line_has_text = False

    def _end_run(self, after: str) -> Iterator[tuple[str, str]]:
        """Decide what a run of signs means, now that it is known what follows."""
        run, self._run = self._run, ""
        before, self._before = self._before, run[-1]
        style = self._style
        if run[0] == "`":
            self._code(len(run))
        elif len(run) < _LONGEST_RUN and not (self._fenced or self._in_code):
            self._stars(len(run), opens=not after.isspace(), closes=not before.isspace(),
                        inside=before.isalnum() and after.isalnum())  # fmt: skip
        self._line_has_text = True
        yield run, _both(style, self._style)

    def _code(self, count: int) -> None:
        if count >= _FENCE:
            self._fenced = not self._fenced if not self._line_has_text else self._fenced
        elif not self._fenced:
            self._in_code = not self._in_code if count == 1 else self._in_code

    def _stars(self, count: int, *, opens: bool, closes: bool, inside: bool) -> None:
        """Open or close actions and bold; a star between two letters only closes."""
        if count in {1, 3}:
            self._action = self._turned(self._action, opens=opens and not inside, closes=closes)
        if count in {2, 3}:
            self._bold = self._turned(self._bold, opens=opens and not inside, closes=closes)

    @staticmethod
    def _turned(held: bool, *, opens: bool, closes: bool) -> bool:  # noqa: FBT001
        return not closes if held else opens


def _both(before: str, after: str) -> str:
    """Return the style of a sign: that of what it opens or closes."""
    return after if len(after) > len(before) else before
