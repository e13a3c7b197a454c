"""Moments are in UTC, cut to milliseconds, and come back as they were written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.times.clock import (
    iso,
    now,
    parse_iso,
    since_1970,
    stopwatch_s,
    to_ms,
    to_utc,
    to_zone,
)
from tests.support.cases import each

zones = st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m)))
moments = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=zones)  # noqa: DTZ001


@given(moments)
def test_what_was_written_is_read_back_to_the_millisecond(moment) -> None:
    assert parse_iso(iso(moment)) == to_ms(moment)


@given(moments, moments)
def test_texts_sort_as_the_moments_happened(one, other) -> None:
    assert (iso(one) < iso(other)) == (to_ms(one) < to_ms(other))


@given(moments)
def test_a_moment_keeps_its_milliseconds_and_loses_the_rest(moment) -> None:
    lost = moment - to_ms(moment)
    assert timedelta(0) <= lost < timedelta(milliseconds=1)
    assert to_ms(moment).tzinfo is UTC


def test_the_present_is_in_utc_and_whole_milliseconds() -> None:
    present = now()
    assert (present.tzinfo, present.microsecond % 1000) == (UTC, 0)


def test_a_time_without_a_zone_is_refused_where_it_would_be_guessed() -> None:
    with pytest.raises(ValueError, match="no timezone"):
        to_ms(datetime(2026, 1, 1))  # noqa: DTZ001


def test_a_text_without_a_zone_is_read_as_utc() -> None:
    assert parse_iso("2026-01-31T10:00:00") == datetime(2026, 1, 31, 10, tzinfo=UTC)


def test_a_text_that_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="tomorrow"):
        parse_iso("tomorrow")


def test_a_stopwatch_never_goes_back() -> None:
    assert stopwatch_s() <= stopwatch_s()


@each("zone", [timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))])
@each("far", [datetime.min, datetime.max])  # noqa: DTZ901
def test_a_moment_at_the_end_of_the_calendar_is_shown_in_some_zone(zone, far) -> None:
    assert to_zone(far.replace(tzinfo=UTC), zone) == far.replace(tzinfo=UTC)


class OnWindows(datetime):
    """A time on a system whose own timezone knows nothing before 1970."""

    def astimezone(self, tz=None):
        if self.year < 1970 and (tz is None or self.tzinfo is None):
            raise OSError(22, "Invalid argument")
        return super().astimezone(tz)


@each("year", [1969, 1600, 1900])
def test_times_before_1970_have_the_system_zone_everywhere(year) -> None:
    naive = OnWindows(year, 7, 1, 12)
    assert abs(to_utc(naive, None) - datetime(year, 7, 1, 12, tzinfo=UTC)) <= timedelta(hours=15)
    aware = OnWindows(year, 7, 1, 12, tzinfo=UTC)
    assert to_zone(aware, None) == aware
    assert (
        to_zone(aware, None).utcoffset() == aware.replace(year=year + 400).astimezone().utcoffset()
    )


def test_seconds_before_1970_are_a_time() -> None:
    assert since_1970(-86_400.5).isoformat() == "1969-12-30T23:59:59.500000+00:00"
    with pytest.raises(OverflowError):
        since_1970(1e15)
