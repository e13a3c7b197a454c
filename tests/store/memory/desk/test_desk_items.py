"""Items of a list that a person may edit."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.base.errors import BadInputError, ConflictError, NotFoundError, UsageError
from familiar_cli.store.memory.desk import (
    MAX_CHARS,
    ItemStatus,
    add_item,
    add_scratch,
    clear_scratch,
    due_items,
    items_in,
    mark_item,
    mark_line,
    read_items,
    read_scratch,
    with_item,
)
from familiar_cli.store.memory.layout import REMINDERS, SCRATCH, TASKS
from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.cases import each

OSLO = ZoneInfo("Europe/Oslo")
NOW = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)  # 09:00 in Oslo
LINES = st.sampled_from(
    [
        "- [ ] one @2026-11-30 09:00",
        "* [x] two",
        "  - [-] three (due 2026-12-01)",
        "1. [ ] four",
        "- bare @2026-02-30",
        "# Title",
        "",
        "words",
        "   goes on",
        "```",
        "* * *",
        "- [ ]",
        "\ufeff- [ ] mark",
        "日本 [ ] x",
    ]
)
PAGES = st.builds(
    lambda lines, end, last: end.join(lines) + (end if last else ""),
    st.lists(LINES, max_size=12),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)


@pytest.fixture
def store(tmp_path) -> MemoryStore:
    return MemoryStore(tmp_path / "memory")


def said(markdown: str) -> list[tuple[str, str]]:
    return [(item.mark.name, item.text) for item in items_in(markdown)]


def test_boxes_numbers_and_bare_lists_are_items() -> None:
    page = "# R\n\n- [ ] a\n* [X] b\n2) [-] c\n  + [ ] d\n- e\n"
    assert said(page) == [
        ("open", "a"),
        ("done", "b"),
        ("dropped", "c"),
        ("open", "d"),
        ("open", "e"),
    ]


def test_blocks_of_code_rules_and_lines_that_go_on_are_not() -> None:
    page = "- [ ] a\n  - with a detail\n  and more\n* * *\n```\n- [ ] no\n```\nplain\n"
    assert said(page) == [("open", "a")]


@each(
    ("line", "text", "written"),
    [
        ("call @2026-11-30 09:00", "call", "2026-11-30 09:00"),
        ("@2026-11-30 call", "call", "2026-11-30"),
        ("call (due 2026-11-30) Bo", "call Bo", "2026-11-30"),
        ("call @2026-11-30T09:00Z", "call", "2026-11-30 09:00Z"),
        ("from @2026-01-01 to @2026-01-02", "from @2026-01-01 to", "2026-01-02"),
        ("call @2026-02-30", "call", "2026-02-30"),
    ],
)
def test_a_time_is_taken_out_of_the_words(line, text, written) -> None:
    (item,) = items_in(f"- [ ] {line}\n")
    assert (item.text, item.due.written) == (text, written)


@each("line", ["call", "bob@2026-01-01", "@2026-1-1", "at 2026-01-01"])
def test_what_is_not_marked_as_a_time_is_none(line) -> None:
    (item,) = items_in(f"- [ ] {line}\n")
    assert (item.text, item.due) == (line, None)


def test_due_is_what_has_come_or_has_no_time_that_can_be_read() -> None:
    page = (
        "- [ ] now @2026-11-30 09:00\n- [ ] later @2026-11-30 09:01\n- [ ] today @2026-11-30\n"
        "- [x] done @2026-01-01\n- [ ] never @2026-02-30\n- [ ] some time\n"
        "- [ ] z @2026-11-30 08:00Z\n"
        "- [ ] far @9999-12-31 23:59\n"
    )
    due = due_items(items_in(page), NOW, OSLO)
    assert [item.text for item in due] == ["now", "today", "never", "some time", "z"]


@given(PAGES, st.sampled_from(ItemStatus))
def test_a_mark_changes_one_line_and_no_number(page, mark) -> None:
    items = items_in(page)
    for item in items:
        after = mark_line(page, item, mark, NOW, None)
        changed = [
            n
            for n, (a, b) in enumerate(zip(page.split("\n"), after.split("\n"), strict=True), 1)
            if a != b
        ]
        assert changed in ([], [item.line])
        now = items_in(after)
        assert [(i.number, i.line, i.text, i.due) for i in now] == [
            (i.number, i.line, i.text, i.due) for i in items
        ]
        assert now[item.number - 1].mark is mark


@given(PAGES)
def test_what_is_added_comes_last_and_nothing_else_changes(page) -> None:
    before, after = items_in(page), with_item(page, "Title", "new @2026-11-30")
    now = items_in(after)
    if len(now) == len(before):  # the page ends inside a code block
        return
    assert (now[-1].number, now[-1].text, now[-1].mark) == (len(before) + 1, "new", ItemStatus.open)
    assert [(i.text, i.mark) for i in now[:-1]] == [(i.text, i.mark) for i in before]
    kept = [line for line in after.splitlines() if line.strip() and "new @2026" not in line]
    old = [line for line in page.splitlines() if line.strip()]
    assert kept in (old, ["# Title", *old], [*old, "# Title"])


def test_line_ends_are_the_files_own() -> None:
    assert with_item("- [ ] a\r\n", "T", "b") == "- [ ] a\r\n- [ ] b\r\n"
    assert with_item("- [ ] a", "T", "b") == "- [ ] a\n- [ ] b\n"


def test_what_a_person_wrote_below_an_item_stays_with_it() -> None:
    page = "- [ ] a\n  its detail\n\nAnd a remark.\n"
    assert with_item(page, "T", "b") == "- [ ] a\n  its detail\n- [ ] b\n\nAnd a remark.\n"


def test_files_are_begun_added_to_and_ticked_off(store) -> None:
    add_item(store, TASKS, " Mend\nthe \x1b[31mlamp ")
    add_item(store, TASKS, "Paint")
    done = mark_item(store, TASKS, 1, ItemStatus.done, now=NOW, zone=None)

    assert store.read_file(TASKS) == "# Tasks\n\n- [x] Mend the [31mlamp\n- [ ] Paint\n"
    assert "+- [x] Mend" in done.diff
    assert not mark_item(store, TASKS, 1, ItemStatus.done, now=NOW, zone=None).changed


def test_a_dry_run_writes_nothing(store) -> None:
    assert add_item(store, REMINDERS, "a", dry_run=True).item.number == 1
    assert add_scratch(store, "a", dry_run=True).changed
    assert not store.root.exists()


@pytest.mark.parametrize("text", ["", " \n ", "x" * (MAX_CHARS + 1)])
def test_empty_and_endless_words_are_refused(store, text) -> None:
    with pytest.raises(UsageError):
        add_item(store, TASKS, text)


def test_a_number_that_is_not_there_is_not_found(store) -> None:
    with pytest.raises(NotFoundError, match="it is empty"):
        mark_item(store, TASKS, 1, ItemStatus.done, now=NOW, zone=None)


def test_no_item_is_written_into_a_block_of_code(store) -> None:
    store.write_file(TASKS, "```\nopen\n")
    with pytest.raises(BadInputError, match="code block"):
        add_item(store, TASKS, "a")
    assert store.read_file(TASKS) == "```\nopen\n"


def test_an_edit_in_the_same_moment_wins(store, monkeypatch) -> None:
    store.write_file(TASKS, "- [ ] a\n")
    read = store.read

    def meanwhile(rel_path):
        found = read(rel_path)
        store.write_file(TASKS, "- [ ] mine\n")
        return found

    monkeypatch.setattr(store, "read", meanwhile)
    with pytest.raises(ConflictError):
        mark_item(store, TASKS, 1, ItemStatus.done, now=NOW, zone=None)
    assert store.read_file(TASKS) == "- [ ] mine\n"


def test_a_scratchpad_is_added_to_and_thrown_away(store) -> None:
    add_scratch(store, "one")
    add_scratch(store, "two\n")
    assert read_scratch(store) == "one\ntwo\n"
    assert clear_scratch(store).before == "one\ntwo\n"
    assert not store.exists(SCRATCH)
    assert not clear_scratch(store).changed


def test_a_list_that_is_not_there_has_no_items(store) -> None:
    assert read_items(store, TASKS) == ()


@each(
    ("line", "text", "at", "is_due", "after"),
    [
        (
            "Water @2026-11-30 09:00 (every monday 9:00)",
            "Water",
            "2026-11-30 09:00",
            True,
            "Water @2026-12-07 09:00 (every monday 09:00)",
        ),
        (
            "Rent @2026-10-31 (every month on the 31st) soon",
            "Rent soon",
            "2026-10-31",
            True,
            "Rent @2026-12-31 (every month on the 31st) soon",
        ),
        ("Sing @every tuesday loud", "Sing loud", "every tuesday", True, None),
        ("Sing (every 2 days)", "Sing", "every 2 days", True, None),
        ("Pay @2027-01-01 (every year)", "Pay", "2027-01-01", False, None),
        ("Call (every now and then)", "Call (every now and then)", None, True, None),
    ],
)
def test_a_rule_in_a_line_says_when_it_comes_again(line, text, at, is_due, after) -> None:
    page = f"- [ ] {line}\n"
    (item,) = items_in(page)
    assert (item.text, item.due and item.due.written) == (text, at)
    assert bool(due_items([item], NOW, OSLO)) is is_due
    if after:
        assert mark_line(page, item, ItemStatus.done, NOW, OSLO) == f"- [ ] {after}\n"
    dropped = mark_line(page, item, ItemStatus.dropped, NOW, OSLO)
    assert dropped == f"- [-] {line}\n"
