"""A turn loses nothing: not the question, not half a reply, not the record of either."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing, suppress
from dataclasses import dataclass, field

import pytest

from familiar_cli.base.errors import (
    BadReplyError,
    CutOffError,
    FamiliarError,
    LimitError,
    UsageError,
)
from familiar_cli.base.who.visibility import OWNER
from familiar_cli.context import on_record
from familiar_cli.context.budget import Allowance
from familiar_cli.context.on_record import OnRecord
from familiar_cli.context.pipeline import ContextPipeline
from familiar_cli.context.providers.history import HistoryProvider
from familiar_cli.context.trace import latest_trace, read_trace
from familiar_cli.context.turn import request_for
from familiar_cli.context.types import Modality, Said
from familiar_cli.llm import tokens
from familiar_cli.llm.types import Completion, ScriptedModel, Usage
from familiar_cli.store.history import HistoryStore
from tests.context.support import ANNA, Scripted, request

WHOLE = Completion("Hello.", "stop", "m-1", Usage(9, 2, 0.001))


@dataclass
class World:
    """A history, a directory of traces, and what it takes to take turns with them."""

    history: HistoryStore
    traces: object
    more: dict = field(default_factory=dict)

    def runner(self, **more) -> OnRecord:
        pipeline = ContextPipeline(
            [HistoryProvider(self.history, recent_turns=40)], tokens.heuristic(), **self.more
        )
        return OnRecord(self.history, pipeline, self.traces, Said("hi", None), **more)

    def take(self, *replies, asked=None, on_text=None, **more):
        model = ScriptedModel(replies)
        return asyncio.run(self.runner(**more).run(asked or request("hi"), model, on_text))

    def turns(self, channel="cli"):
        return [
            (t.role, t.content, t.partial) for t in self.history.recent(channel, 99, viewer=OWNER)
        ]


@pytest.fixture
def world(tmp_path):
    with closing(HistoryStore(tmp_path / "history.db")) as history:
        yield World(history, tmp_path / "traces")


def test_both_turns_are_kept(world) -> None:
    result = world.take("Hello.")

    assert world.turns() == [("user", "hi", False), ("assistant", "Hello.", False)]
    assert (result.turn.author, result.reply.author) == (ANNA, None)
    assert result.turn.at == request().at


def test_the_record_bears_the_users_turn_and_the_bytes_that_went_out(world) -> None:
    model = ScriptedModel([WHOLE])
    result = asyncio.run(world.runner().run(request("hi"), model))

    trace = read_trace(world.traces, result.turn.id)
    assert trace.request.body == model.requests[0].body
    assert trace == read_trace(world.traces, result.reply.id)
    assert (trace.model, trace.finish_reason) == ("m-1", "stop")
    assert (trace.usage.prompt_tokens, trace.usage.cost) == (9, 0.001)


def test_the_question_is_kept_before_the_model_is_asked(world) -> None:
    class Looking(ScriptedModel):
        async def complete(self, *args):
            assert world.turns() == [("user", "hi", False)]
            assert latest_trace(world.traces).request.body
            return await super().complete(*args)

    asyncio.run(world.runner().run(request("hi"), Looking(["Hello."])))


def test_a_greeting_becomes_the_first_turn(world) -> None:
    world.take("Hello.", asked=request("hi", opening="Welcome."))

    assert [t[:2] for t in world.turns()] == [
        ("assistant", "Welcome."),
        ("user", "hi"),
        ("assistant", "Hello."),
    ]
    assert [m.role for m in latest_trace(world.traces).messages] == ["assistant", "user"]


def test_a_failure_keeps_the_question_and_says_so(world) -> None:
    with pytest.raises(CutOffError, match=r"broke; your message is saved as turn 1$") as caught:
        world.take(CutOffError("broke", hint="again"))

    assert world.turns() == [("user", "hi", False)]
    assert caught.value.hint == "again"
    assert (caught.value.data["turn"], caught.value.data["reply_turn"]) == (1, None)
    assert (latest_trace(world.traces).error, latest_trace(world.traces).reply_turn) == (
        "broke",
        None,
    )


def test_a_reply_that_broke_off_is_kept_as_far_as_it_came(world) -> None:
    with pytest.raises(CutOffError, match="the partial reply as turn 2"):
        world.take(CutOffError("broke", partial="Once upon"))

    assert world.turns()[1] == ("assistant", "Once upon", True)
    assert latest_trace(world.traces).reply_turn == 2


def test_an_empty_reply_is_a_failure(world) -> None:
    with pytest.raises(BadReplyError, match=r"empty reply \(content_filter\)"):
        world.take(Completion(" \n", "content_filter", "m", None))
    with pytest.raises(BadReplyError, match="only its thinking"):
        world.take(Completion("", "stop", "m", None, thinking="Hm."))
    with pytest.raises(BadReplyError, match="wants to call a function"):
        world.take(Completion("", "tool_calls", "m", None))

    assert {one[0] for one in world.turns()} == {"user"}


def test_a_reply_cut_by_the_length_limit_is_kept_and_told(world) -> None:
    result = world.take(Completion("Once upon a", "length", "m", None))

    assert world.turns()[1] == ("assistant", "Once upon a", True)
    assert "cut at 512 tokens" in result.notices[0]
    assert latest_trace(world.traces).notices == result.notices


def test_cancelling_keeps_the_part_that_came(world) -> None:
    class Endless(ScriptedModel):
        async def complete(self, sent, on_text=None):
            on_text("Once upon ")
            await asyncio.sleep(60)

    async def interrupt() -> OnRecord:
        runner = world.runner()
        task = asyncio.ensure_future(runner.run(request("hi"), Endless([])))
        await asyncio.sleep(0.2)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        return runner

    kept = asyncio.run(interrupt()).interrupted

    assert (kept.text, kept.reply.partial, kept.interrupted) == ("Once upon ", True, True)
    assert latest_trace(world.traces).error == "interrupted"


def test_saving_leaves_the_event_loop_to_others(world, monkeypatch) -> None:
    writers = []

    def noting(write):
        def note(*args, **more):
            writers.append(threading.get_ident())
            return write(*args, **more)

        return note

    for name in ("keep_once", "write_trace"):
        real = getattr(on_record, name)
        monkeypatch.setattr(on_record, name, noting(real))
    world.take("Hello.")
    assert len(writers) == 4
    assert threading.get_ident() not in writers


def test_a_turn_cancelled_while_its_words_are_saved_is_kept_as_interrupted(
    world, monkeypatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    class Waiting(ScriptedModel):
        async def complete(self, *_):
            await asyncio.sleep(60)

    def slowly(*args, **more):
        begun.set()
        may_end.wait(20)
        return keep_once(*args, **more)

    async def cancel() -> None:
        task = asyncio.ensure_future(world.runner().run(request("hi"), Waiting([])))
        await asyncio.to_thread(begun.wait, 20)
        task.cancel()
        may_end.set()
        await asyncio.wait({task})
        assert task.cancelled()

    keep_once = on_record.keep_once
    monkeypatch.setattr(on_record, "keep_once", slowly)
    asyncio.run(cancel())
    assert world.turns() == [("user", "hi", False)]
    assert latest_trace(world.traces).error == "interrupted"


def test_a_prompt_that_cannot_be_made_keeps_nothing(world) -> None:
    with pytest.raises(LimitError):
        world.take("Hello.", asked=request("word " * 999, budget_tokens=50))

    assert world.turns() == []
    assert not world.traces.exists()


def test_a_closed_pipe_loses_no_reply(world) -> None:
    def closed(_: str) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        world.take("Hello there.", on_text=closed)

    assert world.turns()[1] == ("assistant", "Hello there.", False)


def test_a_record_that_cannot_be_written_loses_no_turn(world) -> None:
    world.traces.write_text("in the way")

    result = world.take("Hello.")

    assert len(world.turns()) == 2
    assert "could not be written" in result.notices[0]


def test_a_post_processed_reply_is_heard_and_kept_as_it_was_changed(world) -> None:
    world.more = {"post_processors": [Scripted("polished")]}
    heard: list[str] = []

    world.take("Hello.", on_text=heard.append)

    assert heard == ["Hello.+polished"]
    assert world.turns()[1][1] == "Hello.+polished"
    assert [r.name for r in latest_trace(world.traces).processors] == ["polished"]


def test_what_failed_on_the_way_is_told(world) -> None:
    world.more = {"pre_processors": [Scripted("thinking", fail=ValueError("no idea"))]}

    assert world.take("Hello.").notices == ("thinking failed: ValueError: no idea",)


def test_a_reply_that_cannot_be_kept_is_handed_back_with_the_error(world) -> None:
    class Blocking(ScriptedModel):
        async def complete(self, *args):
            world.history.close()
            world.history.path.rename(world.history.path.with_name("moved"))
            world.history.path.mkdir()
            return await super().complete(*args)

    with pytest.raises(FamiliarError, match="The reply could not be kept") as caught:
        asyncio.run(world.runner().run(request("hi"), Blocking(["Hello."])))

    assert (caught.value.data["turn"], caught.value.data["reply"]) == (1, "Hello.")


def test_only_so_many_records_are_kept(world) -> None:
    for _ in range(4):
        world.take("Hello.", keep_traces=2)

    assert sorted(p.name for p in world.traces.iterdir()) == ["5.json", "7.json"]


def request_of(world, text="hi", **more):
    return request_for(
        Said(text, ANNA, **more),
        familiar_id="aria",
        allowance=Allowance(1000, {}),
        history=world.history,
        viewer=OWNER,
        opening=lambda _, number: f"Greeting {number}",
        at=request().at,
    )


def test_the_first_words_in_a_channel_are_answered_after_a_greeting(world) -> None:
    assert request_of(world, greeting=2).opening == "Greeting 2"

    world.take("Hello.")

    assert request_of(world).opening == ""
    assert request_of(world, channel_id="other").opening == "Greeting None"


def test_a_greeting_comes_too_late_for_a_channel_that_has_begun(world) -> None:
    world.take("Hello.")

    with pytest.raises(UsageError, match="has already begun"):
        request_of(world, greeting=1)


@pytest.mark.parametrize("text", ["", " \n", "half a pair \udcff"])
def test_words_that_are_none_are_a_usage_error(world, text) -> None:
    with pytest.raises(UsageError):
        request_of(world, text)


def test_the_same_words_at_the_same_point_draw_the_same(world) -> None:
    first = request_of(world, modality=Modality.voice).seed

    assert request_of(world).seed == first
    world.take("Hello.")
    assert request_of(world).seed != first
