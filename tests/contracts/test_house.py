"""The package's shape: who imports whom, and what names mean."""

import re
from pathlib import PurePosixPath

import pytest

from tools import house, mutants

ROOT = house.Path(house.__file__).parent.parent


@pytest.fixture(scope="module")
def package() -> house.House:
    return house.measure(house.read_working_tree(ROOT))


def test_no_modules_import_each_other_even_for_types_only(package):
    assert package.circles == []


def test_a_class_name_means_one_thing(package):
    assert {name: paths for name, paths in package.classes.items() if len(paths) > 1} == {}


def test_a_helpers_name_says_what_it_does():
    vague = re.compile(r"def _(told|said|named|look|what)\(")
    texts = house.read_working_tree(ROOT).items()
    assert [(str(path), found[0]) for path, text in texts for found in vague.finditer(text)] == []


def test_each_fault_that_tests_should_notice_can_be_made():
    package = ROOT / "familiar_cli"
    assert [m.title for m in mutants.MUTANTS if not mutants.find_file(package, m.right)] == []


def test_docstrings_comments_and_blank_lines_are_not_counted():
    text = '"""Doc."""\n\n# Why.\nx = 1\n\n\ndef f():\n    """Doc.\n\n    More."""\n    return x\n'
    counted = house.measure({PurePosixPath("familiar_cli/room/one.py"): text})
    assert (counted.lines, counted.files) == ({"room": 3}, {"room": 1})


def test_a_circle_is_found_through_a_type_import_and_a_third_module():
    names = {"one": "two", "two": "three", "three": "one", "apart": "one"}
    sources = {
        PurePosixPath(f"familiar_cli/room/{name}.py"): f"from familiar_cli.room import {wanted}\n"
        for name, wanted in names.items()
    }
    assert [len(circle) for circle in house.measure(sources).circles] == [3]
