"""Send the request of a past turn again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from familiar_cli.actions.talk.sent import sent_of
from familiar_cli.base.errors import BadReplyError
from familiar_cli.base.text import unified
from familiar_cli.llm.types import Completion, PreparedRequest, Usage, with_model

if TYPE_CHECKING:
    from familiar_cli.context.trace import Trace
    from familiar_cli.familiar import Familiar
    from familiar_cli.llm.slots import ResolvedSlot


class ReplayedReply(Struct, frozen=True):
    """A reply and its metadata.

    Args:
        url: The server.
        model: The model, as named by the server.
        text: Its text; for the old reply, as stored in the history.
        elapsed_ms: Its duration.
        finish_reason: Why it ended.
        usage: Token usage, if reported.
    """

    url: str
    model: str
    text: str
    elapsed_ms: float | None
    finish_reason: str | None
    usage: Usage | None


class Replay(Struct, frozen=True):
    """A request that was sent again.

    Args:
        slot: The slot whose server, key and limits were used.
        sent_model: The model requested now.
        model_then: The model requested then.
        url_then: The server used then.
        then: The old reply, if any.
        now: The new reply.
        error_then: Why the old reply is incomplete.
    """

    turn: int | None
    slot: str
    sent_model: str
    model_then: str
    url_then: str
    then: ReplayedReply | None
    now: ReplayedReply
    error_then: str

    @property
    def differences(self) -> tuple[str, ...]:
        """Differences between the two requests; empty if there are none."""
        items = []
        if self.sent_model != self.model_then:
            items.append(f"model: {self.model_then!r} became {self.sent_model!r}")
        if self.now.url != self.url_then:
            items.append(f"server: {self.url_then} became {self.now.url}")
        return tuple(items)

    @property
    def diff(self) -> str:
        """The unified diff of the replies; empty if they are equal or one is missing."""
        if self.then is None:
            return ""
        before, after = (f"{reply.text.rstrip()}\n" for reply in (self.then, self.now))
        return unified(before, after, "then", "now").rstrip("\n")

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        same_bytes = self.sent_model == self.model_then
        more = {"same_bytes": same_bytes, "differences": self.differences, "diff": self.diff}
        return {**asdict(self), **more}


async def replay_trace(
    familiar: Familiar,
    trace: Trace,
    *,
    slot: str | None = None,
    model: str | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Replay:
    """Send the request of `trace` again and return both replies.

    The same bytes are sent, unless another model is requested: then that one field differs.

    Args:
        slot: The slot whose server, key and model are used; None for the main one's server and key,
            and the model in the trace.
        model: The model to request instead.
        on_wait: Called with a message before a busy server is retried.

    Raises:
        NotFoundError: Nothing was sent for this turn.
        ConfigError: The server is not configured.
        ModelError: There is no complete reply.
    """
    from familiar_cli.llm.slots import check_usable

    sent = sent_of(trace)
    chosen = familiar.models.slot(slot or "main")
    chosen = replace(chosen, model=model or (chosen.model if slot else sent.model))
    check_usable(chosen)
    request, completion, elapsed_ms = await _send_again(sent, chosen, on_wait)
    if not completion.text.strip():
        why = f" ({completion.finish_reason})" if completion.finish_reason else ""
        raise BadReplyError(f"The model {chosen.model!r} returned an empty reply{why}")
    return Replay(
        turn=trace.turn,
        slot=chosen.slot,
        sent_model=chosen.model,
        model_then=sent.model,
        url_then=sent.url,
        then=_recorded_reply(familiar, trace, sent),
        now=ReplayedReply(
            request.url,
            completion.model,
            completion.text,
            elapsed_ms,
            completion.finish_reason,
            completion.usage,
        ),
        error_then=trace.error,
    )


async def _send_again(
    sent: PreparedRequest, slot: ResolvedSlot, on_wait: Callable[[str], None] | None
) -> tuple[PreparedRequest, Completion, float]:
    from familiar_cli.base.config.home import cache_dir
    from familiar_cli.base.times.clock import stopwatch_s
    from familiar_cli.llm.open import open_model

    body = sent.body if slot.model == sent.model else with_model(sent.body, slot.model)
    model = open_model(slot, cache_dir=cache_dir(), on_wait=on_wait)
    try:
        request = PreparedRequest(model.prepare(()).url, slot.model, sent.stream, body)
        start = stopwatch_s()
        completion = await model.complete(request)
        return request, completion, round(1000 * (stopwatch_s() - start), 3)
    finally:
        await model.aclose()


def _recorded_reply(
    familiar: Familiar, trace: Trace, request: PreparedRequest
) -> ReplayedReply | None:
    turn = familiar.history.turn(trace.reply_turn) if trace.reply_turn is not None else None
    if turn is None:
        return None
    return ReplayedReply(
        request.url, trace.model, turn.content, trace.reply_ms, trace.finish_reason, trace.usage
    )
