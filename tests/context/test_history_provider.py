"""Recent turns reach the prompt word for word, and the oldest are the first to go."""

from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import UTC, datetime

import pytest

from familiar_cli.context.pipeline import ContextPipeline
from familiar_cli.context.providers.history import Beyond, HistoryProvider
from familiar_cli.context.types import Layer, Subject
from familiar_cli.llm import tokens
from familiar_cli.store.history import HistoryStore
from familiar_cli.store.history.summaries import PUBLIC, Summaries, Summary
from tests.context.support import ANNA, request
from tests.support.viewers import viewer_in


@pytest.fixture
def store(tmp_path):
    with closing(HistoryStore(tmp_path / "history.db")) as opened:
        yield opened


def messages(store, *, recent_turns=40, **more) -> list[str]:
    provider = HistoryProvider(store, recent_turns=recent_turns)
    made = ContextPipeline([provider], tokens.heuristic())
    assembled = asyncio.run(made.assemble(request("now", **more)))
    return [f"{m['role'][0]}:{m['content']}" for m in assembled.messages]


def talk(store, count) -> None:
    for number in range(count):
        store.append("cli", "user", f"question {number}", author=ANNA)
        store.append("cli", "assistant", f"answer {number}")


def test_turns_stand_oldest_first_before_what_is_said_now(store) -> None:
    talk(store, 1)
    store.append("elsewhere", "user", "unheard", author=ANNA)

    assert messages(store) == ["u:question 0", "a:answer 0", "u:now"]


def test_no_more_turns_than_the_settings_say(store) -> None:
    talk(store, 5)

    assert messages(store, recent_turns=3) == [
        "a:answer 3",
        "u:question 4",
        "a:answer 4",
        "u:now",
    ]


def test_the_newest_turns_were_not_cut_instead_of_the_oldest(store) -> None:
    talk(store, 9)

    shown = messages(store, layer_tokens={Layer.recent_history: 40}, budget_tokens=43)

    assert shown[-2:] == ["a:answer 8", "u:now"]
    assert "u:question 0" not in shown
    assert shown == messages(store)[-len(shown) :]


def test_what_people_said_is_not_expanded(store) -> None:
    store.append("cli", "user", "{{char}} <BOT> {{random:a,b}}", author=ANNA)

    assert messages(store)[0] == "u:{{char}} <BOT> {{random:a,b}}"


def test_a_new_channel_opens_with_its_greeting(store) -> None:
    assert messages(store, opening="Welcome.") == ["a:Welcome.", "u:now"]


def test_a_channel_that_has_begun_needs_no_greeting(store) -> None:
    talk(store, 1)

    assert "a:Welcome." not in messages(store, opening="Welcome.")


def test_turns_can_be_replayed_up_to_one(store) -> None:
    talk(store, 2)

    assert messages(store, before_id=2) == ["u:question 0", "u:now"]


@pytest.mark.parametrize(
    ("turn_id", "reason"),
    [
        (1, "the channel has 3 newer ones (history.recent_turns)"),
        (4, ""),
        (5, "it was said in channel 'elsewhere', not in 'cli'"),
        (6, "it is empty"),
        (7, "it was said later"),
        (99, "no such turn"),
    ],
)
def test_it_says_why_a_turn_is_not_in_a_prompt(store, turn_id, reason) -> None:
    talk(store, 2)
    store.append("elsewhere", "user", "unheard", author=ANNA)
    store.append("cli", "user", " ", author=ANNA)
    store.append("cli", "user", "now", author=ANNA)
    provider = HistoryProvider(store, recent_turns=3)

    assert provider.why_not(Subject(turn_id=turn_id), request(before_id=7)) == reason


def test_it_knows_nothing_of_files(store) -> None:
    provider = HistoryProvider(store, recent_turns=3)

    assert provider.why_not(Subject("notes.md"), request()) is None


@pytest.mark.parametrize(("private", "told"), [((), True), (("cli",), False)])
def test_a_turn_that_left_the_prompt_may_still_be_in_the_summary(store, private, told) -> None:
    talk(store, 4)
    summaries = Summaries(store)
    summaries.keep(Summary(PUBLIC, 2, "They met.", datetime.now(UTC), "m"), {"cli"})
    beyond = Beyond(summaries, "#{}".format)
    provider = HistoryProvider(store, recent_turns=3, beyond=beyond)

    asked = request(before_id=8, viewer=viewer_in("cli", private))
    first = provider.why_not(Subject(turn_id=1), asked)
    assert first.endswith("; the summary covers it") == told
    assert "summary" not in provider.why_not(Subject(turn_id=3), asked)
