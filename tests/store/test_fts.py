"""What is asked of full-text search is words, whatever was typed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.text import sentence_ends
from familiar_cli.llm import tokens
from familiar_cli.store import fts
from tests.support.cases import each

COUNTER = tokens.heuristic()


@pytest.fixture
def found():
    """Ask a table that holds the given texts; return which were found."""

    def ask(query: str, *texts: str) -> list[int]:
        db = sqlite3.connect(":memory:")
        db.execute(f'CREATE VIRTUAL TABLE t USING fts5 (body, tokenize = "{fts.TOKENIZER}")')
        db.executemany("INSERT INTO t (body) VALUES (?)", [(fts.indexable(t),) for t in texts])
        match = fts.match_any(query)
        rows = db.execute("SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank", (match,)).fetchall()
        db.close()
        return [row - 1 for (row,) in rows]

    return ask


def test_raw_chat_text_is_no_query_syntax(found) -> None:
    assert found('What\'s "that" (tea) NEAR: -milk* AND OR ^?', "green tea", "coffee") == [0]


def test_one_word_of_many_is_enough(found) -> None:
    assert found("Does Alice drink green tea at noon?", "tea") == [0]


def test_stop_words_find_nothing(found) -> None:
    assert found("where is the tea", "this is where the coffee is", "tea") == [1]


def test_stemming_finds_other_forms(found) -> None:
    assert found("painted", "she paints", "she sings") == [0]


@each(
    ("query", "text"),
    [
        ("Zoë", "Zoe came"),
        ("zoe", "Zoë came"),
        ("zoe", "Zoe\u0308 came"),
        ("日本語", "彼女は日本語を勉強した"),
        ("東京", "我去了东京和東京"),
        ("猫", "我喜欢猫"),
        ("猫", "猫が好き"),
        ("학교", "나는 학교에서 공부했다"),
        ("แมว", "ฉันรักแมวมาก"),
        ("हिन्दी", "वह हिन्दी बोलती है"),
        ("ＡＢＣ", "abc"),
        ("Привет", "привет мир"),
    ],
)
def test_names_and_words_of_every_script_are_found(found, query, text) -> None:
    assert found(query, "something else", text) == [1]


def test_a_name_that_is_a_common_word_counts_where_it_has_a_capital() -> None:
    assert fts.content_words("Have you seen Will?") == ["seen", "will"]
    assert fts.content_words("will you have tea?") == ["tea"]


def test_only_stop_words_are_better_than_none() -> None:
    assert fts.content_words("who are you") == ["who", "are", "you"]


@each("text", ["", "  ", "?!", "🦊", "-- ''"])
def test_no_word_is_no_query(text) -> None:
    assert fts.match_any(text) is None


def test_sentences_end_where_a_person_would_end_them() -> None:
    assert fts.sentences("Hi! How are you?\nFine… 好。再见！") == [
        "Hi",
        "How are you",
        "Fine",
        "好",
        "再见",
    ]


@given(st.text(max_size=60))
def test_any_text_can_be_asked(text) -> None:
    match = fts.match_any(text)
    if match is not None:
        db = sqlite3.connect(":memory:")
        db.execute(f'CREATE VIRTUAL TABLE t USING fts5 (body, tokenize = "{fts.TOKENIZER}")')
        db.execute("INSERT INTO t VALUES (?)", (fts.indexable(text).encode("utf-8", "replace"),))
        db.execute("SELECT rowid FROM t WHERE t MATCH ?", (match,)).fetchall()
        db.close()


@given(
    st.lists(st.sampled_from(["tea", "Zoë", "日本語", "猫", "한국", "แมว"]), min_size=1, max_size=5)
)
def test_what_was_written_finds_itself(parts) -> None:
    text = " ".join(parts)
    db = sqlite3.connect(":memory:")
    db.execute(f'CREATE VIRTUAL TABLE t USING fts5 (body, tokenize = "{fts.TOKENIZER}")')
    db.execute("INSERT INTO t VALUES (?)", (fts.indexable(text),))
    rows = db.execute("SELECT rowid FROM t WHERE t MATCH ?", (fts.match_any(text),)).fetchall()
    db.close()
    assert rows == [(1,)]


def test_a_query_is_bounded_and_keeps_its_beginning_and_end() -> None:
    endless = "Where are the bees? " + "filler " * 100_000 + "Who feeds them?"
    query = fts.bounded_query(endless)
    assert len(query) <= fts.MAX_QUERY_CHARS
    assert query.startswith("Where are the bees? ")
    assert query.endswith("Who feeds them?")
    assert fts.bounded_query("Where are the bees?") == "Where are the bees?"
    assert len(fts.bounded_query("x" * 100_000)) <= fts.MAX_QUERY_CHARS + 1


def test_the_part_of_a_long_text_that_fits_a_question_is_not_its_beginning() -> None:
    advice = "Rest helps. Walk a little every day. Drink enough water. "
    text = f"{advice}You said that your cello is in the attic. It needs strings. {advice}"
    start, end = fts.best_part(text, "Where is my cello?", 22, COUNTER.count)
    assert "your cello is in the attic. It needs strings." in text[start:end]
    assert COUNTER.count(text[start:end]) <= 22


def test_a_text_without_a_word_of_the_question_is_taken_from_its_beginning() -> None:
    start, end = fts.best_part("One. Two two. Three three three.", "cello", 8, COUNTER.count)
    assert start == 0
    assert end > 0


def test_a_sentence_is_chosen_by_the_word_that_few_others_hold() -> None:
    text = "The garden is wet. The garden is large. Snails like it in spring. The garden is old."
    start, end = fts.best_part(text, "snails garden", 6, COUNTER.count)
    assert text[start:end].strip() == "Snails like it in spring."


@given(st.text("ab 。.!\n", max_size=200), st.text("ab ", max_size=8), st.integers(1, 40))
def test_a_part_is_within_its_text_and_its_tokens(text, query, limit) -> None:
    start, end = fts.best_part(text, query, limit, COUNTER.count)
    assert 0 <= start <= end <= len(text)
    one = max((COUNTER.count(text[a:b]) for a, b in _sentences(text)), default=0)
    assert COUNTER.count(text[start:end].strip()) <= max(limit, one) + 1


def _sentences(text: str) -> list[tuple[int, int]]:
    return list(pairwise([0, *sentence_ends(text), len(text)]))


WORDS_IN_ROWS = ["tea", "teas", "cake", "rum", "gin", "日本", "wine", "beer"]
ASKED = fts.match_any("tea with cake and 日本 in 日")
SEEN = "{row} % 3"


@pytest.fixture
def table():
    """Fill a table with numbered texts; return its database."""
    with ExitStack() as stack:

        def fill(rows: Iterable[tuple[int, str]]) -> sqlite3.Connection:
            db = stack.enter_context(closing(sqlite3.connect(":memory:")))
            columns = f'title, body, tokenize="{fts.TOKENIZER}"'
            db.execute(f"CREATE VIRTUAL TABLE t USING fts5({columns})")
            pages = ((n, f"tale {n}", fts.indexable(text)) for n, text in rows)
            db.executemany("INSERT INTO t (rowid, title, body) VALUES (?, ?, ?)", pages)
            return db

        yield fill


def random_rows(seed: int, known: Sequence[str]) -> list[tuple[int, str]]:
    """Return texts of which most contain the first words of `known`, and few the last ones."""
    dice, weights = Random(seed), [0.5**n for n in range(len(known))]
    texts = (dice.choices(known, weights, k=dice.randint(1, 5)) for _ in range(500))
    return [(n, " ".join(words)) for n, words in enumerate(texts, 1)]


def test_scores_of_visible_rows_are_those_of_a_table_without_the_others(table) -> None:
    dice = Random(3)
    rows = [(n, " ".join(dice.choices(WORDS_IN_ROWS, k=dice.randint(1, 9)))) for n in range(1, 400)]
    found = []
    for kept in (rows, [row for row in rows if row[0] % 3]):
        db = table(kept)
        limits = {"most_rows": 1000, "depth": 400}
        visible = fts.sample_visible(db, "t", SEEN, ())
        found.append(fts.visible_scores(db, "t", ASKED, visible=visible, **limits))
        plain = dict(db.execute("SELECT rowid, -bm25(t) FROM t WHERE t MATCH ?", (ASKED,)))
    assert found[0] == found[1]
    assert found[1] == pytest.approx(plain)


@each("most_rows", [4, 12, 40, 120, 1000])
def test_hidden_rows_change_nothing_however_few_rows_are_ranked(
    table, monkeypatch, most_rows
) -> None:
    monkeypatch.setattr(fts, "_SAMPLE", 20)
    for seed in range(6):
        known = WORDS_IN_ROWS[seed % 4 :] + WORDS_IN_ROWS[: seed % 4]
        rows, answers = random_rows(seed, [f"filler{seed}", *known]), []
        for kept in (rows, [row for row in rows if row[0] % 3]):
            db = table(kept)
            visible = fts.sample_visible(db, "t", SEEN, ())
            limits = {"most_rows": most_rows, "depth": 50, "visible": visible}
            chosen = fts.choose(db, "t", ASKED, most_rows, visible=visible)
            held = fts.frequencies(db, "t", known, most_rows, visible=visible)
            best = [
                [*fts.visible_scores(db, "t", ASKED, only=only, are_few=are_few, **limits).items()]
                for only, are_few in (("", False), (" AND {row} % 5", False), ("", True))
            ]
            answers.append((chosen, held, best))
        assert answers[0] == answers[1]
        assert chosen == fts.choose(db, "t", ASKED, most_rows)
        assert held == fts.frequencies(db, "t", known, most_rows)


def test_the_work_for_a_word_in_many_visible_rows_does_not_grow_with_them(
    table, monkeypatch
) -> None:
    monkeypatch.setattr(fts, "_SAMPLE", 40)
    work = []
    for size in (1_000, 8_000):
        db, steps = table((n, "tea" if n % 4 else "cake rum") for n in range(1, size)), [0]
        db.set_progress_handler(lambda steps=steps: steps.append(1) or 0, 10)
        visible = fts.sample_visible(db, "t", SEEN, ())
        for match in ('"tea"', '"cake"', '"tea" OR "cake"'):
            assert fts.visible_scores(db, "t", match, most_rows=60, depth=30, visible=visible)
        work.append(len(steps))
    assert work[1] < 1.3 * work[0]
