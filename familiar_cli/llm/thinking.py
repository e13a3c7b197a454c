"""Separate a model's reasoning from its reply, where the server leaves it in the text.

Models mark their reasoning in different ways. Where the prompt's template ends in the opening mark,
only the closing one arrives, and everything before it is reasoning. Marks in code are text, and so
are those that a story may hold: words such as `<thought>` after its beginning, and a lone closing
mark within a sentence.
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
# Opening marks that also occur in stories, so that they count only at the start of a reply.
_WORDS: Final = frozenset(["<thought>", "<reason>", "<reasoning>"])
_SENTENCE_ENDS: Final = tuple("\n.!?…。！？")
_AFTER_SENTENCE: Final = " \t\"'”’»)]*"
_OPENING: Final = frozenset(opening for opening, _ in _PAIRS)
_CLOSING: Final = dict(_PAIRS)
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
        self._closed_by = ""
        self._nested: set[str] = set()  # closing marks of other ones within the reasoning
        self._opened_late = False  # after text, so it may be text itself
        self._waiting = ""
        self._text: list[str] = []
        self._block: list[str] = []  # the reasoning that is open
        self._thinking: list[str] = []
        self._swallows_space = False
        self._code = _CodeState()
        self._closes_text: set[str] = set()  # closing marks whose opening ones were text

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
        shown, at = list[str](), 0
        for match in _MARK.finditer(text):
            shown.append(self._add(text[at : match.start()]))
            at = match.start()
            if match.end() == len(text) and not self._is_inside:  # what follows is needed, too
                break
            shown.append(self._take_mark(match[0], text[match.end() :][:1]))
            at = match.end()
        end = at + _start_of_mark(text[at:])
        self._waiting = text[end:]
        return "".join((*shown, self._add(text[at:end])))

    def close(self, *, is_whole: bool = True) -> str:
        """End the reply; return what was held back of it.

        Args:
            is_whole: The model ended it. Then reasoning without an end was text, unless the reply
                began with its mark.
        """
        text, self._waiting = self._waiting, ""
        shown = self._take_mark(text, "") if text.lower() in _MARKS else self._add(text)
        if self._is_inside and is_whole and (self._opened_late or not self._opened_by):
            text, self._block = self._opened_by + "".join(self._block), []
            self._is_inside = False
            shown += self._add(text)
        return shown

    def _take_mark(self, mark: str, following: str) -> str:
        opens = mark.lower() in _OPENING
        if self._is_inside:
            if opens:
                self._block.append(mark)
                if self._closed_by:
                    self._nested |= {_CLOSING[mark.lower()]} - {self._closed_by}
            elif mark.lower() in self._nested:
                self._block.append(mark)
                self._nested.remove(mark.lower())
            else:
                self._thinking += [*self._block, "\n"]
                self._block, self._nested = [], set()
                self._is_inside, self._swallows_space = False, True
            return ""
        before = self._end_of_text()
        if self._is_text(mark.lower(), before, following):
            return self._add(mark)
        if opens:
            self._is_inside, self._opened_by = True, mark
            self._closed_by = _CLOSING[mark.lower()]
            self._opened_late = bool(before)
            return ""
        if self._thinking and not before:  # closed twice
            return ""
        self._thinking += [*self._text, "\n"]
        self._text, self._code = [], _CodeState()
        self.has_lone_end, self._swallows_space = bool(before), True
        return mark

    def _is_text(self, mark: str, before: str, following: str) -> bool:
        """Tell whether a mark is part of the reply.

        Args:
            before: The end of the reply before it; empty if that is blank.
            following: The next character; empty at the end.
        """
        if self._code.is_inside:
            return True
        if mark in _OPENING:
            is_text = mark in _WORDS and bool(before)
            self._closes_text |= {_CLOSING[mark]} if is_text else set()
            return is_text
        if mark in self._closes_text or (self._thinking and before):
            return True
        is_quoted = not before[-1:].isalnum() and following.strip() and not following.isalnum()
        follows_sentence = before.rstrip(_AFTER_SENTENCE).endswith(_SENTENCE_ENDS)
        is_within = before and following != "\n" and not follows_sentence
        return bool(is_within and (before[-1:] in {" ", "\t"} or is_quoted))

    def _end_of_text(self) -> str:
        if not any(map(str.strip, self._text)):
            return ""
        end = ""
        for part in reversed(self._text):
            end = part[-_LONGEST:] + end
            if len(end) >= _LONGEST:
                break
        return end[-_LONGEST:]

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
    for match in _STARTS.finditer(text, tail):
        rest = text[match.start() :].lower()
        if any(mark.startswith(rest) for mark in _MARKS):
            return match.start()
    return len(text)
