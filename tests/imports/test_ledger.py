"""Ledgers: both kinds as earlier versions wrote them, and what a damaged one does."""

from __future__ import annotations

import hashlib
import json

import pytest

from familiar_cli.base.errors import BadInputError
from familiar_cli.imports import import_plan, lorebook_shelf
from familiar_cli.imports.folders import dump_folder_ledger, load_folder_ledger
from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.imported import originals

SHA256 = hashlib.sha256(b"# Ember\n").hexdigest()
FOLDER = f"""{{
 "version": 1,
 "files": {{
  "caf\\udce9.md": {{
   "sha256": "{SHA256}",
   "wrote": {{
    "self/description.md": "{SHA256}"
   }},
   "original": "self/description.md"
  }}
 }}
}}
"""
BOOKS = (
    '{"familiar_lorebook": 1,\n'
    '"books": {\n"b1": {"name": "Glass", "shape": "worldinfo", "source": "World Info", '
    '"digest": "d", "frame": {"x": 1}, "outer": {}, "unreadable": [3]}},\n'
    '"entries": {\n"e1": {"book": "b1", "shape": "worldinfo", "place": 0, "slot": "0", '
    f'"path": "lore/citadel.md", "sha256": "{SHA256}", '
    '"raw": {"key": ["citadel"], "content": "\\u00c9mail \\ud83d"}}}}\n'
)


@pytest.fixture
def store(tmp_path) -> MemoryStore:
    return MemoryStore(tmp_path / "memory")


def test_a_folders_ledger_reads_and_writes_as_before(store) -> None:
    store.write_file(".imported/.ledger.json", FOLDER)
    store.write_file("self/description.md", "# Ember\n")

    found = load_folder_ledger(store, ".imported/.ledger.json")

    assert dump_folder_ledger(found) == FOLDER
    assert originals(store, ".imported/.ledger.json") == {"caf\udce9.md": b"# Ember\n"}


def test_the_settings_of_books_read_and_write_as_before(store) -> None:
    store.write_file("lore/.lorebook.json", BOOKS)

    found = lorebook_shelf.load_settings(store, "lore")

    assert lorebook_shelf.dump_settings(found) == BOOKS
    assert found.entry("e1").content == "Émail \ud83d"


@pytest.mark.parametrize(
    "damage", ["{", "[]", "{}", '{"a": NaN}', '{"a": 1e999}', "[" * 100_000, '"\\"']
)
def test_a_damaged_ledger_is_one_clear_error(store, damage) -> None:
    store.write_file("x.json", damage)

    with pytest.raises(BadInputError, match=r"^'x.json', which keeps it, is damaged: .+; nothing"):
        import_plan.load_ledger(
            store, "x.json", lambda value: value["files"]["x"], keeps="it", hint=""
        )


def test_there_may_be_none(store) -> None:
    assert import_plan.load_ledger(store, "x.json", json.dumps, keeps="it", hint="") is None


def test_a_long_list_of_paths_is_cut_short() -> None:
    paths = [f"{n:02}.md" for n in range(15)]

    assert import_plan.list_paths(reversed(paths[:12])) == ", ".join(paths[:12])
    assert import_plan.list_paths(paths) == ", ".join(paths[:12]) + " and 3 more"
