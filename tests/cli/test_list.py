"""`familiar list`, from argv to stdout, stderr and exit code."""

from __future__ import annotations

from familiar_cli.store.history.store import HistoryStore
from tests.support.world import data, home, live, run


def test_familiars_are_listed_with_their_numbers_and_the_chosen_one_is_marked() -> None:
    root = live("ada", notes="x", more="y")
    live("bo")
    store = HistoryStore(root / "history.db")
    store.append("cli", "user", "hi")
    store.close()
    run("use", "ada")
    assert [line.split() for line in run("list").stdout.splitlines()] == [
        ["id", "name", "turns", "files"],
        ["*", "ada", "1", "2"],
        ["bo", "0", "0"],
    ]


def test_the_data_has_a_row_for_each() -> None:
    live("ada", notes="x")
    found = data("list")
    assert found["home"] == str(home())
    assert found["familiars"] == [
        {"id": "ada", "name": "", "turns": 0, "memory_files": 1, "chosen": False, "problem": ""}
    ]


def test_an_empty_home_says_so_and_how_to_make_one() -> None:
    result = run("list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "There are no familiars in" in result.stderr
    assert "familiar init" in result.stderr


def test_a_broken_familiar_hides_no_other() -> None:
    live("ada")
    root = live("bo")
    (root / "character.toml").write_text("nmae = 1\n", encoding="utf-8")
    (live("cy") / "history.db").write_bytes(b"this is no database, but long enough to be read")
    result = run("list")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["id", "ada", "bo", "cy"]
    assert "warning: bo: " in result.stderr
    assert "warning: cy: " in result.stderr


def test_listing_changes_nothing() -> None:
    root = live("ada")
    run("list")
    assert sorted(path.name for path in root.iterdir()) == ["memory"]


def test_a_home_that_is_a_file_is_an_error(tmp_path) -> None:
    (tmp_path / "home").touch()
    result = run("list", "--home", str(tmp_path / "home"))
    assert (result.exit_code, "Not a directory" in result.stderr) == (3, True)
