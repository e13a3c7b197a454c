"""Laws of the calendar: each day lies in exactly one week, month and year, and a day does end."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import UsageError
from familiar_cli.writing.consolidation.periods import (
    TIERS,
    day_at,
    end_of,
    is_over,
    month_of,
    parse_period,
    period_of,
    period_parts,
    read_period,
    week_of,
    year_of,
)
from tests.support.cases import each

DAY = timedelta(days=1)
days = st.dates(date(1000, 1, 1), date(9000, 12, 31))
recent_days = st.dates(date(1990, 1, 1), date(2060, 12, 31))
tiers = st.sampled_from(TIERS)
zones = st.sampled_from(
    [
        *("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"),
        *("America/St_Johns", "Atlantic/Azores", "Pacific/Apia", "America/Asuncion"),
    ]
).map(ZoneInfo)
hours = st.integers(0, 12)
moments = st.datetimes(datetime(1990, 1, 1), datetime(2060, 1, 1)).map(  # noqa: DTZ001
    lambda moment: moment.replace(tzinfo=UTC)
)


@given(days, tiers)
def test_a_period_holds_the_day_it_was_asked_for(day, tier) -> None:
    found = period_of(day, tier)
    assert found.first <= day <= found.last
    assert day in found.days


@given(days, tiers)
def test_every_day_of_a_period_belongs_to_that_period_and_no_neighbour_does(day, tier) -> None:
    found = period_of(day, tier)
    assert {period_of(d, tier) for d in found.days} == {found}
    assert period_of(found.first - DAY, tier) != found
    assert period_of(found.last + DAY, tier) != found


@given(days, st.sampled_from(TIERS[1:]))
def test_the_parts_of_a_period_cover_its_days_once_and_in_order(day, tier) -> None:
    found = period_of(day, tier)
    assert tuple(d for part in period_parts(found) for d in part.days) == found.days


@given(days)
def test_a_week_belongs_to_the_month_and_year_of_its_thursday(day) -> None:
    thursday = week_of(day).first + 3 * DAY
    assert month_of(day).name == f"{thursday:%Y-%m}".zfill(7)
    assert year_of(day).name == f"{thursday.year:04}"


@given(days, tiers)
def test_a_period_is_read_back_from_its_name(day, tier) -> None:
    found = period_of(day, tier)
    assert read_period(found.name) == found


@given(st.text(max_size=12))
def test_any_text_names_a_period_or_none(text) -> None:
    found = read_period(text)
    assert found is None or found.name == text


@given(recent_days, zones, hours)
def test_days_end_one_after_the_other(day, zone, hour) -> None:
    assert end_of(day - DAY, zone, hour) < end_of(day, zone, hour)


@given(moments, zones, hours)
def test_a_moment_belongs_to_the_one_day_that_is_not_over_then(moment, zone, hour) -> None:
    day = day_at(moment, zone, hour)
    assert end_of(day - DAY, zone, hour) <= moment < end_of(day, zone, hour)


@given(recent_days, zones, moments, st.integers(0, 10**6))
def test_what_is_over_stays_over(day, zone, moment, later_s) -> None:
    found = week_of(day)
    later = moment + timedelta(seconds=later_s)
    assert is_over(found, moment, zone) <= is_over(found, later, zone)


def test_iso_week_1_may_begin_in_december_and_a_week_belongs_to_its_thursday() -> None:
    assert week_of(date(2025, 12, 29)).name == "2026-W01"
    assert month_of(date(2025, 12, 29)).name == "2026-01"
    assert year_of(date(2025, 12, 29)).name == "2026"
    assert week_of(date(2027, 1, 3)).name == "2026-W53"
    assert month_of(date(2027, 1, 3)).name == "2026-12"


def test_the_day_ends_when_the_persons_night_ends_in_their_timezone() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    before = datetime(2026, 4, 8, 2, 59, tzinfo=UTC)  # 4:59 in Berlin
    assert day_at(before, berlin) == date(2026, 4, 7)
    assert day_at(before + timedelta(minutes=1), berlin) == date(2026, 4, 8)
    assert day_at(before, ZoneInfo("America/New_York")) == date(2026, 4, 7)
    assert day_at(before, ZoneInfo("Asia/Tokyo")) == date(2026, 4, 8)


@each(("day", "hours"), [(date(2026, 3, 28), 23), (date(2026, 10, 24), 25), (date(2026, 6, 1), 24)])
def test_a_day_with_a_change_of_clocks_is_an_hour_shorter_or_longer(day, hours) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    length = end_of(day, berlin) - end_of(day - DAY, berlin)
    assert length == timedelta(hours=hours)


def test_a_cutoff_hour_that_the_clocks_leave_out_or_show_twice_is_passed_once() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    spring = end_of(date(2026, 3, 28), berlin, 2)
    assert spring == datetime(2026, 3, 29, 1, 0, tzinfo=UTC) or spring.astimezone(berlin).hour == 3
    autumn = end_of(date(2026, 10, 24), berlin, 2)
    assert autumn == datetime(2026, 10, 25, 1, 0, tzinfo=UTC)  # the second 2 o'clock


@each("name", ["", "2026-W54", "2026-13", "2026-02-30", "0000", "9999", "26"])
def test_a_name_that_is_no_period_is_refused_with_the_forms(name) -> None:
    with pytest.raises(UsageError) as caught:
        parse_period(name)
    assert "2026-W15" in str(caught.value.hint)


def test_a_name_of_another_tier_is_refused_with_the_command_that_fits() -> None:
    with pytest.raises(UsageError) as caught:
        parse_period("2026-04", "weekly")
    assert "consolidate monthly --period 2026-04" in str(caught.value.hint)
