"""JSON in what a model wrote: in a fence, between words, or with a comma too many."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.markdown import code_in

if TYPE_CHECKING:
    from collections.abc import Iterator

_THINKING: Final = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_COMMA: Final = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_OPENING: Final = re.compile(r"[{\[]")
_MOST_LOST: Final = 5  # values that begin and do not end are passed over


def values_in(text: str) -> Iterator[Any]:
    """Yield each JSON value that `text` may mean, the likeliest first; None for a broken one.

    What a model notes for itself before it answers is no part of the answer.
    """
    for piece in _candidates(_THINKING.sub("", text).replace("\ufeff", "")):
        yield _loaded(piece)


def _candidates(text: str) -> Iterator[str]:
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
    """Return where the JSON value that begins at `start` ends, or None when it does not."""
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


def _loaded(piece: str) -> Any:  # noqa: ANN401
    for attempt in (piece, _COMMA.sub(lambda found: found[1] or "", piece)):
        try:
            return json.loads(attempt, strict=False)
        except (ValueError, RecursionError):
            continue
    return None
