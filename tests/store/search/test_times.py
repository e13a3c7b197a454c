"""When a memory was, and how a question that names a time finds it."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.times.spans import Span, Yearly
from familiar_cli.store.search.who_when import period_of, time_closeness, times_of
from tests.support.cases import each

days = st.dates(date(1900, 1, 1), date(2100, 12, 31))
DAY = date(2023, 5, 8)


def one(day: date) -> Span:
    return Span(day, day)


@given(days, st.integers(0, 3000), st.integers(0, 3000))
def test_farther_is_never_nearer(day, a, b) -> None:
    near, far = sorted((a, b))
    for sign in (-1, 1):
        close = [
            time_closeness([one(day)], one(day + timedelta(days=sign * n))) for n in (near, far)
        ]
        assert 1 >= close[0] >= close[1] >= 0


@given(days, st.integers(1, 3000))
def test_what_came_after_is_nearer_than_what_came_before(day, gap) -> None:
    after, before = (one(day + timedelta(days=sign * gap)) for sign in (1, -1))
    assert time_closeness([one(day)], after) >= time_closeness([one(day)], before)


@given(days, st.integers(0, 400), st.integers(0, 400))
def test_what_lies_within_is_as_near_as_can_be(day, before, after) -> None:
    wanted = Span(day - timedelta(days=before), day + timedelta(days=after))
    assert time_closeness([wanted], one(day)) == 1


def test_a_year_says_less_of_a_day_than_a_week_does() -> None:
    wanted = [one(DAY)]
    week, year = Span(DAY, DAY + timedelta(days=6)), Span(date(2023, 1, 1), date(2023, 12, 31))
    assert time_closeness(wanted, week) == 1
    assert time_closeness(wanted, year) < 0.1


@given(days, days)
def test_any_year_of_a_month_will_do(day, other) -> None:
    assert time_closeness([Yearly(day.month)], one(day)) == 1
    assert 0 <= time_closeness([Yearly(2, 29)], one(other)) <= 1


@each(
    ("rel_path", "first", "last"),
    [
        ("weekly/2026-W01.md", "2025-12-29", "2026-01-04"),
        ("monthly/2024-02.md", "2024-02-01", "2024-02-29"),
        ("yearly/2023.md", "2023-01-01", "2023-12-31"),
    ],
)
def test_a_period_has_days(rel_path, first, last) -> None:
    assert period_of(rel_path) == Span(date.fromisoformat(first), date.fromisoformat(last))


@each("rel_path", ["monthly/2024-13.md", "weekly/0000-W01.md", "yearly/0000.md", "notes.md"])
def test_what_is_no_period_has_none(rel_path) -> None:
    assert period_of(rel_path) is None


def test_a_line_speaks_of_a_time_beside_its_own_day() -> None:
    assert times_of("I ran yesterday.", DAY) == [one(date(2023, 5, 7))]
    assert times_of("I ran today.", DAY) == []
    assert times_of("See you on 3 January!", DAY) == [one(date(2023, 1, 3))]
    assert times_of("I ran yesterday.", None) == []
    assert times_of("We went in July.", DAY) == [Span(date(2022, 7, 1), date(2022, 7, 31))]
    assert times_of("We will go in March.", DAY) == [Span(date(2024, 3, 1), date(2024, 3, 31))]
    assert times_of("I ran on 3 January 2020 and on 0000-13-99.", None) == [one(date(2020, 1, 3))]


@pytest.mark.parametrize("year", [1, 9999])
def test_a_line_written_at_the_end_of_the_calendar_is_read(year) -> None:
    words = "yesterday, tomorrow, last year, next year, on 29 February, last week"
    for span in times_of(words, date(year, 1, 1) if year == 1 else date(year, 12, 31)):
        assert span.first <= span.last


def session(day: str, text: str = "We painted the fence.") -> str:
    lines = f"\n**Anna:** {text}\n\n**Bo:** Good.\n" * 2
    return f"# {day}, evening\n{lines}"


@pytest.mark.parametrize(
    "query",
    [
        *("the fence on 9 June 2023", "the fence in June", "the fence, summer 2023"),
        *(
            "fence 2023-06-09",
            "fence, am 9. Juni 2023",
            "fence 2023年6月9日",
            "fence le 9 juin 2023",
        ),
    ],
)
def test_a_question_that_names_a_time_finds_what_is_of_it_first(world, query) -> None:
    for day in ("2023-01-03", "2023-06-09", "2023-12-20"):
        world.put(f"sessions/{day}-evening.md", session(day))
    assert world.paths(query)[0] == "sessions/2023-06-09-evening.md"
    assert world.ask(query).hits[0].signals.time == pytest.approx(0.8)


def test_a_question_that_names_no_time_prefers_none(world) -> None:
    world.put("sessions/2023-06-09-evening.md", session("2023-06-09"))
    assert world.ask("the fence").hits[0].signals.time == 0


def test_a_line_is_found_by_the_day_that_it_speaks_of(world) -> None:
    world.put("sessions/2023-06-12-evening.md", session("2023-06-12", "I saw a heron on Monday."))
    said = session("2023-06-12", "I saw a heron last Friday.")
    world.put("sessions/2023-06-12-night.md", said)
    best = world.ask("When was the heron, on 9 June 2023?", lines=True).hits[0]
    assert best.rel_path == "sessions/2023-06-12-night.md"
    assert best.signals.time == 1


def test_a_heading_dates_the_lines_below_it(world) -> None:
    world.put("topics/birds.md", "# Birds\n\n## 2023-06-10\n\n- A heron came yesterday.\n")
    world.index.refresh()
    ((first, last),) = world.rows("SELECT first, last FROM times")
    assert date.fromordinal(first) == date.fromordinal(last) == date(2023, 6, 9)


def test_a_file_with_impossible_dates_is_indexed(world) -> None:
    world.put("sessions/0000-13-99.md", "# 0000-13-99\n\n- In 9999 BC, yesterday, on 99 May.\n")
    world.put("sessions/9999-12-31-night.md", "# 9999-12-31\n\n- Tomorrow, next year, in 3 days.\n")
    assert len(world.paths("tomorrow yesterday May 0000-13-99 9999-12-31")) == 2
