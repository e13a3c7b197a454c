"""One turn: the request made from a message, the reply, and their trace.

`OnRecord` decides what is stored, and where.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.config.schema import DEFAULT_TIER
from familiar_cli.base.errors import FamiliarError, UsageError
from familiar_cli.base.jobs import finish_in_thread
from familiar_cli.base.languages import ENGLISH, Phrases
from familiar_cli.base.who.identity import Labels, Me
from familiar_cli.context.replies import GoingOn
from familiar_cli.context.request import Assembled, ContextRequest
from familiar_cli.context.trace import Trace, make_trace
from familiar_cli.llm.reply import CALLS, empty_reply
from familiar_cli.llm.thinking import split_thinking
from familiar_cli.store.history.rows import Turn, in_pairs, place_of
from familiar_cli.store.memory.pages.lines import KnownTexts

if TYPE_CHECKING:
    from familiar_cli.base.who.visibility import Viewer
    from familiar_cli.context.budget import Allowance
    from familiar_cli.context.pipeline import CompleteReply, ContextPipeline, OutgoingPrompt
    from familiar_cli.context.types import Report, Said
    from familiar_cli.llm.types import ChatModel
    from familiar_cli.store.history.store import HistoryStore


class Listener(Struct):
    """Collects a streamed reply, and passes it on while anybody listens.

    Args:
        on_text: Called with each piece; None if nobody listens.
        keep: Called with each piece first, in any case.
        waits: Pass on nothing before the reply is complete.

    Attributes:
        gone: Why nobody listens any more.
    """

    on_text: Callable[[str], None] | None
    keep: Callable[[str], None]
    waits: bool = False
    _pieces: list[str] = field(default_factory=list)
    _has_passed: bool = False
    gone: OSError | None = None

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._pieces)

    def __call__(self, piece: str) -> None:
        """Take one piece."""
        self._pieces.append(piece)
        self.keep(piece)
        if not self.waits:
            self._pass_on(piece)

    def close(self, reply: str) -> None:
        """Pass on the whole reply, if no piece of it was passed on."""
        if not self._has_passed:
            self._pass_on(reply)

    def _pass_on(self, text: str) -> None:
        if self.on_text is None or self.gone is not None:
            return
        self._has_passed = True
        try:
            self.on_text(text)
        except OSError as error:  # the pipe is closed; the reply is stored anyway
            self.gone = error


def prompt_notices(assembled: Assembled, *more: str) -> tuple[str, ...]:
    """Return notices about missing parts of a prompt."""
    problems = [
        f"{piece.rel_path or step_name(piece.source)}: {piece.problem}"
        for piece in assembled.fragments
        if piece.problem
    ]
    reports = report_lines((*assembled.providers, *assembled.processors))
    return (*filter(None, more), *reports, *problems)


def report_lines(reports: tuple[Report, ...]) -> list[str]:
    """Describe each provider that failed or was late in one line."""
    late = [report for report in reports if report.verdict != "answered"]
    return [f"{step_name(one.name)} {_FAULTS[one.verdict]}: {one.reason}" for one in late]


_FAULTS: Final = {"late": "took too long", "failed": "failed"}
_STEPS: Final = {
    "character": "reading the character",
    "content_search": "searching memory",
    "desk": "reading reminders",
    "digests": "reading digests",
    "history": "reading the conversation",
    "notes": "reading notes",
    "pins": "reading pinned pages",
    "recast": "tidying up the reply",
    "relations": "looking up relations",
    "stepped_thinking": "thinking before the reply",
}


def step_name(source: str) -> str:
    """Describe the work of a provider or processor; return the name of an unknown one."""
    return _STEPS.get(source.partition(".")[0], source)


def why_stopped(replied: CompleteReply, model: ChatModel) -> list[str]:
    """Return a notice if a reply was truncated."""
    match replied.completion.finish_reason:
        case "length" if replied.is_cut:
            mend = "`familiar config set llm.max_tokens N` allows longer ones"
            return [f"The reply was cut at {model.max_tokens} tokens; {mend}"]
        case "content_filter":
            return ["The server's content filter stopped the reply"]
    return []


class TurnResult(Struct, frozen=True):
    """The outcome of a turn.

    Args:
        turn: The message as stored; None off the record.
        reply: The reply as stored; None if an interruption came before any text.
        text: The text of the reply.
        notices: Notices for the person, a line each.
        interrupted: The person interrupted the reply.
        supersedes: The turn that the reply replaced, if any.
        added: The addition to a reply that was continued; None for a new reply.
    """

    turn: Turn | None
    reply: Turn | None
    text: str
    trace: Trace
    notices: tuple[str, ...] = ()
    interrupted: bool = False
    supersedes: int | None = None
    added: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the object that `ask --json` prints."""
        trace = self.trace.to_json(("model", "usage", "finish_reason"))
        return {
            "turn": self.turn.id if self.turn else None,
            "reply": self.text,
            "reply_turn": self.reply.id if self.reply else None,
            "supersedes": self.supersedes,
            "model": trace["model"],
            "usage": trace["usage"],
            "finish_reason": trace["finish_reason"],
            "notices": list(self.notices),
            **({} if self.added is None else {"added": self.added}),
        }


class Watcher(Struct, frozen=True):
    """Hooks of a caller before a request is sent.

    Args:
        amend: Returns the trace as it is to be stored; called in a thread.
        begun: Called with the trace once the message is stored, before the model is asked.
    """

    amend: Callable[[Trace], Trace] = field(default=lambda trace: trace)
    begun: Callable[[Trace], None] = field(default=lambda _: None)


UNWATCHED: Final = Watcher()


class TurnRunner:
    """Runs one turn without storing anything; `OnRecord` adds that, in a thread.

    Args:
        notice: A notice to add to the result.
        watcher: Observes outgoing requests.

    Attributes:
        notices: Notices for the person.
        interrupted: The partial result of a cancelled turn.
    """

    def __init__(
        self, pipeline: ContextPipeline, *, notice: str = "", watcher: Watcher = UNWATCHED
    ) -> None:
        self._pipeline = pipeline
        self._watcher = watcher
        self.notices = [notice] if notice else []
        self.interrupted: TurnResult | None = None

    async def run(
        self,
        request: ContextRequest,
        model: ChatModel,
        on_text: Callable[[str], None] | None = None,
        *,
        stream: bool = True,
    ) -> TurnResult:
        """Ask the model and return the result.

        Args:
            on_text: Called with each piece of the reply, or of the addition to one that is
                continued; with all of it at once if a post-processor may still change it.
            stream: Request a streamed reply.

        Raises:
            LimitError: The message exceeds the prompt; nothing was stored.
            ModelError: There is no complete reply; the message says what is stored, and `.data`
                what arrived.
            FamiliarError: Something could not be stored; the message says what was.
        """
        if request.begun and on_text:
            on_text = GoingOn(request.begun, on_text)
        waits = bool(self._pipeline.post_processors)
        listener = Listener(on_text, self._keep_piece, waits=waits)
        prompt = await self._pipeline.prepare(request, model, stream=stream)
        trace = await finish_in_thread(partial(self._save_question, prompt))
        self._watcher.begun(trace)
        replied = await self._ask(prompt, trace, model, listener)
        result = await finish_in_thread(partial(self._save_reply, replied, trace, model))
        if listener.gone is not None:
            raise listener.gone
        return result

    def _save_question(self, prompt: OutgoingPrompt) -> Trace:
        """Store the message, and return its trace."""
        assembled, sent = prompt.assembled, prompt.sent
        trace = make_trace(assembled, model=sent.model, counter=self._pipeline.counter.name)
        self.notices += prompt_notices(assembled)
        trace = replace(trace, request=sent, notices=tuple(self.notices))
        trace = self._watcher.amend(trace)
        return self._keep_question(assembled.request, trace)

    async def _ask(
        self, prompt: OutgoingPrompt, trace: Trace, model: ChatModel, listener: Listener
    ) -> CompleteReply:
        """Ask the model; a partial reply is stored."""
        try:
            replied = await self._pipeline.ask(prompt, model, listener)
        except asyncio.CancelledError:
            trace = _with_calls(replace(trace, error="interrupted"), prompt)
            result = await self._keep_part(listener.text, trace)
            self.interrupted = replace(result, interrupted=True)
            raise
        except FamiliarError as error:
            trace = _with_calls(trace, prompt)
            trace = replace(trace, thinking=getattr(error, "thinking", ""))
            raise await self._failed(error, listener.text, trace) from error
        calls = replied.completion.finish_reason in CALLS and prompt.sent.offers_functions
        if not (replied.text.strip() or calls):
            trace = replace(_with_calls(trace, prompt), thinking=replied.completion.thinking)
            raise await self._failed(empty_reply(model, replied.completion), "", trace)
        listener.close(replied.text)
        return replied

    async def _keep_part(self, came: str, trace: Trace) -> TurnResult:
        came, _ = split_thinking(came, is_whole=False)
        return await finish_in_thread(partial(self._keep_reply, came, trace, partial=True))

    async def _failed(self, error: FamiliarError, came: str, trace: Trace) -> FamiliarError:
        """Return `error` with what is stored nevertheless; store the partial reply."""
        why = str(error)
        result = await self._keep_part(came, replace(trace, error=why))
        error.args = (f"{why}; {self._what_is_kept(result)}",)
        error.data = result.to_json()
        return error

    def _save_reply(self, replied: CompleteReply, trace: Trace, model: ChatModel) -> TurnResult:
        """Store the reply, and return the outcome of the turn."""
        completion = replied.completion
        self.notices += [*report_lines(replied.processors), *why_stopped(replied, model)]
        trace = replace(
            trace,
            processors=(*trace.processors, *replied.processors),
            model=completion.model,
            reply_ms=replied.elapsed_ms,
            finish_reason=completion.finish_reason,
            usage=completion.usage,
            raw_reply="" if completion.text == replied.text else completion.text,
            thinking=completion.thinking,
        )
        trace = _with_calls(trace, replied)
        return self._keep_reply(replied.text, trace, partial=replied.is_cut)

    def _keep_question(self, request: ContextRequest, trace: Trace) -> Trace:
        """Store the message, which is about to be sent; return the trace as stored."""
        del request
        return trace

    def _keep_piece(self, piece: str) -> None:
        """Store a piece of the reply before it is shown."""

    def _keep_reply(self, text: str, trace: Trace, *, partial: bool) -> TurnResult:
        """Keep what came of the reply, and the record."""
        del partial
        told = tuple(self.notices)
        return TurnResult(None, None, text, replace(trace, notices=told), told)

    def _what_is_kept(self, result: TurnResult) -> str:
        """Describe what is stored of a turn that failed."""
        del result
        return "nothing was saved"


def _with_calls(trace: Trace, turn: OutgoingPrompt | CompleteReply) -> Trace:
    """Add the calls of other models to the trace."""
    return replace(trace, side_calls=tuple(turn.assembled.request.side_calls))


_MOST_LABELLED: Final = 200  # of recent speakers, so that names stay distinct
MOST_PENDING: Final = 20
"""So many turns that the familiar has not answered are seen as one with what is said now."""
_MOST_HEARD: Final = 48  # what a prompt shows by default is read at once, and found again


def request_for(
    said: Said,
    *,
    familiar_id: str,
    allowance: Allowance,
    history: HistoryStore,
    viewer: Viewer,
    opening: Callable[[ContextRequest, int | None], str],
    at: datetime,
    before_id: int | None = None,
    name: str = "",
    tier: int = DEFAULT_TIER,
    me: Me = Me(),  # noqa: B008  # frozen
    phrases: Phrases = ENGLISH,
) -> ContextRequest:
    """Build the request for a prompt. A channel without turns is opened with a greeting.

    Args:
        said: The message.
        allowance: The token budget.
        viewer: The reader of the reply.
        opening: Returns the greeting with a number.
        at: Time of the message.
        before_id: Only turns before this one are history; `said.instead_of` determines its own.
        name: The familiar's name.
        tier: The tier of the prompt, unless `said` has one.
        me: The owner.
        phrases: Titles and labels of the prompt.

    Raises:
        UsageError: The message is empty, or the greeting does not exist.
    """
    said.check()
    before_id = place_of(said.instead_of) if said.instead_of else before_id
    heard = history.recent(said.channel_id, _MOST_HEARD, before_id, viewer=viewer)
    recent = in_pairs(heard[-MOST_PENDING:])
    last = recent[-1] if recent else None
    newest = said.instead_of.id if said.instead_of else before_id or (last.id if last else 0)
    request = ContextRequest(
        familiar_id=familiar_id,
        channel_id=said.channel_id,
        author=said.author,
        utterance=said.text,
        modality=said.modality,
        at=at,
        budget_tokens=allowance.total,
        viewer=viewer,
        budget_reason=allowance.reason,
        layer_tokens=allowance.layers,
        most_content=allowance.most_content,
        seed=f"{familiar_id}\n{said.channel_id}\n{newest}\n{said.text}",
        pending_turns=_unanswered_turns([turn for turn in recent if turn.id != said.reply_to]),
        tier=said.tier or tier,
        labels=labels_in(history, said.channel_id, name, me, viewer).joined(
            [said.author, *(turn.author for turn in recent)]
        ),
        phrases=phrases,
        off_record=said.off_record,
        before_id=before_id,
        reply_to=said.reply_to,
        is_again=said.instead_of is not None and not said.instead_of.partial,
        beside=KnownTexts(said.beside) if said.beside else None,
    )
    if last is None:
        return replace(request, opening=opening(request, said.greeting))
    if said.greeting:
        raise UsageError(
            f"The conversation in channel {said.channel_id!r} has already begun; "
            "a greeting can only open a new one",
            hint="Start another with `--channel NAME`.",
        )
    return request


def labels_in(history: HistoryStore, channel_id: str, name: str, me: Me, viewer: Viewer) -> Labels:
    """Return the labels of people in a channel; `name` is the familiar's."""
    people = history.recent_distinct_authors(channel_id, _MOST_LABELLED, viewer=viewer)
    return Labels(frozenset(people), name, me)


def _unanswered_turns(turns: list[Turn]) -> tuple[Turn, ...]:
    """Return the turns of people since the familiar last spoke, oldest first."""
    waiting = list(takewhile(lambda turn: turn.role != "assistant", reversed(turns)))
    return tuple(turn for turn in reversed(waiting) if turn.role == "user")


def dry_run(assembled: Assembled, *, model: str, counter: str, told: tuple[str, ...] = ()) -> Trace:
    """Build the trace of a prompt that is only shown; `told` are further notices."""
    trace = make_trace(assembled, model=model, counter=counter)
    return replace(trace, notices=prompt_notices(assembled, *told))
