"""A cut text ends where a reader would pause."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.text import USEFUL_TOKENS, cut_to, sentence_ends, whole_sentences
from familiar_cli.llm import tokens
from tests.support.cases import each


class Words:
    """Counts a token for each word, and each character of a word without spaces."""

    name = "words"

    def count(self, text: str) -> int:
        return sum(1 if word.isascii() else len(word) for word in text.split())


COUNTER = Words()
LONG = "The lighthouse keeper counts every ship that passes and writes its name down"  # 13 words


def sentences(text: str) -> list[str]:
    ends = [0, *sentence_ends(text)]
    return [text[a:b].strip() for a, b in pairwise(ends) if text[a:b].strip()]


@each(
    ("text", "ends"),
    [
        ("Dr. Smith came home. He slept.", ["Dr. Smith came home.", "He slept."]),
        ("Mrs. Li met J. R. Miller. They spoke.", ["Mrs. Li met J. R. Miller.", "They spoke."]),
        ("It costs 3.50 today. Really!", ["It costs 3.50 today.", "Really!"]),
        ("Well... maybe. Yes.", ["Well... maybe.", "Yes."]),
        ("Use e.g. ropes. Then go.", ["Use e.g. ropes.", "Then go."]),
        ("1. First thing. 2. Next", ["1. First thing.", "2."]),
        ('"Stop!" she said. "No."', ['"Stop!" she said.', '"No."']),
        ("雨が降る。傘を持つ！「はい。」", ["雨が降る。", "傘を持つ！", "「はい。」"]),
        ("क्या? हाँ। ठीक", ["क्या?", "हाँ।"]),
        ("- one\n- two", ["- one"]),
    ],
)
def test_sentences_end(text, ends) -> None:
    assert sentences(text)[: len(ends)] == ends


def test_a_text_is_cut_at_the_end_of_a_sentence() -> None:
    text = f"{LONG}. {LONG}. {LONG}."

    assert cut_to(text, 30, COUNTER.count) == f"{LONG}. {LONG}."


def test_a_sentence_end_truncation_of_dr_smith_does_not_leave_dr() -> None:
    text = f"{LONG}. {LONG}. Dr. Smith has the {LONG}"

    assert cut_to(text, 28, COUNTER.count) == f"{LONG}. {LONG}."


def test_a_line_break_that_keeps_a_paragraph_narrow_ends_no_sentence() -> None:
    line = "The miller wrote both notes down and sold them all to a man in a"
    assert list(sentence_ends(f"It hums. {line}\nhat")) == [8]
    assert list(sentence_ends(f"{line}\n- next")) == [len(line) + 1]
    assert list(sentence_ends("Ada: hello\nRobin: hello")) == [11]


def test_a_short_sentence_is_better_than_a_broken_one() -> None:
    text = "It hums in two notes when two trains cross. " + "The miller wrote them down and " * 9
    assert whole_sentences(text, 40, COUNTER.count, least=8) == text[:43]
    assert not whole_sentences(text, 40, COUNTER.count).endswith(".")


def test_without_a_sentence_it_is_cut_between_words() -> None:
    assert cut_to(" ".join([LONG] * 9), 25, COUNTER.count).split() == (LONG.split() * 9)[:25]


def test_without_white_space_it_is_cut_anywhere() -> None:
    assert cut_to("灯" * 90, 30, COUNTER.count) == "灯" * 30


def test_a_hard_cut_parts_no_letter_from_its_marks() -> None:
    assert cut_to("e\u0301" * 90, 31, COUNTER.count) == "e\u0301" * 15


def test_less_than_is_useful_becomes_nothing() -> None:
    assert cut_to(f"{LONG}. {LONG}.", USEFUL_TOKENS - 1, COUNTER.count) == ""


texts = st.text(st.sampled_from("abcdé 灯火、。.!?\n Dr👩🏽\u200d🚀"), min_size=0, max_size=400)


@given(texts, st.integers(min_value=-5, max_value=150))
def test_what_is_left_is_a_beginning_that_fits(text, limit) -> None:
    counter = tokens.heuristic()
    cut = cut_to(text, limit, counter.count)

    assert text.startswith(cut)
    assert cut == "" or USEFUL_TOKENS <= counter.count(cut) <= limit
