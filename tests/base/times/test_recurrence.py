"""Times that come again, wherever people live and whatever their clocks do."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from hypothesis import assume, given
from hypothesis import strategies as st

from familiar_cli.base.times.recurrence import (
    LAST,
    Recurrence,
    last_occurrence,
    next_occurrence,
    parse_recurrence,
)
from tests.support.cases import each

OSLO = ZoneInfo("Europe/Oslo")
NOW = datetime(2026, 11, 25, 23, 0, tzinfo=UTC)  # midnight of Thursday the 26th in Oslo
ZONES = st.sampled_from(
    [ZoneInfo(n) for n in ("UTC", "Europe/Oslo", "America/New_York", "Australia/Lord_Howe")]
)
MOMENTS = st.datetimes(
    datetime(2000, 1, 1),  # noqa: DTZ001  # the strategy adds the timezone
    datetime(2090, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
HOURS = st.none() | st.builds(time, st.integers(0, 23), st.sampled_from([0, 5, 30]))
INTERVALS = st.integers(1, 5)
DAYS = st.frozensets(st.integers(0, 6), min_size=1)
MONTH_DAYS = st.integers(1, 31) | st.just(LAST)
RULES = st.one_of(
    st.builds(Recurrence, st.sampled_from(["minute", "hour"]), INTERVALS),
    st.builds(Recurrence, st.just("day"), INTERVALS, hour=HOURS),
    st.builds(Recurrence, st.just("week"), INTERVALS, DAYS, hour=HOURS),
    st.builds(Recurrence, st.just("month"), INTERVALS, day=MONTH_DAYS, hour=HOURS),
    st.builds(
        Recurrence,
        st.just("month"),
        INTERVALS,
        st.frozensets(st.integers(0, 6), min_size=1, max_size=1),
        nth=st.sampled_from([1, 2, 3, 4, LAST]),
        hour=HOURS,
    ),
    st.builds(
        Recurrence,
        st.just("year"),
        INTERVALS,
        day=st.integers(1, 28),
        month=st.integers(1, 12),
        hour=HOURS,
    ),
)


@each(
    ("typed", "rule", "following"),
    [
        ("every monday 9:00", "every monday 09:00", "2026-11-30 09:00"),
        (
            "Every Mon, Wed and Fri at 6pm",
            "every monday, wednesday and friday 18:00",
            "2026-11-27 18",
        ),
        ("daily 8am", "every day 08:00", "2026-11-26 08:00"),
        ("every other day", "every 2 days", "2026-11-27 00:00"),
        ("every weekday 8:30", "every weekday 08:30", "2026-11-26 08:30"),
        ("every weekend", "every weekend", "2026-11-28 00:00"),
        ("every 2 weeks on monday 9:00", "every 2 weeks on monday 09:00", "2026-12-07 09:00"),
        ("weekly sun 03:30", "every sunday 03:30", "2026-11-29 03:30"),
        ("every 15th", "every month on the 15th", "2026-12-15 00:00"),
        ("monthly 1 04:00", "every month on the 1st 04:00", "2026-12-01 04:00"),
        ("every month on the 31st 9:00", "every month on the 31st 09:00", "2026-11-30 09:00"),
        ("every last day of the month", "every month on the last day", "2026-11-30 00:00"),
        ("every first monday", "every first monday", "2026-12-07 00:00"),
        ("every last friday 17:00", "every last friday 17:00", "2026-11-27 17:00"),
        ("yearly on 24 december", "every year on 24 December", "2026-12-24 00:00"),
        ("every February 29", "every year on 29 February", "2027-02-28 00:00"),
        ("every 30 minutes", "every 30 minutes", "2026-11-26 00:30"),
    ],
)
def test_the_forms(typed, rule, following) -> None:
    parsed = parse_recurrence(typed)
    assert str(parsed) == rule
    shown = next_occurrence(parsed, NOW, OSLO).astimezone(OSLO)
    assert f"{shown:%Y-%m-%d %H:%M}".startswith(following)


@each(
    "typed",
    [
        *("every now and then", "monday 9:00", "every", "every 0 days", "every day 25:00"),
        *("every 32nd", "every 31 april", "every minute 9:00", "every 101 weeks", "every moon"),
    ],
)
def test_anything_else_is_no_rule(typed) -> None:
    assert parse_recurrence(typed) is None


@given(RULES)
def test_a_rule_that_is_written_is_read_again(rule) -> None:
    assert parse_recurrence(str(rule)) == rule


@given(RULES, MOMENTS, ZONES)
def test_no_time_lies_between_the_last_one_and_the_next(rule, now, zone) -> None:
    first = date(2020, 2, 29)
    before, after = (f(rule, now, zone, first) for f in (last_occurrence, next_occurrence))
    assert before <= now < after
    assert next_occurrence(rule, before, zone, first) == after
    assert last_occurrence(rule, after, zone, first) == after


@given(st.builds(Recurrence, st.just("day"), hour=HOURS), MOMENTS, ZONES)
def test_days_keep_the_time_on_the_clock_and_come_once(rule, now, zone) -> None:
    after = next_occurrence(rule, now, zone)
    local = after.astimezone(zone)
    wall = local.replace(hour=0, minute=0, tzinfo=None).replace(
        hour=rule.hour.hour if rule.hour else 0, minute=rule.hour.minute if rule.hour else 0
    )
    is_real = wall.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None)
    assume(is_real == wall)  # the clock shows it on that day
    assert local.replace(tzinfo=None) == wall
    following = next_occurrence(rule, after, zone).astimezone(zone)
    assert following.date() - local.date() == timedelta(days=1)


def test_an_hour_that_is_skipped_means_the_next_and_one_that_comes_twice_the_first() -> None:
    rule = parse_recurrence("every day 2:30")
    spring, autumn = datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)
    skipped = next_occurrence(rule, spring, OSLO)
    assert f"{skipped.astimezone(OSLO):%d %H:%M}" == "29 03:30"
    twice = next_occurrence(rule, autumn, OSLO)
    assert twice == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert next_occurrence(rule, twice, OSLO) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)
