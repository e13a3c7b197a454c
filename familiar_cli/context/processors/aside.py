"""Ask another model something on the way to a reply, and write down that it was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from familiar_cli.clock import stopwatch_s
from familiar_cli.context.types import SideCall
from familiar_cli.errors import BadReplyError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from familiar_cli.context.types import ContextRequest
    from familiar_cli.llm.types import ChatModel, Completion, Message

    OpenModel = Callable[[], ChatModel]


async def ask_aside(
    request: ContextRequest, name: str, model: ChatModel, messages: Sequence[Message]
) -> Completion:
    """Return what `model` says; `request.side_calls` keeps the call, also one that failed.

    Raises:
        ModelError: There is no whole reply, or one without a word.
    """
    sent = model.prepare(messages, stream=False)
    start_s, done, error = stopwatch_s(), None, "broken off"
    try:
        done, error = await model.complete(sent), ""
    except Exception as failure:
        error = str(failure)
        raise
    finally:
        elapsed_ms = round(1000 * (stopwatch_s() - start_s), 3)
        request.side_calls.append(SideCall(name, sent, done, elapsed_ms, error))
    if not done.text.strip():
        raise BadReplyError(f"{model.name!r} answered without a word")
    return done
