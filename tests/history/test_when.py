"""A moment is read as people type it."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from familiar_cli.errors import UsageError
from familiar_cli.history.when import read_when

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31", "2026-01-31T00:00:00"),
        ("2026-01-31T14:00", "2026-01-31T14:00:00"),
        ("2026-01-31T14:00+02:00", "2026-01-31T12:00:00"),
        ("7d", "2026-02-22T12:00:00"),
        ("90m", "2026-03-01T10:30:00"),
        ("2w", "2026-02-15T12:00:00"),
    ],
)
def test_dates_times_and_spans_are_read(text, expected) -> None:
    assert read_when(text, NOW, UTC).isoformat() == f"{expected}+00:00"


def test_a_date_is_a_day_of_the_familiars_timezone() -> None:
    assert read_when("2026-01-31", NOW, ZoneInfo("Asia/Tokyo")).hour == 15


@pytest.mark.parametrize("text", ["", "soon", "7y", "2026-02-30", "999999w"])
def test_anything_else_is_a_usage_error(text) -> None:
    with pytest.raises(UsageError):
        read_when(text, NOW, UTC)
