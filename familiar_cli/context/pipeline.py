"""`ContextPipeline`: the one path from a message to a prompt, and on to a reply.

Providers run in a thread, one after another; while one of them is slow, another thread asks the
rest. A late or failing one is reported, and the prompt is made without it, even if its thread never
ends. The pre-processors, the budget, the model and the post-processors follow.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import FamiliarError
from familiar_cli.base.jobs import apart, quick_turns
from familiar_cli.base.text import one_line
from familiar_cli.base.times.clock import stopwatch_s
from familiar_cli.base.who.identity import NO_LABELS, Labels
from familiar_cli.context import budget
from familiar_cli.context.lore_placement import fill_outlets, settle_places
from familiar_cli.context.replies import ReplyFilter, ShortReply, ShortReplyFilter, without_hidden
from familiar_cli.context.request import Assembled
from familiar_cli.context.types import Contribution, Fit, Layer, PromptSpan, Report, Role

if TYPE_CHECKING:
    from familiar_cli.context.request import (
        ContextProvider,
        ContextRequest,
        PostProcessor,
        PreProcessor,
        Refill,
    )
    from familiar_cli.context.types import Fragment, Verdict
    from familiar_cli.llm.tokens import TokenCounter
    from familiar_cli.llm.types import ChatModel, Completion, Message, PreparedRequest

_LEAD: Final = (
    PromptSpan.main,
    PromptSpan.world_before,
    PromptSpan.persona,
    PromptSpan.description,
    PromptSpan.personality,
    PromptSpan.scenario,
    PromptSpan.digest,
    PromptSpan.world_after,
    PromptSpan.desk,
)
_HIGHEST_FIRST: Final[tuple[Role, ...]] = ("assistant", "user", "system")


def render_messages(fragments: Sequence[Fragment]) -> tuple[Message, ...]:
    """Convert the fragments in the prompt to messages."""
    kept: dict[PromptSpan, list[Fragment]] = {place: [] for place in PromptSpan}
    for fragment in sorted(fragments, key=attrgetter("order")):
        if fragment.kept:
            kept[fragment.place].append(fragment)
    chat = _with_insertions(
        [_make_message(f.role, f.text) for f in kept[PromptSpan.chat]], kept[PromptSpan.depth]
    )
    examples = _example_messages(kept[PromptSpan.example])
    start = [_make_message("system", budget.START_MARK)] if examples else []
    past = [_make_message("system", f.text.strip()) for f in kept[PromptSpan.summary]]
    post = [_make_message("system", f.text.strip()) for f in kept[PromptSpan.post_history]]
    post += [_make_message(f.role, f.text) for f in kept[PromptSpan.begun]]
    lead = [_make_message("system", f.text.strip()) for place in _LEAD for f in kept[place]]
    return _with_one_lead([*lead, *examples, *start, *past, *chat, *post])


def name_speakers(
    contributions: Sequence[Contribution], labels: Labels = NO_LABELS
) -> list[Contribution]:
    """Add names to people's turns if several people take part."""
    people = {
        (offered.author.platform, offered.author.user_id)
        for offered in contributions
        if offered.place is PromptSpan.chat and offered.author
    }
    if len(people) < 2:  # noqa: PLR2004  # one person needs no name
        return list(contributions)
    labels = labels.joined(offered.author for offered in contributions)
    return [_with_speaker(offered, labels) for offered in contributions]


def _with_speaker(offered: Contribution, labels: Labels) -> Contribution:
    if offered.place is not PromptSpan.chat or offered.author is None:
        return offered
    return replace(offered, text=f"{labels.of(offered.author)}: {offered.text}")


def _with_insertions(chat: list[Message], insertions: list[Fragment]) -> list[Message]:
    """Insert texts into the chat, each `depth` real turns above its end."""
    depths = {min(max(f.depth, 0), len(chat)) for f in insertions}
    merged = list(chat)
    for depth in sorted(depths, reverse=True):
        here = [f for f in insertions if min(max(f.depth, 0), len(chat)) == depth]
        # Earlier insertions are above, so the end of the list still counts real turns.
        merged[len(merged) - depth : len(merged) - depth] = _joined_by_role(here)
    return merged


def _joined_by_role(insertions: list[Fragment]) -> list[Message]:
    messages = []
    for role in _HIGHEST_FIRST:
        texts = [f.text.strip() for f in insertions if f.role == role]
        if texts:
            messages.append(_make_message(role, "\n".join(texts)))
    return messages


def _example_messages(fragments: list[Fragment]) -> list[Message]:
    messages = []
    for fragment in fragments:
        messages.append(_make_message("system", budget.EXAMPLE_MARK))
        messages += [_make_message(line.role, line.text) for line in fragment.dialogue]
    return messages


def _with_one_lead(messages: list[Message]) -> tuple[Message, ...]:
    """Merge the system messages at the beginning of `messages`."""
    count = next((n for n, m in enumerate(messages) if m["role"] != "system"), len(messages))
    if not count:
        return tuple(messages)
    lead = _make_message("system", "\n\n".join(m["content"] for m in messages[:count]))
    return (lead, *messages[count:])


def _make_message(role: Role, text: str) -> Message:
    # A lone surrogate is not valid Unicode, and cannot be sent.
    sendable = text.encode("utf-8", errors="replace").decode("utf-8") if _is_broken(text) else text
    return {"role": role, "content": sendable}


def _is_broken(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


T = TypeVar("T")
UTTERANCE: Final = "utterance"
UTTERANCE_PRIORITY: Final = 1000
INSTRUCTION: Final = (
    "[Continue your last message from exactly where it ends. Write only what comes next; repeat "
    "nothing of it.]"
)
"""For a server that does not go on from an assistant message at the end of the prompt."""

_abandoned: set[asyncio.Task[object]] = set()


class OutgoingPrompt(Struct, frozen=True):
    """A prompt that is about to be sent.

    Args:
        assembled: The prompt.
        sent: The request.
        style: Options for a small model's reply; None for other models.
    """

    assembled: Assembled
    sent: PreparedRequest
    style: ShortReply | None = None


class CompleteReply(Struct, frozen=True):
    """A complete reply.

    Args:
        assembled: The prompt.
        sent: The request.
        completion: The model's response.
        text: The reply after the post-processors.
        processors: The result of each post-processor, in the order in which they ran.
        elapsed_ms: Duration of the model's response.
        is_cut: The text is truncated, since the model ran out of tokens.
    """

    assembled: Assembled
    sent: PreparedRequest
    completion: Completion
    text: str
    processors: tuple[Report, ...]
    elapsed_ms: float
    is_cut: bool


class ContextPipeline:
    """Assembles prompts and asks the model.

    Args:
        providers: Providers of contributions; their order decides among equal priorities.
        counter: The token counter.
        pre_processors: Processors of contributions, in this order.
        post_processors: Processors of replies, last one first.
        short_reply: Returns the options for a small model's reply; None for other models.
    """

    def __init__(
        self,
        providers: Sequence[ContextProvider],
        counter: TokenCounter,
        *,
        pre_processors: Sequence[PreProcessor] = (),
        post_processors: Sequence[PostProcessor] = (),
        short_reply: Callable[[ContextRequest], ShortReply] | None = None,
    ) -> None:
        self.providers = tuple(providers)
        self.pre_processors = tuple(pre_processors)
        self.post_processors = tuple(post_processors)
        self.counter = counter
        self._short_reply = short_reply
        self._budgeter = budget.Budgeter(counter)

    async def assemble(self, request: ContextRequest) -> Assembled:
        """Assemble the prompt for `request` without asking the model.

        Raises:
            LimitError: The message exceeds the prompt.
        """
        with quick_turns():
            return await self._assemble(request)

    async def _assemble(self, request: ContextRequest) -> Assembled:
        start = stopwatch_s()
        offered, providers = await self._gather(request)
        offered += _newest_contributions(request)
        offered, processors = await self._pre_process(request, offered)
        filled = self._budgeter.fill(
            name_speakers(settle_places(offered), request.labels),
            request.layer_tokens,
            request.budget_tokens,
            most_content=request.most_content,
            refills=[_with_places(refill) for refill in request.refills],
        )
        request.refills.clear()  # they hold the request and all that was found for it
        fragments = fill_outlets(filled.fragments)
        messages = render_messages(fragments)
        return Assembled(
            request=request,
            messages=messages,
            fragments=fragments,
            layers=filled.layers,
            providers=tuple(providers),
            processors=tuple(processors),
            used_tokens=self.count(messages),
            elapsed_ms=_ms_since(start),
        )

    async def prepare(
        self, request: ContextRequest, model: ChatModel, *, stream: bool = True
    ) -> OutgoingPrompt:
        """Assemble the prompt for `request`, ready to be sent to `model`.

        Args:
            stream: Request a streamed reply.

        Raises:
            LimitError: As `assemble`.
        """
        assembled = await self.assemble(request)
        style = self._short_reply(request) if self._short_reply else None
        how = style.asked if style else {}
        return OutgoingPrompt(
            assembled, model.prepare(assembled.messages, stream=stream, **how), style
        )

    async def ask(
        self, prompt: OutgoingPrompt, model: ChatModel, on_text: Callable[[str], None] | None = None
    ) -> CompleteReply:
        """Ask the model, and return the reply after the post-processors.

        Args:
            prompt: The result of `prepare`.
            on_text: Called with each piece of the model's text at once, before any post-processor,
                without hidden notes.

        Raises:
            ModelError: There is no complete reply.
        """
        assembled, style = prompt.assembled, prompt.style
        start = stopwatch_s()
        listener = ShortReplyFilter(style, on_text) if style and on_text else None
        completion = await self._complete(prompt, model, listener or on_text)
        elapsed_ms = _ms_since(start)
        said = without_hidden(completion.text) if _hides_private(assembled) else completion.text
        is_cut = completion.finish_reason == "length"
        if style:
            said, is_cut = style.shown(said, is_cut=is_cut)
        if listener:
            listener.close(said)
        text, processors = await self.post_process(assembled.request, said)
        return CompleteReply(
            assembled, prompt.sent, completion, text, processors, elapsed_ms, is_cut
        )

    async def run(
        self,
        request: ContextRequest,
        model: ChatModel,
        on_text: Callable[[str], None] | None = None,
        *,
        stream: bool = True,
    ) -> CompleteReply:
        """Prepare the prompt and ask the model; see `prepare` and `ask`."""
        return await self.ask(await self.prepare(request, model, stream=stream), model, on_text)

    async def post_process(
        self, request: ContextRequest, reply: str
    ) -> tuple[str, tuple[Report, ...]]:
        """Apply all post-processors, last one first; return the reply and each result."""
        reports = []
        for processor in reversed(self.post_processors):
            changed, report = await _run_within(
                processor.name, processor.deadline_s, processor.process(request, reply)
            )
            reply = reply if changed is None else changed
            reports.append(report)
        return reply, tuple(reports)

    async def _complete(
        self, prompt: OutgoingPrompt, model: ChatModel, on_text: Callable[[str], None] | None
    ) -> Completion:
        if on_text is None or not _hides_private(prompt.assembled):
            return await model.complete(prompt.sent, on_text)
        reply_filter = ReplyFilter(on_text)
        completion = await model.complete(prompt.sent, reply_filter)
        reply_filter.close()
        return completion

    def count(self, messages: Sequence[Message]) -> int:
        """Count the tokens of `messages` as one prompt."""
        texts = sum(map(self.counter.count, [message["content"] for message in messages]))
        return budget.PROMPT_TOKENS + texts + budget.MESSAGE_TOKENS * len(messages)

    async def _gather(self, request: ContextRequest) -> tuple[list[Contribution], list[Report]]:
        results = await _Round(self.providers, request).results()
        for provider, (pieces, report) in zip(self.providers, results, strict=True):
            if pieces is None and provider.deadline_s is None:
                raise FamiliarError(
                    f"A prompt needs the {report.name}, which failed: {report.reason};"
                    " nothing was sent or kept",
                    hint="Run `familiar doctor`.",
                )
        offered = [piece for pieces, _ in results for piece in pieces or ()]
        return offered, [report for _, report in results]

    async def _pre_process(
        self, request: ContextRequest, offered: list[Contribution]
    ) -> tuple[list[Contribution], list[Report]]:
        reports = []
        for processor in self.pre_processors:
            changed, report = await _run_within(
                processor.name, processor.deadline_s, processor.process(request, tuple(offered))
            )
            offered = offered if changed is None else list(changed)
            reports.append(report)
        return offered, reports


def _with_places(refill: Refill) -> Refill:
    """Return a refill whose pieces stand where their books place them."""
    return replace(refill, repack=lambda *room: settle_places(refill.repack(*room)))


Answer: TypeAlias = "tuple[Sequence[Contribution] | None, Report]"
_PATIENCE_S: Final = 0.05  # while providers wait for their turn, so often one more thread asks them


class _Round:
    """All providers, asked for one request by as few threads as are quick enough."""

    def __init__(self, providers: Sequence[ContextProvider], request: ContextRequest) -> None:
        self._providers = providers
        self._request = request
        self._waiting = deque(range(len(providers)))
        self._answers: dict[int, Answer] = {}
        self._threads: list[asyncio.Future[None]] = []
        self._current: dict[int, int] = {}  # of each thread
        self._begun_s = stopwatch_s()

    async def results(self) -> list[Answer]:
        """Return the contributions and the report of each provider at its deadline, in order."""
        threads = self._threads
        try:
            while len(self._answers) < len(self._providers):
                if self._waiting:
                    ask = partial(self._ask_in_turn, len(threads))
                    threads.append(asyncio.ensure_future(apart(ask)))
                running = [thread for thread in threads if not thread.done()]
                ended, _ = await asyncio.wait(
                    running, timeout=self._pause_s(), return_when=asyncio.FIRST_COMPLETED
                )
                for thread in ended:
                    if not thread.cancelled():
                        thread.result()  # raises what was no provider's fault
                self._give_up_late()
        finally:
            for thread in threads:
                if not thread.done():
                    _abandon_task(thread)
        return [self._answers[number] for number in range(len(self._providers))]

    async def _ask_in_turn(self, thread: int) -> None:
        while self._waiting:
            with suppress(IndexError):  # another thread may take the last one
                self._current[thread] = number = self._waiting.popleft()
                start_s = stopwatch_s()
                try:
                    pieces = await self._providers[number].contribute(self._request)
                    self._settle(number, pieces, "answered", start_s)
                except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  # reported
                    if number in self._answers:  # it was too late
                        return
                    self._settle(number, None, "failed", start_s, _failure_words(error))

    def _settle(
        self,
        number: int,
        pieces: Sequence[Contribution] | None,
        verdict: Verdict,
        start_s: float,
        reason: str = "",
    ) -> None:
        provider = self._providers[number]
        limit_s = provider.deadline_s or 0.0
        report = Report(provider.name, verdict, _ms_since(start_s), reason, limit_s)
        self._answers.setdefault(number, (pieces, report))

    def _limits(self) -> dict[int, float]:
        """Return when each provider is late that has not answered yet."""
        return {
            number: self._begun_s + provider.deadline_s
            for number, provider in enumerate(self._providers)
            if provider.deadline_s is not None and number not in self._answers
        }

    def _pause_s(self) -> float | None:
        """Return the time until the next deadline, or until one more thread is due."""
        until_s = [limit_s - stopwatch_s() for limit_s in self._limits().values()]
        until_s += [_PATIENCE_S] * bool(self._waiting)
        return max(min(until_s), 0.001) if until_s else None

    def _give_up_late(self) -> None:
        for number, limit_s in self._limits().items():
            if stopwatch_s() < limit_s:
                continue
            reason = f"no answer within {self._providers[number].deadline_s:g} s"
            self._settle(number, None, "late", self._begun_s, reason)
            with suppress(ValueError):
                self._waiting.remove(number)
            for thread, current in tuple(self._current.items()):
                if current == number and not self._threads[thread].done():
                    _abandon_task(self._threads[thread])


async def _run_within(
    name: str, deadline_s: float | None, work: Coroutine[object, object, T]
) -> tuple[T | None, Report]:
    """Run `work` under a deadline; return its result, or None on failure, and a report.

    Late work is cancelled without waiting for it. A `TimeoutError` raised by the work itself is a
    failure like any other.
    """
    start = stopwatch_s()
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=deadline_s)
    finally:
        if not task.done():
            _abandon_task(task)
    elapsed_ms = _ms_since(start)
    within_s = deadline_s or 0.0
    if not task.done():
        late = Report(name, "late", elapsed_ms, f"no answer within {within_s:g} s", within_s)
        return None, late
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    if error is not None:
        return None, Report(name, "failed", elapsed_ms, _failure_words(error), within_s)
    return task.result(), Report(name, "answered", elapsed_ms, "", within_s)


def _failure_words(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "CancelledError: it gave up"
    words = str(error) if isinstance(error, FamiliarError) else ""
    return one_line(words or f"{type(error).__name__}: {error}", 300)


def _abandon_task(task: asyncio.Future[T]) -> None:
    """Cancel a task, keeping a reference until it has ended."""
    task.cancel()
    _abandoned.add(task)  # type: ignore[arg-type]  # a future of anything
    task.add_done_callback(_forget_task)


def _forget_task(task: asyncio.Future[T]) -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()  # so that asyncio does not warn of an exception never retrieved


def _hides_private(assembled: Assembled) -> bool:
    return bool([piece for piece in assembled.fragments if piece.kept and piece.hidden])


def _newest_contributions(request: ContextRequest) -> list[Contribution]:
    """Return the newest contributions: the message, and a reply to be continued."""
    contribution = Contribution(
        layer=Layer.recent_history,
        priority=UTTERANCE_PRIORITY,
        text=request.utterance,
        source=UTTERANCE,
        place=PromptSpan.chat,
        author=request.author,
        role="user",
        fit=Fit.required,
    )
    if request.begun is None:
        return [contribution]
    reply = replace(
        contribution,
        priority=UTTERANCE_PRIORITY - 1,
        text=request.begun.text.rstrip(),  # servers refuse to continue after a space
        source="reply.begun",
        place=PromptSpan.begun,
        author=None,
        role="assistant",
    )
    told = replace(reply, text=INSTRUCTION, source="reply.instruction", role="system")
    return [contribution, reply] if request.begun.prefill else [contribution, reply, told]


def _ms_since(start_s: float) -> float:
    return round(1000 * (stopwatch_s() - start_s), 3)
