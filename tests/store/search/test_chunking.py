"""How files are cut: exact places, nothing lost, no piece too long, turns kept together."""

from __future__ import annotations

from datetime import date
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.llm.tokens import heuristic, reach
from familiar_cli.store.search import chunking
from familiar_cli.store.search.chunking import cut_text, index_label
from familiar_cli.store.search.who_when import last_day
from tests.store.search.test_markdown import PIECES
from tests.support.cases import each

count = heuristic().count
SENTENCE = "Every word of this long section counts for something here. "
texts = st.lists(st.sampled_from([*PIECES, SENTENCE, SENTENCE * 30, "字" * 500]), max_size=20)


def conversation(turns: int) -> str:
    who = ("Ada", "Bo")
    return "# Talk\n" + "".join(f"\n**{who[n % 2]}:** words of turn {n}\n" for n in range(turns))


def shown(text: str, spans) -> list[str]:
    return [text[s.start : s.end] for s in spans]


@given(texts.map("".join))
def test_lines_cover_every_character_once_and_fit_the_encoder(text) -> None:
    made = cut_text(text, "notes.md")
    assert "".join(shown(text, made.lines)) == text
    assert all(line.tokens <= chunking.LINE_TOKENS for line in made.lines)


@given(texts.map("".join))
def test_passages_cover_every_character_and_stay_in_bounds(text) -> None:
    made = cut_text(text, "notes.md")
    covered = set()
    for passage in made.passages:
        covered.update(range(passage.start, passage.end))
        first, last = passage.parts
        assert (passage.start, passage.end) == (made.lines[first].start, made.lines[last - 1].end)
        assert passage.tokens <= chunking.SECTION_TOKENS
    assert covered == set(range(len(text)))


@given(texts.map("".join))
def test_lines_and_passages_know_each_other(text) -> None:
    made = cut_text(text, "notes.md")
    for number, line in enumerate(made.lines):
        holders = range(*line.parts)
        assert list(holders) == [
            n for n, p in enumerate(made.passages) if p.parts[0] <= number < p.parts[1]
        ]


@given(texts.map("".join))
def test_cutting_twice_gives_the_same(text) -> None:
    assert cut_text(text, "a.md") == cut_text(text, "a.md")


def test_a_short_file_is_one_passage() -> None:
    text = "# Alice\n\nLikes tea.\n\n## Work\n\nA bakery.\n"
    assert shown(text, cut_text(text, "people/a.md").passages) == [text]


def test_a_long_file_is_cut_by_section_with_its_preamble_apart() -> None:
    text = "# Alice\n\nIntro.\n\n## Work\n\n" + SENTENCE * 20 + "\n\n## Play\n\n" + SENTENCE * 20
    made = cut_text(text, "people/a.md")
    assert [p.heading for p in made.passages] == ["Alice", "Alice > Work", "Alice > Play"]
    assert shown(text, made.passages)[0] == "# Alice\n\nIntro.\n\n"


def test_a_long_section_is_cut_into_windows_that_overlap() -> None:
    text = "# A\n\n" + (SENTENCE * 4 + "\n\n") * 60
    passages = cut_text(text, "a.md").passages
    assert len(passages) > 2
    for one, two in pairwise(passages):
        shared = count(text[two.start : one.end])
        assert shared > chunking.OVERLAP_TOKENS * 0.9
    assert all(p.tokens <= chunking.WINDOW_TOKENS for p in passages)


def test_one_chat_turn_per_chunk_finds_little_so_four_stay_together() -> None:
    text = conversation(9)
    made = cut_text(text, "sessions/2026-01-03-evening.md")
    assert [p.parts for p in made.passages] == [(0, 4), (2, 6), (4, 8), (6, 9)]
    assert [line.speaker for line in made.lines[:3]] == ["Ada", "Bo", "Ada"]


def test_each_chunk_bears_its_date_and_title() -> None:
    made = cut_text(conversation(9), "sessions/2026-01-03-evening.md")
    assert (made.title, made.day) == ("Talk", date(2026, 1, 3))
    assert index_label(made.title, made.lines[5].heading, made.day) == "Talk, 3 January 2026"


def test_a_date_in_the_title_is_not_said_twice() -> None:
    assert (
        index_label("Talk, 3 January 2026", "Talk, 3 January 2026", date(2026, 1, 3))
        == "Talk, 3 January 2026"
    )


def test_fields_of_a_card_are_no_conversation() -> None:
    text = "Name: Ada\nAge: 36\nLikes: tea\nHates: rain\n"
    assert len(cut_text(text, "people/ada.md").passages) == 1


@each(
    ("path", "instance"),
    [("daily/2026-01-03_laptop.md", "laptop"), ("daily/2026-01-03.md", ""), ("a_b.md", "")],
)
def test_the_instance_is_read_from_the_name(path, instance) -> None:
    assert cut_text("x", path).instance == instance


@each("text", ["x" * 100_000, "字" * 40_000, "Ada: hi\n" * 6_000, "> " * 5000])
def test_monstrous_files_are_cut_in_moments(text) -> None:
    assert "".join(shown(text, cut_text(text, "a.md").lines)) == text


@each(
    ("rel_path", "day"),
    [
        ("weekly/2024-W15.md", "2024-04-14"),
        ("weekly/2020-W53.md", "2021-01-03"),
        ("monthly/2024-02.md", "2024-02-29"),
        ("yearly/2023.md", "2023-12-31"),
        ("weekly/2021-W53.md", ""),
        ("weekly/2024-W00.md", ""),
        ("monthly/2024-13.md", ""),
        ("yearly/0000.md", ""),
        ("daily/2024-04-14_phone.md", ""),
        ("topics/2023.md", ""),
    ],
)
def test_a_week_a_month_and_a_year_are_as_old_as_their_last_day(rel_path, day) -> None:
    assert last_day(rel_path) == day


@each("piece", ["\0", "a", "字", "aA1 ", ". ", "👩", "x" * 4000 + " "])
def test_each_character_is_counted_a_few_times_at_most(monkeypatch, piece) -> None:
    counted = 0

    class Counter:
        name = "estimate"

        def count(self, text: str) -> int:
            nonlocal counted
            counted += len(text)
            return count(text)

    monkeypatch.setattr(chunking, "_COUNTER", Counter())
    text = piece * (60_000 // len(piece))
    cut_text(text, "notes.md")
    assert counted <= 6 * len(text)


@given(st.text(alphabet="aA1 .\n\0字é👩`", max_size=400), st.integers(0, 60))
def test_law_the_estimate_reaches_about_as_far_as_it_counts(text, most) -> None:
    stop = reach(text, 0, len(text), most)
    assert 0 < stop <= len(text) or not text
    assert count(text[:stop]) <= most + 3 or stop == 1
    assert stop == len(text) or count(text) > most
