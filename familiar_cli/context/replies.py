"""The visible part of a reply as it streams: without hidden notes, truncated, or continued.

Notes for the familiar alone are enclosed in marks. A model sometimes repeats its prompt, so
anything between the marks is removed, even if the end mark is missing.

A model of some hundred million parameters starts well, then repeats itself, draws a rule, or
continues with an invented dialogue. So only the beginning of its reply is shown, in whole
sentences; shown text is never taken back.

When a reply is continued, text that a model repeats from its beginning is removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field

from familiar_cli.base.text import sentence_ends
from familiar_cli.store.fts import is_unspaced

OPEN: Final = "<hidden_note>"
CLOSE: Final = "</hidden_note>"
_MARK: Final = re.compile(r"<\s{0,3}(/?)\s{0,3}hidden[_\s-]?note\s{0,3}>", re.IGNORECASE)
_LONGEST_MARK: Final = 24  # characters: `<   /   hidden_note   >`
_WORD: Final = "hiddennote"
_BETWEEN: Final = re.compile(r"[\s_-]")


def mark_note(note: str) -> str:
    """Enclose `note` in marks, removing any marks inside it."""
    return f"{OPEN}\n{_MARK.sub('', note).strip()}\n{CLOSE}"


def without_hidden(text: str) -> str:
    """Remove hidden notes from `text`."""
    if not _MARK.search(text):
        return text
    shown: list[str] = []
    reply_filter = ReplyFilter(shown.append)
    reply_filter(text)
    reply_filter.close()
    return "".join(shown).strip()


class ReplyFilter:
    """Passes on a streamed reply without hidden notes.

    Args:
        on_text: Called with the visible text.
    """

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._waiting = ""
        self._hides = False
        self._swallows_space = False

    def __call__(self, piece: str) -> None:
        """Take one piece. A possible start of a mark waits for the next piece."""
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
        """Pass on what is still held back at the end."""
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
    """Tell whether `text`, which starts with `<`, may become a mark."""
    said = _BETWEEN.sub("", text[1:]).removeprefix("/").casefold()
    return len(text) < _LONGEST_MARK and _WORD.startswith(said)


MAX_TOKENS: Final = 56
TEMPERATURE: Final = 0.2
SAMPLING: Final[Mapping[str, object]] = {
    "top_p": 0.9,
    "repeat_penalty": 1.0,  # it would make words of the question, and names, unlikely
    "dry_multiplier": 0.8,
    "dry_base": 1.75,
    "dry_allowed_length": 3,
    "dry_penalty_last_n": 28,  # the reply itself, and hardly what memory says in the prompt
    "dry_sequence_breakers": ["\n"],
}
"""As llama.cpp calls them. Chosen by reading: docs/explanation/small-models.md."""

MOST_SENTENCES: Final = 2
ENOUGH_WORDS: Final = 6
"""After a sentence of so many words there is no second one."""

_STOPS: Final = ("\n\n", "\n---", "\n***", "\n#")
_NAMES: Final = ("User", "Assistant", "System")
_REMEMBERS: Final = " remembered"  # what the prompt writes before memory is written again
_NO_WORDS: Final = re.compile(r"[\W_]*\Z")
_RULE: Final = re.compile(r"\s*(?:#|([-*_=])\1{2,}(?:\s|\Z))")
_AROUND_LABEL: Final = 9  # most characters of a label beside its name


class ShortReply(Struct, frozen=True):
    """Options for the reply of a small model.

    Args:
        char: The familiar's name; as a label before its own text it is removed.
        names: Other possible speakers, such as the user; text from their label on is dropped.
        max_tokens: Maximum tokens; None for the model's settings.
        temperature: Sampling temperature; None for the settings.
        sampling: Further parameters, including stops; empty if the server may not know them.
        sentences: Maximum number of sentences shown; 0 for the first paragraph.
    """

    char: str
    names: tuple[str, ...] = ()
    max_tokens: int | None = MAX_TOKENS
    temperature: float | None = TEMPERATURE
    sampling: Mapping[str, object] = field(default_factory=lambda: SAMPLING)
    sentences: int = MOST_SENTENCES

    @property
    def asked(self) -> dict[str, Any]:
        """The arguments for `ChatModel.prepare`."""
        labels = (f"\n{name}:" for name in (*self.names, self.char))
        extra = {**self.sampling, "stop": [*_STOPS, *labels]} if self.sampling else None
        return {"max_tokens": self.max_tokens, "temperature": self.temperature, "extra": extra}

    def shown(self, reply: str, *, is_cut: bool = False) -> tuple[str, bool]:
        """Return the visible part of a complete reply, and whether it is truncated.

        Args:
            reply: The model's text.
            is_cut: It ran out of tokens, so that its last sentence may be incomplete.
        """
        line, is_over = self._first_line(reply)
        is_cut = is_cut and not is_over
        whole = self._visible_part(line, margin=1) if is_cut else self._visible_part(line)
        # Half a sentence, or a label, is better than no reply.
        text = whole or self._visible_part(line) or reply.strip().partition("\n")[0].rstrip()
        return text, is_cut and not whole

    def shown_so_far(self, begun: str) -> str:
        """Return the part of an unfinished reply that is shown however it continues."""
        line, is_over = self._first_line(begun)
        longest = max(map(len, (*self.names, self.char + _REMEMBERS, *_NAMES)))
        return self._visible_part(line, margin=0 if is_over else longest + _AROUND_LABEL)

    def _first_line(self, reply: str) -> tuple[str, bool]:
        """Return the first line with content, up to another speaker's label.

        Returns:
            The line, without the familiar's own label; and whether it is complete.
        """
        lines = reply.split("\n")
        for number, line in enumerate(lines, 1):
            text = self._own_label.sub("", line).strip()
            if not _says_nothing(text):
                return self._other_label.split(text, maxsplit=1)[0].rstrip(), number < len(lines)
        return "", False

    def _visible_part(self, line: str, *, margin: int = 0) -> str:
        """Return the visible sentences of `line`.

        Args:
            margin: Characters that must follow a sentence; 0 if `line` is complete.
        """
        end = 0
        texts: set[str] = set()
        for start, stop in _find_sentences(line, margin):
            words = line[start:stop].casefold().split()
            if " ".join(words) in texts:
                break
            end = stop
            texts.add(" ".join(words))
            if self.sentences and (len(texts) == self.sentences or len(words) >= ENOUGH_WORDS):
                break
        return line[:end].rstrip()

    @property
    def _own_label(self) -> re.Pattern[str]:
        name = re.escape(self.char)
        label = rf"\A\W{{0,4}}{name}(?: remembers| remembered)?[*_ ]{{0,3}}:[*_ ]{{0,3}}"
        return re.compile(label, re.IGNORECASE)

    @property
    def _other_label(self) -> re.Pattern[str]:
        names = "|".join(map(re.escape, (*self.names, self.char, *_NAMES)))
        return re.compile(
            rf"(?:\A|(?<=\s))[*_]{{0,3}}(?:{names})[*_ ]{{0,3}}:(?!\w)", re.IGNORECASE
        )


class ShortReplyFilter:
    """Passes on the part of a streamed reply that will be shown.

    Args:
        style: The options.
        on_text: Called with each visible piece.
    """

    def __init__(self, style: ShortReply, on_text: Callable[[str], None]) -> None:
        self._style = style
        self._on_text = on_text
        self._text = ""
        self._shown = ""

    def __call__(self, piece: str) -> None:
        """Take one piece of the reply."""
        self._text += piece
        self._pass_on(self._style.shown_so_far(self._text))

    def close(self, shown: str) -> None:
        """Pass on what is missing of `shown`, which is all of the reply that is shown."""
        self._pass_on(shown)

    def _pass_on(self, text: str) -> None:
        more = text[len(self._shown) :]
        if more:
            self._shown = text
            self._on_text(more)


def _find_sentences(line: str, margin: int) -> Iterator[tuple[int, int]]:
    """Yield where each sentence of `line` begins and ends, if `margin` characters follow on it."""
    start = 0
    for end in sentence_ends(line):
        if len(line) - end < margin:
            return
        if not _says_nothing(line[start:end]):
            yield start, end
            start = end
    if not margin and not _says_nothing(line[start:]):
        yield start, len(line)


def _says_nothing(line: str) -> bool:
    """Tell whether `line` is blank, a rule or a heading."""
    return bool(_NO_WORDS.match(line) or _RULE.match(line))


_TELLING: Final = 12  # characters; fewer may be a coincidence
_CLOSING: Final = frozenset(".,;:!?…)]}»”’\"'")
_WIDE: Final = frozenset("。！？、，：；…」』）】")


class PartialReply(Struct, frozen=True):
    """A partial reply to be continued.

    Args:
        prefill: The server continues it; otherwise the model is told to.
        exact: The continuation is shown verbatim, so it knows whether it is inside a word.
    """

    text: str
    prefill: bool = False
    exact: bool = False

    def added(self, text: str) -> str:
        """Return the continuation that the model wrote, joined to fit the text."""
        text = self._without_repetition(text)
        if self.exact:
            return text.lstrip() if self._ends_in_space else text
        text = text.lstrip(" ")
        return f" {text}" if text and self._is_spaced_from(text[0]) else text

    def may_repeat(self, text: str) -> bool:
        """Tell whether the model's text so far may be a repetition of the reply."""
        return self._is_telling and self._stripped_text.startswith(text.strip())

    def _is_spaced_from(self, first: str) -> bool:
        if self._ends_in_space or first.isspace() or first in _CLOSING:
            return False
        last = self.text[-1]
        return last not in _WIDE and not (is_unspaced(last) or is_unspaced(first))

    def _without_repetition(self, text: str) -> str:
        said = text.lstrip()
        if self._is_telling and said.startswith(self._stripped_text):
            return said[len(self._stripped_text) :]
        return text

    @property
    def _stripped_text(self) -> str:
        return self.text.strip()

    @property
    def _is_telling(self) -> bool:
        return len(self._stripped_text) >= _TELLING

    @property
    def _ends_in_space(self) -> bool:
        return not self.text or self.text[-1].isspace()


class GoingOn:
    """Passes on the continuation of a reply, without repeated text.

    Args:
        begun: The partial reply.
        on_text: Called with each piece.
    """

    def __init__(self, begun: PartialReply, on_text: Callable[[str], None]) -> None:
        self._begun = begun
        self._on_text = on_text
        self._held: str | None = ""

    def __call__(self, piece: str) -> None:
        """Take one piece."""
        if self._held is None:
            self._on_text(piece)
            return
        self._held += piece
        if self._held.strip() and not self._begun.may_repeat(self._held):
            added = self._begun.added(self._held)
            self._held = None
            if added:
                self._on_text(added)
