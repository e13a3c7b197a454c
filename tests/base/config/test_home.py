"""Where the familiars live, and which one is meant."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from familiar_cli.base import files
from familiar_cli.base.config import home as homes
from familiar_cli.base.errors import FamiliarError, NotFoundError, RefusedError, UsageError
from tests.support.cases import each

if TYPE_CHECKING:
    from collections.abc import Iterator


def live_in(home: Path, *names: str) -> None:
    for name in names:
        (home / name / "memory").mkdir(parents=True)


def test_what_is_given_comes_before_the_environment(tmp_path) -> None:
    assert homes.home_and_reason(str(tmp_path)) == (tmp_path, "--home")


def test_the_environment_comes_before_the_nearest_data_directory(tmp_path, monkeypatch) -> None:
    (tmp_path / "data" / "familiars").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert homes.home_and_reason()[1] == "FAMILIAR_HOME"


def test_the_nearest_data_directory_upwards_is_found(tmp_path, monkeypatch) -> None:
    (tmp_path / "data" / "familiars").mkdir(parents=True)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    monkeypatch.delenv("FAMILIAR_HOME")
    found, reason = homes.home_and_reason()
    assert (found, reason) == (tmp_path / "data" / "familiars", "the nearest data/familiars")


def test_without_any_the_users_data_directory_is_meant(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FAMILIAR_HOME")
    assert homes.home_and_reason()[1] == "the user's data directory"


def test_a_tilde_in_the_environment_is_the_users_directory(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("FAMILIAR_HOME", "~/mine")
    assert homes.find_home() == tmp_path / "mine"


def test_the_only_familiar_is_meant(tmp_path) -> None:
    live_in(tmp_path, "ada")
    paths, reason = homes.familiar_and_reason(tmp_path)
    assert (paths.id, reason) == ("ada", "the only familiar")


def test_the_chosen_one_of_several_is_meant(tmp_path) -> None:
    live_in(tmp_path, "ada", "bo")
    homes.choose_familiar(tmp_path, "bo")
    assert homes.familiar_and_reason(tmp_path)[1] == "familiar use"
    assert homes.find_familiar(tmp_path).id == "bo"


def test_the_environment_comes_before_the_choice_and_what_is_given_before_both(
    tmp_path, monkeypatch
) -> None:
    live_in(tmp_path, "ada", "bo", "cy")
    homes.choose_familiar(tmp_path, "bo")
    monkeypatch.setenv("FAMILIAR_ID", "ada")
    assert homes.find_familiar(tmp_path).id == "ada"
    assert homes.find_familiar(tmp_path, "cy").id == "cy"


def test_several_without_a_choice_are_listed(tmp_path) -> None:
    live_in(tmp_path, "ada", "bo")
    with pytest.raises(UsageError, match="ada, bo") as caught:
        homes.find_familiar(tmp_path)
    assert "familiar use ada" in caught.value.hint


def test_a_choice_that_is_gone_is_no_choice(tmp_path) -> None:
    live_in(tmp_path, "ada")
    (tmp_path / homes.CHOSEN_FILE).write_text("gone\n", encoding="utf-8")
    assert homes.find_familiar(tmp_path).id == "ada"


def test_choosing_a_stranger_leaves_the_choice_as_it_was(tmp_path) -> None:
    live_in(tmp_path, "ada", "bo")
    homes.choose_familiar(tmp_path, "bo")
    with pytest.raises(NotFoundError, match="ada, bo"):
        homes.choose_familiar(tmp_path, "cy")
    assert homes.chosen_familiar(tmp_path) == "bo"


@each("name", ["../ada", "ada/../ada", "/ada", ".", "..", "ada/memory"])
def test_a_path_is_never_a_familiar(tmp_path, name) -> None:
    live_in(tmp_path, "ada")
    with pytest.raises((NotFoundError, UsageError)):
        homes.find_familiar(tmp_path, name)


def test_other_directories_and_hidden_ones_are_no_familiars(tmp_path) -> None:
    live_in(tmp_path, "ada", ".hidden")
    (tmp_path / "other").mkdir()
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert homes.list_familiars(tmp_path) == ["ada"]


def test_a_home_that_is_not_there_has_none(tmp_path) -> None:
    with pytest.raises(NotFoundError, match="There are no familiars in"):
        homes.find_familiar(tmp_path / "none")


def test_a_choice_that_cannot_be_written_down_is_an_error_and_no_traceback(tmp_path) -> None:
    live_in(tmp_path, "ada")
    (tmp_path / homes.CHOSEN_FILE).mkdir()
    with pytest.raises(FamiliarError, match="cannot be written to"):
        homes.choose_familiar(tmp_path, "ada")
    assert sorted(path.name for path in tmp_path.iterdir()) == [homes.CHOSEN_FILE, "ada"]


def test_a_move_that_is_completed_while_it_is_looked_at_stays(tmp_path, monkeypatch) -> None:
    paths = homes.FamiliarPaths(tmp_path)
    paths.moved.write_text("elsewhere\nnot finished\n")

    @contextmanager
    def lock_once_it_is_complete(*_) -> Iterator[None]:
        paths.moved.write_text("elsewhere\n")
        yield

    monkeypatch.setattr(files, "locked", lock_once_it_is_complete)
    with pytest.raises(RefusedError, match="elsewhere"):
        homes.check_here(paths)
    assert paths.moved.exists()


def test_a_name_that_is_no_id_leads_to_the_id(tmp_path) -> None:
    live_in(tmp_path, "old-mother-hubbard")
    with pytest.raises(NotFoundError) as caught:
        homes.choose_familiar(tmp_path, "Old Mother Hubbard")
    assert caught.value.hint == "Did you mean 'old-mother-hubbard'?"
