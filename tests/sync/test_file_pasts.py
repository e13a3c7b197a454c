"""Vector clocks: four answers, and never the wrong one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from familiar_cli.sync.journal_past import compare_versions

NAMES = st.sampled_from("abc")
CLOCKS = st.dictionaries(NAMES, st.integers(0, 3))
OPPOSITE = {"equal": "equal", "before": "after", "after": "before", "concurrent": "concurrent"}


def ticked(clock, name):
    """Return the clock of a version that `name` made of one with `clock`."""
    return {**clock, name: clock.get(name, 0) + 1}


def joined(one, other):
    """Return the clock of a version that holds both."""
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {*one, *other}}


@given(CLOCKS, CLOCKS)
def test_either_side_sees_the_same_order(one, other) -> None:
    assert compare_versions(other, one) == OPPOSITE[compare_versions(one, other)]


@given(CLOCKS, CLOCKS)
def test_equal_means_the_same_counts(one, other) -> None:
    same = all(one.get(name, 0) == other.get(name, 0) for name in "abc")
    assert (compare_versions(one, other) == "equal") == same


@given(CLOCKS, NAMES)
def test_a_version_is_after_the_one_it_was_made_of(clock, name) -> None:
    assert compare_versions(ticked(clock, name), clock) == "after"


@given(CLOCKS)
def test_two_versions_made_of_one_at_once_are_concurrent(clock) -> None:
    assert compare_versions(ticked(clock, "a"), ticked(clock, "b")) == "concurrent"


@given(CLOCKS, CLOCKS)
def test_what_joins_two_is_before_neither(one, other) -> None:
    both = joined(one, other)
    assert {compare_versions(both, one), compare_versions(both, other)} <= {"equal", "after"}
    assert compare_versions(joined(other, one), both) == "equal"


@given(CLOCKS, CLOCKS, CLOCKS)
def test_before_is_transitive(one, two, three) -> None:
    if compare_versions(one, two) == compare_versions(two, three) == "before":
        assert compare_versions(one, three) == "before"
