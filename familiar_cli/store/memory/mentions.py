"""Find the names of people in running text, in any script."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from typing import Final

from msgspec import Struct

from familiar_cli.base.text import fold_kana, fold_letters, fold_word, one_line, without_accents

_AFTER: Final = (
    *("さん", "ちゃん", "くん", "君", "さま", "様", "たん", "先生", "先輩", "殿", "氏"),
    *("-san", "-chan", "-kun", "-sama", "小姐", "女士", "同学"),
    *("선생님", "님", "씨", "군", "양"),
)
_TITLES_BEFORE: Final = (
    *("أبو", "أبي", "أم", "السيد", "السيدة"),
    *("الأستاذ", "الأستاذة", "الدكتور", "الدكتورة"),
)


def without_honorific(name: str) -> str:
    """Return a folded name without its leading or trailing honorific; a lone one is kept."""
    folded = fold_word(one_line(name))
    before, after = _folded_titles()
    if folded.startswith(before):
        return folded.split(" ", 1)[1].strip()
    titles = after if folded.endswith(after) else ()  # none, for most names
    for title in titles:
        if folded.endswith(title) and folded != title:
            return folded[: -len(title)].strip()
    return folded


@cache
def _folded_titles() -> tuple[tuple[str, ...], tuple[str, ...]]:
    before = tuple(f"{fold_word(title)} " for title in _TITLES_BEFORE)
    return before, tuple(map(fold_word, _AFTER))


@cache
def common_words() -> frozenset[str]:
    """Return the words that seldom are names, although some are both, as name keys."""
    from familiar_cli.base import languages  # loaded only for a text with names

    return frozenset(fold_letters(languages.common_words()).split())


BARE: Final = "~"
"""Stands before the key of a name without its accents."""

MOST_CHARS: Final = 20_000  # maximum characters of a text to scan
MOST_WORDS: Final = 8  # maximum words of a name
MOST_NAME_CHARS: Final = 80
MOST_RUN_CHARS: Final = 32  # maximum characters of a name without spaces

_INVISIBLE: Final = "\u00ad\u200b\u200c\u200d\u2060\ufeff"  # ignored inside a word
_JOINERS: Final = "\u200d\ufe0f"
_SENTENCE_ENDS: Final = frozenset('.!?…:;\n\r"“”„«»‹›([{*#>。！？؟।')
_INSIDE_NAMES: Final = frozenset(" \t\u00a0\u3000-‐‑–.'’ʼ・·_&")
_LONGEST_INSIDE: Final = 3
_LONGEST_SHORTENED: Final = 3  # such as `Dr.` or an initial; a stop after more ends a sentence
# Korean attaches particles to a name; maximum length in syllables.
_KOREAN_AFTER: Final = frozenset(
    "은는이가을를의에와과도만아야여님씨랑하게한테께서으로로부터까지처럼군양"
)
_MOST_KOREAN_AFTER: Final = 3
# Arabic and Hebrew attach one-letter words to the front of a name.
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
_NO_KATAKANA: Final = "\u30fb"  # ・ separates names


class NamePrefix(Struct, frozen=True):
    """Maximum length of names with this prefix, in words and in characters without spaces."""

    words: int
    chars: int


class Mention(Struct, frozen=True):
    """A name found in a text: its lookup key and position."""

    key: str
    start: int


class _Word(Struct, frozen=True):
    """A word, and whether its script has no spaces."""

    text: str
    start: int
    runs_on: bool
    before: str  # the text between the previous word and this one
    forms: tuple[str, ...] = ()
    begins_sentence: bool = False

    @property
    def is_called(self) -> bool:
        """Whether it follows an `@` that is not part of an e-mail address."""
        at = self.before[-1:] in {"@", "＠"}
        return at and (len(self.before) > 1 or self.start == 1)

    @property
    def is_capital(self) -> bool:
        """Whether it is capitalized where that is not required; words in all caps do not count."""
        shouted = len(self.text) > 1 and self.text.isupper()
        return self.text[:1].isupper() and not shouted and not self.begins_sentence


@lru_cache(maxsize=16_384)  # the same few names are looked up repeatedly
def key_of(name: str) -> str:
    """Return the lookup key of a name: its folded words, separated by single spaces.

    Words of scripts without spaces are joined. Empty if `name` cannot be a name.
    """
    if name.isascii():
        plain = _ASCII_WORD.findall(name.lower())
        key = " ".join(plain)
        return key if len(plain) <= MOST_WORDS and len(key) <= MOST_NAME_CHARS else ""
    words = _folded_words(name.strip())
    key = fold_kana(_join_spaced(words))
    most = MOST_RUN_CHARS if any(runs_on for _, runs_on in words) else MOST_NAME_CHARS
    return key if len(words) <= MOST_WORDS and len(key) <= most else ""


@lru_cache(maxsize=16_384)
def head_of(key: str) -> tuple[str, NamePrefix]:
    """Return the first characters of a key, and its length."""
    if key.isascii():
        first_word, _, others = key.partition(" ")
        return first_word, NamePrefix(1 + len(others.split()), 0)
    words = _folded_words(key)
    first, runs_on = words[0]
    if runs_on:
        return first[0], NamePrefix(len(words), len(key))
    return first, NamePrefix(len(words), 0)


def find_mentions(
    text: str,
    heads: Callable[[Collection[str]], Mapping[str, NamePrefix]],
    known: Callable[[Collection[str]], Collection[str]],
) -> list[Mention]:
    """Return the names in `text`, in order and without overlaps.

    Args:
        text: Text to scan; only its first `MOST_CHARS` are used.
        heads: Returns which of these heads start a name.
        known: Returns which of these keys are names.
    """
    words = _words_of_text(text[:MOST_CHARS])
    starts = heads({head for word in words for head in _heads_in(word)})
    candidates = [
        found for at in range(len(words)) for found in _find_candidates(words, at, starts)
    ]
    names = known({candidate.key for candidate in candidates})
    return list(_longest_mentions(c for c in candidates if c.key in names and c.counts))


class _Candidate(Struct, frozen=True):
    """A possible name: its range, and whether it would count."""

    key: str
    start: int
    end: int
    counts: bool


def _longest_mentions(candidates: Iterable[_Candidate]) -> Iterator[Mention]:
    end = 0
    for candidate in sorted(candidates, key=lambda c: (c.start, -c.end)):
        if candidate.start >= end:
            yield Mention(candidate.key, candidate.start)
            end = candidate.end


def _heads_in(word: _Word) -> Iterable[str]:
    return fold_kana(word.forms[0]) if word.runs_on else word.forms


def _find_candidates(
    words: list[_Word], at: int, starts: Mapping[str, NamePrefix]
) -> Iterator[_Candidate]:
    word = words[at]
    if word.runs_on:
        yield from _names_within(word, starts)
    for form in word.forms:
        head = starts.get(fold_kana(form[0]) if word.runs_on else form)
        if head:
            yield from _word_windows(words, at, form, head.words)


def _word_windows(words: list[_Word], at: int, first: str, most: int) -> Iterator[_Candidate]:
    """Yield candidate names of whole words starting at the word `at`, matching `first`."""
    word = words[at]
    if not word.runs_on:
        yield _Candidate(first, word.start, _word_end(word), _is_enough(word, first))
    window = [word]
    for following in words[at + 1 : at + min(most, MOST_WORDS)]:
        if not _belongs_to_name(following, window[-1]):
            return
        window.append(following)
        for last in following.forms:
            middle = [(w.forms[0], w.runs_on) for w in window[1:-1]]
            pieces = [(first, word.runs_on), *middle, (last, following.runs_on)]
            yield _Candidate(
                fold_kana(_join_spaced(pieces)), word.start, _word_end(following), counts=True
            )


def _names_within(word: _Word, starts: Mapping[str, NamePrefix]) -> Iterator[_Candidate]:
    """Yield candidate names inside a word of a script without spaces."""
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
    """Tell whether cutting `run` at `at` would split a unit such as a syllable."""
    if not 0 < at < len(run):
        return False
    before, after = run[at - 1], run[at]
    parted = _is_mark(after) or before in _JOINERS or after in _JOINERS
    return parted or (_is_katakana(before) and _is_katakana(after))


def _is_enough(word: _Word, form: str) -> bool:
    """Tell whether a single word is enough to identify a person."""
    if word.is_called:
        return True
    if len(form) == 1 or form.isdecimal():
        return False
    return form not in common_words() or word.is_capital


def _belongs_to_name(word: _Word, last: _Word) -> bool:
    """Tell whether `word` may continue the name that the previous word belongs to."""
    between = word.before
    if len(between) > _LONGEST_INSIDE or not _INSIDE_NAMES.issuperset(between):
        return False
    return "." not in between or between == "." or len(last.text) <= _LONGEST_SHORTENED


def _stamp_words(written: str) -> list[_Word]:
    text = unicodedata.normalize("NFKC", written)
    spans = list(_word_spans(text))
    ends = [0, *(end for _, end, _ in spans)]
    words = [
        _make_word(text[start:end], start, runs_on, text[last:start], is_first=not last)
        for (start, end, runs_on), last in zip(spans, ends, strict=False)
    ]
    return [word for word in words if word.forms[0]]


def _folded_words(written: str) -> list[tuple[str, bool]]:
    """Return the folded words of a name, each with whether its script has no spaces."""
    text = unicodedata.normalize("NFKC", written)
    words = ((_fold_name(text[at:end]), runs_on) for at, end, runs_on in _word_spans(text))
    return [word for word in words if word[0]]


def _make_word(text: str, start: int, runs_on: bool, before: str, *, is_first: bool) -> _Word:  # noqa: FBT001
    folded = _fold_name(text)
    bare = without_accents(folded)
    others = () if bare == folded else (bare,)
    forms = (folded,) if runs_on else (folded, *others, *_without_particles(folded))
    begins = is_first or not _SENTENCE_ENDS.isdisjoint(before)
    return _Word(text, start, runs_on, before, forms, begins)


def _word_spans(text: str) -> Iterator[tuple[int, int, bool]]:
    """Yield the start and end of each word, and whether its script has no spaces."""
    if text.isascii():
        yield from ((*match.span(), False) for match in _ASCII_WORD.finditer(text))
        return
    kinds = [_character_kind(character) for character in text]
    for at, character in enumerate(text):
        if at and (_is_mark(character) or character in _INVISIBLE):
            kinds[at] = kinds[at - 1]  # a combining character belongs to the one before it
    edges = [0, *(at for at in range(1, len(kinds)) if kinds[at] != kinds[at - 1]), len(kinds)]
    for start, end in pairwise(edges):
        if start < len(kinds) and kinds[start]:
            yield start, end, kinds[start] == "r"


@lru_cache(maxsize=8192)
def _character_kind(character: str) -> str:
    """Return `w` for a letter, `r` for one of a script without spaces, else an empty string."""
    if character.isascii():
        return "w" if character.isalnum() or character == "_" else ""
    point = ord(character)
    if any(first <= point <= last for first, last in _WITHOUT_SPACES):
        return "" if character == _NO_KATAKANA else "r"
    if character.isalnum():
        return "w"
    return "r" if _is_sign(character) else ""


@lru_cache(maxsize=8)  # a message is searched for several kinds of names
def _words_of_text(text: str) -> list[_Word]:
    return _merge_spaced(_stamp_words(text))


def _merge_spaced(words: list[_Word]) -> list[_Word]:
    """Return `words`, joining neighbours without spaces that are nevertheless separated by one."""
    made: list[_Word] = []
    for word in words:
        last = made[-1] if made else None
        if last and last.runs_on and word.runs_on and word.before in {" ", "\u3000", "・", "·"}:
            text, forms = last.text + word.before + word.text, (last.forms[0] + word.forms[0],)
            made[-1] = _Word(text, last.start, True, last.before, forms, last.begins_sentence)  # noqa: FBT003
        else:
            made.append(word)
    return made


def _join_spaced(pieces: list[tuple[str, bool]]) -> str:
    made = ""
    run_before = False
    for text, runs_on in pieces:
        made += text if not made or (run_before and runs_on) else f" {text}"
        run_before = runs_on
    return made


def _fold_name(text: str) -> str:
    if "\u200d" in text and _is_sign(text[0]):  # joins several characters into one
        return "\u200d".join(map(fold_letters, text.split("\u200d")))
    return fold_letters(text)


def _without_particles(word: str) -> Iterator[str]:
    """Yield `word` without attached prefixes or particles."""
    if "\uac00" <= word[:1] <= "\ud7a3":
        for end in range(len(word) - 1, max(len(word) - _MOST_KOREAN_AFTER, 2) - 1, -1):
            if word[end] not in _KOREAN_AFTER:
                return
            yield word[:end]
    elif word[:1] in _BEFORE and len(word) > 3:  # noqa: PLR2004  # a shorter one is a word itself
        yield word[1:]


def _word_end(word: _Word) -> int:
    return word.start + len(word.text)


def _is_mark(character: str) -> bool:
    if character < "\u0300":
        return False
    return unicodedata.category(character)[0] == "M" or "\U0001f3fb" <= character <= "\U0001f3ff"


def _is_sign(character: str) -> bool:
    """Tell whether it is an emoji or similar symbol, which some people use as a name."""
    return character[0] > "\u2000" and unicodedata.category(character[0]) == "So"


def _is_katakana(character: str) -> bool:
    return "\u30a1" <= character <= "\u30ff" and character != _NO_KATAKANA
