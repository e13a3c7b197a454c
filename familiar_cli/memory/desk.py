"""Reminders, tasks and a scratchpad, as Markdown lists that a person may edit."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from familiar_cli import clock
from familiar_cli.clock import to_utc, to_zone
from familiar_cli.errors import BadInputError, ConflictError, NotFoundError, UsageError
from familiar_cli.languages import ENGLISH
from familiar_cli.markdown import bullet, newline_of, scan, split_lines
from familiar_cli.memory.layout import SCRATCH, TASKS
from familiar_cli.memory.store.files import MISSING
from familiar_cli.recurrence import last_occurrence, next_occurrence, parse_recurrence
from familiar_cli.text import harmless, one_line, typed, unified
from familiar_cli.when import read_when

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import date, tzinfo

    from familiar_cli.languages import Phrases
    from familiar_cli.memory.store.store import MemoryStore
    from familiar_cli.recurrence import Recurrence


_DATE: Final = r"\d{4}-\d{2}-\d{2}"
_TIME: Final = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?"
_OFFSET: Final = r"Z|[+-]\d{2}:?\d{2}"
_MOMENT: Final = rf"({_DATE})(?:[T ]({_TIME})[ ]?({_OFFSET})?)?"
_MARKED: Final = re.compile(
    rf"(?<![\w@])@{_MOMENT}(?![\w:])|\(due:?[ ]+{_MOMENT}\)", re.ASCII | re.IGNORECASE
)
_RULE: Final = re.compile(r"[ ]*\(([a-z][^()\n]{1,80})\)", re.IGNORECASE)
_RULE_ALONE: Final = re.compile(
    r"(?<![\w@])@(every[ ][^@()\n]{1,80})|\((every[ ][^()\n]{1,80})\)", re.IGNORECASE
)
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Due:
    """When something is due.

    Args:
        written: As it is written, e.g. `2026-11-30 09:00`.
        moment: What that means; without a timezone it is local. A date alone is its beginning. None
            when there is no such day or hour.
        has_time: It says an hour, not only a day.
        rule: How it comes again; None: it is once.
    """

    written: str
    moment: datetime | None
    has_time: bool
    rule: Recurrence | None = None

    def at(self, zone: tzinfo | None) -> datetime | None:
        """Return when that is, in UTC. `zone` is where the familiar lives; None: the system's.

        A rule alone is due since it last came.
        """
        if self.moment is None and self.rule is not None:
            return last_occurrence(self.rule, clock.now(), zone)
        return to_utc(self.moment, zone) if self.moment else None

    def latest(self, now: datetime, zone: tzinfo | None) -> datetime | None:
        """Return the last time up to now, in UTC; None: it has not come yet."""
        at = self.at(zone)
        if at is None or at > now or self.rule is None:
            return at if at and at <= now else None
        return max(at, last_occurrence(self.rule, now, zone, self._first))

    def following(self, now: datetime, zone: tzinfo | None) -> Due | None:
        """Return the first time after now, and after this one; None: it comes once."""
        at = self.at(zone)
        if self.rule is None or at is None:
            return None
        return _due_by(self.rule, max(at, now), zone, self._first)

    @property
    def mark(self) -> str:
        """How it stands in a line."""
        rule = f" ({self.rule})" if self.rule and self.moment else ""
        return f"@{self.written}{rule}"

    @property
    def _first(self) -> date | None:
        is_counted = self.rule is not None and self.rule.is_counted
        return self.moment if is_counted or self.moment is None else self.moment.date()


@dataclass(frozen=True, slots=True)
class FoundDue:
    """A time in a line, and where it stands, as characters from … to."""

    due: Due
    start: int
    end: int


def due_in(words: str) -> FoundDue | None:
    """Return the last time that `words` mark as one, or None."""
    every = list(_MARKED.finditer(words))
    if not every:
        return _find_rule(words)
    found = every[-1]
    parts = found.groups()[:3] if found[1] else found.groups()[3:]
    due, end = _due_from(*parts), found.end()
    named = _RULE.match(words, end)
    if named and (rule := parse_recurrence(named[1])):
        due, end = replace(due, rule=rule), named.end()
    return FoundDue(due, found.start(), end)


def _find_rule(words: str) -> FoundDue | None:
    """Return the rule of a line that names no day: `@every monday 9:00`, `(every monday 9:00)`."""
    for found in reversed([*_RULE_ALONE.finditer(words)]):
        said = (found[1] or found[2]).split(" ")
        shortest = 2 if found[1] else len(said)  # other words may follow an `@`
        for count in range(len(said), shortest - 1, -1):
            text = " ".join(said[:count])
            if rule := parse_recurrence(text):
                due = Due(text, None, has_time=rule.hour is not None, rule=rule)
                end = found.start(1) + len(text) if found[1] else found.end()
                return FoundDue(due, found.start(), end)
    return None


def parse_due(text: str, now: datetime, zone: tzinfo | None) -> Due:
    """Return the time in the future that a person typed, as it is to be written down.

    A rule such as `every monday 9:00` begins with the next such time.

    Raises:
        UsageError: It is not a time; see `when.read_when`.
    """
    if rule := parse_recurrence(text):
        today = to_zone(now, zone).date()
        return _due_by(rule.anchored(today), now, zone, now if rule.is_counted else today)
    found = read_when(text, now, zone, ahead=True)
    moment = found.moment
    if found.is_counted:
        return due_of(moment, zone)
    if not found.has_time:
        return Due(moment.date().isoformat(), moment, has_time=False)
    shown = moment.isoformat(" ", "seconds" if moment.second else "minutes")
    return Due(shown, moment, has_time=True)


def _due_by(rule: Recurrence, after: datetime, zone: tzinfo | None, first: date | None) -> Due:
    """Return the first time that a rule gives after a moment, as it is to be written down."""
    moment = next_occurrence(rule, after, zone, first)
    due = due_of(moment, zone)
    if rule.hour is None and not rule.is_counted and due.moment:
        due = Due(due.moment.date().isoformat(), due.moment, has_time=False)
    return replace(due, rule=rule)


def due_of(moment: datetime, zone: tzinfo | None) -> Due:
    """Return how a moment is written down: to the minute, rounded up.

    The offset is written only where the clock on the wall shows the same time twice.
    """
    utc = moment.astimezone(UTC)
    whole = utc.replace(second=0, microsecond=0)
    utc = whole if whole == utc else whole + _MINUTE
    local = to_zone(utc, zone)
    plain = local.replace(tzinfo=None, fold=0)
    shown = plain.isoformat(" ", "minutes")
    if to_utc(plain, zone) == utc:
        return Due(shown, plain, has_time=True)
    return Due(f"{shown}{local.isoformat()[-6:]}", local, has_time=True)


def _due_from(date: str, time: str | None, offset: str | None) -> Due:
    shown = f"{date} {time}{offset or ''}" if time else date
    padded = time if time is None or time.index(":") == 2 else f"0{time}"  # noqa: PLR2004
    iso = f"{date}T{padded}{(offset or '').upper()}" if padded else date
    try:
        return Due(shown, datetime.fromisoformat(iso), has_time=time is not None)
    except ValueError:
        return Due(shown, None, has_time=time is not None)


MAX_CHARS: Final = 2000
"""Most characters of an item; what is longer is a note, not a reminder."""


class ItemStatus(StrEnum):
    """How an item stands; the value is what stands in its box."""

    open = " "
    done = "x"
    dropped = "-"


@dataclass(frozen=True, slots=True)
class DeskItem:
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
    mark: ItemStatus
    text: str
    due: Due | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is still to be done."""
        return self.mark is ItemStatus.open


def items_in(markdown: str) -> tuple[DeskItem, ...]:
    """Return the items of a list, in the order of the file."""
    return tuple(
        DeskItem(number, found.line, found.mark, *_split_due(found.words))
        for number, found in enumerate(_find_items(markdown), start=1)
    )


def due_items(items: Iterable[DeskItem], now: datetime, zone: tzinfo | None) -> list[DeskItem]:
    """Return the open items whose time has come, and those that name none that can be read.

    Args:
        items: Any items.
        now: The present, with a timezone.
        zone: Where the familiar lives; None: the system's.
    """
    return [item for item in items if item.is_open and _has_come(item.due, now, zone)]


def with_details(markdown: str, items: Iterable[DeskItem]) -> Iterator[tuple[DeskItem, range]]:
    """Yield each of `items` with the numbers of the lines that go on below it, up to the next."""
    lines = split_lines(markdown)
    starts = {found.line for found in _find_items(markdown)}
    for item in items:
        end = _end_of(lines, item.line)
        ends = (number for number in range(item.line + 1, end + 1) if number in starts)
        yield item, range(item.line + 1, next(ends, end + 1))


def find_item(items: tuple[DeskItem, ...], number: int, rel_path: str) -> DeskItem:
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
        hint="List them: `familiar todo ls --all`.",
    )


def mark_line(
    markdown: str, item: DeskItem, mark: ItemStatus, now: datetime, zone: tzinfo | None
) -> str:
    """Return the list with another mark on one item; nothing else changes.

    An item that comes again and is done stays open, and is due at its next time.
    """
    lines = split_lines(markdown)
    line = lines[item.line - 1]
    is_done = item.is_open and mark is ItemStatus.done
    again = item.due.following(now, zone) if item.due and is_done else None
    found = due_in(line.rstrip("\r\n"))
    if again and found:
        lines[item.line - 1] = f"{line[: found.start]}{again.mark}{line[found.end :]}"
    else:
        lines[item.line - 1] = _with_mark(line, mark)
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
    last = max((found.line for found in _find_items(markdown)), default=0)
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
    mark: ItemStatus
    words: str


def _find_items(markdown: str) -> Iterator[_Found]:
    for line in scan(markdown):
        text = line.text.rstrip("\r\n").removeprefix("\ufeff")
        item = None if line.in_code else bullet(text)
        if item is None:
            continue
        words = text[item.words_at :]
        if item.box:
            yield _Found(line.number, ItemStatus(item.box.lower()), words)
        elif not item.indent and words.strip("-*_ \t"):
            yield _Found(line.number, ItemStatus.open, words)


def _has_come(due: Due | None, now: datetime, zone: tzinfo | None) -> bool:
    at = due.at(zone) if due else None
    return at is None or at <= now


def _split_due(words: str) -> tuple[str, Due | None]:
    found = due_in(words)
    if found is None:
        return words.strip(), None
    without = f"{words[: found.start].rstrip()} {words[found.end :].lstrip()}".strip()
    return without, found.due


def _with_mark(line: str, mark: ItemStatus) -> str:
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


_MESSAGE_CHARS: Final = 60


@dataclass(frozen=True, slots=True)
class ListChange:
    """What was changed, or would be.

    Args:
        rel_path: The file.
        before: What it held.
        after: What it holds now.
        item: The item it is about, as it is now.
        dry_run: Nothing was changed.
    """

    rel_path: str
    before: str
    after: str
    item: DeskItem | None = None
    dry_run: bool = False

    @property
    def changed(self) -> bool:
        """Whether the file is another one now."""
        return self.before != self.after

    @property
    def diff(self) -> str:
        """How; unified, empty when nothing changed."""
        return unified(self.before, self.after, self.rel_path)


def read_items(store: MemoryStore, rel_path: str) -> tuple[DeskItem, ...]:
    """Return the items of a list; none when there is no such file.

    Raises:
        BadInputError: The file is not UTF-8.
    """
    return items_in(_read_file(store, rel_path)[0])


def add_item(
    store: MemoryStore,
    rel_path: str,
    text: str,
    due: Due | None = None,
    *,
    phrases: Phrases = ENGLISH,
    dry_run: bool = False,
) -> ListChange:
    """Write one more item down; `phrases` name the file where it is a new one.

    Raises:
        UsageError: `text` is empty or too long.
        BadInputError: No item can stand at the end of the file.
        ConflictError: The file was changed meanwhile; nothing was written.
    """
    words = item_words(text)
    words = f"{words} {due.mark}" if due else words
    before, sha256 = _read_file(store, rel_path)
    title = phrases.tasks if rel_path == TASKS else phrases.reminders
    after = with_item(before, title, words)
    items = items_in(after)
    if len(items) <= len(items_in(before)):
        raise BadInputError(
            f"{rel_path!r} ends inside a code block, where items are not read; nothing was changed",
            hint=f"Close the code block; see `familiar memory cat {typed(rel_path)}`.",
        )
    _write_file(store, rel_path, after, sha256, f"add {words}", dry_run=dry_run)
    return ListChange(rel_path, before, after, items[-1], dry_run)


def mark_item(
    store: MemoryStore,
    rel_path: str,
    number: int,
    mark: ItemStatus,
    *,
    now: datetime,
    zone: tzinfo | None,
    dry_run: bool = False,
) -> ListChange:
    """Put another mark on an item; on one that has it already nothing changes.

    One that comes again and is done stays open, and is due at its next time.

    Raises:
        NotFoundError: There is no such item.
        ConflictError: The file was changed meanwhile; nothing was written.
    """
    before, sha256 = _read_file(store, rel_path)
    item = find_item(items_in(before), number, rel_path)
    after = before if item.mark is mark else mark_line(before, item, mark, now, zone)
    if before != after:
        _write_file(store, rel_path, after, sha256, f"{mark.name} {item.text}", dry_run=dry_run)
    changed = find_item(items_in(after), number, rel_path)
    return ListChange(rel_path, before, after, changed, dry_run)


def read_scratch(store: MemoryStore) -> str:
    """Return the text of the scratchpad; empty without one."""
    return _read_file(store, SCRATCH)[0]


def add_scratch(store: MemoryStore, text: str, *, dry_run: bool = False) -> ListChange:
    """Put `text` below what stands on the scratchpad.

    Raises:
        UsageError: `text` is empty.
        ConflictError: The file was changed meanwhile; nothing was written.
    """
    if not text.strip():
        raise UsageError(
            "The text is empty; nothing was changed",
            hint="Put the text in quotation marks, or use `-` to read standard input.",
        )
    before, sha256 = _read_file(store, SCRATCH)
    gap = "" if not before or before.endswith("\n") else "\n"
    after = f"{before}{gap}{text}" + ("" if text.endswith("\n") else "\n")
    _write_file(store, SCRATCH, after, sha256, "add to the scratchpad", dry_run=dry_run)
    return ListChange(SCRATCH, before, after, dry_run=dry_run)


def put_scratch(store: MemoryStore, text: str, *, was: str, dry_run: bool = False) -> ListChange:
    """Put `text` in the place of what stood on the scratchpad; an empty one deletes the file.

    Raises:
        ConflictError: Something else than `was` stands there now; it stays.
    """
    before, sha256 = _read_file(store, SCRATCH)
    if before != was:
        raise ConflictError(
            f"{SCRATCH!r} was changed meanwhile; it was not overwritten",
            hint="Run the command again.",
        )
    if before and not text.strip():
        return clear_scratch(store, dry_run=dry_run)
    if text != before:
        _write_file(store, SCRATCH, text, sha256, "edit the scratchpad", dry_run=dry_run)
    return ListChange(SCRATCH, before, text, dry_run=dry_run)


def clear_scratch(store: MemoryStore, *, dry_run: bool = False) -> ListChange:
    """Throw away what stands on the scratchpad: the file is deleted.

    Raises:
        ConflictError: The file was changed meanwhile; it stays.
    """
    before, sha256 = _read_file(store, SCRATCH)
    if sha256 != MISSING:
        with store.transaction("human", "clear the scratchpad", dry_run=dry_run) as tx:
            tx.delete(SCRATCH, expect=sha256)
    return ListChange(SCRATCH, before, "", dry_run=dry_run)


def _read_file(store: MemoryStore, rel_path: str) -> tuple[str, str]:
    """Return a file's text, and what it must still be when it is written."""
    try:
        file = store.read(rel_path)
    except NotFoundError:
        return "", MISSING
    return file.text, file.sha256


def _write_file(
    store: MemoryStore, rel_path: str, text: str, expect: str, message: str, *, dry_run: bool
) -> None:
    told = one_line(message, _MESSAGE_CHARS)
    with store.transaction("human", told, dry_run=dry_run) as tx:
        tx.write(rel_path, text, expect=expect)
