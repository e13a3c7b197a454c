"""The expressions of a lorebook are bounded in time, and read as JavaScript reads them."""

from __future__ import annotations

from time import process_time

import pytest

from familiar_cli.context import lore_keys
from familiar_cli.context.lore_keys import KeyMatcher, Messages, SlowExpressionError
from familiar_cli.store.memory.pages.lore_settings import LoreSettings


def matcher(*texts: str) -> KeyMatcher:
    keys = KeyMatcher(str, str)
    keys.messages = Messages(texts)
    return keys


def test_an_expression_that_takes_too_long_is_tried_once_and_told(monkeypatch) -> None:
    monkeypatch.setattr(lore_keys, "_ALL_EXPRESSIONS_S", 60.0)  # a busy machine spends it waiting
    keys, entry = matcher("a" * 60 + "b"), LoreSettings()
    begin_s = process_time()
    for _ in range(100):
        with pytest.raises(SlowExpressionError, match="takes too long"):
            keys.occurs(entry, "/(?:a|a)+$/", 1)
    assert process_time() - begin_s < 1
    assert keys.occurs(entry, "/A+b/i", 1)


@pytest.mark.parametrize(
    ("key", "text", "occurs"),
    [
        ("/n[^]ght/", "n\nght", True),
        ("/\\bзамок\\b/", "замок", False),  # words of JavaScript are ASCII
        ("/a/b/", "a/b", False),  # no expression, as a slash in it is bare: the key is plain text
        ("/a/b/", "is it /a/b/", True),
        ("/(/", "a (/ b", False),
        ("/(/", "a /(/ b", True),  # not valid, so plain
        ("/night/x", "night", False),
        ("Night", "at night", True),
        ("", "at night", False),
    ],
)
def test_a_key_is_read_as_sillytavern_reads_it(key: str, text: str, *, occurs: bool) -> None:
    assert matcher(text).occurs(LoreSettings(), key, 1) is occurs


@pytest.mark.parametrize(
    ("keys", "secondary", "logic", "contradicts"),
    [
        (("castle",), ("Castle",), 2, True),
        (("/gallows?/i",), ("/gallows?/i", "night"), 2, True),
        (("castle gate", "castle"), ("castle",), 1, True),
        (("castle", "moat"), ("castle",), 2, False),
        (("castle",), ("castle", "night"), 1, False),
        (("castle",), ("castle",), 0, False),
    ],
)
def test_an_entry_may_be_forbidden_by_each_of_its_own_keys(
    keys, secondary, logic, *, contradicts: bool
) -> None:
    entry = LoreSettings(keys=keys, secondary=secondary, logic=logic)
    assert matcher().contradicts(entry) is contradicts


def test_earlier_messages_are_compared_as_the_newest_is() -> None:
    texts = [f"{word} said." for word in ("Castle", "castles", "keep", "the castle", "moat")]
    for words in (LoreSettings(), LoreSettings(is_whole_word=True, is_case_sensitive=True)):
        whole = matcher(*texts)
        for place in range(1, len(texts)):
            newest = matcher(*texts[:place]).occurs(words, "castle", place)
            assert whole.occurs(words, "castle", place) is newest
