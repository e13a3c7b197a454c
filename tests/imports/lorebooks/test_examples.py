"""The example lorebooks go through the memory and come back as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from familiar_cli import imports
from familiar_cli.imports.import_lorebook import import_lorebook
from familiar_cli.imports.reading import load_book
from tests.support.lorebooks import exported

ROOT = Path(__file__).resolve().parents[3]
DEMO = Path(imports.__file__).parent / "demo" / "lost-property.json"
EXAMPLES = [*sorted((ROOT / "examples" / "lorebooks").glob("*.json")), DEMO]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_comes_back_as_it_was(store, path) -> None:
    book = load_book(path.read_bytes(), origin=path.name)
    done = import_lorebook(store, book)
    book_format = "worldinfo" if book.shape == "worldinfo" else "v3"

    assert exported(store, book_format) == json.loads(path.read_text(encoding="utf-8"))
    assert done.warnings == ()


def test_there_are_examples() -> None:
    assert {path.name for path in EXAMPLES} >= {"kazahaya-valley.json", "nine-bells.json"}
