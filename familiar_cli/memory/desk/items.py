"""The items of a Markdown list that a person may edit: read, ticked off, added to.

`- [ ] call Anna @2026-11-30 09:00` is an item. A list without boxes is read as open items. Whatever
is no item, and how a person writes one, stays as it is, byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from familiar_cli.errors import NotFoundError, UsageError
from familiar_cli.markdown import bullet, newline_of, scan, split_lines
from familiar_cli.memory.desk.due import due_in
from familiar_cli.text import harmless

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime, tzinfo

    from familiar_cli.memory.desk.due import Due

MAX_CHARS: Final = 2000
"""Most characters of an item; what is longer is a note, not a reminder."""


class Mark(StrEnum):
    """How an item stands; the value is what stands in its box."""

    open = " "
    done = "x"
    dropped = "-"


@dataclass(frozen=True, slots=True)
class Item:
    """One item.

    Args:
        number: Its place in the list, from 1; the items that are done count.
        line: The line it stands on, from 1.
        mark: How it stands.
        text: What it says, without its time.
        due: When it is due; None when it does not say.
    """

    number: int
    line: int
    mark: Mark
    text: str
    due: Due | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is still to be done."""
        return self.mark is Mark.open


def items_in(markdown: str) -> tuple[Item, ...]:
    """Return the items of a list, in the order of the file."""
    return tuple(
        Item(number, found.line, found.mark, *_said(found.words))
        for number, found in enumerate(_found(markdown), start=1)
    )


def due_items(items: Iterable[Item], now: datetime, zone: tzinfo | None) -> list[Item]:
    """Return the open items whose time has come, and those that name none that can be read.

    Args:
        items: Any items.
        now: The present, with a timezone.
        zone: Where the familiar lives; None: the system's.
    """
    return [item for item in items if item.is_open and _has_come(item.due, now, zone)]


def with_details(markdown: str, items: Iterable[Item]) -> Iterator[tuple[Item, range]]:
    """Yield each of `items` with the numbers of the lines that go on below it, up to the next."""
    lines = split_lines(markdown)
    starts = {found.line for found in _found(markdown)}
    for item in items:
        end = _end_of(lines, item.line)
        ends = (number for number in range(item.line + 1, end + 1) if number in starts)
        yield item, range(item.line + 1, next(ends, end + 1))


def find_item(items: tuple[Item, ...], number: int, rel_path: str) -> Item:
    """Return the item `number`.

    Raises:
        NotFoundError: There is none.
    """
    for item in items:
        if item.number == number:
            return item
    there = f"it has {len(items)}" if items else "it is empty"
    raise NotFoundError(
        f"{rel_path!r} has no item {number}: {there}; nothing was changed",
        hint="List the numbers: `familiar remind ls --all`, or `familiar task ls --all`.",
    )


def marked(markdown: str, item: Item, mark: Mark) -> str:
    """Return the list with another mark on one item; nothing else changes."""
    lines = split_lines(markdown)
    lines[item.line - 1] = _with_mark(lines[item.line - 1], mark)
    return "".join(lines)


def with_item(markdown: str, title: str, words: str) -> str:
    """Return the list with one more open item, after the last one, or at the end of the file.

    Args:
        markdown: The list; empty: a new one is begun.
        title: The H1 of a new one.
        words: What the item says, its time included.
    """
    if not markdown.strip():
        return f"{markdown}# {title}\n\n- [ ] {words}\n"
    lines = split_lines(markdown)
    newline = newline_of(markdown)
    last = max((found.line for found in _found(markdown)), default=0)
    at = _end_of(lines, last) if last else len(lines)
    if not lines[at - 1].endswith("\n"):
        lines[at - 1] += newline
    gap = [] if last or not lines[at - 1].strip() else [newline]
    lines[at:at] = [*gap, f"- [ ] {words}{newline}"]
    return "".join(lines)


def item_words(text: str) -> str:
    """Return `text` as an item can say it: on one line, and harmless.

    Raises:
        UsageError: It is empty, or too long.
    """
    words = " ".join(harmless(text).split())
    if not words:
        raise UsageError(
            "The text is empty; nothing was changed",
            hint="Put the text in quotation marks, or use `-` to read standard input.",
        )
    if len(words) > MAX_CHARS:
        raise UsageError(
            f"An item has at most {MAX_CHARS} characters, but this one has {len(words)}",
            hint="Put it in a note: `familiar memory append notes.md -`.",
        )
    return words


@dataclass(frozen=True, slots=True)
class _Found:
    line: int
    mark: Mark
    words: str


def _found(markdown: str) -> Iterator[_Found]:
    for line in scan(markdown):
        text = line.text.rstrip("\r\n").removeprefix("\ufeff")
        item = None if line.in_code else bullet(text)
        if item is None:
            continue
        words = text[item.words_at :]
        if item.box:
            yield _Found(line.number, Mark(item.box.lower()), words)
        elif not item.indent and words.strip("-*_ \t"):
            yield _Found(line.number, Mark.open, words)


def _has_come(due: Due | None, now: datetime, zone: tzinfo | None) -> bool:
    at = due.at(zone) if due else None
    return at is None or at <= now


def _said(words: str) -> tuple[str, Due | None]:
    found = due_in(words)
    if found is None:
        return words.strip(), None
    without = f"{words[: found.start].rstrip()} {words[found.end :].lstrip()}".strip()
    return without, found.due


def _with_mark(line: str, mark: Mark) -> str:
    lead = "\ufeff" if line.startswith("\ufeff") else ""
    line = line.removeprefix(lead)
    item = bullet(line)
    assert item is not None
    if item.box:
        return f"{lead}{line[: item.text_at + 1]}{mark}{line[item.text_at + 2 :]}"
    return f"{lead}{line[: item.words_at]}[{mark}] {line[item.words_at :]}"


def _end_of(lines: list[str], last: int) -> int:
    """Return the index after the item on line `last`, with what a person wrote below it."""
    at = last
    while at < len(lines) and lines[at].strip() and lines[at][0] in " \t":
        at += 1
    return at
