"""A summary becomes due when turns have left the prompt, and one process at a time makes it."""

from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import timedelta

import pytest

from familiar_cli.base.errors import ModelError
from familiar_cli.base.jobs import Jobs
from familiar_cli.context.pipeline import ContextPipeline
from familiar_cli.context.providers.history import HistoryProvider
from familiar_cli.context.summarising import Summariser, SummaryKeeper, SummaryLimits
from familiar_cli.context.trace import make_trace
from familiar_cli.llm import tokens
from familiar_cli.llm.types import ScriptedModel
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history.summaries import PUBLIC, Summaries
from familiar_cli.store.memory.store.store import hold_lock
from familiar_cli.store.passes import Failures, Passes
from tests.context.support import ANNA, request
from tests.support.passes import set_back
from tests.support.viewers import rules_of


@pytest.fixture
def store(tmp_path):
    with closing(HistoryStore(tmp_path / "history.db")) as opened:
        yield opened


def talk(store, count, channel="cli") -> None:
    for number in range(count):
        store.append(channel, "user", f"turn {number}", author=ANNA)


def background(store) -> Passes:
    root = store.path.parent
    return Passes(root, Failures(root / "runs" / "failed"))


def past(store, *replies, every=10, private=()) -> tuple[SummaryKeeper, Jobs]:
    jobs, summaries = Jobs(), Summaries(store)
    summariser = Summariser(
        summaries,
        ScriptedModel(replies),
        tokens.heuristic(),
        SummaryLimits(500, 3000),
        name="Aria",
        label=str,
    )
    keeper = SummaryKeeper(
        summaries,
        lambda: rules_of(*private),
        every,
        lambda: summariser,
        jobs,
        background=background(store).summary,
    )
    return keeper, jobs


def trace(store, *, recent=8, channel="cli"):
    """The record of a turn that showed the newest turns of a channel."""
    provider = HistoryProvider(store, recent_turns=recent)
    asked = request("now", channel_id=channel)
    assembled = asyncio.run(ContextPipeline([provider], tokens.heuristic()).assemble(asked))
    turn = store.append(channel, "user", "now", author=ANNA)
    from msgspec.structs import replace

    return replace(make_trace(assembled, model="m", counter="c"), turn=turn.id)


def test_turns_that_are_still_shown_are_not_summarised(store) -> None:
    talk(store, 8)
    look, _ = past(store, every=1)

    assert look.look_back(trace(store)) is None


def test_a_few_turns_are_not_worth_a_call(store) -> None:
    talk(store, 8 + 5)
    look, _ = past(store)

    assert look.look_back(trace(store)) is None


def test_turns_that_have_left_the_prompt_are_summarised_up_to_the_oldest_shown(store) -> None:
    talk(store, 8 + 15)
    look, jobs = past(store, "So far.")
    made = trace(store)

    due = look.look_back(made)

    shown = [c.turn_id for c in made.contributions if c.turn_id]
    assert due.through_id == min(shown) - 1
    assert due.turns == due.through_id
    assert jobs.drain().done == (due.name,)
    assert Summaries(store).latest(PUBLIC, rules_of()).last_turn_id == due.through_id


def test_no_turn_falls_between_the_summary_and_the_prompt(store) -> None:
    talk(store, 30)
    look, jobs = past(store, *["So far."] * 99, every=1)
    for _ in range(12):
        made = trace(store)
        look.look_back(made)
        jobs.drain()
        shown = min(c.turn_id for c in made.contributions if c.turn_id)
        assert Summaries(store).latest(PUBLIC, rules_of()).last_turn_id >= shown - 1


def test_zero_means_never(store) -> None:
    talk(store, 99)
    look, _ = past(store, every=0)

    assert look.look_back(trace(store)) is None


def test_a_dry_run_makes_nothing_due(store) -> None:
    talk(store, 99)
    from msgspec.structs import replace

    look, _ = past(store)
    assert look.look_back(replace(trace(store), turn=None)) is None


def test_a_private_channel_has_a_summary_of_its_own(store) -> None:
    talk(store, 30, "dm")
    look, jobs = past(store, "Private.", private={"dm"})

    assert look.look_back(trace(store, channel="dm")).scope == "dm"
    jobs.drain()
    assert Summaries(store).latest("dm", rules_of()).text == "Private."
    assert Summaries(store).latest(PUBLIC, rules_of()) is None


def test_the_same_work_is_taken_on_once(store) -> None:
    talk(store, 40)
    look, jobs = past(store, "So far.")

    assert look.look_back(trace(store)) is not None
    assert look.look_back(trace(store)) is None
    assert len(jobs.names) == 1
    jobs.cancel()


def test_two_processes_do_not_make_the_same_summary(store) -> None:
    talk(store, 40)
    look, jobs = past(store, "So far.")
    due = look.look_back(trace(store))
    summaries = Summaries(store)

    with hold_lock(background(store).summary(PUBLIC).lock_path, 0):
        assert jobs.drain().done == (due.name,)
    assert summaries.latest(PUBLIC, rules_of()) is None

    look.look_back(trace(store))
    jobs.drain()
    assert summaries.latest(PUBLIC, rules_of()).text == "So far."


def test_a_failure_is_remembered_and_rests_for_a_while(store) -> None:
    talk(store, 40)
    look, jobs = past(store, ModelError("the server is gone"), "So far.")
    look.look_back(trace(store))
    failed = background(store).summary(PUBLIC)

    ((_, reason),) = jobs.drain().failed

    assert reason == "the server is gone"
    assert failed.failures.of(failed.name).message == "the server is gone"
    assert look.look_back(trace(store)) is None

    set_back(failed.failures, failed.name, timedelta(minutes=1))
    assert look.look_back(trace(store)) is not None
    jobs.drain()
    assert failed.failures.of(failed.name) is None


def test_a_private_summary_that_failed_holds_up_no_other(store) -> None:
    talk(store, 40)
    talk(store, 40, "dm")
    look, jobs = past(store, ModelError("gone"), "So far.", private=["dm"])
    look.look_back(trace(store, channel="dm"))
    jobs.drain()

    assert look.look_back(trace(store, channel="dm")) is None
    assert look.look_back(trace(store)) is not None
    jobs.cancel()


def test_work_that_is_broken_off_lets_go_of_its_lock(store) -> None:
    talk(store, 40)
    look, jobs = past(store)
    due = look.look_back(trace(store))

    class Slow(ScriptedModel):
        async def complete(self, request, on_text=None):
            await asyncio.sleep(30)

    look.summariser = lambda: Summariser(
        Summaries(store), Slow([]), tokens.heuristic(), SummaryLimits(9, 900), name="A", label=str
    )
    assert jobs.drain(0.3).cancelled == (due.name,)
    with hold_lock(background(store).summary(PUBLIC).lock_path, 0):
        pass
    assert background(store).summary(PUBLIC).retry_in_s == 0
