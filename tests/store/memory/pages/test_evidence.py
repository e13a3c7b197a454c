from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.store.memory.pages.lines import (
    PLAIN,
    Numbering,
    TurnRange,
    citation_comment,
    citations_in,
    last_turn,
    turn_ids,
    without_references,
)

IDS = st.sets(st.integers(1, 10**12), max_size=20)
INSTANCES = st.from_regex(r"[a-z0-9]{1,6}(-[a-z0-9]{1,4}){0,3}", fullmatch=True)
TURNS = st.sets(
    st.tuples(st.sampled_from(["", "laptop-7f3a", "desk-9c2d"]) | INSTANCES, st.integers(1, 40)),
    max_size=30,
)
# On this machine turn 3 of the desk is turn 41, and so on.
AT_DESK = {number: number + 38 for number in range(3, 10)}
BOTH = Numbering(
    "laptop-7f3a",
    "laptop-7f3a",
    lambda instance, ids: {n: AT_DESK[n] for n in ids if instance == "desk-9c2d" and n in AT_DESK},
    lambda ids: {n: ("desk-9c2d", n - 38) for n in ids if n > 40},
)
BEGAN_ELSEWHERE = Numbering("desk-9c2d", "laptop-7f3a", lambda _, ids: {n: n + 100 for n in ids})


def as_cited(turns):
    return [TurnRange(instance, number, number) for instance, number in turns]


def as_turns(citations):
    return {(one.instance, number) for one in citations for number in one.ids}


@given(ids=IDS)
def test_what_is_written_is_read_again(ids) -> None:
    assert turn_ids(f"- a line {citation_comment(ids)}", PLAIN) == tuple(sorted(ids))


@given(turns=TURNS)
def test_turns_of_several_instances_are_read_as_they_were_written(turns) -> None:
    line = f"- a line {citation_comment(as_cited(turns))}"
    assert as_turns(citations_in(line)) == turns
    assert citation_comment(citations_in(line)) == citation_comment(as_cited(turns))
    assert without_references(line).rstrip() == "- a line"


@given(ids=st.sets(st.integers(1, 47), min_size=1, max_size=20))
def test_a_local_turn_is_found_again_by_what_cites_it(ids) -> None:
    assert turn_ids(citation_comment(BOTH.cite(ids)), BOTH) == tuple(sorted(ids))


@given(ids=IDS, text=st.text(st.characters(exclude_characters="<"), max_size=30))
def test_a_reader_sees_the_words_alone(ids, text) -> None:
    line = f"{text} {citation_comment(ids)}" if ids else text
    assert without_references(line).rstrip() == text.rstrip()


def test_neighbours_are_written_as_a_range() -> None:
    assert citation_comment([3, 1, 2, 7]) == "<!-- turns 1-3, 7 -->"
    assert citation_comment([]) == ""


def test_an_instance_stands_once_for_all_its_turns() -> None:
    assert citation_comment(BOTH.cite([12, 13, 41, 14, 20])) == (
        "<!-- turns desk-9c2d:3; laptop-7f3a:12-14, 20 -->"
    )


def test_a_person_may_write_commas_alone() -> None:
    line = "<!-- turn laptop-7f3a:12, 20, desk-9c2d:3-4 -->"
    assert as_turns(citations_in(line)) == {
        ("laptop-7f3a", 12),
        ("laptop-7f3a", 20),
        ("desk-9c2d", 3),
        ("desk-9c2d", 4),
    }


def test_a_number_alone_is_of_the_instance_that_the_familiar_began_on() -> None:
    line = "- a <!-- turns 12 -->"
    assert turn_ids(line, BOTH) == (12,)
    assert turn_ids(line, BEGAN_ELSEWHERE) == (112,)


def test_a_turn_that_is_not_held_here_is_no_local_one() -> None:
    line = "- a <!-- turns 2; desk-9c2d:3, 1; server-1:2 -->"
    assert turn_ids(line, BOTH) == (2, 41)
    assert not BOTH.holds(line)
    assert last_turn("- a <!-- turns server-1:900 -->", BOTH) is None


def test_a_familiar_without_an_id_takes_no_qualified_turn_for_its_own() -> None:
    assert turn_ids("- a <!-- turns 2; laptop-7f3a:3 -->", PLAIN) == (2,)


def test_what_is_not_held_here_stays_when_other_turns_go() -> None:
    line = "<!-- turns 2; desk-9c2d:1-4; server-1:2-99999999 -->"
    left = citation_comment(BOTH.without(citations_in(line), {2, 41}))
    assert left == "<!-- turns desk-9c2d:1-2, 4; server-1:2-99999999 -->"


@given(
    ids=st.sets(st.integers(1, 47), min_size=1, max_size=20),
    originals=st.dictionaries(st.integers(24, 47), st.integers(1, 23)),
)
def test_a_line_cites_the_turns_that_stay_in_place_of_their_doubles(ids, originals) -> None:
    line = f"- a line {citation_comment([*BOTH.cite(ids), TurnRange('server-1', 5, 6)])}\n"
    left = BOTH.cite_originals(line, originals)
    assert turn_ids(left, BOTH) == tuple(sorted({originals.get(n, n) for n in ids}))
    assert TurnRange("server-1", 5, 6) in citations_in(left)
    assert (left == line) == originals.keys().isdisjoint(ids)


def test_it_can_be_searched_for_with_grep() -> None:
    line = citation_comment(BOTH.cite([12, 13]))
    assert re.search(r"turns .*laptop-7f3a:12", line)


def test_a_slip_of_the_pen_does_not_fill_the_machine() -> None:
    assert len(turn_ids("<!-- turns 1-999999999999 -->", PLAIN)) < 20_000


def test_a_comment_that_ends_badly_is_read_in_no_time() -> None:
    hostile = "<!-- turns " + "1-2-3:4-" * 5_000 + "x -->"
    assert citations_in(hostile) == []
    assert without_references(hostile) == hostile


def test_the_newest_turn_is_told_without_counting_them() -> None:
    assert last_turn("- a <!-- turns 9, 12-13, 4 --> <!-- turns 2 -->") == 13
    assert last_turn("<!-- turns 1-999999999999 -->") == 999_999_999_999
    assert last_turn("- a") is None
