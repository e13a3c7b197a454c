"""An SQLite file that is made from the memory comes back, whatever stands in its place."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.support.world import data, home, live, run

INDEX = "embeddings.sqlite"
NAMES = "aliases.sqlite"


def zeroed(path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def truncated(path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def of_somebody_else(path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE bookmarks (url TEXT)")


def with_other_columns(path) -> None:
    """Keep the version and the names of the tables."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        kept = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"
        for (name,) in database.execute(kept).fetchall():
            if not name.startswith(("sqlite_", "fts", "meta")) and "fts" not in name:
                database.execute(f'DROP TABLE "{name}"')
                database.execute(f'CREATE TABLE "{name}" (other BLOB)')


def of_a_later_version(path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA user_version = 999")
        if path.name == INDEX:
            database.execute("UPDATE meta SET value = '999' WHERE key = 'schema'")


HARMS = [zeroed, truncated, of_somebody_else, with_other_columns, of_a_later_version]


@pytest.fixture
def derived():
    live("ada")
    assert run("memory", "write", "people/cli-me.md", "# Anna Bell\n\nDrinks tea.\n").exit_code == 0
    assert run("index", "build").exit_code == 0
    assert run("people", "ls").exit_code == 0
    return home() / "ada" / "memory" / ".index"


@pytest.mark.parametrize("harm", HARMS, ids=lambda h: h.__name__)
def test_the_index_of_passages_is_made_again(derived, harm) -> None:
    (derived / f"{INDEX}-wal").unlink(missing_ok=True)
    harm(derived / INDEX)
    assert run("index", "status").exit_code in {0, 7}
    (hit,) = data("search", "tea")["hits"]
    assert hit["rel_path"] == "people/cli-me.md"


@pytest.mark.parametrize("harm", HARMS, ids=lambda h: h.__name__)
def test_the_index_of_names_is_made_again_in_two_tries(derived, harm) -> None:
    harm(derived / NAMES)
    run("people", "show", "Anna Bell")
    assert data("people", "show", "Anna Bell")["slug"] == "cli-me"
