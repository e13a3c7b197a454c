"""The pipeline's promises: nobody spoils it for the others, and the order is always the same."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref

import pytest

from familiar_cli.base.errors import LimitError, ModelError
from familiar_cli.base.jobs import in_thread
from familiar_cli.base.who.identity import Author
from familiar_cli.context.pipeline import ContextPipeline
from familiar_cli.context.request import Refill
from familiar_cli.llm import tokens
from familiar_cli.llm.types import ScriptedModel
from tests.context.support import Scripted, piece, request
from tests.support.cases import each


def pipeline(*providers, **more) -> ContextPipeline:
    return ContextPipeline(providers, tokens.heuristic(), **more)


def assemble(*providers, asked=None, **more):
    return asyncio.run(pipeline(*providers, **more).assemble(asked or request()))


def verdicts(assembled) -> list[str]:
    return [report.verdict for report in assembled.providers]


def lead(assembled) -> str:
    return assembled.messages[0]["content"]


def test_what_was_said_is_the_last_message() -> None:
    assert assemble(asked=request("Good {{user}} morning")).messages == (
        {"role": "user", "content": "Good {{user}} morning"},
    )


def test_pieces_stand_in_the_order_of_the_providers_not_of_their_speed() -> None:
    slow, quick = Scripted("slow", sleep_s=0.05), Scripted("quick")

    assert lead(assemble(slow, quick)) == "slow\n\nquick"


def test_providers_run_side_by_side() -> None:
    start = time.perf_counter()
    assemble(*(Scripted(str(n), sleep_s=0.2) for n in range(5)))

    assert time.perf_counter() - start < 0.8


def test_quick_providers_share_a_thread() -> None:
    class SharedName(Scripted):
        async def contribute(self, asked):
            return [piece(threading.current_thread().name)]

    made = assemble(*(SharedName(str(n)) for n in range(5)))

    assert len(set(lead(made).split())) == 1


def test_a_failing_provider_leaves_the_others_alone() -> None:
    made = assemble(Scripted("a"), Scripted("b", fail=KeyError("x")), Scripted("c"))

    assert verdicts(made) == ["answered", "failed", "answered"]
    assert made.providers[1].reason == "KeyError: 'x'"
    assert lead(made) == "a\n\nc"


def test_a_late_provider_is_reported_and_not_awaited() -> None:
    start = time.perf_counter()
    made = assemble(Scripted("late", sleep_s=5, deadline_s=0.05), Scripted("b"))

    assert time.perf_counter() - start < 1
    assert verdicts(made) == ["late", "answered"]
    assert made.providers[0].reason == "no answer within 0.05 s"


async def test_a_provider_that_does_not_listen_is_not_awaited() -> None:
    start = time.perf_counter()
    made = await pipeline(Scripted("deaf", deaf=True, deadline_s=0.05)).assemble(request())

    assert time.perf_counter() - start < 0.4
    assert verdicts(made) == ["late"]
    await asyncio.sleep(0.7)  # let it end before the loop does


def test_an_inner_timeout_is_a_failure_not_the_deadline() -> None:
    made = assemble(Scripted("socket", fail=TimeoutError("no route")))

    assert [(r.verdict, r.reason) for r in made.providers] == [("failed", "TimeoutError: no route")]


def test_a_provider_that_cancels_itself_has_failed() -> None:
    assert verdicts(assemble(Scripted("a", fail=asyncio.CancelledError()))) == ["failed"]


def test_synchronous_code_cannot_hold_up_the_prompt() -> None:
    class Blocking(Scripted):
        async def contribute(self, asked):
            return await in_thread(lambda: time.sleep(2) or [])

    start = time.perf_counter()
    made = assemble(Blocking("disk", deadline_s=0.05))

    assert time.perf_counter() - start < 1
    assert verdicts(made) == ["late"]


class Computing(Scripted):
    """A provider that never awaits: it neither hears that it is late, nor lets go of its thread."""

    async def contribute(self, asked):
        end = time.perf_counter() + 1.5
        while time.perf_counter() < end:
            pass
        return [piece(self.name)]


def test_a_provider_that_never_awaits_holds_up_nobody() -> None:
    start = time.perf_counter()
    made = assemble(Scripted("a"), Computing("busy", deadline_s=0.1), Scripted("c"))

    assert time.perf_counter() - start < 1
    assert verdicts(made) == ["answered", "late", "answered"]
    assert lead(made) == "a\n\nc"


@each("turned", range(4))
def test_hanging_raising_and_slow_ones_are_missing_and_the_rest_stands_in_order(turned) -> None:
    parts = [
        Scripted("hangs", sleep_s=60, deadline_s=0.1),
        Scripted("raises", fail=OSError("disk")),
        Computing("computes", deadline_s=0.1),
        Scripted("slow but in time", sleep_s=0.05),
        Scripted("quick"),
    ]
    turned_round = parts[turned:] + parts[:turned]

    made = assemble(*turned_round)

    assert [r.name for r in made.providers] == [part.name for part in turned_round]
    assert {r.name: r.verdict for r in made.providers} == {
        "hangs": "late",
        "raises": "failed",
        "computes": "late",
        "slow but in time": "answered",
        "quick": "answered",
    }
    came = [part.name for part in turned_round if part.name in {"slow but in time", "quick"}]
    assert lead(made) == "\n\n".join(came)


def test_cancelling_stops_the_providers() -> None:
    async def run() -> bool:
        slow = Scripted("slow", sleep_s=30, deadline_s=60)
        task = asyncio.ensure_future(pipeline(slow).assemble(request()))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        return len(asyncio.all_tasks()) == 1

    assert asyncio.run(run())


def test_pre_processors_run_in_order_before_the_budget() -> None:
    first, second = Scripted("first"), Scripted("second")
    made = assemble(Scripted("a"), pre_processors=[first, second])

    assert lead(made) == "a\n\nfirst\n\nsecond"
    assert [p.text for p in second.seen[0]] == ["a", "hi", "first"]
    assert made.fragments[-1].tokens > 0


def test_a_failing_pre_processor_passes_its_input_through() -> None:
    made = assemble(Scripted("a"), pre_processors=[Scripted("b", fail=ValueError("no"))])

    assert lead(made) == "a"
    assert [(r.name, r.verdict) for r in made.processors] == [("b", "failed")]


def test_post_processors_run_in_reverse() -> None:
    made = pipeline(post_processors=[Scripted("first"), Scripted("second")])
    replied = asyncio.run(made.run(request(), ScriptedModel(["Hello."])))

    assert replied.text == "Hello.+second+first"
    assert replied.completion.text == "Hello."


def test_a_late_post_processor_leaves_the_reply_as_it_is() -> None:
    made = pipeline(post_processors=[Scripted("slow", sleep_s=9, deadline_s=0.05)])
    replied = asyncio.run(made.run(request(), ScriptedModel(["Hello."])))

    assert (replied.text, replied.processors[0].verdict) == ("Hello.", "late")


def test_assembling_asks_no_model_and_running_sends_what_was_assembled() -> None:
    model = ScriptedModel(["Hello."])
    made = pipeline(Scripted("a"))
    assembled = asyncio.run(made.assemble(request()))
    assert model.requests == []

    replied = asyncio.run(made.run(request(), model))

    assert model.requests == [replied.sent] == [model.prepare(assembled.messages)]


def test_the_reply_is_heard_as_it_comes() -> None:
    heard: list[str] = []
    asyncio.run(pipeline().run(request(), ScriptedModel(["One two."]), heard.append))

    assert heard == ["One ", "two."]


def test_a_models_failure_passes_through() -> None:
    with pytest.raises(ModelError, match="gone"):
        asyncio.run(pipeline().run(request(), ScriptedModel([ModelError("gone")])))


def test_the_prompt_is_never_larger_than_its_budget() -> None:
    made = assemble(Scripted("a"), Scripted("b " * 900), asked=request(budget_tokens=100))

    assert made.used_tokens <= 100
    assert made.used_tokens == pipeline().count(made.messages)


def test_a_message_longer_than_the_prompt_may_be_is_refused() -> None:
    with pytest.raises(LimitError, match="Your message has about"):
        assemble(asked=request("word " * 500, budget_tokens=100))


def test_several_speakers_are_told_apart() -> None:
    class Chat(Scripted):
        async def contribute(self, asked):
            from familiar_cli.context.types import PromptSpan

            bo = Author("discord", "7", display_name="Bo")
            return [piece("yo", PromptSpan.chat, author=bo, role="user")]

    assert [m["content"] for m in assemble(Chat("chat")).messages] == ["Bo: yo", "Anna: hi"]


def test_what_was_found_for_a_prompt_is_released_with_it() -> None:
    """Without the garbage collector, which looks rarely."""

    class Finding(Scripted):
        async def contribute(self, asked):
            big = Findings()
            released.append(weakref.ref(big))
            asked.refills.append(Refill(lambda pieces, _: (asked, big) and pieces))
            return [piece("found")]

    released: list[weakref.ref[Findings]] = []
    gc.disable()
    try:
        assert lead(assemble(Finding("finding"))) == "found"
        assert released[0]() is None
    finally:
        gc.enable()


class Findings:
    pass
