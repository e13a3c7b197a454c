"""Signals of chat programs: what they call temporary, and which requests are jobs of their own.

Both are answered and leave no turn. Taken from the sources of each program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from familiar_cli.servers.chat_api.aligning import RequestLine

CHANNEL: Final = "X-Familiar-Channel"
MESSAGE: Final = "X-Familiar-Message"
KEEP: Final = "X-Familiar-Keep"
TYPE: Final = "X-Familiar-Type"
"""What SillyTavern calls the kind of a generation."""

OPEN_WEBUI_CHAT: Final = "X-OpenWebUI-Chat-Id"
# The id of a temporary chat in Open WebUI; it is `local:` with the id of the session.
_TEMPORARY: Final = re.compile(r"local(?::|\Z)", re.IGNORECASE)

_JOB_TYPES: Final = frozenset({"quiet", "impersonate"})
TYPES: Final = _JOB_TYPES | {"normal", "swipe", "regenerate", "continue", "append", "appendfinal"}
_JOBS: Final = (
    (
        "a task of Open WebUI",
        r"""\#\#\#\ Task:[ \t]*\r?\n
        (?=.*(?:<chat_history>|\bchat\ history\b))
        (?:Generate|Suggest|Analyze|Determine|Summarize|Create|You\ are\ an\ autocompletion)\b""",
    ),
    (
        "a title for LibreChat",
        r"""(?:Please\ )?(?:provide|generate|write|create)\ an?\ (?:very\ |extremely\ )?
        (?:concise|short|brief)[^\n.:!?]{0,40}\btitle\b[^\n.:!?]{0,20}
        \b(?:this|the)\ (?:conversation|chat|dialogue)\b
        (?=.*(?:\bonly\b|\bword|\bpunctuation\b|\bcase\b|:\s*\n))""",
    ),
    (
        "a side prompt of SillyTavern",
        r"""\[\s*(?:System\ note:\s*)?Pause\ (?:the|your)\ roleplay[.,]?\ (?:and\ )?
        (?:Ignore|Summarize|Provide|Describe|Answer|Write|Generate)\b(?=.*\]\s*\Z)""",
    ),
    (
        "a summary or a task list of SillyTavern",
        r"""(?:Pause\ your\ roleplay|Ignore\ previous\ instructions)\.?\s+(?:and\s+)?
        (?:Pause\ your\ roleplay\.\s+)?(?:Please\s+)?
        (?:Summarize\ the\ most\ important\ (?:facts\ and\ events|parts)\b
        |generate\ a\ (?:numbered\ )?list\ of\ (?:plain\ text\ )?tasks\b
        |determine\ if\ this\ task\ is\ completed:
        |classify\ the\ emotion\ of\ the\ last\ message\b
        |provide\ (?:only\ )?(?:a\ detailed\ description|the\ last\ chat\ message)\b)""",
    ),
    (
        "a picture prompt of SillyTavern",
        r"""In\ the\ next\ response\ I\ want\ you\ to\ provide\ only\ a\ (?:detailed\ )?
        comma-delimited\ list\ of\ keywords\b""",
    ),
    (
        "a scene tracker",
        r"""(?:\[?(?:Stop|Pause)\ (?:the|your)\ roleplay\.\s+)?(?:OOC:\s*)?
        You\ are\ an?\ (?:Scene|Story|Roleplay)\ Tracker\ Assistant\b""",
    ),
    (
        "a scene summary",
        r"""(?:You\ are\ an?\ (?:talented|expert|skilled|professional)\ [^\n.]{3,120}\.\s+)?
        (?:Analyze|Summarize|Review)\ the\ following\ (?:roleplay\ |fictional\ |story\ )?
        (?:scene|narrative|messages?)\b[^\n]{0,120}
        (?:\bas\ JSON\b|\bin\ a\ single,\ [^\n]{0,40}statement\b)""",
    ),
    (
        "a message summary",
        r"""You\ are\ an?\ summari[sz]ation\ assistant\.\s+
        Summari[sz]e\ the\ (?:given|provided)\b""",
    ),
)
_PATTERNS: Final = tuple(
    (name, re.compile(rf"\s*(?:{pattern})", re.VERBOSE | re.IGNORECASE | re.DOTALL))
    for name, pattern in _JOBS
)
# Jobs that some programs send as instructions, with the scene as a person's message.
_OF_INSTRUCTIONS: Final = frozenset({"a scene tracker", "a scene summary", "a message summary"})

# What LiteLLM's health check asks every model behind it, to the letter; people say it, too.
_PROBES: Final = frozenset({"test from litellm", "What's 1 + 1?", "Hey how's it going?"})

# What SillyTavern's *Test Message* sends, with its samplers; its chats have instructions, too.
_TEST: Final = [{"role": "user", "content": "Hi"}]


def unkept_reason(headers: Headers, body: Mapping[str, Any]) -> str:
    """Return why a program wants nothing of a request kept; empty if it does not say so.

    Args:
        headers: The request's headers, apart from `X-Familiar-Keep`.
        body: The request's body.
    """
    if _TEMPORARY.match(headers.get(OPEN_WEBUI_CHAT, "").strip()):
        return "a temporary chat of Open WebUI"
    return "store is false" if body.get("store") is False else ""


def job_name(body: Mapping[str, Any], lines: Sequence[RequestLine], headers: Headers) -> str:
    """Name the job of a program that a request is, such as making a title; empty if it is none."""
    if headers.get(TYPE, "").strip().lower() in _JOB_TYPES:
        return "a side prompt of SillyTavern"
    if is_connection_test(body):
        return "a connection test of SillyTavern"
    if CHANNEL in headers or MESSAGE in headers:
        return ""
    if _is_probe(body):
        return "a health check of LiteLLM"
    text = lines[-1].text if lines else ""
    result = next((name for name, pattern in _PATTERNS if pattern.match(text)), "")
    return result or _job_in_instructions(body, lines)


def is_connection_test(body: Mapping[str, Any]) -> bool:
    """Tell whether a request is SillyTavern's *Test Message*."""
    has_samplers = not {"top_p", "presence_penalty"}.isdisjoint(body)
    return body.get("messages") == _TEST and body.get("stream") is not True and has_samplers


def _is_probe(body: Mapping[str, Any]) -> bool:
    messages = body.get("messages")
    if not isinstance(messages, list) or len(messages) != 1 or body.get("stream") is True:
        return False
    content = messages[0].get("content") if isinstance(messages[0], dict) else None
    return isinstance(content, str) and content in _PROBES


def _job_in_instructions(body: Mapping[str, Any], lines: Sequence[RequestLine]) -> str:
    """Name the job that the instructions of a request describe, whose message is its material."""
    if len(lines) > 1:
        return ""
    for message in body.get("messages") or ():
        content = message.get("content")
        if message.get("role") == "system" and isinstance(content, str):
            for name, pattern in _PATTERNS:
                if name in _OF_INSTRUCTIONS and pattern.match(content):
                    return name
    return ""
