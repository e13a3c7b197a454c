"""Every wrong shape seen in the wild is read with a warning, or refused with one clear error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from familiar_cli.base.errors import BadInputError
from familiar_cli.imports.import_lorebook import import_lorebook
from familiar_cli.imports.reading import load_book
from tests.support.cases import each

CORPUS = Path(__file__).with_name("corpus")
VERDICTS = json.loads((CORPUS / "verdicts.json").read_text(encoding="utf-8"))
READ = sorted(name for name, verdict in VERDICTS.items() if "refused" not in verdict)
REFUSED = sorted(name for name, verdict in VERDICTS.items() if "refused" in verdict)


def load(name):
    return load_book((CORPUS / name).read_bytes(), origin=name)


def test_every_file_of_the_corpus_has_a_verdict() -> None:
    assert {path.name for path in CORPUS.iterdir()} == {*VERDICTS, "verdicts.json"}


@each("name", READ)
def test_read(name) -> None:
    book, verdict = load(name), VERDICTS[name]

    assert book.shape == verdict["shape"]
    assert [[entry.title, list(entry.keys)] for entry in book.entries] == verdict["entries"]
    assert [entry.title for entry in book.entries if not entry.enabled] == verdict["disabled"]


@each("name", READ)
def test_read_with_just_these_warnings(name) -> None:
    found, expected = sorted(load(name).warnings), sorted(VERDICTS[name]["warnings"])

    assert len(found) == len(expected), found
    for warning in expected:
        assert any(warning in line for line in found), (warning, found)


@pytest.mark.parametrize("name", READ)
def test_what_was_read_can_be_imported_twice(name, store) -> None:
    first = import_lorebook(store, load(name))
    again = import_lorebook(store, load(name))

    assert len(first.written) == len(VERDICTS[name]["entries"]) or not VERDICTS[name]["entries"]
    assert again.written == ()


@each("name", REFUSED)
def test_refused(name) -> None:
    with pytest.raises(BadInputError, match=VERDICTS[name]["refused"]) as refused:
        load(name)
    assert name in str(refused.value)
