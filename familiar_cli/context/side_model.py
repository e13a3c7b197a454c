"""Ask another model something on the way to a reply, and write down that it was asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from familiar_cli.clock import stopwatch_s
from familiar_cli.context.types import SideCall
from familiar_cli.errors import BadReplyError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from familiar_cli.context.types import ContextRequest
    from familiar_cli.llm.types import ChatModel, Completion, Message
    from familiar_cli.tokens import TokenCounter

    OpenModel = Callable[[], ChatModel]


class SideModel:
    """A processor that asks another model.

    Args:
        open_model: Gives the model; asked when it is needed.
        counter: What counts tokens.
        char: The familiar's name.
        deadline_s: How long it may take.
    """

    def __init__(
        self, open_model: OpenModel, counter: TokenCounter, *, char: str, deadline_s: float
    ) -> None:
        self.deadline_s = deadline_s
        self._open_model = open_model
        self._counter = counter
        self._char = char


async def ask_side_model(
    request: ContextRequest, name: str, model: ChatModel, messages: Sequence[Message]
) -> Completion:
    """Return what `model` says; `request.side_calls` keeps the call, also one that failed.

    Raises:
        ModelError: There is no whole reply, or one without a word.
    """
    sent, calls = model.prepare(messages, stream=False), request.side_calls
    # It is on record from its beginning, so that one that is never answered is, too.
    number, start_s = len(calls), stopwatch_s()
    call = SideCall(name, sent, "", sent.model, None, None, 0.0, "no answer in time")
    calls.append(call)
    try:
        done = await model.complete(sent)
    except Exception as error:
        calls[number] = replace(call, elapsed_ms=_ms_since(start_s), error=str(error))
        raise
    calls[number] = SideCall(
        name, sent, done.text, done.model, done.finish_reason, done.usage, _ms_since(start_s), ""
    )
    if not done.text.strip():
        raise BadReplyError(f"{model.name!r} returned an empty reply")
    return done


def _ms_since(start_s: float) -> float:
    return round(1000 * (stopwatch_s() - start_s), 3)
