"""Search the lines of all files under a time limit, and find files by the shape of their paths."""

from __future__ import annotations

import fnmatch
import math
import os
import re
from itertools import takewhile
from typing import TYPE_CHECKING

import regex

from familiar_cli.clock import stopwatch_s
from familiar_cli.errors import LimitError, TooManyResultsError, UsageError
from familiar_cli.files import patiently
from familiar_cli.memory.store import paths
from familiar_cli.memory.store.files import MAX_READ_BYTES, too_large_to_read
from familiar_cli.memory.store.types import GrepHit, GrepResult, Skipped
from familiar_cli.memory.store.walk import scan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from familiar_cli.memory.store.files import Tree
    from familiar_cli.memory.store.types import Limits


MAX_PATTERN_CHARS = 1000
MAX_REPEATS = 100_000  # of all counted repeats together: they are written out when compiled

# With any of these, a line may match although the text it stands in does not: lookaround, atomic
# groups and possessive repeats see or eat what follows the line; anchors mean the text's own ends.
# Being taken for one of these costs only time.
_NEEDS_LINES = re.compile(
    r"""\(\?(?!:|i\)|i:|P<)   # groups but plain, named and case-insensitive ones
      | \(\*                  # verbs
      | [*+?}]\+              # possessive repeats
      | \\[AZzGKRXL]          # anchors of the text, line ends, graphemes, lists
      | \{(?!\d*,?\d*\})      # fuzzy matching
    """,
    re.VERBOSE,
)
_RECURSIVE = re.compile(r"\(\?(?:R|[+-]?\d|&|P>)")  # takes memory faster than time
_COUNTED = re.compile(r"\{(\d+)")
_READ_BYTES = 64 * 1024
_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)


def grep(
    tree: Tree,
    pattern: str,
    rel_path: str,
    *,
    case_insensitive: bool,
    hidden: bool,
    limits: Limits,
) -> GrepResult:
    """Return what `MemoryStore.search` promises."""
    matcher = _Matcher(pattern, case_insensitive=case_insensitive, limits=limits)
    files, skipped = scan(tree, rel_path, hidden=hidden)
    hits: list[GrepHit] = []
    for name, path in files:
        text = _text_of(path)
        if isinstance(text, str):
            hits += matcher.hits(name, text, limits.max_results + 1 - len(hits))
            if len(hits) > limits.max_results:
                break
        else:
            skipped.append(Skipped(name, text.reason))
    truncated = len(hits) > limits.max_results
    skipped.sort(key=lambda s: s.rel_path)
    return GrepResult(tuple(hits[: limits.max_results]), tuple(skipped), truncated)


def all_of(found: GrepResult, pattern: str) -> list[GrepHit]:
    """Return the hits of `found`. Raises `TooManyResultsError` when it was cut."""
    if found.truncated:
        raise TooManyResultsError(
            f"{pattern!r} matches more than {len(found.hits):,} lines",
            hint="Narrow the pattern, search one directory, or raise `max_results`.",
        )
    return list(found.hits)


class _Matcher:
    """A compiled pattern, with the time it has left."""

    def __init__(self, pattern: str, *, case_insensitive: bool, limits: Limits) -> None:
        self._pattern = pattern
        self._compiled = _compile(pattern, case_insensitive=case_insensitive)
        self._by_line = bool(_NEEDS_LINES.search(pattern))
        self._timeout_s = limits.grep_timeout_s
        self._deadline_s = stopwatch_s() + limits.grep_timeout_s

    def hits(self, rel_path: str, text: str, most: int) -> list[GrepHit]:
        """Return the first `most` lines of `text` that match."""
        found = []
        for number, line in self._candidates(text):
            match = self._search(line)
            if match:
                found.append(GrepHit(rel_path, number, line, match.start(), match.end()))
                if len(found) == most:
                    break
        return found

    def _candidates(self, text: str) -> Iterator[tuple[int, str]]:
        """Give the number and text of each line that may match.

        A match in the whole text never begins after the first line that matches by itself.
        """
        if self._by_line:
            yield from enumerate(_lines(text), 1)
            return
        number, at = 1, 0
        while at < len(text) and (match := self._search(text, at)):
            start = text.rfind("\n", 0, match.start()) + 1
            if start == len(text):
                return
            end = text.find("\n", match.start())
            end = len(text) if end < 0 else end
            number += text.count("\n", at, start)
            yield number, text[start:end]
            number, at = number + 1, end + 1

    def _search(self, text: str, at: int = 0) -> regex.Match[str] | None:
        try:
            return self._compiled.search(text, at, timeout=self._deadline_s - stopwatch_s())
        except (TimeoutError, ValueError, MemoryError) as error:  # ValueError: no time was left
            out_of = "memory" if isinstance(error, MemoryError) else f"time ({self._timeout_s:g} s)"
            raise LimitError(
                f"Searching for {self._pattern!r} ran out of {out_of} and was stopped",
                hint="Simplify the pattern, or search one directory.",
            ) from error


def _compile(pattern: str, *, case_insensitive: bool) -> regex.Pattern[str]:
    if len(pattern) > MAX_PATTERN_CHARS:
        raise LimitError(
            f"The pattern is {len(pattern):,} characters long; {MAX_PATTERN_CHARS:,} are allowed",
            hint="Search for a shorter part of it.",
        )
    if _RECURSIVE.search(pattern):
        raise UsageError(
            f"{pattern!r} is recursive; recursive patterns are not supported",
            hint="Write the pattern without `(?R)`, `(?1)` and the like.",
        )
    if math.prod(int(count) or 1 for count in _COUNTED.findall(pattern)) > MAX_REPEATS:
        raise _too_large(pattern)
    flags = regex.MULTILINE | (regex.IGNORECASE if case_insensitive else 0)
    try:
        return regex.compile(pattern, flags)
    except regex.error as error:
        raise UsageError(
            f"{pattern!r} is not a regular expression: {error}",
            hint=f"To search for this exact text, write {re.escape(pattern)!r}.",
        ) from error
    except ValueError as error:  # flags that exclude each other
        raise UsageError(
            f"{pattern!r} is not a regular expression: {error}", hint="Remove its flags."
        ) from error
    except (RecursionError, OverflowError, MemoryError) as error:
        raise _too_large(pattern) from error


def _too_large(pattern: str) -> LimitError:
    return LimitError(f"{pattern!r} is too large for a regular expression", hint="Simplify it.")


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def _text_of(path: str) -> str | Skipped:
    """Return a file's text with plain newlines at line ends, or why it has none."""
    try:
        content = _read(path)
    except OSError as error:
        return Skipped(path, f"cannot be read: {error.strerror or error}")
    if content is None:
        return Skipped(path, too_large_to_read(os.stat(path)))
    if b"\0" in content:
        return Skipped(path, "is binary")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        return Skipped(path, f"is not UTF-8 text (byte {error.start})")
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return text.removeprefix("\ufeff")


def _read(path: str) -> bytes | None:
    """Return a file's bytes, or None when they are too many to read.

    Opening it as Python files do would take twice as long.
    """
    descriptor = patiently(os.open, path, _FLAGS)
    try:
        content = os.read(descriptor, _READ_BYTES)
        if len(content) < _READ_BYTES:
            return content
        if os.fstat(descriptor).st_size > MAX_READ_BYTES:
            return None
        parts = [content]
        while content := os.read(descriptor, _READ_BYTES):
            parts.append(content)
        return b"".join(parts)
    finally:
        os.close(descriptor)


ANY_DIRS = "**"
_WILD = re.compile(r"[*?\[]")


def glob(tree: Tree, pattern: str, *, limit: int) -> list[str]:
    """Return what `MemoryStore.glob` promises."""
    parts = paths.parse(pattern, wildcards=True).split("/")
    fixed = list(takewhile(lambda part: not _WILD.search(part), parts[:-1]))
    start = "/".join(fixed)
    if start and not tree.is_dir(start):
        return []
    hidden = any(part.startswith(".") for part in parts)
    files, _ = scan(tree, start, hidden=hidden)
    shape = [_Part(part) for part in parts]
    found = [rel_path for rel_path, _ in files if fits(rel_path.split("/"), shape)]
    if len(found) > limit:
        raise TooManyResultsError(
            f"{pattern!r} matches {len(found):,} files, more than the limit of {limit:,}",
            hint="Narrow the pattern, or raise `max_results` in [memory].",
        )
    return found


class _Part:
    """One part of a pattern, between two slashes."""

    def __init__(self, text: str) -> None:
        self.any_dirs = text == ANY_DIRS
        self._dotted = text.startswith(".")
        self._matches = re.compile(fnmatch.translate(text)).match

    def fits(self, name: str) -> bool:
        """Tell whether `name` fits; only a pattern with a leading dot fits a dotted name."""
        return name.startswith(".") == self._dotted and bool(self._matches(name))


def fits(names: Sequence[str], shape: Sequence[_Part]) -> bool:
    """Tell whether a path, as its names, has the `shape`, in time linear in both."""
    here = _entered({0}, shape)
    for name in names:
        stay = {i for i in here if i < len(shape) and shape[i].any_dirs and name[0] != "."}
        step = {
            i + 1 for i in here if i < len(shape) and not shape[i].any_dirs and shape[i].fits(name)
        }
        here = _entered(stay | step, shape)
    return len(shape) in here


def _entered(here: set[int], shape: Sequence[_Part]) -> set[int]:
    """Add the places that `**` reaches by standing for nothing."""
    reached = set(here)
    for i, part in enumerate(shape):
        if i in reached and part.any_dirs:
            reached.add(i + 1)
    return reached
