"""A time is read however it is written; where there is none, neighbours tell about when it was."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.imports.chat_times import MAX_UNDATED, date_messages, read_time
from familiar_cli.imports.contract import ForeignMessage
from familiar_cli.imports.source import Skip
from tests.support.cases import each

START = datetime(2025, 1, 1, tzinfo=UTC)


def message(at, line=1):
    return ForeignMessage(line, "user", None, "Robin", "Hi", "", at, "{}")


def spread(*times):
    found = date_messages([message(at, n) for n, at in enumerate(times, start=1)], START)
    return [(line.at, line.estimated) for line in found]


@each(
    ("value", "expected"),
    [
        ("2023-06-19T14:20:05.123Z", "2023-06-19T14:20:05.123"),
        ("2023-06-19T14:20:05+02:00", "2023-06-19T12:20:05"),
        ("2023-06-19 14:20:05", "2023-06-19T14:20:05"),
        (1687184405123, "2023-06-19T14:20:05.123"),
        ("1687184405123", "2023-06-19T14:20:05.123"),
        (1687184405, "2023-06-19T14:20:05"),
        (1687184405.5, "2023-06-19T14:20:05.500"),
        ("June 19, 2023 2:20pm", "2023-06-19T14:20:00"),
        ("June 19, 2023 12:00am", "2023-06-19T00:00:00"),
        ("june 9, 2023 12:05 PM", "2023-06-09T12:05:00"),
        ("Jun 19 2023 14:20:31", "2023-06-19T14:20:31"),
        ("19 June 2023 14:20", "2023-06-19T14:20:00"),
        ("2023-6-19 @14h 20m 05s 123ms", "2023-06-19T14:20:05.123"),
        ("2023-6-19@14h20m05s", "2023-06-19T14:20:05"),
        ("2023-6-9 @4h 2m 5s", "2023-06-09T04:02:05"),
    ],
)
def test_every_form_is_read(value, expected) -> None:
    assert read_time(value, UTC) == datetime.fromisoformat(expected).replace(tzinfo=UTC)


@each(
    "value",
    [
        *(None, "", "  ", 0, True, [], {}, "soon", "June 31, 2023 2:20pm", "June 19, 2023 13:20pm"),
        *(
            "2023-13-19 @14h 20m 05s",
            "Sept 99, 2023 2:20pm",
            1e300,
            float("nan"),
            -(10**18),
            "Mai 1",
        ),
        "9" * 400,
    ],
)
def test_what_is_no_time_is_none(value) -> None:
    assert read_time(value, UTC) is None


def test_a_time_without_a_zone_is_the_familiars() -> None:
    found = read_time("June 19, 2023 2:20pm", ZoneInfo("Asia/Tokyo"))
    assert found == datetime(2023, 6, 19, 5, 20, tzinfo=UTC)


def test_a_run_without_times_is_spread_between_its_neighbours() -> None:
    first, last = START, START + timedelta(minutes=3)
    assert spread(first, None, None, last) == [
        (first, False),
        (first + timedelta(minutes=1), True),
        (first + timedelta(minutes=2), True),
        (last, False),
    ]


def test_lines_before_the_first_time_and_after_the_last_are_a_second_apart() -> None:
    times = [at - START for at, _ in spread(None, START, None, None)]
    assert times == [timedelta(seconds=n) for n in (-1, 0, 1, 2)]


def test_without_any_time_the_last_line_is_as_old_as_the_file() -> None:
    """No line was said after the file was last changed."""
    assert [at - START for at, _ in spread(None, None)] == [timedelta(seconds=n) for n in (-1, 0)]


def test_a_neighbour_that_is_earlier_gives_no_time_before_the_one_above() -> None:
    assert spread(START, None, START - timedelta(days=1))[1] == (START, True)


def test_a_very_long_run_is_not_held_back() -> None:
    taken = 0

    def endless():
        nonlocal taken
        for number in range(MAX_UNDATED * 10):
            taken += 1
            yield message(None, number)

    next(date_messages(endless(), START))
    assert taken == MAX_UNDATED


@given(
    st.lists(
        st.none()
        | st.just("skip")
        | st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)).map(  # noqa: DTZ001
            lambda at: at.replace(microsecond=0, tzinfo=UTC)
        ),
        max_size=30,
    )
)
def test_every_line_comes_out_once_in_its_order_with_a_time(times) -> None:
    lines = [
        Skip(n, "x") if at == "skip" else message(at, n) for n, at in enumerate(times, start=1)
    ]
    found = list(date_messages(lines, START))
    assert [line.line for line in found] == [line.line for line in lines]
    for before, after in zip(lines, found, strict=True):
        if isinstance(before, ForeignMessage):
            assert after.estimated == (before.at is None)
            assert after.at == before.at or before.at is None
            assert after.at is not None
