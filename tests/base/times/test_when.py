"""Times as people type them, wherever the familiar lives and whatever its clocks do."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import UsageError
from familiar_cli.base.times.when import (
    WEEKDAYS,
    day_words,
    read_day,
    read_hour,
    read_moment,
    read_when,
)
from tests.support.cases import each

OSLO = ZoneInfo("Europe/Oslo")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)  # a Sunday, 13:00 in Oslo
ZONES = st.sampled_from(
    [ZoneInfo(n) for n in ("UTC", "Europe/Oslo", "America/New_York", "Australia/Lord_Howe")]
)
MOMENTS = st.datetimes(
    datetime(2000, 1, 1),  # noqa: DTZ001  # the strategy adds the timezone
    datetime(2090, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)


@each(
    ("text", "expected"),
    [
        ("2026-01-31", "2026-01-30T23:00"),
        ("20260131", "2026-01-30T23:00"),
        (" 2026-01-31  14:00 ", "2026-01-31T13:00"),
        ("2026-01-31T14:00", "2026-01-31T13:00"),
        ("2026-01-31 9:00", "2026-01-31T08:00"),
        ("2026-01-31T14:00+05:00", "2026-01-31T09:00"),
        ("2026-01-31t14:00z", "2026-01-31T14:00"),
        ("90m", "2026-03-01T10:30"),
        ("2 hours ago", "2026-03-01T10:00"),
        ("an hour ago", "2026-03-01T11:00"),
        ("7d", "2026-02-22T12:00"),
        ("3 d ago", "2026-02-26T12:00"),
        ("2w", "2026-02-15T12:00"),
        ("today", "2026-02-28T23:00"),
        ("Yesterday", "2026-02-27T23:00"),
        ("yesterday 9am", "2026-02-28T08:00"),
        ("tomorrow", "2026-03-01T23:00"),
        ("friday", "2026-02-26T23:00"),
        ("last sunday", "2026-02-21T23:00"),
        ("12:30", "2026-03-01T11:30"),
        ("at 13:01", "2026-02-28T12:01"),
    ],
)
def test_what_is_past_is_read_where_the_familiar_lives(text, expected) -> None:
    assert read_moment(text, NOW, OSLO).isoformat() == f"{expected}:00+00:00"


@each(
    "text",
    [
        "",
        "soon",
        "7y",
        "-1d",
        "2026-02-30",
        "2026-13-01",
        "999999999w",
        "in 2 hours",
        "next friday",
    ],
)
def test_anything_else_is_refused_with_an_example(text) -> None:
    with pytest.raises(UsageError, match="is not a date or time") as error:
        read_moment(text, NOW, OSLO)
    assert "`7d`" in error.value.hint


def test_days_keep_the_time_of_day_over_a_change_of_clocks_and_hours_are_counted() -> None:
    now = datetime(2026, 3, 30, 10, tzinfo=UTC)  # 12:00 in Oslo, where it is summer since the 29th
    assert read_moment("2d", now, OSLO) == datetime(2026, 3, 28, 11, tzinfo=UTC)
    assert read_moment("48h", now, OSLO) == datetime(2026, 3, 28, 10, tzinfo=UTC)
    assert read_moment("2026-03-28", now, OSLO) == datetime(2026, 3, 27, 23, tzinfo=UTC)
    assert read_moment("2026-03-30", now, OSLO) == datetime(2026, 3, 29, 22, tzinfo=UTC)


def test_a_day_is_that_of_the_familiar() -> None:
    late = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)
    assert read_day("today", late, OSLO) == date(2026, 3, 2)
    assert read_day("2026-03-01T23:30Z", late, OSLO) == date(2026, 3, 2)
    assert read_day("2026-01-31", late, OSLO) == date(2026, 1, 31)


@given(MOMENTS, ZONES, st.sampled_from(WEEKDAYS), st.booleans())
def test_a_weekday_is_within_a_week_and_never_today(now, zone, day, ahead) -> None:
    found = read_when(day, now, zone, ahead=ahead).moment.date()
    days = (found - now.astimezone(zone).date()).days
    assert 1 <= (days if ahead else -days) <= 7
    assert WEEKDAYS[found.weekday()] == day


@given(MOMENTS, ZONES, st.integers(0, 10_000))
def test_hours_are_counted_whatever_the_clocks_do(now, zone, hours) -> None:
    passed = now - read_moment(f"{hours}h", now, zone)
    assert timedelta(0) <= passed - timedelta(hours=hours) < timedelta(milliseconds=1)


@given(st.text(max_size=40), st.booleans())
def test_no_text_breaks_it(text, ahead) -> None:
    with suppress(UsageError):
        assert read_when(text, NOW, OSLO, ahead=ahead).moment


@each(
    ("text", "hour"),
    [("9:00", time(9)), ("9.30", time(9, 30)), ("12am", time(0)), ("11 pm", time(23))],
)
def test_an_hour_is_read(text, hour) -> None:
    assert read_hour(text) == hour


@each("text", ["9", "24:00", "13pm", "0am", "9:5", ""])
def test_what_is_not_an_hour_is_none(text) -> None:
    assert read_hour(text) is None


def test_a_day_in_words_does_not_depend_on_the_locale() -> None:
    assert day_words(date(2026, 1, 31)) == "31 January 2026"


@each(
    ("text", "wanted"),
    [
        ("morgen um 9 Uhr", "2026-11-23T09:00"),
        ("am Freitag um 18:30", "2026-11-27T18:30"),
        ("am 24.12. um 18 Uhr", "2026-12-24T18:00"),
        ("in zwei Stunden", "2026-11-22T12:00"),
        ("明日９時", "2026-11-23T09:00"),
        ("明日の午後３時半", "2026-11-23T15:30"),
        ("来週の金曜日", "2026-11-27T00:00"),
        ("30分後", "2026-11-22T10:30"),
        ("غدا الساعة ٩", "2026-11-23T09:00"),
        ("بعد 3 ساعات", "2026-11-22T13:00"),
        ("mañana a las 9 de la noche", "2026-11-23T21:00"),
        ("dentro de 3 días", "2026-11-25T10:00"),
        ("demain à 9h30", "2026-11-23T09:30"),
        ("vendredi prochain à 18 h", "2026-11-27T18:00"),
        ("le 1er janvier", "2027-01-01T00:00"),
        ("明天下午3点半", "2026-11-23T15:30"),
        ("2小时后", "2026-11-22T12:00"),
        ("２０２６-１１-３０ ０９:００", "2026-11-30T09:00"),
        ("１２h", "2026-11-22T22:00"),
        ("24 December at 9:00", "2026-12-24T09:00"),
        ("the last Friday of March", "2027-03-26T00:00"),
        ("on the first Saturday of the month", "2026-12-05T00:00"),
        ("le dernier lundi du mois à 9 h", "2026-11-30T09:00"),
    ],
)
def test_times_are_understood_in_seven_languages(text, wanted) -> None:
    now = datetime(2026, 11, 22, 10, tzinfo=UTC)  # a Sunday
    found = read_when(text, now, UTC, ahead=True).moment.replace(tzinfo=None)
    assert found.isoformat(timespec="minutes") == wanted


@each(
    ("text", "wanted"),
    [
        ("gestern", "2026-11-21"),
        ("vor 2 Tagen", "2026-11-20"),
        ("vendredi", "2026-11-20"),
        ("先週の金曜日", "2026-11-13"),
        ("hace 2 semanas", "2026-11-08"),
        ("24 December", "2025-12-24"),
        ("am letzten Freitag im Monat", "2026-10-30"),
    ],
)
def test_the_past_is_understood_in_seven_languages(text, wanted) -> None:
    now = datetime(2026, 11, 22, 10, tzinfo=UTC)
    assert read_day(text, now, UTC).isoformat() == wanted


@each(
    "text", ["vor 2 Stunden", "letzten Freitag", "nächste Woche", "30. Februar", "9 Uhr 75", "日"]
)
def test_what_is_no_time_to_come_in_another_language_is_refused(text) -> None:
    with pytest.raises(UsageError, match="is not a date or time"):
        read_when(text, datetime(2026, 11, 22, 10, tzinfo=UTC), UTC, ahead=True)
