"""A structured answer: asked for, checked, repaired once, and counted."""

from __future__ import annotations

import json

import pytest

from familiar_cli.base.errors import RequestRefusedError, UnusableReplyError
from familiar_cli.llm.asking import Asker
from familiar_cli.llm.types import Completion, ScriptedModel, Usage

SCHEMA = {"type": "object"}


class Quarantine:
    """Keeps unusable replies in a list."""

    def __init__(self):
        self.replies = []

    def keep(self, text):
        self.replies.append(text)
        return f"kept-{len(self.replies)}"


@pytest.fixture
def quarantine():
    return Quarantine()


def make(model, quarantine, **more):
    return Asker(model, len, quarantine.keep, "consolidation", reply_tokens=100, **more)


def number(completion):
    """Read a number; anything else is no use."""
    try:
        return int(completion.text)
    except ValueError as error:
        raise UnusableReplyError("it is no number") from error


async def ask(asker):
    return await asker.ask("System.", "How many?", schema=SCHEMA, shape="NUMBER", read=number)


def bodies(model):
    return [json.loads(request.body) for request in model.requests]


async def test_a_usable_reply_is_asked_for_once(quarantine) -> None:
    model = ScriptedModel(["7"])
    asker = make(model, quarantine)
    assert await ask(asker) == 7
    assert (asker.spent.calls, asker.spent.repairs, asker.quarantined) == (1, 0, [])
    assert "response_format" in bodies(model)[0]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ("seven", "it is no number"),
        (" \n", "it is empty"),
        (Completion("7", "length", "m", None), "it was cut off at the token limit"),
    ],
)
async def test_an_unusable_reply_is_kept_and_repaired_once(quarantine, bad, problem) -> None:
    model = ScriptedModel([bad, "8"])
    asker = make(model, quarantine)
    assert await ask(asker) == 8
    assert (asker.spent.calls, asker.spent.repairs) == (2, 1)
    assert quarantine.replies == [bad if isinstance(bad, str) else bad.text]
    user = bodies(model)[1]["messages"][1]["content"]
    assert user.startswith("How many?\n\n")
    assert f"could not be used: {problem}." in user
    assert "NUMBER" in user


async def test_a_second_unusable_reply_names_where_it_is_kept(quarantine) -> None:
    asker = make(ScriptedModel(["x", "y"]), quarantine, unchanged="the turns are kept")
    with pytest.raises(UnusableReplyError, match=r"kept in 'kept-2'; the turns are kept$") as found:
        await ask(asker)
    assert "llm.slots.consolidation.model" in found.value.hint
    assert (quarantine.replies, asker.quarantined) == (["x", "y"], ["kept-1", "kept-2"])


async def test_a_server_that_refuses_the_schema_is_never_handed_it_again(quarantine) -> None:
    model = ScriptedModel([RequestRefusedError("no schemas"), "1", "2"])
    asker = make(model, quarantine)
    assert [await ask(asker), await ask(asker)] == [1, 2]
    assert ["response_format" in body for body in bodies(model)] == [True, False, False]
    assert asker.spent.calls == 2


async def test_a_schema_that_is_switched_on_is_insisted_on(quarantine) -> None:
    with pytest.raises(RequestRefusedError):
        await ask(make(ScriptedModel([RequestRefusedError("no")]), quarantine, structured="on"))


async def test_a_schema_that_is_switched_off_is_not_sent(quarantine) -> None:
    model = ScriptedModel(["1"])
    await ask(make(model, quarantine, structured="off"))
    assert "response_format" not in bodies(model)[0]


async def test_what_the_server_counts_is_added_up_and_what_it_leaves_out_is_not_zero(
    quarantine,
) -> None:
    told = Completion("1", "stop", "m", Usage(10, 2))
    silent = Completion("2", "stop", "m", None)
    asker = make(ScriptedModel([told, silent, told]), quarantine)
    for _ in range(3):
        await ask(asker)
    spent = asker.spent
    assert (spent.prompt_tokens, spent.completion_tokens, spent.cost) == (20, 4, None)
    assert spent.estimated_tokens == 3 * len("System.How many?")
