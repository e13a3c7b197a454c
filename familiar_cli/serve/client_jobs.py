"""Requests that are jobs of a chat program and no part of a conversation.

Programs ask the same model for titles, tags, follow-up questions and summaries of a chat. Such a
request is answered and kept nowhere, or each title would become a memory. A program that names its
message or its conversation says so in a header; of others, the fixed texts that they send are
known. A text counts only with what a person would not write beside it: the tags around a
transcript, or the rules for the form of the answer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from familiar_cli.serve.speakers import CHANNEL, MESSAGE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from starlette.datastructures import Headers

    from familiar_cli.serve.aligning import Line

TYPE: Final = "X-Familiar-Type"
"""What SillyTavern calls the kind of a generation."""

_JOB_TYPES: Final = frozenset({"quiet", "impersonate"})
_JOB: Final = re.compile(
    r"""\s*(?:
      \#\#\#\ Task:[ \t]*\r?\n                                             # Open WebUI
        (?=.*(?:<chat_history>|\bchat\ history\b))
        (?:Generate|Suggest|Analyze|Determine|Summarize|Create|You\ are\ an\ autocompletion)\b
    | (?:Please\ )?(?:provide|generate|write|create)\ an?\ (?:very\ |extremely\ )?  # LibreChat
        (?:concise|short|brief)[^\n.:!?]{0,40}\btitle\b[^\n.:!?]{0,20}
        \b(?:this|the)\ (?:conversation|chat|dialogue)\b
        (?=.*(?:\bonly\b|\bword|\bpunctuation\b|\bcase\b|:\s*\n))
    | \[\s*(?:System\ note:\s*)?Pause\ (?:the|your)\ roleplay[.,]?\ (?:and\ )?   # SillyTavern
        (?:Ignore|Summarize|Provide|Describe|Answer|Write|Generate)\b(?=.*\]\s*$)
    | (?:Pause\ your\ roleplay|Ignore\ previous\ instructions)\.\s+
        Summarize\ the\ most\ important\ facts\ and\ events\b
    )""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)


_TEST: Final = [{"role": "user", "content": "Hi"}]
"""What SillyTavern's *Test Message* sends, with its samplers; its chats have instructions, too."""


def is_connection_test(body: Mapping[str, Any]) -> bool:
    """Return whether a request is SillyTavern's *Test Message*."""
    has_samplers = not {"top_p", "presence_penalty"}.isdisjoint(body)
    return body.get("messages") == _TEST and body.get("stream") is not True and has_samplers


def is_client_job(lines: tuple[Line, ...], headers: Headers) -> bool:
    """Return whether a request is a job of the program that sent it."""
    if headers.get(TYPE, "").strip().lower() in _JOB_TYPES:
        return True
    if CHANNEL in headers or MESSAGE in headers:
        return False
    return bool(lines) and _JOB.match(lines[-1].text) is not None
