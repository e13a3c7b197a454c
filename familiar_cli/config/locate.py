"""Find the line of a setting in a TOML text. Slow and exact; used only to word an error."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Key = tuple[str, ...]
# A value over many lines is tried at each line that could end it; a file that is all such lines is
# not worth the time.
_MOST_TRIES = 1000
_MOST_PARTS = 10
_ENDS = ("]", "}", '"""', "'''")


def line_of(text: str, key: Key) -> int | None:
    """Return the 1-based line where `key` is set, or where its nearest table begins.

    None when it is in no line, or when finding it would take too long.

    Args:
        text: Valid TOML.
        key: The parts of a dotted key.
    """
    best: tuple[int, int] | None = None
    for line, path in _places(text):
        shared = _shared(path, key)
        if shared and (best is None or shared > best[0]):
            best = (shared, line)
    return best[1] if best else None


def _places(text: str) -> Iterator[tuple[int, Key]]:
    table: Key = ()
    for line, statement, value in _statements(text):
        for path in _paths(value):
            if statement.lstrip().startswith("["):
                table = path
                yield line, table
            else:
                yield line, table + path


def _statements(text: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield the first line, the text and the value of each header or `key = value`."""
    pending: list[str] = []
    tries = 0
    for number, line in enumerate(text.split("\n"), start=1):
        pending.append(line + "\n")
        if len(pending) > 1 and not any(end in line for end in _ENDS):
            continue
        statement = "".join(pending)
        value = _value_of(statement)
        if value is None:
            tries += 1
        else:
            yield number - len(pending) + 1, statement, value
            pending = []
        if tries > _MOST_TRIES:
            return


def _value_of(text: str) -> dict[str, Any] | None:
    """Return what a text of TOML says; None when it is none, or only a part of some."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None


def _paths(value: dict[str, Any]) -> Iterator[Key]:
    """Yield the path of each value, down to a depth that no setting reaches."""
    waiting: list[tuple[Key, Any]] = [((), value)]
    while waiting:
        path, inner = waiting.pop()
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            inner = inner[0]  # a header in double brackets
        if isinstance(inner, dict) and inner and len(path) < _MOST_PARTS:
            waiting += [((*path, name), below) for name, below in reversed(inner.items())]
        elif path:
            yield path


def _shared(path: Key, key: Key) -> int:
    """Return how many leading parts two keys share."""
    count = 0
    for mine, theirs in zip(path, key, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
