"""Separate a model's reasoning from its reply, where the server leaves it in the text.

Models mark their reasoning in different ways. Where the prompt's template ends in the opening mark,
only the closing one arrives, and everything before it is reasoning. Marks in code are text.
"""

from __future__ import annotations

import re
from typing import Final

_TAGS: Final = ("think", "thinking", "reason", "reasoning", "thought", "seed:think", "mm:think")
_PAIRS: Final = (
    *((f"<{tag}>", f"</{tag}>") for tag in _TAGS),
    ("[think]", "[/think]"),  # Magistral
    ("◁think▷", "◁/think▷"),  # Kimi
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|start_thinking|>", "<|end_thinking|>"),  # Command A
    ("<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>final<|message|>"),  # gpt-oss
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
)
_OPENING: Final = frozenset(opening for opening, _ in _PAIRS)
_MARKS: Final = _OPENING.union(closing for _, closing in _PAIRS)
_MARK: Final = re.compile(
    "|".join(map(re.escape, sorted(_MARKS, key=len, reverse=True))), re.IGNORECASE
)
_STARTS: Final = re.compile("[" + re.escape("".join({mark[0] for mark in _MARKS})) + "]")
_LONGEST: Final = max(map(len, _MARKS))
_HEAD_CHARS: Final = 8  # of a line, to know a fence


class ThinkingFilter:
    """Passes on a streamed reply without its reasoning.

    What was passed on before a lone closing mark cannot be taken back; the mark is passed on, so
    that `split_thinking` finds the reasoning in it.

    Args:
        begins_inside: Whether the reply begins with reasoning that has no opening mark.

    Attributes:
        has_lone_end: Whether a closing mark came without an opening one.
    """

    def __init__(self, *, begins_inside: bool = False) -> None:
        self.has_lone_end = False
        self._is_inside = begins_inside
        self._opened_by = ""  # the mark; empty if the reply began inside
        self._opened_late = False  # after text, so it may be text itself
        self._waiting = ""
        self._text: list[str] = []
        self._block: list[str] = []  # the reasoning that is open
        self._thinking: list[str] = []
        self._swallows_space = False
        self._code = _CodeState()

    @property
    def text(self) -> str:
        """The reply so far."""
        text = "".join(self._text)
        return text.lstrip() if self._thinking or self._block else text

    @property
    def thinking(self) -> str:
        """The reasoning so far."""
        return "".join((*self._thinking, *self._block)).strip()

    def __call__(self, piece: str) -> str:
        """Take one piece; return what may be shown now."""
        text, self._waiting = self._waiting + piece, ""
        shown: list[str] = []
        at = 0
        for found in _MARK.finditer(text):
            shown += [self._add(text[at : found.start()]), self._take_mark(found[0])]
            at = found.end()
        end = at + _start_of_mark(text[at:])
        self._waiting = text[end:]
        return "".join((*shown, self._add(text[at:end])))

    def close(self, *, is_whole: bool = True) -> str:
        """End the reply; return what was held back of it.

        Args:
            is_whole: The model ended it. Then reasoning without an end was text, unless the reply
                began with its mark.
        """
        shown = self._add(self._waiting)
        self._waiting = ""
        if self._is_inside and is_whole and (self._opened_late or not self._opened_by):
            text, self._block = self._opened_by + "".join(self._block), []
            self._is_inside = False
            shown += self._add(text)
        return shown

    def _take_mark(self, mark: str) -> str:
        opens = mark.lower() in _OPENING
        if self._is_inside:
            if opens:
                self._block.append(mark)
            else:
                self._thinking += [*self._block, "\n"]
                self._block = []
                self._is_inside, self._swallows_space = False, True
            return ""
        if self._code.is_inside:
            return self._add(mark)
        if opens:
            self._is_inside, self._opened_by = True, mark
            self._opened_late = any(map(str.strip, self._text))
            return ""
        self._thinking += [*self._text, "\n"]
        self._text, self._code = [], _CodeState()
        self.has_lone_end = self._swallows_space = True
        return mark

    def _add(self, text: str) -> str:
        """Add text to the reply or to the reasoning; return the former."""
        if self._is_inside:
            self._block += [text] if text else []
            return ""
        if self._swallows_space:
            text = text.lstrip()
        if text:
            self._swallows_space = False
            self._text.append(text)
            self._code.add(text)
        return text


class _CodeState:
    """Tells whether the end of a growing text is inside code."""

    def __init__(self) -> None:
        self._is_fenced = False
        self._head = ""
        self._ticks = 0

    @property
    def is_inside(self) -> bool:
        return self._is_fenced or self._ticks % 2 == 1

    def add(self, text: str) -> None:
        for number, part in enumerate(text.split("\n")):
            if number:
                self._is_fenced ^= self._head.lstrip().startswith(("```", "~~~"))
                self._head, self._ticks = "", 0
            self._head += part[: _HEAD_CHARS - len(self._head)]
            self._ticks += part.count("`")


def split_thinking(text: str, *, is_whole: bool = True) -> tuple[str, str]:
    """Return a reply without its reasoning, and the reasoning.

    Args:
        text: The reply.
        is_whole: The model ended it.
    """
    if not _MARK.search(text):
        return text, ""
    thinking_filter = ThinkingFilter()
    thinking_filter(text)
    thinking_filter.close(is_whole=is_whole)
    return thinking_filter.text, thinking_filter.thinking


def _start_of_mark(text: str) -> int:
    """Return where a mark may begin that is not complete yet; the length of `text` if nowhere."""
    tail = max(len(text) - _LONGEST, 0)
    for found in _STARTS.finditer(text, tail):
        rest = text[found.start() :].lower()
        if any(mark.startswith(rest) for mark in _MARKS):
            return found.start()
    return len(text)
