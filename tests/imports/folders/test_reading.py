"""What is read of a folder from outside, and what is not."""

from __future__ import annotations

import os
import sys

import pytest

from familiar_cli.base.errors import BadInputError, LimitError, NotFoundError
from familiar_cli.imports import folders
from familiar_cli.imports.folders import read_folder


def test_every_file_comes_with_its_bytes(tmp_path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c.md").write_bytes(b"\xff\x00\r\n")
    assert read_folder(tmp_path).files == {"a/b/c.md": b"\xff\x00\r\n"}


@pytest.mark.skipif(sys.platform == "win32", reason="links need a right there")
@pytest.mark.parametrize("target", ["/etc", "/etc/hostname", ".", "nowhere"])
def test_a_link_is_named_and_not_followed(tmp_path, target) -> None:
    (tmp_path / "link").symlink_to(target)
    found = read_folder(tmp_path)
    assert found.files == {}
    assert [(one.file, "link" in one.reason) for one in found.left_out] == [("link", True)]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names there")
def test_a_pipe_does_not_stop_the_import(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a.md").write_text("x")
    found = read_folder(tmp_path)
    assert list(found.files) == ["a.md"]
    assert found.left_out[0].reason == "it is not a regular file"


def test_a_huge_file_is_named_and_left_out(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(folders, "MAX_ONE_BYTES", 10)
    (tmp_path / "a.md").write_bytes(b"x" * 11)
    found = read_folder(tmp_path)
    assert (list(found.files), found.left_out[0].file) == ([], "a.md")


def test_too_much_together_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(folders, "MAX_TOTAL_BYTES", 10)
    for name in "abc":
        (tmp_path / name).write_bytes(b"x" * 5)
    with pytest.raises(LimitError, match="nothing was imported"):
        read_folder(tmp_path)


def test_what_git_keeps_is_no_part_of_the_folder_and_is_named(tmp_path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref")
    found = read_folder(tmp_path)
    assert (found.files, found.left_out) == ({}, [])
    assert found.notes == [".git: git's own files; not imported"]


def test_a_file_and_nothing_are_no_directory(tmp_path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(BadInputError):
        read_folder(tmp_path / "x")
    with pytest.raises(NotFoundError):
        read_folder(tmp_path / "y")
