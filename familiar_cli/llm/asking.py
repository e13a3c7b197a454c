"""Ask a model on the side: for JSON that is checked and repaired once, or on the way to a reply."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from familiar_cli.clock import stopwatch_s
from familiar_cli.errors import BadReplyError, RequestRefusedError, UnusableReplyError
from familiar_cli.llm.types import SideCall, Usage
from familiar_cli.markdown import code_in
from familiar_cli.text import one_line, whole_sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from familiar_cli.llm.types import ChatModel, Completion, Message, PreparedRequest

N = TypeVar("N", int, float)
T = TypeVar("T")

REPAIR: Final = """\
Your last reply could not be used: {problem}. Reply again, shorter, with one whole JSON object \
{shape} and nothing else."""
_PROBLEM_CHARS: Final = 200
_VOICE_SHARE: Final = 0.08
_VOICE_TOKENS: Final = 150


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of asking a model.

    Args:
        calls: Requests that were answered, repairs included.
        repairs: How many of them were repairs.
        prompt_tokens: As the server counts, or None when it never said.
        completion_tokens: As the server counts, or None.
        cost: In the server's currency, or None.
        estimated_tokens: Tokens of all prompts, as this program counts.
        model_s: Seconds spent waiting for the model.
    """

    calls: int = 0
    repairs: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None
    estimated_tokens: int = 0
    model_s: float = 0.0


@dataclass(slots=True)
class Asker:
    """Asks one model for JSON.

    Args:
        model: Who is asked.
        count: Counts tokens.
        keep: Puts an unusable reply into the quarantine and returns where it is.
        slot: The slot of the model, which an error names.
        reply_tokens: Most tokens of a reply.
        temperature: How freely words are chosen; None: as the model's settings say.
        structured: `auto`, `on` or `off`: whether the server is handed the schema. `auto` becomes
            `off` once the server refuses it.
        unchanged: What an error says stayed as it was.
        on_answer: Told of each answer: the tokens of the prompt, and those of the reply.

    Attributes:
        spent: What was asked so far.
        quarantined: Where the unusable replies are.
    """

    model: ChatModel
    count: Callable[[str], int]
    keep: Callable[[str], Path]
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
        """Ask, and return the reply as `read` parses it.

        Args:
            system: The system message.
            user: The user message.
            schema: The JSON schema of the reply.
            shape: The same in a few words, for a repair.
            read: Reads a whole reply; raises `UnusableReplyError` to have it repaired.

        Raises:
            UnusableReplyError: Neither reply could be used; both are in the quarantine.
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
                self.quarantined.append(str(self.keep(completion.text)))
        raise UnusableReplyError(
            f"The reply of {self.model.name!r} could not be used, and neither could its repair: "
            f"{problem}. It is kept in {self.quarantined[-1]!r}; {self.unchanged}",
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
            # This server does not know schemas, or not this one: from now on, words must do.
            self.structured = "off"
            return await self.model.complete(self._prepare(chat, None))
        finally:
            waited_s = self.spent.model_s + stopwatch_s() - started
            self.spent = replace(self.spent, model_s=waited_s)

    def _prepare(self, chat: list[Message], schema: Mapping[str, Any] | None) -> PreparedRequest:
        return self.model.prepare(
            chat,
            stream=True,  # a long silence is then noticed, and a reply can be broken off
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


def tokens_of(
    chat: Sequence[Message], completion: Completion, count: Callable[[str], int]
) -> tuple[int, int]:
    """Return the tokens of a prompt and of its reply: as the server counts, else as we do."""
    used = completion.usage or Usage()
    read, written = used.prompt_tokens, used.completion_tokens
    return (
        sum(count(message["content"]) for message in chat) if read is None else read,
        count(completion.text) if written is None else written,
    )


def voice_excerpt(voice: str, room_tokens: int, count: Callable[[str], int]) -> str:
    """Return the beginning of what makes a familiar itself, in whole sentences where it has any.

    Args:
        voice: All of it.
        room_tokens: What the question has room for; the voice gets a small share of it.
        count: Counts tokens.
    """
    return whole_sentences(voice, min(_VOICE_TOKENS, int(room_tokens * _VOICE_SHARE)), count)


def _check_whole(completion: Completion) -> None:
    if completion.finish_reason == "length":
        raise UnusableReplyError("it was cut off at the token limit")
    if not completion.text.strip():
        raise UnusableReplyError("it is empty")


def _add_optional(known: N | None, new: N | None) -> N | None:
    if known is None or new is None:
        return new if known is None else known
    return known + new


async def ask_side_model(
    calls: list[SideCall], name: str, model: ChatModel, messages: Sequence[Message]
) -> Completion:
    """Ask `model` once, and record the call in `calls`, also one that fails.

    Args:
        calls: The calls of a turn so far.
        name: Who asks.
        model: Who is asked.
        messages: What it is told.

    Raises:
        ModelError: There is no whole reply, or one without a word.
    """
    sent = model.prepare(messages, stream=False)
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


_THINKING: Final = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_COMMA: Final = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_OPENING: Final = re.compile(r"[{\[]")
_MOST_LOST: Final = 5  # values that begin and do not end are passed over


def values_in(text: str) -> Iterator[Any]:
    """Yield each JSON value that `text` may mean, the likeliest first; None for a broken one.

    What a model notes for itself before it answers is not part of the answer.
    """
    for piece in _json_candidates(_THINKING.sub("", text).replace("\ufeff", "")):
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
    found = _OPENING.search(text, at)
    return found.start() if found else -1


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
    for attempt in (piece, _COMMA.sub(lambda found: found[1] or "", piece)):
        try:
            return json.loads(attempt, strict=False)
        except (ValueError, RecursionError):
            continue
    return None
