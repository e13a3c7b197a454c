"""Who wrote each line of a file, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from familiar_cli.diffs import matching_blocks
from familiar_cli.errors import BadInputError, NotFoundError
from familiar_cli.memory.journal.diff import is_binary
from familiar_cli.text import typed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from familiar_cli.memory.journal.commits import Commit
    from familiar_cli.memory.journal.history import History
    from familiar_cli.memory.journal.repository import Repository


@dataclass(frozen=True, slots=True)
class BlamedLine:
    """One line, counted from 1, and the commit that wrote it as it is."""

    line: int
    commit: Commit
    text: str


def blame(repository: Repository, history: History, rel_path: str) -> list[BlamedLine]:
    """Return every line of the newest state of a file. Renames are followed.

    Raises:
        NotFoundError: The journal has no such file now.
        BadInputError: It is no text.
    """
    content = repository.file_at(history.head, rel_path)
    if content is None:
        raise NotFoundError(
            f"The journal has no current file {rel_path!r}",
            hint=f"Check its past: `familiar memory log {typed(rel_path)}`.",
        )
    if is_binary(content):
        raise BadInputError(f"{rel_path!r} is not text, so it has no lines")
    return list(_blamed(repository, history, rel_path))


def _blamed(repository: Repository, history: History, rel_path: str) -> Iterator[BlamedLine]:
    """Walk back through the versions, assigning each line to the oldest that has it.

    Where versions were merged, each line goes back to the first that has it.
    """
    newest = _lines(repository.file_at(history.head, rel_path) or b"")
    wrote: dict[int, Commit] = {}
    # For each version at hand: places of lines in it -> in the newest.
    waiting = [(str(history.head), rel_path, newest, {n: n for n in range(len(newest))})]
    while waiting:
        id_, at, lines, unclear = waiting.pop()
        commit = repository.commit(id_)
        is_changed, earlier = history.before(commit, at)
        for parent, path in earlier:
            content = repository.file_at(parent, path) if is_changed and unclear else b""
            if not unclear or content is None:
                continue
            older = _lines(content) if is_changed else lines
            kept = _same(lines, older) if is_changed else {n: n for n in unclear}
            passed = {kept[n]: place for n, place in unclear.items() if n in kept}
            unclear = {n: place for n, place in unclear.items() if n not in kept}
            if passed:
                waiting.append((parent, path, older, passed))
        wrote |= dict.fromkeys(unclear.values(), commit)
    for n, line in enumerate(newest):
        yield BlamedLine(n + 1, wrote[n], line.decode("utf-8", errors="replace"))


def _same(lines: list[bytes], older: list[bytes]) -> dict[int, int]:
    """Return the places of `lines` that `older` has, too, and where."""
    most = min(len(lines), len(older))
    head = next((n for n in range(most) if lines[n] != older[n]), most)
    tail = next((n for n in range(most - head) if lines[-1 - n] != older[-1 - n]), most - head)
    middle = lines[head : len(lines) - tail], older[head : len(older) - tail]
    same = {n: n for n in range(head)}
    if all(middle):
        for a, b, size in matching_blocks(*middle):
            same |= {head + a + n: head + b + n for n in range(size)}
    return same | {len(lines) - n: len(older) - n for n in range(1, tail + 1)}


def _lines(content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    return lines if lines[-1] else lines[:-1]
