"""Say what a JSON value is, when it is not what was hoped for."""

from __future__ import annotations

from typing import Final

from familiar_cli.text import one_line

# Files that people pick by mistake: a field that only they have -> what they are.
_KNOWN: Final = (
    ("chat_metadata", "a chat"),
    ("temperature", "a preset of sampling settings"),
    ("prompt_order", "a preset of prompts"),
    ("story_string", "a context template"),
    ("input_sequence", "an instruct template"),
    ("theme", "a theme"),
)
_SHOWN: Final = 4


def what_is(value: object) -> str:
    """Return a few words that tell a person what `value` is."""
    if isinstance(value, dict):
        for field, kind in _KNOWN:
            if field in value:
                return kind
        return _object(value)
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return "a text" if isinstance(value, str) else "a number"


def _object(value: dict[str, object]) -> str:
    if not value:
        return "an empty object"
    names = ", ".join(repr(one_line(str(name), 30)) for name in list(value)[:_SHOWN])
    more = "" if len(value) <= _SHOWN else f" and {len(value) - _SHOWN} more"
    return f"an object with {names}{more}"
