"""Decorators: lines `@@name value` at the top of an entry's content, meant for a program."""

from __future__ import annotations

import re
from typing import Final

KNOWN: Final = frozenset(
    (
        "activate",
        "activate_only_after",
        "activate_only_every",
        "additional_keys",
        "depth",
        "disable_ui_prompt",
        "dont_activate",
        "dont_activate_after_match",
        "exclude_keys",
        "ignore_on_max_context",
        "instruct_depth",
        "instruct_scan_depth",
        "is_greeting",
        "is_user_icon",
        "keep_activate_after_match",
        "position",
        "reverse_depth",
        "reverse_instruct_depth",
        "role",
        "scan_depth",
    )
)
"""Source: Character Card V3, "Decorators"."""

# `@@@` is a fallback: it counts where the one before it is not understood.
_LINE: Final = re.compile(r"@@@?([A-Za-z_]\w*)(?:[ \t][^\r\n]*)?(?:\r?\n|\Z)")
_BLANK: Final = re.compile(r"(?:[ \t]*\r?\n)+")


def split(content: str) -> tuple[str, str]:
    """Return the decorators that `content` begins with, as they stand, and the text below them.

    The two joined are `content`. Blank lines between decorators and text go with the decorators.
    """
    end = 0
    while line := _LINE.match(content, end):
        end = line.end()
    if end and (blank := _BLANK.match(content, end)):
        end = blank.end()
    return content[:end], content[end:]


def names(content: str) -> tuple[str, ...]:
    """Return the names of the decorators that `content` begins with."""
    head, _ = split(content)
    return tuple(line[1] for line in _LINE.finditer(head))
