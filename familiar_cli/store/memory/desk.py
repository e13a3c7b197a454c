"""Reminders, tasks and a scratchpad, as Markdown lists that people may edit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from familiar_cli.base.errors import BadInputError, ConflictError, NotFoundError, UsageError
from familiar_cli.base.languages import ENGLISH, Phrases
from familiar_cli.base.markdown import bullet, newline_of, scan, split_lines
from familiar_cli.base.text import one_line, typed, unified, whole_line
from familiar_cli.base.times import clock, recurrence
from familiar_cli.base.times.clock import to_utc, to_zone
from familiar_cli.base.times.when import read_when
from familiar_cli.store.memory.layout import SCRATCH, TASKS
from familiar_cli.store.memory.store.files import MISSING

if TYPE_CHECKING:
    from familiar_cli.store.memory.store.store import MemoryStore


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


class Due(Struct, frozen=True):
    """A due date.

    Args:
        written: The date as written, e.g. `2026-11-30 09:00`.
        moment: The point in time; local if it has no timezone, and midnight for a date alone. None
            for an invalid date or time.
        has_time: Whether it includes a time of day.
        rule: The recurrence; None for a single date.
    """

    written: str
    moment: datetime | None
    has_time: bool
    rule: recurrence.Recurrence | None = None

    def at(self, zone: tzinfo | None) -> datetime | None:
        """Return the due time in UTC. `zone` is the familiar's timezone; None for the system's.

        A recurrence without a date is due since its last occurrence.
        """
        if self.moment is None and self.rule is not None:
            return recurrence.last_occurrence(self.rule, clock.now(), zone)
        return to_utc(self.moment, zone) if self.moment else None

    def latest(self, now: datetime, zone: tzinfo | None) -> datetime | None:
        """Return the last occurrence up to now in UTC, or None before the first."""
        at = self.at(zone)
        if at is None or at > now or self.rule is None:
            return at if at and at <= now else None
        return max(at, recurrence.last_occurrence(self.rule, now, zone, self._first))

    def following(self, now: datetime, zone: tzinfo | None) -> Due | None:
        """Return the next occurrence after both now and this one, or None without a recurrence."""
        at = self.at(zone)
        if self.rule is None or at is None:
            return None
        return _due_by(self.rule, max(at, now), zone, self._first)

    @property
    def mark(self) -> str:
        """The due date as written in an item."""
        rule = f" ({self.rule})" if self.rule and self.moment else ""
        return f"@{self.written}{rule}"

    @property
    def _first(self) -> date | None:
        is_counted = self.rule is not None and self.rule.is_counted
        return self.moment if is_counted or self.moment is None else self.moment.date()


class FoundDue(Struct, frozen=True):
    """A due date in a line, and its character range."""

    due: Due
    start: int
    end: int


def due_in(words: str) -> FoundDue | None:
    """Return the last due date marked in `words`, or None."""
    every = list(_MARKED.finditer(words))
    if not every:
        return _find_rule(words)
    found = every[-1]
    parts = found.groups()[:3] if found[1] else found.groups()[3:]
    due, end = _due_from(*parts), found.end()
    named = _RULE.match(words, end)
    if named and (rule := recurrence.parse_recurrence(named[1])):
        due, end = replace(due, rule=rule), named.end()
    return FoundDue(due, found.start(), end)


def _find_rule(words: str) -> FoundDue | None:
    """Return the rule of a line without a date: `@every monday 9:00`, `(every monday 9:00)`."""
    for match in reversed([*_RULE_ALONE.finditer(words)]):
        said = (match[1] or match[2]).split(" ")
        shortest = 2 if match[1] else len(said)  # an `@` may precede other words
        for count in range(len(said), shortest - 1, -1):
            text = " ".join(said[:count])
            if rule := recurrence.parse_recurrence(text):
                due = Due(text, None, has_time=rule.hour is not None, rule=rule)
                end = match.start(1) + len(text) if match[1] else match.end()
                return FoundDue(due, match.start(), end)
    return None


def parse_due(text: str, now: datetime, zone: tzinfo | None) -> Due:
    """Parse a future time that a person typed.

    A recurrence such as `every monday 9:00` starts with its next occurrence.

    Raises:
        UsageError: Not a valid time; see `when.read_when`.
    """
    if rule := recurrence.parse_recurrence(text):
        today = to_zone(now, zone).date()
        return _due_by(rule.anchored(today), now, zone, now if rule.is_counted else today)
    result = read_when(text, now, zone, ahead=True)
    moment = result.moment
    if result.is_counted:
        return due_of(moment, zone)
    if not result.has_time:
        return Due(moment.date().isoformat(), moment, has_time=False)
    shown = moment.isoformat(" ", "seconds" if moment.second else "minutes")
    return Due(shown, moment, has_time=True)


def _due_by(
    rule: recurrence.Recurrence, after: datetime, zone: tzinfo | None, first: date | None
) -> Due:
    """Return the first occurrence of a rule after a moment."""
    moment = recurrence.next_occurrence(rule, after, zone, first)
    due = due_of(moment, zone)
    if rule.hour is None and not rule.is_counted and due.moment:
        due = Due(due.moment.date().isoformat(), due.moment, has_time=False)
    return replace(due, rule=rule)


def due_of(moment: datetime, zone: tzinfo | None) -> Due:
    """Format a moment as a due date, rounded up to the minute.

    The offset is included only where local time is ambiguous, as when clocks are set back.
    """
    utc = moment.astimezone(UTC)
    whole = utc.replace(second=0, microsecond=0)
    utc = whole if whole == utc else whole + _MINUTE
    local = to_zone(utc, zone)
    plain = local.replace(tzinfo=None, fold=0)
    text = plain.isoformat(" ", "minutes")
    if to_utc(plain, zone) == utc:
        return Due(text, plain, has_time=True)
    return Due(f"{text}{local.isoformat()[-6:]}", local, has_time=True)


def _due_from(date: str, time: str | None, offset: str | None) -> Due:
    text = f"{date} {time}{offset or ''}" if time else date
    padded = time if time is None or time.index(":") == 2 else f"0{time}"  # noqa: PLR2004
    iso = f"{date}T{padded}{(offset or '').upper()}" if padded else date
    try:
        return Due(text, datetime.fromisoformat(iso), has_time=time is not None)
    except ValueError:
        return Due(text, None, has_time=time is not None)


MAX_CHARS: Final = 2000
"""Maximum length of an item in characters."""


class ItemStatus(StrEnum):
    """Status of an item; the value is the character in its checkbox."""

    open = " "
    done = "x"
    dropped = "-"


class DeskItem(Struct, frozen=True):
    """An item of a list.

    Args:
        number: Position in the list, from 1, counting completed items.
        line: Line number, from 1.
        mark: Its status.
        text: Its text without the due date.
        due: Its due date, or None.
    """

    number: int
    line: int
    mark: ItemStatus
    text: str
    due: Due | None = None

    @property
    def is_open(self) -> bool:
        """Whether the item is still open."""
        return self.mark is ItemStatus.open


def items_in(markdown: str) -> tuple[DeskItem, ...]:
    """Parse the items of a list, in file order."""
    items: list[DeskItem] = []
    for line in scan(markdown):
        text = line.text.rstrip("\r\n").removeprefix("\ufeff")
        item = None if line.in_code else bullet(text)
        if item is None:
            continue
        words = text[item.words_at :]
        if item.box or (not item.indent and words.strip("-*_ \t")):
            mark = ItemStatus(item.box.lower()) if item.box else ItemStatus.open
            items.append(DeskItem(len(items) + 1, line.number, mark, *_split_due(words)))
    return tuple(items)


def due_items(items: Iterable[DeskItem], now: datetime, zone: tzinfo | None) -> list[DeskItem]:
    """Return open items that are due, or whose due date is invalid.

    Args:
        items: Items to filter.
        now: Present time, with a timezone.
        zone: The familiar's timezone; None for the system's.
    """
    return [item for item in items if item.is_open and _has_come(item.due, now, zone)]


def with_details(markdown: str, items: Iterable[DeskItem]) -> Iterator[tuple[DeskItem, range]]:
    """Yield each of `items` with the line numbers of the details below it."""
    lines = split_lines(markdown)
    starts = {item.line for item in items_in(markdown)}
    for item in items:
        end = _end_of(lines, item.line)
        ends = (number for number in range(item.line + 1, end + 1) if number in starts)
        yield item, range(item.line + 1, next(ends, end + 1))


def find_item(items: tuple[DeskItem, ...], number: int, rel_path: str) -> DeskItem:
    """Return the item `number`.

    Raises:
        NotFoundError: No such item.
    """
    for item in items:
        if item.number == number:
            return item
    there = f"it has {len(items)}" if items else "it is empty"
    raise NotFoundError(
        f"{rel_path!r} has no item {number}: {there}; nothing was changed",
        hint="List them: `familiar todo list --all`.",
    )


def mark_line(
    markdown: str, item: DeskItem, mark: ItemStatus, now: datetime, zone: tzinfo | None
) -> str:
    """Return the list with the status of one item changed.

    A recurring item that is completed stays open and moves to its next occurrence.
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
    """Return the list with a new open item, after the last one or at the end of the file.

    Args:
        markdown: The list; empty to start a new one.
        title: H1 of a new list.
        words: Text of the item, including its due date.
    """
    if not markdown.strip():
        return f"{markdown}# {title}\n\n- [ ] {words}\n"
    lines = split_lines(markdown)
    newline = newline_of(markdown)
    last = max((item.line for item in items_in(markdown)), default=0)
    at = _end_of(lines, last) if last else len(lines)
    if not lines[at - 1].endswith("\n"):
        lines[at - 1] += newline
    gap = [] if last or not lines[at - 1].strip() else [newline]
    lines[at:at] = [*gap, f"- [ ] {words}{newline}"]
    return "".join(lines)


def _check_words(text: str) -> None:
    if not text.strip():
        raise UsageError(
            "The text is empty; nothing was changed",
            hint="Put the text in quotation marks, or use `-` to read standard input.",
        )


def item_words(text: str) -> str:
    """Return `text` as a single safe line for an item.

    Raises:
        UsageError: It is empty, or too long.
    """
    words = whole_line(text)
    _check_words(words)
    if len(words) > MAX_CHARS:
        raise UsageError(
            f"An item has at most {MAX_CHARS} characters, but this one has {len(words)}",
            hint="Put it in a note: `familiar memory append notes.md -`.",
        )
    return words


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
    """Return the index after an item and the details a person wrote below it."""
    at = last
    while at < len(lines) and lines[at].strip() and lines[at][0] in " \t":
        at += 1
    return at


_MESSAGE_CHARS: Final = 60


class ListChange(Struct, frozen=True):
    """A change to a list, made or planned.

    Args:
        rel_path: The changed file.
        before: Content before.
        after: Content after.
        item: The affected item after the change.
        dry_run: Whether nothing was written.
    """

    rel_path: str
    before: str
    after: str
    item: DeskItem | None = None
    dry_run: bool = False

    @property
    def changed(self) -> bool:
        """Whether the content differs."""
        return self.before != self.after

    @property
    def diff(self) -> str:
        """Unified diff; empty when nothing changed."""
        return unified(self.before, self.after, self.rel_path)


def read_items(store: MemoryStore, rel_path: str) -> tuple[DeskItem, ...]:
    """Return the items of a list; none if the file does not exist.

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
    """Add an item to a list; `phrases` supplies the title of a new file.

    Raises:
        UsageError: `text` is empty or too long.
        BadInputError: No item can be added at the end of the file.
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
    """Set the status of an item; does nothing if it is already set.

    A recurring item that is completed stays open and moves to its next occurrence.

    Raises:
        NotFoundError: No such item.
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
    """Return the text of the scratchpad; empty if there is none."""
    return _read_file(store, SCRATCH)[0]


def add_scratch(store: MemoryStore, text: str, *, dry_run: bool = False) -> ListChange:
    """Append `text` to the scratchpad.

    Raises:
        UsageError: `text` is empty.
        ConflictError: The file was changed meanwhile; nothing was written.
    """
    _check_words(text)
    before, sha256 = _read_file(store, SCRATCH)
    gap = "" if not before or before.endswith("\n") else "\n"
    after = f"{before}{gap}{text}" + ("" if text.endswith("\n") else "\n")
    _write_file(store, SCRATCH, after, sha256, "add to the scratchpad", dry_run=dry_run)
    return ListChange(SCRATCH, before, after, dry_run=dry_run)


def put_scratch(store: MemoryStore, text: str, *, was: str, dry_run: bool = False) -> ListChange:
    """Replace the scratchpad; empty `text` deletes the file.

    Raises:
        ConflictError: The scratchpad no longer holds `was`; it is unchanged.
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
    """Clear the scratchpad by deleting its file.

    Raises:
        ConflictError: The file was changed meanwhile; it is kept.
    """
    before, sha256 = _read_file(store, SCRATCH)
    if sha256 != MISSING:
        with store.transaction("human", "clear the scratchpad", dry_run=dry_run) as tx:
            tx.delete(SCRATCH, expect=sha256)
    return ListChange(SCRATCH, before, "", dry_run=dry_run)


def _read_file(store: MemoryStore, rel_path: str) -> tuple[str, str]:
    """Return a file's text and the checksum to expect when writing it."""
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
