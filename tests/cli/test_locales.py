"""In a locale without UTF-8, files whose names it cannot show are left alone."""

from __future__ import annotations

import os

import pytest

from tests.support.world import data, live, run, spawn

pytestmark = pytest.mark.skipif(os.name == "nt", reason="names of files are Unicode there")
OLD = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture
def memory():
    root = live("ada")
    run("memory", "write", "notes.md", "Plain.\n")
    run("memory", "write", "people/日本.md", "In Kyoto.\n")
    (root / "memory" / "notes.md").write_text("By hand.\n")
    return root / "memory"


def test_what_cannot_be_named_is_out_of_sight_and_never_committed_as_deleted(memory) -> None:
    log = spawn("memory", "log", **OLD)
    assert (log.returncode, log.stderr) == (0, b"")
    assert b"edited by hand: notes.md" in log.stdout
    listed = spawn("memory", "ls", **OLD)
    assert listed.stdout == b"notes.md\n"
    assert b"PYTHONUTF8=1" in listed.stderr
    assert run("memory", "cat", "people/日本.md").stdout == "In Kyoto.\n"
    newest = data("memory", "log")["commits"][0]
    assert newest["message"] == "edited by hand: notes.md"
    assert run("memory", "blame", "people/日本.md").exit_code == 0


def test_writing_there_goes_on(memory) -> None:
    done = spawn("memory", "append", "notes.md", "More.", **OLD)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (memory / "people" / "日本.md").read_text("utf-8") == "In Kyoto.\n"
    assert run("memory", "ls").stdout == "notes.md\npeople/日本.md\n"
