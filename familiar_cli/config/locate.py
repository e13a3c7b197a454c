"""Find the line of a setting in a TOML text. Slow and exact; used only to word an error."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Path = tuple[str, ...]


def line_of(text: str, key: Path) -> int | None:
    """Return the 1-based line where `key` is set, or where its nearest table begins.

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


def _places(text: str) -> Iterator[tuple[int, Path]]:
    table: Path = ()
    for line, statement in _statements(text):
        for path in _paths(tomllib.loads(statement)):
            if statement.lstrip().startswith("["):
                table = path
                yield line, table
            else:
                yield line, table + path


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield each header or `key = value` with the line it begins on; a value may span lines."""
    pending, begun = "", 1
    for number, line in enumerate(text.split("\n"), start=1):
        if not pending:
            begun = number
        pending += line + "\n"
        if _is_toml(pending):
            yield begun, pending
            pending = ""


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _paths(value: dict[str, Any]) -> Iterator[Path]:
    for name, inner in value.items():
        if isinstance(inner, list) and inner and isinstance(inner[0], dict):
            inner = inner[0]  # noqa: PLW2901  # a header in double brackets
        if isinstance(inner, dict) and inner:
            for rest in _paths(inner):
                yield (name, *rest)
        else:
            yield (name,)


def _shared(path: Path, key: Path) -> int:
    """Return how many leading parts two keys share."""
    count = 0
    for mine, theirs in zip(path, key, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
