"""Lines show a model when they were said, and no more than that."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from familiar_cli.base.languages import CODES, ENGLISH, phrases
from familiar_cli.store.memory.pages.facts import (
    asks_for_past,
    days_shown,
    ended_on,
    ended_spans,
    with_days,
    with_end,
    without_ended,
)
from familiar_cli.store.memory.pages.lines import (
    PLAIN,
    Numbering,
    machine_spans,
    normal_line,
    readable_text,
    shown_between,
    turn_ids,
)
from tests.support.viewers import viewer_in

EVERYBODY = viewer_in(None)
DAYS = {1: date(2025, 11, 3), 2: date(2026, 2, 12), 3: date(2026, 2, 20), 4: date(2026, 3, 1)}


class Asked:
    """Days of turns, and how often they were looked up."""

    def __init__(self, hidden: frozenset[int] = frozenset()) -> None:
        self.times = 0
        self.hidden = hidden

    def __call__(self, turn_ids, viewer):
        self.times += 1
        hidden = () if viewer.sees_everything else self.hidden
        return {n: DAYS[n] for n in turn_ids if n in DAYS and n not in hidden}


def shown(text: str, *, table=ENGLISH, hidden: frozenset[int] = frozenset()) -> str:
    return readable_text(with_days(text, Numbering(days=Asked(hidden)), EVERYBODY, table))


def test_a_line_shows_the_month_of_its_newest_turn() -> None:
    page = "# Anna\n\n- Anna lives in Bergen. <!-- turns 1-2 -->\n- likes tea\n"
    assert shown(page) == "# Anna\n\n- Anna lives in Bergen. (February 2026)\n- likes tea"


def test_of_two_lines_of_one_month_it_is_clear_which_is_older() -> None:
    page = "- lives in Oslo <!-- turns 2 -->\n- lives in Bergen <!-- turns 3 -->\n"
    assert shown(page).split("\n") == [
        "- lives in Oslo (12 February 2026)",
        "- lives in Bergen (20 February 2026)",
    ]


def test_lines_of_one_day_need_no_more_than_the_month() -> None:
    assert shown("- a <!-- turns 2 -->\n- b <!-- turns 2 -->") == (
        "- a (February 2026)\n- b (February 2026)"
    )


@pytest.mark.parametrize(
    "line",
    [
        "- lives in Bergen",
        "- lives in Bergen <!-- turns 9 -->",  # no such turn
        "- lives in Bergen <!-- turns desk-9c2d:2 -->",  # of another machine, not held here
        "- lives in Bergen <!-- turns 9999999999999999999 -->",
    ],
)
def test_a_line_whose_day_is_not_known_stays_as_it_is(line) -> None:
    assert shown(line) == "- lives in Bergen"


@pytest.mark.parametrize(
    "line",
    [
        "- moved to Bergen on 12 February 2026",
        "- moved to Bergen in February 2026",
        "- moved to Bergen on 2026-02-12",
    ],
)
def test_a_line_that_names_its_month_is_not_dated_twice(line) -> None:
    assert shown(f"{line} <!-- turns 2 -->") == line


def test_below_a_heading_with_the_day_lines_need_none() -> None:
    page = "# 2026-02-12, evening\n\nThey met. <!-- turns 2 -->\n\n## Highlights\n\n- tea"
    assert shown(page) == readable_text(page)
    other = f"{page} <!-- turns 4 -->"
    assert shown(other).endswith("- tea (March 2026)")


def test_private_turns_of_others_give_no_day() -> None:
    page = "- a <!-- turns 1, 2 -->\n- b <!-- turns 2 -->"
    assert shown(page, hidden=frozenset({2})) == "- a (November 2025)\n- b"


def test_the_days_of_a_page_are_looked_up_once() -> None:
    asked = Asked()
    finds = []
    numbering = Numbering(
        "own",
        "own",
        lambda instance, ids: finds.append(instance) or {n: n for n in ids},
        days=asked,
    )
    lines = "".join(f"- line {n} <!-- turns desk:{n}; 3 -->\n" for n in range(1, 60))
    days_shown(lines, numbering, EVERYBODY, ENGLISH)
    assert (asked.times, finds) == (1, ["desk"])


def test_a_part_of_a_page_has_the_days_of_the_whole_page() -> None:
    page = "- lives in Oslo <!-- turns 2 -->\n- lives in Bergen <!-- turns 3 --> and likes it\n"
    days = days_shown(page, Numbering(days=Asked()), EVERYBODY, ENGLISH)
    start = page.index("- lives in Bergen")
    part = shown_between(page, start, len(page), machine_spans(page), days)
    assert part == "- lives in Bergen (20 February 2026) and likes it"
    whole = shown_between(page, 0, len(page), machine_spans(page), days)
    assert whole == shown(page)


def test_code_is_left_alone() -> None:
    page = "```\n- a <!-- turns 2 -->\n```"
    assert with_days(page, Numbering(days=Asked()), EVERYBODY, ENGLISH) == page


@pytest.mark.parametrize("code", CODES)
def test_every_language_writes_months(code) -> None:
    table = phrases(code)
    month = table.month(DAYS[2])
    assert "2026" in month
    assert table.months[1] in month
    line = f"- x {month} y <!-- turns 2 -->"
    assert shown(line, table=table) == f"- x {month} y"
    assert shown("- x <!-- turns 2 -->", table=table) == f"- x ({month})"


@pytest.mark.parametrize("code", CODES)
def test_a_dated_line_says_the_same_as_before(code) -> None:
    table = phrases(code)
    for n in range(12):
        day = date(2026, 1, 15) + timedelta(days=30 * n)
        for form in (table.month(day), table.day(day)):
            assert normal_line(f"- likes tea ({form})") == normal_line("- likes tea")


OSLO = "- Lives in Oslo. <!-- turns 1-2 -->\n"
ENDED = with_end(OSLO, DAYS[4], ENGLISH)


def test_a_line_that_ended_says_so_to_people_and_to_the_program() -> None:
    assert ENDED == (
        "- Lives in Oslo. (until March 2026) <!-- turns 1-2 --> <!-- ended 2026-03-01 -->\n"
    )
    assert ended_on(ENDED) == "2026-03-01"
    assert turn_ids(ENDED, PLAIN) == (1, 2)
    assert shown(ENDED) == "- Lives in Oslo. (until March 2026)"


def test_a_line_that_ended_may_be_said_again() -> None:
    assert normal_line(ENDED) != normal_line(OSLO)


def test_lines_that_ended_are_found_and_left_out_but_not_in_code() -> None:
    page = f"# Anna\n\n- a\n{ENDED}- b\n```\n{ENDED}```\n"
    assert without_ended(page) == f"# Anna\n\n- a\n- b\n```\n{ENDED}```\n"
    assert [page[slice(*span)] for span in ended_spans(page)] == [ENDED]


@pytest.mark.parametrize(
    "question",
    [
        "Where did I live before?",
        "where did I use to live, previously?",
        "Wo habe ich früher gewohnt?",
        "Où est-ce que j'habitais avant ?",
        "¿Dónde vivía antes?",
        "以前どこに住んでいた？",
        "我以前住在哪里？",
        "أين كنت أسكن من قبل؟",
    ],
)
def test_questions_about_the_past_are_known_in_every_language(question) -> None:
    assert asks_for_past(question)


@pytest.mark.parametrize(
    "question",
    ["", "Where do I live?", "Was mag ich?", "What was the name of my cat?", "どこに住んでる？"],
)
def test_other_questions_are_not_about_the_past(question) -> None:
    assert not asks_for_past(question)
