"""The example cards are what the script makes, and there is nothing wrong with them."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from familiar_cli.imports.card_check import check_card
from familiar_cli.imports.reading import read_card
from familiar_cli.llm.tokens import heuristic
from tests.support.cases import each

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "cards"
DEMO = ROOT / "familiar_cli" / "imports" / "demo" / "yuzu.png"
FILES = sorted(path.name for path in EXAMPLES.iterdir())


def read(path):
    return read_card(path.read_bytes(), origin=path.name)


@pytest.fixture
def made(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    return importlib.import_module("make_examples").cards()


def test_the_script_makes_the_files_that_are_there(made) -> None:
    assert sorted(made) == FILES
    for name, content in made.items():
        card, there = read_card(content, origin=name), read(EXAMPLES / name)
        assert (card.raw, card.members) == (there.raw, there.members)


@each("name", FILES)
def test_nothing_is_wrong_with_an_example(name) -> None:
    assert check_card(read(EXAMPLES / name), heuristic()) == []


@each("name", FILES)
def test_an_example_is_small(name) -> None:
    assert (EXAMPLES / name).stat().st_size < 60_000


def test_the_demo_has_the_same_card() -> None:
    assert DEMO.read_bytes() == (EXAMPLES / "yuzu.png").read_bytes()


def test_the_examples_show_every_shape_and_container() -> None:
    shapes = {(card.container, card.spec) for card in (read(EXAMPLES / name) for name in FILES)}
    assert shapes == {
        ("png", "v3"),
        ("png", "v2"),
        ("charx", "v3"),
        ("json", "v1"),
        ("yaml", "textgen"),
    }
