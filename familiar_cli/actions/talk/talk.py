"""Say something to a familiar, or show what would be sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, nullcontext, suppress
from datetime import datetime
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.actions.talk import prompt
from familiar_cli.actions.talk.turn_setup import TurnSetup, turn_setup
from familiar_cli.base import errors
from familiar_cli.base.config.home import check_here
from familiar_cli.base.jobs import finish_in_thread, in_thread
from familiar_cli.base.text import one_line
from familiar_cli.base.times.clock import now
from familiar_cli.base.who.visibility import Viewer
from familiar_cli.context.on_record import FirstMessage, OnRecord
from familiar_cli.context.replies import PartialReply
from familiar_cli.context.request import ContextRequest
from familiar_cli.context.trace import Trace
from familiar_cli.context.turn import (
    UNWATCHED,
    TurnResult,
    TurnRunner,
    Watcher,
    dry_run,
    request_for,
)
from familiar_cli.context.types import Modality, Said
from familiar_cli.familiar import Familiar
from familiar_cli.llm.slots import PRESETS, ResolvedSlot, check_usable
from familiar_cli.llm.types import ChatModel
from familiar_cli.store.history.rows import Turn
from familiar_cli.store.history.store import reply_to_turn, turn_of_message, unanswered_message
from familiar_cli.store.passes import WaitMessages, exclusive


def _resolve_remake(familiar: Familiar, said: Said) -> Said:
    """Return `said` with the reply that it remakes, if it does; see `replace_last_reply`."""
    if not said.remake:
        return said
    from familiar_cli.actions.talk.change_turns import replace_last_reply

    return replace_last_reply(familiar, said)


def kept_question(familiar: Familiar, said: Said) -> Said:
    """Return `said` with the words of the stored turn it refers to, or repeats, if any.

    A partial reply to that turn is replaced by the new one.

    Raises:
        NotFoundError: There is no turn `said.reply_to`.
        RefusedError: The familiar said it itself.
        ConflictError: The message id exists with other words.
        UsageError: It is off the record.
    """
    turn, history = _meant_turn(familiar, said), familiar.history
    if turn is None:
        return said
    if said.off_record:
        raise errors.UsageError(
            f"Turn {turn.id} is on the record; its reply cannot be off the record"
        )
    if turn.role != "user":
        raise errors.RefusedError(
            f"Turn {turn.id} was not said to the familiar, so it needs no reply",
            hint="Run `familiar history show` for the turns.",
        )
    channel_id = said.channel_id if history.holds(said.channel_id, turn) else turn.channel_id
    reply = None if said.instead_of else reply_to_turn(history, turn.id, channel_id)
    return replace(
        said,
        text=turn.content,
        author=turn.author,
        channel_id=channel_id,
        modality=Modality(turn.modality),
        reply_to=turn.id,
        instead_of=reply if reply and reply.partial else said.instead_of,
    )


def _meant_turn(familiar: Familiar, said: Said) -> Turn | None:
    if said.reply_to is not None:
        turn = familiar.history.turn(said.reply_to)
        if turn is None:
            raise errors.NotFoundError(
                f"There is no turn {said.reply_to}", hint="Run `familiar history show`."
            )
        return turn
    history = familiar.history
    if not said.message_id:  # an id decides alone: another one is another message
        repeats = not (said.off_record or said.instead_of)
        where = said.channel_id, said.author, said.text
        return unanswered_message(history, *where) if repeats else None
    turn = turn_of_message(history, said.channel_id, said.message_id, said.author)
    if turn is not None and turn.content != said.text:
        reply = reply_to_turn(history, turn.id, said.channel_id)
        is_answered = reply is not None and not reply.partial
        raise errors.ConflictError(
            f"Message {said.message_id!r} of channel {said.channel_id!r} is already stored with "
            f"different text, as turn {turn.id}; turns are never changed, and nothing was asked",
            hint=f"Run `familiar history show {turn.id}` to read it; it has a reply."
            if is_answered
            else f"Run `familiar ask --reply-to {turn.id}` to get a reply to the stored message.",
        )
    return turn


def check_unanswered(familiar: Familiar, said: Said) -> None:
    """Check that the referenced turn, if any, has no complete reply.

    Raises:
        AnsweredError: It has one, included in the error's `data` as in `ask --json`.
    """
    if said.reply_to is None or said.instead_of:
        return
    reply = reply_to_turn(familiar.history, said.reply_to, said.channel_id)
    if reply is None:
        return
    error = errors.AnsweredError(
        f"Turn {said.reply_to} has a reply already, turn {reply.id}; nothing was asked",
        hint=f"Run `familiar history show {reply.id}` to read it.",
    )
    error.data = {
        "turn": said.reply_to,
        "reply": reply.content,
        "reply_turn": reply.id,
        "supersedes": None,
        "model": None,
        "usage": None,
        "finish_reason": None,
        "notices": [],
    }
    raise error


_NO_NOTE: Final = (
    "stepped_thinking would add a note to the prompt; a dry run has none, because no model is asked"
)
_NOT_SHORT: Final = (
    "the small model gets a shorter prompt; `familiar config set context.frame short` shows it"
)
_NO_FILTER: Final = "the filter would choose among the passages from memory; it was not asked"


class Asking(Struct, frozen=True):
    """Overrides for asking the model of a turn.

    Args:
        memory_only: Use the client's prompt, adding only memory and the message.
        model: Returns the model to use, given the familiar's.
        watcher: Observes outgoing requests.
    """

    memory_only: bool = False
    model: Callable[[ChatModel], ChatModel] = lambda model: model
    watcher: Watcher = UNWATCHED


AS_USUAL: Final = Asking()

WRITE_FIRST: Final = "Nobody has written to you just now. Write first. What it is about:"
"""What a model is told where it begins."""


async def assemble(familiar: Familiar, said: Said, *, viewer: Viewer | None = None) -> Trace:
    """Build the prompt for `said` without asking the model or storing anything.

    Args:
        familiar: The familiar whose prompt it is.
        said: The message.
        viewer: Viewer of the prompt; None for the participants of the channel.

    Raises:
        LimitError: It exceeds the prompt's limit.
        UsageError: The greeting that was asked for cannot open the channel.
    """
    await in_thread(familiar.finder.load_embedder)  # imports for up to a second
    said = kept_question(familiar, _resolve_remake(familiar, said))
    familiar.privacy.check_member(said.channel_id, said.author)
    setup = _turn_setup(familiar, said)
    made_by = prompt.pipeline(familiar, setup, remembered=said.remembered, dry=True)
    assembled = await made_by.assemble(turn_request(familiar, said, setup, viewer))
    return dry_run(
        assembled,
        model=setup.slot.model,
        counter=familiar.counter.name,
        told=(
            setup.allowance.notice,
            _NO_NOTE if "stepped_thinking" in setup.processors else "",
            _NO_FILTER if prompt.has_filter(familiar) else "",
            _NOT_SHORT if _is_told_short(familiar) else "",
        ),
    )


async def find_memory(familiar: Familiar, said: Said) -> Trace:
    """Recall memory for `said`, for a prompt that another program makes.

    Nothing is sent or stored.

    Raises:
        UsageError: Nothing was said.
    """
    await in_thread(familiar.finder.load_embedder)
    setup = _turn_setup(familiar, said)
    request = prompt.for_memory(
        turn_request(familiar, said, setup), setup.allowance, familiar.counter
    )
    assembled = await prompt.memory_pipeline(familiar, setup).assemble(request)
    return dry_run(assembled, model="", counter=familiar.counter.name)


def _is_told_short(familiar: Familiar) -> bool:
    """Tell whether a turn would get a shorter prompt than a dry run shows."""
    return familiar.config.context.frame == "auto" and prompt.has_short_frame(familiar)


def opening_of(familiar: Familiar, said: Said) -> str:
    """Return the greeting of a new conversation, otherwise an empty string.

    Raises:
        UsageError: The greeting that was asked for cannot open the channel.
    """
    said = replace(said, text=said.text or "Hello")
    return turn_request(familiar, said, _turn_setup(familiar, said)).opening


async def take_turn(
    familiar: Familiar,
    said: Said,
    on_text: Callable[[str], None] | None = None,
    *,
    stream: bool = True,
    on_wait: Callable[[str], None] | None = None,
    on_interrupted: Callable[[TurnResult], None] | None = None,
    asking: Asking = AS_USUAL,
) -> TurnResult:
    """Send a message to the familiar and return its reply, storing both or nothing.

    A channel answers one message at a time, across processes; other channels are not blocked, and
    off-the-record turns never wait.

    If the task is cancelled, the partial reply is stored and `CancelledError` propagates.
    Off-the-record turns are never written anywhere.

    Args:
        said: The message.
        on_text: Called with each piece of the reply; when continuing one, only with the addition.
        stream: Request the reply as a stream.
        on_wait: Called with a message before a retry, and while another message of the channel is
            answered.
        on_interrupted: Called with the stored part of the turn if the task is cancelled, unless
            nothing was stored.
        asking: Overrides for asking the model.

    Raises:
        ConfigError: Something is missing to talk to the model, or a file of the character cannot
            be used; nothing was saved.
        LimitError: It is longer than a prompt may be; nothing was saved.
        ChannelBusyError: Another message was being answered for too long; nothing was saved.
        AnsweredError: The turn, or the message with that id, has a reply.
        NotFoundError: There is no turn `said.reply_to`.
        RefusedError: The channel is private, and the speaker has never spoken there.
        ModelError: There is no complete reply; the message is stored.
    """
    slot = familiar.models.slot()
    check_usable(slot)
    refers = said.reply_to is not None or said.message_id
    channel_id = kept_question(familiar, said).channel_id if refers else said.channel_id
    alone = nullcontext() if said.off_record else _hold_channel(familiar, channel_id, on_wait)
    async with alone:  # first of all: messages are answered in the order in which they came
        runner, request = await finish_in_thread(partial(_begin_turn, familiar, said, asking, slot))
        model = asking.model(familiar.models.open(slot, on_wait=on_wait))
        try:
            result = await runner.run(request, model, on_text, stream=stream)
        except asyncio.CancelledError:
            if on_interrupted and runner.interrupted:
                on_interrupted(runner.interrupted)
            raise
    seen = 0 if said.off_record else familiar.memory.quiet_since()
    if said.off_record or (seen and seen == familiar.published):
        return result
    return await finish_in_thread(partial(_with_names, familiar, result, seen))


def _begin_turn(
    familiar: Familiar, said: Said, asking: Asking, slot: ResolvedSlot
) -> tuple[TurnRunner, ContextRequest]:
    """Check that the message may be stored and answered, and prepare its turn."""
    familiar.finder.load_embedder()
    said = kept_question(familiar, _resolve_remake(familiar, said))
    check_unanswered(familiar, said)
    if said.off_record:
        familiar.privacy.check_member(said.channel_id, said.author)
    else:
        told = familiar.privacy.enter(said.channel_id, said.author, said.kind)
        if told and not said.notices:
            said = replace(said, notices=told)
    setup = _turn_setup(familiar, said, slot)
    request = turn_request(familiar, said, setup)
    if asking.memory_only:
        request = prompt.for_memory(request, setup.allowance, familiar.counter)
    runner = _make_runner(familiar, said, setup, asking)
    runner.notices[:0] = said.notices
    return runner, request


async def write_first(
    familiar: Familiar, channel_id: str, about: str, message_id: str = ""
) -> Turn:
    """Let the familiar write a message in a channel unprompted, and return it.

    Args:
        familiar: Who writes.
        channel_id: The conversation to write in.
        about: What to write about; it is an instruction, and not kept.
        message_id: An id under which the message is kept only once.

    Raises:
        ConfigError: Something is missing to talk to the model.
        ModelError: There is no message; nothing was saved.
    """
    check_usable(familiar.models.slot())
    words = f"[{WRITE_FIRST} {about}]"
    said = Said(words, None, channel_id, source="job", message_id=message_id, greeting=0)
    async with _hold_channel(familiar, channel_id, None):
        await in_thread(familiar.finder.load_embedder)
        setup = _turn_setup(familiar, said)
        runner = FirstMessage(
            familiar.history,
            prompt.pipeline(familiar, setup),
            familiar.paths.traces,
            said,
            keep_traces=familiar.config.context.keep_traces,
        )
        request = turn_request(familiar, said, setup, familiar.privacy.unprompted(channel_id))
        result = await runner.run(request, familiar.models.open(), stream=False)
    if result.reply is None:
        raise errors.ModelError(f"The familiar wrote nothing in {channel_id!r}; nothing was saved")
    return result.reply


@asynccontextmanager
async def _hold_channel(
    familiar: Familiar, channel_id: str, on_wait: Callable[[str], None] | None
) -> AsyncIterator[None]:
    """Lock a channel while a message is answered there, unless the familiar was moved away."""
    where = one_line(repr(channel_id), 80).replace("{", "{{").replace("}", "}}")
    waiting = WaitMessages(
        notice=f"Waiting for {{who}}, which is replying in channel {where}.",
        refused=f"Channel {where} is still busy with a reply by {{who}}; nothing was saved",
        hint="Try again, or allow a longer wait with `familiar config set context.channel_wait_s`.",
        error=errors.ChannelBusyError,
    )
    wait_s = familiar.config.context.channel_wait_s
    lock_path = familiar.paths.channel_lock(channel_id)
    async with exclusive(lock_path, wait_s, on_wait or (lambda _: None), waiting):
        check_here(familiar.paths)
        yield


def _turn_setup(familiar: Familiar, said: Said, slot: ResolvedSlot | None = None) -> TurnSetup:
    setup = turn_setup(familiar, said.channel_id, str(said.modality), slot)
    setup.character.character.check_readable()
    return setup


def _make_runner(familiar: Familiar, said: Said, setup: TurnSetup, asking: Asking) -> TurnRunner:
    if asking.memory_only:
        made_by = prompt.memory_pipeline(familiar, setup)
    else:
        made_by = prompt.pipeline(familiar, setup, remembered=said.remembered)
    notice = "" if asking.memory_only else setup.allowance.notice
    if said.off_record:
        return TurnRunner(made_by, notice=notice, watcher=asking.watcher)
    return OnRecord(
        familiar.history,
        made_by,
        familiar.paths.traces,
        said,
        keep_traces=familiar.config.context.keep_traces,
        notice=notice,
        watcher=asking.watcher,
    )


def _with_names(familiar: Familiar, result: TurnResult, seen: int) -> TurnResult:
    """Update the list of names after a turn; failures do not affect the turn."""
    try:
        with closing(familiar.names()) as names:
            names.publish()
    except errors.FamiliarError as error:
        return replace(result, notices=(*result.notices, f"The names are unchanged: {error}"))
    familiar.published = seen
    return result


class ReplyEnd(Struct, frozen=True):
    """The end of a reply.

    Args:
        result: The result; None if it failed or nothing was to be stored.
        error: Why it failed, or None. A cancelled turn has neither.
    """

    result: TurnResult | None = None
    error: Exception | None = None


class TurnNotice(Struct, frozen=True):
    """A message for the person waiting for a reply."""

    text: str


TurnEvent = Trace | TurnNotice | str | ReplyEnd
"""The prompt, once the message is stored; a notice; a piece of the reply; its end."""


_LONG_S: Final = 3_600.0


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class LiveTurn:
    """A turn in progress, started at once, that any number of clients can follow."""

    def __init__(self) -> None:
        self._events: list[TurnEvent] = []
        self._waiting: list[asyncio.Future[None]] = []
        self.is_ending = False  # what connects counts in `task.cancelling()`, too
        self.task = asyncio.ensure_future(self._run())

    @property
    def result(self) -> TurnResult | None:
        """The result; None until the end, and if it failed."""
        end = self._events[-1] if self._events else None
        return end.result if isinstance(end, ReplyEnd) else None

    async def follow(self) -> AsyncIterator[TurnEvent]:
        """Yield all events from the first up to `ReplyEnd`."""
        number, event = 0, None
        while not isinstance(event, ReplyEnd):
            if event := await self.event(number):
                yield event
                number += 1

    async def event(self, number: int, wait_s: float = _LONG_S) -> TurnEvent | None:
        """Return an event by its number, from 0; None if it does not come in time."""
        if number == len(self._events):
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()
            self._waiting.append(waiter)
            late = loop.call_later(wait_s, _wake, waiter)
            try:
                await waiter
            finally:
                late.cancel()
                with suppress(ValueError):
                    self._waiting.remove(waiter)
        return self._events[number] if number < len(self._events) else None

    def _put(self, event: TurnEvent) -> None:
        self._events.append(event)
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            _wake(waiter)

    async def cancel(self) -> None:
        """Stop the reply, keeping the partial text."""
        self.end()
        await asyncio.wait({self.task})

    def end(self) -> None:
        """Begin to stop the reply, unless it is whole."""
        self.is_ending |= self.task.cancel()

    async def _take(self) -> TurnResult | None:
        """Take the turn."""
        raise NotImplementedError

    async def _run(self) -> None:
        try:
            result = await self._take()
        except asyncio.CancelledError:
            self._put(ReplyEnd())
            raise
        except Exception as error:  # noqa: BLE001  # whoever waits for the reply tells of it
            self._put(ReplyEnd(error=error))
        else:
            self._put(ReplyEnd(result))


def turn_request(
    familiar: Familiar,
    said: Said,
    setup: TurnSetup,
    viewer: Viewer | None = None,
    *,
    at: datetime | None = None,
    before_id: int | None = None,
) -> ContextRequest:
    """Return the request for the prompt of a turn.

    Args:
        familiar: The familiar whose prompt it is.
        said: The message.
        setup: The settings of the turn.
        viewer: Reader of the reply; None for the participants of the channel.
        at: Time of the message; None for now.
        before_id: Limit history to turns before this one; None for all, or those before the reply
            being regenerated.
    """
    greets = setup.channel.greets if said.greeting is None else said.greeting != 0
    request = request_for(
        said,
        familiar_id=familiar.paths.id,
        allowance=setup.allowance,
        history=familiar.history,
        viewer=viewer or familiar.privacy.viewer_in(said.channel_id, said.author, said.kind),
        opening=setup.character.opening if greets else lambda *_: "",
        at=at or now(),
        before_id=before_id,
        name=setup.char,
        tier=setup.channel.tier,
        me=familiar.me_in(setup.channel),
        phrases=familiar.phrases,
    )
    if said.remake != "continue" or said.instead_of is None:
        return request
    prefill = PRESETS[setup.slot.preset].prefill
    exact = prefill and not prompt.has_short_frame(familiar, setup.slot)
    return replace(request, begun=PartialReply(said.instead_of.content, prefill, exact))
