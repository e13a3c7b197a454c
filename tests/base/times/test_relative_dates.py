"""A relative date is read from the day it was said, and written as a date."""

from __future__ import annotations

from datetime import date
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.times.spans import aligned_fold
from familiar_cli.base.times.when import relative_dates, with_dates
from tests.support.cases import each

THURSDAY = date(2024, 3, 14)


def dated(text: str, day: date = THURSDAY) -> str:
    return with_dates(text, lambda _: day)


@each(
    ("text", "then"),
    [
        ("Anna moved yesterday.", "Anna moved on 2024-03-13."),
        ("Yesterday Anna moved.", "On 2024-03-13 Anna moved."),
        ("Tomorrow is her birthday.", "2024-03-15 is her birthday."),
        ("She has been ill since yesterday.", "She has been ill since 2024-03-13."),
        ("Anna loved yesterday's concert.", "Anna loved the 2024-03-13 concert."),
        ("He comes the day after tomorrow.", "He comes on 2024-03-16."),
        ("He fell yesterday evening.", "He fell on the evening of 2024-03-13."),
        ("They met last night.", "They met on the night of 2024-03-13."),
        ("He sings tonight.", "He sings on the evening of 2024-03-14."),
        ("The vet came last Friday.", "The vet came on 2024-03-08."),
        ("They met last Thursday.", "They met on 2024-03-07."),
        ("They met on the first Friday of last month.", "They met on 2024-02-02."),
        ("Sie kam am ersten Freitag des letzten Monats.", "Sie kam am 2024-02-02."),
        ("They met the last Friday of March.", "They met the last Friday of March."),
        ("He quit last week.", "He quit in the week of 2024-03-04."),
        ("She starts next month.", "She starts in April 2024."),
        ("They married last year.", "They married in 2023."),
        ("It broke three days ago.", "It broke on 2024-03-11."),
        ("It broke a week ago.", "It broke around 2024-03-07."),
        ("She left two months ago.", "She left in January 2024."),
        ("Anna ist gestern umgezogen.", "Anna ist am 2024-03-13 umgezogen."),
        ("アンナは昨日引っ越した。", "アンナは2024-03-13引っ越した。"),
        ("Anna llega pasado mañana.", "Anna llega el 2024-03-16."),
        ("Yesterday was fun, we met yesterday.", "2024-03-13 was fun, we met on 2024-03-13."),
        ("Anna met Bo on Monday.", "Anna met Bo on 2024-03-11."),
        ("Anna will meet Bo on Monday.", "Anna will meet Bo on 2024-03-18."),
        (
            "He met Bo on Monday. He'll rest on Friday.",
            "He met Bo on 2024-03-11. He'll rest on 2024-03-15.",
        ),
        ("Her exam is in two weeks.", "Her exam is around 2024-03-28."),
        ("She will move in three months.", "She will move in June 2024."),
        ("Anna moves to Rome in two weeks.", "Anna moves to Rome around 2024-03-28."),
        ("Anna has a piano exam in two weeks.", "Anna has a piano exam around 2024-03-28."),
        ("Anna starts her job on Monday.", "Anna starts her job on 2024-03-18."),
        ("Anna zieht in zwei Wochen um.", "Anna zieht um den 2024-03-28 um."),
        ("They climb this weekend.", "They climb on the weekend of 2024-03-16."),
        ("Anna moved last summer.", "Anna moved in the summer of 2023."),
        ("They married last March.", "They married in March 2023."),
        ("Anna zog in der letzten Woche um.", "Anna zog in der Woche vom 2024-03-04 um."),
        ("Seit letztem Montag ist sie krank.", "Seit 2024-03-11 ist sie krank."),
        ("Am Montag traf sie Bo.", "Am 2024-03-11 traf sie Bo."),
        ("Am Montag wird sie Bo treffen.", "Am 2024-03-18 wird sie Bo treffen."),
        ("Elle part dans deux semaines.", "Elle part vers le 2024-03-28."),
        ("Il a ri la semaine dernière.", "Il a ri la semaine du 2024-03-04."),
        ("El domingo pasado llovió.", "El 2024-03-10 llovió."),
        ("Llegó hace dos meses.", "Llegó en enero de 2024."),
        ("来月結婚する。三日前に会った。", "2024年4月結婚する。2024-03-11に会った。"),
        ("安娜上周搬家了。", "安娜2024-03-04那一周搬家了。"),
        ("وصلت قبل ثلاثة أيام.", "وصلت في 2024-03-11."),
        ("It began yesterday and ends tomorrow.", "It began on 2024-03-13 and ends on 2024-03-15."),
    ],
)
def test_a_relative_date_becomes_a_date(text, then) -> None:
    assert dated(text) == then


@each(
    "text",
    [
        "They meet next Friday.",  # this week's or the next one's
        "They meet on Monday.",
        "They climb next weekend.",
        "She lost two kilos in two weeks.",
        "Anna has painted the house in two weeks.",
        "Anna can run a mile in two minutes.",
        "The last week was hard.",
        "Sie kommt am Wochenende.",
        "Ils ont mangé, puis le chat a dormi ici.",
        "Anna sings Yesterday by the Beatles.",
        'Anna said "see you tomorrow".',
        "Anna said good night until 2024-03-15, which is tomorrow.",
        "Anna sagt jeden Tag guten Morgen.",
        "Anna wohnt hier.",
        "明日香は歌う。",
        "It was one of those yesterdays.",
    ],
)
def test_what_may_mean_another_day_or_is_a_name_stays(text) -> None:
    assert dated(text) == text


def test_words_whose_day_is_unknown_stay() -> None:
    assert with_dates("Anna moved yesterday.", lambda _: None) == "Anna moved yesterday."


def test_a_span_is_known_by_its_first_and_last_day() -> None:
    (found,) = relative_dates("It rained all last month.", THURSDAY)
    assert (found.first, found.last) == (date(2024, 2, 1), date(2024, 2, 29))


@each(
    ("text", "then"),
    [
        ("We go this winter.", "We go in the winter of 2026/27."),
        ("We met last winter.", "We met in the winter of 2025/26."),
        ("It rained last week.", "It rained in the week of 2026-12-28."),
    ],
)
def test_around_new_year_no_other_year_is_named(text, then) -> None:
    assert dated(text, date(2027, 1, 10)) == then


@pytest.mark.parametrize("day", [date.min, date.max])
def test_at_the_ends_of_the_calendar_it_stays(day) -> None:
    text = "Anna moved last year, or next year."
    assert list(relative_dates(text, day)) != []
    assert dated("Anna came the day before yesterday.", date.min).endswith("yesterday.")


_SAID = ("yesterday", "last week", "three days ago", "gestern", "letzte Woche", "la semana pasada")


@given(st.lists(st.sampled_from(_SAID), min_size=1, max_size=5), st.dates(date(1900, 1, 1)))
def test_no_date_stops_another_one(said, day) -> None:
    text = dated("; ".join(f"it rained {words}" for words in said), day)
    assert [part for part in text.split("; ") for words in _SAID if words in part] == []


@given(st.text(max_size=60), st.dates())
def test_each_letter_of_a_folded_text_has_its_place(text, day) -> None:
    folded, places = aligned_fold(text)
    assert len(places) == len(folded) + 1
    assert places == sorted(places)
    assert places[-1] == len(text)
    for found in relative_dates(text, day):
        assert 0 <= found.start < found.end <= len(text)


@given(st.text(st.sampled_from("yesterdaomlwnihg '\".昨日今明天 3"), max_size=60), st.dates())
def test_any_text_is_read_and_nothing_else_in_it_changes(text, day) -> None:
    found = list(relative_dates(text, day))
    assert all(a.end <= b.start for a, b in pairwise(found))
    if not found:
        assert dated(text, day) == text
