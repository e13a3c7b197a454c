"""The macros of cards that are filled, by name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_BODY: Final = re.compile(r"\{\{([^{}]*)\}\}")
_NAME: Final = re.compile(r"\s*(time_utc(?=[+-])|[\w#/]+)?", re.IGNORECASE)
_FILLED: Final = frozenset(
    [
        "char",
        "user",
        "persona",
        "original",
        "random",
        "pick",
        "roll",
        "comment",
        "reverse",
        "trim",
        "time",
        "date",
        "weekday",
        "isotime",
        "isodate",
        "datetimeformat",
        "time_utc",
        "newline",
        "noop",
        "group",
        "charifnotgroup",
        "description",
        "personality",
        "scenario",
        "mesexamples",
        "char_version",
        "lastmessage",
        "lastusermessage",
        "lastcharmessage",
        "idle_duration",
        "outlet",
    ]
)


def macro_name(body: str) -> str:
    """Return the name of a macro, in lower case, from what stands between its braces."""
    found = _NAME.match(body)
    return (found[1] or "").lower() if found else ""


def unknown_macros(texts: Iterable[str]) -> list[str]:
    """Return the macros in texts that are not filled, each once, as they are written."""
    bodies = [body for text in texts for body in _BODY.findall(text)]
    unknown = (
        body.strip() or "{{}}"
        for body in bodies
        if not body.lstrip().startswith("//") and macro_name(body) not in _FILLED
    )
    return list(dict.fromkeys(unknown))
