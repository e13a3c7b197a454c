"""Recognise the names and the words of somebody to forget in texts of others.

A name counts wherever it stands as one, whole or as a part (`Zoe's`, `zoes-cat`, `ZoesCat`). One
that is an ordinary word too, such as May, counts only where it is written like a name. Words count
where they are a run that hardly anybody else has used: likeness alone proves nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.text import fold, words_of

TOMBSTONE: Final = "[forgotten]"
"""What stands where words were, in place of a whole turn or of a part of it."""

RUN_WORDS: Final = 4
"""Consecutive words that may be a quotation."""

_WORD: Final = re.compile(r"\w+")
_LEAST_CHARS: Final = 3  # of a name in letters with capitals; a shorter one must have its capital
_LEAST_PART_CHARS: Final = 4
_LEAST_DIGITS: Final = 5  # of an account; a shorter one may be any number
_NEVER: Final = re.compile(r"(?!)")
_POSSESSIVE: Final = re.compile(r"['\u2019]?s")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def runs_of(words: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield all runs of consecutive words that may be a quotation."""
    last = len(words) - RUN_WORDS + 1
    return (tuple(words[at : at + RUN_WORDS]) for at in range(last))


class Loss(Struct, frozen=True):
    """A passage of a text that is to be forgotten; `why` is `name` or `quotation`."""

    start: int
    end: int
    why: str


class NameForms(Struct, frozen=True, dict=True):
    """What somebody is called, in forms by which texts are searched.

    Args:
        whole: Names that are nothing else, folded, as sequences of words.
        parts: Words of longer names, as long as nobody uses them in small letters.
        ordinary: Names that are ordinary words, too, as they are written.
        shared: Names, and words of names, that others have as well.
        numbers: Accounts that may be any number, and count only where they are mentioned.
    """

    whole: frozenset[tuple[str, ...]] = frozenset()
    parts: frozenset[str] = frozenset()
    ordinary: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, names: Iterable[str], taken: Iterable[str] = (), slugs: Iterable[str] = ()
    ) -> NameForms:
        """Sort names by how well they identify somebody.

        Args:
            names: Their names.
            taken: Names of others: neither these nor their words identify anybody.
            slugs: Names of their accounts, which have no parts, even where a page is called so.
        """
        from familiar_cli.store.memory.mentions import common_words  # noqa: PLC0415  # rarely needed

        others = {tuple(words_of(name)) for name in taken}
        known = {word for name in others for word in name}
        accounts = [tuple(words_of(slug)) for slug in slugs]
        whole = set(accounts)
        platforms = {words[0] for words in accounts}
        parts: set[str] = set()
        ordinary: set[str] = set()
        shared: set[str] = set()
        numbers: set[str] = set()
        for name in names:
            words = tuple(words_of(name))
            text = "".join(words)
            if not words or words in whole:
                continue
            if words in others:
                shared.add(name.strip())
            elif text.isdecimal() and len(text) < _LEAST_DIGITS:
                numbers.add(text)
            elif _is_cased(text) and (len(text) < _LEAST_CHARS or text in common_words()):
                ordinary.add(name.strip()[:1].upper() + name.strip()[1:])
            elif len(text) > 1:
                whole.add(words)
            parts.update(
                word
                for word in (words if len(words) > 1 else ())
                if len(word) >= _LEAST_PART_CHARS and word.isalpha()
            )
        parts -= common_words() | platforms
        shared |= parts & known
        plain, bare = frozenset(whole), frozenset(parts - known)
        return cls(plain, bare, frozenset(ordinary), frozenset(shared), frozenset(numbers))

    def without_ordinary(self, text: str) -> NameForms:
        """Return the forms without the parts that a text uses as ordinary words."""
        small = self.parts.intersection(_WORD.findall(text)) if self.parts else ()
        if not small:
            return self
        capital = {word[:1].upper() + word[1:] for word in small if _is_cased(word)}
        return replace(self, parts=self.parts.difference(small), ordinary=self.ordinary | capital)

    def places(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where a text names them."""
        yield from (found.span() for found in self._ordinary_pattern.finditer(text))
        if not self._pattern.search(fold(text)):
            return
        folded, places = _fold_in_place(text)
        match: re.Match[str] | None = self._pattern.search(folded)
        while match:
            start, at = places[match.start()], match.start() + 1
            end = _end_of_name(text, places[match.end()])
            if end and _is_edge(text, start):
                at = match.end()
                yield start, end
            match = self._pattern.search(folded, at)

    def may_be_in(self, text: str) -> bool:
        """Tell whether a text has a word like a name of theirs, whoever is meant."""
        small = {fold(name) for name in self.ordinary}
        names = (word for word in _WORD.findall(text) if not word.islower())
        return (
            any(fold(word) in small for word in names)
            or next(self.places(text), None) is not None
            or (self._namesakes is not None and self._namesakes.may_be_in(text))
        )

    @cached_property
    def _namesakes(self) -> NameForms | None:
        return NameForms.of(self.shared) if self.shared else None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        names = sorted({*self.whole, *((part,) for part in self.parts)}, key=lambda n: (-len(n), n))
        return _any_of(r"[\W_]{0,3}".join(map(re.escape, name)) for name in names)

    @cached_property
    def _ordinary_pattern(self) -> re.Pattern[str]:
        mentions = (rf"<@!?{number}>|(?<!\w)@{number}(?!\w)" for number in sorted(self.numbers))
        ordinary = (
            rf"(?:(?<=[^\W_] )|(?<=[,;(] )|(?<=@)){name}(?![^\W_])"
            rf"|(?<![^\W_]){name}['\u2019]s(?!\w)"
            for name in map(re.escape, sorted(self.ordinary))
        )
        return _any_of((*mentions, *ordinary))


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    joined = "|".join(patterns)
    return re.compile(joined) if joined else _NEVER


def _is_cased(text: str) -> bool:
    return text.lower() != text.upper()


def _is_edge(text: str, at: int) -> bool:
    """Tell whether a name may begin or end at a position: not inside a word."""
    if not 0 < at < len(text):
        return True
    before, after = text[at - 1], text[at]
    if before.isdecimal() and after.isdecimal():
        return False
    if not (before.isalpha() and after.isalpha()):
        return not unicodedata.combining(after)
    is_camel = before.islower() and after.isupper()
    return is_camel or not (_is_cased(before) and _is_cased(after))


def _end_of_name(text: str, at: int) -> int:
    """Return the end of a name, with its possessive; 0 inside a word."""
    after = _POSSESSIVE.match(text, at)
    if after and _is_edge(text, after.end()):
        return after.end()
    return at if _is_edge(text, at) else 0


def _fold_in_place(text: str) -> tuple[str, list[int]]:
    """Return a folded text, and the place in `text` of each of its characters and of its end."""
    if text.isascii():
        return fold(text), list(range(len(text) + 1))
    pieces: list[str] = []
    places: list[int] = []
    start = 0
    for end in range(1, len(text) + 1):
        if end < len(text) and unicodedata.combining(text[end]):
            continue
        pieces.append(fold(text[start:end]))
        places += [start] * len(pieces[-1])
        start = end
    return "".join(pieces), [*places, len(text)]


class Traces(Struct, frozen=True):
    """By what texts are recognised as a forgotten person's.

    Args:
        names: What they are called.
        words: Words that only they used.
        runs: Runs of words from their turns, or from replies to them.
        quotes: Those that they said themselves, and hardly anybody else: not even the familiar.
    """

    names: NameForms = NameForms()
    words: frozenset[str] = frozenset()
    runs: frozenset[tuple[str, ...]] = frozenset()
    quotes: frozenset[tuple[str, ...]] = frozenset()

    def without_name(self, name: str) -> str:
        """Return the name of a file without theirs."""
        whole, dot, ending = name.rpartition(".") if "." in name else (name, "", "")
        stem, end = "", 0
        forms = replace(self.names, ordinary=frozenset())
        for start, stop in forms.places(whole):
            stem, end = stem + whole[end:start], stop
        bare = re.sub(r"([-_ ])[-_ ]+", r"\1", stem + whole[end:]).strip("-_ ")
        if bare == whole.strip("-_ "):
            return name
        if _DATE.fullmatch(bare):
            bare += "_memory"
        return f"{bare if bare.strip('.') else bare + 'memory'}{dot}{ending}"

    def is_named_in(self, text: str) -> bool:
        """Tell whether a text names them."""
        return any(self.names.places(text))

    def is_quoted_in(self, text: str) -> bool:
        """Tell whether a text quotes what they said, or what was said to them."""
        return not self.runs.isdisjoint(runs_of(words_of(text)))

    def are_in(self, text: str) -> bool:
        """Tell whether a text names or quotes them, or has a word that only they used."""
        words = words_of(text)
        is_like = not (self.words.isdisjoint(words) and self.runs.isdisjoint(runs_of(words)))
        return is_like or self.is_named_in(text)

    def losses(self, text: str) -> Iterator[Loss]:
        """Yield, in order and without overlaps, what a reply to somebody else loses."""
        found = [Loss(start, end, "name") for start, end in self.names.places(text)]
        found += self._quotations(text)
        last: Loss | None = None
        for loss in sorted(found, key=lambda one: (one.start, -one.end)):
            if last and loss.start <= last.end:
                why = "quotation" if "quotation" in {last.why, loss.why} else last.why
                last = Loss(last.start, max(last.end, loss.end), why)
            else:
                if last:
                    yield last
                last = loss
        if last:
            yield last

    def _quotations(self, text: str) -> Iterator[Loss]:
        if self.quotes.isdisjoint(runs_of(words_of(text))):
            return
        folded, places = _fold_in_place(text)
        words = list(_WORD.finditer(folded))
        for at, run in enumerate(runs_of([word[0] for word in words])):
            if run in self.quotes:
                last = words[at + RUN_WORDS - 1]
                yield Loss(places[words[at].start()], places[last.end()], "quotation")

    def redacted(self, text: str) -> str:
        """Return a reply to somebody else without the person's name and words."""
        made, end = "", 0
        for loss in self.losses(text):
            made += text[end : loss.start] + TOMBSTONE
            end = loss.end
        return made + text[end:]
