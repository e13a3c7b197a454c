"""Ask the model about one batch: one request, and one more if the reply cannot be used."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from familiar_cli.clock import stopwatch_s
from familiar_cli.errors import RequestRefusedError, UnusableReplyError
from familiar_cli.llm.types import Usage
from familiar_cli.writer.parsing import parse_reply
from familiar_cli.writer.prompts import messages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from familiar_cli.llm.types import ChatModel, Completion, Message, PreparedRequest
    from familiar_cli.writer.parsing import Parsed
    from familiar_cli.writer.types import Spent


N = TypeVar("N", int, float)


@dataclass(slots=True)
class Asker:
    """Asks one model, and counts what that costs.

    Args:
        model: Who is asked.
        count: Counts tokens.
        keep: Puts an unusable reply away and returns where it is.
        reply_tokens: Most tokens of a reply.
        temperature: How freely words are chosen; None: as the model's settings say.
        structured: Whether replies are constrained: `auto` stops when the server refuses it.

    Attributes:
        spent: What was asked so far.
        quarantined: Where the unusable replies are.
    """

    model: ChatModel
    count: Callable[[str], int]
    keep: Callable[[str], Path]
    reply_tokens: int
    temperature: float | None
    structured: str
    spent: Spent
    quarantined: list[str]

    async def ask(self, system: str, user: str, schema: Mapping[str, Any]) -> Parsed:
        """Return what the model proposes.

        Raises:
            UnusableReplyError: Neither reply could be used; both are kept in the quarantine.
            ModelError: The model could not be asked.
        """
        problem = ""
        for repair in (False, True):
            completion = await self._complete(system, user, problem, schema, repair=repair)
            try:
                return parse_reply(completion)
            except UnusableReplyError as error:
                problem = str(error)
                self.quarantined.append(str(self.keep(completion.text)))
        raise UnusableReplyError(
            f"The reply of {self.model.name!r} could not be used, and neither could its repair: "
            f"{problem}. It is kept in {self.quarantined[-1]!r}, nothing was written, and the "
            "turns wait",
            hint="Run it again, or give this work to a better model: "
            "`familiar config set llm.slots.memory_writer.model NAME`.",
        )

    async def _complete(
        self, system: str, user: str, problem: str, schema: Mapping[str, Any], *, repair: bool
    ) -> Completion:
        chat = messages(system, user, problem)
        used = self.structured != "off"
        started = stopwatch_s()
        try:
            request = self._prepare(chat, schema if used else None)
            completion = await self.model.complete(request)
        except RequestRefusedError:
            if self.structured != "auto":
                raise
            # This server does not know schemas, or not this one: from now on, words must do.
            self.structured = "off"
            completion = await self.model.complete(self._prepare(chat, None))
        finally:
            elapsed_s = stopwatch_s() - started
            self.spent = replace(self.spent, model_s=self.spent.model_s + elapsed_s)
        tokens = sum(self.count(message["content"]) for message in chat)
        self.spent = _added(self.spent, completion.usage, tokens, repair=repair)
        return completion

    def _prepare(self, chat: list[Message], schema: Mapping[str, Any] | None) -> PreparedRequest:
        return self.model.prepare(
            chat,
            stream=True,  # a long silence is then noticed, and a reply can be broken off
            reply_schema=schema,
            max_tokens=self.reply_tokens,
            temperature=self.temperature,
        )


def _added(spent: Spent, usage: Usage | None, tokens: int, *, repair: bool) -> Spent:
    used = usage or Usage()
    return replace(
        spent,
        calls=spent.calls + 1,
        repairs=spent.repairs + repair,
        prompt_tokens=_sum(spent.prompt_tokens, used.prompt_tokens),
        completion_tokens=_sum(spent.completion_tokens, used.completion_tokens),
        cost=_sum(spent.cost, used.cost),
        estimated_tokens=spent.estimated_tokens + tokens,
    )


def _sum(known: N | None, new: N | None) -> N | None:
    if known is None or new is None:
        return new if known is None else known
    return known + new
