"""Conversations that come flattened into one text: read them as the lines they are.

Open WebUI puts the thread of a channel into the instructions when somebody mentions a model. Some
bots paste the last messages, each with its speaker's name, into the message itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from familiar_cli.base.text import bare_lines, fold
from familiar_cli.servers.chat_api.aligning import RequestLine

KIND: Final = "thread"
"""The kind of conversation that a thread is: everybody hears what is said there."""

_THREAD: Final = re.compile(
    r"You are (?P<name>[^\n]{1,200}?), participating in a threaded conversation\b"
)
_HISTORY: Final = "Here's the thread history:\n"
_END: Final = "\nContinue the conversation naturally as "
_MOST_BETWEEN: Final = 250  # characters between the two, which tell how to reply
_LABEL: Final = re.compile(r"((?:[^\n:\[\]<>.]|\.(?! )){1,60}): ?(?=\S)")
# In a line before pasted messages: a person's own words, which are kept with all that follows.
_ASKING: Final = re.compile(
    r"\?|\b(?:you|I|me|my|please|what|why|how|who|can|could|would)\b", re.IGNORECASE
)

# A line with which a program introduces pasted messages.
_INTRODUCTION: Final = re.compile(
    r"\W*(?:(?:the|here|are|is|these|of|in|this|so|far|until|now|recent|last|latest|previous|newest"
    r"|past|context|chat|channel|discord|\d+|(?P<what>messages|conversation|history|log|transcript"
    r"|thread))\b\W*){1,10}",
    re.IGNORECASE,
)

_LEAST_PASTED: Final = 3  # lines; fewer are no thread
_MOST_CHARS: Final = 200_000  # of a text that may be a thread


def read_thread(
    body: Mapping[str, Any],
    lines: Sequence[RequestLine],
    is_own: Callable[[str], bool],
    has_said: Callable[[str], bool],
) -> tuple[RequestLine, ...]:
    """Return the lines of a thread that came flattened; none if it is not one.

    Args:
        body: The request.
        lines: Its lines.
        is_own: Tells whether a name is the familiar's.
        has_said: Tells whether the familiar has said a text, as far as the speaker may know.
    """
    if len(lines) != 1 or lines[0].role != "user" or len(lines[0].text) > _MOST_CHARS:
        return ()
    for message in body["messages"]:
        content = message.get("content") if message.get("role") == "system" else None
        if isinstance(content, str) and (thread := _find_thread(content[:_MOST_CHARS])):
            return _channel_thread(*thread, lines[0], is_own)
    return _pasted_thread(lines[0].text, is_own, has_said)


def _find_thread(text: str) -> tuple[str, str] | None:
    """Return the familiar's name and the thread in the instructions; None if there is none."""
    match = _THREAD.search(text)
    if match is None:
        return None
    name, start = match["name"], text.find(_HISTORY, match.end(), match.end() + _MOST_BETWEEN)
    if start < 0:
        return (name, "") if len(text) - match.end() <= _MOST_BETWEEN else None
    end = text.rfind(f"{_END}{name},", start)
    return (name, text[start + len(_HISTORY) : end]) if end >= 0 else None


def _channel_thread(
    name: str, history: str, line: RequestLine, is_own: Callable[[str], bool]
) -> tuple[RequestLine, ...]:
    """Return the thread of a channel of Open WebUI, and the message after it."""
    names = {fold(name)}
    label = _LABEL.match(line.text)
    newest = replace(line, text=line.text[label.end() :], name=label[1]) if label else line
    past = list(
        _labelled_lines(
            history.strip("\n").split("\n\n"), "\n\n", lambda one: fold(one) in names or is_own(one)
        )
    )
    if past and (past[-1].name, past[-1].text.strip()) == (newest.name, newest.text.strip()):
        past.pop()  # the thread may hold the message, too
    return (*past, newest)


def _pasted_thread(
    text: str, is_own: Callable[[str], bool], has_said: Callable[[str], bool]
) -> tuple[RequestLine, ...]:
    """Return the messages of a conversation with the familiar that was pasted into one text.

    A person may paste a chat, too, with somebody of the familiar's name: it is a thread only if a
    program introduces it as such, or the familiar has said a line of it.
    """
    lines, is_introduced = bare_lines(text.strip()), False
    if len(lines) > 1 and lines[0].rstrip().endswith(":") and not _ASKING.search(lines[0]):
        found_words = _INTRODUCTION.fullmatch(lines[0])
        is_introduced = bool(found_words and found_words["what"])
        lines = lines[1:]  # "The last messages:"
    if not lines or not _LABEL.match(lines[0]):
        return ()
    found = tuple(_labelled_lines(lines, "\n", is_own))
    own = [line.text for line in found if line.role == "assistant"]
    is_thread = own and len(found) >= _LEAST_PASTED and found[-1].role == "user"
    return found if is_thread and (is_introduced or any(map(has_said, own))) else ()


def _labelled_lines(
    parts: Iterable[str], separator: str, is_own: Callable[[str], bool]
) -> list[RequestLine]:
    """Return the messages in parts of a text; a part without a name belongs to the one before."""
    lines: list[RequestLine] = []
    for part in parts:
        label = _LABEL.match(part)
        if label:
            name, text = label[1].strip(), part[label.end() :]
            line = RequestLine("user", text, name)
            lines.append(RequestLine("assistant", text) if is_own(name) else line)
        elif lines and part.strip():
            lines[-1] = replace(lines[-1], text=f"{lines[-1].text}{separator}{part}")
    return [replace(line, text=line.text.strip()) for line in lines if line.text.strip()]
