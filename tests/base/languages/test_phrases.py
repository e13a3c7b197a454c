"""Every language has all titles and labels, and what one table writes is read by all."""

from __future__ import annotations

import string
from datetime import UTC, date, datetime, timedelta

import pytest

from familiar_cli.base.config.schema import LANGUAGES
from familiar_cli.base.languages import (
    CODES,
    ENGLISH,
    Phrases,
    begins_with,
    heading_in,
    kinds,
    phrases,
    section_key,
    tables,
)
from familiar_cli.base.text import framed
from familiar_cli.base.who.visibility import channel_scope
from familiar_cli.store.memory.aliases import aliases_of, with_alias
from familiar_cli.store.memory.pages.visible_lines import (
    is_damaged,
    private_heading,
    private_scope,
)
from tests.support.cases import each

TABLES = [pytest.param(table, id=table.code) for table in tables()]
_MAY_BE_EMPTY = {"first_day", "common"}
_BRACKETS = (
    "due_reminders",
    "open_tasks",
    "open_conflicts",
    "scratchpad",
    "earlier",
    "earlier_here",
    "meanwhile",
)


def test_each_language_that_can_be_set_has_a_table() -> None:
    assert ("auto", *CODES) == LANGUAGES
    assert [table.code for table in tables()] == list(CODES)


@each("table", TABLES)
def test_a_table_lacks_nothing(table: Phrases) -> None:
    assert all(
        getattr(table, name) for name in table.__struct_fields__ if name not in _MAY_BE_EMPTY
    )
    assert table.headings.keys() == ENGLISH.headings.keys()
    assert table.digests.keys() == ENGLISH.digests.keys()
    assert table.ago.keys() == ENGLISH.ago.keys()
    assert (len(table.months), len(table.weekdays), len(set(table.parts))) == (12, 7, 4)


@each("table", TABLES)
@each("name", ["in_play", "same_person", "due"])
def test_a_form_has_one_place_for_what_it_is_about(table: Phrases, name) -> None:
    names = [found for _, found, _, _ in string.Formatter().parse(getattr(table, name))]
    assert names.count("") == 1
    assert set(names) <= {"", None}


@each("table", TABLES)
def test_a_frame_stands_in_brackets_that_no_name_can_write(table: Phrases) -> None:
    for name in _BRACKETS:
        line = getattr(table, name)
        assert (line[0], line[-1], line.count("\n")) == ("[", "]", 0)
    assert framed(table.labelled(table.from_memory, "x")) != table.labelled(table.from_memory, "x")


def test_no_heading_means_two_things_in_two_languages() -> None:
    said = {(section_key(title), kind) for t in tables() for kind, title in t.headings.items()}
    assert said == {(kind, kind) for kind in ENGLISH.headings}


@each("title", ["Aliases", "aliases:", "**Weitere Namen**", "別名", "أسماء أخرى", "AUTRES NOMS"])
def test_a_heading_is_known_in_any_language_however_it_is_written(title) -> None:
    assert heading_in(title) == "aliases"


def test_a_heading_of_a_persons_own_means_itself() -> None:
    assert (heading_in("Recipes"), section_key("Recipes ")) == ("", "recipes")


@each("table", TABLES)
def test_a_list_of_names_goes_on_in_the_language_in_which_it_began(table: Phrases) -> None:
    text = with_alias("# Anna\n", "Annie", table.heading("aliases"))
    for other in tables():
        text = with_alias(text, f"Name {other.code}", other.heading("aliases"))
    assert text.count("\n## ") == 1
    assert aliases_of(text) == ("Annie", *(f"Name {code}" for code in CODES))


@each("table", TABLES)
def test_a_private_heading_is_guarded_in_every_language(table: Phrases) -> None:
    heading = private_heading("DM", channel_scope("dm-42"), table)
    assert private_scope(heading) == channel_scope("dm-42")
    assert not is_damaged(heading)
    assert is_damaged(heading.partition(" <!--")[0])
    assert is_damaged(heading.replace("private dm", "privat dm"))


@each("table", TABLES)
def test_what_tells_of_play_is_known_in_every_language(table: Phrases) -> None:
    assert begins_with(table.in_play.format("x"), "in_play")


@each(
    ("code", "said"),
    [
        ("en", "1 May 2026"),
        ("de", "1. Mai 2026"),
        ("ja", "2026年5月1日"),
        ("ar", "1 مايو 2026"),
        ("es", "1 de mayo de 2026"),
        ("fr", "1er mai 2026"),
        ("zh", "2026年5月1日"),
    ],
)
def test_a_date_is_as_the_language_writes_it(code, said) -> None:
    assert phrases(code).day(date(2026, 5, 1)) == said


@each(
    ("code", "said"),
    [
        ("en", "Friday, 2026-05-08 at 14:34 UTC"),
        ("de", "Freitag, 8. Mai 2026, 14:34 Uhr UTC"),
        ("ja", "2026年5月8日（金曜日）14:34 UTC"),
        ("ar", "الجمعة، 8 مايو 2026، 14:34 UTC"),
        ("es", "viernes, 8 de mayo de 2026, 14:34 UTC"),
        ("fr", "vendredi 8 mai 2026, 14:34 UTC"),
        ("zh", "2026年5月8日（星期五）14:34 UTC"),
    ],
)
def test_a_moment_is_as_the_language_writes_it(code, said) -> None:
    assert phrases(code).moment(datetime(2026, 5, 8, 14, 34, tzinfo=UTC), "UTC") == said


@each(
    ("code", "hours", "said"),
    [
        ("de", 1, "vor 1 Stunde"),
        ("de", 2, "vor 2 Stunden"),
        ("ja", 3, "3時間前"),
        ("ar", 2, "قبل ساعتين"),
        ("ar", 3, "قبل 3 ساعات"),
        ("ar", 11, "قبل 11 ساعة"),
        ("fr", 24, "il y a 1 jour"),
        ("es", 0, "ahora mismo"),
    ],
)
def test_how_long_ago_it_was_is_counted_as_the_language_does(code, hours, said) -> None:
    assert phrases(code).since(timedelta(hours=hours)) == said


def test_a_session_is_called_by_the_part_of_its_day() -> None:
    assert phrases("de").session("2026-04-07-evening") == "2026-04-07 Abend"
    assert phrases("en").session("2026-04-07-evening") == "2026-04-07-evening"
    assert phrases("ja").session("2026-04-07-market") == "2026-04-07-market"


def test_a_name_of_two_kinds_has_the_things_of_both() -> None:
    assert {"yoga", "maths"} <= set(kinds("en")["classes"].split(", "))


def test_a_language_without_a_table_of_kinds_knows_none() -> None:
    assert kinds("fr") == {}
