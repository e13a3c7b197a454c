"""Matching of lorebook keys in a conversation, as SillyTavern does it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.text import one_line
from familiar_cli.base.times.clock import stopwatch_s

if TYPE_CHECKING:
    from familiar_cli.store.memory.pages.lore_settings import LoreSettings

_EXPRESSION: Final = re.compile(r"/(.+?)/([gimsuy]*)", re.DOTALL)
_BARE_SLASH: Final = re.compile(r"(?:^|[^\\])/")
_FLAGS: Final = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL}
_MOST_EXPRESSION_CHARS: Final = 1_000
_EXPRESSION_S: Final = 0.05
_ALL_EXPRESSIONS_S: Final = 0.25  # in one turn
_WORD: Final = re.compile(r"\w+")
_MARK: Final = "\x01"  # before each message


class SlowExpressionError(FamiliarError):
    """A regular expression among the keys of an entry takes too long."""


class Messages:
    """The messages of a conversation, in which keys are looked for.

    Args:
        texts: The messages with their speakers, newest last.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = [text.strip() for text in texts]

    @cache  # noqa: B019  # lives as long as its turn
    def scanned(self, depth: int, place: int) -> str:
        """Return the newest `depth` messages up to the message number `place`."""
        newest_first = reversed(self.texts[max(place - depth, 0) : place])
        return _MARK + f"\n{_MARK}".join(newest_first)

    @cache  # noqa: B019
    def _vocabulary(self, is_case_sensitive: bool) -> tuple[str, dict[str, list[int]]]:  # noqa: FBT001  # cached
        """Return all words, a line each, and the numbers of the messages that have each."""
        result: dict[str, list[int]] = {}
        for number, text in enumerate(self.texts, 1):
            for word in set(_WORD.findall(text if is_case_sensitive else text.lower())):
                result.setdefault(word, []).append(number)
        return "\n".join(["", *result, ""]), result

    @cache  # noqa: B019
    def numbers_with(self, key: str, is_case_sensitive: bool, is_whole_word: bool) -> list[int]:  # noqa: FBT001  # cached
        """Return the numbers of the messages in which a plain key occurs, from 1."""
        key = key if is_case_sensitive else key.lower()
        words = _WORD.findall(key)
        if words != [key]:  # not one word, so the messages with its first word are looked at
            known = self.numbers_with(words[0], is_case_sensitive, False) if words else None  # noqa: FBT003
            texts = self.texts if is_case_sensitive else [text.lower() for text in self.texts]
            among = range(1, len(texts) + 1) if known is None else known
            return [
                n for n in among if _find(texts[n - 1], key, 0, is_whole_word=is_whole_word) >= 0
            ]
        text, numbers = self._vocabulary(is_case_sensitive)
        items, at = set[int](), 0
        while (at := text.find(key, at)) >= 0:
            start, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
            word = text[start:end]
            if _find(word, key, 0, is_whole_word=is_whole_word) >= 0:
                items.update(numbers[word])
            at = end
        return sorted(items)


class KeyMatcher:
    """Tells which keys occur in a conversation.

    Args:
        expand: Expands the macros in a key.
        beside: Returns a text beside the chat, such as `Scenario`.
    """

    def __init__(self, expand: Callable[[str], str], beside: Callable[[str], str]) -> None:
        self.messages = Messages(())
        self._expand = cache(expand)
        self._beside = cache(beside)
        self._slow: set[str] = set()
        self._left_s = _ALL_EXPRESSIONS_S

    def occurs(self, entry: LoreSettings, key: str, place: int) -> bool:
        """Tell whether a key of an entry occurs in what it scans at the message number `place`.

        Raises:
            SlowExpressionError: It is an expression that takes too long.
        """
        if not entry.scan_depth or not (key := self._expand(key)):
            return False
        if place == len(self.messages.texts) or entry.matched or _expression_of(key.strip()):
            return self._matches(entry, key.strip(), self._scanned_text(entry, place))
        numbers = self.numbers(entry, key)
        last = bisect_right(numbers, place)
        return last > 0 and numbers[last - 1] > place - entry.scan_depth

    def numbers(self, entry: LoreSettings, key: str) -> list[int]:
        """Return the numbers of the messages in which a plain key of an entry occurs."""
        flags = entry.is_case_sensitive, entry.is_whole_word
        return self.messages.numbers_with(self._expand(key).strip(), *flags)

    def may_be_named(self, entry: LoreSettings) -> list[int] | None:
        """Return the numbers of the messages that may name an entry; None for any of them."""
        keys = [key for key in map(self._expand, entry.keys) if key.strip()]
        if entry.is_constant or entry.matched or any(_expression_of(k.strip()) for k in keys):
            return None
        return sorted(set().union(*(self.numbers(entry, key) for key in keys)))

    def contradicts(self, entry: LoreSettings) -> bool:
        """Tell whether an entry is forbidden by any key that would show it."""

        def holds(key: str, other: str) -> bool:
            key, other = self._expand(key).strip(), self._expand(other).strip()
            is_plain = not _expression_of(key)
            return key == other or (is_plain and self._matches(entry, other, f"{_MARK}{key}"))

        for key in entry.keys:
            held = [holds(key, other) for other in entry.secondary]
            is_forbidden = any(holds(key, other) for other in entry.exclude_keys)
            is_forbidden |= entry.logic == 2 and any(held)  # noqa: PLR2004  # NOT ANY
            is_forbidden |= entry.logic == 1 and bool(held) and all(held)  # NOT ALL
            if not is_forbidden:
                return False
        return bool(entry.keys)

    def _scanned_text(self, entry: LoreSettings, place: int) -> str:
        more = filter(None, map(self._beside, entry.matched))
        return f"\n{_MARK}".join([self.messages.scanned(entry.scan_depth, place), *more])

    def _matches(self, entry: LoreSettings, key: str, text: str) -> bool:
        expression = _expression_of(key)
        if expression:
            try:
                return self._expression_matches(key, *expression, text)
            except ValueError:  # not valid, so it is plain text
                pass
        if not entry.is_case_sensitive:
            key, text = key.lower(), text.lower()
        return _find(text, key, 0, is_whole_word=entry.is_whole_word) >= 0

    def _expression_matches(self, key: str, pattern: str, flags: str, text: str) -> bool:
        """Tell whether a regular expression matches, within a limit of time.

        Raises:
            SlowExpressionError: It takes too long.
            ValueError: It is not valid.
        """
        import regex  # noqa: PLC0415  # few books have expressions

        too_long = len(pattern) > _MOST_EXPRESSION_CHARS or self._left_s <= 0
        if not too_long and key not in self._slow:
            target = sum(value for letter, value in _FLAGS.items() if letter in flags)
            begin_s = stopwatch_s()
            try:
                compiled = regex.compile(_for_python(pattern), target)
                return compiled.search(text, timeout=_EXPRESSION_S) is not None
            except TimeoutError:
                self._slow.add(key)
            except regex.error as error:
                raise ValueError(str(error)) from error
            finally:
                self._left_s -= stopwatch_s() - begin_s
        raise SlowExpressionError(f"its expression {one_line(key, 60)!r} takes too long")


def _expression_of(key: str) -> tuple[str, str] | None:
    """Return the pattern and the flags of a key that is a JavaScript regular expression."""
    match = _EXPRESSION.fullmatch(key) if key.startswith("/") else None
    if match is None or _BARE_SLASH.search(match[1]):
        return None
    return match[1].replace("\\/", "/", 1), match[2]


def _for_python(pattern: str) -> str:
    """Spell a pattern of JavaScript for Python: ASCII words, and its own empty sets."""
    pattern = pattern.replace("[^]", r"[\s\S]").replace("[]", r"(?!)")
    if pattern.isascii():
        return f"(?a){pattern}"
    return re.sub(r"(\\\\)|(\\[bBwWd])", lambda part: part[1] or f"(?a:{part[2]})", pattern)


def _find(text: str, key: str, at: int, *, is_whole_word: bool) -> int:
    """Return where a plain key occurs, from `at` on; -1 for nowhere."""
    is_free = not is_whole_word or len(key.split()) > 1
    while (at := text.find(key, at)) >= 0:
        end = at + len(key)
        if is_free or not (_is_word(text[at - 1 : at]) or _is_word(text[end : end + 1])):
            break
        at += 1
    return at


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")
