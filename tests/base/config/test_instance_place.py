"""A familiar's directory knows whether it was copied."""

from __future__ import annotations

import shutil

import pytest

from familiar_cli.base.config.home import PLACE, is_copy


@pytest.fixture
def root(tmp_path):
    made = tmp_path / "ada"
    made.mkdir()
    (made / "instance.id").write_text('id = "desk-11aa"\n')
    assert not is_copy(made)
    return made


def test_a_directory_that_was_renamed_is_no_copy(root) -> None:
    assert not is_copy(root.rename(root.with_name("eve")))


def test_a_copy_is_one(root) -> None:
    assert is_copy(shutil.copytree(root, root.with_name("eve")))


@pytest.mark.parametrize("left", ["", "12", "\xff"])
def test_a_note_that_a_power_cut_left_incomplete_is_written_again(root, left) -> None:
    whole = (root / PLACE).read_bytes()
    (root / PLACE).write_bytes(left.encode("latin-1"))
    assert not is_copy(root)
    assert (root / PLACE).read_bytes() == whole
