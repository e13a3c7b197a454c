"""Digests: what is always in a prompt, within its budget, and never poorer unasked."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import BadReplyError, ConfigError, ModelError
from familiar_cli.base.times.recurrence import Recurrence, last_occurrence
from familiar_cli.llm import tokens
from familiar_cli.llm.types import ScriptedModel
from familiar_cli.writing.consolidation.digests import (
    Digest,
    Distiller,
    read_schedule,
    run_notifier,
)
from familiar_cli.writing.consolidation.library import newest_sessions
from familiar_cli.writing.consolidation.period_states import Today
from familiar_cli.writing.pending import read_plans
from tests.support.cases import each
from tests.writing.consolidation.support import (
    DAY,
    MONDAY,
    Life,
    reply,
    sources_in,
    week_of_sessions,
)

NOW = datetime(2026, 4, 13, 12, 0, tzinfo=UTC)
COUNT = tokens.heuristic().count
WHENEVER = Recurrence("day", hour=time(3))
DAILY, SUNDAYS = read_schedule("daily 03:00", "k"), read_schedule("weekly sun 03:30", "k")
MONTHLY = read_schedule("monthly 1 04:00", "k")


@pytest.fixture
def life(tmp_path):
    return Life(tmp_path)


def distiller(life, now=NOW, *, budgets=(3000, 2000, 2000), long="on", **more):
    digests = {
        "short": Digest("short", budgets[0], DAILY, switched_on=True),
        "mid": Digest("mid", budgets[1], SUNDAYS, switched_on=True),
        "long": Digest("long", budgets[2], MONTHLY, switched_on=long == "on"),
    }
    return Distiller(
        newest_sessions(life.store),
        digests,
        COUNT,
        lambda _: life.engine(**more),
        Today(now, UTC),
        name="Aria",
        plans=read_plans(life.store),
    )


def make(life, name, now=NOW, **more):
    again = more.pop("again", False)
    return asyncio.run(distiller(life, now, **more).make(name, again=again))


def test_short_holds_the_newest_sessions_that_fit_the_oldest_first(life) -> None:
    week_of_sessions(life)
    made = make(life, "short", budgets=(100, 0, 0))
    text = life.file("digest/short.md")
    days = [line[3:13] for line in text.splitlines() if line.startswith("## ")]
    assert days == sorted(days)
    assert days[-1] == "2026-04-12"
    assert 1 < len(days) < 7
    assert made.tokens <= 100
    assert life.model.requests == []


def test_short_is_as_long_as_its_budget_lets_it_be(life) -> None:
    week_of_sessions(life)
    make(life, "short")
    assert life.file("digest/short.md").count("\n## ") == 7


def test_a_digest_does_not_say_what_its_only_session_does_not_say_any_more(life) -> None:
    path = life.session(MONDAY, "- Anna has a brown dog.\n")
    for name in ("short", "mid", "long"):
        make(life, name)
    life.edit(path, "- Anna has a brown dog.\n", "")
    asked = len(life.model.requests)
    assert [make(life, name).outcome for name in ("short", "mid", "long")] == [
        "made",
        "made",
        "nothing",
    ]
    assert life.file("digest/short.md").endswith("\n---\n# The latest sessions\n")
    assert "dog" not in life.file("digest/mid.md")
    assert "2026-04-06" in life.file("digest/long.md")  # all there is of years before
    assert [make(life, name).outcome for name in ("short", "mid")] == ["nothing", "nothing"]
    assert len(life.model.requests) == asked


def test_a_session_that_alone_is_too_long_is_cut_and_says_so(life) -> None:
    life.session(MONDAY, "".join(f"- Thing number {n} happened.\n" for n in range(200)))
    made = make(life, "short", budgets=(200, 0, 0))
    assert made.tokens <= 200
    assert life.file("digest/short.md").endswith("- (the rest of this session is left out here)\n")


def test_mid_is_made_of_short_and_long_takes_mid_in(life) -> None:
    week_of_sessions(life)
    life.store.write_file("digest/long.md", "# What was before\n\nWe met in spring.\n")
    for name in ("short", "mid", "long"):
        assert make(life, name).outcome == "made"
    asked = json.loads(life.model.requests[-1].body)["messages"][-1]["content"]
    assert "We met in spring." in asked
    assert [name for _, name, _ in sources_in(asked)] == [
        "what you know already",
        "what is new",
    ]
    assert "We met in spring." in life.file("digest/long.md")


@pytest.mark.parametrize("name", ["short", "mid", "long"])
def test_a_digest_whose_sources_are_as_they_were_is_left_alone(life, name) -> None:
    week_of_sessions(life)
    for digest in ("short", "mid", "long"):
        make(life, digest)
    before, calls = life.tree(), len(life.model.requests)
    assert make(life, name, NOW + 40 * DAY).outcome == "unchanged"
    assert (life.tree(), len(life.model.requests)) == (before, calls)


def test_long_may_not_shrink_by_half_without_a_persons_yes(life) -> None:
    week_of_sessions(life)
    make(life, "short")
    make(life, "mid")
    life.model = ScriptedModel([reply("We met.", *[(f"Fact {n} holds.", [1]) for n in range(20)])])
    make(life, "long")
    before = life.file("digest/long.md")
    assert len(before) > 400
    life.session(MONDAY, "- Something new.\n", "morning")
    life.model = ScriptedModel([reply("Mid again."), reply("Nothing.")])
    make(life, "short")
    make(life, "mid")
    held = make(life, "long")
    assert (held.outcome, held.plan_id) == ("held", "consolidate-long")
    assert life.file("digest/long.md") == before


def test_what_a_person_wrote_into_a_digest_stays(life) -> None:
    week_of_sessions(life)
    make(life, "short")
    make(life, "mid")
    life.store.append_file("digest/mid.md", "\nAnna's birthday is on Friday!\n")
    life.session(MONDAY, "- Something new.\n", "morning")
    make(life, "short")
    make(life, "mid")
    assert life.file("digest/mid.md").endswith("\nAnna's birthday is on Friday!\n")


def read_for(life, *, since: int) -> str:
    """Return all that the model was asked about digests since its request number `since`."""
    asked = life.model.requests[since:]
    return "\n".join(json.loads(one.body)["messages"][-1]["content"] for one in asked)


def test_what_scrolls_out_of_short_before_the_next_distillation_was_in_no_digest(life) -> None:
    told: dict[str, str] = {"mid": "", "long": ""}
    for day in range(36):
        life.session(MONDAY + day * DAY, f"- On day {day} Anna planted a row of beans.\n")
        now = datetime(2026, 4, 7, 12, tzinfo=UTC) + day * DAY
        make(life, "short", now, budgets=(120, 2000, 2000))
        for name, every in (("mid", 6), ("long", 12)):
            if day % every == every - 1:
                asked = len(life.model.requests)
                make(life, name, now, budgets=(120, 2000, 2000))
                told[name] += read_for(life, since=asked)
    for name, read in told.items():
        assert [day for day in range(36) if f"On day {day} Anna" not in read] == [], name


def test_a_digest_that_took_in_what_scrolled_out_is_fresh_and_made_again_of_the_same(life) -> None:
    few = (120, 2000, 2000)
    life.session(MONDAY, "- On day 0 Anna planted beans.\n")
    make(life, "short", NOW, budgets=few)
    make(life, "mid", NOW, budgets=few)
    for day in range(7, 20):
        life.session(MONDAY + day * DAY, f"- On day {day} Anna planted beans.\n")
    later = NOW + 14 * DAY
    make(life, "short", later, budgets=few)
    assert "On day 8 Anna" not in life.file("digest/short.md")
    assert make(life, "mid", later, budgets=few).outcome == "made"
    asked = len(life.model.requests)
    assert make(life, "mid", later + DAY, budgets=few).outcome == "unchanged"
    make(life, "mid", later + DAY, budgets=few, again=True)
    assert "On day 8 Anna" in read_for(life, since=asked)


def test_a_line_of_a_digest_names_the_days_that_it_rests_on(life) -> None:
    week_of_sessions(life)
    for name in ("short", "mid", "long"):
        make(life, name)
    assert "<!-- from 2026-04-06-evening -->" in life.file("digest/mid.md")
    assert f"<!-- from before {NOW:%Y-%m-%d} -->" in life.file("digest/long.md")


def test_what_goes_beyond_the_budget_is_left_out_from_the_end_and_told(life) -> None:
    week_of_sessions(life)
    make(life, "short")
    points = [(f"Fact number {n} is a rather long fact about the garden.", [1]) for n in range(20)]
    life.model = ScriptedModel([reply("We gardened.", *points)])
    made = make(life, "mid", budgets=(3000, 100, 2000))
    assert {r.rail for r in made.refused} == {"budget"}
    text = life.file("digest/mid.md")
    assert "Fact number 0" in text
    assert "Fact number 19" not in text


def test_a_failure_leaves_the_digest_due(life) -> None:
    week_of_sessions(life)
    make(life, "short")
    life.model = ScriptedModel([BadReplyError("502"), reply("Fine.")])
    with pytest.raises(ModelError):
        make(life, "mid")
    assert "mid" in distiller(life).due()
    assert make(life, "mid").outcome == "made"


def test_a_digest_is_due_when_its_time_has_come_and_its_sources_have_changed(life) -> None:
    week_of_sessions(life)
    sunday = datetime(2026, 4, 12, 3, 30, tzinfo=UTC)
    before = sunday - timedelta(hours=1)
    make(life, "short", before)
    make(life, "mid", before)
    life.session(MONDAY, "- Something new.\n", "morning")
    assert distiller(life, before + timedelta(minutes=10), long="off").due() == []
    make(life, "short", before + timedelta(minutes=20))
    assert distiller(life, sunday - timedelta(minutes=1), long="off").due() == []
    assert distiller(life, sunday, long="off").due() == ["mid"]


def test_the_middle_one_waits_while_most_of_the_short_one_is_in_it_already(life) -> None:
    for week in range(3):
        week_of_sessions(life, MONDAY + week * 7 * DAY)
    made_at = datetime(2026, 4, 26, 20, tzinfo=UTC)
    make(life, "short", made_at)
    make(life, "mid", made_at)
    week_of_sessions(life, MONDAY + 21 * DAY)
    for weeks, is_due in ((1, False), (5, True)):
        now = made_at + timedelta(weeks=weeks)
        make(life, "short", now)
        assert ("mid" in distiller(life, now, long="off").due()) is is_due
    for week in (4, 5):
        week_of_sessions(life, MONDAY + week * 7 * DAY)
    now = made_at + timedelta(weeks=3)
    make(life, "short", now)
    assert distiller(life, now, long="off").due() == ["mid"]


def test_the_middle_one_is_made_before_a_session_is_in_neither(life) -> None:
    for week in range(3):
        week_of_sessions(life, MONDAY + week * 7 * DAY)
    made_at = datetime(2026, 4, 26, 20, tzinfo=UTC)
    few = (450, 2000, 2000)
    make(life, "short", made_at, budgets=few)
    make(life, "mid", made_at, budgets=few)
    week_of_sessions(life, MONDAY + 21 * DAY)
    now = made_at + timedelta(weeks=1)
    make(life, "short", now, budgets=few)
    assert distiller(life, now, long="off", budgets=few).due() == ["mid"]


def test_a_digest_made_with_a_wrong_clock_does_not_wait_until_then(life) -> None:
    week_of_sessions(life)
    for name in ("short", "mid"):
        make(life, name, datetime(2038, 1, 19, 4, 0, tzinfo=UTC))
    life.session(MONDAY, "- Something new.\n", "morning")
    assert distiller(life, long="off").due() == ["short"]
    make(life, "short")
    assert distiller(life, long="off").due() == ["mid"]


def test_long_is_not_made_by_the_schedule_unless_switched_on(life) -> None:
    week_of_sessions(life)
    make(life, "short")
    make(life, "mid")
    assert "long" not in distiller(life, long="off").due()
    assert "long" in distiller(life, long="on").due()


def test_without_sessions_there_is_nothing_to_make_a_digest_of(life) -> None:
    assert [make(life, name).outcome for name in ("short", "mid", "long")] == ["nothing"] * 3
    assert distiller(life).due() == []


def test_private_sections_reach_no_digest(life) -> None:
    secret = "## In private: DM:anna <!-- private dm%2D42 -->\n\n- Anna is ill.\n"
    life.session(MONDAY, f"- Anna came by.\n\n{secret}")
    make(life, "short")
    assert "came by" in life.file("digest/short.md")
    assert "ill" not in life.file("digest/short.md")


def test_dry_run_asks_nobody_and_changes_nothing(life) -> None:
    week_of_sessions(life)
    make(life, "short")
    before = life.tree()
    assert make(life, "mid", dry_run=True).outcome == "made"
    assert (life.tree(), life.model.requests) == (before, [])


@given(
    st.sampled_from([DAILY, SUNDAYS, MONTHLY, read_schedule("monthly 31 02:30", "k")]),
    st.datetimes(datetime(2000, 1, 1), datetime(2050, 1, 1)),  # noqa: DTZ001
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
)
def test_the_last_scheduled_moment_is_not_in_the_future_and_stays_until_the_next(
    schedule, moment, zone
) -> None:
    now = moment.replace(tzinfo=UTC)
    last = last_occurrence(schedule, now, ZoneInfo(zone))
    assert last <= now
    assert last_occurrence(schedule, last, ZoneInfo(zone)) == last
    assert now - last < timedelta(days=32, hours=2)


@each(
    "text",
    [
        "",
        "daily",
        "daily 24:00",
        "daily 3:60",
        "weekly xyz 03:00",
        "monthly 0 1:00",
        "monthly 32 1:00",
    ],
)
def test_a_schedule_that_is_none_is_refused_with_examples(text) -> None:
    with pytest.raises(ConfigError) as caught:
        read_schedule(text, "distill.mid_at")
    assert "weekly sun 03:30" in str(caught.value.hint)


def test_a_notification_gets_the_message_as_one_argument_and_no_shell(tmp_path) -> None:
    out = tmp_path / "told"
    code = f"import sys; open({str(out)!r}, 'w').write(sys.argv[-1])"
    said = "made mid; $(rm -rf /) `x` 'y'"
    assert run_notifier([sys.executable, "-c", code], said, timeout_s=20) == ""
    assert out.read_text() == said


def test_a_notification_that_fails_or_hangs_is_told_of_and_is_not_fatal() -> None:
    assert "could not be run" in run_notifier(["/no/such/program"], "x", timeout_s=1)
    failing = [sys.executable, "-c", "import sys; sys.exit('no room')"]
    assert "failed with 1: no room" in run_notifier(failing, "x", timeout_s=20)
    hanging = [sys.executable, "-c", "import time; time.sleep(60)"]
    assert "took longer than 0.5 s" in run_notifier(hanging, "x", timeout_s=0.5)
