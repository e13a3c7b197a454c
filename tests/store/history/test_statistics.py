"""What was said is counted by channel, person and month."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from familiar_cli.base.who.identity import Author
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history.statistics import channel_counts, gather_statistics

ANNA = Author("discord", "1", display_name="Anna")


@pytest.fixture
def store(tmp_path):
    with closing(HistoryStore(tmp_path / "history.db")) as opened:
        opened.append("a", "user", "four", author=ANNA, at=datetime(2026, 1, 31, tzinfo=UTC))
        opened.append("a", "assistant", "four", at=datetime(2026, 2, 1, tzinfo=UTC))
        opened.append("b", "user", "four", author=ANNA, at=datetime(2025, 2, 1, tzinfo=UTC))
        yield opened


def test_all_is_counted(store) -> None:
    found = gather_statistics(store, len, viewer=OWNER)
    assert (found.turns, found.tokens) == (3, 12)
    assert [(c.channel, c.turns) for c in found.channels] == [("a", 2), ("b", 1)]
    assert [(a.author, a.turns) for a in found.authors] == [(ANNA, 2), (None, 1)]
    assert [(m.month, m.turns) for m in found.months] == [
        ("2025-02", 1),
        ("2026-01", 1),
        ("2026-02", 1),
    ]


def test_months_are_those_of_the_familiars_timezone(store) -> None:
    found = gather_statistics(store, len, viewer=OWNER, zone=ZoneInfo("America/New_York"))
    assert [month.month for month in found.months] == ["2025-01", "2026-01"]


def test_one_channel_is_counted_alone(store) -> None:
    found = gather_statistics(store, len, "b", viewer=OWNER)
    assert (found.turns, len(found.channels), len(found.months)) == (1, 1, 1)


def test_nothing_is_nothing(tmp_path) -> None:
    none = HistoryStore(tmp_path / "none.db")
    assert (channel_counts(none), gather_statistics(none, len, viewer=OWNER).tokens) == ((), 0)
