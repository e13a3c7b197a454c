"""What a prompt says about itself: the time where the familiar lives, and that nothing is kept."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from familiar_cli.base.languages import ENGLISH
from familiar_cli.context.providers.history import SystemBlockProvider, spoken_time
from familiar_cli.context.types import PromptSpan
from tests.context.support import request
from tests.support.cases import each


def block(zone="UTC", *, tells_time=True, at_start=False, **asked):
    provider = SystemBlockProvider(ZoneInfo(zone), tells_time=tells_time, at_start=at_start)
    return asyncio.run(provider.contribute(request(**asked)))


@each(
    ("zone", "at", "told"),
    [
        ("UTC", (2026, 5, 8, 14, 34), "Friday, 2026-05-08 at 14:34 UTC"),
        ("America/New_York", (2026, 5, 8, 18, 34), "Friday, 2026-05-08 at 14:34 EDT (UTC-04:00)"),
        ("Europe/Oslo", (2026, 12, 31, 23, 30), "Friday, 2027-01-01 at 00:30 CET (UTC+01:00)"),
        ("Asia/Kolkata", (2026, 5, 8, 18, 31), "Saturday, 2026-05-09 at 00:01 IST (UTC+05:30)"),
        ("America/Sao_Paulo", (2026, 5, 8, 2, 0), "Thursday, 2026-05-07 at 23:00 UTC-03:00"),
        # The clocks go forward at 01:00 UTC, and back at 01:00 UTC.
        ("Europe/Oslo", (2026, 3, 29, 0, 59), "Sunday, 2026-03-29 at 01:59 CET (UTC+01:00)"),
        ("Europe/Oslo", (2026, 3, 29, 1, 0), "Sunday, 2026-03-29 at 03:00 CEST (UTC+02:00)"),
        ("Europe/Oslo", (2026, 10, 25, 0, 30), "Sunday, 2026-10-25 at 02:30 CEST (UTC+02:00)"),
        ("Europe/Oslo", (2026, 10, 25, 1, 30), "Sunday, 2026-10-25 at 02:30 CET (UTC+01:00)"),
    ],
)
def test_the_time_is_told_as_on_the_wall(zone, at, told) -> None:
    assert spoken_time(datetime(*at, tzinfo=UTC), ZoneInfo(zone)) == told


def test_the_systems_timezone_is_used_where_none_is_set() -> None:
    assert "2026-05-0" in spoken_time(datetime(2026, 5, 8, 14, 34, tzinfo=UTC), None)


def test_on_the_record_no_mode_is_named() -> None:
    (piece,) = block()
    assert piece.text == "--- System ---\nDate and time: Friday, 2026-01-02 at 03:04 UTC"
    assert (piece.place, piece.depth) == (PromptSpan.depth, 1)


def test_off_the_record_it_says_so() -> None:
    (piece,) = block(off_record=True)
    assert piece.text.splitlines()[2:] == [ENGLISH.off_record]


def test_without_a_time_only_the_mode_is_left() -> None:
    (piece,) = block(tells_time=False, off_record=True)
    assert piece.text == f"--- System ---\n{ENGLISH.off_record}"
    assert block(tells_time=False) == []


def test_it_may_stand_at_the_start() -> None:
    (piece,) = block(at_start=True)
    assert piece.place is PromptSpan.main
