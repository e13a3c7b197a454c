"""`familiar export-lorebook`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from familiar_cli.base.config.home import find_home
from familiar_cli.base.text import well_formed
from familiar_cli.cli.app import app
from familiar_cli.store.memory.store.store import MemoryStore
from tests.support.lorebooks import book_entry, bring, lore, world

BOOK = world(
    lore("城", "half \ud83d, 日本", ["/a,b/i"], keysecondary=[], order=3, position=4, disable=True)
)


@pytest.fixture
def store():
    memory = find_home() / "mira" / "memory"
    memory.mkdir(parents=True)
    return MemoryStore(memory)


def run(*argv):
    return CliRunner().invoke(app, ["export-lorebook", *map(str, argv)])


def test_world_info_comes_out_as_it_went_in(store) -> None:
    bring(store, BOOK)
    result = run()

    assert (result.exit_code, json.loads(result.stdout)) == (0, BOOK)
    assert "日本" in result.stdout


def test_v3_is_a_standalone_lorebook(store) -> None:
    bring(store, BOOK)
    answer = json.loads(run("--format", "v3").stdout)

    assert answer["spec"] == "lorebook_v3"
    (entry,) = answer["data"]["entries"]
    assert (entry["keys"], entry["enabled"], entry["extensions"]["position"]) == (
        ["/a,b/i"],
        False,
        4,
    )


def test_the_format_is_the_one_that_was_imported(store) -> None:
    bring(store, {"entries": [book_entry("A")]})

    assert [entry["name"] for entry in json.loads(run().stdout)["entries"]] == ["A"]


def test_out_writes_a_file_and_never_over_another(store, tmp_path) -> None:
    bring(store, BOOK)
    target = tmp_path / "out.json"

    assert run("--out", target).exit_code == 0
    assert json.loads(target.read_text(encoding="utf-8")) == BOOK
    again = run("--out", target)
    assert (again.exit_code, again.stdout) == (5, "")
    assert run("--out", target, "--force").exit_code == 0


def test_out_in_a_directory_that_is_not_there_exits_1(store, tmp_path) -> None:
    bring(store, BOOK)

    assert run("--out", tmp_path / "no" / "x.json").exit_code == 1


def test_json_carries_the_lorebook_in_the_envelope(store) -> None:
    bring(store, BOOK)
    answer = json.loads(run("--json").stdout)

    whole = json.loads(well_formed(json.dumps(BOOK, ensure_ascii=False)))
    assert answer["data"]["lorebook"] == whole  # but for half a character, which only a file holds
    assert (answer["data"]["format"], answer["data"]["entries"]) == ("worldinfo", 1)


def test_what_a_person_did_is_told_on_stderr(store) -> None:
    bring(store, world(lore("A"), lore("B")))
    store.delete_file("lore/imported/a.md")
    store.write_file("lore/imported/c.md", "# C\n\ntext\n")
    result = run()

    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "warning: lore/imported/a.md: its file no longer exists, so the entry is left out",
        "warning: lore/imported/c.md: created by hand, exported with default settings",
    ]


def test_no_lore_exits_4_and_says_how_to_get_some(store) -> None:
    result = run()

    assert (result.exit_code, result.stdout) == (4, "")
    assert "familiar import-lorebook" in result.stderr


def test_without_a_familiar_it_exits_4() -> None:
    assert run().exit_code == 4


def test_a_directory_outside_the_memory_exits_5(store) -> None:
    assert run("--from", "../x").exit_code == 5


def test_an_unknown_format_is_a_usage_error(store) -> None:
    assert run("--format", "v9").exit_code == 2


def test_damaged_settings_exit_5(store) -> None:
    bring(store, BOOK)
    (store.root / "lore/imported/.lorebook.json").write_text("[]", encoding="utf-8")

    assert run().exit_code == 5


def test_of_several_books_one_is_named(store) -> None:
    north, south = world(lore("Castle", "North.")), world(lore("Castle", "South."))
    bring(store, north, origin="north.json", into=None)
    bring(store, south, origin="south.json", into=None)

    unsure = run()
    assert (unsure.exit_code, unsure.stdout) == (2, "")
    assert "'north' (lore/imported/north), 'south' (lore/imported/south)" in unsure.stderr
    assert "`--book NAME`" in unsure.stderr
    assert [text for text in ("North.", "South.") if text in run("--book", "South").stdout] == [
        "South."
    ]
    (alone,) = json.loads(run("--from", "lore/imported/north").stdout)["entries"].values()
    assert alone["content"] == "North."
    unknown = run("--book", "west")
    assert (unknown.exit_code, unknown.stdout) == (4, "")
    assert "'north', 'south'" in unknown.stderr
