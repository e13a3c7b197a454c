"""Find the names of people in running text, in any script, however many people there are.

The text is cut into words; a script without spaces gives one long word, in which a name may begin
anywhere. Names that could begin at a place are known by their *head*: their first word, or in a
script without spaces their first character. Where several names begin, the longest is meant.

A name of one word that is also a common word counts only where it is written like a name: with a
capital where no sentence begins, or after an `@`. See docs/how-to/people.md.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from familiar_cli.folding import fold_kana, fold_letters
from familiar_cli.memory.people.common_words import common_words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

MOST_CHARS: Final = 20_000  # of a text are looked at
MOST_WORDS: Final = 8  # a longer name is none
MOST_NAME_CHARS: Final = 80
MOST_RUN_CHARS: Final = 32  # of a name in a script without spaces

_INVISIBLE: Final = "\u00ad\u200b\u200c\u200d\u2060\ufeff"  # inside a word, they change nothing
_JOINERS: Final = "\u200d\ufe0f"
_SENTENCE_ENDS: Final = frozenset('.!?…:;\n\r"“”„«»‹›([{*#>。！？؟।')
_INSIDE_NAMES: Final = frozenset(" \t\u00a0\u3000-‐‑–.'’ʼ・·_&")
_LONGEST_INSIDE: Final = 3
_LONGEST_SHORTENED: Final = 3  # such as `Dr.` or an initial; a stop after more ends a sentence
# Korean writes what belongs to a name right behind it; so many syllables of these at most.
_KOREAN_AFTER: Final = frozenset(
    "은는이가을를의에와과도만아야여님씨랑하게한테께서으로로부터까지처럼군양"
)
_MOST_KOREAN_AFTER: Final = 3
# Arabic and Hebrew write some words of one letter right before a name.
_BEFORE: Final = frozenset("وفبلكובהלמשכ")
# Scripts without spaces: Thai, Lao; Myanmar; Khmer; kana; Han.
_WITHOUT_SPACES: Final = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x3005, 0x3007),
    (0x3040, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
_ASCII_WORD: Final = re.compile(r"\w+", re.ASCII)
_NO_KATAKANA: Final = "\u30fb"  # ・ parts names


class Head(NamedTuple):
    """How long names that begin with this may be: in words, and in characters without spaces."""

    words: int
    chars: int


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in a text: as it is looked up, and where it stands among the others."""

    key: str
    start: int


@dataclass(frozen=True, slots=True)
class _Word:
    """A word, and whether it belongs to a script without spaces."""

    text: str
    start: int
    runs_on: bool
    before: str  # what stands between the word before and this one
    forms: tuple[str, ...] = ()
    begins_sentence: bool = False

    @property
    def is_called(self) -> bool:
        """It stands after an `@` that is no part of an address."""
        at = self.before[-1:] in {"@", "＠"}
        return at and (len(self.before) > 1 or self.start == 1)

    @property
    def is_capital(self) -> bool:
        """It has a capital where none has to be; words in capitals only are shouted."""
        shouted = len(self.text) > 1 and self.text.isupper()
        return self.text[:1].isupper() and not shouted and not self.begins_sentence


@lru_cache(maxsize=16_384)  # the same few names are asked for again and again
def key_of(name: str) -> str:
    """Return how a name is looked up: its words, folded, with one space between.

    There is none between words of scripts without spaces. Empty when `name` can be no name.
    """
    words = _words(name.strip())
    key = fold_kana(_joined(words))
    most = MOST_RUN_CHARS if any(word.runs_on for word in words) else MOST_NAME_CHARS
    return key if len(words) <= MOST_WORDS and len(key) <= most else ""


@lru_cache(maxsize=16_384)
def head_of(key: str) -> tuple[str, Head]:
    """Return what a key begins with, and its own length."""
    words = _words(key)
    first = words[0]
    if first.runs_on:
        return first.forms[0][0], Head(len(words), len(key))
    return first.forms[0], Head(len(words), 0)


def find_mentions(
    text: str,
    heads: Callable[[Collection[str]], Mapping[str, Head]],
    known: Callable[[Collection[str]], Collection[str]],
) -> list[Mention]:
    """Return the names in `text`, in the order in which they stand; none overlaps another.

    Args:
        text: What was said; its first `MOST_CHARS` are looked at.
        heads: Which of these heads any name has.
        known: Which of these keys are names.
    """
    words = _merged(_words(text[:MOST_CHARS]))
    starts = heads({head for word in words for head in _heads_in(word)})
    candidates = [found for at in range(len(words)) for found in _candidates(words, at, starts)]
    names = known({candidate.key for candidate in candidates})
    return list(_longest(c for c in candidates if c.key in names and c.counts))


@dataclass(frozen=True, slots=True)
class _Candidate:
    """What may be a name: from where to where, and whether it would count."""

    key: str
    start: int
    end: int
    counts: bool = field(compare=False)


def _longest(candidates: Iterable[_Candidate]) -> Iterator[Mention]:
    end = 0
    for found in sorted(candidates, key=lambda c: (c.start, -c.end)):
        if found.start >= end:
            yield Mention(found.key, found.start)
            end = found.end


def _heads_in(word: _Word) -> Iterable[str]:
    return fold_kana(word.forms[0]) if word.runs_on else word.forms


def _candidates(words: list[_Word], at: int, starts: Mapping[str, Head]) -> Iterator[_Candidate]:
    word = words[at]
    if word.runs_on:
        yield from _within(word, starts)
    for form in word.forms:
        head = starts.get(fold_kana(form[0]) if word.runs_on else form)
        if head:
            yield from _windows(words, at, form, head.words)


def _windows(words: list[_Word], at: int, first: str, most: int) -> Iterator[_Candidate]:
    """Yield the names of whole words that may begin at the word `at`, written as `first`."""
    word = words[at]
    if not word.runs_on:
        yield _Candidate(first, word.start, _end(word), _counts(word, first))
    window = [word]
    for following in words[at + 1 : at + min(most, MOST_WORDS)]:
        if not _belongs(following, window[-1]):
            return
        window.append(following)
        for last in following.forms:
            middle = [(w.forms[0], w.runs_on) for w in window[1:-1]]
            pieces = [(first, word.runs_on), *middle, (last, following.runs_on)]
            yield _Candidate(fold_kana(_spaced(pieces)), word.start, _end(following), counts=True)


def _within(word: _Word, starts: Mapping[str, Head]) -> Iterator[_Candidate]:
    """Yield the names that may stand anywhere in a word of a script without spaces."""
    run = word.forms[0]
    for at, first in enumerate(run):
        head = starts.get(fold_kana(first))
        for end in range(at + 1, min(at + head.chars, len(run)) + 1) if head else ():
            key = run[at:end]
            if not (_goes_on(run, at) or _goes_on(run, end)):
                alone = end - at == len(run)
                counts = word.is_called or (
                    key not in common_words() and (len(key) > 1 or alone or _is_sign(key))
                )
                yield _Candidate(fold_kana(key), word.start + at, word.start + end, counts)


def _goes_on(run: str, at: int) -> bool:
    """Return whether cutting `run` at `at` would part what belongs together."""
    if not 0 < at < len(run):
        return False
    before, after = run[at - 1], run[at]
    parted = _is_mark(after) or before in _JOINERS or after in _JOINERS
    return parted or (_is_katakana(before) and _is_katakana(after))


def _counts(word: _Word, form: str) -> bool:
    """Return whether one word alone says that a person is meant."""
    if word.is_called:
        return True
    if len(form) == 1 or form.isdecimal():
        return False
    return form not in common_words() or word.is_capital


def _belongs(word: _Word, last: _Word) -> bool:
    """Return whether `word` may go on a name to which the word before it belongs."""
    between = word.before
    if len(between) > _LONGEST_INSIDE or not _INSIDE_NAMES.issuperset(between):
        return False
    return "." not in between or between == "." or len(last.text) <= _LONGEST_SHORTENED


def _words(written: str) -> list[_Word]:
    text = unicodedata.normalize("NFKC", written)
    spans = list(_spans(text))
    ends = [0, *(end for _, end, _ in spans)]
    made = [
        _word(text[start:end], start, runs_on, text[last:start], is_first=not last)
        for (start, end, runs_on), last in zip(spans, ends, strict=False)
    ]
    return [word for word in made if word.forms[0]]


def _word(text: str, start: int, runs_on: bool, before: str, *, is_first: bool) -> _Word:  # noqa: FBT001
    folded = _folded(text)
    forms = (folded,) if runs_on else (folded, *_without_particles(folded))
    begins = is_first or not _SENTENCE_ENDS.isdisjoint(before)
    return _Word(text, start, runs_on, before, forms, begins)


def _spans(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield where words begin and end, and whether they belong to a script without spaces."""
    if text.isascii():
        yield from ((*found.span(), False) for found in _ASCII_WORD.finditer(text))
        return
    kinds = [_kind(character) for character in text]
    for at, character in enumerate(text):
        if at and (_is_mark(character) or character in _INVISIBLE):
            kinds[at] = kinds[at - 1]  # it belongs to what it stands behind
    edges = [0, *(at for at in range(1, len(kinds)) if kinds[at] != kinds[at - 1]), len(kinds)]
    for start, end in pairwise(edges):
        if start < len(kinds) and kinds[start]:
            yield start, end, kinds[start] == "r"


@lru_cache(maxsize=8192)
def _kind(character: str) -> str:
    """Return `w`: it makes words; `r`: it makes words without spaces; or nothing."""
    if character.isascii():
        return "w" if character.isalnum() or character == "_" else ""
    point = ord(character)
    if any(first <= point <= last for first, last in _WITHOUT_SPACES):
        return "" if character == _NO_KATAKANA else "r"
    if character.isalnum():
        return "w"
    return "r" if _is_sign(character) else ""


def _merged(words: list[_Word]) -> list[_Word]:
    """Return `words`; those without spaces that a space parts all the same are made one."""
    made: list[_Word] = []
    for word in words:
        last = made[-1] if made else None
        if last and last.runs_on and word.runs_on and word.before in {" ", "\u3000", "・", "·"}:
            text, forms = last.text + word.before + word.text, (last.forms[0] + word.forms[0],)
            made[-1] = _Word(text, last.start, True, last.before, forms, last.begins_sentence)  # noqa: FBT003
        else:
            made.append(word)
    return made


def _joined(words: list[_Word]) -> str:
    return _spaced([(word.forms[0], word.runs_on) for word in words])


def _spaced(pieces: list[tuple[str, bool]]) -> str:
    made = ""
    run_before = False
    for text, runs_on in pieces:
        made += text if not made or (run_before and runs_on) else f" {text}"
        run_before = runs_on
    return made


def _folded(text: str) -> str:
    if "\u200d" in text and _is_sign(text[0]):  # it joins several signs to one
        return "\u200d".join(map(fold_letters, text.split("\u200d")))
    return fold_letters(text)


def _without_particles(word: str) -> Iterator[str]:
    """Yield `word` without what some languages write right before or behind a name."""
    if "\uac00" <= word[:1] <= "\ud7a3":
        for end in range(len(word) - 1, max(len(word) - _MOST_KOREAN_AFTER, 2) - 1, -1):
            if word[end] not in _KOREAN_AFTER:
                return
            yield word[:end]
    elif word[:1] in _BEFORE and len(word) > 3:  # noqa: PLR2004  # a shorter one is a word itself
        yield word[1:]


def _end(word: _Word) -> int:
    return word.start + len(word.text)


def _is_mark(character: str) -> bool:
    if character < "\u0300":
        return False
    return unicodedata.category(character)[0] == "M" or "\U0001f3fb" <= character <= "\U0001f3ff"


def _is_sign(character: str) -> bool:
    """Return whether it is an emoji or its like, which some people are called."""
    return character[0] > "\u2000" and unicodedata.category(character[0]) == "So"


def _is_katakana(character: str) -> bool:
    return "\u30a1" <= character <= "\u30ff" and character != _NO_KATAKANA
