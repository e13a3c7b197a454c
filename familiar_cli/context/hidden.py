"""Notes that the familiar may read and nobody else: how they are marked, and kept out of replies.

A model sometimes repeats its prompt. Whatever stands between the marks is taken out of a reply, as
it arrives piece by piece, and also when the mark at the end is missing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

OPEN: Final = "<hidden_note>"
CLOSE: Final = "</hidden_note>"
_MARK: Final = re.compile(r"<\s{0,3}(/?)\s{0,3}hidden[_\s-]?note\s{0,3}>", re.IGNORECASE)
_LONGEST_MARK: Final = 24  # characters: `<   /   hidden_note   >`
_WORD: Final = "hiddennote"
_BETWEEN: Final = re.compile(r"[\s_-]")


def marked(note: str) -> str:
    """Return `note` between the marks; a mark inside it is taken out."""
    return f"{OPEN}\n{_MARK.sub('', note).strip()}\n{CLOSE}"


def without_hidden(text: str) -> str:
    """Return `text` without anything that is marked as hidden."""
    if not _MARK.search(text):
        return text
    shown: list[str] = []
    reply_filter = ReplyFilter(shown.append)
    reply_filter(text)
    reply_filter.close()
    return "".join(shown).strip()


class ReplyFilter:
    """Passes a reply on, piece by piece, without what is marked as hidden.

    Args:
        on_text: Given what may be shown.
    """

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._waiting = ""
        self._hides = False
        self._swallows_space = False

    def __call__(self, piece: str) -> None:
        """Take one piece. What may be the beginning of a mark waits for the next."""
        text = self._waiting + piece
        at = 0
        for mark in _MARK.finditer(text):
            self._show(text[at : mark.start()])
            self._hides, at = not mark[1], mark.end()
            self._swallows_space = True
        rest = text[at:]
        begun = rest.rfind("<")
        waits = begun >= 0 and _may_begin_mark(rest[begun:])
        self._waiting = rest[begun:] if waits else ""
        self._show(rest[:begun] if waits else rest)

    def close(self) -> None:
        """Pass on what still waits; nothing more comes."""
        self._show(self._waiting)
        self._waiting = ""

    def _show(self, text: str) -> None:
        if self._hides:
            return
        shown = text.lstrip() if self._swallows_space else text
        if shown:
            self._swallows_space = False
            self._on_text(shown)


def _may_begin_mark(text: str) -> bool:
    """Return whether `text`, from its `<` on, may go on as a mark."""
    said = _BETWEEN.sub("", text[1:]).removeprefix("/").casefold()
    return len(text) < _LONGEST_MARK and _WORD.startswith(said)
