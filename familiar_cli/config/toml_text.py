"""TOML text: read within bounds, parsed, and the line that a setting stands in."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, Final

from familiar_cli.errors import ConfigError
from familiar_cli.files import read_plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


HINT = "`familiar config path` prints where the file is; `familiar config show` lists all settings."
MAX_CONFIG_BYTES: Final = 1024 * 1024
MAX_KEY_PARTS: Final = 100  # the parser's time grows with the square of them

# Possessive repeats, so that the search itself is soon done.
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![\w.-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MAX_KEY_PARTS}}}")

Key = tuple[str, ...]
# A value over many lines is tried at each line that could end it; a file that is all such lines is
# not worth the time.
_MOST_TRIES = 1000
_MOST_PARTS = 10
_ENDS = ("]", "}", '"""', "'''")


def check_bounds(text: str, path: Path) -> None:
    """Refuse a text that would keep a TOML parser busy.

    Raises:
        ConfigError: It is larger than `MAX_CONFIG_BYTES`, or has a key of too many parts.
    """
    if len(text) > MAX_CONFIG_BYTES:
        what = f"is larger than {MAX_CONFIG_BYTES:,} bytes"
    elif _LONG_KEY.search(text):
        what = f"has a key of more than {MAX_KEY_PARTS} parts"
    else:
        return
    raise ConfigError(f"{str(path)!r} {what}; it was not read", hint="Open it in an editor.")


def read_text(path: Path) -> str:
    """Return the text of the file at `path`; empty when there is no such file.

    Raises:
        ConfigError: It cannot be read, or is not UTF-8.
    """
    try:
        raw = read_plain(path)
    except FileNotFoundError:
        return ""
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{str(path)!r} cannot be read: {reason}", hint=HINT) from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{str(path)!r}, line {line}: this is not UTF-8 text",
            hint="Save the file as UTF-8 in your editor.",
        ) from error


def parse(text: str, path: Path) -> dict[str, Any]:
    """Return the tables of a TOML text.

    Raises:
        ConfigError: It is no TOML; the message names `path` and the line.
    """
    check_bounds(text, path)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        what = "nested too deeply"
        if isinstance(error, ValueError):
            is_toml = isinstance(error, tomllib.TOMLDecodeError)
            what = str(error) if is_toml else "a number in it has too many digits"
        raise ConfigError(f"{str(path)!r} is not valid TOML: {what}", hint=HINT) from error


# Where a setting stands: slow and exact, used only to word an error.


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
