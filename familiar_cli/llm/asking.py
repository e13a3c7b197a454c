"""Ask a model for JSON that is checked and repaired once, or for side calls of a turn."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from familiar_cli.base.errors import RequestRefusedError, UnusableReplyError
from familiar_cli.base.markdown import code_in
from familiar_cli.base.text import one_line, whole_sentences
from familiar_cli.base.times.clock import stopwatch_s
from familiar_cli.llm.reply import empty_reply
from familiar_cli.llm.thinking import split_thinking
from familiar_cli.llm.types import (
    ChatModel,
    Completion,
    Message,
    PreparedRequest,
    SideCall,
    Usage,
    tokens_of,
)

N = TypeVar("N", int, float)
T = TypeVar("T")

REPAIR: Final = """\
Your last reply could not be used: {problem}. Reply again, shorter, with one whole JSON object \
{shape} and nothing else."""
_PROBLEM_CHARS: Final = 200
_VOICE_SHARE: Final = 0.08
_VOICE_TOKENS: Final = 150


class Spent(Struct, frozen=True):
    """The cost of asking a model.

    Args:
        calls: Number of answered requests, including repairs.
        repairs: How many of them were repairs.
        prompt_tokens: As counted by the server; None if it never reported any.
        completion_tokens: As counted by the server; None if it never reported any.
        cost: In the server's currency, or None.
        estimated_tokens: Tokens of all prompts, as counted by this program.
        model_s: Seconds spent waiting for the model.
    """

    calls: int = 0
    repairs: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None
    estimated_tokens: int = 0
    model_s: float = 0.0


class Asker(Struct):
    """Asks one model for JSON.

    Args:
        count: Counts tokens.
        keep: Stores an unusable reply in the quarantine and returns its path; None keeps none.
        slot: The model's slot, named in errors.
        reply_tokens: Maximum tokens of a reply.
        temperature: Sampling temperature; None: the model's setting.
        structured: `auto`, `on` or `off`: whether to send the schema to the server. `auto` switches
            to `off` once the server refuses it.
        unchanged: What errors describe as unchanged.
        on_answer: Called for each answer with the tokens of the prompt and of the reply.

    Attributes:
        spent: Total cost so far.
        quarantined: Paths of unusable replies.
    """

    model: ChatModel
    count: Callable[[str], int]
    keep: Callable[[str], Path] | None
    slot: str
    reply_tokens: int
    temperature: float | None = None
    structured: str = "auto"
    unchanged: str = "nothing was written"
    on_answer: Callable[[int, int], None] = lambda *_: None
    spent: Spent = field(default_factory=Spent)
    quarantined: list[str] = field(default_factory=list)

    async def ask(
        self,
        system: str,
        user: str,
        *,
        schema: Mapping[str, Any],
        shape: str,
        read: Callable[[Completion], T],
    ) -> T:
        """Ask, and return the reply as parsed by `read`.

        Args:
            system: The system message.
            user: The user message.
            schema: The JSON schema of the reply.
            shape: A short description of the schema, for a repair request.
            read: Parses a complete reply; raises `UnusableReplyError` to request a repair.

        Raises:
            UnusableReplyError: Neither reply was usable.
            ModelError: The model could not be asked.
        """
        problem = ""
        for is_repair in (False, True):
            repair = f"\n\n{REPAIR.format(problem=problem, shape=shape)}" if is_repair else ""
            chat: list[Message] = [
                {"role": "system", "content": system},
                {"role": "user", "content": f"{user}{repair}"},
            ]
            completion = await self._complete(chat, schema)
            self._count(chat, completion.usage, is_repair=is_repair)
            self.on_answer(*tokens_of(chat, completion, self.count))
            try:
                _check_whole(completion)
                return read(completion)
            except UnusableReplyError as error:
                problem = one_line(str(error), _PROBLEM_CHARS)
                if self.keep:
                    self.quarantined.append(str(self.keep(completion.text)))
        kept = f". It is kept in {self.quarantined[-1]!r}" if self.quarantined else ""
        raise UnusableReplyError(
            f"The reply of {self.model.name!r} could not be used, and neither could a second one: "
            f"{problem}{kept}; {self.unchanged}",
            hint="Run it again, or use a better model: "
            f"`familiar config set llm.slots.{self.slot}.model NAME`.",
        )

    async def _complete(self, chat: list[Message], schema: Mapping[str, Any]) -> Completion:
        started = stopwatch_s()
        try:
            used = schema if self.structured != "off" else None
            return await self.model.complete(self._prepare(chat, used))
        except RequestRefusedError:
            if self.structured != "auto":
                raise
            # The server does not support this schema: rely on the prompt alone from now on.
            self.structured = "off"
            return await self.model.complete(self._prepare(chat, None))
        finally:
            waited_s = self.spent.model_s + stopwatch_s() - started
            self.spent = replace(self.spent, model_s=waited_s)

    def _prepare(self, chat: list[Message], schema: Mapping[str, Any] | None) -> PreparedRequest:
        return self.model.prepare(
            chat,
            stream=True,  # streaming allows noticing silence and cancelling a reply
            reply_schema=schema,
            max_tokens=self.reply_tokens,
            temperature=self.temperature,
        )

    def _count(self, chat: list[Message], usage: Usage | None, *, is_repair: bool) -> None:
        spent, used = self.spent, usage or Usage()
        tokens = sum(self.count(message["content"]) for message in chat)
        self.spent = replace(
            spent,
            calls=spent.calls + 1,
            repairs=spent.repairs + is_repair,
            prompt_tokens=_add_optional(spent.prompt_tokens, used.prompt_tokens),
            completion_tokens=_add_optional(spent.completion_tokens, used.completion_tokens),
            cost=_add_optional(spent.cost, used.cost),
            estimated_tokens=spent.estimated_tokens + tokens,
        )


def voice_excerpt(voice: str, room_tokens: int, count: Callable[[str], int]) -> str:
    """Return the beginning of the familiar's character, in whole sentences if possible.

    Args:
        voice: The complete text.
        room_tokens: Token budget of the question; the excerpt gets a small share of it.
        count: Counts tokens.
    """
    return whole_sentences(voice, min(_VOICE_TOKENS, int(room_tokens * _VOICE_SHARE)), count)


def _check_whole(completion: Completion) -> None:
    if completion.finish_reason == "length":
        spent = ", which its thinking used up" if completion.thinking else ""
        raise UnusableReplyError(f"it was cut off at the token limit{spent}")
    if not completion.text.strip():
        raise UnusableReplyError("it is empty")


def _add_optional(known: N | None, new: N | None) -> N | None:
    if known is None or new is None:
        return new if known is None else known
    return known + new


async def ask_side_model(
    calls: list[SideCall], name: str, model: ChatModel, messages: Sequence[Message]
) -> Completion:
    """Ask `model` once, recording the call in `calls` even if it fails.

    Args:
        calls: The calls of the turn so far.
        name: Name of the caller.
        messages: The prompt.

    Raises:
        ModelError: The reply is incomplete or empty.
    """
    request = model.prepare(messages, stream=False)
    # Recorded before sending, so that an unanswered call is recorded, too.
    number, start_s = len(calls), stopwatch_s()
    call = SideCall(name, request, "", request.model, None, None, 0.0, "no answer in time")
    calls.append(call)
    try:
        completion = await model.complete(request)
    except Exception as error:
        calls[number] = replace(call, elapsed_ms=_ms_since(start_s), error=str(error))
        raise
    calls[number] = SideCall(
        name,
        request,
        completion.text,
        completion.model,
        completion.finish_reason,
        completion.usage,
        _ms_since(start_s),
        "",
        completion.thinking,
    )
    if not completion.text.strip():
        raise empty_reply(model, completion)
    return completion


def _ms_since(start_s: float) -> float:
    return round(1000 * (stopwatch_s() - start_s), 3)


_COMMA: Final = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_OPENING: Final = re.compile(r"[{\[]")
_MOST_LOST: Final = 5  # most unterminated values to skip


def values_in(text: str) -> Iterator[Any]:
    """Yield candidate JSON values in `text`, likeliest first; None for a broken one.

    Text that a model reasons in before its answer is ignored.
    """
    for piece in _json_candidates(split_thinking(text)[0].replace("\ufeff", "")):
        yield _load_json(piece)


def _json_candidates(text: str) -> Iterator[str]:
    yield text.strip()
    for code in code_in(text):
        yield code.strip("` \r\n")
    start, lost = _next_start(text, 0), 0
    while start >= 0 and lost < _MOST_LOST:
        end = _end_of(text, start)
        if end is not None:
            yield text[start:end]
        lost += end is None
        start = _next_start(text, start + 1 if end is None else end)


def _next_start(text: str, at: int) -> int:
    match = _OPENING.search(text, at)
    return match.start() if match else -1


def _end_of(text: str, start: int) -> int | None:
    """Find the end of the JSON value that begins at `start`, or return None."""
    depth, inside, escaped = 0, False, False
    for at in range(start, len(text)):
        char = text[at]
        if inside:
            inside = escaped or char != '"'
            escaped = not escaped and char == "\\"
        elif char == '"':
            inside = True
        elif char in "{[":
            depth += 1
        elif char in "}]":
            depth -= 1
            if depth == 0:
                return at + 1
    return None


def _load_json(piece: str) -> Any:  # noqa: ANN401
    for attempt in (piece, _COMMA.sub(lambda match: match[1] or "", piece)):
        try:
            return json.loads(attempt, strict=False)
        except (ValueError, RecursionError):
            continue
    return None
