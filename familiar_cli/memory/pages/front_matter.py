"""The settings that may stand at the top of a Markdown file, between two lines of `---`."""

from __future__ import annotations

import re
from typing import Final

_FRONT: Final = re.compile(r"\ufeff?---[ \t]*\r?\n(?:(.*?)\n)??---[ \t]*(?:\r?\n|\Z)", re.DOTALL)


def split(text: str) -> tuple[str | None, str]:
    """Return the lines of the front matter, None where there is none, and the text below it."""
    found = _FRONT.match(text)
    if not found:
        return None, text.removeprefix("\ufeff")
    return found[1] or "", text[found.end() :]


def body_start(text: str) -> int:
    """Return where the text below the front matter begins."""
    found = _FRONT.match(text)
    return found.end() if found else 0
