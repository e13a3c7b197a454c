"""What readers take for the same word has one form, in every script."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.text import fold_letters, fold_word
from familiar_cli.store import fts
from familiar_cli.store.memory.mentions import find_mentions, head_of, key_of
from tests.support.cases import each

anything = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)

SAME = [
    ("Straßburg", "STRASSBURG"),
    ("مُحَمَّد", "محمد"),
    ("أحمد", "احمد"),
    ("إيمان", "ايمان"),
    ("مدرسة", "مدرسه"),
    ("ليلى", "ليلي"),
    ("محـــمد", "محمد"),
    ("کتاب", "كتاب"),
    ("שָׁלוֹם", "שלום"),
    ("क़लम", "कलम"),
    ("चाँद", "चांद"),
    ("เก้า", "เกา"),
    ("モカ", "もか"),
    ("ﾓｶ", "もか"),
    ("ヴァイオリン", "ゔぁいおりん"),
    ("神", "神"),
    ("⽔", "水"),
    ("İzmir", "izmir"),
    ("ΟΔΟΣ", "οδος"),
    ("１２", "12"),
    ("می‌خواهم", "میخواهم"),
]


@each(("one", "other"), SAME)
def test_two_ways_to_write_a_word_fold_to_one(one, other) -> None:
    assert fold_word(one) == fold_word(other)


@each(
    ("one", "other"),
    [("कि", "की"), ("はか", "ばか"), ("ビル", "ビール"), ("ไป", "ใป"), ("é", "e"), ("й", "и")],
)
def test_words_that_readers_tell_apart_stay_apart(one, other) -> None:
    assert fold_word(one) != fold_word(other)


@given(anything)
def test_folding_twice_changes_nothing(text) -> None:
    assert fold_word(fold_word(text)) == fold_word(text)


@given(anything)
def test_normalisation_does_not_tell_words_apart(text) -> None:
    forms = {unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC")}
    assert len({fold_word(form) for form in forms}) == 1


@given(st.text(st.characters(codec="ascii"), max_size=60))
def test_plain_english_is_in_lower_case_and_nothing_else(text) -> None:
    assert fold_word(text) == fold_letters(text) == text.lower()


@each(("one", "other"), SAME)
def test_a_query_is_folded_as_the_index_is(one, other) -> None:
    assert fts.words(one) == fts.words(other)
    assert fts.match_any(one) == fts.match_any(other)
    assert fts.indexable(one) == fts.indexable(other)


@each(
    ("name", "text"),
    [
        ("أحمد", "هل جاء احمد اليوم؟"),
        ("أبو عمر", "قال ابو عمر"),
        ("モカ", "もかはどこ？"),
        ("もか", "モカはどこ？"),
        ("Weiß", "Kommt WEISS auch?"),
    ],
)
def test_a_name_is_found_however_it_is_written(name, text) -> None:
    key = key_of(name)
    start, head = head_of(key)
    heads = {start: head}
    found = find_mentions(
        text, lambda h: {k: heads[k] for k in h if k in heads}, {key}.intersection
    )
    assert [mention.key for mention in found] == [key]


def test_a_katakana_name_within_a_longer_word_is_another() -> None:
    key = key_of("アン")
    start, head = head_of(key)
    found = find_mentions("アンナはどこ？", lambda _: {start: head}, {key}.intersection)
    assert found == []
