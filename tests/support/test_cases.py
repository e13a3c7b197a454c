"""The decorator that runs many cases as one test."""

import pytest

from tests.support.cases import each
from tests.support.world import home


def test_each_case_is_run_and_all_that_fail_are_named():
    met = []

    @each("number", [1, 2, 3, 4])
    def is_odd(number):
        met.append(number)
        assert number % 2

    with pytest.raises(BaseExceptionGroup) as failed:
        is_odd()
    notes = [problem.__notes__ for problem in failed.value.exceptions]
    assert (met, notes) == ([1, 2, 3, 4], [["in the case (2,)"], ["in the case (4,)"]])


def test_a_single_failure_is_raised_as_it_is():
    @each("left, right", [(1, 1), (1, 2)])
    def are_equal(left, right):
        assert left == right

    with pytest.raises(AssertionError):
        are_equal()


def test_two_lists_are_crossed_and_other_names_are_fixtures():
    met = []

    @each("one", "ab")
    @each("two", "xy", ids=str.upper)
    def meets(one, two, home):
        met.append(one + two + home)

    meets(home="!")
    assert met == ["ax!", "ay!", "bx!", "by!"]


class Board:
    """Something that a case changes."""


@each("name", ["first", "second"])
def test_each_case_has_a_home_a_directory_and_patches_of_its_own(name, tmp_path, monkeypatch):
    assert (list(tmp_path.iterdir()), hasattr(Board, "name")) == ([], False)
    assert not home().exists()
    home().mkdir()
    (tmp_path / name).touch()
    monkeypatch.setattr(Board, "name", name, raising=False)
