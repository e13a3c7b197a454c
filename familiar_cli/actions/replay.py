"""Send what a turn sent once more, and hold the new reply against the old. Nothing is kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from familiar_cli.actions.sent import sent_of
from familiar_cli.diffs import unified
from familiar_cli.errors import BadReplyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from familiar_cli.context.trace import Trace
    from familiar_cli.familiar import Familiar
    from familiar_cli.llm.slots import ResolvedSlot
    from familiar_cli.llm.types import Completion, PreparedRequest, Usage


@dataclass(frozen=True, slots=True)
class ReplayedReply:
    """A reply, and what it took.

    Args:
        url: The server that was asked.
        model: The model that answered, by the server's account.
        text: Its words; of the old reply, as the history keeps them.
        elapsed_ms: How long it took.
        finish_reason: Why it ended.
        usage: What it cost, if the server says.
    """

    url: str
    model: str
    text: str
    elapsed_ms: float | None
    finish_reason: str | None
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class Replayed:
    """A request that was sent again.

    Args:
        turn: Whose request it is.
        slot: The slot whose server, key and limits were used.
        sent_model: The model that was asked for.
        model_then: The model that was asked for then.
        url_then: The server that was asked then.
        then: The old reply; None when there is none.
        now: The new one.
        error_then: Why the old one is not whole.
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
        """What was sent otherwise than then; empty: nothing."""
        found = []
        if self.sent_model != self.model_then:
            found.append(f"model: {self.model_then!r} became {self.sent_model!r}")
        if self.now.url != self.url_then:
            found.append(f"server: {self.url_then} became {self.now.url}")
        return tuple(found)

    @property
    def diff(self) -> str:
        """How the replies differ, as a unified diff; empty when they do not, or one is missing."""
        if self.then is None:
            return ""
        before, after = (f"{said.text.rstrip()}\n" for said in (self.then, self.now))
        return unified(before, after, "then", "now").rstrip("\n")

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        same_bytes = self.sent_model == self.model_then
        more = {"same_bytes": same_bytes, "differences": self.differences, "diff": self.diff}
        return {**asdict(self), **more}


async def replay(
    familiar: Familiar,
    trace: Trace,
    *,
    slot: str | None = None,
    model: str | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Replayed:
    """Send the request of `trace` again and return both replies.

    The same bytes go out, unless another model is asked: then that one field differs.

    Args:
        familiar: Whose request it is.
        trace: Its record.
        slot: Whose server, key and model are used; None: the main one's server and key, and the
            model of the record.
        model: The model to ask instead.
        on_wait: Told in one line before a busy server is asked again.

    Raises:
        NotFoundError: Nothing was sent for this turn.
        ConfigError: Something is missing to talk to that server.
        ModelError: There is no whole reply.
    """
    from familiar_cli.llm.slots import check_usable

    sent = sent_of(trace)
    chosen = familiar.slot(slot or "main")
    chosen = replace(chosen, model=model or (chosen.model if slot else sent.model))
    check_usable(chosen)
    request, completion, elapsed_ms = await _send(sent, chosen, on_wait)
    if not completion.text.strip():
        why = f" ({completion.finish_reason})" if completion.finish_reason else ""
        raise BadReplyError(f"The model {chosen.model!r} returned an empty reply{why}")
    return Replayed(
        turn=trace.turn,
        slot=chosen.slot,
        sent_model=chosen.model,
        model_then=sent.model,
        url_then=sent.url,
        then=_then(familiar, trace, sent),
        now=_now(request, completion, elapsed_ms),
        error_then=trace.error,
    )


async def _send(
    sent: PreparedRequest, slot: ResolvedSlot, on_wait: Callable[[str], None] | None
) -> tuple[PreparedRequest, Completion, float]:
    from familiar_cli.clock import stopwatch_s
    from familiar_cli.config.home import cache_dir
    from familiar_cli.llm.open import open_model
    from familiar_cli.llm.types import PreparedRequest, with_model

    body = sent.body if slot.model == sent.model else with_model(sent.body, slot.model)
    model = open_model(slot, cache_dir=cache_dir(), on_wait=on_wait)
    try:
        request = PreparedRequest(model.prepare(()).url, slot.model, sent.stream, body)
        start = stopwatch_s()
        completion = await model.complete(request)
        return request, completion, round(1000 * (stopwatch_s() - start), 3)
    finally:
        await model.aclose()


def _now(request: PreparedRequest, completion: Completion, elapsed_ms: float) -> ReplayedReply:
    return ReplayedReply(
        request.url,
        completion.model,
        completion.text,
        elapsed_ms,
        completion.finish_reason,
        completion.usage,
    )


def _then(familiar: Familiar, trace: Trace, sent: PreparedRequest) -> ReplayedReply | None:
    turn = familiar.history.turn(trace.reply_turn) if trace.reply_turn is not None else None
    if turn is None:
        return None
    return ReplayedReply(
        sent.url, trace.model, turn.content, trace.reply_ms, trace.finish_reason, trace.usage
    )
