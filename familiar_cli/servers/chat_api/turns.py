"""Turns under way, shared by all requests for them: a retry joins the turn that it repeats."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from familiar_cli.actions.talk.served_log import SOURCE, note_unkept
from familiar_cli.actions.talk.talk import Asking, LiveTurn, take_turn
from familiar_cli.base.jobs import finish_in_thread
from familiar_cli.context.turn import TurnResult, Watcher
from familiar_cli.context.types import Said
from familiar_cli.llm.slots import check_usable
from familiar_cli.servers.chat_api.api_format import picture_url
from familiar_cli.servers.chat_api.clients import TYPE
from familiar_cli.servers.chat_api.replying import ClientsPrompt, SamplingModel, record_request
from familiar_cli.servers.chat_api.responses_api import ToolCalls
from familiar_cli.servers.chat_api.speakers import ConversationLocks, RequestIdentity, key_of
from familiar_cli.store.history.attachments import keep_pictures

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from starlette.datastructures import Headers

    from familiar_cli.context.trace import Trace
    from familiar_cli.llm.types import ChatModel
    from familiar_cli.servers.chat_api.conversations import ServedFamiliar

TurnKey: TypeAlias = tuple[object, ...]
"""The familiar and its conversation, then whatever else two attempts at one request share."""

_REMAKING: Final = frozenset({"regenerate", "swipe"})  # ask for another reply on purpose
_LINGER_S: Final = 60.0  # wait for a retry after a reply's last client has left
_KEPT_S: Final = 30.0  # keep a whole reply for retries sent before it was complete


def turn_key(identity: RequestIdentity, headers: Headers) -> TurnKey | None:
    """Return the key that a retry shares with the request; None if the message has no id."""
    if not identity.message_id or identity.is_chore:
        return None
    request = identity.asked
    return (
        request.familiar_id,
        key_of(identity),
        identity.author.slug,
        identity.message_id,
        request.said,
        identity.is_kept,
        request.memory_only and ("stream" if request.stream else "whole"),
        headers.get(TYPE, "").strip().lower(),
    )


class ServedTurn(LiveTurn):
    """A turn of a chat program. With its own prompt, the pieces are events of the model server.

    Args:
        served: The familiar.
        wanted: The request.
        alone: Locks of conversations.
        key: Key shared with retries; None if there can be none.

    Attributes:
        followers: Number of responses that follow it.
        calls: The calls of functions that the model wants, for the Responses API.
    """

    def __init__(
        self,
        served: ServedFamiliar,
        wanted: RequestIdentity,
        alone: ConversationLocks,
        key: TurnKey | None = None,
    ) -> None:
        self._served = served
        self.key = key
        self.followers = 0
        self.calls = ToolCalls()
        self._wanted = wanted
        self._unkept = wanted.unkept
        self._alone = alone
        super().__init__()

    async def _do_chore(self) -> None:
        """Send the program's request to the model as it is, without memory; nothing is stored."""
        familiar = self._served.familiar
        check_usable(familiar.models.slot())
        model = ClientsPrompt(familiar.models.open(), self._wanted.asked, "", self._on_event)
        await model.complete(model.prepare(()), self._on_text)

    async def _take(self) -> TurnResult | None:
        result = await self._answer()
        if reason := self._wanted.job or self._unkept:
            await finish_in_thread(partial(note_unkept, self._served.familiar.paths.root, reason))
        return result

    async def _answer(self) -> TurnResult | None:
        if self._wanted.is_chore:
            await self._do_chore()
            return None
        identity, familiar = self._wanted, self._served.familiar
        async with self._alone.hold(key_of(identity)):
            said = await finish_in_thread(self._placed)
            result = await take_turn(familiar, said, self._on_text, asking=self._make_asking())
        familiar.finder.load_embedder(optimised=True)  # halves what questions cost from now on
        return result

    def _placed(self) -> Said:
        """Find and prepare the conversation, in a thread, since it uses the history."""
        identity, conversations = self._wanted, self._served.conversations
        lines = identity.asked.lines
        conversation = conversations.find(
            lines, identity.author, identity.channel_id, identity.message_id, kind=identity.kind
        )
        if conversation.is_unreadable:
            self._unkept = "a whole prompt in which the current message was not found"
        said = Said(
            conversation.words or identity.asked.said,
            lines[-1].author or identity.author,
            greeting=0,
            source=SOURCE,
            kind=identity.kind,
            beside=identity.asked.texts if identity.asked.memory_only else (),
            message_id="" if self._unkept else identity.message_id,
        )
        if self._unkept:
            return conversations.off_record(conversation, said, lines[:-1])
        return conversations.prepare(conversation, said)

    def _make_asking(self) -> Asking:
        request = self._wanted.asked
        return Asking(
            memory_only=request.memory_only,
            model=self._model,
            watcher=Watcher(self._amend, self._put),
        )

    def _amend(self, trace: Trace) -> Trace:
        """Store the pictures of a message that is about to be stored, and record the request."""
        request = self._wanted.asked
        if not self._unkept:
            keep_pictures(self._served.familiar.paths.root, map(picture_url, request.pictures))
        return record_request(trace, request)

    def _model(self, model: ChatModel) -> ChatModel:
        request = self._wanted.asked
        if request.memory_only:
            return ClientsPrompt(model, request, self._served.familiar.name, self._on_event)
        familiar = self._served.familiar
        earlier = familiar.paths.root if familiar.config.llm.vision == "on" else None
        return SamplingModel(model, request.sampling, request.pictures, earlier)

    def _on_text(self, text: str) -> None:
        if not self._wanted.passes_events:
            self._put(text)

    def _on_event(self, event: str) -> None:
        if self._wanted.passes_events:
            self._put(event)
        else:
            self.calls.take(event)


class TurnTable:
    """Turns under way, and whole replies for as long as a late retry may ask for them."""

    def __init__(self) -> None:
        self.alone = ConversationLocks()
        self._under_way: dict[ServedTurn, asyncio.Task[None]] = {}
        self._by_key: dict[TurnKey, ServedTurn] = {}

    def __len__(self) -> int:
        """Count the turns under way."""
        return len(self._under_way)

    def join(self, key: TurnKey | None) -> ServedTurn | None:
        """Join the turn of an earlier attempt; None if this request is the first."""
        turn = self._by_key.get(key) if key else None
        if turn is None or turn.is_ending:
            return None
        if turn.task.done() and turn.key and turn.key[-1] in _REMAKING:
            return None
        turn.followers += 1
        return turn

    def begin(
        self,
        served: ServedFamiliar,
        wanted: RequestIdentity,
        key: TurnKey | None,
        lease: AsyncExitStack,
    ) -> ServedTurn:
        """Begin a turn, which holds its familiar's lease until it ends."""
        turn = ServedTurn(served, wanted, self.alone, key)
        turn.followers = 1
        self._under_way[turn] = asyncio.create_task(self._watch(turn, lease))
        if key:
            for known, other in tuple(self._by_key.items()):
                if known[:2] == key[:2] and other.task.done():
                    del self._by_key[known]  # the conversation has continued
            self._by_key[key] = turn
        return turn

    async def leave(self, turn: ServedTurn) -> None:
        """Stop following a turn; it ends with its last client, unless that one may come back."""
        turn.followers -= 1
        if turn.followers or turn.task.done():
            return
        if turn.key is None:
            await turn.cancel()
        else:
            asyncio.get_running_loop().call_later(_LINGER_S, self._end_alone, turn)

    async def cancel_all(self) -> None:
        """Cancel all turns; partial replies are stored."""
        await asyncio.gather(*(turn.cancel() for turn in self._under_way))

    async def aclose(self) -> None:
        """Cancel all turns, and wait until their familiars are released."""
        watching = tuple(self._under_way.values())
        await self.cancel_all()
        await asyncio.gather(*watching)

    @staticmethod
    def _end_alone(turn: ServedTurn) -> None:
        if not turn.followers:
            turn.end()

    async def _watch(self, turn: ServedTurn, lease: AsyncExitStack) -> None:
        try:
            await asyncio.wait({turn.task})
        finally:
            del self._under_way[turn]
            if turn.result is None:
                self._forget(turn)
            elif turn.key:  # no retry can ask for another one
                asyncio.get_running_loop().call_later(_KEPT_S, self._forget, turn)
            await lease.aclose()

    def _forget(self, turn: ServedTurn) -> None:
        if turn.key and self._by_key.get(turn.key) is turn:
            del self._by_key[turn.key]
