"""One request for a reply, from the conversation that it belongs to up to its last event."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

from familiar_cli.actions.served_turns import SOURCE
from familiar_cli.actions.talk import Asking, take_turn
from familiar_cli.context.turn_runner import TurnResult, Watcher
from familiar_cli.context.types import Said
from familiar_cli.llm.slots import check_usable
from familiar_cli.serve.upstream import ClientsPrompt, WithSampling, traced

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from familiar_cli.context.trace import Trace
    from familiar_cli.identity import Author
    from familiar_cli.llm.types import ChatModel
    from familiar_cli.serve.asking import Asked
    from familiar_cli.serve.conversations import Served


@dataclass(frozen=True, slots=True)
class Begun:
    """The prompt is made and what was said is kept; the model is being asked."""

    trace: Trace


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the reply; of a program's own prompt, an event of the model's server."""

    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The reply is over.

    Args:
        result: What came of it; None: it failed, or it was a chore.
        error: Why; None when it did not. A cancelled turn has neither.
    """

    result: TurnResult | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Where a request comes from, and whose it is.

    Args:
        asked: The request.
        author: Who speaks.
        channel_id: The conversation that the program names; empty: none.
        is_chore: It is answered and kept nowhere.
        message_id: What the platform calls the message; empty: nothing.
        is_kept: What is said and the reply are kept.
        kind: What the conversation is; empty: nobody says.
    """

    asked: Asked
    author: Author
    channel_id: str = ""
    is_chore: bool = False
    message_id: str = ""
    is_kept: bool = True
    kind: str = ""


class Alone:
    """Lets requests of one conversation through one after another."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        """Hold one name."""
        lock, users = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[name]
            if users == 1:
                del self._locks[name]
            else:
                self._locks[name] = (lock, users - 1)


class ServedTurn:
    """A turn under way. What happens comes out of `events`; `cancel` ends it early.

    Args:
        served: Whose turn.
        wanted: What is wanted.
        alone: Who waits for whom.
    """

    def __init__(self, served: Served, wanted: Wanted, alone: Alone) -> None:
        self._served = served
        self._wanted = wanted
        self._alone = alone
        self._events: asyncio.Queue[Begun | Piece | Ended] = asyncio.Queue()
        self.task = asyncio.ensure_future(self._run())

    async def next(self) -> Begun | Piece | Ended:
        """Wait for the next event; nothing follows `Ended`."""
        return await self._events.get()

    async def cancel(self) -> None:
        """End the reply; the part that came is kept."""
        self.task.cancel()
        await asyncio.wait({self.task})

    async def _run(self) -> None:
        result = None
        try:
            if self._wanted.is_chore:
                await self._do_chore()
            else:
                result = await self._take()
        except asyncio.CancelledError:
            self._events.put_nowait(Ended())
            raise
        except Exception as error:  # noqa: BLE001  # whoever waits for the reply tells of it
            self._events.put_nowait(Ended(error=error))
        else:
            self._events.put_nowait(Ended(result))

    async def _do_chore(self) -> None:
        """Ask the model just what the program asks; no memory goes in, and nothing is kept."""
        familiar = self._served.familiar
        check_usable(familiar.slot())
        model = ClientsPrompt(familiar.model(), self._wanted.asked, "", self._on_event)
        await model.complete(model.prepare(()))

    async def _take(self) -> TurnResult:
        wanted, familiar = self._wanted, self._served.familiar
        async with self._alone.hold(key_of(wanted)):
            said = await asyncio.to_thread(self._placed)
            return await take_turn(familiar, said, self._on_text, asking=self._asking())

    def _placed(self) -> Said:
        """Find the conversation and prepare it; in a thread, since it uses the history."""
        wanted, conversations = self._wanted, self._served.conversations
        lines = wanted.asked.lines
        found = conversations.find(lines, wanted.author, wanted.channel_id, wanted.message_id)
        author = lines[-1].author or wanted.author
        said = Said(wanted.asked.said, author, greeting=0, source=SOURCE, kind=wanted.kind)
        if wanted.asked.memory_only:
            said = replace(said, beside=wanted.asked.texts)
        if not wanted.is_kept:
            return conversations.off_record(found, said, lines[:-1])
        return conversations.prepare(found, replace(said, message_id=wanted.message_id))

    def _asking(self) -> Asking:
        asked = self._wanted.asked
        return Asking(
            memory_only=asked.memory_only,
            model=self._model,
            watcher=Watcher(lambda trace: traced(trace, asked), self._on_begun),
        )

    def _model(self, model: ChatModel) -> ChatModel:
        asked = self._wanted.asked
        if asked.memory_only:
            return ClientsPrompt(model, asked, self._served.familiar.name, self._on_event)
        return WithSampling(model, asked.sampling)

    def _on_begun(self, trace: Trace) -> None:
        self._events.put_nowait(Begun(trace))

    def _on_text(self, text: str) -> None:
        if not self._wanted.asked.memory_only:
            self._events.put_nowait(Piece(text))

    def _on_event(self, event: str) -> None:
        self._events.put_nowait(Piece(event))


def key_of(wanted: Wanted) -> str:
    """Return a key that requests of one conversation share, before the conversation is looked up.

    Two that are sent at once share their channel, or their first lines.
    """
    if wanted.channel_id:
        return wanted.channel_id
    first = "\n".join(f"{line.role}\n{line.text}" for line in wanted.asked.lines[:2])
    return sha256(first.encode("utf-8", "surrogatepass")).hexdigest()
