"""Names are found in every script; common words are no names unless they are written like one."""

from __future__ import annotations

import unicodedata

from hypothesis import assume, given
from hypothesis import strategies as st

from familiar_cli.store.memory.mentions import (
    NamePrefix,
    common_words,
    find_mentions,
    head_of,
    key_of,
)
from tests.support.cases import each


def find(text, *names) -> list[str]:
    keys = {key_of(name) for name in names} - {""}
    heads: dict[str, NamePrefix] = {}
    for key in keys:
        head, longest = head_of(key)
        old = heads.get(head, longest)
        heads[head] = NamePrefix(max(old.words, longest.words), max(old.chars, longest.chars))
    return [
        mention.key
        for mention in find_mentions(
            text, lambda h: {x: heads[x] for x in h if x in heads}, keys.intersection
        )
    ]


@each(
    ("text", "name"),
    [
        ("is anna here", "Anna"),
        ("Zoe\u0308 is here", "Zoë"),
        ("ZOË!", "zoe\u0308"),
        ("昨日アンナと話した", "アンナ"),
        ("山田太郎さんは元気?", "山田太郎"),
        ("山田 太郎", "山田太郎"),
        ("山田太郎", "山田 太郎"),
        ("我昨天见到李小龙了", "李小龙"),
        ("Привет, Анна!", "Анна"),
        ("رأيت أحمد أمس", "أحمد"),
        ("رأيت وأحمد أمس", "أحمد"),
        ("אמרתי לדוד שלום", "דוד"),
        ("지민은 어디 있어?", "지민"),
        ("지민에게서 왔어", "지민"),
        ("สวัสดีสมชายครับ", "สมชาย"),
        ("नमस्ते प्रिया जी", "प्रिया"),
        ("Γειά σου Ελένη", "ΕΛΈΝΗ"),
        ("Ayşe'nin kedisi", "ayşe"),
        ("irem geldi", "İrem"),
        ("ｚｏｅ", "Zoe"),
        ("Straße", "STRASSE"),
        ("hi 🦊!", "🦊"),
        ("猫cat is on", "猫cat"),
        ("Anna's cat", "anna"),
        ("Anna’s cat", "anna"),
        ("O’Brien’s pub", "O'Brien"),
        ("mary-jane came", "Mary Jane"),
        ("Mary Jane came", "mary-jane"),
        ("ask Dr. Who", "dr who"),
        ("J. R. Smith said", "J.R. Smith"),
        ("cool_cat99 said", "cool_cat99"),
        ("hey @anna_b", "Anna_B"),
        ("that was will smith", "Will Smith"),
    ],
)
def test_a_name_is_found(text, name) -> None:
    assert find(text, name) == [key_of(name)]


@each(
    ("text", "name"),
    [
        ("annabel is here", "Anna"),
        ("アンナマリアが来た", "アンナ"),  # another name
        ("森林が好き", "林"),
        ("지민수", "지민"),
        ("👩\u200d🚀 flies", "👩"),
        ("👍🏽", "👍"),
        ("I met Anna. Bell rang.", "Anna Bell"),
        ("anna, bell", "Anna Bell"),
        ("room 42", "42"),
        ("plan B", "b"),
        ("", "Anna"),
        ("...", "Anna"),
    ],
)
def test_what_is_no_name_is_not_found(text, name) -> None:
    assert find(text, name) == []


@each(
    "text",
    [
        "I will go",
        "Will you go?",
        "Yes. Will you?",
        "«Will you?» she said",
        "She said: Will you?",
        "- Will you?",
        "one\nWill two",
        "WILL YOU GO",
        "write to me@will.com",
    ],
)
def test_a_common_word_does_not_fire(text) -> None:
    assert find(text, "Will") == []


@each("text", ["Ask Will.", "is it Will's?", "ask @will", "@will go", "(@will)"])
def test_a_common_word_fires_where_it_is_written_like_a_name(text) -> None:
    assert find(text, "will") == ["will"]


@each("word", "will may mark rose art der les что 我们 これ".split())  # noqa: SIM905
def test_common_words_of_many_languages_are_known(word) -> None:
    assert word in common_words()
    assert find(f"x {word} y", word) == []


def test_the_longest_name_is_meant() -> None:
    assert find("Anna Bell and Anna", "Anna", "Anna Bell", "Bell") == ["anna bell", "anna"]
    assert find("李小龙", "李小", "李小龙") == ["李小龙"]


def test_one_letter_counts_when_it_is_called() -> None:
    assert find("hey @b", "B") == ["b"]
    assert find("林 says", "林") == ["林"]


@each("name", ["", " ", "...", "a b c d e f g h i", "x" * 81, "あ" * 33])
def test_some_texts_can_be_no_name(name) -> None:
    assert key_of(name) == ""


def test_a_long_text_is_read_to_its_limit() -> None:
    assert find("x " * 9_000 + "Anna", "Anna") == ["anna"]
    assert find("x " * 11_000 + "Anna", "Anna") == []


names = st.text(
    st.characters(codec="utf-8", categories=["L", "N", "Mn", "So", "Zs", "Pd", "Po"]), max_size=12
)


@given(names)
def test_a_key_is_the_key_of_itself(name) -> None:
    assert key_of(key_of(name)) == key_of(name)


@given(names.filter(key_of))
def test_every_name_is_found_when_it_is_called(name) -> None:
    key = key_of(name)
    assume(not unicodedata.category(key[0]).startswith("M"))  # a mark joins the @ before it
    assert find(f"hey @{key}", name) == [key]


@given(st.text(max_size=60), st.lists(names, max_size=4))
def test_no_text_is_too_odd(text, known) -> None:
    assert set(find(text, *known)) <= {key_of(name) for name in known}
