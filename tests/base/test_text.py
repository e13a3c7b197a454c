"""Small things done to text keep their promises for every text there is."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import UsageError
from familiar_cli.base.text import (
    counted,
    fold,
    fold_all,
    harmless,
    is_visible,
    join_names,
    nearest,
    one_line,
    sha256_of,
    size_words,
    slugify,
    str_or_empty,
    typed,
)
from tests.support.cases import each

anything = st.text(st.characters(), max_size=60)


@given(anything)
def test_harmless_text_holds_no_control_but_tab_and_newline(text) -> None:
    kinds = {unicodedata.category(c) for c in harmless(text) if c not in "\t\n"}
    assert not kinds & {"Cc", "Cs"}


@given(anything)
def test_harmless_text_stays_as_it_is(text) -> None:
    assert harmless(harmless(text)) == harmless(text)


@each("text", ["a", "3", "!", "❤️", "日本", "\u200bZoë", "\U0001fae9"])
def test_a_text_with_one_sign_to_see_is_visible(text) -> None:
    assert is_visible(text)


@each("text", ["", " \n", "\u200b\u200d", "\u2800", "\u3164", "\u202e", "\u0301"])
def test_a_text_of_signs_that_nobody_sees_is_not_visible(text) -> None:
    assert not is_visible(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_letters_digits_signs_and_emoji_pass_unchanged(text) -> None:
    assert harmless(text) == text


@each(
    "text",
    [
        "\x1b[31mred",
        "\x1b]0;title\x07",
        "\x9b2J",
        "a\rb",
        "\x08\x08",
        "\u202eevil",
        "\u2066x\u2069",
    ],
)
def test_what_steers_a_terminal_is_taken_out(text) -> None:
    assert not set(harmless(text)) & set("\x1b\x07\x9b\r\x08\u202e\u2066\u2069")


@given(anything, st.integers(1, 50))
def test_one_line_is_one_line_of_at_most_that_width(text, width) -> None:
    line = one_line(text, width)
    assert len(line) <= width
    assert line.splitlines() in ([line], [])


@given(anything)
def test_a_slug_of_a_slug_is_itself(text) -> None:
    assert slugify(slugify(text)) == slugify(text)


@given(anything)
def test_a_slug_is_letters_and_digits_with_single_dashes_between(text) -> None:
    parts = slugify(text).split("-")
    assert parts == [""] or all(part and "_" not in part for part in parts)
    assert len(slugify(text)) <= 60


@each(
    ("title", "slug"),
    [
        ("Hello, World!", "hello-world"),
        ("  a_b  c ", "a-b-c"),
        ("Zoë", "zoë"),
        ("日本語", "日本語"),
        ("../../etc", "etc"),
        ("!!!", ""),
        ("ＡＢＣ", "abc"),
        ("الخطّ العربي", "الخطّ-العربي"),
        ("हिन्दी", "हिन्दी"),
        ("お茶・抹茶", "お茶・抹茶"),
        ("モカ（猫）", "モカ（猫）"),
        ("Mocha (cat)", "mocha-cat"),
        ("（）", ""),
        ("می‌خواهم", "میخواهم"),
        ("ि", ""),
    ],
)
def test_slugs_of_some_titles(title, slug) -> None:
    assert slugify(title) == slug


def test_a_slug_that_is_cut_leaves_no_letter_without_its_marks() -> None:
    assert slugify("क" * 59 + "कि") == "क" * 59


@given(anything)
def test_case_and_normalisation_do_not_tell_names_apart(text) -> None:
    assert fold(unicodedata.normalize("NFD", text)) == fold(unicodedata.normalize("NFC", text))


@each(("one", "other"), [("STRASSE", "straße"), ("É", "e\u0301"), ("Ａ", "a")])
def test_names_that_a_person_would_call_the_same_fold_to_the_same(one, other) -> None:
    assert fold(one) == fold(other)


def test_the_nearest_name_is_one_of_the_known_or_none() -> None:
    assert nearest("presett", ["model", "preset"]) == "preset"
    assert nearest("qqq", ["model", "preset"]) is None


@given(st.lists(st.text(max_size=8), max_size=8))
def test_many_texts_are_folded_as_each_is(texts) -> None:
    assert fold_all(texts) == [fold(text) for text in texts]


@given(st.text(st.characters(max_codepoint=127)))
def test_plain_letters_are_folded_like_all_others(text) -> None:
    assert fold(text) == fold(f"{text}é")[:-1]


@each(("value", "text"), [("a", "a"), ("", ""), (None, ""), (1, ""), (["a"], "")])
def test_what_is_no_string_is_an_empty_one(value, text) -> None:
    assert str_or_empty(value) == text


def test_a_hash_is_of_the_bytes_that_a_text_becomes() -> None:
    wanted = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_of("abc") == sha256_of(b"abc") == wanted
    assert sha256_of("é") == sha256_of("é".encode()) != sha256_of("e")


@given(anything)
def test_every_text_has_a_hash(text) -> None:
    assert len(sha256_of(text)) == 64


@each(("number", "words"), [(0, "0 files"), (1, "1 file"), (2, "2 files"), (1200, "1,200 files")])
def test_what_is_counted_has_its_number(number: int, words: str) -> None:
    assert counted(number, "file") == words


def test_an_odd_plural_is_given() -> None:
    assert [counted(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]


@each(
    ("word", "posix", "windows"),
    [
        ("people/alice.md", "people/alice.md", "people/alice.md"),
        ("topics/お茶・抹茶.md", "topics/お茶・抹茶.md", "topics/お茶・抹茶.md"),
        ("my notes.md", "'my notes.md'", '"my notes.md"'),
        (
            "/Users/x/Library/Application Support/familiar",
            "'/Users/x/Library/Application Support/familiar'",
            '"/Users/x/Library/Application Support/familiar"',
        ),
        ("Bob's.md", "'Bob'\"'\"'s.md'", '"Bob\'s.md"'),
        ("$HOME", "'$HOME'", '"$HOME"'),
    ],
)
def test_a_path_in_a_hint_can_be_typed(word, posix, windows) -> None:
    assert (typed(word, windows=False), typed(word, windows=True)) == (posix, windows)


def test_nobody_is_compared_with_a_megabyte() -> None:
    assert nearest("x" * 1_000_000, ["x" * 999_999]) is None


def test_an_error_that_echoes_a_megabyte_keeps_its_beginning_and_end() -> None:
    error = UsageError(f"No such person: {'x' * 1_000_000}; nothing was changed", hint="h" * 9_999)
    assert len(str(error)) < 2_100 > len(error.hint)
    assert str(error).startswith("No such person: xxx")
    assert str(error).endswith("xxx; nothing was changed")


@each(("names", "text"), (("a", "a"), ("ab", "a and b"), ("abc", "a, b and c")))
def test_names_are_joined_as_in_a_sentence(names, text) -> None:
    assert join_names(names) == text


def test_sizes_are_for_people() -> None:
    sizes = [size_words(n) for n in (0, 999, 1000, 98_400_000, 2_500_000_000)]
    assert sizes == ["0 B", "999 B", "1.0 KB", "98.4 MB", "2.5 GB"]
