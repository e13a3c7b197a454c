"""A visit ends after half an hour without a look."""

from __future__ import annotations

from datetime import timedelta

import pytest

from familiar_cli.base.times.clock import now
from familiar_cli.servers.web import home_pages


@pytest.fixture
def look(tmp_path, monkeypatch):
    monkeypatch.setattr(home_pages, "cache_dir", lambda: tmp_path)
    begun = now()

    def look_after(minutes: int):
        at = begun + timedelta(minutes=minutes)
        monkeypatch.setattr(home_pages, "now", lambda: at)
        since = home_pages._last_visit(tmp_path / "ada")
        return None if since is None else round((since - begun).total_seconds() / 60)

    return look_after


def test_the_first_visit_has_none_before_it(look) -> None:
    assert [look(0), look(10)] == [None, None]


def test_a_later_visit_begins_where_the_last_one_ended(look) -> None:
    assert [look(0), look(20), look(90), look(95)] == [None, None, 20, 20]


def test_a_visit_with_a_wrong_clock_is_forgotten(look) -> None:
    assert [look(9_999_999), look(0), look(90)] == [None, None, 0]


def test_a_damaged_record_is_as_none(look, tmp_path) -> None:
    (tmp_path / "visits.json").write_text('{"x": 1', "utf-8")
    assert look(0) is None
