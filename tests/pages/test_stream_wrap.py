"""Wrapping while a text comes loses nothing, fits the width, and does not depend on the pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from familiar_cli.pages.stream import StyledText, Wrapper
from tests.support.cases import each

SAMPLES = (
    "a family 👨‍👩‍👧‍👦 of four, a flag 🇩🇪, a hand 👍🏽, a key 1️⃣",
    "日本語の文章は、「とても」長いので、折り返されます。",
    "שלום עולם, זה משפט ארוך שצריך להישבר בין המילים",
    "cafe\u0301 and क्षत्रिय and नमस्ते and ภาษาไทย",
    "https://example.com/a/path/that/never/ends/and/never/will",
    '*She nods.* "Well—then."\n\n    indented   code\twith a tab\n',
)
letters = st.sampled_from(
    [
        "a",
        "é",
        "e\u0301",
        "漢",
        "字",
        "。",
        "「",
        "👨‍👩‍👧",
        "\u200d",
        "🇩",
        "🇪",
        "ש",
        " ",
        "  ",
        "\n",
        "\t",
        "-",
        "—",
        "*",
        '"',
    ]
)
texts = st.one_of(
    st.sampled_from(SAMPLES),
    st.lists(letters, max_size=60).map("".join),
    st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=60),
)
widths = st.integers(min_value=8, max_value=60)
cuts = st.lists(st.integers(min_value=1, max_value=7), min_size=1, max_size=20)


def wrapped(
    text: str, width: int, cut: list[int] | None = None, column: int = 0
) -> list[StyledText]:
    wrapper, pieces, at = Wrapper(lambda: width, column), [], 0
    sizes = cut or [max(len(text), 1)]
    for turn in range(len(text)):
        size = sizes[turn % len(sizes)]
        pieces += wrapper.feed(text[at : at + size])
        at += size
    return [*pieces, *wrapper.end()]


def shown(text: str, width: int, column: int = 0) -> list[str]:
    return "".join(piece.shown for piece in wrapped(text, width, column=column)).split("\n")


@given(texts, widths, cuts)
def test_all_pieces_joined_are_the_text(text, width, cut) -> None:
    assert "".join(piece.text for piece in wrapped(text, width, cut)) == text


@given(texts, widths)
def test_no_line_is_wider_than_the_terminal(text, width) -> None:
    assert max(map(cell_len, shown(text, width))) <= width


@given(texts, widths, cuts)
def test_it_is_the_same_whatever_the_pieces_are_that_come(text, width, cut) -> None:
    def seen(pieces: list[StyledText]) -> str:
        return "".join(piece.shown for piece in pieces)

    assert seen(wrapped(text, width, cut)) == seen(wrapped(text, width))


@given(st.lists(st.text("abcdefgh", min_size=1, max_size=8), min_size=1, max_size=40), widths)
def test_words_that_fit_a_line_are_never_parted(words, width) -> None:
    assert " ".join(shown(" ".join(words), width)).split() == words


@each("cluster", ["👨‍👩‍👧‍👦", "🇩🇪", "👍🏽", "e\u0301", "क्षि"])
def test_a_letter_with_its_marks_stays_whole(cluster) -> None:
    assert set("".join(shown(cluster * 20, 8)).split(cluster)) == {""}
    assert all(
        line.count(cluster) * cell_len(cluster) == cell_len(line) for line in shown(cluster * 20, 8)
    )


def test_lines_break_between_words_and_between_ideographs() -> None:
    assert shown("You never told me", 10) == ["You never", "told me"]
    assert shown("日本語の文章。", 8) == ["日本語の", "文章。"]
    assert shown("これは長い。", 10) == ["これは長", "い。"]


def test_who_speaks_takes_room_in_the_first_line() -> None:
    assert shown("one two", 8, column=5) == ["one", "two"]


def test_a_word_longer_than_a_line_is_cut_and_begins_on_its_own() -> None:
    assert shown("see abcdefghijklm ok", 8) == ["see", "abcdefgh", "ijklm ok"]


def test_a_terminal_that_is_resized_meanwhile_has_its_new_width_from_the_next_word_on() -> None:
    width = 20
    wrapper = Wrapper(lambda: width)
    before = "".join(piece.shown for piece in wrapper.feed("one two three four "))
    width = 8
    after = "".join(p.shown for p in (*wrapper.feed("five six seven"), *wrapper.end()))
    assert before + after == "one two three four\nfive six\nseven"


def test_what_the_model_writes_slowly_is_held_back_only_to_the_end_of_its_word() -> None:
    wrapper = Wrapper(lambda: 80)
    assert "".join(piece.shown for piece in wrapper.feed("one two th")) == "one two"
    assert "".join(piece.shown for piece in wrapper.feed("ree ")) == " three"


def test_a_thousand_marks_on_one_letter_take_no_time() -> None:
    assert len("".join(shown("a" + "\u0301" * 100_000, 20))) == 100_001
