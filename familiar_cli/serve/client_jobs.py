"""Requests that are chores of a chat program and no part of a conversation.

Programs ask the same model for titles, tags, follow-up questions and summaries of a chat. Such a
request is answered and kept nowhere, or each title would become a memory. The list is made of what
these programs send; a program can also say so itself, in a header.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from familiar_cli.serve.aligning import Line

TYPE_HEADER: Final = "x-familiar-type"
"""What SillyTavern calls the kind of a generation; `quiet` is a chore."""

KEEP_HEADER: Final = "x-familiar-keep"
"""`no`: whatever is said, it is not kept."""

_QUIET: Final = frozenset({"quiet", "impersonate"})
_NO: Final = frozenset({"no", "false", "0", "off"})
_TASKS: Final = re.compile(
    r"""\s*(?:
      \#\#\#\ Task:                                             # Open WebUI
    | (?:Please\ )?(?:provide|generate|write|create)\ an?\ (?:very\ )?(?:concise|short|brief)\b
        [^\n]{0,60}\btitle\b                                    # LibreChat and others
    | \[?\s*(?:Pause\ (?:the|your)\ roleplay|System\ note:\ Pause\ the\ roleplay)   # SillyTavern
    | Ignore\ previous\ instructions\.\ Summarize
    )""",
    re.VERBOSE | re.IGNORECASE,
)


def is_chore(lines: tuple[Line, ...], headers: Mapping[str, str]) -> bool:
    """Return whether a request is a chore; `headers` have their names in lower case."""
    if headers.get(TYPE_HEADER, "").strip().lower() in _QUIET:
        return True
    if headers.get(KEEP_HEADER, "").strip().lower() in _NO:
        return True
    return bool(lines) and _TASKS.match(lines[-1].text) is not None
