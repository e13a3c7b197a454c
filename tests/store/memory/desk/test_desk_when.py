"""What people type for a time, wherever they live and whatever their clocks do."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import UsageError
from familiar_cli.base.times.when import WEEKDAYS
from familiar_cli.store.memory.desk import due_in, due_of, parse_due
from tests.support.cases import each

OSLO = ZoneInfo("Europe/Oslo")
NOW = datetime(2026, 11, 21, 22, 47, 30, tzinfo=UTC)  # a Saturday, 23:47:30 in Oslo
ZONES = st.sampled_from(
    [ZoneInfo(n) for n in ("UTC", "Europe/Oslo", "America/New_York", "Asia/Kolkata")]
    + [ZoneInfo(n) for n in ("Australia/Lord_Howe", "Pacific/Apia", "America/St_Johns")]
)
MOMENTS = st.datetimes(
    datetime(2000, 1, 1),  # noqa: DTZ001  # the strategy adds the timezone
    datetime(2090, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)


@each(
    ("typed", "written"),
    [
        ("2026-11-30", "2026-11-30"),
        ("2026-11-30 9:00", "2026-11-30 09:00"),
        ("2026-11-30T09:00:30", "2026-11-30 09:00:30"),
        ("2026-11-30T09:00Z", "2026-11-30 09:00+00:00"),
        ("2026-11-30 09:00 +02:00", "2026-11-30 09:00+02:00"),
        ("today", "2026-11-21"),
        ("Tomorrow", "2026-11-22"),
        ("tomorrow 9:00", "2026-11-22 09:00"),
        ("tomorrow, at 9.30", "2026-11-22 09:30"),
        ("tomorrow 12am", "2026-11-22 00:00"),
        ("tomorrow 12 pm", "2026-11-22 12:00"),
        ("friday", "2026-11-27"),
        ("on Fri 21:30", "2026-11-27 21:30"),
        ("saturday", "2026-11-28"),
        ("next sunday 9am", "2026-11-22 09:00"),
        ("23:50", "2026-11-21 23:50"),
        ("at 9:00", "2026-11-22 09:00"),
        ("in 2 hours", "2026-11-22 01:48"),
        ("in an hour", "2026-11-22 00:48"),
        ("in 20 min", "2026-11-22 00:08"),
        ("in 3 days", "2026-11-24 23:48"),
        ("in a week", "2026-11-28 23:48"),
        ("3d", "2026-11-24 23:48"),
        ("in 2h", "2026-11-22 01:48"),
    ],
)
def test_the_forms(typed, written) -> None:
    assert parse_due(typed, NOW, OSLO).written == written


@each(
    "typed",
    [
        "",
        "soon",
        "2026-02-30",
        "2026-11-30 25:00",
        "tomorrow 9",
        "13pm",
        "0am",
        "in 2 moons",
        "in 999999999 weeks",
        "in 999999999 hours",
        "friday friday",
        "9:75",
        "in -1 days",
        "2 hours ago",
        "last friday",
    ],
)
def test_anything_else_is_refused_with_the_forms(typed) -> None:
    with pytest.raises(UsageError) as error:
        parse_due(typed, NOW, OSLO)
    assert "tomorrow 9:00" in error.value.hint


@given(MOMENTS, ZONES)
def test_what_is_written_is_read_as_the_same_moment_rounded_up(moment, zone) -> None:
    written = due_of(moment, zone).written
    read = due_in(f"call @{written}").due.at(zone)
    assert timedelta(0) <= read - moment < timedelta(minutes=1)
    assert (read.second, read.microsecond) == (0, 0)


@given(MOMENTS, ZONES, st.integers(0, 10_000))
def test_hours_are_counted_whatever_the_clocks_do(now, zone, hours) -> None:
    due = parse_due(f"in {hours} hours", now, zone).at(zone)
    assert timedelta(0) <= due - now - timedelta(hours=hours) < timedelta(minutes=1)


@given(MOMENTS, ZONES, st.sampled_from(WEEKDAYS))
def test_a_weekday_is_within_a_week_and_never_today(now, zone, day) -> None:
    found = parse_due(day, now, zone).moment.date()
    ahead = (found - now.astimezone(zone).date()).days
    assert 1 <= ahead <= 7
    assert WEEKDAYS[found.weekday()] == day


@given(MOMENTS, ZONES, st.times())
def test_an_hour_alone_is_the_next_time_it_comes(now, zone, hour) -> None:
    due = parse_due(f"{hour:%H:%M}", now, zone)
    assert (due.moment.hour, due.moment.minute) == (hour.hour, hour.minute)
    days = (due.moment.date() - now.astimezone(zone).date()).days
    assert days in {0, 1}
    assert due.at(zone) > now or days == 1


@given(st.text(max_size=40))
def test_no_text_breaks_it(typed) -> None:
    with suppress(UsageError):
        assert parse_due(typed, NOW, OSLO).moment


def test_the_hour_that_comes_twice_is_told_apart() -> None:
    now = datetime(2026, 10, 24, 23, 30, tzinfo=UTC)  # 01:30 in Oslo; the clocks go back at 03:00
    first, second = (parse_due(f"in {n} hours", now, OSLO) for n in (1, 2))
    assert (first.written, second.written) == ("2026-10-25 02:30", "2026-10-25 02:30+01:00")
    assert second.at(OSLO) - first.at(OSLO) == timedelta(hours=1)


def test_a_time_that_the_clocks_leave_out_is_an_hour_later() -> None:
    due = parse_due("2026-03-29 02:30", NOW, OSLO).at(OSLO)
    assert due.astimezone(OSLO).isoformat() == "2026-03-29T03:30:00+02:00"


def test_days_keep_the_time_of_day_over_a_change_of_clocks() -> None:
    now = datetime(2026, 10, 24, 10, 0, tzinfo=UTC)
    assert parse_due("in 1 day", now, OSLO).written == "2026-10-25 12:00"
