"""The Markdown form of an entry: written exactly, read however a person left it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.store.memory.pages.front_matter import (
    LorePage,
    parse_lore,
    quote_value,
    render_lore,
    unquote_value,
)
from tests.support.cases import each
from tests.support.lorebooks import texts

ID = "0123456789ab"
MARK = f"<!-- lorebook entry {ID} -->"
storable = texts.filter(lambda text: not any("\ud800" <= char <= "\udfff" for char in text))


@given(texts | st.text())
def test_a_key_is_one_line_and_comes_back(key) -> None:
    line = quote_value(key)

    assert line.splitlines() == [line]
    assert unquote_value(line) == key


@given(st.lists(texts), storable, st.booleans())
def test_keys_body_and_switch_come_back(keys, body, enabled) -> None:
    page = parse_lore(render_lore(LorePage("Title", tuple(keys), enabled, ID, body)))

    ending = "" if not body or body.endswith("\n") else "\n"
    assert page == LorePage("Title", tuple(keys), enabled, ID, body + ending)


@given(st.text())
def test_no_text_stops_the_reader(text) -> None:
    assert isinstance(parse_lore(text), LorePage)


def test_a_page_reads_as_a_person_would_write_it() -> None:
    page = LorePage(
        "The Citadel", ("citadel", "/old (fort|wall)/i", "a, b"), False, ID, "It stands."
    )

    assert render_lore(page) == (
        "# The Citadel\n\n- citadel\n- `/old (fort|wall)/i`\n- a, b\n- **Disabled**\n\n"
        f"{MARK}\n\nIt stands.\n"
    )


def test_a_key_named_disabled_does_not_switch_the_entry_off() -> None:
    page = parse_lore(render_lore(LorePage("T", ("Disabled", "**disabled**"), True, ID)))

    assert (page.enabled, page.keys) == (True, ("Disabled", "**disabled**"))


@each("mark", ["- Disabled", "- **Disabled**", "* _disabled_", "+ DISABLED"])
def test_a_person_may_spell_the_mark_of_a_disabled_entry_as_they_like(mark) -> None:
    assert not parse_lore(f"# T\n\n- key\n{mark}\n\n{MARK}\n\ntext\n").enabled


@each(
    "text",
    [
        f"# T\n- a\n- b\n{MARK}\ntext\n",
        f"# T\r\n\r\n- a\r\n- b\r\n\r\n{MARK}\r\n\r\ntext\n",
        f"\ufeff# T\n\n* a\n\n* b\n\n\n{MARK}\n\ntext\n",
        f"\n\n#   T  \n\n+ a\n+ b\n-\n\n{MARK}  \n\ntext\n",
    ],
)
def test_bullets_blank_lines_and_line_ends_may_be_anyones(text) -> None:
    assert parse_lore(text) == LorePage("T", ("a", "b"), True, ID, "text\n")


def test_a_list_that_begins_the_text_is_no_key() -> None:
    page = parse_lore(render_lore(LorePage("T", (), True, ID, "- one\n- two\n")))

    assert (page.keys, page.body) == ((), "- one\n- two\n")


def test_a_key_wrapped_onto_the_next_line_is_one_key() -> None:
    assert parse_lore(f"# T\n\n- the old\n  citadel\n\n{MARK}\n").keys == ("the old citadel",)


def test_a_mark_moved_to_the_end_still_names_the_entry() -> None:
    assert parse_lore(f"# T\n\n- a\n\ntext\n{MARK}\n") == LorePage("T", ("a",), True, ID, "text\n")


def test_a_file_without_a_mark_has_the_list_below_its_title_as_keys() -> None:
    assert parse_lore("# T\n\n- a\n- b\n\ntext\n") == LorePage(
        "T", ("a", "b"), True, None, "text\n"
    )


def test_a_file_that_is_only_a_list_has_no_keys() -> None:
    assert parse_lore("# Shopping\n\n- milk\n- eggs\n") == LorePage(
        "Shopping", (), True, None, "- milk\n- eggs\n"
    )


def test_a_file_without_a_title_has_none() -> None:
    assert parse_lore("just text\n") == LorePage(None, (), True, None, "just text\n")


def test_a_later_heading_is_text() -> None:
    assert parse_lore(f"# T\n\n{MARK}\n\n# Not the title\n").body == "# Not the title\n"
