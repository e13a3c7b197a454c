"""A look that passes over what is done with tells what a look at everything would."""

from __future__ import annotations

import os
import shutil
import tempfile
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from familiar_cli.base import files
from familiar_cli.store.memory.store.files import MemoryEntry
from familiar_cli.writing.consolidation.calendar import survey_periods
from familiar_cli.writing.consolidation.library import _entries_by_year
from familiar_cli.writing.consolidation.period_states import Today, coverage
from familiar_cli.writing.consolidation.periods import (
    TIERS,
    period_in,
    session_day,
    year_in,
    year_of,
)
from tests.support.cases import each
from tests.writing.consolidation.support import Life

NOW = datetime(2027, 2, 1, 12, tzinfo=UTC)
DAYS = [
    *("2023-12-31", "2024-01-01", "2024-06-03", "2024-12-29", "2024-12-30", "2025-01-01"),
    *("2025-07-07", "2025-12-28", "2025-12-29", "2026-01-04", "2026-05-05"),
]
LONG_AGO = 1_700_000_000


@pytest.fixture(autouse=True, scope="module")
def _old_files(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "SETTLED_NS", -1)
        life = live(tmp_path_factory.mktemp("life"))
        patch.setattr(OldLife, "first", life, raising=False)
        yield


class OldLife(Life):
    """A life of which no file is so young that it may change unseen."""

    first: ClassVar[OldLife]

    def __init__(self, root):
        super().__init__(root)
        self.cache_path = root / "cache.json"
        self._second = LONG_AGO

    def age(self, rel_path):
        self._second += 1
        os.utime(self.store.root / rel_path, (self._second, self._second))

    def age_all(self):
        for rel_path in sorted(self.tree()):
            if (self.store.root / rel_path).stat().st_mtime > LONG_AGO + 1_000_000:
                self.age(rel_path)

    def survey(self, *, cached, **more):
        path = self.cache_path if cached else None
        return survey_periods(self.store, Today(NOW, UTC), self.instance, path, **more)


def wanted(found):
    every = [period for tier in TIERS for period in found.periods(tier)]
    return [(p.name, found.of(p).state) for p in every if found.of(p).wants_work]


def live(root):
    life = OldLife(root)
    for day in DAYS:
        life.session(date.fromisoformat(day), f"- On {day} Anna came by.\n")
    life.age_all()
    life.run(NOW)
    life.age_all()
    life.survey(cached=True)
    return life


def lived(root):
    """Return a life that has gone on for years: a copy of the first one."""
    shutil.copytree(OldLife.first.root, root, dirs_exist_ok=True)
    life = OldLife(root)
    life._second = OldLife.first._second
    life.survey(cached=True)
    return life


def test_a_year_that_is_done_with_is_not_looked_into(tmp_path) -> None:
    life = lived(tmp_path)
    found = life.survey(cached=True)
    assert sorted(found.library.settled) == ["2023", "2024", "2025", "2026"]
    assert found.library.sessions == found.library.daily == found.library.above == {}
    assert wanted(found) == []


def test_the_coverage_of_a_year_that_is_passed_over_is_told_all_the_same(tmp_path) -> None:
    life = lived(tmp_path)
    passed_over, everything = (life.survey(cached=cached) for cached in (True, False))
    assert coverage(passed_over.library) == coverage(everything.library)
    assert coverage(everything.library)["yearly"].days == len(DAYS)


def test_the_year_that_goes_on_is_looked_into(tmp_path) -> None:
    life = lived(tmp_path)
    life.session(date(2027, 1, 20), "- Bob sang.\n")
    life.age_all()
    assert wanted(life.survey(cached=True)) == [("2027-01-20", "due")]
    assert sorted(life.survey(cached=True).library.settled) == ["2023", "2024", "2025", "2026"]


@each("rel_path", ["weekly/2024-W23.md", "yearly/2024.md", "daily/2024-06-03_laptop.md"])
def test_a_file_that_is_taken_away_again_after_it_was_made_is_missed(tmp_path, rel_path) -> None:
    life = lived(tmp_path)
    content = life.store.read_bytes(rel_path)
    life.store.delete_file(rel_path)
    assert wanted(life.survey(cached=True))
    life.run(NOW)
    life.store.write_file(rel_path, content)
    life.age(rel_path)
    life.survey(cached=True)
    life.store.delete_file(rel_path)
    assert wanted(life.survey(cached=True))


def test_what_somebody_asks_for_is_looked_at(tmp_path) -> None:
    life = lived(tmp_path)
    one = next(iter(life.survey(cached=False).periods("weekly")))
    assert one in life.survey(cached=True, only=one).periods("weekly")
    assert one in life.survey(cached=True, unwritten={one.first}).periods("weekly")
    everything = life.survey(cached=True, everything=True)
    assert everything.periods("daily") == life.survey(cached=False).periods("daily")


def test_from_another_viewpoint_nothing_is_settled(tmp_path) -> None:
    life = lived(tmp_path)
    for instance, today in (("phone", Today(NOW, UTC)), ("laptop", Today(NOW, UTC, 0))):
        found = survey_periods(life.store, today, instance, life.cache_path)
        assert found.periods("daily")
        life.survey(cached=True)


@each(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b'{"version": 3}',
        b"\xff",
        b'{"version": 3, "files": {"a": 1}, "viewpoint": "laptop 5 UTC", "settled": {"2024": 3}}',
    ],
)
def test_a_cache_that_is_damaged_is_no_cache(tmp_path, content) -> None:
    life = lived(tmp_path)
    life.cache_path.write_bytes(content)
    found = life.survey(cached=True)
    assert found.periods("daily") == life.survey(cached=False).periods("daily")


@pytest.mark.posix
def test_an_unreadable_file_is_named_at_every_look(tmp_path) -> None:
    life = lived(tmp_path)
    (life.store.root / "weekly/2024-W23.md").write_bytes(b"\xff\xfe")
    (life.store.root / "sessions/2024-06-04-evening.md").symlink_to("2024-06-03-evening.md")
    life.age("weekly/2024-W23.md")
    for _ in range(2):
        problems = life.survey(cached=True).library.problems
        assert [p for p in problems if "2024-W23" in p]
        assert [p for p in problems if "2024-06-04" in p]


days = st.sampled_from(DAYS).map(date.fromisoformat)
changes = st.tuples(
    st.sampled_from(["edit", "delete", "session", "by hand", "run", "touch"]),
    days,
    st.sampled_from(TIERS),
)


@settings(max_examples=10)
@given(st.lists(changes, max_size=8))
def test_what_is_due_is_due_with_a_cache_and_without(steps) -> None:
    with tempfile.TemporaryDirectory() as directory:
        life = lived(Path(directory))
        for step in steps:
            change(life, *step)
            life.age_all()
            passed_over, everything = (life.survey(cached=cached) for cached in (True, False))
            assert wanted(passed_over) == wanted(everything)
            assert coverage(passed_over.library) == coverage(everything.library)


def change(life, kind, day, tier):
    root = life.store.root
    paths = sorted((root / tier).glob("*.md"))
    path = paths[day.toordinal() % len(paths)] if paths else root / tier / "2024-02-05.md"
    session = root / f"sessions/{day}-evening.md"
    match kind:
        case "edit" if session.exists():
            session.write_bytes(session.read_bytes().replace(b"Anna", b"Otto"))
        case "delete" if path.exists():
            path.unlink()
        case "session":
            life.session(day + timedelta(days=1), "- Bob sang.\n")
        case "by hand":
            path.write_text("# By hand\n\nIt was good.\n", encoding="utf-8")
        case "touch" if path.exists():
            life.age(path.relative_to(root).as_posix())
        case "run":
            life.run(NOW)


names = st.one_of(
    st.builds(
        "sessions/{}-{}.md".format,
        st.dates(max_value=date(9998, 12, 20)),
        st.sampled_from(["night", "morning", "evening"]),
    ),
    st.builds("daily/{}_laptop.md".format, st.dates(max_value=date(9998, 12, 20))),
    st.builds("weekly/{:04}-W{:02}.md".format, st.integers(1, 9998), st.integers(1, 53)),
    st.builds("monthly/{:04}-{:02}.md".format, st.integers(1, 9998), st.integers(1, 12)),
    st.builds("sessions/{}.md".format, st.text(max_size=12)),
)


@given(names)
def test_a_file_is_put_into_the_year_of_its_day(rel_path) -> None:
    placed, named = session_day(rel_path), period_in(rel_path)
    if placed or named:
        first = placed[0] if placed else named[0].first
        assert year_in(rel_path) == year_of(first).name


@given(st.sets(names, max_size=30), st.sampled_from(["sessions", "daily"]))
def test_files_are_put_into_years_in_runs_as_they_would_be_one_by_one(found, directory) -> None:
    paths = sorted(path for path in found if path.startswith(f"{directory}/"))
    entries = [MemoryEntry(path, is_dir=False, size_bytes=1, modified=NOW) for path in paths]
    by_year: dict[str, list[str]] = {}
    for year, some in _entries_by_year(entries, len(directory) + 1, 5):
        by_year.setdefault(year, []).extend(entry.rel_path for entry in some)
    one_by_one: dict[str, list[str]] = {}
    for path in paths:
        if (year := year_in(path)) is not None:
            one_by_one.setdefault(year, []).append(path)
    assert by_year == one_by_one
