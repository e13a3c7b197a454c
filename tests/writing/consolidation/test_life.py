"""Three years of a life: gaps, late arrivals, a failing model, two instances in two timezones."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest

from familiar_cli.writing.consolidation.library import look_at_library
from familiar_cli.writing.consolidation.period_states import days_of
from familiar_cli.writing.consolidation.periods import TIERS, day_of, period_of, read_period
from tests.support.cases import IS_NIGHT, each
from tests.writing.consolidation.support import DAY, Life, RuleModel, week_of_sessions

# ISO years to the last day: three, or in the gate the last, which has 53 weeks, with longer gaps
FIRST, LAST = date(2024, 1, 1) if IS_NIGHT else date(2025, 12, 29), date(2027, 1, 3)
SPOKEN = 0.9 if IS_NIGHT else 0.4  # of the days
ZONES = {"laptop": ZoneInfo("Europe/Berlin"), "phone": ZoneInfo("America/New_York")}


def sessions_of_a_life(chance):
    """Return (day it arrives, instance, day it is about, part): one a day, with gaps, some late."""
    found = []
    day = FIRST
    while day <= LAST:
        if chance.random() < SPOKEN:
            late = chance.choice([1, 3, 9, 40]) if chance.random() < 0.05 else 0
            instance = chance.choice(list(ZONES))
            found.append((day + late * DAY, instance, day, chance.choice(["morning", "evening"])))
        day += DAY
    return sorted(found)


def live(root, *, nights=7):
    """Live those years, consolidating every few nights on both instances; return both."""
    chance = random.Random(7)
    model = RuleModel(failing=0.1, seed=3)
    lives = {name: Life(root, instance=name, zone=zone) for name, zone in ZONES.items()}
    for one in lives.values():
        one.model = model
        one.cache_path = root / f"{one.instance}.json"
    waiting = sessions_of_a_life(chance)
    about = {day for _, _, day, _ in waiting}
    now = FIRST
    while now <= LAST + 60 * DAY:
        arrived = [entry for entry in waiting if entry[0] <= now]
        waiting = waiting[len(arrived) :]
        for _, instance, day, part in arrived:
            lives[instance].session(day, f"- Something happened, number {day.toordinal()}.\n", part)
        hours = chance.randrange(24)
        for one in lives.values():
            at = datetime(now.year, now.month, now.day, hours, tzinfo=UTC)
            one.run(at)
        now += chance.randint(1, 2 * nights) * DAY
    return lives, about


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    lives, about = live(tmp_path_factory.mktemp("life"), nights=45)
    end = datetime(2027, 6, 1, tzinfo=UTC)
    for _ in range(8):  # the model fails now and then; what failed stays due
        for one in lives.values():
            one.run(end)
    return lives, about, end


@each("tier", TIERS)
def test_every_day_is_covered_by_exactly_one_period_of_each_tier(lived, tier) -> None:
    lives, about, _ = lived
    library = look_at_library(lives["laptop"].store)
    files = (
        list(library.daily)
        if tier == "daily"
        else [period for period in library.above if period.tier == tier]
    )
    held = Counter((day, period) for period in files for day in days_of(library, period))
    assert about
    assert held == Counter((day, period_of(day, tier)) for day in about)


def test_a_second_run_changes_nothing_and_asks_nobody(lived) -> None:
    lives, _, end = lived
    before = lives["laptop"].tree()
    for one in lives.values():
        asked = len(one.model.requests)
        report = one.run(end)
        assert (report.done, report.stale, len(one.model.requests) - asked) == ([], [], 0)
    assert lives["laptop"].tree() == before


def test_every_remark_of_years_stands_in_one_daily_file(lived) -> None:
    lives, about, _ = lived
    text = "".join(t.decode() for path, t in lives["phone"].tree().items() if path[:5] == "daily")
    assert all(text.count(f"number {day.toordinal()}.") == 1 for day in about)


class Killed(BaseException):
    """The process is gone."""


class KillingJournal:
    """Ends the process at the n-th step of any transaction."""

    def __init__(self, at):
        self.left = at

    def _step(self, *_):
        self.left -= 1
        if self.left == 0:
            raise Killed

    def pending(self):
        return False

    def state(self):
        return self.left

    def begin(self, *, look=False):
        self._step()

    def prepare(self, source, message, changes, trailers, joined=None):
        self._step()

    def applied(self, changes):
        self._step()

    def abandoned(self, changes):
        pass


class KillingModel(RuleModel):
    def __init__(self, at):
        super().__init__()
        self.left = at

    async def complete(self, request, on_text=None):
        self.left -= 1
        if self.left == 0:
            raise Killed
        return await super().complete(request, on_text)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    one = Life(tmp_path_factory.mktemp("wanted"))
    week_of_sessions(one)
    one.run()
    return one.tree()


# Each write has three steps: in the gate every fourth, so each of them, and a period of each tier.
@each("at", range(1, 31) if IS_NIGHT else range(2, 31, 4))
def test_killing_it_at_any_step_of_any_write_changes_nothing(tmp_path, undisturbed, at) -> None:
    one = Life(tmp_path / "one")
    week_of_sessions(one)
    disturbed = Life(tmp_path / "one", journal=KillingJournal(at))
    with pytest.raises(Killed):
        disturbed.run()
    one.run()
    assert one.tree() == undisturbed


@each("at", [1, 2, 3])
def test_killing_it_while_the_model_is_thinking_changes_nothing(tmp_path, undisturbed, at) -> None:
    one = Life(tmp_path / "one")
    week_of_sessions(one)
    one.model = KillingModel(at)
    with pytest.raises(Killed):
        one.run()
    one.model = RuleModel()
    one.run()
    assert one.tree() == undisturbed


def test_a_record_names_only_periods_that_exist(lived) -> None:
    lives, _, _ = lived
    library = look_at_library(lives["laptop"].store)
    for period, file in library.above.items():
        assert file.sources
        assert read_period(period.name) == period
        assert all(lives["laptop"].store.exists(path) for path in file.sources)


def test_the_changes_of_clocks_cost_no_day(lived) -> None:
    lives, about, _ = lived
    library = look_at_library(lives["laptop"].store)
    changes = [date(2026, 3, 8), date(2026, 3, 29), date(2026, 10, 25), date(2026, 11, 1)]
    near = {day + n * DAY for day in changes for n in (-1, 0, 1)} & about
    assert near
    assert all(days_of(library, day_of(day)) for day in near)


def test_an_edit_right_after_a_look_is_seen(tmp_path) -> None:
    one = Life(tmp_path)
    one.cache_path = tmp_path / "cache.json"
    day = date(2024, 1, 1)
    one.session(day, "- Anna came by.\n")
    one.run()
    one.edit(f"sessions/{day}-evening.md", "came by", "went by")  # as long as before
    assert [d.period for d in one.run().done] == [str(day), "2024-W01", "2024-01", "2024"]
